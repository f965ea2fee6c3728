"""What a person does with the concerns of a review: each change gives new concerns, none is lost."""

from collections.abc import Sequence

from evals.errors import LabError
from evals.review.places import Map
from evals.schema.reviewruns import Decision, DraftConcern
from evals.schema.reviews import CATEGORIES, SEVERITIES, UNKNOWN, Concern
from lab.session import plain_text
from lab.ui.text import say

Concerns = tuple[DraftConcern, ...]
LONGEST = 2_000


class BadEdit(LabError, ValueError):
    """A change that cannot be made; the message says what to do instead."""


def decided(concerns: Concerns, concern_id: str, decision: Decision) -> Concerns:
    """Return the concerns with one accepted or rejected; the same decision again opens it."""
    mine = find(concerns, concern_id)
    new = "open" if mine.decision == decision else decision
    return _with(concerns, mine.model_copy(update={"decision": new}))


def moved(concerns: Concerns, concern_id: str, by: int) -> Concerns:
    """Return the concerns with one moved up (-1) or down (1); at an end it stays."""
    mine = find(concerns, concern_id)
    at = concerns.index(mine)
    to = min(max(at + by, 0), len(concerns) - 1)
    rest = [each for each in concerns if each.id != concern_id]
    return (*rest[:to], mine, *rest[to:])


def deleted(concerns: Concerns, concern_id: str) -> Concerns:
    """Return the concerns without one."""
    find(concerns, concern_id)
    return tuple(each for each in concerns if each.id != concern_id)


def edited(concerns: Concerns, concern_id: str, words: Concern, paper: Map) -> Concerns:
    """Return the concerns with one in other words; what a model wrote is kept beside them."""
    mine = find(concerns, concern_id)
    if mine.concern == words:
        return concerns
    before = mine.before or (mine.concern if mine.by == "model" else None)
    changed = {**words.model_dump(), "before": None if before == words else before, "place": paper.place(words.text)}
    return _with(concerns, mine.model_copy(update=changed))


def added(concerns: Concerns, concern_id: str, words: Concern, paper: Map) -> Concerns:
    """Return the concerns with a person's own at the end; it is accepted."""
    mine = DraftConcern(
        id=concern_id, by="person", decision="accepted", place=paper.place(words.text), **words.model_dump()
    )
    return (*concerns, mine)


def checked(text: str | None, category: str | None, severity: str | None) -> Concern:
    """Return what was typed as a concern; BadEdit for an empty or endless text or a strange label."""
    words = plain_text(text)
    if not any(character.isalnum() for character in words):
        raise BadEdit(say("review.edit.empty"))
    if len(words) > LONGEST:
        raise BadEdit(say("review.edit.long", length=len(words), limit=LONGEST))
    for name, value, known in (
        ("category", category, (*CATEGORIES, UNKNOWN)),
        ("severity", severity, (*SEVERITIES, UNKNOWN)),
    ):
        if value not in known:
            raise BadEdit(f"the {name} is {value!r}; it takes {', '.join(known)}.")
    return Concern.model_validate({"text": words, "category": category, "severity": severity})


def find(concerns: Sequence[DraftConcern], concern_id: str) -> DraftConcern:
    """Return one concern; BadEdit if it is not there (any more)."""
    for each in concerns:
        if each.id == concern_id:
            return each
    raise BadEdit(say("review.edit.gone"))


def _with(concerns: Concerns, changed: DraftConcern) -> Concerns:
    return tuple(changed if each.id == changed.id else each for each in concerns)
