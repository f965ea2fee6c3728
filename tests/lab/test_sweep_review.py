"""`assay train sweep` of reviewers, on tiny models and a few papers."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from evals.errors import BadConfig
from lab.cli import app
from tests.evals.reviewed import concern, example, prose
from tests.models import tiny_base
from tests.training.reviewers import CONTEXT
from tests.training.runs import COMMON, environment
from tests.training.test_review import chat
from training.launch.sweep import read_sweep
from training.reviewer.measure import development_papers

MEASURE = {"max_new_tokens": 60, "temperature": 1.0, "encoder": "lexical", "threshold": "0.1", "draws": 20, "limit": 3}
SPLITS = ("train", "dev", "dev", "dev", "dev", "test")


def papers(folder: Path) -> Path:
    """Write a corpus of six papers as `assay data review` does."""
    folder.mkdir()
    for split in ("train", "dev", "test"):
        rows = [
            example(
                [("Methods", prose(20, f"M{n}x"))],
                [concern(f"No control arm in {n}."), concern("No drug and no mice.", 2)],
                id=f"s:{n}",
                family=str(n),
                split=split,
            ).model_dump_json()
            for n, each in enumerate(SPLITS)
            if each == split
        ]
        (folder / f"{split}.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    papers(tmp_path / "corpus")
    rows = [json.dumps(chat(f"s:{n}")) for n in (0, 100)]
    (tmp_path / "rows.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    settings = {
        **COMMON,
        "base": str(tmp_path / "model"),
        "data": [str(tmp_path / "rows.jsonl")],
        "output": "unused",
        "max_steps": 1,
        "batch": 1,
        "max_length": CONTEXT,
    }
    (tmp_path / "review.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    return tmp_path


def sweep_file(folder: Path, **values: object) -> Path:
    document = {
        "stage": "review",
        "config": str(folder / "review.yaml"),
        "output": str(folder / "runs"),
        "dev": str(folder / "corpus"),
        "grid": {"seed": [1]},
        "measure": MEASURE,
        **values,
    }
    file = folder / "sweep.yaml"
    file.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    return file


def test_reviewers_are_compared_on_development_papers_alone(folder: Path):
    sweep = read_sweep(sweep_file(folder))
    assert [each.id for each in sweep.papers] == ["s:1", "s:2", "s:3"]
    assert sweep.measure.asking.max_new_tokens == 60


REFUSED = [
    ({"dev": "{folder}/corpus/test.jsonl"}, "no papers of the development split .its splits: test"),
    ({"dev": ["a", "b"]}, "papers of one folder or file"),
    ({"measure": {"colour": 1}}, "'colour', which is no setting"),
    ({"measure": {"cap": -1}}, "a whole number of 0 or more"),
    ({"measure": 3}, "measure is a mapping"),
    ({"measure": {"limit": 1}}, "1 development paper of .* is too few"),
    ({"measure": {"threshold": "high"}}, "'high' is no similarity"),
    ({"stage": "sft"}, "and nothing else; found"),
]


@pytest.mark.parametrize(("changes", "problem"), REFUSED)
def test_a_sweep_of_reviewers_that_makes_no_sense_or_looks_at_test_papers_is_refused(folder, changes, problem):
    told = {key: value.format(folder=folder) if isinstance(value, str) else value for key, value in changes.items()}
    with pytest.raises(BadConfig, match=problem):
        read_sweep(sweep_file(folder, **told))


def test_the_demonstration_papers_have_a_development_split_and_a_version_in_test_takes_one_out():
    found = development_papers("demonstration")
    assert found and {each.split for each in found} == {"dev"}
    assert len(development_papers("demonstration", 2)) == 2


def test_a_development_paper_with_a_version_among_the_test_papers_is_left_out(tmp_path: Path):
    corpus = papers(tmp_path / "corpus")
    twin = example([("Methods", prose(20))], id="s:1v2", family="1", split="test")
    with (corpus / "test.jsonl").open("a", encoding="utf-8") as file:
        file.write(twin.model_dump_json() + "\n")
    assert "s:1" not in {each.id for each in development_papers(str(corpus))}


def test_a_reviewer_that_learned_a_development_paper_is_not_measured_by_it(folder: Path):
    rows = folder / "rows.jsonl"
    rows.write_text(json.dumps(chat("s:2")) + "\n", encoding="utf-8")
    with pytest.raises(BadConfig, match=r"1 of 3 development papers .such as s:2."):
        CliRunner().invoke(app, ["train", "sweep", str(sweep_file(folder)), "--dry-run"], catch_exceptions=False)


def swept(folder: Path, file: Path) -> tuple[list[dict], str]:
    done = subprocess.run(
        [sys.executable, "-c", "from lab.cli import main; main()", "train", "sweep", str(file), "--json"],
        cwd=folder,
        env={**environment(), "HOME": os.environ.get("HOME", "")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout), done.stderr


@pytest.mark.slow
def test_every_run_is_trained_reviews_the_papers_and_is_scored_above_chance_once(folder: Path):
    tiny_base(folder / "model", context=CONTEXT)
    file = sweep_file(folder)
    (row,), said = swept(folder, file)
    assert (row["run"], row["settings"], row["status"]) == ("1", "seed 1", "finished")
    assert (row["n"], row["answered"]) == (3, 3)
    assert row["f1_above_permuted"]["value"] == pytest.approx(row["f1"]["value"] - row["permuted"])
    assert "training.review" in said
    (place,) = (folder / "runs" / "1" / "reports").glob("dev-*")
    assert {"rows.jsonl", "clean.jsonl", "score.json"} <= {each.name for each in place.iterdir()}
    again = CliRunner().invoke(app, ["train", "sweep", str(file), "--json"], catch_exceptions=False)
    assert json.loads(again.stdout) == [row]
    assert "reviews" not in again.stderr
