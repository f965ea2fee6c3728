"""Read which way an answer says a gene set goes, and where.

    "Adipogenesis falls in the thymus (NES -2.4)."     adipogenesis in thymus: DOWN, DOWN
    "not increased but reduced"                        what was asked about:   not UP, DOWN
    "Up in liver, gene set enrichment analysis shows"  liver: UP; the method's name says nothing

A direction word belongs to its object ("suppresses hypoxia"), else to the gene set named before it in
its clause, else to the one spoken of before. With an unknown subject ("lipid uptake falls") it says
nothing about any gene set.
"""

from collections.abc import Iterator

from evals.verifiers.cues import CHANGES, FOREIGN, MOVES, NEGATES, PLACES, TURNS
from evals.verifiers.elsewhere import elsewhere
from evals.verifiers.events import OPPOSITE, direction_events
from evals.verifiers.inverse import TURNED, other_way, with_inverse
from evals.verifiers.reading import HEAP_WORDS, Mark, Reading, Sentence, is_heap, n_loose
from evals.verifiers.scope import Group, Scope
from evals.verifiers.statement import Statement
from evals.verifiers.table import wide_row
from evals.verifiers.tokens import word_set
from evals.verifiers.topic import Sets, Topic, is_neutral, sets_of

CONTROLS = word_set("control controls")
AGAINST = word_set("than compared relative versus vs")
ASIDE_OF_CONTROLS = word_set("the ground earth their matched on in are show have had were is")
CONTRASTED = word_set("flight spaceflight flown space")
COUNTS = word_set("one two three four five")
LISTING = word_set("and or the")
CONTRARY = word_set("opposite reverse way direction")
"""A mission before one of these words of disagreement is on the other side: "RR-1 shows the opposite"."""
LONGEST_HEADING = 3
"""Words of a line that heads a list with the name of a tissue."""


def statements(reading: Reading) -> list[Statement]:
    """Return every direction that the answer states, in order; none for a heap of keywords."""
    return reading.once(_statements)


def _statements(reading: Reading) -> list[Statement]:
    found: list[Statement] = []
    topic = Topic()
    held: list[tuple[Sentence, list[Mark]]] = []
    for sentence in reading.sentences:
        told = sentence.cues
        may_tell = told & (MOVES | PLACES) or (told & NEGATES and told & CHANGES)
        if not (may_tell or topic.heading) or not sentence.marks:
            continue
        events = direction_events(reading, sentence)
        if told & TURNS and events and "tissue" in sentence.kinds:
            events = with_inverse(reading, sentence, events)
        if events:
            held.append((sentence, events))
            scope = Scope(reading, sentence, events)
            if not scope.is_hedged_away():
                found += _of_sentence(scope, topic)
        topic.remember(sentence)
        if "tissue" in sentence.kinds or topic.heading:
            _head(reading, sentence, topic)
    return [] if found and _is_heap(reading, held) else found


def _is_heap(reading: Reading, held: list[tuple[Sentence, list[Mark]]]) -> bool:
    """Say whether the events of all sentences are a heap of keywords; the cheap test comes first."""
    n_events = sum([len(events) for _, events in held])
    if n_events < HEAP_WORDS:
        return False
    n_words = sum(map(len, reading.sentences))
    if not is_heap(n_events, n_words):
        return False
    loose = sum(
        0 if wide_row(reading, sentence) else n_loose(sentence, events) for sentence, events in held
    )
    return is_heap(loose, n_words)


