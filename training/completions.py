"""The answers that a run sampled: the tables that TRL writes beside the metrics. Knows nothing of torch."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from training.rewards import text_of

REWARDS = ("verifier", "refiner")
"""Names of the rewards that the stages give, each a column of the table."""


@dataclass(frozen=True)
class Sampled:
    """One answer that was rewarded; None for what the table does not hold of it."""

    step: int
    prompt: str
    completion: str
    reward: float | None
    advantage: float | None
    verdict: str | None
    confidence: float | None


def read_completions(file: Path) -> tuple[Sampled, ...] | None:
    """Return the answers in one of TRL's tables; None while it is not written to its end."""
    try:
        table = pq.read_table(file)
    except (pa.ArrowInvalid, FileNotFoundError):
        return None
    return tuple(_sampled(row) for row in table.to_pylist())


def _sampled(row: Mapping[str, Any]) -> Sampled:
    return Sampled(
        step=row["step"],
        prompt=text_of(row["prompt"]),
        completion=text_of(row["completion"]),
        reward=next((row[name] for name in REWARDS if name in row), None),
        advantage=row.get("advantage"),
        verdict=row.get("verdict"),
        confidence=row.get("stated_confidence"),
    )
