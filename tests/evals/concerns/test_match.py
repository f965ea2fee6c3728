"""Who matches whom, and the rates that follow: by hand, and against plain counting."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from evals.errors import LabError
from evals.review.match import UNATTRIBUTED, greedy, match, optimal
from evals.review.score import articles_of, micro_rates
from evals.review.task import Review
from tests.evals.concerns.rows import human, panel, predicted, ready, reference

TRAP = np.array([[0.9, 0.8], [0.85, 0.1]])
"""The most alike pair first leaves the second row without a partner above 0.5."""


def test_optimal_finds_more_pairs_than_greedy_where_that_is_possible() -> None:
    assert list(zip(*optimal(TRAP, 0.5), strict=True)) == [(0, 1), (1, 0)]
    assert list(zip(*greedy(TRAP, 0.5), strict=True)) == [(0, 0)]


def test_a_pair_at_the_threshold_is_eligible_and_one_below_is_not() -> None:
    for block in (np.array([[0.65]]), np.array([[0.65]], dtype=np.float32)):
        assert len(optimal(block, 0.65)[0]) == len(greedy(block, 0.65)[0]) == 1
        assert len(optimal(block - 0.001, 0.65)[0]) == 0


BLOCKS = arrays.arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(1, 4)), elements=st.floats(0, 1, width=16))


@given(BLOCKS, st.floats(0.1, 0.9))
def test_optimal_has_most_pairs_and_then_the_greatest_sum(block: np.ndarray, threshold: float) -> None:
    rows, columns = optimal(block, threshold)
    found = (len(rows), round(float(block[rows, columns].sum()), 9))
    square = block if block.shape[0] <= block.shape[1] else block.T
    best = (0, 0.0)
    for order in itertools.permutations(range(square.shape[1]), square.shape[0]):
        kept = [square[i, j] for i, j in enumerate(order) if square[i, j] >= threshold]
        best = max(best, (len(kept), round(float(sum(kept)), 9)))
    assert found == best


MEANT = (human("a a", "design_flaw", "major"), human("b b", "interpretation"), human("c c", "design_flaw", figure=True))
SAID = ({"text": "x", "category": "design_flaw", "severity": "minor"}, "y", " ")
TWO = panel(
    (reference("elife:1", *MEANT), predicted("elife:1", *SAID)),
    (reference("plos:2", human("d d", "other", "major")), predicted("plos:2", "z", "w")),
    (reference("plos:3"), predicted("plos:3", "v")),
    (reference("plos:4", human("e e", "other", "major")), None),
)
MATRICES = {"elife:1": [[0.9, 0.1, 0.99], [0.2, 0.3, 0.99], [0.0, 0.0, 0.0]], "plos:2": [[0.7], [0.8]], "plos:3": [[]]}


def test_the_counts_of_articles_are_pooled_after_figures_and_blanks_are_left_out() -> None:
    rates = micro_rates(articles_of(TWO, match(TWO, ready(TWO, **MATRICES), 0.65)))
    assert (rates.n_human, rates.n_predicted, rates.n_matched) == (4, 5, 2)
    assert (rates.recall, rates.precision, rates.f1) == (2 / 4, 2 / 5, 4 / 9)
    assert rates.recall_major == pytest.approx(2 / 3)
    assert TWO.coverage.n_figures_left_out == 1
    assert TWO.coverage.n_blank == 1
    assert (TWO.coverage.n_answered, TWO.coverage.missing) == (3, ("plos:4",))


def test_no_group_loses_a_predicted_concern() -> None:
    groups = Review.groups(articles_of(TWO, match(TWO, ready(TWO, **MATRICES), 0.65)))
    for kind in ("category", "severity"):
        rates = [micro_rates(rows) for name, rows in groups.items() if name.startswith(kind)]
        assert sum(each.n_predicted for each in rates) == 5
        assert sum(each.n_human for each in rates) == 4
    assert micro_rates(groups["category design_flaw"]).recall == 1.0
    said = {"interpretation": 1, "other": 2, UNATTRIBUTED: 1}
    assert {name: micro_rates(groups[f"category {name}"]).n_predicted for name in said} == said
    sources = {name: len(rows) for name, rows in groups.items() if "source" in name}
    assert sources == {"source plos": 3, "source elife": 1}


def test_a_flag_or_the_category_says_that_a_concern_is_about_a_figure() -> None:
    row = reference("a", human("x y"), human("x z", "figure_issue"), human("y z", "other", "minor", figure=True))
    assert panel((row, predicted("a", "x"))).human.texts == ("x y",)


def test_similarities_of_the_wrong_shape_are_refused_with_both_shapes() -> None:
    with pytest.raises(LabError, match="3 rows \\(predicted\\) and 3 columns"):
        ready(TWO, **(MATRICES | {"elife:1": [[0.1, 0.2]]}))


def test_predictions_on_other_articles_are_named_and_left_out() -> None:
    found = panel((reference("a", "x y"), predicted("a", "x")), (reference("b", "z"), None))
    assert found.coverage.unknown == ()
    with pytest.raises(LabError, match="no article of the predictions"):
        panel((reference("a", "x y"), predicted("q", "x")))
