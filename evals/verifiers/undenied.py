"""What a sentence says less what it denies.

"mitochondria, not glycolysis"                mitochondria
"adipogenesis is down, not up, so less fat"   all but "up": a denied direction denies nothing else
"nothing to do with muscle, blood or fat"     nothing: a comma of a list does not end a denial
"""

import re
from collections.abc import Iterator, Sequence

from evals.verifiers.grammar import be_words, preposition_words
from evals.verifiers.lexicon import TURNS, phrases
from evals.verifiers.reading import Reading, Sentence
from evals.verifiers.tokens import word_set

ENDERS = frozenset(turn[0] for turn in phrases(TURNS) if len(turn) == 1) | {"which", "since"}
"""One of these ends the reach of a denial and, after a comma, what is said of the set."""
DENYING = word_set("unrelated unlike none anything")
"""Beside the marks of denial, these deny what an answer sets apart: "unrelated to fat cells"."""
OF_MATTER = word_set("lack lacks lacking absence absent reject rejects rejected")
"""Words that deny a direction and may belong to a set: "a response to a lack of oxygen"."""
MOTION = word_set("go goes going gone went")
"""Verbs of a direction: "not going up"."""
REACH = 6
"""A denial reaches so many words, and so many after an "or": "nothing to do with blood or fat"."""
OR = word_set("or nor")
PAUSES = re.compile(r"[,;:()]| - ")
"""Between words, one of these ends the reach of a denial, except in a list with "or"."""


def said_words(reading: Reading, sentence: Sentence) -> list[str]:
    """Return the words of a sentence."""
    return reading.words[sentence.first : sentence.last + 1]


def undenied(reading: Reading, sentence: Sentence) -> list[str]:
    """Return the words of a sentence, "" for each that a denial reaches."""
    said = said_words(reading, sentence)
    for denial in _denials(reading, sentence):
        for place in _reach(reading, sentence, sentence.first + denial):
            said[place - sentence.first] = ""
    return said


def _denials(reading: Reading, sentence: Sentence) -> set[int]:
    """Return where in a sentence denials end, without those of a direction: "down, not up"."""
    said, first, end = reading.words, sentence.first, sentence.last + 1
    found = {place for place in range(first, end) if said[place] in DENYING}
    for mark in sentence.marks:
        if mark.kind == "not" and OF_MATTER.isdisjoint(said[mark.first : mark.last + 1]):
            found.add(mark.last)
    directions = [mark for mark in sentence.marks if mark.kind == "direction"]
    ends = {mark.first - first: mark.last - first for mark in directions}
    spoken = said_words(reading, sentence)
    return {place - first for place in found if not _is_of_direction(spoken, place - first, ends)}


def _is_of_direction(said: Sequence[str], denial: int, ends: dict[int, int]) -> bool:
    """Say whether a denial is of a direction that has no object: "not going up in the thymus"."""
    place = denial + 1
    while place < len(said) and place not in ends:
        word = said[place]
        if not (word in be_words() or word in MOTION or word.endswith("ly")):
            return False
        place += 1
    after = ends.get(place, len(said)) + 1
    return place in ends and (after == len(said) or said[after] in preposition_words())


def _reach(reading: Reading, sentence: Sentence, denial: int) -> Iterator[int]:
    """Yield the places that a denial reaches: up to a turn, or a pause that does not part a list."""
    said, gaps, end = reading.words, reading.gaps, sentence.last + 1
    place, until = denial + 1, denial + 1 + REACH
    while place < min(until, end):
        if place > denial + 1 and said[place] in ENDERS:
            return
        if PAUSES.search(gaps[place]) and OR.isdisjoint(said[place : place + REACH]):
            return
        if said[place] in OR:
            until = place + 1 + REACH
        yield place
        place += 1
