"""run.json: a training run."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from evals.schema.record import Record


class RunRecord(Record):
    """run.json: what a training run was asked to do and what it did."""

    schema_version: Literal[1] = 1
    name: str
    stage: Literal["sft", "dpo", "grpo", "review", "refiner"]
    command: str
    config: dict[str, object]
    seed: int
    data: dict[str, str | int]
    versions: dict[str, str]
    code_revision: str | None
    host: dict[str, str | int | float]
    started_at: datetime
    ended_at: datetime | None = None
    status: Literal["running", "finished", "failed", "stopped"] = "running"
    result: dict[str, float | int | str] = Field(default_factory=dict)
    substitutions: tuple[str, ...] = ()
