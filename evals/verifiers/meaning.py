"""Whether a reading of a finding says what the gene set stands for.

"It stands for making fat cells"           adipogenesis
"It stands for genes known from spermatus" nothing: no word of any set, though it begins like one
"It stands for a growth signal"            nothing: said of many sets
"It stands for muscle and fat"             not myogenesis, and nothing else either

A reading explains a set if it names a unit of its matter (`evals.verifiers.matter`) that the question
does not hold, and no more of other sets. Where it says outright what the set stands for, that part
must name the matter, and nothing that belies it; what belongs to another set may only stand in a
relative clause after it ("protein synthesis that lets cells divide"), and weigh less. What an answer
denies is as if it were not said ("mitochondria, not glycolysis"). The description of another set, word
for word, explains that set alone, though the two may share words. What it only mentions ("I like fat
cells", "Fat cell differentiation.") is said of no set (`evals.verifiers.predicate`).
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from evals.facts import load_hallmark
from evals.verifiers.grammar import neutral_words
from evals.verifiers.matter import MATTERS, OFF, ON, TOPICS
from evals.verifiers.names import words
from evals.verifiers.predicate import predicated
from evals.verifiers.reading import Reading, Sentence
from evals.verifiers.tokens import word_set
from evals.verifiers.undenied import ENDERS, said_words, undenied

FRAMES = {
    "stands": ["for"],
    "stand": ["for"],
    "activity": ["for"],
    "represents": [],
    "represent": [],
}
"""After one of these words, and those that must follow it, an answer says what a set is."""
RELATIVES = word_set("that which who when where")
"""What belongs to another set may follow one of these."""
WINDOW = 8
"""The words of a unit that need not stand in a row stand within so many."""
SIBILANTS = ("x", "z", "ch", "sh", "o")
PLAIN = word_set(
    "response signaling metabolism targets up dn early late acid pathway via species surface junction"
    " transition homeostasis complement protein beta cells oxygen v1 v2 repair oxidative secretion"
    " reactive unfolded pancreas rejection alpha dna bile mitotic fatty inflammatory"
)
"""Words of ids that do not name a set by themselves."""


class Unit(NamedTuple):
    """The words, in their inflections, that name one matter; `in_row` = only one after the other."""

    forms: tuple[frozenset[str], ...]
    in_row: bool


Place = tuple[Unit, list[int]]
"""A unit, and the places of its words."""
Heads = dict[str, tuple[Unit, ...]]
"""Units by each form of their first word: a text is searched for those alone that may be in it."""


class Meaning(NamedTuple):
    """What explains a gene set, what belies it, what belongs to other sets, and how those are described.

    `matter` are all words that may be said of the set.
    `others` are the descriptions of the other sets by each of their words, and all of them by "".
    """

    own: Heads
    contrary: Heads
    foreign: Heads
    matter: frozenset[str]
    others: dict[str, tuple[frozenset[str], ...]]


def explains(pathway: str, reading: Reading, sentences: Sequence[Sentence], question: str) -> bool:
    """Say whether sentences of an answer tell what a gene set stands for.

    Words of the question tell nothing. A set without a list is explained by nothing.
    """
    meaning = _meaning(pathway)
    if meaning is None:
        return False
    if all(meaning.own.keys().isdisjoint(said_words(reading, one)) for one in sentences):
        return False
    said = [predicated(reading, one, undenied(reading, one), meaning.matter) for one in sentences]
    asked = set(words(question))
    parts = zip(sentences, said, strict=True)
    defined = [part for one, spoken in parts for part in _definitions(reading, one, spoken)]
    if not all(_defines(meaning, part, asked) for part in defined):
        return False
    own = {unit for spoken in said for unit, _ in _named(meaning, spoken, asked)}
    if not own or any(_found(meaning.contrary, spoken) for spoken in said):
        return False
    foreign = {unit for spoken in said for unit, _ in _found(meaning.foreign, spoken)}
    return bool(defined) or len(foreign) <= len(own)


def _definitions(
    reading: Reading, sentence: Sentence, spoken: Sequence[str]
) -> Iterator[Sequence[str]]:
    """Return what follows "stands for" or its like, up to the end of that part of the sentence."""
    first, end = sentence.first, sentence.last + 1
    said, gaps = reading.words, reading.gaps
    for place in [place for place in range(first, end) if said[place] in FRAMES]:
        frame = FRAMES[said[place]]
        start = place + 1 + len(frame)
        if said[place + 1 : min(start, end)] != frame:
            continue
        if not spoken[place - first]:
            yield []
            continue
        enders = (at for at in range(start, end) if said[at] in ENDERS and "," in gaps[at])
        yield spoken[start - first : next(enders, end) - first]


def _defines(meaning: Meaning, part: Sequence[str], asked: set[str]) -> bool:
    """Say whether what a set is said to stand for is its matter, and at most aside another's."""
    own = _named(meaning, part, asked)
    if not own or _found(meaning.contrary, part):
        return False
    foreign = _found(meaning.foreign, part)
    if not foreign:
        return True
    if len({unit for unit, _ in foreign}) >= len({unit for unit, _ in own}):
        return False
    return all(_is_aside(part, own, min(places)) for _, places in foreign)


