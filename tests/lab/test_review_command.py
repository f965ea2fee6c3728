"""`assay review` as people and programs use it."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evals.errors import BadConfig, BadRow, LabError
from lab.cli import app as every
from lab.commands.review import app
from tests.evals.concerns.test_published import FORMS

RUN = CliRunner()


def lines(path: Path, rows: list[dict]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def document(*arguments: str) -> dict:
    result = RUN.invoke(app, [*arguments, "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def read(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


RAW = [
    {"id": "a", "raw": '[{"text": "No control.", "category": "design", "severity": "major"}]'},
    {"id": "b", "raw": "[]"},
    {"id": "c", "raw": None},
]


def test_parse_gives_every_field_of_the_contract(tmp_path: Path) -> None:
    found = document("parse", lines(tmp_path / "raw.jsonl", RAW))
    assert [set(each) for each in found] == [{"id", "status", "concerns", "problems"}] * 3
    assert [each["status"] for each in found] == ["ok", "empty", "failed"]
    assert found[0]["concerns"] == [{"text": "No control.", "category": "design_flaw", "severity": "major"}]


def test_what_parse_writes_can_be_cleaned(tmp_path: Path) -> None:
    parsed, cleaned = tmp_path / "parsed.jsonl", tmp_path / "clean.jsonl"
    document("parse", lines(tmp_path / "raw.jsonl", RAW), "--out", str(parsed))
    totals = document("clean", str(parsed), "--cap", "20", "--out", str(cleaned))
    assert (totals["rows"], totals["before"], totals["after"]) == (3, 1, 1)
    assert read(cleaned)[0]["concerns"][0]["category"] == "design_flaw"


def test_clean_shows_what_it_removed(tmp_path: Path) -> None:
    rows = [{"article_id": "a", "concerns": ["One.", "one.", "Two."], "engine": "x"}]
    document("clean", lines(tmp_path / "in.jsonl", rows), "--cap", "1", "--out", str(tmp_path / "o"))
    (row,) = read(tmp_path / "o")
    assert row["concerns"] == ["One."]
    assert [each["reason"] for each in row["removed"]] == ["duplicate", "cap"]
    assert row["engine"] == "x"


WRONG = [
    ({"id": "a"}, "parse", BadRow),
    ({"article_id": "a", "concerns": "x"}, "clean", BadRow),
    ({"article_id": "", "concerns": []}, "clean", BadRow),
]


@pytest.mark.parametrize(("row", "command", "error"), WRONG)
def test_a_bad_row_is_named_and_nothing_is_written(row, command, error, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    with pytest.raises(error, match="line 1"):
        RUN.invoke(app, [command, lines(tmp_path / "in.jsonl", [row]), "--out", str(out)], catch_exceptions=False)
    assert not out.exists()


def test_the_file_that_is_read_is_never_written_over(tmp_path: Path) -> None:
    path = lines(tmp_path / "in.jsonl", [{"article_id": "a", "concerns": []}])
    with pytest.raises(LabError, match="name another file"):
        RUN.invoke(app, ["clean", path, "--out", path], catch_exceptions=False)


def scored(tmp_path: Path, *options: str) -> dict:
    humans = [
        {"text": "No control arm here.", "category": "design_flaw", "severity": "major"},
        {"concern_text": "The n is small.", "category": "other", "severity": "minor"},
    ]
    reference = [
        {"article_id": "elife:1", "source": "elife", "concerns": humans},
        {"article_id": "elife:2", "source": "elife", "concerns": humans[1:]},
        {"id": "plos:3", "concerns": [{"text": "Wrong test used.", "category": "x", "severity": "y"}]},
    ]
    predictions = [
        {"article_id": "elife:1", "concerns": ["No control arm.", "Typos."]},
        {"article_id": "elife:2", "concerns": [{"text": "The n is so small.", "severity": "minor"}]},
    ]
    matrices = [
        {"article_id": "elife:1", "matrix": [[0.9, 0.1], [0.2, 0.1]]},
        {"article_id": "elife:2", "matrix": [[0.7]]},
    ]
    files = ["--reference", lines(tmp_path / "r.jsonl", reference)]
    files += ["--predictions", lines(tmp_path / "p.jsonl", predictions)]
    if "--encoder" not in options:
        files += ["--similarities", lines(tmp_path / "s.jsonl", matrices)]
    return document("score", *files, "--draws", "50", *options)


CONTRACT = {
    *("micro", "macro", "soft", "per_source", "per_category", "per_severity", "intervals"),
    *("controls", "matcher", "coverage"),
}


def test_score_gives_every_field_of_the_contract(tmp_path: Path) -> None:
    found = scored(tmp_path)
    assert set(found) >= CONTRACT
    assert found["micro"] | {"n_articles": 3} == {
        **{"precision": 2 / 3, "recall": 0.5, "f1": 4 / 7, "recall_major": 1.0},
        **{"n_human": 4, "n_predicted": 3.0, "n_matched": 2.0, "n_articles": 3},
    }
    assert set(found["controls"]) >= {"permuted", "count_bound", "bm25"}
    assert found["controls"]["count_bound"]["n_matched"] == 3
    assert found["controls"]["permuted"] is None
    assert (found["matcher"]["threshold"], found["matcher"]["assignment"]) == (0.65, "optimal")
    assert (found["coverage"]["n_answered"], found["coverage"]["missing"]) == (2, ["plos:3"])
    assert "articles" not in found


def test_score_lists_articles_and_pairs_when_asked(tmp_path: Path) -> None:
    found = scored(tmp_path, "--per-article", "--no-controls", "--threshold", "0.8")
    assert found["controls"] is None
    assert [each["n_matched"] for each in found["articles"]] == [1, 0, 0]
    assert found["articles"][0]["pairs"] == [{"predicted": 0, "human": 0, "similarity": 0.9}]


def test_words_are_matched_only_when_asked_for_and_permuted_control_stands_beside(tmp_path: Path) -> None:
    found = scored(tmp_path, "--encoder", "lexical")
    assert found["matcher"]["encoder"] == "lexical"
    assert found["headline"]["f1_permuted"] == found["controls"]["permuted"]["f1"]
    assert found["headline"]["f1_above_permuted"] == pytest.approx(
        found["micro"]["f1"] - found["controls"]["permuted"]["f1"]
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--threshold", "auto"), "needs an encoder"),
        (("--threshold", "high"), "is no similarity"),
        (("--encoder", "specter3"), "no encoder 'specter3'"),
        (("--encoder", "lexical", "--papers", "r.jsonl"), "there is no file"),
    ],
)
def test_what_cannot_be_scored_says_what_to_do(options, message: str, tmp_path: Path) -> None:
    with pytest.raises(LabError, match=message):
        scored(tmp_path, *options)


def test_a_missing_encoder_stops_with_the_way_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="hf download allenai/specter2"):
        scored(tmp_path, "--encoder", "specter2")


def merged(tmp_path: Path, *options: str) -> tuple[dict, list[dict]]:
    one = [{"article_id": "1", "concerns": ["No control.", {"text": "Small n.", "severity": "major"}]}]
    two = [{"article_id": "1", "concerns": ["No control arm."]}, {"article_id": "2", "concerns": []}]
    table = [
        {"text": "No control.", "vector": [1.0, 0.0]},
        {"text": "No control arm.", "vector": [2.0, 0.2]},
        {"text": "Small n.", "vector": [0.0, 1.0]},
    ]
    files = [lines(tmp_path / "one.jsonl", one), lines(tmp_path / "two.jsonl", two)]
    files += ["--vectors", lines(tmp_path / "v.jsonl", table), "--out", str(tmp_path / "out.jsonl")]
    found = document("ensemble", *files, "--threshold", "0.9", *options)
    return found, read(tmp_path / "out.jsonl")


def test_ensemble_writes_prediction_rows_with_the_sources_of_each_concern(tmp_path: Path) -> None:
    found, rows = merged(tmp_path)
    assert [row["article_id"] for row in rows] == ["1", "2"]
    assert [(each["text"], each["sources"]) for each in rows[0]["concerns"]] == [
        ("No control.", ["one", "two"]),
        ("Small n.", ["one"]),
    ]
    assert (found["n_fused"], found["n_kept"], found["n_empty"]) == (1, 2, 1)
    document("clean", str(tmp_path / "out.jsonl"), "--out", str(tmp_path / "clean.jsonl"))


@pytest.mark.parametrize("strategy", ["vote", "intersection"])
def test_ensemble_keeps_what_tools_agree_on(strategy: str, tmp_path: Path) -> None:
    found, rows = merged(tmp_path, "--strategy", strategy)
    assert [each["text"] for each in rows[0]["concerns"]] == ["No control."]
    assert found["n_outvoted"] == 1


HUMAN = [
    {
        "article_id": f"a{k}",
        "source": "demo",
        "concerns": [
            {
                "text": f"No control group for experiment{k} in the assay{k}.",
                "category": "design_flaw",
                "severity": "major",
            },
            {
                "text": f"Sample{k} size was never justified anywhere{k}.",
                "category": "statistical_methodology",
                "severity": "minor",
            },
        ],
    }
    for k in range(6)
]


def said(n: int) -> list[dict]:
    return [
        {"article_id": row["article_id"], "concerns": [each["text"] for each in row["concerns"][:n]]} for row in HUMAN
    ]


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    reference = lines(folder / "test.jsonl", HUMAN)
    for name, n in (("all", 2), ("half", 1)):
        rows = lines(folder / f"{name}.jsonl", said(n))
        document(
            "score",
            "--reference",
            reference,
            "--predictions",
            rows,
            "--encoder",
            "lexical",
            "--draws",
            "100",
            "--out",
            str(folder / f"{name}.json"),
        )
    (folder / "bm25.json").write_text(json.dumps(FORMS["record"] | {"f1_micro": 0.62}), encoding="utf-8")
    return folder


def test_report_writes_a_page_and_a_document_with_errors_and_differences(files, tmp_path) -> None:
    found = document(
        "report",
        str(files / "all.json"),
        str(files / "half.json"),
        "--against",
        "half",
        "--predictions",
        f"half={files / 'half.jsonl'}",
        "--published",
        str(files / "bm25.json"),
        "--out",
        str(tmp_path),
    )
    assert [each["score"]["system"] for each in found["systems"]] == ["half", "all"]
    assert found["systems"][0]["errors"]["modes"] == {"ok": 6}
    assert found["systems"][1]["errors"]["modes"] == {}
    (pair,) = found["comparisons"]["comparisons"]
    assert {each["metric"] for each in pair["differences"]} >= {"f1", "f1_above_permuted"}
    assert json.loads((tmp_path / "report.json").read_text(encoding="utf-8")) == found
    page = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "## Gates" in page and "What cannot be in these files" in page


def test_leaderboard_ranks_scores_and_keeps_published_results_apart(files, tmp_path) -> None:
    found = document(
        "leaderboard",
        str(files / "half.json"),
        str(files / "all.json"),
        "--published",
        str(files / "bm25.json"),
        "--out",
        str(tmp_path),
    )
    (board,) = found["boards"]
    assert [row["stage"] for row in board["rows"]] == ["all", "half"]
    assert [each["system"] for each in found["published"]] == ["BM25"]
    page = (tmp_path / "leaderboard.md").read_text(encoding="utf-8")
    assert "Published elsewhere" in page
    ranks = [row["rank"] for row in board["rows"]]
    assert ranks == [1, 1]  # two papers show nothing, so both share it, and the page marks that
    assert "| =1 | all |" in page and "| =1 | half |" in page
    assert "numbers can be left out: =1, =1, 3" in page


def test_the_commands_of_every_task_compare_and_rank_reviewers(files) -> None:
    scores = [str(files / "half.json"), str(files / "all.json")]
    done = RUN.invoke(every, ["eval", "compare", *scores, "--task", "review", "--json"], catch_exceptions=False)
    (pair,) = json.loads(done.stdout)["comparisons"]
    assert (pair["first"]["stage"], pair["second"]["stage"]) == ("half", "all")
    assert {each["metric"]: each["value"] for each in pair["differences"]}["recall"] == pytest.approx(0.5)
    done = RUN.invoke(every, ["eval", "leaderboard", *scores, "--task", "review", "--order", "recall", "--json"])
    (board,) = json.loads(done.stdout)
    assert [(row["stage"], row["metrics"]["recall"]["value"]) for row in board["rows"]] == [("all", 1.0), ("half", 0.5)]


def test_tables_are_shown_to_people(files) -> None:
    for words in (("report",), ("leaderboard",)):
        result = RUN.invoke(app, [*words, str(files / "all.json")], catch_exceptions=False)
        assert result.exit_code == 0
        assert "all" in result.stdout


def test_import_keeps_results_and_names_what_cannot_be(files, tmp_path) -> None:
    result = RUN.invoke(
        app, ["import", str(files / "bm25.json"), "--out", str(tmp_path / "p.jsonl")], catch_exceptions=False
    )
    assert "cannot be: BM25" in " ".join(result.stderr.split())
    (row,) = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]
    assert row["faults"]


REFUSED = [
    (("leaderboard",), LabError, "no score to rank"),
    (("leaderboard", "{files}/all.json", "--order", "beauty"), BadConfig, "f1_above_permuted"),
    (("report", "gone.json"), LabError, "no report at gone.json; make one with `assay review score --out"),
    (("report", "{files}/bm25.json"), LabError, "assay review import"),
    (("report", "{files}/all.json", "--predictions", "x"), BadConfig, "tuned=tuned.jsonl"),
]


@pytest.mark.parametrize(("words", "error", "message"), REFUSED)
def test_what_is_wrong_is_said_with_what_to_do(words, error, message, files) -> None:
    with pytest.raises(error, match=message):
        RUN.invoke(app, [each.format(files=files) for each in words], catch_exceptions=False)
