"""The rubric by who wrote its items: what each writer sees of an answer, and of a gain between two stages."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import ValidationError

from evals.errors import BadConfig, BadRow
from evals.refine.bank import refiner_bank
from evals.refine.items import OtherSet, read_other_items, scores_by_writer, second_set
from evals.refine.judge import compare_words
from evals.refine.report import METRICS, Answered, beside, build, compare
from evals.refine.score import judged_items
from evals.schema.refiner import RewardConfig, RubricItem
from evals.schema.reports import RefinerReport
from evals.stats.paired import holm
from lab.commands.refiner import other_set
from tests.evals.refiner.answers import ORIGIN, record

CONFIG = RewardConfig()
LEARNED = "<answer><snippet id=S1>OXPHOS is down</snippet></answer>"
BOTH = "<answer><snippet id=S1>OXPHOS is down in liver</snippet></answer>"
BEFORE = "<answer><snippet id=S2>adipogenesis</snippet></answer>"
BROKEN = "<answer>OXPHOS is down in liver"


def theirs(folder: Path, **changes: object) -> Path:
    """Write items of Ada, who wants to read of the liver, for four records."""
    file = folder / "theirs.jsonl"
    item = {"title": "organ", "description": 'Speaks of "liver".'}
    rows = [{"record": f"r{n}", "source": "Ada", "positive_rubrics": [item], **changes} for n in range(4)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return file


def report(others: OtherSet | None, **answers: str) -> RefinerReport:
    """Return a report on four records that every stage answers alike."""
    records = [record(id=f"r{n}") for n in range(4)]
    rows = []
    for stage, text in answers.items():
        for each in records:
            given = Answered(stage, each, text, "stop")
            case = given.prepared(CONFIG)
            judged = compare_words(case.inquiry()) if case.is_judgeable else None
            items = ()
            if others is not None:
                extra = beside(case, others.items[each.id])
                verdicts = compare_words(extra.inquiry()) if case.is_judgeable else None
                items = judged_items(extra, verdicts)
            rows.append(given.row(case, judged, "heuristic", items))
    return build(rows, records, replace(ORIGIN, data_name="four", other_items=others))


@pytest.fixture
def others(tmp_path: Path) -> OtherSet:
    """Ada's items for the four records."""
    records = [record(id=f"r{n}") for n in range(4)]
    return read_other_items(theirs(tmp_path), records, "theirs.jsonl")


def means(found: RefinerReport, stage: str) -> dict[str, float | None]:
    (one,) = (each for each in found.summaries if each.stage == stage)
    return {name: each.value for name, each in one.metrics.items() if name.startswith("rubric by")}


def test_a_gain_on_the_items_of_training_alone_is_visible(others: OtherSet):
    both = report(others, sft=BEFORE, refiner=LEARNED)
    found = {each.metric: each for each in compare((both, "sft"), (both, "refiner")).differences}
    assert found["rubric by record"].difference == 0.5  # "down" is said now, "up" never was
    assert found["rubric by Ada"].difference == 0.0
    assert found["rubric by record above Ada"].difference == 0.5
    assert found["rubric by Ada"].n == 4
    assert found["rubric by record above Ada"].p_holm is not None


def test_how_many_writers_there_are_changes_no_corrected_p_of_the_reward(others: OtherSet):
    both = report(others, sft=BEFORE, refiner=LEARNED)
    found = {each.metric: each for each in compare((both, "sft"), (both, "refiner")).differences}
    known = [name for name in METRICS if found[name].p_permutation is not None]
    alone = holm([found[name].p_permutation or 0.0 for name in known])
    assert found["reward"].p_permutation == pytest.approx(2 / 2**4)
    assert [found[name].p_holm for name in known] == alone
    writers = [each for name, each in found.items() if name not in METRICS]
    assert len(writers) == 4
    assert found["rubric by record above Ada"].p_holm == pytest.approx(len(writers) * 2 / 2**4)


def test_a_gain_that_others_see_too_leaves_nothing_above(others: OtherSet):
    both = report(others, sft=BEFORE, refiner=BOTH)
    found = {each.metric: each for each in compare((both, "sft"), (both, "refiner")).differences}
    assert found["rubric by Ada"].difference == 1.0
    assert found["rubric by record above Ada"].difference == -0.5


