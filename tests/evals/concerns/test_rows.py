"""Rows of concerns: cleaned, merged from several tools, placed in the paper, with the record of who gave them."""

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from evals.errors import BadConfig
from evals.papers.places import Map
from evals.review.clean import Cleaning, clean, copy_record, maker_of, record_beside
from evals.review.ensemble import Merging, Tool, clusters_of, merge, merging_threshold
from evals.review.match import ReadyVectors
from evals.schema.articles import ABSTRACT
from evals.schema.reviews import PredictionRow
from lab.cli import app
from tests.evals.concerns.rows import WordEncoder, predicted
from tests.evals.reports import TABLES
from tests.evals.reviewed import example

LABELLED = {"text": "A b c.", "category": "Interpret", "severity": "major", "page": 3}


def row(*concerns: object, **more: object) -> PredictionRow:
    return PredictionRow.model_validate({"article_id": "elife:1", "concerns": concerns, **more})


def test_what_goes_and_why_is_shown() -> None:
    for given, cleaning, kept, removed in TABLES["reviews: lists, cleaning, what stays, what goes"]:
        found = clean(row(*given), Cleaning(**cleaning))
        assert list(found.row.concerns) == kept
        assert [[each["index"], each["reason"], each["kept"]] for each in found.removed] == removed


def test_objects_stay_objects_with_their_own_fields_and_a_repaired_label() -> None:
    document = clean(row("First.", LABELLED, raw_output="x"), Cleaning()).document(Cleaning())
    assert document["concerns"] == ["First.", LABELLED | {"category": "interpretation"}]
    assert document["raw_output"] == "x"
    assert document["repaired"] == [{"index": 1, "field": "category", "before": "Interpret", "after": "interpretation"}]


def test_a_label_nobody_knows_stays_as_written_and_is_counted() -> None:
    found = clean(row({"text": "A b.", "category": "ethics", "severity": "minor"}), Cleaning())
    assert found.row.concerns[0].category == "ethics"
    assert found.unknown_labels == 1


def test_plain_and_labelled_lists_of_a_published_row_stay_in_step() -> None:
    both = [{"text": text, "category": "other", "severity": "minor"} for text in ("A.", "A.", "B.")]
    document = clean(row("A.", "A.", "B.", structured_concerns=both), Cleaning()).document(Cleaning())
    assert document["concerns"] == ["A.", "B."]
    assert document["structured_concerns"] == [both[0], both[2]]


ANGLES = [0, 11, 22, 33, 44]
FAN = np.array([[np.cos(np.radians(a - b)) for b in ANGLES] for a in ANGLES])
"""Neighbours 0.982 alike, the ends 0.719."""


def test_single_linkage_chains_what_complete_linkage_keeps_apart() -> None:
    tools = [0, 1, 0, 1, 0]
    assert clusters_of(FAN, tools, 0.98, "single") == [[0, 1, 2, 3, 4]]
    assert clusters_of(FAN, tools, 0.98, "complete") == [[0, 1], [2, 3], [4]]


def test_concerns_of_one_tool_are_never_joined_to_each_other() -> None:
    assert clusters_of(np.ones((3, 3)), [0, 0, 0], 0.5, "complete") == [[0], [1], [2]]
    assert clusters_of(np.ones((3, 3)), [0, 0, 1], 0.5, "complete") == [[0, 2], [1]]


def vectors(**angles: float) -> ReadyVectors:
    table = {k: (np.cos(np.radians(v)), np.sin(np.radians(v))) for k, v in angles.items()}
    return ReadyVectors("file", table)


def labelled(text: str, severity: str, category: str = "other") -> dict:
    return {"text": text, "category": category, "severity": severity}


A = Tool("a", (predicted("1", labelled("p", "minor"), labelled("q", "minor"), labelled("r", "major")),))
B = Tool("b", (predicted("1", labelled("s", "minor"), labelled("t", "optional")), predicted("2", "u")))
SPACE = vectors(p=0, q=90, r=180, s=5, t=270, u=45)


def texts(strategy: str, **more: object) -> list[str]:
    merging = Merging(strategy, 0.98, **more)
    return [each["text"] for each in merge([A, B], merging, SPACE)[0][0]["concerns"]]


def test_the_best_supported_stand_first_then_the_more_severe() -> None:
    assert texts("union") == ["p", "r", "q", "t"]
    assert texts("vote") == texts("intersection") == ["p"]
    assert texts("union", cap=2) == ["p", "r"]


def test_every_concern_says_where_it_came_from() -> None:
    (row, other), counts = merge([A, B], Merging("union", 0.98, cap=2), SPACE)
    first = row["concerns"][0]
    assert (first["support"], first["sources"]) == (2, ["a", "b"])
    assert first["origins"] == [{"tool": "a", "index": 0, "text": "p"}, {"tool": "b", "index": 0, "text": "s"}]
    assert [each["text"] for each in row["removed"]] == ["q", "t"]
    assert (counts["n_given"], counts["n_clusters"], counts["n_fused"]) == ({"a": 3, "b": 3}, 5, 1)
    assert other["concerns"][0]["sources"] == ["b"]


