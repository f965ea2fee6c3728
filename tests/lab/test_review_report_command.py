"""`assay review report`, `leaderboard` and `import` as people and programs use them."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evals.errors import BadConfig, LabError
from lab.commands.review import app
from tests.evals.concerns.test_published import FORMS
from tests.lab.test_review_command import document, lines

RUN = CliRunner()
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
    assert {each["metric"] for each in found["tests"]} >= {"f1", "f1_above_permuted"}
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
    assert [row["system"] for row in board["rows"]] == ["all", "half"]
    assert [each["system"] for each in found["published"]] == ["BM25"]
    page = (tmp_path / "leaderboard.md").read_text(encoding="utf-8")
    assert "Published elsewhere" in page
    ranks = [row["rank"] for row in board["rows"]]
    assert ranks == [1, 1]  # two papers show nothing, so both share it, and the page marks that
    assert "| =1 | all |" in page and "| =1 | half |" in page
    assert "numbers can be left out: =1, =1, 3" in page


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


WRONG = [
    (("leaderboard",), LabError, "no score to rank"),
    (("leaderboard", "x.json", "--order", "beauty"), BadConfig, "f1_above_permuted"),
    (("report", "gone.json"), LabError, "no file gone.json"),
    (("report", "{files}/bm25.json"), LabError, "assay review import"),
    (("report", "{files}/all.json", "--predictions", "x"), BadConfig, "tuned=tuned.jsonl"),
]


@pytest.mark.parametrize(("words", "error", "message"), WRONG)
def test_what_is_wrong_is_said_with_what_to_do(words, error, message, files) -> None:
    with pytest.raises(error, match=message):
        RUN.invoke(app, [each.format(files=files) for each in words], catch_exceptions=False)
