"""The figures that questions are made from, with their source and licence (README.md beside this file).

Tables are read once, when first asked for, and come back as frozen records.
"""

import csv
import json
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from evals.schema import Direction, Record

KmpTissue = Literal["heart", "hippocampus", "liver", "soleus"]
Contrast = Literal[
    "HU", "IR", "HU_IR", "KMP_baseline", "KMP_in_HU", "KMP_in_IR", "KMP_in_HU_IR", "HU_x_IR", "KMP_x_HU", "KMP_x_IR"
]  # fmt: skip
OxphosPattern = Literal["rescue", "KMP only", "suppression"]
ConservationLevel = Literal["highly conserved", "moderately conserved", "poorly conserved"]
SIGNIFICANT = 0.05
"""A gene set counts in a mission when its adjusted p is below this."""


class DegCount(Record):
    """Differentially expressed genes (padj < 0.05) of one contrast in one tissue.

    `up` and `down` are None where the source gives no split; `doubt` is None where nothing speaks against the figure.
    """

    tissue: KmpTissue
    contrast: Contrast
    genes: int
    up: int | None
    down: int | None
    doubt: str | None

    @property
    def id(self) -> str:
        return f"kmp/deg/{self.tissue}/{self.contrast}"


class TissueClass(Record):
    """How the study classes a tissue and what it saw of oxidative phosphorylation (OXPHOS) there.

    The two scores are normalised enrichment scores (NES): stress alone, and kaempferol.
    """

    tissue: KmpTissue
    letter: Literal["A", "B", "C"]
    name: Literal["stress-activated", "baseline-active", "stress-blocked"]
    oxphos_pattern: OxphosPattern
    oxphos_stress_nes: float
    oxphos_kmp_nes: float
    oxphos_stress_doubt: str | None


class KmpFacts(Record):
    """All figures of the kaempferol 2x2x2 mouse study that we hold."""

    counts: tuple[DegCount, ...]
    tissues: tuple[TissueClass, ...]

    def count(self, tissue: str, contrast: str) -> DegCount:
        """Return the count of one cell; KeyError when there is no such cell."""
        return {f"{cell.tissue}/{cell.contrast}": cell for cell in self.counts}[f"{tissue}/{contrast}"]

    def tissue(self, name: str) -> TissueClass:
        """Return the class row of one tissue; KeyError when the study has no such tissue."""
        return {f"{row.tissue}": row for row in self.tissues}[name]


class EnrichmentRow(Record):
    """One Hallmark gene set in one tissue of one mission, flight against ground control."""

    tissue: str
    mission: str
    accession: str
    pathway: str
    nes: float
    padj: float | None

    @property
    def direction(self) -> Direction | None:
        """UP or DOWN when padj < 0.05, None when not significant or padj is missing."""
        if self.padj is None or self.padj >= SIGNIFICANT:
            return None
        return "UP" if self.nes > 0 else "DOWN"


class MissionPair(Record):
    """Spearman correlation of all NES between two missions of one tissue."""

    first: str
    second: str
    r: float

    @property
    def level(self) -> ConservationLevel:
        """The level that this pair alone would give."""
        return conservation_level(self.r)


class Conservation(Record):
    """How well the missions of a tissue agree: mean pairwise correlation, and the pairs."""

    tissue: str
    mean_r: float
    pairs: tuple[MissionPair, ...]

    @property
    def level(self) -> ConservationLevel:
        """Highly above 0.5, moderately above 0.2, poorly otherwise."""
        return conservation_level(self.mean_r)


class PathwayName(Record):
    """How people write a Hallmark gene set, and what it is about in plain words."""

    pathway: str
    name: str
    synonyms: tuple[str, ...]
    about: str


class TableSource(Record):
    """Where a table comes from: `source` at `revision`, under `licence`, and what was checked."""

    source: str
    revision: str | None
    licence: str
    sha256: str
    checks: tuple[str, ...]
    cautions: tuple[str, ...] = ()


def conservation_level(mean_r: float) -> ConservationLevel:
    """Return the level of a correlation: above 0.5, above 0.2, or below."""
    if mean_r > 0.5:
        return "highly conserved"
    return "moderately conserved" if mean_r > 0.2 else "poorly conserved"


# ---- tables ------------------------------------------------------------------------------------


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
    found: dict[str, dict[str, Any]] = {}
    for row in _rows("conservation.csv"):
        about = {"tissue": row["tissue"], "mean_r": row["tissue_mean_r"], "pairs": []}
        pair = {"first": row["first_mission"], "second": row["second_mission"], "r": row["r"]}
        found.setdefault(str(row["tissue"]), about)["pairs"].append(pair)
    return {tissue: Conservation.model_validate(about) for tissue, about in found.items()}


@cache
def load_hallmark() -> dict[str, PathwayName]:
    """Return, by Hallmark id, its readable name, synonyms and plain meaning."""
    rows = ({**row, "synonyms": (row["synonyms"] or "").split(";")} for row in _rows("hallmark.csv"))
    return {row.pathway: row for row in map(PathwayName.model_validate, rows)}


@cache
def load_provenance() -> dict[str, TableSource]:
    """Return, by file name, the source, licence, checksum and checks of every table here."""
    document = json.loads(files(__name__).joinpath("provenance.json").read_text(encoding="utf-8"))
    return {name: TableSource.model_validate(entry) for name, entry in document.items()}


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
