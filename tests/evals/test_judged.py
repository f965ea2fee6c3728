"""What a judge is shown of an answer, and which verdict follows from what it read. No model, no network."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml
from pydantic import TypeAdapter

from evals.schema import CANNOT_BE_TOLD, AbstainTruth, DirectTruth, FactsTruth, GroundTruth, RubricItem, RubricTruth
from evals.verifiers import judge
from evals.verifiers.judged import GivenAnswer, Reading, ReadRequest, judge_answers, problem_of, task_of, verdict_of

ASKED = "How does adipogenesis respond in the thymus of mice flown in space?"
CASES = yaml.safe_load((Path(__file__).parent / "cases" / "judged.yaml").read_text(encoding="utf-8"))
TRUTHS = {name: TypeAdapter(GroundTruth).validate_python(truth) for name, truth in CASES["truths"].items()}
DOWN, SPLIT, ENZYME, BODY = (TRUTHS[name] for name in ("down", "split", "enzyme", "body"))


def test_a_reading_gets_the_verdict_that_its_answer_line_would_get():
    wrong = []
    for name, answer, *expected in CASES["readings"]:
        truth = TRUTHS[name]
        got = verdict_of(GivenAnswer(truth, ASKED, "some words"), Reading(answer))
        same = [got.verdict, got.answer] == expected and got.read_by == "judge"
        if answer != "none" and not answer.startswith("both"):
            line = judge(truth, ASKED, f"Answer: {answer}", read="answer")
            same = same and (got.verdict, got.answer, got.scores) == (line.verdict, line.answer, line.scores)
        wrong += [] if same else [(truth.kind, answer, got.verdict, got.answer)]
    assert wrong == []


def test_a_judge_is_shown_options_that_do_not_depend_on_the_truth():
    truths = (DOWN, DOWN.model_copy(update={"direction": "UP"}), SPLIT, AbstainTruth())
    assert len({task_of(truth, ASKED, "It falls.") for truth in truths}) == 1
    (first, second) = (task_of(ENZYME.model_copy(update={"value": v}), "Which class?", "x") for v in ENZYME.options[:2])  # fmt: skip
    assert first == second
    assert first.options == (*ENZYME.options, CANNOT_BE_TOLD)
    numbers = (task_of(BODY.model_copy(update={"value": v}), "How warm?", "x") for v in (1.0, 2.0))
    assert len(set(numbers)) == 1


CLOSED = ReadRequest(ASKED, "x", "up / down / cannot be told", ("up", "down", CANNOT_BE_TOLD))
OPEN = ReadRequest("Which tissue?", "x", "a name")


def test_a_reading_outside_the_options_does_not_stand():
    fine = ("up", "Up", "upregulated", "none", "both: up; down", "up / down / cannot be told")
    bad = ("both: up", "both: up; sideways", "up / down", "it depends", " ")
    assert [answer for answer in fine if problem_of(CLOSED, answer)] == []
    assert [answer for answer in bad if not problem_of(CLOSED, answer)] == []
    assert [bool(problem_of(OPEN, answer)) for answer in ("the thymus", "none", "")] == [False, False, True]


def test_a_confidence_that_the_answer_does_not_state_does_not_count():
    rows = CASES["confidences"]
    got = [verdict_of(GivenAnswer(DOWN, ASKED, text), Reading("down", read)).confidence for text, read, *_ in rows]
    assert [[each.value, each.status] for each in got] == [row[2:] for row in rows]


def test_a_false_figure_costs_v2_as_it_does_in_an_answer_that_is_read_as_text():
    missions = {"RR-6": {"nes": -3.05, "padj": 0.001}}
    truth = DirectTruth.model_validate({**DOWN.model_dump(), "missions": missions})
    got = verdict_of(GivenAnswer(truth, ASKED, "Down in RR-1 and RR-6."), Reading("down"))
    assert (got.verdict, got.scores["V1"], got.scores["V2"]) == ("correct", 1.0, 0.0)


RUBRIC = RubricTruth(items=(RubricItem(title="way", weight=3.0), RubricItem(title="tissue")))


def test_a_rubric_earns_the_share_of_the_weight_that_is_met():
    shares = {(1.0, 1.0): 1.0, (1.0, 0.5): 1.0, (1.0, 0.0): 0.75, (0.4, 1.0): 0.25, (0.0, 0.0): 0.0}
    for scores, share in shares.items():
        got = verdict_of(GivenAnswer(RUBRIC, "Why?", "It falls. Confidence: 90%"), Reading(scores=scores))
        v4 = 1 - (0.9 - (share == 1)) ** 2
        assert got.verdict == ("correct" if share == 1 else "incorrect") and got.read_by == "judge"
        assert (got.scores["V1"], got.scores["V3"]) == (share, None)
        assert got.scores["V4"] == pytest.approx(v4)
        assert got.reward == pytest.approx((0.29 * share + 0.13 * v4) / 0.42)


def test_a_rubric_without_a_judge_has_no_reward_and_facts_are_a_rubric_for_a_judge():
    assert judge(RUBRIC, "Why?", "It falls.").reward is None
    facts = FactsTruth(facts=("It falls.", "In thymus."))
    assert [item.title for item in task_of(facts, "Why?", "x").items] == list(facts.facts)
    got = verdict_of(GivenAnswer(facts, "Why?", "x"), Reading(scores=(1.0, 0.0)))
    assert (got.scores["V1"], got.reason) == (0.5, "1 of 2 items met; not met: In thymus.")


def test_empty_answers_are_no_claim_without_asking_and_equal_ones_are_asked_about_once():
    asked: list[ReadRequest] = []

    def read(tasks: Sequence[ReadRequest]) -> list[Reading]:
        asked.extend(tasks)
        return [Reading("down")] * len(tasks)

    answers = [GivenAnswer(DOWN, ASKED, text) for text in ("", "It falls.", "<think>It falls.", "It falls.")]
    got = judge_answers([*answers, GivenAnswer(RUBRIC, "Why?", " ")], read)
    assert [each.verdict for each in got] == ["no_claim", "correct", "no_claim", "correct", "no_claim"]
    assert {each.read_by for each in got} == {"judge"}
    assert (len(asked), got[-1].reward) == (1, 0.0)
    assert judge_answers([], read) == []
