"""Folders of rows without a card: the card that is written for them says what the rows say."""

import hashlib
import io
import json

import pyarrow.parquet as pq
import pytest
import yaml

from evals.schema.articles import Conversation, ReviewExample
from evals.schema.reviewruns import ReviewedRow
from evals.schema.reviews import Concern, HumanConcern, MergedConcern, ReferenceConcern
from hub.cards.dataset import flat, kind_of, kinds
from hub.checks import Limits, check_parcel
from hub.datasets import pack_dataset
from tests.hub.rows import ANN, eval_row, labelled, put, put_report, report
from tests.hub.snapshots import was

TURNS = [{"from": role, "value": "x"} for role in ("system", "human", "gpt")]
CONVERSATION = {"id": "p#1", "article_id": "p", "source": "demo", "conversations": TURNS}
PAIR = {"id": "p#1", "article_id": "p", "prompt": [], "chosen": [], "rejected": []}
PAIR |= {"origin": "edited"}


def packed(folder, licence="cc-by-4.0", is_parquet=False):
    return pack_dataset(folder, "org/x", licence, Limits(), is_parquet)


def card_of(folder, **options):
    return packed(folder, **options).parts["README.md"].read().decode()


def rows_in(part):
    return [json.loads(line) for line in part.read().decode().splitlines()]


def test_the_card_of_concerns_reads_as_it_did(tmp_path):
    text = card_of(put(tmp_path, "train.jsonl", labelled()))
    assert text == was("concerns-card", text)


def test_the_card_of_eval_rows_reads_as_it_did(tmp_path):
    text = card_of(put_report(tmp_path))
    assert text == was("eval-rows-card", text)


FOLDERS = {
    "concerns": lambda place: put(place, "train.jsonl", labelled(3)),
    "training rows": lambda place: put(place, "sft_train.jsonl", [CONVERSATION]),
    "pairs of reviews": lambda place: put(place, "review-dpo.jsonl", [PAIR]),
    "a report": put_report,
    "eval rows": lambda place: put(place, "rows.jsonl", [eval_row("sft").model_dump(mode="json")]),
}


@pytest.mark.parametrize("name", FOLDERS)
@pytest.mark.parametrize("is_parquet", [False, True])
def test_a_folder_without_a_card_passes_every_check_with_the_card_it_gets(tmp_path, name, is_parquet):
    parcel = packed(FOLDERS[name](tmp_path), is_parquet=is_parquet)
    assert [each.problem for each in check_parcel(parcel, Limits())] == []
    front = yaml.safe_load(parcel.parts["README.md"].read().decode().split("---\n")[1])
    (config,) = front["configs"]
    assert front["license"] == "cc-by-4.0"
    assert all(each["path"] in parcel.parts for each in config["data_files"])
    assert all(each["path"].endswith(".parquet") == is_parquet for each in config["data_files"])


def test_figures_of_a_report_stand_with_n_and_interval_and_beside_the_baselines(tmp_path):
    text = card_of(put_report(tmp_path))
    assert "\n| sft | 2 | 1.000 [0.500, 1.000] |" in text
    assert "\n| always up, 60% | 2 | 0.250 |" in text


def test_every_count_on_the_card_is_of_the_rows(tmp_path):
    text = card_of(put(tmp_path, "train.jsonl", labelled()))
    for line in (
        "| rows | 24 |",
        "| different papers | 12 |",
        "| concerns | 24 |",
        "| design_flaw | 21 |",
        "| other | 3 |",
        "| major | 12 |",
    ):
        assert f"\n{line}\n" in text
    content = (tmp_path / "train.jsonl").read_bytes()
    assert f"| {len(content)} | `{hashlib.sha256(content).hexdigest()}` |" in text


def test_two_annotators_of_the_same_concerns_give_figures_with_n_and_interval(tmp_path):
    text = card_of(put(tmp_path, "train.jsonl", labelled()))
    agreed = next(line for line in text.splitlines() if line.startswith("| observed agreement"))
    assert agreed.startswith("| observed agreement | 0.750 | ")
    assert " to " in agreed and agreed.endswith("| 12 |")
    assert "How far 2 annotators agree about the severity of a concern" in text


def test_one_annotator_agrees_with_nobody(tmp_path):
    rows = [row for row in labelled() if row["annotator"] == ANN]
    assert "no unit was rated by two raters" in card_of(put(tmp_path, "train.jsonl", rows))


