"""Pairs made by rule: what a rule changes of a reference answer, and what it leaves as it is."""

import pytest

from evals.refine.items import degraded
from tests.evals.refiner.answers import record

PASSAGES = "<snippet id=up-1>OXPHOS is up by 5</snippet>\n<snippet id=5>5 mice</snippet>"


@pytest.mark.parametrize(
    ("gold", "about", "worse"),
    [
        (
            "<answer>It is up. <snippet id=up-1,5>OXPHOS is up</snippet></answer>",
            "tells the opposite direction",
            "<answer>It is down. <snippet id=up-1,5>OXPHOS is down</snippet></answer>",
        ),
        (
            "<answer><snippet id=5>5</snippet></answer>",
            "gives another figure",
            "<answer><snippet id=5>6</snippet></answer>",
        ),
        (
            "<answer><snippet id=up-1>up by 12 in 2 studies</snippet></answer>",
            "gives another figure",
            "<answer><snippet id=up-1>up by 22 in 2 studies</snippet></answer>",
        ),
    ],
)
def test_a_rule_changes_what_is_said_and_leaves_the_cited_ids_alone(gold: str, about: str, worse: str):
    pairs = degraded([record(tool_output=PASSAGES, reference=gold)])
    assert {pair.about: pair.worse for pair in pairs}[about] == worse
