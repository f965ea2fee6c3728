"""How far readers agree with labels; and the label sets that ship."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

import evals
from evals.errors import BadConfig, LabError
from evals.io import read_rows
from evals.readers import LabelRow, check_way, compare_readers, with_texts
from evals.schema import ChoiceTruth
from evals.stats.intervals import wilson
from evals.verifiers.judged import Reading, ReadRequest

LABELS = Path(evals.__file__).parent / "labels"
TRUTH = ChoiceTruth(value="Leu", options=("Phe", "Leu", "Ser"))


def row(place: int, line: str | None, label: object, **more: object) -> LabelRow:
    text = f"So it is.\nAnswer: {line}\nConfidence: 90%" if line else "I would not know."
    given = {"id": str(place), "prompt": f"Question {place // 2}?", "completion": text, "label": label}
    return LabelRow.model_validate({**given, "ground_truth": TRUTH, **more})


ROWS = [
    row(0, "Leu", "correct"),
    row(1, "Leu", "incorrect"),
    row(2, "Phe", "incorrect"),
    row(3, "Phe or Ser", "contradictory"),
    row(4, "Phe", ["no_claim", "incorrect"]),
    row(5, "Phe", "no_claim"),
    row(6, None, "no_claim"),
]


def test_agreement_is_counted_with_either_of_several_labels_right_and_unread_answers_apart() -> None:
    (found,) = compare_readers(ROWS, ["answer"], draws=500).readers
    assert (found.n, found.n_unread) == (6, 1)
    assert found.correct.value == pytest.approx(5 / 6)
    assert found.verdicts.value == pytest.approx(4 / 6)
    assert found.correct.low is not None and found.correct.low < 5 / 6 < (found.correct.high or 0)
    assert found.confusion["incorrect"] == {"correct": 1, "incorrect": 2, "contradictory": 0, "no_claim": 0}
    assert found.confusion["no_claim"]["incorrect"] == 1
    assert [(one.id, one.labels, one.verdict) for one in found.misread] == [
        ("1", ("incorrect",), "correct"),
        ("5", ("no_claim",), "incorrect"),
    ]
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
    given = {"id": "a", "ground_truth": TRUTH, "label": "correct", "file": "theirs.json"}
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
    dev, test, theirs = (
        read_rows(LABELS / f"{name}.jsonl", LabelRow, key=lambda each: each.id) for name in ("dev", "test", "biorlhf")
    )
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
