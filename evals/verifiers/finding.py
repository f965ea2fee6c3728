"""What a judge of one kind of question hands back, before scores."""

from collections.abc import Iterable
from typing import Literal, NamedTuple

from evals.schema import Claim
from evals.verifiers.names import readable
from evals.verifiers.reading import Reading
from evals.verifiers.statement import Statement

Label = Literal["correct", "incorrect", "contradictory", "no_claim"]


class Finding(NamedTuple):
    """A verdict with its reason and the claims it rests on.

    `credit` is what a correct claim is worth: 1 unless it is right only after rounding.
    """

    verdict: Label
    reason: str
    claims: tuple[Claim, ...] = ()
    credit: float = 1.0


def direction_claims(
    reading: Reading, statements: Iterable[Statement], tissue: str | None, pathway: str
) -> tuple[Claim, ...]:
    """Return direction statements as claims; what an answer leaves out is taken from the question."""
    claims = []
    for stated in statements:
        where = ", ".join(stated.tissues) or tissue
        subject = readable(stated.pathway or pathway) + (f" in {where}" if where else "")
        if stated.missions:
            subject += f" ({', '.join(stated.missions)})"
        start, end = reading.span(stated.first, stated.last)
        claim = Claim(
            subject=subject, says=stated.says, start=start, end=end, is_denied=stated.is_negated
        )
        claims.append(claim)
    return tuple(claims)
