"""What speaks against a board: each fault is found where it was planted, and seldom where there is none."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import pytest

from evals.preferences.board import ALARM, checks, exact_share, over_votes
from evals.schema.votes import BoardCheck
from evals.stats.ranking import Vote
from tests.evals.ranking import voted

STRENGTHS = {"base": -0.8, "sft": -0.2, "dpo": 0.3, "grpo": 0.7}
"""True ratings in logits."""
TIE = -0.7


class Cast(NamedTuple):
    """Votes with the texts they are on; the first is the left one."""

    votes: list[Vote]
    texts: list[tuple[str, str]]

    def checked(self) -> dict[str, BoardCheck]:
        return {each.name: each for each in checks(self.votes, self.texts)}


Pull = Callable[[str, str, str, tuple[str, str]], float]
"""What makes the left answer win beside who wrote it, in logits: left, right, rater, the two texts."""


def cast(
    seed: int, n: int = 240, raters: int = 6, pull: Pull = lambda *_: 0.0, strengths: Mapping[str, float] = STRENGTHS
) -> Cast:
    """Return votes of raters on sixty questions, whose answers are of any length and hold a list now and then."""
    chance = np.random.default_rng(seed)
    found = Cast([], [])
    for k in range(n):
        left, right = chance.permutation(list(strengths))[:2]
        words, points = chance.integers(20, 200, 2), chance.integers(0, 4, 2)
        one, other = ("word " * a + "\n- point" * b for a, b in zip(words, points, strict=True))
        rater = f"rater {chance.integers(raters)}"
        lead = strengths[left] - strengths[right] + pull(left, right, rater, (one, other))
        odds = np.exp([lead / 2, -lead / 2, TIE])
        score = (1.0, 0.0, 0.5)[chance.choice(3, p=odds / odds.sum())]
        found.votes.append(Vote(str(left), str(right), score, f"question {k % 60}", rater))
        found.texts.append((one, other))
    return found


def test_votes_without_a_fault_raise_none() -> None:
    seeds = 40
    raised = Counter(each.name for seed in range(seeds) for each in cast(seed).checked().values() if each.is_fault)
    assert raised.total() <= 5 * ALARM * seeds + 2, raised


def test_a_side_that_wins_as_a_side_is_told_with_the_interval_of_its_share() -> None:
    found = cast(1, pull=lambda *_: 0.9).checked()["sides"]
    assert (found.is_fault, found.says) == (True, ("sides.left",))
    assert 50 < found.figures["low"] < 100 * found.figures["left"] / found.figures["n"] < found.figures["high"]


def test_one_rater_who_always_takes_the_left_is_told_though_the_side_wins_no_more_than_half() -> None:
    found = cast(2, raters=12, pull=lambda left, right, rater, _: 9.0 * (rater == "rater 3")).checked()["sides"]
    assert (found.says, found.figures["rater"]) == (("sides.rater",), "rater 3")
    assert found.figures["own"] == found.figures["of"]


def test_models_that_beat_each_other_in_a_circle_are_told_in_its_order() -> None:
    beats = {("base", "sft"), ("sft", "dpo"), ("dpo", "base")}
    found = cast(
        3,
        strengths=dict.fromkeys(STRENGTHS, 0.0),
        pull=lambda left, right, *_: 1.4 * (((left, right) in beats) - ((right, left) in beats)),
    ).checked()["circles"]
    one, other, third = (found.figures[each] for each in ("one", "other", "third"))
    assert found.is_fault
    assert {(one, other), (other, third), (third, one)} == beats


def test_an_order_that_hangs_on_one_rater_is_told_with_how_many_votes_are_theirs() -> None:
    def biased(left: str, right: str, rater: str, _: tuple[str, str]) -> float:
        return 6.0 * ((left == "base") - (right == "base")) * (rater == "rater 0")

    found = cast(4, raters=3, pull=biased).checked()["raters"]
    assert (found.is_fault, found.figures["rater"], found.figures["one"]) == (True, "rater 0", "base")


@pytest.mark.parametrize("style", ["length", "markdown"])
def test_length_and_markdown_that_win_votes_whoever_wrote_the_answer_are_told_apart(style: str) -> None:
    def swayed(left: str, right: str, rater: str, texts: tuple[str, str]) -> float:
        one, other = (len(each) if style == "length" else each.count("\n- ") for each in texts)
        return 2.5 * (one - other) / max(one + other, 1)

    found = cast(5, pull=swayed).checked()["style"]
    assert (found.is_fault, found.says[0]) == (True, f"style.{style}.more")
    assert found.figures["odds"] > 1.5


def test_an_order_that_turns_around_once_ties_count_for_nothing_is_told() -> None:
    votes = voted({("base", "sft"): (12, 1, 90), ("dpo", "sft"): (70, 25, 8)})
    found = Cast(votes, [("a", "b")] * len(votes)).checked()["ties"]
    assert (found.is_fault, found.figures["one"], found.figures["other"]) == (True, "dpo", "base")


def test_a_share_of_votes_has_the_exact_binomial_interval_and_a_wider_one_where_raters_go_together() -> None:
    assert exact_share([[1.0] * 8 + [0.0] * 2], 0.05) == pytest.approx((0.4439, 0.9748), abs=1e-4)
    assert exact_share([[1.0] * 5], 0.05) == pytest.approx((0.4782, 1.0), abs=1e-4)
    apart = exact_share([[1.0, 0.0] * 5] * 12, 0.05)
    together = exact_share([[1.0] * 10, [0.0] * 10] * 6, 0.05)
    assert together[1] - together[0] > 2 * (apart[1] - apart[0])


def test_ratings_over_votes_end_in_those_of_all_votes_and_their_intervals_narrow() -> None:
    points = [each for each in over_votes(cast(6).votes) if each.model == "grpo"]
    assert (points[0].votes, points[-1].votes, len(points)) == (12, 240, 20)
    assert points[-1].high - points[-1].low < 0.6 * (points[1].high - points[1].low)
    assert points[-1].low < points[-1].rating < points[-1].high
