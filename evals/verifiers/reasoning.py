"""Find a class or an OXPHOS pattern that an answer gives against its own reasons.

    Type A, stress-activated   kaempferol acts mainly under stress
    Type B, baseline-active    kaempferol acts mainly without stress
    Type C, stress-blocked     stress takes the effect of kaempferol away
    rescue                     stress lowers OXPHOS, kaempferol raises it
    suppression                stress raises OXPHOS, kaempferol lowers it
    KMP only                   kaempferol changes OXPHOS, stress does not

"Type A, because kaempferol acts without stress" belies itself, whatever the tissue really is.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from evals.verifiers.genes import GENES
from evals.verifiers.grammar import degree_words
from evals.verifiers.lexicon import phrases
from evals.verifiers.reading import Mark, Reading, Sentence
from evals.verifiers.scope import Group, Scope

NAMES: dict[tuple[str, ...], str] = {
    ("type", "a"): "A",
    ("type", "b"): "B",
    ("type", "c"): "C",
    ("class", "a"): "A",
    ("class", "b"): "B",
    ("class", "c"): "C",
    ("stress", "activated"): "A",
    ("baseline", "active"): "B",
    ("stress", "blocked"): "C",
}
PATTERNS = {"rescue": "rescue", "rescues": "rescue", "suppression": "suppression"}
TRIGGERS = frozenset(("type", "class", "activated", "active", "blocked", *PATTERNS, "only"))
"""An answer without any of these names neither a class nor a pattern."""
DENIED_BY = {"A": "baseline", "B": "stress", "C": "stress"}
"""When kaempferol would have to act for a class to be wrong."""
ACTS = frozenset(
    word
    for (word,) in phrases(
        "acts; act; acting; active; works; work; changes; change; affects; affect; effect; effects;"
        " responds; respond; strongest; strong; mainly; mostly; only; most; more; alters"
    )
)
STRESSED = frozenset(("stress", "stressed", "stressor", "stressors", "stresses"))
CALM = frozenset(("without", "no", "absence", "un", "before", "unstressed"))
STRONGLY = frozenset(("mainly", "mostly", "only", "most", "more", "strongest", "chiefly", "just"))
"""A reason for a class says when the effect is greatest, not that there is one."""


@dataclass(frozen=True, slots=True)
class Note:
    """Something said of a tissue: a class, a pattern, or a reason such as "acts: stress"."""

    tissue: str
    kind: str
    value: str


def unreasoned(reading: Reading) -> Iterator[str]:
    """Yield each class and pattern that the same answer gives a contrary reason for."""
    if TRIGGERS.isdisjoint(reading.words):
        return
    notes = list(_notes(reading))
    named = {note.tissue for note in notes if note.tissue}
    if len(named) == 1:
        only = named.pop()
        notes = [replace(note, tissue=only) for note in notes]
    for tissue in dict.fromkeys(note.tissue for note in notes):
        held: dict[str, set[str]] = {}
        for note in notes:
            if note.tissue == tissue:
                held.setdefault(note.kind, set()).add(note.value)
        yield from _of_tissue(tissue or "what is asked", held)


def _of_tissue(tissue: str, held: dict[str, set[str]]) -> Iterator[str]:
    classes, patterns = held.get("class", set()), held.get("pattern", set())
    if len(classes) > 1:
        yield f"{tissue}: Type {' and Type '.join(sorted(classes))}"
    if len(patterns) > 1:
        yield f"{tissue}: {' and '.join(sorted(patterns))}"
    if len(classes) == 1:
        letter = next(iter(classes))
        if held.get("acts") == {DENIED_BY[letter]}:
            yield f"{tissue}: Type {letter}, though said to act under {DENIED_BY[letter]}"
    if len(patterns) == 1:
        yield from _of_pattern(tissue, next(iter(patterns)), held)


def _of_pattern(tissue: str, pattern: str, held: dict[str, set[str]]) -> Iterator[str]:
    stress, drug = held.get("stress", set()), held.get("drug", set())
    expected = {"rescue": ("DOWN", "UP"), "suppression": ("UP", "DOWN")}.get(pattern)
    if expected is None:
        if stress:
            yield f"{tissue}: KMP only, though stress is said to change OXPHOS"
    elif (stress and expected[0] not in stress) or (drug and expected[1] not in drug):
        yield f"{tissue}: {pattern}, though the changes given are those of another pattern"


# ---- what is said ---------------------------------------------------------------------------


def _notes(reading: Reading) -> Iterator[Note]:
    topic = ""
    for sentence in reading.sentences:
        events = sorted((*_names(reading, sentence), *_reasons(reading, sentence)), key=_place)
        if events:
            scope = Scope(reading, sentence, events)
            for group in scope.groups():
                tissue = group.tissues[0] if len(group.tissues) == 1 else topic
                if len(group.tissues) < 2:
                    yield from _of_group(scope, group, tissue)
        named = [mark.value for mark in sentence.marks if mark.kind == "tissue"]
        topic = named[-1] if named else topic


def _place(mark: Mark) -> int:
    return mark.first


def _of_group(scope: Scope, group: Group, tissue: str) -> Iterator[Note]:
    for event in group.events:
        if scope.is_conditional(event) or scope.is_supposed(event):
            continue
        if scope.is_negated(event) or scope.is_contrasted(event):
            continue
        yield Note(tissue, event.kind, event.value)


def _names(reading: Reading, sentence: Sentence) -> Iterator[Mark]:
    words = reading.words
    for token in range(sentence.first, sentence.last + 1):
        pair = tuple(words[token : token + 2])
        if pair in NAMES and token < sentence.last:
            yield Mark("class", NAMES[pair], "", token, token + 1)
        elif pair == ("kmp", "only") and token < sentence.last:
            yield Mark("pattern", "KMP only", "", token, token + 1)
        elif words[token] in PATTERNS and _is_pattern(words, token, sentence):
            yield Mark("pattern", PATTERNS[words[token]], "", token, token)


def _is_pattern(words: list[str], token: int, sentence: Sentence) -> bool:
    near = words[max(sentence.first, token - 3) : min(token + 3, sentence.last + 1)]
    return words[token].startswith("rescue") or "pattern" in near or sentence.first == sentence.last


def _reasons(reading: Reading, sentence: Sentence) -> Iterator[Mark]:
    """Yield when the drug is said to act, and what stress and drug are said to do to OXPHOS."""
    words = reading.words
    for clause, first in enumerate(sentence.starts):
        is_last = clause + 1 == len(sentence.starts)
        last = sentence.last if is_last else sentence.starts[clause + 1] - 1
        said = words[first : last + 1]
        if ACTS & set(said) and (STRONGLY & set(said)) and not GENES & set(said[:1]):
            when = _when(said)
            if when:
                yield Mark("acts", when, "", first, first)
    for mark in sentence.marks:
        if mark.kind == "direction" and mark.form == "verb":
            agent = _agent(words[max(sentence.first, mark.first - 4) : mark.first])
            if agent:
                yield Mark(agent, mark.value, "", mark.first, mark.last)


def _when(said: list[str]) -> str:
    """Return "baseline" or "stress" for a clause that says when the effect is greatest."""
    if any(degree_words().get(word) == "LESS" for word in said) or "than" in said:
        return ""
    stressed = [place for place, word in enumerate(said) if word in STRESSED]
    is_calm = "baseline" in said or "unstressed" in said
    for place in stressed:
        is_calm = is_calm or bool(CALM & set(said[max(0, place - 2) : place]))
    if is_calm:
        return "baseline" if not stressed or CALM & set(said) else ""
    return "stress" if stressed else ""


def _agent(before: list[str]) -> str:
    for word in reversed(before):
        if word in STRESSED or word in ("hu", "ir", "unloading", "radiation"):
            return "stress"
        if word in ("kaempferol", "kmp", "drug", "flavonoid"):
            return "drug"
    return ""
