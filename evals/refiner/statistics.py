"""What the written records hold, counted, with checksums and their card."""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.resources import files

from evals.questions.statistics import versions
from evals.refiner.bank import VERSION
from evals.refiner.records import records_sha256
from evals.schema.record import Record
from evals.schema.refining import RefinerRecord

LICENCE = "apache-2.0"


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


def statistics_of(
    splits: Mapping[str, tuple[Sequence[RefinerRecord], str]], seed: int
) -> RecordStatistics:
    """Return the statistics of each split, given with the text of its file."""
    return RecordStatistics(
        name="refiner",
        label_source="synthetic",
        licence=LICENCE,
        seed=seed,
        splits={name: _counts(records, text) for name, (records, text) in splits.items()},
        versions={"refiner records": VERSION, **versions()},
    )


def card(statistics: RecordStatistics) -> str:
    """Return the README of the data set."""
    text = files("evals.refiner").joinpath("about.md").read_text(encoding="utf-8")
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
        text.replace("{counts}", table)
        .replace("{seed}", str(statistics.seed))
        .replace("{licence}", statistics.licence)
    )


def _counts(records: Sequence[RefinerRecord], text: str) -> RecordCounts:
    return RecordCounts(
        records=len(records),
        unanswerable=sum(not record.answerable for record in records),
        groups=len({record.group for record in records}),
        passages=sum(len(record.sources) for record in records),
        rubric_items=sum(len(r.positive_rubrics) + len(r.negative_rubrics) for r in records),
        origins=dict(sorted(Counter(record.origin or "unknown" for record in records).items())),
        file_sha256=hashlib.sha256(text.encode()).hexdigest(),
        data_sha256=records_sha256(records),
    )
