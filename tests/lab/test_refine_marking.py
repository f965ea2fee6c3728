import json
from pathlib import Path

import pytest

from evals.errors import LabError
from evals.refine.prompt import messages
from evals.refine.records import read_records
from evals.schema.refiner import AnswerPair
from lab.refine.session import (
    answer,
    correct,
    desk_name,
    earlier,
    held_out,
    make_file,
    pick,
    rate,
    records,
    score,
    show_earlier,
    to_correct,
    undo,
)
from lab.visitors import new_visitor as somebody
from tests.lab.refined import GOOD, HALF, PLAIN, RECORD, TYPED, refining_lab

USUAL = ("assay", 0, 256, 0.0)
BETTER = "<answer><snippet id=S1>OXPHOS is down in RR-1.</snippet></answer>"


class Desk:
    """One visitor with three graded answers of one record: PLAIN by base, HALF by sft, GOOD by grpo."""

    def __init__(self, folder, typed=TYPED):
        self.room, self.visitor = refining_lab(folder), somebody()
        *_, view = answer(self.room, self.visitor, typed, USUAL)
        self.kept = view.kept or ""

    @property
    def here(self):
        return self.room, self.visitor, self.kept

    @property
    def worked(self):
        return self.room.store.workbench.worked(self.kept, desk_name(self.room, self.visitor))

    def named(self, stage):
        return next(each.id for each in self.worked.kept.answers if each.name == stage)

    def rows(self, form, folder):
        line, file = make_file(self.room, self.visitor, form, folder)
        lines = Path(file).read_text(encoding="utf-8").splitlines() if file else None
        return line, lines and [json.loads(each) for each in lines]


@pytest.fixture
def desk(tmp_path):
    """A visitor's desk with three answers on it."""
    made = Desk(tmp_path)
    yield made
    made.room.store.close()


def test_a_rating_is_kept_shown_and_taken_away_by_the_same_click(desk):
    name = desk.named("sft")

    view = rate(*desk.here, name, "good")
    assert f'data-do="good" data-id="{name}" aria-pressed="true"' in view.answers
    assert [mark.rating for mark in desk.worked.marks] == ["good"]

    rate(*desk.here, name, "good")
    assert [mark.rating for mark in desk.worked.marks] == [None]


def test_a_correction_is_graded_and_stands_beside_the_answer(desk):
    name = desk.named("base")
    assert to_correct(*desk.here, name) == ("Base", PLAIN)

    view = correct(*desk.here, name, BETTER)

    assert 'data-title="Base, corrected"' in view.answers
    (mark,) = desk.worked.marks
    assert mark.correction.reward > 5
    assert to_correct(*desk.here, name) == ("Base", BETTER)


@pytest.mark.parametrize(("text", "told"), [("", "paste an answer"), (PLAIN, "word for word")])
def test_what_is_no_correction_is_refused_and_nothing_changes(desk, text, told):
    view = correct(*desk.here, desk.named("base"), text)

    assert told in view.notice.lower()
    assert 'data-title="Base"' in view.answers
    assert desk.worked.marks == ()


def test_the_last_change_can_be_taken_back_until_none_is_left(desk):
    rate(*desk.here, desk.named("sft"), "good")
    correct(*desk.here, desk.named("base"), BETTER)

    assert "Taken back: the correction" in undo(*desk.here).notice
    assert [mark.rating for mark in desk.worked.marks] == ["good"]
    assert "Taken back: the rating" in undo(*desk.here).notice
    assert "nothing to take back" in undo(*desk.here).notice


def test_another_visitor_sees_and_changes_nothing_of_it(desk):
    stranger = somebody()

    assert earlier(desk.room, stranger) == []
    assert "not on your desk" in rate(desk.room, stranger, desk.kept, "x", "good").notice
    record, _, view = show_earlier(desk.room, stranger, desk.kept)
    assert record is None and "not on your desk" in view.notice


