"""Answers that need no model: what each is right on, and that a trick earns nothing."""

from collections import Counter

import pytest

from evals.questions import DATASETS, pathway_heldout
from evals.questions.baselines import BASELINES, baseline_answers, tissue_majorities
from evals.questions.prompt import with_answer
from evals.schema import ChoiceTruth, Example, GroundTruth, NumberTruth, SetTruth, TermTruth
from evals.verifiers import verify
from evals.verifiers.line import read_lines

HELD_OUT = pathway_heldout()
ANSWERS = baseline_answers(HELD_OUT, DATASETS["pathways-train"]())


def right(name: str) -> dict[str, int]:
    """Return on how many held-out questions of each kind a baseline is right."""
    pairs = zip(HELD_OUT, ANSWERS[name], strict=True)
    return dict(Counter(x.ground_truth.kind for x, text in pairs if verify(x, text).verdict == "correct"))


def test_every_baseline_answers_the_held_out_questions_and_says_nothing_where_it_has_nothing_to_say() -> None:
    assert list(ANSWERS) == list(BASELINES)
    for data in sorted(DATASETS):
        examples = DATASETS[data]()
        assert {len(answers) for answers in baseline_answers(examples).values()} == {len(examples)}
    kmp = baseline_answers(DATASETS["kmp-test"]())
    assert not {"always up, 60%", "tissue majority, 80%", "most frequent in training, 60%"} & kmp.keys()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("always down, 60%", {"direct": 31}),
        ("always up, 60%", {"direct": 17}),
        ("always disagreement, 60%", {"uncertainty": 9}),
        ("always abstain, 60%", {}),
        ("first option listed, 60%", {"direct": 17, "conservation": 1}),
        ("system prompt only, 60%", {"direct": 31, "mechanism": 1}),
        ("tissue majority, 80%", {"direct": 39}),
        ("restate the finding, 80%", {}),
        ("restate and explain, 80%", {}),
    ],
)
def test_a_baseline_is_right_as_often_as_the_data_go_its_way(name: str, expected: dict[str, int]) -> None:
    assert right(name) == expected


def test_the_option_that_a_question_names_first_is_a_coin_toss_and_never_what_a_set_stands_for() -> None:
    found = right("copy an option of the question, 60%")
    assert found.keys() == {"direct"} and 0.2 < found["direct"] / 48 < 0.65


def test_saying_nothing_earns_nothing() -> None:
    idle = ("echo the question, 62%", "echo as a statement, 62%", "all options listed, 60%")
    for examples in (HELD_OUT, DATASETS["kmp-test"]()):
        answers = baseline_answers(examples)
        for name in (*idle, "only a confidence, 50%", "empty answer"):
            pairs = zip(examples, answers.get(name, []), strict=False)
            assert {verify(x, text, read="answer").reward for x, text in pairs} <= {0.0}, name


def test_the_tissue_rule_knows_which_way_a_tissue_mostly_goes() -> None:
    assert (tissue_majorities()["thymus"], tissue_majorities()["eye"]) == ("down", "up")


def asked(prompt: str, truth: GroundTruth, right: str, split: str = "test") -> Example:
    return Example(
        id=prompt,
        source="mine",
        kind=truth.kind,
        prompt=prompt,
        answer=with_answer("", right, 95),
        confidence=0.95,
        ground_truth=truth,
        facts=(prompt,),
        cluster=prompt,
        split=split,
    )


LEU = ChoiceTruth(value="Leu", options=("Phe", "Leu", "Ser"))
STOPS = SetTruth(values=("UAA", "UAG", "UGA"))
OWN = (
    asked("Does CUU code for Leu or Phe?", LEU, "Leu"),
    asked("And CUC?", LEU, "Leu"),
    asked("How many of the 64 codons are stop codons?", NumberTruth(value=3), "3"),
    asked("Which codons stop translation, beside UAA and UAG?", STOPS, "UAA, UAG, UGA"),
    asked("What does a lyase do?", TermTruth(accept=("breaks bonds",)), "breaks bonds"),
)
OWN_TRAIN = (asked("What does UCU code for?", LEU.model_copy(update={"value": "Ser"}), "Ser", "train"),)


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("first option listed, 60%", ["Phe", "Phe", None, None, None]),
        ("most frequent in training, 60%", ["Ser", "Ser", None, None, None]),
        ("system prompt only, 60%", ["Leu", "Leu", None, None, None]),
        ("copy an option of the question, 60%", ["Leu", None, "64", "UAA, UAG", None]),
        ("echo the question, 62%", [example.prompt for example in OWN]),
        ("always abstain, 60%", ["cannot be told from these data"] * 5),
    ],
)
def test_baselines_have_something_to_say_to_a_set_of_ones_own(name: str, lines: list[str | None]) -> None:
    answers = baseline_answers(OWN, OWN_TRAIN)
    assert [read_lines(text).answer for text in answers[name]] == lines
    assert "always up, 60%" not in answers
