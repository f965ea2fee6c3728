"""What a judge reads in an answer and the verdict that follows; how far readers agree with labels. No model, no network."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml
from pydantic import TypeAdapter

import evals
from evals.errors import BadConfig, LabError
from evals.io import read_rows
from evals.readers import (
    GivenAnswer,
    LabelRow,
    Reading,
    ReadRequest,
    check_way,
    compare_readers,
    judge_answers,
    judge_question,
    problem_of,
    verdict_of,
    with_texts,
)
from evals.schema import (
    CANNOT_BE_TOLD,
    AbstainTruth,
    ChoiceTruth,
    DirectTruth,
    FactsTruth,
    GroundTruth,
    RubricItem,
    RubricTruth,
)
from evals.stats.intervals import wilson
from evals.verifiers import verify_prepared

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
            line = verify_prepared(truth, ASKED, f"Answer: {answer}", read="answer")
            same = same and (got.verdict, got.answer, got.scores) == (line.verdict, line.answer, line.scores)
        wrong += [] if same else [(truth.kind, answer, got.verdict, got.answer)]
    assert wrong == []


def test_a_judge_is_shown_options_that_do_not_depend_on_the_truth():
    truths = (DOWN, DOWN.model_copy(update={"direction": "UP"}), SPLIT, AbstainTruth())
    assert len({judge_question(truth, ASKED, "It falls.") for truth in truths}) == 1
    (first, second) = (judge_question(ENZYME.model_copy(update={"value": v}), "Which class?", "x") for v in ENZYME.options[:2])  # fmt: skip
    assert first == second
    assert first.options == (*ENZYME.options, CANNOT_BE_TOLD)
    numbers = (judge_question(BODY.model_copy(update={"value": v}), "How warm?", "x") for v in (1.0, 2.0))
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
    assert verify_prepared(RUBRIC, "Why?", "It falls.").reward is None
    facts = FactsTruth(facts=("It falls.", "In thymus."))
    assert [item.title for item in judge_question(facts, "Why?", "x").items] == list(facts.facts)
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


# ---- agreement with labels --------------------------------------------------------------------

LABELS = Path(evals.__file__).parent / "labels"
CODON = ChoiceTruth(value="Leu", options=("Phe", "Leu", "Ser"))


def row(place: int, line: str | None, label: object, **more: object) -> LabelRow:
    text = f"So it is.\nAnswer: {line}\nConfidence: 90%" if line else "I would not know."
    given = {"id": str(place), "prompt": f"Question {place // 2}?", "completion": text, "label": label}
    return LabelRow.model_validate({**given, "ground_truth": CODON, **more})


ROWS = [row(place, *told) for place, told in enumerate(CASES["labelled"])]


def test_agreement_is_counted_with_either_of_several_labels_right_and_unread_answers_apart() -> None:
    (found,) = compare_readers(ROWS, ["answer"], draws=500).readers
    assert (found.n, found.n_unread) == (6, 1)
    assert found.correct.value == pytest.approx(5 / 6)
    assert found.verdicts.value == pytest.approx(4 / 6)
    assert found.correct.low is not None and found.correct.low < 5 / 6 < (found.correct.high or 0)
    assert found.confusion["incorrect"] == {"correct": 1, "incorrect": 2, "contradictory": 0, "no_claim": 0}
    assert found.confusion["no_claim"]["incorrect"] == 1
    misread = [(one.id, one.labels, one.verdict) for one in found.misread]
    assert misread == [("1", ("incorrect",), "correct"), ("5", ("no_claim",), "incorrect")]
    assert found.by_kind["choice"].model_dump() == {"n": 6, "correct": 5, "verdicts": 4}


def test_full_agreement_has_wilsons_interval_over_questions_and_nothing_read_has_none() -> None:
    (found,) = compare_readers(ROWS[2:5], ["answer"]).readers
    assert (found.verdicts.low, found.verdicts.high) == pytest.approx(wilson(2, 2))
    (nothing,) = compare_readers(ROWS[6:], ["answer"]).readers
    assert (nothing.n, nothing.correct.value, nothing.n_unread) == (0, None, 1)


def test_a_judge_is_held_against_the_labels_like_any_reader() -> None:
    def says_leu(tasks: Sequence[ReadRequest]) -> list[Reading]:
        return [Reading("Leu")] * len(tasks)

    (found,) = compare_readers(ROWS, ["judge"], says_leu, draws=100).readers
    assert (found.n, found.verdicts.value) == (7, pytest.approx(1 / 7))
    with pytest.raises(BadConfig, match="none is named"):
        compare_readers(ROWS, ["judge"])
    with pytest.raises(BadConfig, match="'ear'; choose one of auto, answer, text, judge"):
        check_way("ear")


def test_two_labellers_are_compared_by_kappa_on_what_each_named_first() -> None:
    pairs = [("correct", "correct"), ("incorrect", "no_claim"), (["no_claim", "incorrect"], "no_claim")] * 4
    rows = [row(place, "Leu", "correct", labelled_twice=pair) for place, pair in enumerate(pairs)]
    found = compare_readers([*rows, row(99, "Leu", "correct")], ["answer"], draws=100).labellers
    assert found["percent_agreement"].value == pytest.approx(2 / 3)
    by_chance = (1 * 1 + 1 * 2) / 9
    assert found["cohen_kappa"].value == pytest.approx((2 / 3 - by_chance) / (1 - by_chance))
    assert found["cohen_kappa"].n == 12
    assert compare_readers(ROWS, ["answer"], draws=10).labellers == {}


def test_texts_are_read_from_the_files_of_others_and_what_is_not_there_is_named(tmp_path: Path) -> None:
    answers = {"answers": {"Phi-2": [{"question": "Which?", "response": "Answer: Leu"}]}}
    (tmp_path / "theirs.json").write_text(json.dumps(answers), encoding="utf-8")
    given = {"id": "a", "ground_truth": CODON, "label": "correct", "file": "theirs.json"}
    there = LabelRow.model_validate({**given, "at": ["answers", "Phi-2", 0]})
    (found,) = with_texts([there], tmp_path)
    assert (found.prompt, found.completion) == ("Which?", "Answer: Leu")
    with pytest.raises(LabError, match=r"--texts FOLDER"):
        with_texts([there], None)
    with pytest.raises(LabError, match="cannot read"):
        with_texts([there], tmp_path / "elsewhere")
    with pytest.raises(LabError, match=r"theirs.json holds nothing at \['answers', 'Phi-2', 7\].*'a'"):
        with_texts([LabelRow.model_validate({**given, "at": ["answers", "Phi-2", 7]})], tmp_path)


def test_the_label_sets_that_ship_are_split_by_question_and_say_what_their_page_says() -> None:
    names = [LABELS / f"{name}.jsonl" for name in ("dev", "test", "biorlhf")]
    dev, test, theirs = (read_rows(name, LabelRow, key=lambda each: each.id) for name in names)
    questions = [{each.question_id for each in rows} for rows in (dev, test, theirs)]
    assert not questions[0] & questions[1]
    assert not {each.id for each in dev} & {each.id for each in test}
    page = (LABELS / "README.md").read_text(encoding="utf-8")
    for name, rows, asked in zip(("dev", "test", "biorlhf"), (dev, test, theirs), questions, strict=True):
        assert f"| `{name}.jsonl` | {len(rows)} | {len(asked)} |" in page
    assert all(each.completion is not None and each.split == "dev" for each in dev)
    assert all(each.completion is not None and each.split == "test" for each in test)
    assert all(each.completion is None and each.file and each.at for each in theirs)
    kappa = compare_readers([*dev, *test], []).labellers["cohen_kappa"]
    assert f"{kappa.value:.2f}".removeprefix("0") in page and f"{kappa.n} answers" in page


AGREEMENT = {"dev": (0.996, 0.979), "written": (0.992, 0.969), "styles": (1.0, 0.996), "heldout": (0.951, 0.902)}
"""Share of the answers on which readers agree with the labels: correct or not, four verdicts. Those of `heldout` are what to expect of
answers that nobody has looked at: no reader is developed on it, so its answers are never printed."""


def test_readers_agree_with_the_labels_as_often_as_the_page_says() -> None:
    page = (LABELS / "README.md").read_text(encoding="utf-8")
    for name, figures in AGREEMENT.items():
        rows = read_rows(LABELS / f"{name}.jsonl", LabelRow, key=lambda each: each.id)
        (found,) = compare_readers(rows, ["auto"], draws=10).readers
        assert f"| `{name}.jsonl` | {len(rows)} | {len({each.question for each in rows})} |" in page
        assert (found.correct.value, found.verdicts.value) == pytest.approx(figures, abs=5e-4), name
        row = next(line for line in page.splitlines() if line.startswith(f"| `{name}.jsonl` |") and "%" in line)
        assert [f"{figure:.1%}".replace("%", " %") in row for figure in figures] == [True, True], row
