"""Ranks as tables show them."""

import pytest

from evals.leaderboard import shown_ranks

CASES = [
    ([], []),
    ([None, None], ["–", "–"]),
    ([1, 2, 3], ["1", "2", "3"]),
    ([1, 1, 3, None], ["=1", "=1", "3", "–"]),
    ([1, 2, 2, 4], ["1", "=2", "=2", "4"]),
    ([1, 2, 1], ["=1", "2", "=1"]),  # a wide interval below a narrow one
]


@pytest.mark.parametrize(("ranks", "shown"), CASES)
def test_a_rank_that_several_share_is_marked_whatever_stands_between(ranks: list[int | None], shown: list[str]):
    assert shown_ranks(ranks) == shown
