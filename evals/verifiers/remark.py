"""Read what an answer says of enrichment scores, significance and votes of missions, and where.

"up in RR-9 (NES 2.1, padj 0.01)"              RR-9: NES 2.1, padj 0.01
"NES 1.9 and 2.1 in MHU-2 and RR-9"            MHU-2: NES 1.9; RR-9: NES 2.1
"significant in 2 of 3 missions (1 against)"   2 votes of 3, 1 against
"significant implications"                     nothing
"""

from collections.abc import Iterator
from dataclasses import replace

from evals.verifiers.cues import PLACES, SCORES
from evals.verifiers.enrichment import LINKS, Event, Remark, events
from evals.verifiers.names import same_tissue
from evals.verifiers.reading import Mark, Reading, Sentence
from evals.verifiers.scope import Scope

BESIDE = frozenset((" ", " (", ") ", " [", "-"))
"""What may stand between a figure and its mission: no comma and no colon."""
ASIDE = 8
"""How many words a parenthesis between a figure and its mission may have."""


def remarks(reading: Reading, pathway: str, tissue: str) -> list[Remark]:
    """Return every remark about the gene set in the tissue; what an answer leaves unnamed is meant."""
    return reading.once(_remarks, pathway, tissue)


def _remarks(reading: Reading, pathway: str, tissue: str) -> list[Remark]:
    found: list[Remark] = []
    topic: str | None = None
    for sentence, stated in _found(reading):
        if stated:
            scope = Scope(reading, sentence, [event.mark for event in stated])
            if not scope.is_hedged_away():
                found += _of_sentence(scope, stated, topic, pathway, tissue)
        if sentence.cues & PLACES:
            named = [mark.value for mark in sentence.marks if mark.kind == "pathway"]
            topic = named[-1] if named else topic
    return found


def _found(reading: Reading) -> list[tuple[Sentence, list[Event]]]:
    """Return each sentence with the remarks in it, in order."""
    return [
        (sentence, sorted(events(reading, sentence), key=lambda event: event.mark.first))
        if sentence.cues & SCORES
        else (sentence, [])
        for sentence in reading.sentences
    ]


def _of_sentence(
    scope: Scope, found: list[Event], topic: str | None, pathway: str, tissue: str
) -> Iterator[Remark]:
    by_mark = {event.mark: event for event in found}
    for group in scope.groups():
        named = group.pathways or ((topic,) if topic else ())
        if named and pathway not in named:
            continue
        if group.tissues and not any(same_tissue(name, tissue) for name in group.tissues):
            continue
        for mark in group.events:
            if not (scope.is_conditional(mark) or scope.is_supposed(mark)):
                yield from _placed(scope, by_mark[mark])


def _placed(scope: Scope, event: Event) -> Iterator[Remark]:
    """Yield the remark with its missions; nothing for "some missions" or what is denied."""
    remark, is_denied = event.remark, scope.is_negated(event.mark)
    if remark.about == "votes":
        if not is_denied or remark.says == "not significant":
            yield remark
        return
    missions = _missions(scope, event)
    if missions is None or (is_denied and remark.about != "significance"):
        return
    says = {"yes": "no", "no": "yes"}[remark.says] if is_denied else remark.says
    yield replace(remark, missions=missions, says=says)


# ---- which missions -------------------------------------------------------------------------


def _missions(scope: Scope, event: Event) -> tuple[str, ...] | None:
    """Return the missions a remark is about, () if none is named, None if "some" of them are."""
    n = len(event.run)
    first = event.run[0].first if event.run else event.mark.first
    last = event.run[-1].last if event.run else event.mark.last
    own = _following(scope, event.mark.last + 1)
    shared = own if event.mark.last == last else _following(scope, last + 1)
    if n > 1 and len(shared) == n:
        found = shared[event.place : event.place + 1]
    elif own:
        found = own
    else:
        found = _preceding(scope, first) or _later(scope, event.mark)
        if n > 1 and len(found) == n:
            found = found[event.place : event.place + 1]
    if "one" in found:
        return None
    return found


def _following(scope: Scope, token: int) -> tuple[str, ...]:
    """Return the missions right behind a figure: "2.1 in RR-9 and RR-6", "2.1 (RR-9)"."""
    words, gaps, end = scope.reading.words, scope.reading.gaps, scope.sentence.last
    if token <= end and "(" in gaps[token] and token not in scope.mark_at:
        token = _after_parenthesis(scope, token)
    for _ in range(3):
        if token > end or gaps[token] not in BESIDE:
            return ()
        if token in scope.mark_at or words[token] not in LINKS:
            break
        token += 1
    return _list_at(scope, token)


def _after_parenthesis(scope: Scope, token: int) -> int:
    """Return the first token behind a parenthesis of a few words that opens at `token`."""
    gaps = scope.reading.gaps
    for ahead in range(token + 1, min(token + ASIDE, scope.sentence.last) + 1):
        if ")" in gaps[ahead]:
            return ahead if gaps[ahead] == ") " else token
    return token


def _list_at(scope: Scope, token: int) -> tuple[str, ...]:
    found: list[str] = []
    while (mark := scope.mark_at.get(token)) is not None and mark.kind == "mission":
        found.append(mark.value)
        token = mark.last + 1
        if token <= scope.sentence.last and scope.reading.words[token] in ("and", "or"):
            token += 1
    return tuple(found)


def _preceding(scope: Scope, token: int) -> tuple[str, ...]:
    """Return the missions named last before a figure in its clause, or in the one it explains."""
    clause = scope.clause(token)
    while True:
        begin = scope.starts[clause]
        named = [
            m for m in scope.sentence.marks if m.kind == "mission" and begin <= m.first < token
        ]
        if named:
            return _list_before(scope, named)
        mark = scope.mark_at.get(begin)
        goes_on = scope.reading.gaps[begin].strip() in ("(", ":", ",", "=", "[", "|")
        if not clause or not goes_on or (mark and mark.kind == "break"):
            return ()
        if scope.reading.words[begin] in ("and", "or", "overall"):
            return ()
        clause -= 1


def _list_before(scope: Scope, named: list[Mark]) -> tuple[str, ...]:
    found = [named[-1]]
    for mark in reversed(named[:-1]):
        between = scope.reading.words[mark.last + 1 : found[0].first]
        if any(word not in ("and", "or") for word in between):
            break
        found.insert(0, mark)
    return tuple(mark.value for mark in found)


def _later(scope: Scope, mark: Mark) -> tuple[str, ...]:
    """Return the missions further on in the clause, up to the next figure."""
    later = [event.first for event in scope.events if event.first > mark.last]
    until = min(later, default=scope.sentence.last + 1)
    for token in range(mark.last + 1, until):
        if scope.clause(token) != scope.clause(mark.last):
            break
        if found := _list_at(scope, token):
            return found
    return ()
