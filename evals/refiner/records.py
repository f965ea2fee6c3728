"""Records from a file, checked whole: every evidence block, every id, every key, by line and field."""

import hashlib
import json
import random
from collections.abc import Iterable, Sequence
from pathlib import Path

from pydantic import ValidationInfo, field_validator

from evals.errors import BadConfig
from evals.jsonl import read_rows
from evals.refiner.evidence import evidence_of
from evals.schema.refining import RefinerRecord


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
    """Return the records of a JSONL file; BadRow names line and field of what is wrong.

    Unknown keys are refused, names of the trainer's own arguments (`prompts`, `completions`) among
    them; so are ids used twice, evidence ids with two texts, and answerable records without evidence.
    """
    return tuple(read_rows(path, CheckedRecord, key=lambda record: record.id))


def as_jsonl(records: Iterable[RefinerRecord]) -> str:
    """Return records as the text of a JSONL file, keys sorted, so equal records are equal bytes."""
    return "".join(_line(record) + "\n" for record in records)


def records_sha256(records: Iterable[RefinerRecord]) -> str:
    """Return a checksum of what the records say; their order does not matter."""
    lines = sorted(_line(record) for record in records)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


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


def _line(record: RefinerRecord) -> str:
    document = record.model_dump(mode="json", exclude_defaults=True)
    return json.dumps(document, ensure_ascii=False, sort_keys=True)
