"""Data sets: what is published of a folder, and the cards of votes, of pairs and of rows."""

import gzip
import json
import re
import shutil
import sys
from pathlib import Path

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from evals.errors import LabError
from evals.questions import load_questions
from evals.questions.pairs import PairRow, PairStatistics
from evals.questions.sets import EXAMPLES
from evals.schema import Metric
from evals.schema.articles import Conversation, ReviewExample
from evals.schema.reviews import Concern, HumanConcern
from evals.schema.votes import ArenaRow, DpoRow, ExportStatistics, KtoRow, SftRow
from hub.cards import read_front_matter
from hub.cards.dataset import KINDS, dataset_card, flat, pairs_card, write_rows_card
from hub.checks import MARK, Refused, check_upload
from hub.client import write_receipt
from hub.datasets import pack_dataset, published_rows
from hub.publish import publish
from tests.hub.cases import CASES, was
from tests.hub.rows import concerns, put, put_report, report

RATER = "0f" * 16
STATISTICS = ExportStatistics.model_validate(CASES["votes"])
PAIRS = PairStatistics.model_validate(CASES["pairs"])


def votes_card(row_type=DpoRow, **changes):
    return dataset_card(STATISTICS.model_copy(update=changes), row_type, guidelines="GUIDELINES.md")


def packed(folder, licence="cc-by-4.0", repo="org/x"):
    return pack_dataset(folder, repo, licence)


def problems(folder, **options):
    return [each.problem for each in packed(folder, **options).findings]


def test_the_cards_of_votes_and_of_pairs_read_as_they_did():
    told = {"krippendorff_alpha": Metric(value=0.4213, n=31, low=0.2, high=0.61)}
    text = str(votes_card(agreement=told))
    assert text == was("votes-card", text)
    unknown = {"cohen_kappa": Metric(value=None, n=31, note="defined for exactly two raters")}
    assert "| Cohen's kappa | defined for exactly two raters |  | 31 |" in str(votes_card(agreement=unknown))
    card = pairs_card(PAIRS)
    assert str(card) == was("pairs-card", str(card))
    assert card.text.strip().splitlines()[2].startswith("**Synthetic labels (`label_source: synthetic-verifier`)")
    assert "\n| right answers among those that claim something, kind direct | 11 of 30 |\n" in str(card)
    assert not re.search(r"\{\{|\}\}|\{%|\n\n\n", str(card))


def test_the_card_of_votes_is_written_on_a_space_where_assay_is_no_installed_package(monkeypatch):
    monkeypatch.delenv("ASSAY_URL", raising=False)
    monkeypatch.setattr(sys, "path", [each for each in sys.path if not list(Path(each).glob("assay-*.dist-info"))])
    assert "Made with Assay, installed from a copy" in str(votes_card())


def test_a_licence_nobody_chose_is_not_invented_and_a_chosen_one_stands_in_both_places():
    assert "license" not in votes_card().data.to_dict()
    card = votes_card(licence="cc-by-4.0")
    assert card.data.license == "cc-by-4.0"
    assert "released it under `cc-by-4.0`" in card.text


def test_every_column_of_every_format_is_explained_and_no_placeholder_is_left():
    formats = {"dpo": DpoRow, "kto": KtoRow, "sft": SftRow, "arena": ArenaRow}
    cards = [(row_type, votes_card(row_type, format=form)) for form, row_type in formats.items()]
    for row_type, card in [*cards, (PairRow, pairs_card(PAIRS))]:
        for name, field in row_type.model_fields.items():
            assert field.description and f"| `{name}` | {field.description} |" in card.text
        assert not re.search(r"\{\{|\}\}|\{%|More Information Needed|\bNone\b|Unknown|TODO", str(card))


def test_the_size_category_follows_the_rows_and_a_stage_name_cannot_break_the_table():
    sizes = {rows: votes_card(rows=rows).data.size_categories for rows in (999, 1_000, 2_000_000)}
    assert sizes == {999: ["n<1K"], 1_000: ["1K<n<10K"], 2_000_000: ["n>1M"]}
    pair = STATISTICS.by_stages[0].model_copy(update={"first": "a|b\n# heading"})
    assert "| a\\|b # heading, sft | 3 |" in votes_card(by_stages=(pair,)).text


