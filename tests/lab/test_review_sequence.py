"""Reviewing from end to end at small scale: each command takes what the one before it wrote.

The model is random and tiny, so its concerns mean nothing; that every step fits the next one is what
is shown. docs/review.md has the same list of commands for the embedded model.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from lab.cli import app
from tests.evals.reviewed import concern, example, prose
from tests.models import tiny_base
from tests.training.reviewers import CONTEXT
from tests.training.runs import COMMON
from training import review
from training.config import ReviewSettings, read_request

RUN = CliRunner()
SAME = ("--max-new-tokens", "120", "--temperature", "1.0", "--seed", "2", "--batch", "1")
SPLITS = ("train", "train", "train", "dev", "test", "test", "test", "test")
FAULTS = ("No control arm.", "Six mice are too few.", "The antibody is not named.", "No blinding.")


def run(*words: object) -> dict:
    """Return what a command prints with --json."""
    done = RUN.invoke(app, [*map(str, words), "--json"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def papers() -> Iterator[str]:
    """Give eight reviewed papers, four of them held out."""
    for n, split in enumerate(SPLITS):
        faults = [concern(f"{text} In {n}.", k) for k, text in enumerate(FAULTS)]
        sections = [("Methods", prose(40, f"M{n}x")), ("Results", prose(40, f"R{n}x"))]
        yield example(sections, faults, id=f"s:{n}", family=str(n), split=split, title=f"Paper {n}").model_dump_json()


@pytest.mark.slow
def test_a_reviewer_is_trained_reviews_and_is_cleaned_scored_merged_and_reported(tmp_path: Path):
    base = tiny_base(tmp_path / "model", context=CONTEXT)
    (tmp_path / "papers.jsonl").write_text("\n".join(papers()) + "\n", encoding="utf-8")
    corpus = tmp_path / "corpus"
    made = run(
        *("data", "review", "--papers", tmp_path / "papers.jsonl", "--corpus", "a", "--base", base),
        *("--context", CONTEXT, "--reply-reserve", 600, "--out", corpus),
    )
    assert made["splits"]["test"]["papers"] == 4
    told = {"base": str(base), "data": [str(corpus / "sft_train.jsonl")], "output": str(tmp_path / "review"), **COMMON}
    (tmp_path / "review.yaml").write_text(yaml.safe_dump({**told, "batch": 1, "max_length": CONTEXT}))
    review.train(read_request(ReviewSettings, ["--config", str(tmp_path / "review.yaml")]))

    asked = ("review", "infer", "--papers", corpus, "--chain", tmp_path / "review", *SAME)
    raw, bare, tuned, both = (tmp_path / f"{name}.jsonl" for name in ("tuned", "base", "clean", "both"))
    assert run(*asked, "--out", raw)["articles"] == 4
    run(*asked, "--stage", "base", "--constrain", "never", "--out", bare)
    assert run("review", "clean", raw, "--cap", 20, "--out", tuned)["rows"] == 4
    matcher = ("--encoder", "lexical", "--threshold", "0.2")
    assert run("review", "ensemble", tuned, bare, *matcher, "--out", both)["tools"] == ["clean", "base"]
    for file in (tuned, bare, both):
        found = run(
            *("review", "score", "--reference", corpus / "test.jsonl", "--predictions", file, *matcher),
            *("--retrieve-from", corpus / "train.jsonl", "--draws", 20, "--out", file.with_suffix(".json")),
        )
        assert found["micro"]["n_human"] == 16
        assert {"permuted", "count_bound", "bm25"} <= found["controls"].keys()
    scores = [file.with_suffix(".json") for file in (tuned, bare, both)]
    told = ("--against", "base", "--predictions", f"clean={raw}", "--out", tmp_path / "report")
    assert run("review", "report", *scores, *told)
    assert (tmp_path / "report" / "report.md").is_file()


def test_infer_says_what_is_wrong_before_a_model_is_loaded(tmp_path: Path):
    for words, said in ((("--papers", tmp_path / "none"), "there are no papers"), (("--constrain", "maybe"), "maybe")):
        done = RUN.invoke(app, ["review", "infer", *map(str, words), "--out", str(tmp_path / "p.jsonl")])
        assert done.exit_code != 0
        assert said in f"{done.output}{done.exception}"
