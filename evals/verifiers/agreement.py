"""Read whether an answer says that missions (or tissues) agree or disagree.

"Missions disagree: up in RR-1, down in RR-3."    DIFFER
"The response is not consistent across missions"  DIFFER
"All missions agree"                              SAME
"consistent with earlier work"                    nothing
"""

from collections.abc import Iterator
from dataclasses import dataclass

from evals.verifiers.names import same_tissue
from evals.verifiers.reading import Mark, Reading, Sentence
from evals.verifiers.scope import Group, Scope

OPPOSITE = {"SAME": "DIFFER", "DIFFER": "SAME"}
LEVELS = {"highly conserved": "SAME", "poorly conserved": "DIFFER"}
SAME_WHAT = frozenset(
    (
        "direction",
        "way",
        "response",
        "trend",
        "pattern",
        "sign",
        "in",
        "across",
        "between",
        "for",
        "everywhere",
    )
)
"""What "the same" must be followed by to compare missions or tissues."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """One statement that things are the SAME or DIFFER; `axis` is what is compared, None if unsaid.

    `tissues` and `pathways` are what it is said of, empty where nothing is named.
    """

    says: str
    axis: str | None
    tissues: tuple[str, ...]
    pathways: tuple[str, ...]
    first: int
    last: int


def agreements(reading: Reading) -> list[Agreement]:
    """Return every statement of agreement or disagreement, in order.

    A sentence that names no tissue speaks of those that were named last.
    """
    found: list[Agreement] = []
    tissues: tuple[str, ...] = ()
    for sentence in reading.sentences:
        tissues = _tissues(sentence) or tissues
        events = [event for mark in sentence.marks if (event := _event(mark)) is not None]
        if not events:
            continue
        scope = Scope(reading, sentence, events)
        if scope.is_hedged_away():
            continue
        for group in scope.groups():
            found += _of_group(scope, group, tissues)
    return found


def _event(mark: Mark) -> Mark | None:
    """Return the mark as a statement of agreement; a level of conservation is one too."""
    if mark.kind == "level" and mark.value in LEVELS:
        return mark._replace(value=LEVELS[mark.value])
    return mark if mark.kind == "agreement" else None


def is_on(agreement: Agreement, pathway: str, tissue: str) -> bool:
    """Say whether a statement is about this gene set in this tissue; what is unnamed is meant."""
    is_ours = not agreement.pathways or pathway in agreement.pathways
    return is_ours and (
        not agreement.tissues or any(same_tissue(named, tissue) for named in agreement.tissues)
    )


def _tissues(sentence: Sentence) -> tuple[str, ...]:
    return tuple(mark.value for mark in sentence.marks if mark.kind == "tissue")


def _of_group(scope: Scope, group: Group, earlier: tuple[str, ...]) -> Iterator[Agreement]:
    axis = _axis(scope.sentence)
    for event in group.events:
        if not scope.is_conditional(event) and not _is_idle(scope.reading, scope.sentence, event):
            says = OPPOSITE[event.value] if scope.is_negated(event) else event.value
            tissues = group.tissues or earlier
            yield Agreement(says, axis, tissues, group.pathways, event.first, event.last)


def _is_idle(reading: Reading, sentence: Sentence, event: Mark) -> bool:
    """Say whether the word compares nothing: "consistent with …", "the same mice"."""
    word = reading.words[event.last]
    after = reading.words[event.last + 1] if event.last < sentence.last else ""
    if after and word == "same" and reading.gaps[event.last + 1] == " ":
        return after not in SAME_WHAT
    return word in ("consistent", "agrees", "agree") and after == "with"


def _axis(sentence: Sentence) -> str | None:
    """Return what the sentence compares: missions win where both are named."""
    kinds = {mark.value if mark.kind == "axis" else mark.kind for mark in sentence.marks}
    if kinds & {"missions", "mission", "majority"}:
        return "missions"
    if "tissues" in kinds or len({m.value for m in sentence.marks if m.kind == "tissue"}) > 1:
        return "tissues"
    return "other" if "other" in kinds else None
