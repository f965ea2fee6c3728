"""Directions that are given by reference to another: "up in liver, the reverse holds for thymus".

"up in liver, the opposite in thymus"              liver UP, thymus DOWN
"up in liver, goes the other way in thymus"        liver UP, thymus DOWN
"up in liver, down in eye, the reverse in thymus"  thymus nothing: the reverse of which?
"down in thymus, the opposite of liver"            thymus DOWN, liver UP
"the opposite of suppressed", "opposite ways"      no reference
"""

from collections.abc import Iterator, Sequence

from evals.verifiers.clauses import Clauses
from evals.verifiers.cues import TURNING
from evals.verifiers.reading import Mark, Reading, Sentence
from evals.verifiers.scope import Scope
from evals.verifiers.tokens import word_set

TURNED = "INVERSE"
"""The value of an event that turns round what was said before it."""
WAYS = word_set("way direction trend pattern response effect around round")
BEFORE = word_set("the an exact very exactly precisely quite just")
BEYOND = word_set("of from to than directions ways signs sides")
"""With one of these behind it, but for a tissue, it refers to nothing else that was said."""
LINKS = word_set("of from to than that the what is in for seen")


def with_inverse(reading: Reading, sentence: Sentence, events: list[Mark]) -> list[Mark]:
    """Return the events of a sentence that names a tissue, with those that turn others round."""
    words = reading.words
    found = [
        Mark("direction", TURNED, "inverse", token, token)
        for token in range(sentence.first + 1, sentence.last + 1)
        if words[token] in TURNING and _turns(reading, sentence, token, events[-1].first)
    ]
    return sorted([*events, *found], key=lambda event: event.first) if found else events


def _turns(reading: Reading, sentence: Sentence, token: int, last: int) -> bool:
    """Say whether a word refers to what was said before: "the reverse", "the other way round".

    `last` is where the last direction stands: behind a colon it says itself what the reverse is.
    """
    words, gaps = reading.words, reading.gaps
    before = words[token - 1]
    if before not in BEFORE or (words[token] == "contrary" and words[token - 2] == "on"):
        return False
    after = token + 1
    while after <= sentence.last and words[after] in WAYS:
        after += 1
    if words[token] == "other" and after == token + 1:
        return False
    if ":" in gaps[after] and last > token:
        return False
    if after > sentence.last or words[after] not in BEYOND:
        return True
    while after < sentence.last and words[after] in LINKS:
        after += 1
    return any(mark.kind == "tissue" and mark.first == after for mark in sentence.marks)


def other_way(
    scope: Scope, event: Mark, said: Sequence[tuple[str, tuple[str, ...]]]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the way and the tissues that an event gives by reference; nothing where it is not certain.

    `said` are the ways and tissues stated before it in the sentence, "" for a way that is denied. They
    must all go one way, and elsewhere.
    """
    clause = scope.clause(event.first)
    tissues = _tissues(scope, clause) or (_tissues(scope, clause - 1, True) if clause else ())
    ways = {way for way, _ in said}
    if not tissues or ways not in ({"UP"}, {"DOWN"}) or not all(places for _, places in said):
        return
    if scope.is_negated(event) or scope.is_supposed(event):
        return
    if all(set(tissues).isdisjoint(places) for _, places in said):
        yield ("DOWN" if ways == {"UP"} else "UP"), tissues


def _tissues(clauses: Clauses, clause: int, is_free: bool = False) -> tuple[str, ...]:
    """Return the tissues named in a clause; `is_free` = only if it states nothing itself."""
    if is_free and any(clauses.clause(event.first) == clause for event in clauses.events):
        return ()
    return tuple(
        mark.value
        for mark in clauses.sentence.marks
        if mark.kind == "tissue"
        and clauses.clause(mark.first) == clause
        and not clauses.is_contrasted(mark)
    )
