"""What a written data set holds, counted, with checksums: statistics.json beside train and test."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from evals.facts import load_provenance
from evals.io import data_sha256, sha256_of_text
from evals.schema import Example

VERSION = "1"
"""Of wordings, rules and splits: goes up whenever the same command would write other rows."""


def set_statistics(
    name: str, settings: Mapping[str, int | str], splits: Mapping[str, tuple[Sequence[Example], str]]
) -> dict[str, Any]:
    """Return statistics.json: how a data set was asked for, and the counts of each split, given with its file's text."""
    counts = {split: split_statistics(*found) for split, found in splits.items()}
    return {"name": name, "settings": dict(settings), "splits": counts, "versions": versions()}


def split_statistics(examples: Sequence[Example], text: str) -> dict[str, Any]:
    """Return counts and checksums of one split, over its file's bytes and over its rows in any order.

    "none" counts rows of no tissue.
    """
    return {
        "rows": len(examples),
        "kinds": counted(example.kind for example in examples),
        "tissues": counted(example.tissue or "none" for example in examples),
        "clusters": len({example.cluster for example in examples}),
        "facts": len({fact for example in examples for fact in example.facts}),
        "file_sha256": sha256_of_text(text),
        "data_sha256": data_sha256(examples),
    }


def versions() -> dict[str, str]:
    """Return the version of the questions and one checksum over all fact tables."""
    tables = sorted(f"{name} {entry.sha256}" for name, entry in load_provenance().items())
    return {"questions": VERSION, "facts_sha256": sha256_of_text("\n".join(tables))}


def counted(names: Iterable[str]) -> dict[str, int]:
    """Return names with their counts, the most frequent first, ties by name."""
    return dict(sorted(Counter(names).items(), key=lambda item: (-item[1], item[0])))
