"""What the written records hold, counted, with checksums and their card."""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

import pyarrow
import pyarrow.parquet
from pydantic import ValidationInfo, field_validator, model_validator

from evals import io
from evals.errors import BadConfig, LabError
from evals.io import checked_rows, read_rows, read_text
from evals.jsonl import NoRow, rows_of
from evals.questions.statistics import versions
from evals.refine.bank import VERSION
from evals.refine.grammar import evidence_of
from evals.refine.judge import Inquiry, StubTable, fitting
from evals.refine.ragas import is_ragas, ragas_case, ragas_record
from evals.refine.rubric import items_of
from evals.refine.score import PreparedAnswer, prepare
from evals.schema.record import Record
from evals.schema.refiner import RefinerRecord, RewardConfig
from evals.tables import TABLES, read_table

SUFFIXES = (".jsonl", ".json", *TABLES, ".parquet")
"""What a file of records may end in."""


class CheckedRecord(RefinerRecord):
    """A record whose evidence has been read: legal ids, closed blocks, not empty if there is an answer."""

    @field_validator("tool_output")
    @classmethod
    def _has_readable_evidence(cls, tool_output: str) -> str:
        evidence_of(tool_output)
        return tool_output

    @field_validator("answerable")
    @classmethod
    def _has_evidence_to_answer_from(cls, answerable: bool, info: ValidationInfo) -> bool:
        if answerable and "tool_output" in info.data and not evidence_of(info.data["tool_output"]):
            raise ValueError(
                "tool_output holds no <snippet id=…> or <webpage id=…>, so nothing can be answered from"
                " it; add evidence, or set answerable to false"
            )
        return answerable


def read_records(path: Path) -> tuple[RefinerRecord, ...]:
    """Return the records of a file, one of ours (JSONL) or one in the columns of RAGAS; BadRow names line and field.

    Unknown keys are refused, names of the trainer's own arguments (`prompts`, `completions`) among
    them; so are ids used twice, evidence ids with two texts, and answerable records without evidence.
    """
    return tuple(_read(path, CheckedRecord, ragas_record))


def as_jsonl(records: Iterable[RefinerRecord]) -> str:
    """Return records as the text of a JSONL file, keys sorted, so equal records are equal bytes."""
    return io.as_jsonl(records, exclude_defaults=True)


def records_sha256(records: Iterable[RefinerRecord]) -> str:
    """Return a checksum of what the records say; their order does not matter."""
    return io.data_sha256(records, exclude_defaults=True)


def split_by_group(
    records: Sequence[RefinerRecord], share: float, seed: int = 0
) -> tuple[tuple[RefinerRecord, ...], tuple[RefinerRecord, ...]]:
    """Return the records in two parts, no group in both; the second has about `share` of the groups.

    At least one group is in each part, so a share above 0 takes at least one. BadConfig for a share
    outside 0..1 or fewer than two groups.
    """
    groups = sorted({record.group for record in records})
    if not 0.0 < share < 1.0 or len(groups) < 2:
        raise BadConfig(
            f"{len(records)} records in {len(groups)} groups cannot be split with a share of {share:g};"
            " it takes two groups or more and a share between 0 and 1."
        )
    random.Random(seed).shuffle(groups)
    second = set(groups[: min(len(groups) - 1, max(1, round(share * len(groups))))])
    return (
        tuple(record for record in records if record.group not in second),
        tuple(record for record in records if record.group in second),
    )


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

    def prepared(self) -> PreparedAnswer:
        """Return the answer read and checked."""
        return prepare(self.record, self.completion, self.config)

    def inquiry(self) -> Inquiry:
        """Return what is asked about the answer, with the table that the stub judge reads."""
        return replace(self.prepared().inquiry(), table=self.stub_judge)


Kind = TypeVar("Kind", CheckedRecord, Case)


def read_cases(path: Path) -> list[Case]:
    """Return the cases of a file, one of ours (JSONL) or one in the columns of RAGAS; BadRow names line and field."""
    return _read(path, Case, ragas_case)


def _read(path: Path, record: type[Kind], convert: Callable[[Mapping[str, Any], int], dict[str, Any]]) -> list[Kind]:
    """Return rows as records; those in the columns of RAGAS are converted."""
    found: list[tuple[int, dict[str, Any] | NoRow]] = []
    is_own = path.suffix == ".jsonl"
    for number, row in _numbered(path):
        if not isinstance(row, NoRow) and is_ragas(row):
            is_own = False
            try:
                row = convert(row, number)
            except ValueError as error:
                row = NoRow(str(error))
        found.append((number, row))
    if is_own or not found:
        return read_rows(path, record, key=lambda each: each.id)
    return checked_rows(path, found, record, key=lambda each: each.id)


def _numbered(path: Path) -> Iterable[tuple[int, dict[str, Any] | NoRow]]:
    """Return the rows of a file by line (Parquet: by number), empty cells left out."""
    if path.suffix.lower() in TABLES:
        return read_table(path).rows
    if path.suffix != ".parquet":
        return rows_of(read_text(path), path)
    try:
        rows = pyarrow.parquet.read_table(path).to_pylist()
    except (pyarrow.ArrowException, OSError) as error:
        raise LabError(f"{path} cannot be read as Parquet ({str(error)[:100]}); check the path") from None
    return [(n, {name: cell for name, cell in row.items() if cell is not None}) for n, row in enumerate(rows, 1)]


class RecordCounts(Record):
    """Counts and checksums of one file of records; `file_sha256` is over its bytes."""

    records: int
    unanswerable: int
    groups: int
    passages: int
    rubric_items: int
    origins: dict[str, int]
    file_sha256: str
    data_sha256: str


class RecordStatistics(Record):
    """statistics.json: how the records were asked for and what came out."""

    name: str
    label_source: str
    licence: str
    seed: int
    splits: dict[str, RecordCounts]
    versions: dict[str, str]


def statistics_of(splits: Mapping[str, tuple[Sequence[RefinerRecord], str]], seed: int) -> RecordStatistics:
    """Return the statistics of each split, given with the text of its file."""
    counts = {
        name: RecordCounts(
            records=len(records),
            unanswerable=sum(not record.answerable for record in records),
            groups=len({record.group for record in records}),
            passages=sum(len(record.sources) for record in records),
            rubric_items=sum(len(r.positive_rubrics) + len(r.negative_rubrics) for r in records),
            origins=dict(sorted(Counter(record.origin or "unknown" for record in records).items())),
            file_sha256=io.sha256_of_text(text),
            data_sha256=records_sha256(records),
        )
        for name, (records, text) in splits.items()
    }
    return RecordStatistics(
        name="refiner",
        label_source="synthetic",
        licence="apache-2.0",
        seed=seed,
        splits=counts,
        versions={"refiner records": VERSION, **versions()},
    )


def card(statistics: RecordStatistics) -> str:
    """Return the README of the data set."""
    text = files("evals.refine").joinpath("about.md").read_text(encoding="utf-8")
    train, test = statistics.splits["train"], statistics.splits["test"]
    rows = [
        ("records", train.records, test.records),
        ("without an answer in their passages", train.unanswerable, test.unanswerable),
        ("passages", train.passages, test.passages),
        ("rubric items", train.rubric_items, test.rubric_items),
        *(
            (f"from: {name}", train.origins.get(name, 0), test.origins.get(name, 0))
            for name in sorted({*train.origins, *test.origins})
        ),
    ]
    table = "\n".join(f"| {what} | {a} | {b} |" for what, a, b in rows)
    return (
        text.replace("{counts}", table).replace("{seed}", str(statistics.seed)).replace("{licence}", statistics.licence)
    )
