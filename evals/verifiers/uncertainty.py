"""Judge whether an answer says that missions disagree, where they do."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from evals.schema import Claim, UncertaintyTruth
from evals.verifiers.agreement import OPPOSITE, agreements, is_on
from evals.verifiers.asked import question_reading
from evals.verifiers.direct import is_about
from evals.verifiers.direction import statements
from evals.verifiers.finding import Finding, direction_claims
from evals.verifiers.names import readable
from evals.verifiers.reading import Reading
from evals.verifiers.reply import reply_of
from evals.verifiers.statement import Statement
from evals.verifiers.tokens import word_set

UNNAMED = "one"
"""What a mission is called that an answer does not name ("some missions")."""
OPEN = word_set("how what which why where when who")
"""A question that opens with one of these is not answered by yes or no."""


@dataclass(frozen=True, slots=True)
class Position:
    """What an answer holds of missions.

    `said`: SAME or DIFFER in words; `by_mission`: the directions it puts single missions on;
    `general`: the directions it gives for the tissue as a whole, `of_all` for every mission;
    `misplaced`: a mission it names on the wrong side, or that did not fly this tissue.
    """

    said: frozenset[str]
    by_mission: frozenset[str]
    general: frozenset[str]
    of_all: frozenset[str]
    misplaced: str | None

    @property
    def says_that_they_differ(self) -> bool:
        """Whether it says so in words or by naming missions on both sides."""
        return "DIFFER" in self.said or len(self.by_mission) > 1


def judge_uncertainty(truth: UncertaintyTruth, reading: Reading, question: str) -> Finding:
    """Return the verdict: correct = missions disagree, incorrect = one direction, or agreement.

    Naming missions with their directions says that they disagree only if each is on its side.
    Naming the majority beside the disagreement is no contradiction; one direction for all, or a
    mission put on the wrong side, is.
    """
    found = [s for s in statements(reading) if is_about(s, truth.pathway, truth.tissue)]
    about = [
        a
        for a in agreements(reading)
        if a.axis in ("missions", None) and is_on(a, truth.pathway, truth.tissue)
    ]
    name = f"{readable(truth.pathway)} in {truth.tissue}"
    claims = list(direction_claims(reading, found, truth.tissue, truth.pathway))
    for one in about:
        start, end = reading.span(one.first, one.last)
        subject = f"missions on {name}"
        claims.append(
            Claim(subject=subject, says=one.says, start=start, end=end, about="agreement")
        )
    said = {one.says for one in about} or yes_or_no(reading, question)
    finding = _weigh(truth, _position(truth, found, said), name)
    return Finding(finding.verdict, finding.reason, tuple(claims))


def yes_or_no(reading: Reading, question: str) -> set[str]:
    """Return what a "yes" or "no" says of agreement, given what the question asks for."""
    reply = reply_of(reading)
    asks_for = _asked_agreement(question) if reply else None
    if reply is None or asks_for is None:
        return set()
    return {asks_for if reply.is_yes else OPPOSITE[asks_for]}


@lru_cache(maxsize=256)
def _asked_agreement(question: str) -> str | None:
    """Return what "yes" means to a question: SAME or DIFFER; None if it is no yes-or-no question."""
    reading = question_reading(question)
    words = [word for word in reading.words if word != "asked"]
    if not words or words[0] in OPEN:
        return None
    asked = agreements(reading)
    return asked[0].says if asked else "SAME"


def _position(truth: UncertaintyTruth, found: Sequence[Statement], said: set[str]) -> Position:
    stated = [s for s in found if not s.is_negated]
    placed = [s for s in stated if s.missions and s.says != "UNCHANGED"]
    misplaced = [m for s in placed for m in s.missions if not _is_right(truth, m, s.says)]
    return Position(
        said=frozenset(said),
        by_mission=frozenset(s.says for s in placed),
        general=frozenset(s.says for s in stated if not s.missions),
        of_all=frozenset(s.says for s in stated if s.is_of_all),
        misplaced=misplaced[0] if misplaced else None,
    )


def _is_right(truth: UncertaintyTruth, mission: str, says: str) -> bool:
    """Say whether a mission may be put on a side; a site of it will do, and so will no significance."""
    if mission == UNNAMED:
        return True
    side = truth.missions_up if says == "UP" else truth.missions_down
    return any(
        one == mission or one.startswith(f"{mission}_") for one in (*side, *truth.missions_ns)
    )


def _weigh(truth: UncertaintyTruth, held: Position, name: str) -> Finding:
    if held.says_that_they_differ:
        if "SAME" in held.said or held.of_all or not held.general <= {_majority(truth)}:
            reason = f"{name}: says that missions disagree, and that they do not"
            return Finding("contradictory", reason)
        if held.misplaced:
            verdict = "contradictory" if "DIFFER" in held.said else "incorrect"
            return Finding(verdict, f"{name}: missions disagree, but not {held.misplaced} that way")
        return Finding("correct", f"{name}: missions disagree, and the answer says so")
    if len(held.general) > 1:
        return Finding(
            "contradictory", f"{name}: both directions, without saying that missions disagree"
        )
    if "SAME" in held.said or held.general or held.misplaced:
        return Finding("incorrect", f"{name}: one answer for all, where missions disagree")
    return Finding("no_claim", f"{name}: does not say whether missions agree")


def _majority(truth: UncertaintyTruth) -> str | None:
    surplus = len(truth.missions_up) - len(truth.missions_down)
    return "UP" if surplus > 0 else "DOWN" if surplus < 0 else None
