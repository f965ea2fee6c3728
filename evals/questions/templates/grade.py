"""Grades answers to a question set as Assay does; `grader` is a copy of its modules. See README.md."""

import json
from functools import lru_cache
from pathlib import Path

from pydantic import TypeAdapter
from question_set.grader.schema import GroundTruth, Verdict
from question_set.grader.verifiers import verify_prepared

ABOUT = json.loads((Path(__file__).parent / "about.json").read_text("utf-8"))
METRICS = ABOUT["metrics"]
"""What is averaged over the answers. An answer that a metric does not apply to is not in its mean."""

_read_truth = lru_cache(maxsize=None)(TypeAdapter(GroundTruth).validate_json)


def rows(split: str) -> list[dict]:
    """Return the rows of "train", "dev" or "test"; none where the set has no such rows."""
    path = Path(__file__).parent / f"{split}.jsonl"
    return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line] if path.exists() else []


def grade(row: dict, completion: str, read: str = "auto") -> Verdict:
    """Return the verdict on an answer to a row.

    `read` says where the answer stands: "answer" takes the lines `Answer: ...` and `Confidence: N%` alone,
    "text" takes the free text, "auto" takes the answer line where there is one, else the text.
    """
    return verify_prepared(_read_truth(row["truth"]), row["prompt"][-1]["content"], completion, read=read)


def measures(row: dict, verdict: Verdict) -> dict[str, float]:
    """Return the metrics that apply to an answer.

    `brier` needs a claim and a confidence stated for it. A row that is not `headline` counts for its own kind only.
    """
    right, stated = float(verdict.verdict == "correct"), verdict.confidence.value
    found = {f"accuracy_{row['kind']}": right}
    if not row["headline"]:
        return found
    has_line = (
        verdict.read_by in ("answer", "letter") and verdict.verdict in ("correct", "incorrect") and stated is not None
    )
    found |= {"accuracy": right, "reward": verdict.reward, "line_share": float(has_line)}
    if stated is not None and verdict.verdict != "no_claim":
        found["brier"] = (stated - right) ** 2
    return found