@pytest.fixture
def folder(tmp_path):
    rows = [{"prompt": "?", "chosen": f"up {n}", "rater": RATER} for n in range(3)]
    place = put(tmp_path / "votes", "train.jsonl", rows)
    (place / "README.md").write_text(CASES["own_card"])
    (place / "GUIDELINES.md").write_text("# What raters were told\n")
    return place


def test_a_data_set_is_published_with_its_card_and_the_licence_chosen_not_twice_and_not_without_one(stand, folder):
    receipts = [publish(stand.api(), packed(folder, repo="org/votes")) for _ in range(2)]
    assert set(receipts[0].files) == {MARK, "README.md", "GUIDELINES.md", "train.jsonl"}
    assert [each.outcome for each in receipts] == ["published", "already there"]
    assert stand.hub.find("dataset", "org/votes").private
    text = stand.read("org/votes", "README.md", "dataset").decode()
    assert "license: cc-by-4.0" in text
    assert "No licence has been chosen" not in text
    stand.hub.log.clear()
    assert "--license" in stand.attempt(lambda: publish(stand.api(), packed(folder, None)))
    assert stand.only_read(), "without a licence nothing is uploaded"


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
    warnings = check_upload(packed(folder, "mit"))
    personal = {(each.problem, each.line) for each in warnings if each.check == "personal data"}
    assert personal == {("an e-mail address stands there", 2), ("a telephone number stands there", 2)}


def test_what_does_not_fit_is_named(folder, tmp_path):
    for number, (file, content, word) in enumerate(CASES["unfit_files"]):
        place = shutil.copytree(folder, tmp_path / str(number))
        (place / file).write_text(content)
        assert any(word in each for each in problems(place)), file
    (tmp_path / "private.jsonl").write_text("{}\n")
    (folder / "linked.jsonl").symlink_to(tmp_path / "private.jsonl")
    assert any("leads out of the folder" in each for each in problems(folder))


CSV = b'id,text\n1,"up\nand down"\n2,x\n'
PACKED_ROWS = {
    "mine.csv": CSV,
    "mine.tsv": CSV.replace(b",", b"\t"),
    "mine.csv.gz": gzip.compress(CSV),
    "mine.jsonl.gz": gzip.compress(b'{"id": 1, "text": "up\\nand down"}\n{"id": 2, "text": "x"}\n'),
}


def test_rows_in_tables_and_in_gzip_files_are_published_and_load_as_they_were(tmp_path):
    for name, content in PACKED_ROWS.items():
        (place := tmp_path / name.replace(".", "-")).mkdir()
        (place / name).write_bytes(content)
        upload = packed(place)
        check_upload(upload)
        assert {name, "README.md"} < set(upload.parts)
        for path, part in upload.parts.items():
            (place / path).write_bytes(part.read())
        loaded = datasets.load_dataset(str(place), split="train", cache_dir=str(tmp_path / "cache"))
        assert loaded.to_list() == [{"id": 1, "text": "up\nand down"}, {"id": 2, "text": "x"}], name


UNFIT_ROWS = [
    ("a.csv.gz", gzip.compress(CSV)[:-8], "ended before the end-of-stream"),
    ("a.csv.gz", CSV, "Not a gzipped file"),
    ("a.jsonl.gz", gzip.compress(b'{"a": "' + b"x" * 50_000_001 + b'"}'), "too large to be searched"),
    ("more.jsonl", b'{"id": 1}\n', "rows of several formats"),
]
for file, text, told in CASES["unfit_rows"]:
    content = text.replace("TOKEN", CASES["secrets"][0][0]).encode("latin-1")
    UNFIT_ROWS.append((file, gzip.compress(content) if file.endswith(".gz") else content, told))


def test_tables_and_gzip_files_that_hide_secrets_or_raters_or_cannot_be_loaded_are_refused(tmp_path):
    for number, (name, content, words) in enumerate(UNFIT_ROWS):
        (place := tmp_path / str(number)).mkdir()
        (place / name).write_bytes(content)
        if name == "more.jsonl":
            (place / "train.csv").write_bytes(CSV)
        with pytest.raises(Refused, match=re.escape(words)):
            check_upload(packed(place))


