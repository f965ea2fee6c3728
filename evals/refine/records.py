"""What the written records hold, counted, with checksums and their card."""

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from typing import Any

from pydantic import ValidationInfo, field_validator

from evals import io
from evals.errors import BadConfig
from evals.questions.sets import versions
from evals.refine.bank import VERSION
from evals.refine.grammar import evidence_of
from evals.schema.refiner import RefinerRecord


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


def statistics_of(splits: Mapping[str, tuple[Sequence[RefinerRecord], str]], seed: int) -> dict[str, Any]:
    """Return statistics.json: how the records were asked for, and the counts of each split, given with its file's text."""
    counts = {
        name: {
            "records": len(records),
            "unanswerable": sum(not record.answerable for record in records),
            "groups": len({record.group for record in records}),
            "passages": sum(len(record.sources) for record in records),
            "rubric_items": sum(len(r.positive_rubrics) + len(r.negative_rubrics) for r in records),
            "origins": dict(sorted(Counter(record.origin or "unknown" for record in records).items())),
            "file_sha256": io.sha256_of_text(text),
            "data_sha256": records_sha256(records),
        }
        for name, (records, text) in splits.items()
    }
    return {
        "name": "refiner",
        "label_source": "synthetic",
        "licence": "apache-2.0",
        "seed": seed,
        "splits": counts,
        "versions": {"refiner records": VERSION, **versions()},
    }


def card(statistics: Mapping[str, Any]) -> str:
    """Return the README of the data set."""
    text = files("evals.refine").joinpath("about.md").read_text(encoding="utf-8")
    train, test = statistics["splits"]["train"], statistics["splits"]["test"]
    rows = [
        ("records", train["records"], test["records"]),
        ("without an answer in their passages", train["unanswerable"], test["unanswerable"]),
        ("passages", train["passages"], test["passages"]),
        ("rubric items", train["rubric_items"], test["rubric_items"]),
    ]
    for name in sorted({*train["origins"], *test["origins"]}):
        rows.append((f"from: {name}", train["origins"].get(name, 0), test["origins"].get(name, 0)))
    table = "\n".join(f"| {what} | {a} | {b} |" for what, a, b in rows)
    given = {"counts": table, "seed": str(statistics["seed"]), "licence": statistics["licence"]}
    for name, value in given.items():
        text = text.replace(f"{{{name}}}", value)
    return text