def test_earlier_answers_come_back_with_their_record_and_marks(desk):
    rate(*desk.here, desk.named("sft"), "bad")
    ((label, name),) = earlier(desk.room, desk.visitor)

    record, fields, view = show_earlier(desk.room, desk.visitor, name)

    assert RECORD.asked in label and record == RECORD
    assert fields == TYPED[0]
    assert view.answers.count('aria-pressed="true"') == 1


def test_exported_records_are_what_training_reads(desk, tmp_path):
    rate(*desk.here, desk.named("sft"), "good")
    correct(*desk.here, desk.named("base"), BETTER)

    line, file = make_file(desk.room, desk.visitor, "sft", tmp_path / "out")

    assert "2 rows" in line
    assert file is not None
    found = read_records(Path(file))
    assert {row.reference for row in found} == {HALF, BETTER}
    assert {row.group for row in found} == {RECORD.group}
    assert len({row.id for row in found} | {RECORD.id}) == 3
    assert {row.tool_output for row in found} == {RECORD.tool_output}


def test_pairs_set_what_a_person_stands_by_before_what_they_refused(desk, tmp_path):
    rate(*desk.here, desk.named("sft"), "good")
    rate(*desk.here, desk.named("grpo"), "bad")
    correct(*desk.here, desk.named("base"), BETTER)

    _, rows = desk.rows("dpo", tmp_path / "out")

    said = {(row["chosen"][0]["content"], row["rejected"][0]["content"]) for row in rows}
    assert said == {(chosen, bad) for chosen in (BETTER, HALF) for bad in (PLAIN, GOOD)}
    assert rows[0]["prompt"] == [turn.model_dump() for turn in messages(RECORD)]
    assert {row["chosen_by"] for row in rows} == {"base, corrected", "sft"}


def test_pairs_with_their_record_are_what_rubric_items_are_held_against(desk, tmp_path):
    rate(*desk.here, desk.named("sft"), "good")
    rate(*desk.here, desk.named("grpo"), "bad")

    _, file = make_file(desk.room, desk.visitor, "pairs", tmp_path / "out")

    (line,) = Path(file).read_text().splitlines()
    pair = AnswerPair.model_validate_json(line)
    assert (pair.better, pair.worse, pair.preferred_by) == (HALF, GOOD, "people")
    assert pair.record.model_dump() == RECORD.model_dump()


def test_answers_that_are_not_well_formed_are_left_out_and_counted(desk, tmp_path):
    rate(*desk.here, desk.named("base"), "good")
    rate(*desk.here, desk.named("sft"), "good")

    line, rows = desk.rows("sft", tmp_path / "out")

    assert "Left out: 1 not well formed" in line
    assert [row["reference"] for row in rows] == [HALF]


def test_without_a_rating_the_export_says_what_to_do(desk, tmp_path):
    for form in ("sft", "dpo", "pairs"):
        line, rows = desk.rows(form, tmp_path / "out")
        assert rows is None and "problem" in line


def test_records_kept_for_testing_never_reach_a_training_file(tmp_path):
    name = next(name for name in records() if name in held_out())
    record, fields, _ = pick(name)
    room, visitor = refining_lab(tmp_path), somebody()
    view = score(room, visitor, (fields, record), record.reference, "assay")
    (worked,) = room.store.workbench.everything(desk_name(room, visitor))
    rate(room, visitor, view.kept, worked.kept.answers[0].id, "good")

    line, file = make_file(room, visitor, "sft", tmp_path / "out")

    assert file is None
    assert "1 on records kept for testing" in line
    room.store.close()


def test_a_visitor_who_is_forgotten_takes_graded_answers_along(desk):
    rate(*desk.here, desk.named("sft"), "good")

    desk.room.store.forget_rater(desk.visitor.rater)

    assert desk.room.store.workbench.everything() == ()
    with pytest.raises(LabError, match="not on your desk"):
        _ = desk.worked
