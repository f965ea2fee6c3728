"""What a judge is asked about an answer, and what it says; who the judge is does not matter here.

A verdict that is not there is None: a judge that fails never looks like a bad answer.
"""

import math
from dataclasses import dataclass, field
from typing import Protocol

from evals.refiner.evidence import Evidence
from evals.refiner.grammar import Claim, Passage
from evals.refiner.rubric import Item


@dataclass(frozen=True, slots=True)
class Inquiry:
    """All that is asked about one answer.

    `cited` are, for each claim, the ids that a verdict is wanted for: known ones of claims within the
    limits; where it is empty nothing is asked about the claim. `asks_citations` is false where
    citations do not count.
    """

    record_id: str
    question: str
    evidence: Evidence
    answer: str
    items: tuple[Item, ...]
    claims: tuple[Claim, ...]
    cited: tuple[tuple[str, ...], ...]
    uncited: tuple[Passage, ...]
    scale: float
    asks_citations: bool = True
    table: object = None
    """Verdicts that were written down beforehand, for the judge that reads them off (`StubJudge`)."""


@dataclass(frozen=True, slots=True)
class Verdicts:
    """A judge's verdicts in the order of the inquiry, None where one is missing.

    `raws` on 0..scale per item, `quotes` the words of the answer they rest on; `support` 0..1 per
    claim; `relevance` 0..1 per claim and asked id; `needs` 0..1 per uncited sentence. `canary` is the
    verdict on a behaviour that no answer can show; above 0 the judge does what the answer tells it.
    `apart` tells per item how far several votes on it lie apart, 0..1 of the scale; empty with one vote.
    """

    raws: tuple[float | None, ...]
    quotes: tuple[str, ...]
    support: tuple[float | None, ...]
    relevance: tuple[tuple[float | None, ...], ...]
    needs: tuple[float | None, ...]
    canary: float | None = None
    apart: tuple[float, ...] = ()
    problems: tuple[str, ...] = field(default=())


class Judge(Protocol):
    """Somebody who gives verdicts. `label` names them wherever their verdicts are used."""

    @property
    def label(self) -> str:
        """Who judges, in a few words."""
        ...

    async def judge(self, inquiry: Inquiry) -> Verdicts:
        """Return the verdicts; what could not be judged is None."""
        ...


def missing(inquiry: Inquiry, problem: str) -> Verdicts:
    """Return verdicts that are all missing, and why."""
    n = len(inquiry.items)
    return Verdicts(
        raws=(None,) * n,
        quotes=("",) * n,
        support=(None,) * len(inquiry.claims),
        relevance=tuple((None,) * len(ids) for ids in inquiry.cited),
        needs=(None,) * len(inquiry.uncited),
        problems=(problem,),
    )


def number_of(value: object) -> float | None:
    """Return a finite number; None for anything else: true, NaN, a text that is no number.

    >>> number_of("1.5"), number_of(True), number_of("high"), number_of(float("nan"))
    (1.5, None, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
