"""Answers that need no model: what each is right on, and that a trick earns nothing."""

from collections import Counter

from evals.questions import DATASETS, pathway_heldout
from evals.questions.baselines import BASELINES, baseline_answers, tissue_majorities
from evals.questions.sets import question_row, to_example
from evals.schema import Example
from evals.verifiers import verify
from evals.verifiers.line import read_lines

HELD_OUT = pathway_heldout()
ANSWERS = baseline_answers(HELD_OUT, DATASETS["pathways-train"]())


def test_every_baseline_answers_the_held_out_questions_and_says_nothing_where_it_has_nothing_to_say() -> None:
    assert list(ANSWERS) == list(BASELINES)
    for data in sorted(DATASETS):
        examples = DATASETS[data]()
        assert {len(answers) for answers in baseline_answers(examples).values()} == {len(examples)}
    kmp = baseline_answers(DATASETS["kmp-test"]())
    assert not {"always up, 60%", "tissue majority, 80%", "most frequent in training, 60%"} & kmp.keys()


def test_a_baseline_is_right_as_often_as_the_data_go_its_way() -> None:
    expected = {
        "always down, 60%": {"direct": 31}, "always up, 60%": {"direct": 17}, "always disagreement, 60%": {"uncertainty": 9},
        "always abstain, 60%": {}, "first option listed, 60%": {"direct": 17, "conservation": 1},
        "system prompt only, 60%": {"direct": 31, "mechanism": 1}, "tissue majority, 80%": {"direct": 39},
        "restate the finding, 80%": {}, "restate and explain, 80%": {},
    }  # fmt: skip
    right = {
        name: dict(
            Counter(
                row.ground_truth.kind
                for row, text in zip(HELD_OUT, answers, strict=True)
                if verify(row, text).verdict == "correct"
            )
        )
        for name, answers in ANSWERS.items()
    }
    assert {name: right[name] for name in expected} == expected
    # the option that a question names first is a coin toss, and never what a set stands for
    copied = right["copy an option of the question, 60%"]
    assert copied.keys() == {"direct"} and 0.2 < copied["direct"] / 48 < 0.65
    assert (tissue_majorities()["thymus"], tissue_majorities()["eye"]) == ("down", "up")


def test_saying_nothing_earns_nothing() -> None:
    idle = ("echo the question, 62%", "echo as a statement, 62%", "all options listed, 60%")
    for examples in (HELD_OUT, DATASETS["kmp-test"]()):
        answers = baseline_answers(examples)
        for name in (*idle, "only a confidence, 50%", "empty answer"):
            pairs = zip(examples, answers.get(name, []), strict=False)
            assert {verify(x, text, read="answer").reward for x, text in pairs} <= {0.0}, name


def test_baselines_have_something_to_say_to_a_set_of_ones_own() -> None:
    leu = {"kind": "choice", "value": "Leu", "options": ["Phe", "Leu", "Ser"]}
    asked = {
        "Does CUU code for Leu or Phe?": leu,
        "And CUC?": leu,
        "How many of the 64 codons are stop codons?": {"kind": "number", "value": 3},
        "Which codons stop translation, beside UAA and UAG?": {"kind": "set", "values": ["UAA", "UAG", "UGA"]},
        "What does a lyase do?": {"kind": "term", "accept": ["breaks bonds"]},
    }

    def row(prompt: str, truth: dict[str, object], split: str = "test") -> Example:
        given = {"id": prompt, "prompt": prompt, "truth": truth, "group": prompt, "split": split}
        return to_example(question_row(given), "mine")

    train = row("What does UCU code for?", leu | {"value": "Ser"}, "train")
    answers = baseline_answers([row(*each) for each in asked.items()], [train])
    said = {
        "first option listed, 60%": ["Phe", "Phe", None, None, None],
        "most frequent in training, 60%": ["Ser", "Ser", None, None, None],
        "system prompt only, 60%": ["Leu", "Leu", None, None, None],
        "copy an option of the question, 60%": ["Leu", None, "64", "UAA, UAG", None],
        "echo the question, 62%": list(asked),
        "always abstain, 60%": ["cannot be told from these data"] * 5,
    }
    assert {name: [read_lines(text).answer for text in answers[name]] for name in said} == said
    assert "always up, 60%" not in answers