def test_published_sets_that_hold_rows_of_a_rater_are_found_by_their_receipts(stand, folder):
    write_receipt(publish(stand.api(), packed(folder, repo="org/held")), folder)
    held = {"repo": "org/held", "tag": None, "folder": str(folder), "rows": 3}
    assert published_rows(folder.parent, [RATER]) == [held]
    assert published_rows(folder.parent, ["1" * 32]) == []
    put(folder, "train.jsonl", [{"rater": "2" * 32}])
    (unsure,) = published_rows(folder.parent, [RATER])
    assert unsure["rows"] is None, "the folder was written again, so it cannot tell what is there"


def test_a_question_set_is_published_by_split_with_a_card_of_its_figures(tmp_path):
    mine = tmp_path / "mine.yaml"
    mine.write_bytes((EXAMPLES / "codons-and-enzymes.yaml").read_bytes())
    parts = packed(mine, "cc0-1.0").parts
    tables = [f"data/{split}.jsonl" for split in ("train", "validation", "test")]
    assert set(parts) == {MARK, "README.md", "mine.yaml", "eval.yaml", *tables}
    card = parts["README.md"].text()
    assert "| rows | 60 |" in card
    assert "2 right of 16 test rows (“longest option”), " in card and ", 2 (“always abstain, 60%”) |" in card
    rows = [json.loads(line) for path in tables for line in parts[path].text().splitlines()]
    assert {row["id"] for row in rows} == {row.id for row in load_questions(mine)}


def test_held_out_questions_that_come_with_assay_are_published_as_a_benchmark_by_their_name():
    upload = packed(Path("kmp-test"), "apache-2.0", repo="org/kmp-test")
    parts, card = upload.parts, upload.parts["README.md"].text()
    (task,) = yaml.safe_load(parts["eval.yaml"].text())["tasks"]
    assert (task["id"], task["split"]) == ("kmp-test", "test")
    assert task["field_spec"] == {"input": "messages", "target": "target"}
    rows = [json.loads(line) for line in parts["data/test.jsonl"].text().splitlines()]
    right = re.compile(task["scorers"][0]["args"]["pattern"])
    for row, example in zip(rows, load_questions("kmp-test"), strict=True):
        assert right.search(example.answer)[1] == row["target"], "the scorer finds a right answer right"
        assert row["messages"][-1]["content"] == example.prompt
    assert read_front_matter(card)["configs"][0]["data_files"] == [{"split": "test", "path": "data/test.jsonl"}]
    assert 'load_dataset("org/kmp-test", split="test", revision="v1.0")' in card
    assert "Apache License" in parts["LICENSE"].text()
    assert check_upload(upload) == ()


def test_held_out_answers_are_never_a_training_split_and_the_code_loads_from_the_repository(tmp_path):
    card = packed(put_report(tmp_path / "reports")).parts["README.md"].text()
    assert read_front_matter(card)["configs"][0]["data_files"][0]["split"] == "test"
    assert 'load_dataset("org/x", split="test", revision="v1.0")' in card
    put(tmp_path / "rows", "mine.jsonl", [{"text": "x", "split": "test"}])
    rows = packed(tmp_path / "rows").parts["README.md"].text()
    assert read_front_matter(rows)["configs"][0]["data_files"][0]["split"] == "test"


def test_a_question_set_with_a_bad_row_is_not_published_and_the_row_is_named(tmp_path):
    good = {"id": "a", "prompt": "Which way?", "group": "g", "split": "test"}
    good |= {"truth": {"kind": "choice", "value": "up", "options": ["up", "down"]}}
    put(tmp_path, "set.jsonl", [good, {**good, "id": "b", "split": "exam"}])
    errors = [each for each in packed(tmp_path).findings if each.is_error]
    assert [(each.path, each.line, each.problem[:13]) for each in errors] == [("set.jsonl", 2, "field 'split'")]


FOLDERS = {"reports": put_report, "plain rows": lambda place: put(place, "mine.jsonl", [{"text": "x", "n": 1}])}


