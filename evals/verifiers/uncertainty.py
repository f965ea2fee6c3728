"""Judge whether an answer says that missions disagree, where they do."""

from collections.abc import Sequence
from dataclasses import dataclass

from evals.schema import Claim, UncertaintyTruth
from evals.verifiers.agreement import OPPOSITE, agreements, is_on
from evals.verifiers.direct import is_about
from evals.verifiers.direction import Statement, statements
from evals.verifiers.finding import Finding, direction_claims
from evals.verifiers.names import readable
from evals.verifiers.reading import Reading, read

YES_NO = {"yes": "SAME", "no": "DIFFER"}


@dataclass(frozen=True, slots=True)
class Position:
    """What an answer holds: agreement said, directions given for all, for single missions, misplaced."""

    stands: frozenset[str]
    general: frozenset[str]
    by_mission: frozenset[str]
    misplaced: str | None


def judge_uncertainty(truth: UncertaintyTruth, reading: Reading, question: str) -> Finding:
    """Return the verdict: correct = missions disagree, incorrect = one direction, or agreement.

    Naming the majority beside the disagreement is no contradiction; a mission put on the wrong
    side is.
    """
    found = [s for s in statements(reading) if is_about(s, truth.pathway, truth.tissue)]
    about = [
        a
        for a in agreements(reading)
        if a.axis in ("missions", None) and is_on(a, truth.pathway, truth.tissue)
    ]
    name = f"{readable(truth.pathway)} in {truth.tissue}"
    claims = list(direction_claims(reading, found, truth.tissue, truth.pathway))
    for agreement in about:
        start, end = reading.span(agreement.first, agreement.last)
        subject = f"missions on {name}"
        claims.append(Claim(subject=subject, says=agreement.says, start=start, end=end))
    said = {agreement.says for agreement in about} or yes_or_no(reading, question)
    finding = _weigh(truth, _position(truth, found, said), name)
    return Finding(finding.verdict, finding.reason, tuple(claims))


def yes_or_no(reading: Reading, question: str) -> set[str]:
    """Return what a leading "yes" or "no" says of agreement, given what the question asks for."""
    said = reading.words[0] if reading.words else ""
    if said not in YES_NO:
        return set()
    asked = agreements(read(question.replace("?", ".")))
    says = YES_NO[said]
    return {OPPOSITE[says] if asked and asked[0].says == "DIFFER" else says}


def _position(truth: UncertaintyTruth, found: Sequence[Statement], said: set[str]) -> Position:
    stated = [s for s in found if not s.is_negated and s.says != "UNCHANGED"]
    flat = {s.says for s in found if not s.is_negated and s.says == "UNCHANGED" and not s.missions}
    by_mission = frozenset(s.says for s in stated if s.missions)
    stands = frozenset(said | ({"DIFFER"} if len(by_mission) > 1 else set()))
    general = frozenset({s.says for s in stated if not s.missions} | flat)
    sides = dict.fromkeys(truth.missions_up, "UP") | dict.fromkeys(truth.missions_down, "DOWN")
    misplaced = [m for s in stated for m in s.missions if sides.get(m, s.says) != s.says]
    return Position(stands, general, by_mission, misplaced[0] if misplaced else None)


def _weigh(truth: UncertaintyTruth, held: Position, name: str) -> Finding:
    if "DIFFER" in held.stands:
        if "SAME" in held.stands or not held.general <= {_majority(truth)}:
            return Finding(
                "contradictory", f"{name}: says that missions disagree, and that they do not"
            )
        if held.misplaced:
            reason = f"{name}: missions disagree, but {held.misplaced} is on the other side"
            return Finding("contradictory", reason)
        return Finding("correct", f"{name}: missions disagree, and the answer says so")
    if len(held.general) > 1:
        return Finding(
            "contradictory", f"{name}: both directions, without saying that missions disagree"
        )
    if "SAME" in held.stands or held.general or held.misplaced:
        return Finding("incorrect", f"{name}: one answer for all, where missions disagree")
    return Finding("no_claim", f"{name}: does not say whether missions agree")


def _majority(truth: UncertaintyTruth) -> str | None:
    surplus = len(truth.missions_up) - len(truth.missions_down)
    return "UP" if surplus > 0 else "DOWN" if surplus < 0 else None
