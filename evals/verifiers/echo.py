"""Which words of an answer only repeat the question.

question "Is X up or down in thymus?"
    "Is X up or down in thymus."                               repeats it
    "You asked me to look into this: is X up or down in thymus" repeats it behind a lead-in
    'The words "X up or down in thymus" are yours.'             repeats it in quotation marks
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from evals.plain import plain
from evals.verifiers.tokens import is_end, split, word_set

ECHO_WORDS = 4
"""A copied sentence is an echo from this many words on; shorter ones occur by chance."""
ECHO_SHARE = 0.8
"""A part of a question sentence is an echo of it if it is at least so much of its length."""
ECHO_ADDED = 5
"""So many words around a copied sentence ("The statement is that …") leave it an echo."""
QUOTED_WORDS = 3
"""A quotation of so many words of the question in a row is its echo."""
RAREST = 5
"""So many of the longest words of a sentence are looked for before the sentence itself."""
REPLIES = frozenset(("yes", "no"))
"""With one of these before it, a copied sentence is affirmed or denied: no echo but an answer."""
DENIALS = word_set(
    "not no never false untrue wrong incorrect isn't wasn't doesn't cannot nothing none hardly"
)
"""With one of these before it, a copied sentence is denied."""
REPORTS = word_set(
    "ask asks asked asking question questions prompt statement statements sentence states stated state told tell says"
    " said say read reads reading wrote written write given quote quotes quoted repeat repeats repeated consider claim"
    " claims put task request query user you your words text premise"
)
"""Words of a lead-in that hands on what somebody else said."""


class Asked(NamedTuple):
    """The sentences of a question as words with a blank around each, and all words of them.

    `rarest` are, for each sentence, a few words that few answers hold all of.
    """

    sentences: tuple[str, ...]
    words: frozenset[str]
    rarest: tuple[tuple[str, ...], ...]

    def is_within(self, text: str, words: Sequence[str]) -> bool:
        """Say whether an answer, given as its text and its words, holds a whole sentence of the question."""
        for rarest in self.rarest:
            if all(map(text.__contains__, rarest)):
                said = f" {' '.join(words)} "
                return any(whole in said for whole in self.sentences)
        return False


@lru_cache(maxsize=256)
def asked_sentences(question: str) -> Asked:
    """Return the sentences of a question, to recognise them."""
    words, gaps = split(plain(question).text)
    found: list[str] = []
    first = 0
    for index in range(1, len(words) + 1):
        if index == len(words) or is_end(gaps[index], words[index - 1]):
            found.append(f" {' '.join(words[first:index])} ")
            first = index
    rarest = [tuple(sorted(whole.split(), key=len)[-RAREST:]) for whole in found]
    return Asked(tuple(found), frozenset(words), tuple(rarest))


def is_echo(words: Sequence[str], asked: Sequence[str]) -> bool:
    """Say whether a sentence is a copy of a sentence of the question, whole, cut or led in."""
    if len(words) < ECHO_WORDS:
        return False
    said = f" {' '.join(words)} "
    for whole in asked:
        if len(said) > len(whole):
            if whole in said and _is_led_in(said, whole):
                return True
        elif said in whole and len(said) >= ECHO_SHARE * len(whole):
            return True
    return False


def _is_led_in(said: str, whole: str) -> bool:
    before, _, after = said.partition(whole)
    if whole.count(" ") <= ECHO_WORDS:
        return False
    lead, rest = before.split(), after.split()
    if len(rest) > ECHO_ADDED or not DENIALS.isdisjoint(lead) or (lead and lead[0] in REPLIES):
        return False
    return len(lead) + len(rest) <= ECHO_ADDED or not REPORTS.isdisjoint(lead)


def quoted_copies(
    words: Sequence[str], gaps: Sequence[str], asked: Sequence[str]
) -> frozenset[int]:
    """Return the tokens within quotation marks that stand in the question in the same order."""
    copied: set[int] = set()
    opened: int | None = None
    for index, gap in enumerate(gaps):
        if '"' not in gap:
            continue
        if opened is not None and index - opened >= QUOTED_WORDS:
            said = f" {' '.join(words[opened:index])} "
            if any(said in whole for whole in asked):
                copied.update(range(opened, index))
        opened = index if opened is None or gap.count('"') > 1 else None
    return frozenset(copied)