def test_the_words_are_those_nearest_to_all_and_labels_are_what_most_say() -> None:
    tools = [
        Tool("a", (predicted("1", labelled("p", "major")),)),
        Tool("b", (predicted("1", labelled("q", "minor")),)),
        Tool("c", (predicted("1", labelled("r", "minor")),)),
    ]
    (row,), _ = merge(tools, Merging("intersection", 0.9), vectors(p=0, q=10, r=20))
    (concern,) = row["concerns"]
    assert (concern["text"], concern["severity"], concern["support"]) == ("q", "minor", 3)


def test_the_threshold_of_merging_is_what_other_papers_reach() -> None:
    rows = tuple(
        predicted(f"x:{i}", *(f"topic gene{i}{k} assay{i}{k} tissue{i}{k}" for k in range(4))) for i in range(20)
    )
    found = merging_threshold([Tool("a", rows), Tool("b", rows)], WordEncoder(), seed=0)
    assert 0.25 < found.value < 0.95
    _, counts = merge([Tool("a", rows), Tool("b", rows)], Merging("union", found.value), WordEncoder())
    assert counts["n_clusters"] == 80


@pytest.mark.parametrize("tools", [[A], [A, A]])
def test_an_ensemble_needs_two_tools(tools: list[Tool]) -> None:
    with pytest.raises(BadConfig, match="two files or more"):
        merge(tools, Merging("union", 0.9), SPACE)


def test_more_votes_than_tools_are_refused() -> None:
    with pytest.raises(BadConfig, match="more than the 2 tools"):
        merge([A, B], Merging("vote", 0.9, min_votes=3), SPACE)


@pytest.mark.parametrize(
    ("concern", "quote", "is_quoted"), TABLES["reviews: words of a concern, where they stand, whether as a quotation"]
)
def test_words_of_a_concern_are_found_where_they_stand(concern, quote, is_quoted):
    methods = "All twelve mice were kept in pairs without any noise. It was of the and to be."
    paper = example([("Methods", methods)], title="T", abstract="A quiet abstract of few words.")
    place = Map(paper.article).place(concern)
    if quote is None:
        assert place is None
    else:
        assert place is not None and place.is_quoted == is_quoted
        assert quote in place.quote
        assert (place.section == ABSTRACT) == ("abstract" in quote)


OWN = '{"article_id": "s:1", "concerns": ["There is no control arm."]}\n'
RECORD = Path(__file__).parents[3] / "training/embedded/review/reports/held-out.run.json"


def rows_with_record(file: Path) -> Path:
    """Return a file of rows whose record says that the embedded reviewer answered."""
    file.write_text(OWN, encoding="utf-8")
    record_beside(file).write_text(RECORD.read_text(encoding="utf-8"), encoding="utf-8")
    return file


def test_rows_made_of_others_take_their_record_along(tmp_path: Path):
    rows = rows_with_record(tmp_path / "rows.jsonl")
    assert copy_record(rows, tmp_path / "clean.jsonl")
    assert maker_of(tmp_path / "clean.jsonl") == maker_of(rows) is not None


def test_rows_of_nobody_known_are_not_given_the_record_of_rows_that_stood_there(tmp_path: Path):
    old = rows_with_record(tmp_path / "clean.jsonl")
    assert not copy_record(tmp_path / "rows.jsonl", old)
    assert maker_of(old) is None


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with rows of one's own under a record, other rows without one, and raw answers."""
    monkeypatch.chdir(tmp_path)
    rows_with_record(tmp_path / "own.jsonl")
    (tmp_path / "other.jsonl").write_text(OWN, encoding="utf-8")
    (tmp_path / "raw.jsonl").write_text('{"id": "s:1", "raw": "[]"}\n', encoding="utf-8")
    return tmp_path


def review(*command: str) -> None:
    done = CliRunner().invoke(app, ["review", *command], catch_exceptions=False)
    assert done.exit_code == 0, done.output


MERGE = ("ensemble", "own.jsonl", "other.jsonl", "--encoder", "lexical", "--threshold", "0.5")


@pytest.mark.parametrize("command", [("clean", "other.jsonl"), ("parse", "raw.jsonl"), MERGE], ids=lambda each: each[0])
def test_every_command_that_writes_rows_anew_removes_the_older_record(command: tuple[str, ...], folder: Path):
    out = rows_with_record(folder / "out.jsonl")
    review(*command, "--out", str(out))
    assert not record_beside(out).exists()


SCORE = ("score", "--reference", "other.jsonl", "--predictions", "own.jsonl")


def test_no_command_writes_over_a_record_or_what_it_reads(folder: Path):
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    for command in (("parse", "own.jsonl"), ("clean", "own.jsonl"), MERGE, SCORE):
        for out in ("own.run.json", "own", *(() if command == SCORE else ("own.jsonl",))):
            with pytest.raises(BadConfig, match=r"name (another file|a file that ends in \.json)"):
                review(*command, "--out", out)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before
