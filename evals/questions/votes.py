"""What the missions of a tissue say about a gene set: consensus and disagreement.

The rules are spelled out in `evals.questions.pathways`.
"""

from dataclasses import dataclass
from functools import cache

from evals.facts import EnrichmentRow, load_enrichment
from evals.questions.wording import Agreement
from evals.schema import Direction


@dataclass(frozen=True)
class Votes:
    """What the missions of one tissue say about one gene set, missions sorted by name."""

    tissue: str
    pathway: str
    rows: tuple[EnrichmentRow, ...]

    @property
    def cluster(self) -> str:
        """Questions about the same set in the same tissue are not independent."""
        return f"{self.tissue}/{self.pathway}"

    @property
    def consensus(self) -> Direction | None:
        """The agreed direction, or None."""
        up, down = len(self.missions("UP")), len(self.missions("DOWN"))
        if up >= 2 and up > down:
            return "UP"
        return "DOWN" if down >= 2 and down > up else None

    @property
    def is_disputed(self) -> bool:
        """Whether some missions say UP and others DOWN."""
        return bool(self.missions("UP") and self.missions("DOWN"))

    def missions(self, direction: Direction | None) -> tuple[str, ...]:
        """Return the missions that say `direction`; None = those that are not significant."""
        return tuple(row.mission for row in self.rows if row.direction == direction)

    def agreement(self) -> Agreement:
        """Return how many missions stand behind the consensus; only where there is one."""
        direction = self.consensus
        if direction is None:
            raise ValueError(f"no consensus on {self.cluster}")
        opposite: Direction = "DOWN" if direction == "UP" else "UP"
        return Agreement(
            direction=direction,
            agreeing=len(self.missions(direction)),
            opposing=len(self.missions(opposite)),
            total=len(self.rows),
        )


@cache
def all_votes() -> tuple[Votes, ...]:
    """Return the votes on every gene set of every tissue, in table order."""
    grouped: dict[tuple[str, str], list[EnrichmentRow]] = {}
    for row in load_enrichment():
        grouped.setdefault((row.tissue, row.pathway), []).append(row)
    return tuple(
        Votes(tissue, pathway, tuple(sorted(rows, key=lambda row: row.mission)))
        for (tissue, pathway), rows in grouped.items()
    )
