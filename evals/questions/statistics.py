"""What a written data set holds, counted, with checksums: statistics.json beside train and test."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence

from evals.facts import load_provenance
from evals.io import data_sha256
from evals.schema import Example, Record

VERSION = "1"
"""Of wordings, rules and splits: goes up whenever the same command would write other rows."""


class SplitStatistics(Record):
    """Counts and checksums of one file of examples: over its bytes, and over its rows in any order."""

    rows: int
    kinds: dict[str, int]
    tissues: dict[str, int]
    clusters: int
    facts: int
    file_sha256: str
    data_sha256: str


class DataStatistics(Record):
    """statistics.json: how a data set was asked for and what came out."""

    name: str
    settings: dict[str, int | str]
    splits: dict[str, SplitStatistics]
    versions: dict[str, str]


def split_statistics(examples: Sequence[Example], text: str) -> SplitStatistics:
    """Return the counts of one split; `text` is its file's content. "none" counts rows of no tissue."""
    return SplitStatistics(
        rows=len(examples),
        kinds=counted(example.kind for example in examples),
        tissues=counted(example.tissue or "none" for example in examples),
        clusters=len({example.cluster for example in examples}),
        facts=len({fact for example in examples for fact in example.facts}),
        file_sha256=hashlib.sha256(text.encode()).hexdigest(),
        data_sha256=data_sha256(examples),
    )


def versions() -> dict[str, str]:
    """Return the version of the questions and one checksum over all fact tables."""
    tables = sorted(f"{name} {entry.sha256}" for name, entry in load_provenance().items())
    return {"questions": VERSION, "facts_sha256": hashlib.sha256("\n".join(tables).encode()).hexdigest()}


def counted(names: Iterable[str]) -> dict[str, int]:
    """Return names with their counts, the most frequent first, ties by name."""
    return dict(sorted(Counter(names).items(), key=lambda item: (-item[1], item[0])))
