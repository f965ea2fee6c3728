"""An answer taken apart: words, known phrases (marks), sentences, and clauses within a sentence.

Offsets are token numbers; `Reading.span` turns them into character offsets of the original answer.
What the answer copies from the question, what it asks, what it takes back, and its stated confidence
assert nothing and are left out here, once, for every claim reader.

Every step is one pass over the text or over the words that are in the lexicon; what only some judges
need (offsets, statements) is made when first asked for.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate, compress
from operator import add
from typing import Any, TypeVar

from evals.confidence import Statement, statements
from evals.plain import Plain, plain
from evals.verifiers.cues import RETRACTS, TELLS, cues
from evals.verifiers.echo import ECHO_WORDS, Asked, asked_sentences, is_echo, quoted_copies
from evals.verifiers.marking import Mark, Sentence, Source
from evals.verifiers.retraction import without_retracted
from evals.verifiers.tokens import ABBREVIATIONS, is_wrap, kind_of, split, word_set

__all__ = ["Mark", "Reading", "Sentence", "is_heap", "n_loose", "read"]

Found = TypeVar("Found")

ASIDE = 24
"""So many characters around a stated confidence tell whether the sentence goes on after it."""
LONGEST_SENTENCE = 120
"""Words after which a sentence is cut, so that the time to read a text grows with its length only."""
TELLING = frozenset(("direction", "unchanged", "agreement", "level"))
"""Kinds of marks that assert something by themselves."""
PLACES = frozenset(("tissue", "mission"))
HEAP_WORDS = 4
HEAP_SHARE = 0.34
"""From so many telling words on, and such a share of all words, a text is a heap of keywords."""
AUXILIARIES = word_set("is are was were does do did has have had can could will would should")
"""A sentence that opens with one of these and then its subject asks."""
OPEN_ENDED = frozenset(("not", "denial", "condition", "supposition"))
"""What may govern all that follows in its sentence."""
QUESTION_WORDS = 4
FEW_WORDS = 300
"""In a page of so few words, a place is found faster by joining those before it."""
SAYING = frozenset(("direction", "unchanged", "agreement", "level", "not", "denial", "changed"))
"""Kinds of marks that, right after the auxiliary, make it an answer: "Is not up but down"."""


class Reading:
    """An answer as the claim readers see it. `gaps[i]` stands before word i."""

    __slots__ = ("_known", "confidences", "cues", "gaps", "page", "sentences", "words")

    def __init__(
        self, page: Plain, confidences: list[Statement], words: list[str], gaps: list[str]
    ) -> None:
        self.page = page
        self.confidences = confidences
        self.words = words
        self.gaps = gaps
        self.cues = 0
        self.sentences: list[Sentence] = []
        # Each function with what it returned; no type tells that the two belong together.
        self._known: dict[tuple[Callable[..., Any], tuple[str, ...]], Any] = {}

    @property
    def starts(self) -> list[int]:
        """Where each word starts in the page."""
        return self.once(_starts)

    def span(self, first: int, last: int) -> tuple[int, int]:
        """Return the character offsets in the answer of tokens first..last."""
        start, end = self.place(first, last)
        if len(self.page.breaks) == 1:
            return start, end
        return self.page.origin(start), self.page.origin(end - 1) + 1

    def place(self, first: int, last: int) -> tuple[int, int]:
        """Return the character offsets in the page of tokens first..last."""
        words, gaps = self.words, self.gaps
        if len(words) < FEW_WORDS:
            # A claim or two do not need where every word stands.
            start = len("".join(gaps[: first + 1])) + len("".join(words[:first]))
            within = "".join(words[first : last + 1]) + "".join(gaps[first + 1 : last + 1])
            return start, start + len(within)
        starts = self.starts
        return starts[first], starts[last] + len(words[last])

    def once(self, work: Callable[..., Found], *about: str) -> Found:
        """Return `work(self, *about)`, done once however many judges ask for it."""
        known, key = self._known, (work, about)
        if key not in known:
            known[key] = work(self, *about)
        return known[key]


def _starts(reading: Reading) -> list[int]:
    """Return where each word starts."""
    return list(accumulate(map(add, map(len, reading.gaps), map(len, ("", *reading.words)))))[:-1]


def read(answer: str, question: str = "") -> Reading:
    """Return `answer` taken apart, without its echo of `question`, its questions and confidence."""
    page = plain(answer)
    text = page.text
    confidences = statements(text)
    if confidences:
        text = _without(text, confidences).rstrip(" ")
    words, gaps = split(text)
    reading = Reading(page, confidences, words, gaps)
    asked = asked_sentences(question)
    copied = quoted_copies(words, gaps, asked.sentences) if '"' in text else frozenset()
    spoken = _spoken(Source(words, gaps, copied), asked, asked.is_within(text, words))
    reading.cues = _cue(spoken, words)
    if "|" in text:
        _tell_all(spoken)
    kept = [
        one
        for one in _without_dangling(spoken, len(words))
        if (one.n_telling < HEAP_WORDS and words[one.first] not in AUXILIARIES)
        or _asserts(words, one)
    ]
    reading.sentences = without_retracted(words, gaps, kept) if reading.cues & RETRACTS else kept
    return reading


def _spoken(source: Source, asked: Asked, is_copied: bool) -> list[Sentence]:
    """Return the sentences that neither ask nor copy what was asked; `is_copied` = one may do so."""
    words, gaps, _ = source
    spoken: list[Sentence] = []
    for sentence in _sentences(source):
        first, last = sentence.first, sentence.last
        if "?" in gaps[last + 1]:
            while spoken and spoken[-1].last + 1 == first and ";" in gaps[first]:
                first = spoken.pop().first
        elif (
            last - first < ECHO_WORDS - 1
            or not (is_copied or (words[first] in asked.words and words[last] in asked.words))
            or not is_echo(words[first : last + 1], asked.sentences)
        ):
            spoken.append(sentence)
    return spoken


def _cue(sentences: list[Sentence], words: list[str]) -> int:
    """Give each sentence its cues and count its telling words; return the cues of all words."""
    known = cues()
    end = len(words) - 1
    everything = 0
    rest = iter(sentences)
    sentence = next(rest, None)
    for place in list(compress(range(len(words)), map(known.__contains__, words))):
        bits, before, after = known[words[place]]
        if before and place < end:
            bits |= before.get(words[place + 1], 0)
        if after and place:
            bits |= after.get(words[place - 1], 0)
        if not bits:
            continue
        everything |= bits
        while sentence is not None and sentence.last < place:
            sentence = next(rest, None)
        if sentence is not None and sentence.first <= place:
            sentence.cues |= bits
            if bits & TELLS:
                sentence.n_telling += 1
    return everything


def _tell_all(sentences: list[Sentence]) -> None:
    """Count all words of a sentence as telling: in a table a column may tell."""
    for sentence in sentences:
        sentence.n_telling = len(sentence)
        sentence.cues |= TELLS


def _asserts(words: list[str], one: Sentence) -> bool:
    """Say whether a sentence is neither a heap of keywords nor a question; cheap tests come first."""
    n_telling = one.n_telling
    if n_telling >= HEAP_WORDS and n_telling >= HEAP_SHARE * len(one) and _is_heap(one):
        return False
    return not (words[one.first] in AUXILIARIES and _asks(words, one))


def _without_dangling(sentences: list[Sentence], n_words: int) -> list[Sentence]:
    """Return the sentences without what was cut off from a negation or condition that may govern it."""
    if n_words < LONGEST_SENTENCE:
        return sentences
    if max([one.last - one.first for one in sentences], default=0) < LONGEST_SENTENCE - 1:
        return sentences
    kept: list[Sentence] = []
    governed_until = -1
    for one in sentences:
        is_governed = one.first == governed_until
        if not is_governed:
            kept.append(one)
        if len(one) == LONGEST_SENTENCE and (is_governed or not one.kinds.isdisjoint(OPEN_ENDED)):
            governed_until = one.last + 1
    return kept


def is_heap(n_telling: int, n_words: int) -> bool:
    """Say whether so many telling words among all are a heap of keywords, not sentences."""
    return n_telling >= HEAP_WORDS and n_telling >= HEAP_SHARE * n_words


def _is_heap(sentence: Sentence) -> bool:
    marks = sentence.marks
    if len(marks) < HEAP_WORDS or (sentence.is_row and marks[0].kind not in TELLING):
        return False
    return is_heap(n_loose(sentence, [m for m in marks if m.kind in TELLING]), len(sentence))


def n_loose(sentence: Sentence, marks: Sequence[Mark]) -> int:
    """Return how many of the marks stand right beside no tissue or mission: "liver UP, eye DOWN" is 0."""
    if sentence.kinds.isdisjoint(PLACES):
        return len(marks)
    places = [mark for mark in sentence.marks if mark.kind in PLACES]
    beside = {token for mark in places for token in (mark.first - 1, mark.last, mark.last + 1)}
    return sum(mark.first not in beside and mark.last not in beside for mark in marks)


def _asks(words: list[str], sentence: Sentence) -> bool:
    """Say whether what opens with an auxiliary asks, without a mark: "Is adipogenesis reduced"."""
    first = sentence.first
    if len(sentence) < QUESTION_WORDS:
        return False
    second = words[first + 1]
    if second.endswith("ly") or not second[0].isalpha():
        return False
    return not any(
        mark.first <= first + 1 <= mark.last for mark in sentence.marks if mark.kind in SAYING
    )


def _without(text: str, confidences: list[Statement]) -> str:
    """Return the text with each stated confidence blanked out.

    It ends the sentence it stood in, unless the sentence goes on: "is not (confidence: 90%) reduced".
    """
    if len(confidences) == 1 and confidences[0].end == len(text):
        return text[: confidences[0].start] + "\n"
    pieces: list[str] = []
    done = 0
    for stated in confidences:
        rest = text[stated.end : stated.end + ASIDE].partition("\n")[0].strip(" .!)]")
        before = text[max(0, stated.start - ASIDE) : stated.start].rstrip(" (")
        is_aside = rest[:1].isalnum() and before[-1:].isalnum()
        pieces += (text[done : stated.start], " " if is_aside else "\n")
        pieces.append(" " * (stated.end - stated.start - 1))
        done = stated.end
    pieces.append(text[done:])
    return "".join(pieces)


def _sentences(source: Source) -> list[Sentence]:
    words, gaps, _ = source
    found: list[Sentence] = []
    n_words = len(words)
    first = 0
    starts = [0]
    for index in [index for index, gap in enumerate(gaps) if gap != " "]:
        kind = kind_of(gap := gaps[index])
        if not kind or not 0 < index < n_words:
            continue
        if kind == "clause":
            starts.append(index)
            continue
        word = words[index - 1]
        if (word in ABBREVIATIONS) if kind == "dot" else is_wrap(gap, word, words[index]):
            continue
        if index - first <= LONGEST_SENTENCE:
            found.append(Sentence(source, first, index - 1, starts))
        else:
            found += _cut(source, first, index - 1, starts)
        first = index
        starts = [index]
    if n_words:
        found += _cut(source, first, n_words - 1, starts)
    return found


def _cut(source: Source, first: int, last: int, starts: list[int]) -> list[Sentence]:
    """Return a sentence, in pieces of LONGEST_SENTENCE words if it is longer."""
    if last - first < LONGEST_SENTENCE:
        return [Sentence(source, first, last, starts)]
    pieces = []
    rest = iter([*starts, last + 1])
    start = next(rest)
    for begin in range(first, last + 1, LONGEST_SENTENCE):
        end = min(begin + LONGEST_SENTENCE - 1, last)
        inside = [begin]
        while start <= end:
            if start > begin:
                inside.append(start)
            start = next(rest)
        pieces.append(Sentence(source, begin, end, inside))
    return pieces
