"""Data sets: what is published of a folder, and the cards of votes, of pairs and of rows."""

import io
import json
import re
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from evals.questions import load_questions
from evals.questions.pairs import Accuracy, PairRow, PairStatistics
from evals.questions.sets import EXAMPLES
from evals.schema import Metric, StagePairCounts
from evals.schema.articles import Conversation, ReviewExample
from evals.schema.reviews import Concern, HumanConcern
from evals.schema.votes import ArenaRow, DpoRow, ExportStatistics, KtoRow, SftRow
from hub.cards.dataset import dataset_card, flat, kinds, pairs_card, write_rows_card
from hub.checks import Limits, check_parcel
from hub.datasets import pack_dataset
from hub.publish import Target, publish
from tests.hub.cases import CASES
from tests.hub.rows import concerns, eval_row, put, put_report, report
from tests.hub.snapshots import was

RATER = "0f" * 16
CARD = """---
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
STATISTICS = ExportStatistics(
    format="dpo",
    exported_at=datetime(2026, 1, 5, 9, 30, tzinfo=UTC),
    rows_file="train.jsonl",
    rows_sha256="ab" * 32,
    rows=7,
    votes=12,
    left_out={"tie": 3, "both_bad": 2, "identical_texts": 0},
    raters=2,
    questions=5,
    first_vote=datetime(2026, 1, 2, 12, 0, tzinfo=UTC),
    last_vote=datetime(2026, 1, 4, 12, 0, tzinfo=UTC),
    by_stages=(StagePairCounts(first="base", second="sft", first_chosen=3, second_chosen=4, ties=3, both_bad=2),),
    chains=("embedded",),
    licence=None,
)
PAIRS = PairStatistics(
    settings={"margin": 0.2, "answers from": "the run grpo | one"},
    versions={"verifiers": "verifiers-3"},
    rows_file="train.jsonl",
    rows_sha256="cd" * 32,
    rows=5,
    by_rule={"verdict": 4, "confidence": 1},
    by_kind={"direct": 5},
    samples=40,
    questions=6,
    questions_paired=4,
    left_out={"all_right": 2},
)


def votes_card(row_type=DpoRow, **changes):
    return dataset_card(STATISTICS.model_copy(update=changes), row_type, guidelines="GUIDELINES.md")


def packed(folder, licence="cc-by-4.0", is_parquet=False):
    return pack_dataset(folder, "org/x", licence, Limits(), is_parquet)


def problems(folder, **options):
    return [each.problem for each in packed(folder, **options).findings]


def front_of(text):
    return yaml.safe_load(text.split("---\n")[1])


def test_the_card_of_votes_reads_as_it_did_and_every_figure_comes_from_the_statistics():
    told = {"krippendorff_alpha": Metric(value=0.4213, n=31, low=0.2, high=0.61)}
    text = str(votes_card(agreement=told))
    assert text == was("votes-card", text)
    assert [line for line in CASES["votes_lines"] if f"\n{line}\n" not in text] == []
    assert "| Krippendorff's alpha | 0.421 | 0.20 to 0.61 | 31 |" in text
    unknown = {"cohen_kappa": Metric(value=None, n=31, note="defined for exactly two raters")}
    assert "| Cohen's kappa | defined for exactly two raters |  | 31 |" in str(votes_card(agreement=unknown))


def test_a_licence_nobody_chose_is_not_invented_and_a_chosen_one_stands_in_both_places():
    card = votes_card()
    assert "license" not in card.data.to_dict()
    assert "No licence has been chosen" in card.text
    card = votes_card(licence="cc-by-4.0")
    assert card.data.license == "cc-by-4.0"
    assert "released it under `cc-by-4.0`" in card.text


def test_every_column_of_every_format_is_explained_and_no_placeholder_is_left():
    for form, row_type in {"dpo": DpoRow, "kto": KtoRow, "sft": SftRow, "arena": ArenaRow}.items():
        card = votes_card(row_type, format=form)
        for name, field in row_type.model_fields.items():
            assert field.description and f"| `{name}` | {field.description} |" in card.text
        assert not re.search(r"\{\{|\}\}|\{%|More Information Needed|\bNone\b|Unknown|TODO", str(card))
        assert front_of(str(card))["tags"][:3] == ["preference", "human-feedback", "assay"]


def test_the_size_category_follows_the_rows_and_a_stage_name_cannot_break_the_table():
    sizes = {rows: votes_card(rows=rows).data.size_categories for rows in (999, 1_000, 2_000_000)}
    assert sizes == {999: ["n<1K"], 1_000: ["1K<n<10K"], 2_000_000: ["n>1M"]}
    pair = STATISTICS.by_stages[0].model_copy(update={"first": "a|b\n# heading"})
    assert "| a\\|b # heading, sft | 3 |" in votes_card(by_stages=(pair,)).text


def test_the_card_points_to_the_instructions_and_warns_of_personal_data():
    text = votes_card().text
    assert "the instructions in `GUIDELINES.md`" in text
    assert "Nobody has checked them for personal data" in text


def test_the_card_of_synthetic_pairs_reads_as_it_did_and_says_so_before_any_figure():
    card = pairs_card(PAIRS)
    assert str(card) == was("pairs-card", str(card))
    first = card.text.strip().splitlines()[2]
    assert first.startswith("**Synthetic labels (`label_source: synthetic-verifier`)")
    assert "human-feedback" not in card.data.tags
    assert [line for line in CASES["pairs_lines"] if f"\n{line}\n" not in str(card)] == []
    assert "every answer got right, none with a clearly better confidence | 2 |" in str(card)
    for name, field in PairRow.model_fields.items():
        assert field.description and f"\n| `{name}` | " in str(card)


def test_the_card_of_calibrated_pairs_tells_their_rule_and_how_often_answers_were_right():
    settings = {"by_rule": {"verdict": 3, "calibration": 2}, "accuracy": {"direct": Accuracy(right=11, claims=30)}}
    text = str(pairs_card(PAIRS.model_copy(update=settings)))
    assert "\n| calibration pairs | 2 |\n" in text
    assert "\n| right, of the claims to questions of kind direct | 11 of 30 |\n" in text
    assert "(right + 1) / (claims + 2)" in text
    assert "the model's own text, except for the stated confidence" in text
    assert "A *confidence* pair" not in text
    assert not re.search(r"\{\{|\}\}|\{%|\n\n\n", text)


@pytest.fixture
def folder(tmp_path):
    place = put(
        tmp_path / "votes", "train.jsonl", [{"prompt": "?", "chosen": f"up {n}", "rater": RATER} for n in range(3)]
    )
    (place / "README.md").write_text(CARD)
    (place / "GUIDELINES.md").write_text("# What raters were told\n")
    return place


def test_a_data_set_is_published_with_its_card_and_the_licence_chosen_and_not_twice(stand, folder):
    receipts = [publish(stand.api(), packed(folder), Target("org/votes", "v1.0")) for _ in range(2)]
    assert set(receipts[0].files) == {"README.md", "GUIDELINES.md", "train.jsonl"}
    assert [each.outcome for each in receipts] == ["published", "already there"]
    assert stand.hub.find("dataset", "org/votes").private
    text = stand.read("org/votes", "README.md", "dataset").decode()
    assert "license: cc-by-4.0" in text
    assert "No licence has been chosen" not in text


def test_without_a_licence_nothing_is_uploaded(stand, folder):
    message = stand.attempt(lambda: publish(stand.api(), packed(folder, None), Target("org/none", "v1.0")))
    assert "--license" in message
    assert stand.only_read()


def test_a_rater_by_name_is_refused_and_not_repeated(folder):
    for row in ({"rater": "ann.smith"}, {"id": "p", "concerns": [{"text": "x", "annotator": "ann.smith"}]}):
        put(folder, "train.jsonl", [row])
        (found,) = problems(folder)
        assert re.search(r"the column (rater|annotator) names a rater", found)
        assert "ann" not in found.replace("annotator", "")
    (folder / "train.jsonl").unlink()
    pq.write_table(pa.table({"annotator": ["ann"], "text": ["x"]}), folder / "train.parquet")
    assert "annotator names a rater" in problems(folder)[0]


def test_an_address_in_the_rows_is_a_warning_with_its_line(folder):
    (folder / "train.jsonl").write_text('{}\n{"text": "ann@lab.org, +41 44 123 45 67"}\n')
    warnings = check_parcel(packed(folder, "mit"), Limits())
    personal = {(each.problem, each.line) for each in warnings if each.check == "personal data"}
    assert personal == {("an e-mail address stands there", 2), ("a telephone number stands there", 2)}


BAD = [
    ("train.jsonl", "{", "cannot be read"),
    ("train.jsonl", "[1]\n", "is no JSON object"),
    ("more.parquet", "x", "cannot be read"),
    ("statistics.json", '{"rows_file": "train.jsonl", "rows_sha256": "0000"}', "another checksum"),
    ("model.pkl", "x", "is left out"),
]


@pytest.mark.parametrize(("file", "content", "word"), BAD)
def test_what_does_not_fit_is_named(folder, file, content, word):
    (folder / file).write_text(content)
    assert any(word in each for each in problems(folder))


def test_a_link_that_leads_out_of_the_folder_is_refused(folder, tmp_path):
    (tmp_path / "private.jsonl").write_text("{}\n")
    (folder / "linked.jsonl").symlink_to(tmp_path / "private.jsonl")
    assert any("leads out of the folder" in each for each in problems(folder))


def test_a_question_set_is_published_by_split_with_a_card_of_its_figures(tmp_path):
    mine = tmp_path / "mine.yaml"
    mine.write_bytes((EXAMPLES / "codons-and-enzymes.yaml").read_bytes())
    parts = packed(mine, "cc0-1.0").parts
    tables = [f"data/{split}.jsonl" for split in ("train", "validation", "test")]
    assert set(parts) == {"README.md", "mine.yaml", *tables}
    card = parts["README.md"].text()
    assert "| rows | 60 |" in card
    assert "“always abstain, 60%” gets right, an answer without a model | 2 of 16 |" in card
    rows = [json.loads(line) for path in tables for line in parts[path].text().splitlines()]
    assert {row["id"] for row in rows} == {row.id for row in load_questions(mine)}


def test_a_question_set_with_a_bad_row_is_not_published_and_the_row_is_named(tmp_path):
    good = {"id": "a", "prompt": "Which way?", "group": "g", "split": "test"}
    good |= {"truth": {"kind": "choice", "value": "up", "options": ["up", "down"]}}
    put(tmp_path, "set.jsonl", [good, {**good, "id": "b", "split": "exam"}])
    errors = [each for each in packed(tmp_path).findings if each.is_error]
    assert [(each.path, each.line, each.problem[:13]) for each in errors] == [("set.jsonl", 2, "field 'split'")]


FOLDERS = {"reports": put_report, "plain rows": lambda place: put(place, "mine.jsonl", [{"text": "x", "n": 1}])}


@pytest.mark.parametrize("name", FOLDERS)
@pytest.mark.parametrize("is_parquet", [False, True])
def test_a_folder_without_a_card_passes_every_check_with_the_card_it_gets(tmp_path, name, is_parquet):
    parcel = packed(FOLDERS[name](tmp_path), is_parquet=is_parquet)
    assert [each.problem for each in check_parcel(parcel, Limits())] == []
    front = front_of(parcel.parts["README.md"].text())
    (config,) = front["configs"]
    assert front["license"] == "cc-by-4.0"
    assert all(each["path"] in parcel.parts for each in config["data_files"])
    assert all(each["path"].endswith(".parquet") == is_parquet for each in config["data_files"])


def test_the_card_of_a_report_has_its_figures_beside_the_baselines_and_its_rows_as_a_table(tmp_path):
    parts = packed(put_report(tmp_path), is_parquet=True).parts
    text = packed(tmp_path).parts["README.md"].text()
    assert text == was("eval-rows-card", text)
    assert "\n| sft | 2 | 1.000 [0.500, 1.000] |" in text
    assert "\n| always up, 60% | 2 | 0.250 |" in text
    table = pq.read_table(io.BytesIO(parts["kmp-rows.parquet"].read())).to_pylist()
    assert table == [json.loads(line) for line in parts["kmp-rows.jsonl"].text().splitlines()]
    assert table == [flat(row) for row in report().rows]
    assert set(flat(eval_row("sft"))) == set(kinds()["eval"].columns)


def test_plain_rows_get_a_card_of_columns_and_splits_and_of_nothing_guessed(tmp_path):
    for name in ("train", "dev", "test"):
        put(tmp_path, f"{name}.jsonl", [{"text": "x"}])
    text = packed(tmp_path).parts["README.md"].text()
    (config,) = front_of(text)["configs"]
    assert {each["split"]: each["path"] for each in config["data_files"]} == {
        "train": "train.jsonl",
        "validation": "dev.jsonl",
        "test": "test.jsonl",
    }
    assert "| `text` | no meaning is recorded |" in text


def test_the_command_that_writes_reviewed_papers_writes_their_card_and_guidelines_beside_them(tmp_path):
    put(tmp_path, "train.jsonl", concerns())
    write_rows_card(tmp_path, "reviews", ["train.jsonl"])
    text = (tmp_path / "README.md").read_text()
    assert text == was("concerns-card", text)
    for line in ("| rows | 12 |", "| different papers | 12 |", "| design_flaw | 9 |", "| other | 3 |", "| major | 6 |"):
        assert f"\n{line}\n" in text
    assert "How to label a concern" in (tmp_path / "GUIDELINES.md").read_text()
    told = kinds()["reviews"]
    assert {name for each in (ReviewExample, Conversation) for name in each.model_fields} <= set(told.columns)
    assert {name for each in (Concern, HumanConcern) for name in each.model_fields} <= set(told.inner["concerns"])
    assert problems(tmp_path) == []
    put(tmp_path, "train.jsonl", [{"id": name, "concerns": []} for name in ("p", "q", "q")])
    write_rows_card(tmp_path, "reviews", ["train.jsonl"])
    assert "\n| different papers | 2 |\n" in (tmp_path / "README.md").read_text()


def test_rows_that_fit_no_column_type_are_not_written_as_parquet(tmp_path):
    put(tmp_path, "train.jsonl", [{"id": "p", "doi": each} for each in (1, "10.1/x")])
    (found,) = packed(tmp_path, is_parquet=True).findings
    assert "cannot be written as parquet" in found.problem
    assert "leave out --parquet" in found.remedy


def test_a_card_that_does_not_lead_to_the_parquet_file_is_noticed(folder):
    (folder / "README.md").write_text("---\nlicense: mit\n---\n\n# Mine\n")
    parcel = packed(folder, licence=None, is_parquet=True)
    assert "train.parquet" in parcel.parts
    assert [each.problem for each in parcel.findings] == ["does not name train.parquet, so readers load the JSONL file"]