def test_concerns_that_nobody_signed_say_that_agreement_is_not_known(tmp_path):
    rows = [{"id": "p", "concerns": ["The groups differ."]}]
    text = card_of(put(tmp_path, "train.jsonl", rows))
    assert "how far annotators agree is not known" in text
    assert "severity of concerns" not in text, "nobody gave labels"


def test_guidelines_go_along_and_those_of_the_folder_come_first(tmp_path):
    folder = put(tmp_path, "train.jsonl", labelled(2))
    ours = packed(folder)
    assert b"How to label a concern" in ours.parts["GUIDELINES.md"].read()
    assert "no record says whether" in ours.parts["README.md"].read().decode()
    (folder / "GUIDELINES.md").write_text("# Mine\n")
    theirs = packed(folder)
    assert theirs.parts["GUIDELINES.md"].read() == b"# Mine\n"
    assert "no record says whether" not in theirs.parts["README.md"].read().decode()


def test_an_annotator_by_name_is_refused_also_within_a_concern(tmp_path):
    rows = [{"article_id": "p", "concerns": [{"text": "No control.", "annotator": "ann.smith"}]}]
    (found,) = packed(put(tmp_path, "train.jsonl", rows)).findings
    assert "the column annotator names a rater" in found.problem
    assert "ann.smith" not in found.problem


def test_parquet_holds_the_same_rows(tmp_path):
    parts = packed(put_report(tmp_path), is_parquet=True).parts
    table = pq.read_table(io.BytesIO(parts["kmp-rows.parquet"].read()))
    assert table.to_pylist() == rows_in(parts["kmp-rows.jsonl"])
    assert table.to_pylist() == [flat(row) for row in report().rows]


def test_rows_that_fit_no_column_type_are_not_written_as_parquet(tmp_path):
    rows = [{"id": "p", "concerns": [], "doi": each} for each in (1, "10.1/x")]
    (found,) = packed(put(tmp_path, "train.jsonl", rows), is_parquet=True).findings
    assert "cannot be written as parquet" in found.problem
    assert "leave out --parquet" in found.remedy


def test_a_card_that_does_not_lead_to_the_parquet_file_is_noticed(tmp_path):
    folder = put(tmp_path, "train.jsonl", labelled(1))
    (folder / "README.md").write_text("---\nlicense: mit\n---\n\n# Mine\n")
    parcel = packed(folder, licence=None, is_parquet=True)
    assert "train.parquet" in parcel.parts
    assert [each.problem for each in parcel.findings] == ["does not name train.parquet, so readers load the JSONL file"]


def test_rows_of_several_kinds_are_asked_apart(tmp_path):
    put(tmp_path, "train.jsonl", labelled(1))
    put(tmp_path, "sft_train.jsonl", [CONVERSATION])
    (found,) = packed(tmp_path).findings
    assert "several kinds: sft_train.jsonl (conversations), train.jsonl (concerns)" in found.problem


UNKNOWN = {
    "other columns": [{"text": "x"}],
    "a paper without a name": [{"concerns": []}],
    "concerns that are no list": [{"id": "p", "concerns": "many"}],
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_rows_of_no_known_kind_get_no_card(tmp_path, name):
    assert "README.md" not in packed(put(tmp_path, "train.jsonl", UNKNOWN[name])).parts


def test_splits_are_named_as_readers_know_them(tmp_path):
    for name in ("train", "dev", "test"):
        put(tmp_path, f"{name}.jsonl", labelled(1))
    front = yaml.safe_load(card_of(tmp_path).split("---\n")[1])
    (config,) = front["configs"]
    assert {each["split"]: each["path"] for each in config["data_files"]} == {
        "train": "train.jsonl",
        "validation": "dev.jsonl",
        "test": "test.jsonl",
    }


@pytest.mark.parametrize(
    ("kind", "records"),
    [("concerns", (ReviewExample, ReviewedRow)), ("conversations", (Conversation,))],
)
def test_every_column_that_assay_writes_has_a_meaning(kind, records):
    told = kinds()[kind].columns
    assert {name for each in records for name in each.model_fields} <= set(told)


def test_every_column_of_a_concern_and_of_an_eval_row_has_a_meaning():
    inner = kinds()["concerns"].inner["concerns"]
    for record in (Concern, HumanConcern, MergedConcern, ReferenceConcern):
        assert set(record.model_fields) <= set(inner)
    assert set(flat(eval_row("sft"))) == set(kinds()["eval"].columns)


def test_rows_are_of_one_kind_or_of_none():
    assert kind_of([CONVERSATION]) == "conversations"
    assert kind_of([CONVERSATION, PAIR]) is None
    assert kind_of([]) is None
