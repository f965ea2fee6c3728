"""What a judge is shown of an answer, and which verdict follows from what it read. No model, no network."""

from collections.abc import Sequence

import pytest

from evals.schema import (
    CANNOT_BE_TOLD,
    AbstainTruth,
    ChoiceTruth,
    ComparisonTruth,
    CountTruth,
    DirectTruth,
    FactsTruth,
    GroundTruth,
    NumberTruth,
    RubricItem,
    RubricTruth,
    SetTruth,
    TermTruth,
    UncertaintyTruth,
)
from evals.verifiers import judge
from evals.verifiers.judged import Answer, Reading, Task, judge_answers, problem_of, task_of, verdict_of

ASKED = "How does adipogenesis respond in the thymus of mice flown in space?"
DOWN = DirectTruth(tissue="thymus", pathway="HALLMARK_ADIPOGENESIS", direction="DOWN")
SAME = ComparisonTruth(
    pathway="HALLMARK_MYOGENESIS",
    tissue_directions={"soleus": "UP", "thymus": "UP"},
    is_consistent=True,
)
SPLIT = UncertaintyTruth(
    tissue="thymus", pathway="HALLMARK_ADIPOGENESIS", missions_up=("RR-6",), missions_down=("RR-9",)
)
ENZYME = ChoiceTruth(value="lyase", options=("hydrolase", "lyase", "none"))
STOPS = SetTruth(values=("UAA", "UAG", "UGA"))
BODY = NumberTruth(value=37.0, unit="°C")
GENES = CountTruth(value=2110, subject="heart")
FAT = TermTruth(accept=("making fat cells",), others=("burning fat",))

READINGS: tuple[tuple[GroundTruth, str, str, str | None], ...] = (
    (DOWN, "down", "correct", "down"),
    (DOWN, "Down.", "correct", "down"),
    (DOWN, "up", "incorrect", "up"),
    (DOWN, "missions disagree", "incorrect", "missions disagree"),
    (DOWN, CANNOT_BE_TOLD, "incorrect", CANNOT_BE_TOLD),
    (DOWN, "none", "no_claim", None),
    (DOWN, "both: up; down", "contradictory", "down"),
    (SPLIT, "missions disagree", "correct", "missions disagree"),
    (SAME, "same direction", "correct", "same direction"),
    (SAME, "both: same direction; different directions", "contradictory", "different directions"),
    (AbstainTruth(), CANNOT_BE_TOLD, "correct", CANNOT_BE_TOLD),
    (AbstainTruth(), "down", "incorrect", "down"),
    (ENZYME, "lyase", "correct", "lyase"),
    (ENZYME, "none", "incorrect", "none"),
    (BODY, "37 °C", "correct", "37"),
    (BODY, "40", "incorrect", "40"),
    (BODY, "both: 37; 40", "contradictory", "40"),
    (GENES, "2,110 DEGs", "correct", "2,110"),
    (STOPS, "UGA, UAA and UAG", "correct", "UAA, UAG, UGA"),
    (STOPS, "UGA, UAA", "incorrect", "UAA, UGA"),
    (FAT, "the making of fat cells", "correct", "the making of fat cells"),
    (FAT, "burning fat", "incorrect", "burning fat"),
)  # fmt: skip


def test_a_reading_gets_the_verdict_that_its_answer_line_would_get():
    wrong = []
    for truth, answer, verdict, said in READINGS:
        got = verdict_of(Answer(truth, ASKED, "some words"), Reading(answer))
        if (got.verdict, got.answer, got.read_by) != (verdict, said, "judge"):
            wrong.append((truth.kind, answer, got.verdict, got.answer))
        if answer != "none" and not answer.startswith("both"):
            line = judge(truth, ASKED, f"Answer: {answer}", read="answer")
            if (got.verdict, got.answer, got.scores) != (line.verdict, line.answer, line.scores):
                wrong.append((truth.kind, answer, "line", line.verdict, line.answer))
    assert wrong == []


def test_a_judge_is_shown_options_that_do_not_depend_on_the_truth():
    truths = (DOWN, DOWN.model_copy(update={"direction": "UP"}), SPLIT, AbstainTruth())
    assert len({task_of(truth, ASKED, "It falls.") for truth in truths}) == 1
    (first, second) = (task_of(ENZYME.model_copy(update={"value": v}), "Which class?", "x") for v in ENZYME.options[:2])  # fmt: skip
    assert first == second
    assert first.options == (*ENZYME.options, CANNOT_BE_TOLD)
    numbers = (task_of(BODY.model_copy(update={"value": v}), "How warm?", "x") for v in (1.0, 2.0))
    assert len(set(numbers)) == 1