def test_a_folder_without_a_card_passes_every_check_with_the_card_it_gets(tmp_path):
    for name in FOLDERS:
        upload = packed(FOLDERS[name](tmp_path / name))
        told = [each.problem[:44] for each in check_upload(upload)]
        assert told == (["nothing says how these rows were made, for w"] if name == "plain rows" else [])
        front = read_front_matter(upload.parts["README.md"].text())
        (config,) = front["configs"]
        assert front["license"] == "cc-by-4.0"
        assert all(each["path"] in upload.parts for each in config["data_files"])


def test_the_card_of_a_report_has_its_figures_beside_the_baselines_and_its_rows_as_a_table(tmp_path):
    parts = packed(put_report(tmp_path)).parts
    text = parts["README.md"].text()
    assert text == was("eval-rows-card", text)
    table = [json.loads(line) for line in parts["kmp-rows.jsonl"].text().splitlines()]
    assert table == [flat(row) for row in report().rows]
    assert set(flat(report().rows[0])) == set(KINDS["eval"]["columns"])


def test_plain_rows_get_a_card_of_columns_and_splits_and_of_nothing_guessed(tmp_path):
    for name in ("train", "dev", "test"):
        put(tmp_path, f"{name}.jsonl", [{"text": "x"}])
    text = packed(tmp_path).parts["README.md"].text()
    (config,) = read_front_matter(text)["configs"]
    files = {"train": "train.jsonl", "validation": "dev.jsonl", "test": "test.jsonl"}
    assert {each["split"]: each["path"] for each in config["data_files"]} == files
    assert "| `text` |  |" in text


def test_the_command_that_writes_reviewed_papers_writes_their_card_and_guidelines_beside_them(tmp_path):
    put(tmp_path, "train.jsonl", concerns())
    write_rows_card(tmp_path, "reviews", ["train.jsonl"])
    text = (tmp_path / "README.md").read_text()
    assert text == was("concerns-card", text)
    assert "How to label a concern" in (tmp_path / "GUIDELINES.md").read_text()
    told = KINDS["reviews"]
    assert {name for each in (ReviewExample, Conversation) for name in each.model_fields} <= set(told["columns"])
    assert {name for each in (Concern, HumanConcern) for name in each.model_fields} <= set(told["inner"]["concerns"])
    assert problems(tmp_path) == []


def test_a_card_that_a_person_wrote_is_published_whole_with_the_licence_that_is_chosen_and_another_is_refused(tmp_path):
    put(tmp_path, "train.jsonl", [{"text": "x"}])
    (tmp_path / "README.md").write_text("# Mine\n\n## License\n\nAsk Ann first.\n")
    text = packed(tmp_path, "mit").parts["README.md"].text()
    assert read_front_matter(text) == {"license": "mit"}
    assert "Ask Ann first." in text
    configs = 'configs:\n- data_files: ["*.jsonl"]\n- data_files: [{path: [train.jsonl]}]'
    (tmp_path / "README.md").write_text(f"---\nlicense: cc0-1.0\n{configs}\n---\n# Mine\n")
    assert problems(tmp_path, licence="mit") == ["the card says license: cc0-1.0, and --license says mit"]
    assert problems(tmp_path, licence=None) == []
    (tmp_path / "card.md").write_text("---\nauthors: Ann\n---\n## Uses\n\nTeaching.\n")
    upload = packed(tmp_path, None)
    assert "**By** Ann" in upload.parts["README.md"].text()
    assert "## Uses\n\nTeaching." in upload.parts["README.md"].text()
    assert "card.md" not in upload.parts


def test_an_edited_card_is_not_written_over_by_the_next_export(tmp_path):
    put(tmp_path, "train.jsonl", concerns())
    for _ in range(2):
        write_rows_card(tmp_path, "reviews", ["train.jsonl"])
    card = tmp_path / "README.md"
    card.write_text(card.read_text().replace("## Licence", "## Licence\n\nAsk Ann."))
    with pytest.raises(LabError, match=r"README\.md, line \d+: somebody edited this card"):
        write_rows_card(tmp_path, "reviews", ["train.jsonl"])
