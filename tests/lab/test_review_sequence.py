"""Reviewing from end to end at small scale: each command takes what the one before it wrote.

The model is random and tiny, so its concerns mean nothing; that every step of docs/review.md fits the next one
is what is shown.
"""

import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.evals.reviewed import concern, example, prose
from tests.lab.commands import printed_by, run_here
from tests.models import tiny_base
from tests.training.reviewers import CONTEXT
from tests.training.runs import COMMON

ROOT = Path(__file__).parents[2]
SAME = "max_new_tokens: 120\ntemperature: 1.0\nseed: 2\nbatch: 1\n"
SPLITS = ("train", "train", "train", "dev", "test", "test", "test", "test")
FAULTS = ("No control arm.", "Six mice are too few.", "The antibody is not named.", "No blinding.")


def papers() -> Iterator[str]:
    """Give eight reviewed papers, four of them held out."""
    for n, split in enumerate(SPLITS):
        faults = [concern(f"{text} In {n}.", k) for k, text in enumerate(FAULTS)]
        sections = [("Methods", prose(40, f"M{n}x")), ("Results", prose(40, f"R{n}x"))]
        yield example(sections, faults, id=f"s:{n}", family=str(n), split=split, title=f"Paper {n}").model_dump_json()


def documented() -> list[list[str]]:
    """Return the words of each command of the sequence that docs/review.md gives."""
    text = (ROOT / "docs" / "review.md").read_text(encoding="utf-8")
    block = text.split("## From papers to a scored reviewer")[1].split("```")[1].replace("\\\n", " ")
    return [shlex.split(line, comments=True)[1:] for line in block.strip().splitlines()]


@pytest.mark.slow
def test_the_sequence_of_the_page_runs_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Each command word for word, with words behind it that make it small: a tiny base, eight papers, few tokens."""
    base = tiny_base(tmp_path / "model", context=CONTEXT)
    (tmp_path / "papers.jsonl").write_text("\n".join(papers()) + "\n", encoding="utf-8")
    (tmp_path / "same.yaml").write_text(SAME, encoding="utf-8")
    (tmp_path / "training").symlink_to(ROOT / "training")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("lab.commands.train.run_to_end", run_here)
    matcher = ("--encoder", "lexical", "--threshold", "0.2")
    small = {
        "data review": ("--papers", "papers.jsonl", "--base", base, "--context", CONTEXT, "--reply-reserve", "600"),
        "train review": (
            *("--base", base, "--batch", "1", "--max_length", CONTEXT),
            *(word for key, value in COMMON.items() for word in (f"--{key}", json.dumps(value).strip('"'))),
        ),
        "review infer": ("--config", "same.yaml"),
        "review ensemble": matcher,
        "review score": matcher,
    }
    done = [(words, printed_by(*words, *small.get(" ".join(words[:2]), ()))) for words in documented()]
    assert len(done) == 10
    found = {words[-1]: told for words, told in done}
    assert found["runs/review/corpus"]["splits"]["test"]["papers"] == 4
    assert found["runs/review/mine"]["status"] == "finished"
    assert found["runs/review/tuned.jsonl"]["articles"] == 4
    assert found["runs/review/both.jsonl"]["tools"] == ["tuned-clean", "base-clean"]
    score = found["runs/review/tuned-clean.json"]
    assert score["micro"]["n_human"] == 16
    assert {"count_bound", "bm25", "echo"} <= {name for name, each in score["controls"].items() if each}
    assert score["thresholds"]
