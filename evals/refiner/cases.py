"""Answers on file with their records, as `assay refiner score` takes them."""

from dataclasses import replace
from pathlib import Path

from pydantic import ValidationInfo, field_validator, model_validator

from evals.jsonl import read_rows
from evals.refiner.judging import Inquiry
from evals.refiner.records import CheckedRecord
from evals.refiner.rubric import items_of
from evals.refiner.score import Prepared, prepare
from evals.refiner.stub import StubTable, fitting
from evals.schema.record import Record
from evals.schema.refining import RewardConfig


class Case(Record):
    """A row of cases: an answer, its record, how to reward it, and verdicts for the stub judge."""

    id: str
    record: CheckedRecord
    completion: str
    config: RewardConfig = RewardConfig()
    stub_judge: StubTable | None = None

    @field_validator("stub_judge")
    @classmethod
    def _is_about_its_items(cls, table: StubTable | None, info: ValidationInfo) -> StubTable | None:
        if not {"record", "config"} <= info.data.keys():
            return table
        return fitting(table, items_of(info.data["record"], info.data["config"]))

    @model_validator(mode="after")
    def _has_something_to_grade_by(self) -> "Case":
        if not items_of(self.record, self.config):
            raise ValueError("the record has no rubric item and static_rubrics is off; add an item")
        return self

    def prepared(self) -> Prepared:
        """Return the answer read and checked."""
        return prepare(self.record, self.completion, self.config)

    def inquiry(self) -> Inquiry:
        """Return what is asked about the answer, with the table that the stub judge reads."""
        return replace(self.prepared().inquiry(), table=self.stub_judge)


def read_cases(path: Path) -> list[Case]:
    """Return the cases of a JSONL file; BadRow names line and field of what is wrong."""
    return read_rows(path, Case, key=lambda case: case.id)
