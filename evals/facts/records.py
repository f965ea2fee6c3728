"""The shapes of our fact tables: one frozen record per row, and the ids that questions cite."""

from typing import Literal

from evals.schema import Direction, Record

KmpTissue = Literal["heart", "hippocampus", "liver", "soleus"]
Contrast = Literal[
    "HU",
    "IR",
    "HU_IR",
    "KMP_baseline",
    "KMP_in_HU",
    "KMP_in_IR",
    "KMP_in_HU_IR",
    "HU_x_IR",
    "KMP_x_HU",
    "KMP_x_IR",
]
ConservationLevel = Literal["highly conserved", "moderately conserved", "poorly conserved"]
SIGNIFICANT = 0.05
"""A gene set counts in a mission when its adjusted p is below this."""


class DegCount(Record):
    """Differentially expressed genes (padj < 0.05) of one contrast in one tissue.

    `up` and `down` are None where the source gives no split; `doubt` is None where nothing
    speaks against the figure.
    """

    tissue: KmpTissue
    contrast: Contrast
    genes: int
    up: int | None
    down: int | None
    doubt: str | None

    @property
    def id(self) -> str:
        """The fact's id, e.g. "kmp/deg/soleus/KMP_x_HU"."""
        return f"kmp/deg/{self.tissue}/{self.contrast}"


class TissueClass(Record):
    """How the study classes a tissue and what it saw of oxidative phosphorylation (OXPHOS) there.

    The two scores are normalised enrichment scores (NES): stress alone, and kaempferol.
    """

    tissue: KmpTissue
    letter: Literal["A", "B", "C"]
    name: Literal["stress-activated", "baseline-active", "stress-blocked"]
    oxphos_pattern: Literal["rescue", "KMP only", "suppression"]
    oxphos_stress_nes: float
    oxphos_kmp_nes: float
    oxphos_stress_doubt: str | None


class KmpFacts(Record):
    """All figures of the kaempferol 2x2x2 mouse study that we hold."""

    counts: tuple[DegCount, ...]
    tissues: tuple[TissueClass, ...]

    def count(self, tissue: str, contrast: str) -> DegCount:
        """Return the count of one cell; KeyError when there is no such cell."""
        for cell in self.counts:
            if (cell.tissue, cell.contrast) == (tissue, contrast):
                return cell
        raise KeyError((tissue, contrast))

    def tissue(self, name: str) -> TissueClass:
        """Return the class row of one tissue; KeyError when the study has no such tissue."""
        for row in self.tissues:
            if row.tissue == name:
                return row
        raise KeyError(name)


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


class Provenance(Record):
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
