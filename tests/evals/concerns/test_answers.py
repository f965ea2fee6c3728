"""What a model wrote about a paper is read as a person would; its concerns are cleaned, merged with others and placed in the paper."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from typer.testing import CliRunner

from evals.errors import BadConfig
from evals.papers.places import Map
from evals.review.clean import Cleaning, clean, copy_record, maker_of, record_beside, without_lead
from evals.review.ensemble import Merging, Tool, clusters_of, merge, merging_threshold
from evals.review.match import ReadyVectors
from evals.review.parse import none_in, parse
from evals.schema.articles import ABSTRACT
from evals.schema.reviews import PredictionRow
from lab.cli import app
from tests.bench._measure import seconds
from tests.evals.concerns.rows import WordEncoder, predicted
from tests.evals.reports import TABLES
from tests.evals.reviewed import example as reviewed

FOLDER = Path(__file__).parents[1] / "cases"
CASES = yaml.safe_load((FOLDER / "review_answers.yaml").read_text(encoding="utf-8"))
OUTPUTS = FOLDER / "review_outputs.jsonl.gz"
TEXTS = [json.loads(each)["text"] for each in CASES["concerns"].values()]
A = CASES["concerns"]["A"]


def read(raw: str | None):
    for name, concern in CASES["concerns"].items():
        raw = raw and raw.replace(f"<{name}>", concern)
    return parse("a", raw)


def said(raw: str | None) -> list[str]:
    return [each.text for each in read(raw).concerns]


def test_every_concern_is_found_word_for_word() -> None:
    found = {row["case"]: (read(row["raw"]).status, said(row["raw"])) for row in CASES["read"]}
    assert found == {row["case"]: ("ok", TEXTS[: row["found"]]) for row in CASES["read"]}


def test_concerns_are_found_with_their_labels_in_the_forms_of_model_families() -> None:
    def told(row) -> tuple[str, list[list[str]]]:
        found = read(row["raw"])
        return found.status, [[each.text, each.category, each.severity] for each in found.concerns]

    found = {row["case"]: told(row) for row in CASES["forms"]}
    assert found == {row["case"]: (row.get("status", "ok"), row["said"]) for row in CASES["forms"]}


def test_titles_give_severity_and_numbered_points_within_points_are_concerns_of_their_own() -> None:
    told = {row["case"]: read(row["raw"]).concerns for row in CASES["titles"]}
    found = {case: [[each.severity, each.text[:24]] for each in concerns] for case, concerns in told.items()}
    assert found == {row["case"]: row["said"] for row in CASES["titles"]}


def test_a_bad_item_in_the_middle_costs_neither_itself_nor_what_follows() -> None:
    found = {row["case"]: said(row["raw"]) for row in CASES["middle"]}
    assert found == {row["case"]: [TEXTS[0], row["middle"], TEXTS[1]] for row in CASES["middle"]}


def test_the_status_tells_none_from_some_from_unreadable() -> None:
    found = {row["case"]: read(row["raw"]).status for row in CASES["status"]}
    assert found == {row["case"]: row["status"] for row in CASES["status"]}


def test_an_answer_that_stops_early_keeps_what_it_said_and_is_partial() -> None:
    for row in CASES["cut"]:
        found = read(row["raw"])
        assert (found.status, found.concerns[-1].text) == ("partial", row["last"]), row
        assert row["problem"] in found.problems, row


def test_a_number_or_severity_before_a_concern_is_taken_off_and_the_severity_kept() -> None:
    text = TEXTS[0]
    found = {row["lead"]: without_lead(row["lead"] + text) for row in CASES["leads"]}
    assert found == {row["lead"]: (text, row["severity"]) for row in CASES["leads"]}
    assert without_lead("**1. Small sample.** It is.") == ("**Small sample.** It is.", None)


def test_words_and_numbers_that_a_concern_is_about_stay() -> None:
    assert [without_lead(text) for text in CASES["no_leads"]] == [(text, None) for text in CASES["no_leads"]]


def test_the_label_of_a_concern_goes_before_the_severity_in_its_text() -> None:
    rows = [
        {"text": f"Major 1. {TEXTS[0]}", "category": "design_flaw", "severity": "minor"},
        {"text": f"Minor 2. {TEXTS[0]}", "category": "design_flaw"},
        {"text": "Major depressive disorder was not diagnosed.", "category": "other"},
    ]
    assert [each.severity for each in parse("a", json.dumps(rows)).concerns] == ["minor", "minor", "unknown"]


def test_a_text_of_null_is_no_concern_that_reads_none() -> None:
    found = read('[{"text": null, "severity": "minor"}, {"text": "None"}, <A>]')
    assert [concern.text for concern in found.concerns] == TEXTS[:1]
    assert found.problems == ("concern 1 has no text", "concern 2 has no text")


def test_labels_are_repaired_by_the_table_and_unknown_ones_are_marked() -> None:
    one = '{"text": "One is here.", "category": "Statoretical methodology", "severity": "CRITICAL"}'
    two = '{"text": "Two is here.", "category": "ethics", "severity": "minor"}'
    first, second = parse("a", f"[{one}, {two}]").concerns
    assert (first.category, first.severity) == ("statistical_methodology", "major")
    assert (second.category, second.severity) == ("unknown", "minor")
    problems = parse("a", '[{"text": "Two is here.", "category": "ethics", "severity": "minor"}]').problems
    assert problems == ("concern 1: unknown category 'ethics'",)


SAID = st.text(min_size=3, max_size=60).filter(
    lambda text: sum(map(str.isalpha, text)) > 2 and without_lead(text)[0] == text.strip()
)


@given(st.lists(SAID, min_size=1, max_size=6, unique_by=lambda text: text.strip()))
@example(["A\nuº"])
def test_valid_json_is_read_exactly(texts: list[str]) -> None:
    raw = json.dumps([{"text": text, "category": "other", "severity": "minor"} for text in texts])
    said = [text.strip() for text in texts if text.strip().lower() not in ("none", "null", "nan")]
    wanted = [text for text in said if not none_in(text)]  # such as a heading alone, INTRODUCTION
    assert [concern.text for concern in parse("a", raw).concerns] == wanted


@given(st.text(alphabet="[]{}\",:'`\\ntexcagory1 \n<>/", max_size=300))
def test_no_output_raises(raw: str) -> None:
    assert parse("a", raw).status in ("ok", "empty", "partial", "failed")


@pytest.mark.parametrize("part", ["[", '["', '{"text": ', "<think>", "[1,", '{"text": "a b c" '])
def test_hostile_outputs_are_answered_in_bounded_time(part: str) -> None:
    assert seconds(lambda: parse("a", part * 5_000)) < 5


@pytest.mark.parametrize("part", [slice(722), pytest.param(slice(722, None), marks=pytest.mark.slow)])
def test_nothing_is_lost_or_invented_in_2222_outputs_of_37_forms_and_500_damaged_ones(part: slice) -> None:
    """Outputs made with planted concerns, and what was read of each when none that a person would find was lost."""
    rows = [json.loads(line) for line in gzip.decompress(OUTPUTS.read_bytes()).splitlines()[part]]
    found = [[" ".join(each.text.split()) for each in parse("x", raw).concerns] for raw, _ in rows]
    assert len(rows) in (722, 2000)
    assert [(raw, said, now) for (raw, said), now in zip(rows, found, strict=True) if said != now] == []


def test_an_answer_that_is_cut_anywhere_says_nothing_but_what_stands_in_it() -> None:
    rows = [{"category": "other", "severity": "minor", "text": text} for text in (*TEXTS, "样本量太小，无法支持结论。")]
    debris = set()
    for raw in (
        json.dumps(rows),
        json.dumps(rows, indent=2, ensure_ascii=False),
        repr([dict(reversed(rows[0].items()))]),
    ):
        found = {each.text for end in range(len(raw)) for each in parse("a", raw[:end]).concerns}
        debris |= {each for each in found if not any(row["text"].startswith(each) for row in rows)}
    assert debris == set()


# ---- rows of concerns -----------------------------------------------------------------------------


LABELLED = {"text": "A b c.", "category": "Interpret", "severity": "major", "page": 3}


def row(*concerns: object, **more: object) -> PredictionRow:
    return PredictionRow.model_validate({"article_id": "elife:1", "concerns": concerns, **more})


def test_what_goes_and_why_is_shown() -> None:
    for said, cleaning, kept, removed in TABLES["reviews: lists, cleaning, what stays, what goes"]:
        found = clean(row(*said), Cleaning(**cleaning))
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


FIRST = Tool("a", (predicted("1", labelled("p", "minor"), labelled("q", "minor"), labelled("r", "major")),))
SECOND = Tool("b", (predicted("1", labelled("s", "minor"), labelled("t", "optional")), predicted("2", "u")))
SPACE = vectors(p=0, q=90, r=180, s=5, t=270, u=45)


def texts(strategy: str, **more: object) -> list[str]:
    merging = Merging(strategy, 0.98, **more)
    return [each["text"] for each in merge([FIRST, SECOND], merging, SPACE)[0][0]["concerns"]]


def test_the_best_supported_stand_first_then_the_more_severe() -> None:
    assert texts("union") == ["p", "r", "q", "t"]
    assert texts("vote") == texts("intersection") == ["p"]
    assert texts("union", cap=2) == ["p", "r"]


def test_every_concern_says_where_it_came_from() -> None:
    (row, other), counts = merge([FIRST, SECOND], Merging("union", 0.98, cap=2), SPACE)
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


@pytest.mark.parametrize("tools", [[FIRST], [FIRST, FIRST]])
def test_an_ensemble_needs_two_tools(tools: list[Tool]) -> None:
    with pytest.raises(BadConfig, match="two files or more"):
        merge(tools, Merging("union", 0.9), SPACE)


def test_more_votes_than_tools_are_refused() -> None:
    with pytest.raises(BadConfig, match="more than the 2 tools"):
        merge([FIRST, SECOND], Merging("vote", 0.9, min_votes=3), SPACE)


@pytest.mark.parametrize(
    ("concern", "quote", "is_quoted"), TABLES["reviews: words of a concern, where they stand, whether as a quotation"]
)
def test_words_of_a_concern_are_found_where_they_stand(concern, quote, is_quoted):
    methods = "All twelve mice were kept in pairs without any noise. It was of the and to be."
    paper = reviewed([("Methods", methods)], title="T", abstract="A quiet abstract of few words.")
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
