"""Which concerns a corpus teaches: without figures, sure enough, each once; and what was dropped, and why."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from evals.concerns.clean import key_of
from evals.errors import BadConfig
from evals.schema.reviews import SEVERITIES, HumanConcern


@dataclass(frozen=True)
class Rules:
    """What a corpus asks for. A concern without a stated confidence counts as confidence 0."""

    name: str
    min_confidence: float
    min_concerns: int
    with_figures: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.min_confidence <= 1:
            raise BadConfig(
                f"the least confidence is {self.min_confidence}; it takes a number from 0 to 1."
            )
        if self.min_concerns < 1:
            raise BadConfig(f"the fewest concerns are {self.min_concerns}; use 1 or more.")


CORPORA = {"a": Rules("A", 0.0, 1), "b": Rules("B", 0.8, 3)}
"""A: every paper with a concern that needs no figure. B: surely answered concerns, three or more."""


@dataclass
class Selected:
    """The concerns that are kept, important ones first, and how many were dropped for which reason."""

    kept: tuple[HumanConcern, ...]
    dropped: dict[str, int] = field(default_factory=dict)


def select(concerns: Sequence[HumanConcern], rules: Rules) -> Selected:
    """Return the concerns that the rules keep, sorted by severity and else in their order."""
    kept: dict[tuple[str, str, str], HumanConcern] = {}
    dropped: dict[str, int] = {}
    for each in concerns:
        key = (key_of(each.concern_text), each.category, each.severity)
        reason = _reason(each, rules) or ("said twice" if key in kept else None)
        if reason is None:
            kept[key] = each
        else:
            dropped[reason] = dropped.get(reason, 0) + 1
    ordered = sorted(kept.values(), key=lambda each: SEVERITIES.index(each.severity))
    return Selected(tuple(ordered), dropped)


def _reason(concern: HumanConcern, rules: Rules) -> str | None:
    is_figure = concern.requires_figure_reading or concern.category == "figure_issue"
    if is_figure and not rules.with_figures:
        return "needs a figure"
    if concern.resolution_confidence < rules.min_confidence:
        return f"confidence below {rules.min_confidence:g}"
    return None
