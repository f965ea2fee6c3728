"""Reviewing from end to end at small scale: each command takes what the one before it wrote.

The model is random and tiny, so its concerns mean nothing; that every step fits the next one is what
is shown. docs/review.md has the same list of commands for the embedded model.
"""

import json
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from evals.io import read_rows
from evals.papers.collection import read_collection
from evals.schema.reviewruns import ReviewedRow
from lab.cli import app
from tests.evals.reviewed import concern, example, prose
from tests.models import tiny_base
from tests.training.reviewers import CONTEXT
from tests.training.runs import COMMON, one_thread
from training import review
from training.config import ReviewSettings, read_request
from training.models.chain import load_chain
from training.reviewer.engine import Asking, ChainEngine, Reply
from training.reviewer.infer import Clocks, Job, ReviewFile, infer

__all__ = ["one_thread"]

RUN = CliRunner()
ASKING = Asking(max_new_tokens=120, temperature=1.0, seed=2)
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


class Interrupted:
    """The chain's engine, until Ctrl-C at the third paper."""

    def __init__(self, engine: ChainEngine) -> None:
        self.engine, self.room, self.asked = engine, engine.room, 0
        self.record = engine.record

    def answer(self, requests: Sequence[str]) -> list[Reply]:
        self.asked += 1
        if self.asked == 3:
            raise KeyboardInterrupt
        return self.engine.answer(requests)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the corpus of the papers and a reviewer trained on it for two steps."""
    folder = tmp_path_factory.mktemp("sequence")
    base = tiny_base(folder / "model", context=CONTEXT)
    (folder / "papers.jsonl").write_text("\n".join(papers()) + "\n", encoding="utf-8")
    made = run(
        *("data", "review", "--papers", folder / "papers.jsonl", "--corpus", "a", "--base", base),
        *("--context", CONTEXT, "--reply-reserve", 600, "--out", folder / "corpus"),
    )
    assert made["splits"]["test"]["papers"] == 4
    data = str(folder / "corpus" / "sft_train.jsonl")
    told = {"base": str(base), "data": [data], "output": str(folder / "review"), **COMMON}
    (folder / "review.yaml").write_text(yaml.safe_dump({**told, "batch": 1, "max_length": CONTEXT}))
    review.train(read_request(ReviewSettings, ["--config", str(folder / "review.yaml")]))
    return folder


@pytest.fixture(scope="module")
def predictions(place: Path) -> Path:
    """The held-out papers reviewed in two goes, the first one interrupted."""
    out = place / "tuned.jsonl"
    engine = Interrupted(ChainEngine(load_chain(place / "review", "float32"), ASKING))
    test = [e.article for e in read_collection(str(place / "corpus")).examples if e.split == "test"]
    clocks = Clocks(time.monotonic, lambda: datetime.now(UTC))
    with pytest.raises(KeyboardInterrupt):
        infer(Job(test, engine, ASKING, 1), ReviewFile(out), clocks, lambda *_: None)
    assert len(read_rows(out, ReviewedRow)) == 2
    asked = ("review", "infer", "--papers", place / "corpus", "--chain", place / "review")
    done = run(*asked, *SAME, "--out", out)
    assert (done["articles"], done["reviewed_before"], done["status"]) == (4, 2, "finished")
    return out


def test_interrupted_and_gone_on_with_gives_what_one_go_gives(place: Path, predictions: Path):
    whole = place / "whole.jsonl"
    asked = ("review", "infer", "--papers", place / "corpus", "--chain", place / "review")
    run(*asked, *SAME, "--out", whole)
    one, other = (
        [row.model_dump(exclude={"seconds"}) for row in read_rows(each, ReviewedRow)] for each in (whole, predictions)
    )
    assert one == other


def test_predictions_are_cleaned_scored_with_controls_merged_and_reported(place: Path, predictions: Path):
    base, tuned = place / "base.jsonl", place / "clean.jsonl"
    asked = ("review", "infer", "--papers", place / "corpus", "--chain", place / "review")
    run(*asked, *SAME, "--stage", "base", "--constrain", "never", "--out", base)
    cleaned = run("review", "clean", predictions, "--cap", 20, "--out", tuned)
    assert cleaned["rows"] == 4
    both = place / "both.jsonl"
    matcher = ("--encoder", "lexical", "--threshold", "0.2")
    merged = run("review", "ensemble", tuned, base, *matcher, "--out", both)
    assert merged["tools"] == ["clean", "base"]
    reference = place / "corpus" / "test.jsonl"
    for file in (tuned, base, both):
        out = place / f"{file.stem}.json"
        found = run(
            *("review", "score", "--reference", reference, "--predictions", file, *matcher),
            *("--retrieve-from", place / "corpus" / "train.jsonl", "--draws", 20, "--out", out),
        )
        assert found["micro"]["n_human"] == 16
        assert {"permuted", "count_bound", "bm25"} <= found["controls"].keys()
    scores = [place / f"{name}.json" for name in ("clean", "base", "both")]
    told = ("--against", "base", "--predictions", f"clean={predictions}")
    assert run("review", "report", *scores, *told, "--out", place / "report")
    assert (place / "report" / "report.md").is_file()


def test_infer_says_what_is_wrong_before_a_model_is_loaded(tmp_path: Path):
    for words, said in (
        (("--papers", tmp_path / "none"), "there are no papers"),
        (("--constrain", "maybe"), "maybe"),
    ):
        done = RUN.invoke(app, ["review", "infer", *map(str, words), "--out", str(tmp_path / "p.jsonl")])
        assert done.exit_code != 0
        assert said in f"{done.output}{done.exception}"
