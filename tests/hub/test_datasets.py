import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evals.questions import data_sha256, load_questions
from evals.questions.sets import EXAMPLES
from hub.checks import Limits, check_parcel
from hub.datasets import pack_dataset
from tests.hub import calls, publishing
from tests.hub.rows import put_report

RATER = "0f" * 16
CARD = """---
pretty_name: Votes
task_categories: [text-generation]
size_categories: [n<1K]
configs:
- config_name: default
  data_files: [{split: train, path: train.jsonl}]
---

# Votes

## Personal data

Raters stand here as a salted hash.

## Licence

No licence has been chosen.
"""


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "votes"
    place.mkdir()
    rows = [{"prompt": "Which way?", "chosen": f"up {n}", "rater": RATER} for n in range(3)]
    (place / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (place / "README.md").write_text(CARD)
    (place / "GUIDELINES.md").write_text("# What raters were told\n")
    return place


def problems(folder, licence="cc-by-4.0"):
    return [each.problem for each in pack_dataset(folder, "org/x", licence, Limits()).findings]


def test_a_data_set_is_published_with_the_licence_chosen_and_read_back_by_datasets(stand, folder):
    receipt = stand.run(publishing.publish_dataset, folder, "org/votes", "cc-by-4.0")
    assert set(receipt.files) == {"README.md", "GUIDELINES.md", "train.jsonl"}
    assert stand.hub.repositories.find("dataset", "org/votes").private
    rows = stand.run(publishing.load_rows, "org/votes")
    assert [row["chosen"] for row in rows] == ["up 0", "up 1", "up 2"]
    again = stand.run(publishing.publish_dataset, folder, "org/votes", "cc-by-4.0")
    assert again.outcome == "already there"


def test_the_rows_of_a_report_become_a_table_that_datasets_reads(stand, tmp_path):
    stand.run(publishing.publish_dataset, put_report(tmp_path), "org/answers", "apache-2.0")
    rows = stand.run(publishing.load_rows, "org/answers")
    assert [(row["stage"], row["verdict"]) for row in rows] == [
        ("base", "incorrect"),
        ("base", "no_claim"),
        ("sft", "correct"),
        ("sft", "correct"),
    ]
    again = stand.run(publishing.publish_dataset, tmp_path, "org/answers", "apache-2.0")
    assert again.outcome == "already there"


def test_the_chosen_licence_replaces_the_sentence_that_there_is_none(folder):
    text = pack_dataset(folder, "org/x", "cc-by-4.0", Limits()).parts["README.md"].read().decode()
    assert "license: cc-by-4.0" in text
    assert "No licence has been chosen" not in text


def test_without_a_licence_nothing_is_uploaded(stand, folder):
    message = stand.run(publishing.publish_dataset, folder, "org/none")
    assert "--license" in message
    assert stand.run(calls.attempt, calls.files, "org/none", "dataset")[0] != "nothing"


def test_a_rater_by_name_is_refused_and_not_repeated(folder):
    (folder / "train.jsonl").write_text('{"rater": "ann.smith"}\n')
    (found,) = problems(folder)
    assert "the column rater names a rater" in found
    assert "ann" not in found


def test_a_rater_by_name_in_parquet_is_found_too(folder):
    (folder / "train.jsonl").unlink()
    pq.write_table(pa.table({"annotator": ["ann"], "text": ["x"]}), folder / "train.parquet")
    assert "annotator names a rater" in problems(folder)[0]


def test_an_address_in_the_rows_is_a_warning_with_its_line(folder):
    (folder / "train.jsonl").write_text('{}\n{"text": "ann@lab.org, +41 44 123 45 67"}\n')
    warnings = check_parcel(pack_dataset(folder, "org/x", "mit", Limits()), Limits())
    personal = [(each.problem, each.line) for each in warnings if each.check == "personal data"]
    assert ("an e-mail address stands there", 2) in personal
    assert ("a telephone number stands there", 2) in personal


BAD = {
    "rows that are no JSON": ("train.jsonl", "{", "cannot be read"),
    "rows that are no objects": ("train.jsonl", "[1]\n", "is no JSON object"),
    "parquet that is none": ("more.parquet", "x", "cannot be read"),
    "statistics of other rows": (
        "statistics.json",
        json.dumps({"rows_file": "train.jsonl", "rows_sha256": "0" * 64}),
        "another checksum",
    ),
    "a file of another kind": ("model.pkl", "x", "is left out"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_does_not_fit_is_named(folder, name):
    file, content, word = BAD[name]
    (folder / file).write_text(content)
    assert any(word in each for each in problems(folder))


def test_a_link_that_leads_out_of_the_folder_is_refused(folder, tmp_path):
    (tmp_path / "private.jsonl").write_text("{}\n")
    (folder / "linked.jsonl").symlink_to(tmp_path / "private.jsonl")
    assert any("leads out of the folder" in each for each in problems(folder))


def test_a_question_set_is_published_by_split_with_a_card_of_its_figures_and_read_back(stand, tmp_path):
    file = EXAMPLES / "codons-and-enzymes.yaml"
    mine = tmp_path / "mine.yaml"
    mine.write_bytes(file.read_bytes())
    receipt = stand.run(publishing.publish_dataset, mine, "org/codons", "cc0-1.0")
    parts = {f"data/{split}.jsonl" for split in ("train", "validation", "test")}
    assert set(receipt.files) == {"README.md", "mine.yaml", *parts}
    card = pack_dataset(mine, "org/codons", "cc0-1.0", Limits()).parts["README.md"].read().decode()
    assert "| rows | 60 |" in card
    assert "“always abstain, 60%” gets right, an answer without a model | 2 of 16 |" in card
    read = stand.run(publishing.load_question_set, "hub:org/codons")
    assert data_sha256(read) == data_sha256(load_questions(file))


def test_a_question_set_with_a_bad_row_is_not_published_and_the_row_is_named(tmp_path):
    good = {"id": "a", "prompt": "Which way?", "group": "g", "split": "test"}
    good |= {"truth": {"kind": "choice", "value": "up", "options": ["up", "down"]}}
    rows = [good, {**good, "id": "b", "split": "exam"}]
    (tmp_path / "set.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    errors = [each for each in pack_dataset(tmp_path, "org/x", "mit", Limits()).findings if each.is_error]
    assert [(each.path, each.line, each.problem[:13]) for each in errors] == [("set.jsonl", 2, "field 'split'")]
