"""Read which way an answer says a gene set goes, and where.

    "Adipogenesis falls in the thymus (NES -2.4)."     adipogenesis in thymus: DOWN, DOWN
    "not increased but reduced"                        what was asked about:   not UP, DOWN
    "Up in liver, gene set enrichment analysis shows"  liver: UP; the method's name says nothing

A direction word belongs to its object ("suppresses hypoxia"), else to the gene set named before it in
its clause, else to the one spoken of before. With an unknown subject ("lipid uptake falls") it says
nothing about any gene set.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from evals.verifiers.events import direction_events
from evals.verifiers.grammar import be_words, neutral_words, preposition_words
from evals.verifiers.reading import Mark, Reading, Sentence, is_heap
from evals.verifiers.scope import Group, Scope

PRONOUNS = frozenset(("it", "this", "there", "here", "they", "these", "that"))


@dataclass(frozen=True, slots=True)
class Statement:
    """One direction stated or denied: of which gene set (None = the one asked about), and where.

    `says` is UP, DOWN or UNCHANGED; `tissues` and `missions` are empty where none is named.
    """

    pathway: str | None
    tissues: tuple[str, ...]
    missions: tuple[str, ...]
    says: str
    is_negated: bool
    first: int
    last: int


@dataclass(slots=True)
class Topic:
    """What earlier sentences were about."""

    pathway: str | None = None
    tissues: tuple[str, ...] = ()


def statements(reading: Reading) -> list[Statement]:
    """Return every direction that the answer states, in order; none for a heap of keywords."""
    found: list[Statement] = []
    topic = Topic()
    n_events = n_words = 0
    for sentence in reading.sentences:
        events = direction_events(reading, sentence)
        n_events += len(events)
        n_words += sentence.last - sentence.first + 1
        if events:
            scope = Scope(reading, sentence, events)
            if not scope.is_hedged_away():
                found += _of_sentence(scope, topic)
        _remember(sentence, topic)
    return [] if is_heap(n_events, n_words) else found


def _of_sentence(scope: Scope, topic: Topic) -> Iterator[Statement]:
    earlier = topic.tissues if scope.reading.words[scope.sentence.first] in PRONOUNS else ()
    for group in scope.groups():
        tissues = group.tissues or earlier
        is_general = any(mark.kind == "majority" for mark in group.marks)
        missions = () if is_general else scope.named(group, "mission")
        for event in group.events:
            if scope.is_conditional(event):
                continue
            subjects = _subjects(scope, group, event, topic)
            negated = scope.is_negated(event)
            if event.value == "CHANGED":
                if not negated:
                    continue
                negated = False
            says = "UNCHANGED" if event.value == "CHANGED" else event.value
            for pathway in subjects:
                yield Statement(
                    pathway,
                    _near(scope, group, event) or tissues,
                    missions,
                    says,
                    negated,
                    event.first,
                    event.last,
                )


def _remember(sentence: Sentence, topic: Topic) -> None:
    for mark in sentence.marks:
        if mark.kind == "pathway":
            topic.pathway = mark.value
    tissues = tuple(dict.fromkeys(mark.value for mark in sentence.marks if mark.kind == "tissue"))
    topic.tissues = tissues or topic.tissues


# ---- where ----------------------------------------------------------------------------------


def _near(scope: Scope, group: Group, event: Mark) -> tuple[str, ...]:
    """Return the tissues right after this event, where a clause holds several events and tissues."""
    if len(group.events) < 2:
        return ()
    following = [other.first for other in group.events if other.first > event.last]
    until = min(following, default=scope.sentence.last + 1)
    near = [
        mark.value
        for mark in group.marks
        if mark.kind == "tissue"
        and event.last < mark.first < until
        and not scope.is_contrasted(mark)
    ]
    return tuple(dict.fromkeys(near))


# ---- of what --------------------------------------------------------------------------------


def _subjects(scope: Scope, group: Group, event: Mark, topic: Topic) -> tuple[str | None, ...]:
    """Return the gene sets the event speaks of; () if it speaks of something else."""
    at = scope.mark_at
    kind, pathway = _object(scope, event)
    if kind == "pathway":
        return (pathway,)
    if kind == "foreign":
        return ()
    start = scope.clause_start(event.first)
    own = _listed(scope, start, event.first)
    if own:
        return own
    if any(not _is_neutral(scope.reading.words[i], at.get(i)) for i in range(start, event.first)):
        return ()
    before = _listed(scope, scope.sentence.first, start)
    if before:
        return before[-1:]
    after = tuple(m.value for m in group.marks if m.kind == "pathway" and m.first > event.last)
    return after[:1] or (topic.pathway,)


def _listed(scope: Scope, first: int, until: int) -> tuple[str, ...]:
    """Return the gene sets named in tokens first..until-1, with the list they end ("A, B and C …")."""
    named = [
        mark
        for mark in scope.sentence.marks
        if mark.kind == "pathway" and mark.first < until and not scope.is_contrasted(mark)
    ]
    inside = [mark for mark in named if mark.first >= first]
    if not inside:
        return ()
    listed = list(inside)
    for mark in reversed(named[: len(named) - len(inside)]):
        between = scope.reading.words[mark.last + 1 : listed[0].first]
        if any(word not in ("and", "or", "both", "the") for word in between):
            break
        listed.insert(0, mark)
    return tuple(dict.fromkeys(mark.value for mark in listed))


def _object(scope: Scope, event: Mark) -> tuple[str, str | None]:
    """Return ("pathway", id), ("foreign", None) or ("none", None) for what the event acts on."""
    words, gaps, at = scope.reading.words, scope.reading.gaps, scope.mark_at
    if event.form in ("intransitive", "weak", "nes", "changed") or words[event.first] in (
        "up",
        "down",
    ):
        return "none", None
    if event.form in ("participle", "bare") and _is_predicate(scope, event):
        return "none", None
    token = event.last + 1
    if event.form == "noun":
        ends_in_of = words[event.last] == "of"
        if not ends_in_of and (
            token > scope.sentence.last or words[token] not in ("of", "in", "for")
        ):
            return ("pathway", at[token].value) if _is_pathway(at.get(token)) else ("none", None)
        token += not ends_in_of
    elif token <= scope.sentence.last and words[token] in preposition_words():
        return "none", None
    while token <= scope.sentence.last and gaps[token] in (" ", "-"):
        mark = at.get(token)
        if _is_pathway(mark):
            return "pathway", mark.value if mark else None
        if mark and mark.kind in ("tissue", "mission", "direction", "break", "majority"):
            return "none", None
        if not _is_neutral(words[token], mark):
            return "foreign", None
        if words[token] in preposition_words() and words[token] != "of":
            return "none", None
        token += 1
    return "none", None


def _is_predicate(scope: Scope, event: Mark) -> bool:
    token = event.first - 1
    words = scope.reading.words
    while token >= scope.sentence.first and (
        words[token].endswith("ly") or words[token] in ("not", "more", "also")
    ):
        token -= 1
    return token >= scope.sentence.first and words[token] in be_words()


def _is_pathway(mark: Mark | None) -> bool:
    return mark is not None and mark.kind == "pathway"


def _is_neutral(word: str, mark: Mark | None) -> bool:
    if mark is not None:
        return True
    return word in neutral_words() or word.endswith("ly") or word[0].isdigit()