def _is_aside(part: Sequence[str], own: Sequence[Place], place: int) -> bool:
    """Say whether a place is in a relative clause after the last of the set's own units before it."""
    ends = [max(places) + 1 for _, places in own if max(places) < place]
    between = part[max(ends) : place] if ends else ()
    opener = next((word for word in between if word in RELATIVES or word in {"and", "or"}), "")
    return opener in RELATIVES


def _named(meaning: Meaning, said: Sequence[str], asked: set[str]) -> list[Place]:
    """Return the units of the set that are said in words of the answer's own, with their places.

    They must hold a word that the question does not, nor a description of another set.
    """
    own = []
    for unit, places in _found(meaning.own, said):
        named = {said[place] for place in places}
        if not (named <= asked or _is_borrowed(meaning, named - neutral_words(), said)):
            own.append((unit, places))
    return own


def _is_borrowed(meaning: Meaning, named: set[str], said: Sequence[str]) -> bool:
    """Say whether words stand in a description of another set that is said word for word."""
    others = meaning.others.get(next(iter(named), ""), ())
    return any(named <= listed and listed.issubset(said) for listed in others)


def _found(heads: Heads, said: Sequence[str]) -> list[Place]:
    """Return the units that are said, each time with the places of its words."""
    may_be = dict.fromkeys(unit for word in said if word in heads for unit in heads[word])
    return [(unit, places) for unit in may_be for places in _places(unit, said)]


def _places(unit: Unit, said: Sequence[str]) -> Iterator[list[int]]:
    """Yield where the words of a unit stand, for each time that all of them are said."""
    head, *rest = unit.forms
    for start in [place for place, word in enumerate(said) if word in head]:
        if unit.in_row:
            following = said[start + 1 : start + len(unit.forms)]
            if len(following) == len(rest) and all(map(_is_form, following, rest)):
                yield list(range(start, start + len(unit.forms)))
            continue
        around = range(max(0, start - WINDOW + 1), min(len(said), start + WINDOW))
        found = [next((p for p in around if said[p] in forms), None) for forms in rest]
        if None not in found:
            yield [start, *(place for place in found if place is not None)]


def _is_form(word: str, forms: frozenset[str]) -> bool:
    return word in forms


def _units(listed: str) -> tuple[Unit, ...]:
    return tuple(dict.fromkeys(_unit(one) for one in listed.split()))


def _unit(listed: str) -> Unit:
    in_row = "+" not in listed
    parts = listed.replace("+", "_").split("_")
    return Unit(tuple(_inflected(word) for word in parts), in_row)


def _inflected(word: str) -> frozenset[str]:
    """Return a word with its plural; one with a star, with the regular forms of a verb."""
    is_verb, word = word.endswith("*"), word.rstrip("*")
    if len(word) < 3 or not word.isalpha() or word.endswith("s"):
        return frozenset((word,))
    stem = word[:-1]
    if word[-1] == "y" and word[-2] not in "aeiou":
        forms = {f"{stem}ies", f"{stem}ied", f"{word}ing"}
    elif word.endswith("e"):
        forms = {f"{word}s", f"{word}d", f"{stem}ing"}
    else:
        forms = {f"{word}es" if word.endswith(SIBILANTS) else f"{word}s", f"{word}ed", f"{word}ing"}
    plural = frozenset(form for form in forms if form.endswith("s"))
    return (frozenset(forms) if is_verb else plural) | {word}


@lru_cache(maxsize=64)
def _meaning(pathway: str) -> Meaning | None:
    """Return what explains a set; None if we hold no list of it."""
    name = pathway.removeprefix("HALLMARK_")
    matter = MATTERS.get(name)
    if matter is None:
        return None
    own = _units(matter.own)
    allowed = {form for unit in own for forms in unit.forms for form in forms}
    allowed |= {form for word in matter.near.split() for form in _near(word)}
    allowed |= set(words(name))
    others = [other for key, other in MATTERS.items() if key != name]
    foreign = dict.fromkeys(_units(" ".join((*(m.own for m in others), TOPICS, *_ids(name)))))
    # many sets hold genes that something switches on or off
    for unit in _units(f"{ON} {OFF}"):
        foreign.pop(unit, None)
    kept = [unit for unit in foreign if all(forms.isdisjoint(allowed) for forms in unit.forms)]
    contrary = _heads(_units(matter.contrary))
    return Meaning(_heads(own), contrary, _heads(kept), frozenset(allowed), _others(name))


def _heads(units: Sequence[Unit]) -> Heads:
    found: dict[str, list[Unit]] = {}
    for unit in units:
        for form in unit.forms[0]:
            found.setdefault(form, []).append(unit)
    return {form: tuple(listed) for form, listed in found.items()}


def _others(name: str) -> dict[str, tuple[frozenset[str], ...]]:
    described = [_described(key) for key in MATTERS if key != name]
    found = {word: tuple(d for d in described if word in d) for d in described for word in d}
    return {**found, "": tuple(described)}


def _described(name: str) -> frozenset[str]:
    """Return the words that describe a set, small ones left out."""
    about = load_hallmark()[f"HALLMARK_{name}"].about
    return frozenset(word for word in words(about) if word not in neutral_words())


def _near(word: str) -> frozenset[str]:
    return frozenset(form for part in word.split("_") for form in _inflected(part))


def _ids(name: str) -> Iterator[str]:
    """Return the words by which other sets are named."""
    for key in MATTERS:
        if key != name:
            yield from (word for word in key.lower().split("_") if word not in PLAIN)
