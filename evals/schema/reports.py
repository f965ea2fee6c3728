"""An evaluation: every row with its full texts, and the figures that follow from them."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from evals.schema.answers import Verdict
from evals.schema.questions import Example, Message
from evals.schema.record import Record


class EvalRow(Record):
    """One question answered by one stage, with the full texts, so a later verifier can re-score it."""

    example: Example
    stage: str
    prompt: tuple[Message, ...]
    completion: str
    finish_reason: Literal["stop", "length", "cancelled"]
    verdict: Verdict


class Metric(Record):
    """A number with its n and 95 % interval; value None (with the reason in `note`) where undefined."""

    value: float | None
    n: int = Field(ge=0)
    low: float | None = None
    high: float | None = None
    note: str | None = None


class StageSummary(Record):
    """Metrics of one stage (or trivial baseline) on one group of questions.

    `read_by` counts the answers by how they were read: "answer" (the answer line), "text", "judge", "none"
    (nothing to read). Empty in reports of before verifiers-6, which read every answer from its text.
    """

    stage: str
    is_baseline: bool
    group: str
    metrics: dict[str, Metric]
    read_by: dict[str, int] = Field(default_factory=dict)


class EvalReport(Record):
    """Everything needed to trust, recompute and compare an evaluation.

    `libraries` gave the answers; `versions` judge them now, `earlier_versions` did so before.
    """

    data_name: str
    data_sha256: str
    chain_name: str
    stage_checksums: dict[str, str]
    settings: dict[str, str | int | float | None]
    versions: dict[str, str]
    created_at: datetime
    command: str
    rows: tuple[EvalRow, ...]
    summaries: tuple[StageSummary, ...]
    libraries: dict[str, str] = Field(default_factory=dict)
    earlier_versions: tuple[dict[str, str], ...] = ()
