"""The names that a question offers, and where an answer uses one of them.

"type A or B", "soleus or liver"     no name: what is offered is not asserted
"""

from dataclasses import dataclass
from functools import lru_cache

from evals.verifiers.names import words
from evals.verifiers.reading import Mark, Reading, Sentence, read

CLASSES = ("type", "class")
"""Words for the same thing: "type B" is "class B", and a bare "B" where it is the whole answer."""
LEADS = frozenset(("the", "answer", "is", "final", "my", "option", "response"))
"""What may stand before a bare letter."""


@dataclass(frozen=True)
class Names:
    """The names in play by their first word, longest first, and what kind of thing they are.

    `kinds` holds "tissue" or "factor" if the names are such: then these do not tell whose name it is.
    """

    by_word: dict[str, list[tuple[tuple[str, ...], bool]]]
    kinds: frozenset[str]


@lru_cache(maxsize=256)
def names_of(value: str, accept: tuple[str, ...], others: tuple[str, ...]) -> Names:
    """Return the names in play, as words."""
    table: dict[str, list[tuple[tuple[str, ...], bool]]] = {}
    for name, is_right in [*((n, True) for n in (value, *accept)), *((n, False) for n in others)]:
        phrase = words(name)
        for head in CLASSES if phrase[0] in CLASSES else phrase[:1]:
            table.setdefault(head, []).append(((head, *phrase[1:]), is_right))
    for listed in table.values():
        listed.sort(key=lambda entry: -len(entry[0]))
    kinds = {mark.kind for sentence in read(value).sentences for mark in sentence.marks}
    return Names(table, frozenset(kinds & {"tissue", "factor"}))


def without_alternatives(reading: Reading, events: list[Mark], names: Names) -> list[Mark]:
    """Drop the names of "type A or B", "soleus or liver", "more or less than additive"."""
    gone: set[int] = set()
    tails = {phrase[-1] for listed in names.by_word.values() for phrase, _ in listed}
    heads = names.by_word.keys()
    for place, event in enumerate(events):
        before = reading.words[max(0, event.first - 2) : event.first]
        after = reading.words[event.last + 1 : event.last + 3]
        if len(before) == 2 and before[1] == "or" and (before[0] in heads or before[0] in tails):
            gone |= (
                {place, place - 1}
                if place and events[place - 1].last == event.first - 2
                else {place}
            )
        if len(after) == 2 and after[0] == "or" and (after[1] in heads or after[1] in tails):
            gone.add(place)
    return [event for place, event in enumerate(events) if place not in gone]


def named(reading: Reading, sentence: Sentence, names: Names) -> list[Mark]:
    """Return the longest names at each place of a sentence."""
    found: list[Mark] = []
    if CLASSES[0] in names.by_word and LEADS.issuperset(
        reading.words[sentence.first : sentence.last]
    ):
        found += _letter(reading.words[sentence.last], sentence.last, names)
    token = sentence.first
    while token <= sentence.last:
        step = 1
        head = reading.words[token].removesuffix("'s")
        for phrase, is_right in names.by_word.get(head, ()):
            last = token + len(phrase) - 1
            if last <= sentence.last and (head, *reading.words[token + 1 : last + 1]) == phrase:
                form = "right" if is_right else "other"
                found.append(Mark("name", " ".join(phrase), form, token, last))
                step = len(phrase)
                break
        token += step
    return found


def _letter(word: str, token: int, names: Names) -> list[Mark]:
    """Return the class that a letter alone names."""
    listed = names.by_word.get(CLASSES[0], ())
    return [
        Mark("name", " ".join(phrase), "right" if is_right else "other", token, token)
        for phrase, is_right in listed
        if phrase == (CLASSES[0], word)
    ]
