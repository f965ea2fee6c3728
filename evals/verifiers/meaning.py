"""Whether a reading of a finding says what the gene set stands for.

"It stands for making fat cells"           adipogenesis
"It stands for genes known from spermatus" nothing: no word of any set, though it begins like one
"It stands for a growth signal"            nothing: said of many sets
"It stands for muscle and fat"             not myogenesis, and nothing else either

A reading explains a set if it names a unit of its matter (`evals.verifiers.matter`) that the question
does not hold, and no more of other sets. Where it says outright what the set stands for, that part
must name the matter, and nothing that belongs to another set or belies this one. The description of
another set, word for word, explains that set alone, though the two may share words.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from evals.facts import load_hallmark
from evals.verifiers.grammar import neutral_words
from evals.verifiers.matter import MATTERS, TOPICS
from evals.verifiers.names import words
from evals.verifiers.tokens import word_set

FRAMES = (
    ("stands", "for"),
    ("stand", "for"),
    ("activity", "for"),
    ("represents",),
    ("represent",),
)
"""After one of these an answer says what a set is."""
ENDERS = word_set("so but which although though while whereas because since")
"""After a comma, one of these ends what is said of the set."""
DENIALS = word_set(
    "not no never nothing anything none neither nor hardly unrelated cannot isn't doesn't don't without"
)
REACH = 6
"""A denial so many words before a unit denies it: "this has nothing to do with fat cells"."""
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


class Meaning(NamedTuple):
    """What explains a gene set, what belies it, what belongs to other sets, and how those are described."""

    own: tuple[Unit, ...]
    contrary: tuple[Unit, ...]
    foreign: tuple[Unit, ...]
    others: tuple[frozenset[str], ...]


def explains(pathway: str, sentences: Sequence[Sequence[tuple[str, str]]], asked: set[str]) -> bool:
    """Say whether sentences, each as (gap, word) pairs, tell what a gene set stands for.

    `asked` are the words of the question, which tell nothing. A set without a list explains itself
    to nobody: False.
    """
    meaning = _meaning(pathway)
    if meaning is None:
        return False
    defined = [part for sentence in sentences for part in _definitions(sentence)]
    for part in defined:
        if not _named(meaning, part, asked) or _is_belied(meaning, part):
            return False
        if any(_places(unit, part) for unit in meaning.foreign):
            return False
    said = [[word for _, word in sentence] for sentence in sentences]
    own = {unit for sentence in said for unit in _named(meaning, sentence, asked)}
    foreign = {unit for sentence in said for unit in meaning.foreign if _places(unit, sentence)}
    if not own or any(_is_belied(meaning, sentence) for sentence in said):
        return False
    return bool(defined) or len(foreign) <= len(own)


def _definitions(sentence: Sequence[tuple[str, str]]) -> Iterator[list[str]]:
    """Return what follows "stands for" or its like, up to the end of that part of the sentence."""
    said = [word for _, word in sentence]
    for place in range(len(said)):
        for frame in FRAMES:
            if tuple(said[place : place + len(frame)]) != frame:
                continue
            if not DENIALS.isdisjoint(said[max(0, place - REACH) : place]):
                yield []
                continue
            part: list[str] = []
            for gap, word in sentence[place + len(frame) :]:
                if "," in gap and word in ENDERS:
                    break
                part.append(word)
            yield part


def _is_belied(meaning: Meaning, said: Sequence[str]) -> bool:
    return any(_places(unit, said) for unit in meaning.contrary)


def _named(meaning: Meaning, said: Sequence[str], asked: set[str]) -> list[Unit]:
    """Return the units of the set that are said, not denied, and in words of the answer's own.

    They must hold a word that the question does not, nor a description of another set.
    """
    borrowed = [listed for listed in meaning.others if listed.issubset(said)]
    found = []
    for unit in meaning.own:
        places = _places(unit, said)
        named = {said[place] for place in places}
        if named <= asked or any(named - neutral_words() <= listed for listed in borrowed):
            continue
        first = min(places)
        if DENIALS.isdisjoint(said[max(0, first - REACH) : first]):
            found.append(unit)
    return found


def _places(unit: Unit, said: Sequence[str]) -> list[int]:
    """Return where the words of a unit stand, [] if one of them is missing."""
    head, *rest = unit.forms
    for start in [place for place, word in enumerate(said) if word in head]:
        if unit.in_row:
            following = said[start + 1 : start + len(unit.forms)]
            if len(following) == len(rest) and all(map(_is_form, following, rest)):
                return list(range(start, start + len(unit.forms)))
            continue
        around = range(max(0, start - WINDOW + 1), min(len(said), start + WINDOW))
        found = [next((p for p in around if said[p] in forms), None) for forms in rest]
        if None not in found:
            return [start, *(place for place in found if place is not None)]
    return []


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
    own, contrary = _units(matter.own), _units(matter.contrary)
    allowed = {form for unit in own for forms in unit.forms for form in forms}
    allowed |= {form for word in matter.near.split() for form in _near(word)}
    allowed |= set(words(name))
    others = [other for key, other in MATTERS.items() if key != name]
    foreign = dict.fromkeys(_units(" ".join((*(m.own for m in others), TOPICS, *_ids(name)))))
    kept = [u for u in foreign if not any(forms & allowed for forms in u.forms)]
    described = tuple(_described(key) for key in MATTERS if key != name)
    return Meaning(own, contrary, tuple(kept), described)


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