def _of_sentence(scope: Scope, topic: Topic) -> list[Statement]:
    if "respectively" in scope.sentence.kinds:
        paired = _paired(scope, topic)
        if paired:
            return paired
    found: list[Statement] = []
    sets: Sets | None = None
    earlier = topic.where(scope.reading.words, scope.sentence)
    may_be_away = "tissue" not in scope.sentence.kinds or scope.sentence.cues & FOREIGN
    for group in scope.groups():
        tissues = group.tissues or earlier
        for event in group.events:
            if event.value == TURNED:
                found += _turned(scope, group, event, found)
                continue
            is_cell = group.is_cell and group.pathways
            sets = group.pathways if is_cell else sets_of(scope, group, event, topic, sets)
            if not sets or scope.is_supposed(event):
                continue
            away = elsewhere(scope, group, event) if may_be_away else ()
            where = away or _near(scope, group, event) or tissues
            found += _stated(scope, group, event, sets, where)
    if len(found) > 1 and scope.of_kind("hedge"):
        return _without_guesses(found)
    return found


def _turned(scope: Scope, group: Group, event: Mark, found: list[Statement]) -> Iterator[Statement]:
    """Yield what "the reverse" says of another tissue, given what was stated before it."""
    said = [("" if one.is_negated else one.says, one.tissues) for one in found]
    for way, tissues in other_way(scope, event, said):
        named = group.pathways[-1] if group.pathways else found[-1].pathway
        yield Statement(named, tissues, (), way, False, event.first, event.last)


def _stated(
    scope: Scope, group: Group, event: Mark, sets: Sets, tissues: tuple[str, ...]
) -> Iterator[Statement]:
    """Yield what an event says of each gene set, after everything that may turn it around."""
    negated = scope.is_negated(event) != (scope.is_averted(event) or scope.is_taken_back(event))
    says = event.value
    if says == "CHANGED":
        if not negated:
            return
        says, negated = "UNCHANGED", False
    elif says in OPPOSITE:
        side = _side(scope, event)
        if side is None:
            return
        says = says if side else OPPOSITE[says]
    reach = {mark.value for mark in group.marks if mark.kind == "majority"}
    missions: tuple[str, ...] = ()
    if not reach and (group.is_cell or "mission" in scope.sentence.kinds):
        missions = _flown(scope, group, event)
    if not (reach or missions) and len(scope.events) > 1:
        missions = _counted(scope, event)
    apart = _apart(scope, group, tissues)
    first, last = event.first, event.last
    for pathway in sets:
        yield Statement(
            pathway, tissues, missions, says, negated, first, last, apart, "all" in reach
        )


def _flown(scope: Scope, group: Group, event: Mark) -> tuple[str, ...]:
    """Return the missions of an event, without those behind it that are said to show the opposite."""
    missions = scope.named(group, "mission")
    if not missions or "agreement" not in scope.sentence.kinds:
        return missions
    words, opposed = scope.reading.words, set[str]()
    told = [mark for mark in scope.sentence.marks if mark.kind in ("mission", "agreement")]
    for place, mark in enumerate(told):
        if mark.kind != "agreement" or words[mark.last] not in CONTRARY:
            continue
        until = mark.first
        for other in reversed(told[:place]):
            between = words[other.last + 1 : until]
            is_listed = (
                LISTING.issuperset(between) and "," not in scope.reading.gaps[other.last + 1]
            )
            is_listed = is_listed or until == mark.first
            if other.kind != "mission" or other.first < event.last or not is_listed:
                break
            opposed.add(other.value)
            until = other.first
    return tuple(mission for mission in missions if mission not in opposed)


def _counted(scope: Scope, event: Mark) -> tuple[str, ...]:
    """Return "one", as for "one mission", for mere numbers: "up in one, down in two"."""
    words, after = scope.reading.words, event.last + 1
    if after + 1 > scope.sentence.last:
        return ()
    if words[after] != "in" or words[after + 1] not in COUNTS:
        return ()
    ends = scope.reading.gaps[after + 2] != " " or words[after + 2] in ("and", "but")
    return ("one",) if ends else ()


