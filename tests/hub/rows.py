"""Small folders of rows."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evals.schema.questions import Example, LabelTruth, Message, StatedConfidence, Verdict
from evals.schema.reports import EvalReport, EvalRow, Metric, StageSummary


def put(folder: Path, name: str, rows: list[dict[str, Any]]) -> Path:
    """Write rows into a folder as JSONL and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return folder


def concerns(n: int = 12) -> list[dict[str, Any]]:
    """Return the concerns of `n` papers, every fourth of another category."""
    return [
        {
            "article_id": f"paper-{at}",
            "source": "demonstration",
            "concerns": [
                {
                    "text": f"Group {at} has no control.",
                    "category": "design_flaw" if at % 4 else "other",
                    "severity": "major" if at % 2 else "minor",
                }
            ],
        }
        for at in range(n)
    ]


def eval_row(stage: str, verdict: str = "correct", at: int = 1) -> EvalRow:
    """Return one judged answer."""
    return EvalRow(
        example=Example(
            id=f"kmp/{at}",
            source="kmp",
            kind="factual",
            prompt="Which stressor dominates in heart?",
            answer="Unloading.\nAnswer: HU\nConfidence: 90%",
            confidence=0.9,
            ground_truth=LabelTruth(value="HU"),
            facts=("kmp/f",),
            cluster="heart",
            split="test",
        ),
        stage=stage,
        prompt=(Message(role="user", content="Which stressor dominates in heart?"),),
        completion="Unloading.\nAnswer: HU\nConfidence: 80%",
        finish_reason="stop",
        verdict=Verdict.model_validate(
            {
                "verdict": verdict,
                "reason": "says HU",
                "confidence": StatedConfidence(value=0.8, status="stated", quote="80%"),
                "scores": {"V1": 1.0, "V4": None},
                "reward": 0.9,
                "answer": "HU",
                "read_by": "answer",
            }
        ),
    )


def report() -> EvalReport:
    """Return a report of two stages on two questions."""
    rows = [eval_row("base", "incorrect"), eval_row("base", "no_claim", 2), eval_row("sft"), eval_row("sft", at=2)]
    return EvalReport(
        data_name="kmp-test",
        data_sha256="ab" * 32,
        chain_name="sft",
        stage_checksums={"base": "cd" * 32, "sft": "ef" * 32},
        settings={"seed": 0},
        versions={"verifiers": "verifiers-3"},
        created_at=datetime(2026, 1, 5, 9, 30, tzinfo=UTC),
        command="assay eval run --data kmp-test --out kmp.json",
        rows=tuple(rows),
        summaries=(
            _summary("base", Metric(value=0.0, n=2)),
            _summary("sft", Metric(value=1.0, n=2, low=0.5, high=1.0)),
            _summary("always up, 60%", Metric(value=0.25, n=2), is_baseline=True),
        ),
    )


def _summary(stage: str, accuracy: Metric, *, is_baseline: bool = False) -> StageSummary:
    metrics = {"accuracy": accuracy}
    return StageSummary(
        stage=stage,
        is_baseline=is_baseline,
        group="unaided",
        metrics=metrics,
        read_by={"text" if stage == "base" else "answer": 2},
    )


def put_report(folder: Path, name: str = "kmp.json") -> Path:
    """Write the report into a folder as `assay eval run` does and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(report().model_dump_json(indent=1), encoding="utf-8")
    return folder
