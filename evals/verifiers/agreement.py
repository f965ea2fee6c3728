"""Read whether an answer says that missions (or tissues) agree or disagree.

"Missions disagree: up in RR-1, down in RR-3."    DIFFER
"The response is not consistent across missions"  DIFFER
"All missions agree"                              SAME
"consistent with earlier work"                    nothing
"""

from collections.abc import Iterator
from typing import NamedTuple

from evals.verifiers.cues import AGREES, PLACES
from evals.verifiers.grammar import neutral_words
from evals.verifiers.names import same_pathway, same_tissue
from evals.verifiers.reading import Mark, Reading, Sentence
from evals.verifiers.scope import Group, Scope
from evals.verifiers.tokens import word_set

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


LOOSE = word_set("different mixed variable divergent conflicting heterogeneous")
PEOPLE = word_set(
    "i we you people authors scientists researchers experts reviewers critics they'd labs someone everyone he she control males females men women sexes"
)
ADJECTIVES = word_set("different mixed variable divergent the same conflicting")
THINGS = word_set(
    "missions mission flights flight studies tissues tissue organs mice animals bag bags people labs experiments"
    " durations strains hardware payloads crews datasets methods kinds types sexes ages gene genes sets set"
)
"""What is only counted, not compared, by "different" right before it."""
COMPARED = word_set(
    "direction directions sign signs response responses result results way ways effect effects outcome outcomes expression"
    " regulation trend trends pattern patterns score scores how which whether enrichment"
)
"""What missions can differ in so that the gene set goes different ways."""


CONTRARY = word_set("opposite reverse")
"""Of a mission these tell of disagreement ("RR-1 shows the opposite"); of the rest, who knows."""
DETERMINERS = word_set("only mostly mainly chiefly merely just their its the this that these what")
MODALS = word_set("could may might can would should")


class Agreement(NamedTuple):
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
    return reading.once(_agreements)


def _agreements(reading: Reading) -> list[Agreement]:
    found: list[Agreement] = []
    if not reading.cues & AGREES:
        return found
    tissues: tuple[str, ...] = ()
    for sentence in reading.sentences:
        if not sentence.cues & (AGREES | PLACES):
            continue
        kinds = sentence.kinds
        if "tissue" in kinds:
            tissues = _tissues(sentence)
        if kinds.isdisjoint(("agreement", "level")):
            continue
        events = [event for mark in sentence.marks if (event := _event(mark)) is not None]
        if not events:
            continue
        scope = Scope(reading, sentence, events)
        if scope.is_hedged_away() or _is_open(scope):
            continue
        for group in scope.groups():
            found += _of_group(scope, group, tissues)
    return found


def _is_open(scope: Scope) -> bool:
    """Say whether a sentence offers both ("may agree or disagree") and so tells neither."""
    left, right = scope.events[0], scope.events[-1]
    return left.value != right.value and "or" in scope.reading.words[left.last : right.first]


def _event(mark: Mark) -> Mark | None:
    """Return the mark as a statement of agreement; a level of conservation is one too."""
    if mark.kind == "level" and mark.value in LEVELS:
        return mark._replace(value=LEVELS[mark.value])
    return mark if mark.kind == "agreement" else None


def is_on(agreement: Agreement, pathway: str, tissue: str) -> bool:
    """Say whether a statement is about this gene set in this tissue; what is unnamed is meant."""
    sets = agreement.pathways
    is_ours = not sets or any(same_pathway(named, pathway) for named in sets)
    return is_ours and (
        not agreement.tissues or any(same_tissue(named, tissue) for named in agreement.tissues)
    )


def _tissues(sentence: Sentence) -> tuple[str, ...]:
    return tuple(mark.value for mark in sentence.marks if mark.kind == "tissue")


def _of_group(scope: Scope, group: Group, earlier: tuple[str, ...]) -> Iterator[Agreement]:
    axis = _axis(scope.sentence)
    for event in group.events:
        if not scope.is_supposed(event) and not _is_idle(scope.reading, scope.sentence, event):
            says = OPPOSITE[event.value] if scope.is_negated(event) else event.value
            tissues = group.tissues or earlier
            yield Agreement(says, axis, tissues, group.pathways, event.first, event.last)


def _is_idle(reading: Reading, sentence: Sentence, event: Mark) -> bool:
    """Say whether the word compares nothing: "consistent with …", "the same mice"."""
    word = reading.words[event.last]
    if _is_of_people(reading, sentence, event) or _is_attribute(reading, sentence, event):
        return True
    after = reading.words[event.last + 1] if event.last < sentence.last else ""
    if word in CONTRARY and not (sentence.kinds & {"mission", "majority"} and after != "of"):
        return True
    if after and word == "same" and reading.gaps[event.last + 1] == " ":
        return after not in SAME_WHAT
    return word in ("consistent", "agrees", "agree") and after == "with"


def _is_of_people(reading: Reading, sentence: Sentence, event: Mark) -> bool:
    """Say whether people, not missions or tissues, agree: "I disagree with the question"."""
    before = reading.words[max(sentence.first, event.first - 2) : event.first]
    return not PEOPLE.isdisjoint(before)


def _is_attribute(reading: Reading, sentence: Sentence, event: Mark) -> bool:
    """Say whether things differ in what is no direction: "differ in duration", "different missions"."""
    words, token = reading.words, event.last + 1
    word = words[event.last]
    if event.first > sentence.first and words[event.first - 1] in MODALS:
        return True
    if token > sentence.last or reading.gaps[token] != " ":
        return False
    following = words[token]
    known = {t for m in sentence.marks for t in range(m.first, m.last + 1)}
    if word in ADJECTIVES and following in THINGS:
        return True
    if word in LOOSE and following not in COMPARED | neutral_words() and token not in known:
        return True
    while token < sentence.last and words[token] in DETERMINERS:
        token += 1
    if words[token] == "in" and word.startswith(("differ", "vary", "varie", "agree", "disagree")):
        end = next((start for start in sentence.starts if start > token), sentence.last + 1)
        return _is_in_other(words[token + 1 : end], range(token + 1, end), known)
    if words[token] in ("about", "on", "over"):
        return words[token + 1 : token + 2] in (["nothing"], ["little"])
    ahead = range(token + 1, min(token + 4, sentence.last + 1))
    return following == "from" and not any(t in known for t in ahead)


def _is_in_other(ahead: list[str], places: range, known: set[int]) -> bool:
    """Say whether "differ in" goes on with something that is no direction, score, place or set."""
    while ahead and ahead[0] in DETERMINERS:
        ahead, places = ahead[1:], places[1:]
    return bool(ahead) and known.isdisjoint(places[:3]) and COMPARED.isdisjoint(ahead[:3])


def _axis(sentence: Sentence) -> str | None:
    """Return what the sentence compares: missions win where both are named."""
    kinds = {mark.value if mark.kind == "axis" else mark.kind for mark in sentence.marks}
    if kinds & {"missions", "mission"} or ("majority" in kinds and "tissues" not in kinds):
        return "missions"
    if "tissues" in kinds or _n(sentence, "tissue") > 1:
        return "tissues"
    if _n(sentence, "pathway") > 1:
        return "other"
    return "other" if "other" in kinds else None


def _n(sentence: Sentence, kind: str) -> int:
    """Return how many different tissues or gene sets a sentence names."""
    return len({mark.value for mark in sentence.marks if mark.kind == kind})