def test_items_of_others_are_in_no_reward(others: OtherSet):
    with_them, without = report(others, refiner=BOTH), report(None, refiner=BOTH)
    assert [row.scored for row in with_them.rows] == [row.scored for row in without.rows]
    assert {row.other_items[0].writer for row in with_them.rows} == {"Ada"}
    assert set(means(without, "refiner")) == {"rubric by record", "rubric by static"}


def test_an_answer_that_cannot_be_read_earns_nothing_by_any_writer(others: OtherSet):
    assert set(means(report(others, refiner=BROKEN), "refiner").values()) == {0.0}


def test_reports_with_other_sets_are_compared_without_them(others: OtherSet):
    one, other = report(others, sft=BOTH), report(None, refiner=BOTH)
    names = {each.metric for each in compare((one, "sft"), (other, "refiner")).differences}
    assert "rubric by record" in names and "rubric by Ada" not in names


def test_a_report_of_before_there_were_writers_is_read_and_split(others: OtherSet):
    new = report(None, sft=BEFORE, refiner=BOTH)
    old = json.loads(new.model_dump_json(exclude={"other_items", "other_items_sha256"}))
    old["schema_version"] = 1
    for row in old["rows"]:
        del row["other_items"]
        for item in row["scored"]["items"]:
            del item["source"]
    read = RefinerReport.model_validate_json(json.dumps(old))
    assert compare((read, "sft"), (new, "refiner")).differences[-1].metric == "rubric by static"


def test_items_inside_a_record_are_told_apart_by_who_wrote_them():
    items = tuple(
        RubricItem(title=title, description=text, source=writer)
        for title, text, writer in (
            ("way", 'Says "down".', None),
            ("organ", 'Says "liver".', "Ada"),
            ("proof", 'Says "proven".', "Ada"),
        )
    )
    case = Answered("x", record(positive_rubrics=items, negative_rubrics=()), BOTH, "stop")
    prepared = case.prepared(RewardConfig(static_rubrics=False))
    row = case.row(prepared, compare_words(prepared.inquiry()), "heuristic")
    assert scores_by_writer(row.scored) == {"record": 1.0, "Ada": 0.5}


def test_our_second_set_has_other_items_for_every_held_out_record_and_references_satisfy_it():
    known, records = second_set(), refiner_bank().test
    assert set(known.items) == {each.id for each in records}
    first = {(i.title, i.description) for r in records for i in (*r.positive_rubrics, *r.negative_rubrics)}
    for each in records:
        items = known.items[each.id]
        assert len(items) >= 2 and not {(i.title, i.description) for i in items} & first
        case = beside(Answered("reference", each, str(each.reference), "given").prepared(CONFIG), items)
        assert all(found.value == 1.0 for found in judged_items(case, compare_words(case.inquiry())))


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"source": "record"}, "(whole line)"),
        ({"positive_rubrics": []}, "(whole line)"),
        ({"source": " "}, "source"),
        ({"title": "x"}, "title"),
        (
            {"negative_rubrics": [{"title": "organ", "description": 'Speaks of "liver" again.'}]},
            "(whole line)",
        ),
    ],
)
def test_a_bad_row_of_items_is_named_by_line_and_field(tmp_path: Path, changes, field):
    with pytest.raises(BadRow) as raised:
        read_other_items(theirs(tmp_path, **changes), [record(id="r0")], "theirs")
    assert (raised.value.line, raised.value.field) == (1, field)


def test_an_item_cannot_pass_for_one_of_those_that_fit_every_record():
    with pytest.raises(ValidationError, match="fit every record"):
        RubricItem(title="way", description="Says it.", source="static")


def test_a_set_by_a_writer_of_the_records_own_items_is_refused(tmp_path: Path):
    inside = (RubricItem(title="way", description='Says "down".', source="Ada"),)
    with pytest.raises(BadConfig, match="'Ada', who wrote items of the records too"):
        read_other_items(theirs(tmp_path), [record(id="r0", positive_rubrics=inside)], "theirs")


def test_rows_about_records_that_are_not_asked_are_counted(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    others = other_set(str(theirs(tmp_path)), "d.jsonl", [record(id="r0")])
    assert others is not None and others.unasked == 3
    assert "theirs.jsonl has 3 rows about records that are not asked" in capfd.readouterr().err


def test_items_for_none_of_the_records_are_refused(tmp_path: Path):
    with pytest.raises(BadConfig, match="none of them is asked"):
        read_other_items(theirs(tmp_path), [record(id="another")], "theirs")
