"""Merged lists say who said what, and never join what is far apart."""

import numpy as np
import pytest

from evals.errors import BadConfig
from evals.review.ensemble import Merging, Tool, clusters_of, merge, merging_threshold
from evals.review.match import ReadyVectors
from tests.evals.concerns.rows import WordEncoder, predicted

ANGLES = [0, 11, 22, 33, 44]
FAN = np.array([[np.cos(np.radians(a - b)) for b in ANGLES] for a in ANGLES])
"""Neighbours 0.982 alike, the ends 0.719."""


def test_single_linkage_chains_what_complete_linkage_keeps_apart() -> None:
    tools = [0, 1, 0, 1, 0]
    assert clusters_of(FAN, tools, 0.98, "single") == [[0, 1, 2, 3, 4]]
    assert clusters_of(FAN, tools, 0.98, "complete") == [[0, 1], [2, 3], [4]]


def test_concerns_of_one_tool_are_never_joined_to_each_other() -> None:
    assert clusters_of(np.ones((3, 3)), [0, 0, 0], 0.5, "complete") == [[0], [1], [2]]
    assert clusters_of(np.ones((3, 3)), [0, 0, 1], 0.5, "complete") == [[0, 2], [1]]


def vectors(**angles: float) -> ReadyVectors:
    table = {k: (np.cos(np.radians(v)), np.sin(np.radians(v))) for k, v in angles.items()}
    return ReadyVectors("file", table)


def labelled(text: str, severity: str, category: str = "other") -> dict:
    return {"text": text, "category": category, "severity": severity}


A = Tool("a", (predicted("1", labelled("p", "minor"), labelled("q", "minor"), labelled("r", "major")),))
B = Tool("b", (predicted("1", labelled("s", "minor"), labelled("t", "optional")), predicted("2", "u")))
SPACE = vectors(p=0, q=90, r=180, s=5, t=270, u=45)


def texts(strategy: str, **more: object) -> list[str]:
    merging = Merging(strategy, 0.98, **more)
    return [each.text for each in merge([A, B], merging, SPACE).rows[0].concerns]


def test_the_best_supported_stand_first_then_the_more_severe() -> None:
    assert texts("union") == ["p", "r", "q", "t"]
    assert texts("vote") == texts("intersection") == ["p"]
    assert texts("union", cap=2) == ["p", "r"]


def test_every_concern_says_where_it_came_from() -> None:
    found = merge([A, B], Merging("union", 0.98, cap=2), SPACE)
    first = found.rows[0].concerns[0]
    assert (first.support, first.sources) == (2, ("a", "b"))
    assert [(each.tool, each.index, each.text) for each in first.origins] == [("a", 0, "p"), ("b", 0, "s")]
    assert [each.text for each in found.rows[0].removed] == ["q", "t"]
    assert (found.n_given, found.n_clusters, found.n_fused) == ({"a": 3, "b": 3}, 5, 1)
    assert found.rows[1].concerns[0].sources == ("b",)


def test_the_words_are_those_nearest_to_all_and_labels_are_what_most_say() -> None:
    tools = [
        Tool("a", (predicted("1", labelled("p", "major")),)),
        Tool("b", (predicted("1", labelled("q", "minor")),)),
        Tool("c", (predicted("1", labelled("r", "minor")),)),
    ]
    (row,) = merge(tools, Merging("intersection", 0.9), vectors(p=0, q=10, r=20)).rows
    (concern,) = row.concerns
    assert (concern.text, concern.severity, concern.support) == ("q", "minor", 3)


def test_the_threshold_of_merging_is_what_other_papers_reach() -> None:
    rows = tuple(
        predicted(f"x:{i}", *(f"topic gene{i}{k} assay{i}{k} tissue{i}{k}" for k in range(4))) for i in range(20)
    )
    found = merging_threshold([Tool("a", rows), Tool("b", rows)], WordEncoder(), seed=0)
    assert 0.25 < found.value < 0.95
    merged = merge([Tool("a", rows), Tool("b", rows)], Merging("union", found.value), WordEncoder())
    assert merged.n_clusters == 80


@pytest.mark.parametrize("tools", [[A], [A, A]])
def test_an_ensemble_needs_two_tools(tools: list[Tool]) -> None:
    with pytest.raises(BadConfig, match="two files or more"):
        merge(tools, Merging("union", 0.9), SPACE)


def test_more_votes_than_tools_are_refused() -> None:
    with pytest.raises(BadConfig, match="more than the 2 tools"):
        merge([A, B], Merging("vote", 0.9, min_votes=3), SPACE)
