"""The figures that questions are made from, with their source and licence (README.md beside this file).

Tables are read once, when first asked for, and come back as frozen records.
"""

import csv
import json
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.resources import files

from evals.facts.records import (
    SIGNIFICANT,
    Conservation,
    Contrast,
    DegCount,
    EnrichmentRow,
    KmpFacts,
    KmpTissue,
    MissionPair,
    PathwayName,
    Provenance,
    TissueClass,
    conservation_level,
)

__all__ = [
    "SIGNIFICANT",
    "Conservation",
    "Contrast",
    "DegCount",
    "EnrichmentRow",
    "KmpFacts",
    "KmpTissue",
    "MissionPair",
    "PathwayName",
    "Provenance",
    "TissueClass",
    "conservation_level",
    "load_conservation",
    "load_enrichment",
    "load_hallmark",
    "load_kmp",
    "load_provenance",
    "load_terms",
    "pathway_names",
]


@cache
def load_kmp() -> KmpFacts:
    """Return the kaempferol study: 40 gene counts and 4 tissue classes."""
    counts = tuple(DegCount.model_validate(row) for row in _rows("kmp_counts.csv"))
    tissues = tuple(
        TissueClass.model_validate({"letter": row.pop("class"), "name": row.pop("class_name"), **row})
        for row in _rows("kmp_tissues.csv")
    )
    return KmpFacts(counts=counts, tissues=tissues)


@cache
def load_enrichment() -> tuple[EnrichmentRow, ...]:
    """Return 950 rows: 50 Hallmark gene sets in each of 19 tissue-mission pairs."""
    return tuple(EnrichmentRow.model_validate(row) for row in _rows("enrichment.csv"))


@cache
def load_conservation() -> dict[str, Conservation]:
    """Return, by tissue, how well missions agree."""
    pairs: dict[str, list[MissionPair]] = {}
    means: dict[str, float] = {}
    for row in _rows("conservation.csv"):
        tissue = str(row["tissue"])
        means[tissue] = float(row["tissue_mean_r"] or "nan")
        pairs.setdefault(tissue, []).append(
            MissionPair.model_validate({"first": row["first_mission"], "second": row["second_mission"], "r": row["r"]})
        )
    return {tissue: Conservation(tissue=tissue, mean_r=means[tissue], pairs=tuple(pairs[tissue])) for tissue in pairs}


@cache
def load_hallmark() -> dict[str, PathwayName]:
    """Return, by Hallmark id, its readable name, synonyms and plain meaning."""
    rows = {}
    for row in _rows("hallmark.csv"):
        synonyms = tuple((row["synonyms"] or "").split(";"))
        record = PathwayName.model_validate({**row, "synonyms": synonyms})
        rows[record.pathway] = record
    return rows


def pathway_names() -> dict[str, tuple[str, ...]]:
    """Return, by Hallmark id, the readable name followed by its synonyms.

    "HALLMARK_OXIDATIVE_PHOSPHORYLATION" -> ("oxidative phosphorylation", "OXPHOS", ...)
    """
    return {key: (row.name, *row.synonyms) for key, row in load_hallmark().items()}


@cache
def load_provenance() -> dict[str, Provenance]:
    """Return, by file name, the source, licence, checksum and checks of every table here."""
    document = json.loads(files(__name__).joinpath("provenance.json").read_text(encoding="utf-8"))
    return {name: Provenance.model_validate(entry) for name, entry in document.items()}


def _rows(name: str) -> Iterator[dict[str, str | None]]:
    """Yield the rows of a table beside this file; an empty cell is None."""
    text = files(__name__).joinpath(name).read_text(encoding="utf-8")
    for row in csv.DictReader(text.splitlines()):
        yield {key: value or None for key, value in row.items()}


@cache
def load_terms() -> dict[str, dict[str, tuple[str, ...]]]:
    """Return, by Hallmark set, the phrases that say what it stands for: "accept", "near", "against"."""
    text = files(__name__).joinpath("hallmark_terms.toml").read_text(encoding="utf-8")
    return {
        f"HALLMARK_{name}": {what: tuple(phrases) for what, phrases in table.items()}
        for name, table in tomllib.loads(text).items()
    }
