import json
from pathlib import Path

import pytest

from evals.errors import LabError
from evals.refine.prompt import messages
from evals.refine.records import read_records
from lab.refine.session import (
    answer,
    correct,
    fields_of,
    held_out,
    make_file,
    pick,
    rate,
    records,
    score,
    to_correct,
    work,
)
from lab.visitors import new_visitor as somebody
from tests.lab.refined import GOOD, HALF, PLAIN, RECORD, TYPED, refining_lab

USUAL = ("assay", 0, 256, 0.0)
BETTER = "<answer><snippet id=S1>OXPHOS is down in RR-1.</snippet></answer>"


class Marking:
    """One visitor with three graded answers of one record: PLAIN by base, HALF by sft, GOOD by grpo."""

    def __init__(self, folder, typed=TYPED):
        self.room, self.visitor = refining_lab(folder), somebody()
        *_, view = answer(self.room, self.visitor, typed, USUAL)
        self.kept = view.kept or ""

    @property
    def here(self):
        return self.room, self.visitor, self.kept

    @property
    def work(self):
        return work(self.room, self.visitor)

    @property
    def worked(self):
        return self.work.get(self.kept)

    def named(self, stage):
        return next(each.id for each in self.worked.document.answers if each.name == stage)

    def rows(self, form, folder):
        line, file = make_file(self.work, form, folder)
        lines = Path(file).read_text(encoding="utf-8").splitlines() if file else None
        return line, lines and [json.loads(each) for each in lines]


@pytest.fixture
def mine(tmp_path):
    """A visitor's mine with three answers on it."""
    made = Marking(tmp_path)
    yield made
    made.room.store.close()


def test_a_rating_is_kept_shown_and_taken_away_by_the_same_click(mine):
    name = mine.named("sft")

    view = rate(*mine.here, name, "good")
    assert f'data-do="good" data-id="{name}" aria-pressed="true"' in view.cards
    assert [mark.rating for mark in mine.worked.parts] == ["good"]

    rate(*mine.here, name, "good")
    assert [mark.rating for mark in mine.worked.parts] == [None]


def test_a_correction_is_graded_and_stands_beside_the_answer(mine):
    name = mine.named("base")
    assert to_correct(*mine.here, name) == ("Base", PLAIN)

    view = correct(*mine.here, name, BETTER)

    assert 'data-title="Base, corrected"' in view.cards
    (mark,) = mine.worked.parts
    assert mark.correction.reward > 5
    assert to_correct(*mine.here, name) == ("Base", BETTER)


def test_what_is_no_correction_is_refused_and_nothing_changes(mine):
    for text, told in (("", "paste an answer"), (PLAIN, "word for word")):
        view = correct(*mine.here, mine.named("base"), text)
        assert told in view.notice.lower()
        assert 'data-title="Base"' in view.cards
    assert mine.worked.parts == ()


def test_the_last_change_can_be_taken_back_until_none_is_left(mine):
    rate(*mine.here, mine.named("sft"), "good")
    correct(*mine.here, mine.named("base"), BETTER)

    assert "Taken back: the correction" in mine.work.undo(mine.kept).notice
    assert [mark.rating for mark in mine.worked.parts] == ["good"]
    assert "Taken back: the rating" in mine.work.undo(mine.kept).notice
    assert "nothing to take back" in mine.work.undo(mine.kept).notice


def test_another_visitor_sees_and_changes_nothing_of_it(mine):
    stranger = somebody()

    assert work(mine.room, stranger).earlier() == []
    assert "not among yours" in rate(mine.room, stranger, mine.kept, "x", "good").notice
    view = work(mine.room, stranger).show_earlier(mine.kept)
    assert view.kept is None and "not among yours" in view.notice


def test_earlier_answers_come_back_with_their_record_and_marks(mine):
    rate(*mine.here, mine.named("sft"), "bad")
    ((label, name),) = mine.work.earlier()

    view = mine.work.show_earlier(name)

    assert RECORD.asked in label and mine.work.get(name).document.record == RECORD
    assert view.cards.count('aria-pressed="true"') == 1


def test_exported_records_are_what_training_reads(mine, tmp_path):
    rate(*mine.here, mine.named("sft"), "good")
    correct(*mine.here, mine.named("base"), BETTER)

    line, file = make_file(mine.work, "sft", tmp_path / "out")

    assert "2 rows" in line
    assert file is not None
    found = read_records(Path(file))
    assert {row.reference for row in found} == {HALF, BETTER}
    assert {row.group for row in found} == {RECORD.group}
    assert len({row.id for row in found} | {RECORD.id}) == 3
    assert {row.tool_output for row in found} == {RECORD.tool_output}


def test_pairs_set_what_a_person_stands_by_before_what_they_refused(mine, tmp_path):
    rate(*mine.here, mine.named("sft"), "good")
    rate(*mine.here, mine.named("grpo"), "bad")
    correct(*mine.here, mine.named("base"), BETTER)

    _, rows = mine.rows("dpo", tmp_path / "out")

    said = {(row["chosen"][0]["content"], row["rejected"][0]["content"]) for row in rows}
    assert said == {(chosen, bad) for chosen in (BETTER, HALF) for bad in (PLAIN, GOOD)}
    assert rows[0]["prompt"] == [turn.model_dump() for turn in messages(RECORD)]
    assert {row["chosen_by"] for row in rows} == {"base, corrected", "sft"}


def test_answers_that_are_not_well_formed_are_left_out_and_counted(mine, tmp_path):
    rate(*mine.here, mine.named("base"), "good")
    rate(*mine.here, mine.named("sft"), "good")

    line, rows = mine.rows("sft", tmp_path / "out")

    assert "Left out: 1 not well formed" in line
    assert [row["reference"] for row in rows] == [HALF]


def test_without_a_rating_the_export_says_what_to_do(mine, tmp_path):
    for form in ("sft", "dpo"):
        line, rows = mine.rows(form, tmp_path / "out")
        assert rows is None and "problem" in line


def test_records_kept_for_testing_never_reach_a_training_file(tmp_path):
    name = next(name for name in records() if name in held_out())
    record, _ = pick(name)
    room, visitor = refining_lab(tmp_path), somebody()
    view = score(room, visitor, (fields_of(record), record), record.reference, "assay")
    (worked,) = room.store.documents("refine").everything(work(room, visitor).session)
    rate(room, visitor, view.kept, worked.document.answers[0].id, "good")

    line, file = make_file(work(room, visitor), "sft", tmp_path / "out")

    assert file is None
    assert "1 on records kept for testing" in line
    room.store.close()


def test_a_visitor_who_is_forgotten_takes_graded_answers_along(mine):
    rate(*mine.here, mine.named("sft"), "good")

    mine.room.store.forget_rater(mine.visitor.rater)

    assert mine.room.store.documents("refine").everything() == ()
    with pytest.raises(LabError, match="not among yours"):
        _ = mine.worked
