"""Rubric items that a report dropped, in training: not asked, recorded, and never from the pairs' groups."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evals.errors import BadConfig, LabError
from evals.refine.records import read_records
from evals.refine.rubric import items_of, static_items
from evals.schema.refiner import AnswerPair, ItemFigures, ItemReport, RefinerRecord, RewardConfig
from lab.commands.refiner import app
from tests.training.refiners import RECORDS, WELL, command, with_chain
from tests.training.runs import one_thread, record
from training import refiner
from training.config import RefinerSettings, read_request
from training.data.refiner import refiner_data
from training.launch.plan import plan_of
from training.refine.items import ItemBook, read_items, with_kept_items

__all__ = ["one_thread"]
NO_STATIC = RewardConfig(static_rubrics=False)
STATIC = tuple(("static", item.polarity, item.title) for item in static_items())


def report(file: Path, dropped: Sequence[tuple[str, str, str]], group: str = "elsewhere") -> Path:
    """Write a report that drops these kinds of items, from pairs about one group."""
    rows = [
        ItemFigures(
            writer=writer,
            polarity=polarity,
            title=title,
            pairs=6,
            decided=6,
            consistent=0,
            ties=0,
            missing=0,
            groups=6,
            share=0.0,
            interval=(0.0, 0.39),
            finding="contradicts",
            is_kept=False,
        )
        for writer, polarity, title in dropped
    ]
    whole = ItemReport(
        pairs_name="pairs.jsonl",
        pairs_sha256="0" * 64,
        pairs=6,
        unreadable=0,
        preferred_by={"people": 6},
        groups=(group,),
        judge="heuristic",
        judge_mode="no language model",
        min_decided=5,
        min_share=0.6,
        items=tuple(rows),
        versions={},
        created_at=datetime.now(UTC),
        command="assay refiner items",
    )
    file.write_text(whole.model_dump_json(), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the tiny base and an SFT stage on it."""
    return with_chain(tmp_path_factory.mktemp("kept"))


def test_a_run_asks_no_dropped_item_and_says_which_report_dropped_them(start: Path):
    file = report(start / "items.json", [("record", "negative", "wrong"), STATIC[1]])
    words = command(start, "kept", items_report=str(file), max_steps=1)
    refiner.train(read_request(RefinerSettings, words))
    data = record(start / "kept")["data"]
    assert data["items dropped from records"] == 4
    assert data["items dropped from the set for all records"] == 1
    assert data["items held against"] == "6 held-out pairs, preferred by people (6)"
    assert data["items report sha256"] == read_items(file).sha256
    assert str(start) not in json.dumps(record(start / "kept")["config"]["items_report"])


def test_dropped_items_are_out_of_the_plan_and_of_every_answers_rubric(start: Path):
    file = report(start / "other.json", [("record", "negative", "wrong"), STATIC[0]])
    plan = plan_of("refiner", command(start, "plan", items_report=str(file)), is_dry=True)
    assert plan.data.record()["items dropped from records"] == 4
    assert all("negative_rubrics" not in str(row["record"]) for row in plan.rows().values())
    items = items_of(plan.data.records[0], RewardConfig())
    book = ItemBook(dropped=read_items(file).dropped_static)
    assert [item.title for item in book.asked("A", items)] == [
        "way",
        *(title for _, _, title in STATIC[1:]),
    ]


def test_records_of_a_group_that_pairs_are_about_are_refused(start: Path):
    file = report(start / "same.json", [], group="B")
    with pytest.raises(BadConfig, match="about B, which are trained on too"):
        plan_of("refiner", command(start, "same", items_report=str(file)), is_dry=True)


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("prompt", "which way  is A?"),
        ("tool_output", f"{RECORDS[0]['tool_output']}\n"),
    ],
)
def test_a_record_pasted_into_a_pair_under_another_id_is_trained_on_with_no_such_report(
    start: Path, tmp_path: Path, field: str, text: str
):
    told = {"prompt": "Another?", "tool_output": "<snippet id=S1>Other</snippet>", field: text}
    pasted = RefinerRecord.model_validate({"id": "pasted", **told})
    rest, pairs, out = (tmp_path / name for name in ("rest.jsonl", "pairs.jsonl", "items.json"))
    training = command(start, "pasted", items_report=str(out))
    answers = {"better": WELL.format(id="S1", claim="a"), "worse": WELL.format(id="S1", claim="b")}
    pair = AnswerPair(id="p", record=pasted, **answers)
    pairs.write_text(pair.model_dump_json(exclude_defaults=True), encoding="utf-8")
    words = [str(pairs), "--judge", "heuristic", "--out", str(out)]
    words += ["--records", str(start / "records.jsonl"), "--filtered", str(rest)]
    done = CliRunner().invoke(app, ["items", *words])
    assert done.exit_code == 0, done.output
    assert [each.id for each in read_records(rest)] == ["B", "C", "D"]
    with pytest.raises(BadConfig, match="about what A asks or shows, which are trained on too"):
        plan_of("refiner", training, is_dry=True)


def test_a_record_without_any_item_left_is_left_out_and_counted(tmp_path: Path):
    data = refiner_data(["refiner-train"])
    titles = {(i.polarity, i.title) for r in data.records for i in items_of(r, RewardConfig())}
    kept = read_items(report(tmp_path / "all.json", [("record", *each) for each in titles]))
    assert with_kept_items(data, kept, has_static=True).count == data.count
    with pytest.raises(BadConfig, match="items_report drops every rubric item of all 124 records"):
        with_kept_items(data, kept, has_static=False)
    some = {(i.polarity, i.title) for i in items_of(data.records[0], NO_STATIC)}
    kept = read_items(report(tmp_path / "some.json", [("record", *each) for each in some]))
    bare = with_kept_items(data, kept, has_static=False)
    assert bare.left_out["no rubric item left"] == data.count - bare.count > 0


def test_an_item_of_another_writer_is_not_dropped_for_its_title(tmp_path: Path):
    data = refiner_data(["refiner-train"])
    kept = read_items(report(tmp_path / "other.json", [("a teacher", "positive", "Direction")]))
    assert with_kept_items(data, kept, has_static=True).records == data.records


@pytest.mark.parametrize("text", [None, "{}", "not JSON"])
def test_what_is_no_report_on_items_is_named(tmp_path: Path, text: str | None):
    file = tmp_path / "items.json"
    if text is not None:
        file.write_text(text, encoding="utf-8")
    with pytest.raises(LabError, match="report on rubric items"):
        read_items(file)


def test_a_report_inside_what_is_no_folder_is_missing(tmp_path: Path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(LabError, match="there is no report on rubric items at"):
        read_items(tmp_path / "file" / "items.json")
