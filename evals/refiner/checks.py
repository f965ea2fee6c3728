"""The eight format checks of an answer, three of them hard, and the bonus that follows from them."""

from evals.refiner.evidence import Evidence
from evals.refiner.grammar import WORD, Reading

HARD = ("single_answer", "balanced_tags", "ids_wellformed")
SOFT = ("nothing_outside", "ids_known", "claims_nonempty", "has_claim", "no_evidence_markup")


def format_checks(reading: Reading, evidence: Evidence, answerable: bool) -> dict[str, bool]:
    """Return by name whether each check passes. Soft checks of a text without a block fail."""
    claims, has_block = reading.claims, reading.has_single_answer and reading.has_balanced_tags
    return {
        "single_answer": reading.has_single_answer,
        "balanced_tags": reading.has_balanced_tags,
        "ids_wellformed": reading.has_wellformed_ids,
        "nothing_outside": reading.has_nothing_outside,
        "ids_known": has_block and all(name in evidence for c in claims for name in c.ids),
        "claims_nonempty": has_block and all(WORD.search(claim.text) for claim in claims),
        "has_claim": has_block and (bool(claims) or not answerable),
        "no_evidence_markup": not reading.has_evidence_markup,
    }


def format_bonus(checks: dict[str, bool]) -> float:
    """Return the share of soft checks that pass; 0 if a hard one fails."""
    if not all(checks[name] for name in HARD):
        return 0.0
    return sum(checks[name] for name in SOFT) / len(SOFT)