def _apart(scope: Scope, group: Group, tissues: tuple[str, ...]) -> tuple[str, ...]:
    """Return the tissues that a group names only to leave them out ("up in all but thymus")."""
    if not scope.contrasts or "tissue" not in scope.sentence.kinds:
        return ()
    # "lower in flight than in ground control thymus" is about that thymus
    controls = {mark.last + 1 for mark in scope.sentence.marks if mark.kind == "controls"}
    return tuple(
        mark.value
        for mark in group.marks
        if mark.kind == "tissue"
        and mark.value not in tissues
        and mark.first not in controls
        and scope.is_contrasted(mark)
    )


def _without_guesses(found: list[Statement]) -> list[Statement]:
    """Drop "perhaps up, perhaps down": two guesses about the same thing are none."""
    said: dict[tuple[str | None, tuple[str, ...], tuple[str, ...]], set[str]] = {}
    for one in found:
        said.setdefault(one[:3], set()).add(one.says)
    return [one for one in found if len(said[one[:3]]) == 1]


# ---- flight or ground -----------------------------------------------------------------------


def _side(scope: Scope, event: Mark) -> bool | None:
    """Return True if an event is said of flight, False if of controls against flight, None if of controls."""
    if "controls" not in scope.sentence.kinds:
        return True
    words, sentence = scope.reading.words, scope.sentence
    start = scope.clause_start(event.first)
    before = words[start : event.first]
    leads = not CONTROLS.isdisjoint(before) and all(
        word in CONTROLS or word in ASIDE_OF_CONTROLS for word in before
    )
    after = words[event.last + 1 : sentence.last + 1]
    organs = {words[mark.first] for mark in sentence.marks if mark.kind == "tissue"}
    place = next((i for i, word in enumerate(after) if word in CONTROLS), None)
    follows = (
        place is not None
        and {"in", "on"} & set(after[:place])
        and AGAINST.isdisjoint(after[:place])
        and all(is_neutral(word, None) or word in organs for word in after[:place])
        and not CONTRASTED.intersection(after[:place])
    )
    if not (leads or follows):
        return True
    return False if leads or not AGAINST.isdisjoint(after) else None


# ---- where ----------------------------------------------------------------------------------


def _near(scope: Scope, group: Group, event: Mark) -> tuple[str, ...]:
    """Return the tissues right after this event, where a clause holds several events and tissues.

    A sign is said of the tissue that it stands beside.
    """
    if event.form == "sign":
        return (scope.mark_at[event.first].value,)
    if len(group.events) < 2 or "tissue" not in scope.sentence.kinds:
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


def _paired(scope: Scope, topic: Topic) -> list[Statement]:
    """Return "up and down in liver and thymus, respectively" pair by pair; [] if they do not pair up."""
    events = [event for event in scope.events if event.value in OPPOSITE]
    marks = scope.sentence.marks
    tissues = list(dict.fromkeys(mark.value for mark in marks if mark.kind == "tissue"))
    sets = list(dict.fromkeys(mark.value for mark in marks if mark.kind == "pathway"))
    if len(events) == len(tissues) and len(sets) < 2:
        pathway = sets[0] if sets else topic.pathway
        return [
            _one(scope, event, pathway, (tissue,))
            for event, tissue in zip(events, tissues, strict=True)
        ]
    if len(events) == len(sets):
        return [
            _one(scope, event, pathway, tuple(tissues))
            for event, pathway in zip(events, sets, strict=True)
        ]
    return []


def _one(scope: Scope, event: Mark, pathway: str | None, where: tuple[str, ...]) -> Statement:
    negated = scope.is_negated(event)
    return Statement(pathway, where, (), event.value, negated, event.first, event.last)


def _head(reading: Reading, sentence: Sentence, topic: Topic) -> None:
    """Take note of a line that heads a list ("Thymus:"), until a blank line or another heading."""
    after = reading.gaps[sentence.last + 1]
    is_short = len(sentence) <= LONGEST_HEADING and sentence.kinds == {"tissue"}
    if is_short and "\n" in after:
        topic.heading = topic.tissues
    elif "\n" not in after or after.count("\n") > 1 or "tissue" in sentence.kinds:
        topic.heading = ()