CLOSED = Task(ASKED, "x", "up / down / cannot be told", ("up", "down", CANNOT_BE_TOLD))
OPEN = Task("Which tissue?", "x", "a name")


def test_a_reading_outside_the_options_does_not_stand():
    fine = ("up", "Up", "upregulated", "none", "both: up; down", "up / down / cannot be told")
    bad = ("both: up", "both: up; sideways", "up / down", "it depends", " ")
    assert [answer for answer in fine if problem_of(CLOSED, answer)] == []
    assert [answer for answer in bad if not problem_of(CLOSED, answer)] == []
    assert [bool(problem_of(OPEN, answer)) for answer in ("the thymus", "none", "")] == [False, False, True]


STATED = (
    ("It falls, I would put it at 80 of 100.", 80.0, 0.8, "stated"),
    ("It falls.\nConfidence: 80%", 80.0, 0.8, "stated"),
    ("It falls.\nConfidence: 0.8", 0.8, 0.8, "stated"),
    ("It falls.\nConfidence: 0.5%", 0.5, 0.005, "stated"),
    ("It falls.\nConfidence: high", 90.0, 0.85, "stated"),
    ("It falls in 80% of genes, I am 70 percent sure.", 70.0, 0.7, "stated"),
    ("It falls.\nConfidence: 140%", 140.0, None, "invalid"),
    ("It clearly falls.", 95.0, None, "missing"),
    ("<think>95%</think>It clearly falls.", 95.0, None, "missing"),
    ("It falls.", None, None, "missing"),
)


def test_a_confidence_that_the_answer_does_not_state_does_not_count():
    got = [verdict_of(Answer(DOWN, ASKED, text), Reading("down", read)).confidence for text, read, *_ in STATED]
    assert [(each.value, each.status) for each in got] == [(value, status) for *_, value, status in STATED]


def test_a_false_figure_costs_v2_as_it_does_in_an_answer_that_is_read_as_text():
    missions = {"RR-6": {"nes": -3.05, "padj": 0.001}}
    truth = DirectTruth.model_validate({**DOWN.model_dump(), "missions": missions})
    got = verdict_of(Answer(truth, ASKED, "Down in RR-1 and RR-6."), Reading("down"))
    assert (got.verdict, got.scores["V1"], got.scores["V2"]) == ("correct", 1.0, 0.0)


RUBRIC = RubricTruth(items=(RubricItem(title="way", weight=3.0), RubricItem(title="tissue")))


def test_a_rubric_earns_the_share_of_the_weight_that_is_met():
    shares = {(1.0, 1.0): 1.0, (1.0, 0.5): 1.0, (1.0, 0.0): 0.75, (0.4, 1.0): 0.25, (0.0, 0.0): 0.0}
    for scores, share in shares.items():
        got = verdict_of(Answer(RUBRIC, "Why?", "It falls. Confidence: 90%"), Reading(scores=scores))
        v4 = 1 - (0.9 - (share == 1)) ** 2
        assert got.verdict == ("correct" if share == 1 else "incorrect") and got.read_by == "judge"
        assert (got.scores["V1"], got.scores["V3"]) == (share, None)
        assert got.scores["V4"] == pytest.approx(v4)
        assert got.reward == pytest.approx((0.29 * share + 0.13 * v4) / 0.42)


def test_a_rubric_without_a_judge_has_no_reward_and_facts_are_a_rubric_for_a_judge():
    assert judge(RUBRIC, "Why?", "It falls.").reward is None
    facts = FactsTruth(facts=("It falls.", "In thymus."))
    assert [item.title for item in task_of(facts, "Why?", "x").items] == list(facts.facts)
    got = verdict_of(Answer(facts, "Why?", "x"), Reading(scores=(1.0, 0.0)))
    assert (got.scores["V1"], got.reason) == (0.5, "1 of 2 items met; not met: In thymus.")


def test_empty_answers_are_no_claim_without_asking_and_equal_ones_are_asked_about_once():
    asked: list[Task] = []

    def read(tasks: Sequence[Task]) -> list[Reading]:
        asked.extend(tasks)
        return [Reading("down")] * len(tasks)

    answers = [Answer(DOWN, ASKED, text) for text in ("", "It falls.", "<think>It falls.", "It falls.")]
    got = judge_answers([*answers, Answer(RUBRIC, "Why?", " ")], read)
    assert [each.verdict for each in got] == ["no_claim", "correct", "no_claim", "correct", "no_claim"]
    assert {each.read_by for each in got} == {"judge"}
    assert (len(asked), got[-1].reward) == (1, 0.0)
    assert judge_answers([], read) == []
