"""An answer taken apart: words, known phrases (marks), sentences, and clauses within a sentence.

Offsets are token numbers; `Reading.span` turns them into character offsets of the original answer.
What the answer copies from the question, what it asks, and its stated confidence assert nothing and
are left out here, once, for every claim reader.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import NamedTuple

from evals.confidence import Statement, statements
from evals.plain import Plain, plain
from evals.verifiers.lexicon import Tag, entries
from evals.verifiers.names import pathway_phrases

TOKEN = re.compile(r"[0-9]+(?:[.,][0-9]+)*[^\W_]*|[^\W_]+(?:'[a-z]+)?")
WORD = re.compile(r"[^\W_]+")
JOINERS = frozenset(("", " ", "-", " -", "- ", "/", " / ", " ("))
INSIDE = frozenset(("", " ", "-", ", ", " (", ") ", "), "))
END = re.compile(r"[.!?](?=[\s\"')\]])|[\n;]")
CLAUSE = re.compile(r"[,:()\[\]|]| -+ ")
ABBREVIATIONS = frozenset(("vs", "e", "g", "i", "approx", "fig", "ca", "cf", "al"))
LONGEST_SENTENCE = 120
"""Words after which a sentence is cut, so that the time to read a text grows with its length only."""
TELLING = frozenset(("direction", "unchanged", "agreement", "level"))
"""Kinds of marks that assert something by themselves."""
HEAP_WORDS = 4
HEAP_SHARE = 0.34
"""From so many telling words on, and such a share of all words, a text is a heap of keywords."""
ECHO_WORDS = 4
"""A copied sentence is an echo from this many words on; shorter ones occur by chance."""
ECHO_SHARE = 0.8
"""A part of a question sentence is an echo of it if it is at least so much of its length."""
ECHO_ADDED = 5
"""So many words around a copied sentence ("The statement is that …") leave it an echo."""
REPLIES = frozenset(("yes", "no"))
"""With one of these before it, a copied sentence is affirmed or denied: no echo but an answer."""


class Mark(NamedTuple):
    """A known phrase at tokens first..last."""

    kind: str
    value: str
    form: str
    first: int
    last: int


@dataclass(slots=True)
class Node:
    """Where a phrase may go on: its tag if it may end here, and the words that may follow."""

    tag: Tag | None = None
    following: "dict[str, Node]" = field(default_factory=dict)


@dataclass(slots=True)
class Sentence:
    """Tokens first..last with their marks; `starts` are the tokens at which a clause begins."""

    first: int
    last: int
    marks: list[Mark] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Reading:
    """An answer as the claim readers see it. `gaps[i]` stands before word i."""

    page: Plain
    words: list[str]
    starts: list[int]
    ends: list[int]
    gaps: list[str]
    sentences: list[Sentence]
    confidences: list[Statement]

    def span(self, first: int, last: int) -> tuple[int, int]:
        """Return the character offsets in the answer of tokens first..last."""
        return self.page.origin(self.starts[first]), self.page.origin(self.ends[last] - 1) + 1


def read(answer: str, question: str = "") -> Reading:
    """Return `answer` taken apart, without its echo of `question`, its questions and confidence."""
    page = plain(answer)
    confidences = statements(page.text)
    text = _without(page.text, confidences)
    words, starts, ends, gaps = [], [], [], []
    done = 0
    for token in TOKEN.finditer(text):
        start, end = token.span()
        words.append(token.group())
        starts.append(start)
        ends.append(end)
        gaps.append(text[done:start])
        done = end
    gaps.append(text[done:])
    asked = question_sentences(question)
    sentences = [
        sentence
        for sentence in _sentences(words, gaps)
        if "?" not in gaps[sentence.last + 1]
        and not is_echo(words[sentence.first : sentence.last + 1], asked)
    ]
    lexicon = phrase_tree()
    for sentence in sentences:
        sentence.marks = _marks(words, gaps, sentence, lexicon)
        sentence.starts = _clauses(gaps, sentence)
    spoken = [sentence for sentence in sentences if not _is_heap(sentence)]
    return Reading(page, words, starts, ends, gaps, spoken, confidences)


def is_heap(n_telling: int, n_words: int) -> bool:
    """Say whether so many telling words among all are a heap of keywords, not sentences."""
    return n_telling >= HEAP_WORDS and n_telling >= HEAP_SHARE * n_words


def _is_heap(sentence: Sentence) -> bool:
    telling = sum(mark.kind in TELLING for mark in sentence.marks)
    return is_heap(telling, sentence.last - sentence.first + 1)


def _without(text: str, confidences: list[Statement]) -> str:
    """Return the text with each stated confidence blanked out; it ends the sentence it stood in."""
    pieces: list[str] = []
    done = 0
    for stated in confidences:
        pieces += (text[done : stated.start], "\n", " " * (stated.end - stated.start - 1))
        done = stated.end
    pieces.append(text[done:])
    return "".join(pieces)


@lru_cache(maxsize=256)
def question_sentences(question: str) -> tuple[tuple[str, ...], ...]:
    """Return the sentences of a question as words, to recognise them when they come back."""
    text = plain(question).text
    parts = [tuple(WORD.findall(part)) for part in END.split(text)]
    return tuple(part for part in parts if part)


def is_echo(words: Sequence[str], asked: Iterable[Sequence[str]]) -> bool:
    """Say whether a sentence is a copy of a sentence of the question, whole, cut or led in.

    "Answer: is it up or down" and "The statement is that is it up or down" still only repeat it.
    """
    said = WORD.findall(" ".join(words))
    if len(said) < ECHO_WORDS:
        return False
    return any(_is_cut(said, sentence) or _is_led_in(said, sentence) for sentence in asked)


def _is_cut(said: Sequence[str], asked: Sequence[str]) -> bool:
    copy, whole = " ".join(said), " ".join(asked)
    return copy in whole and len(copy) >= ECHO_SHARE * len(whole)


def _is_led_in(said: Sequence[str], asked: Sequence[str]) -> bool:
    if len(asked) < ECHO_WORDS or said[0] in REPLIES or len(said) > len(asked) + ECHO_ADDED:
        return False
    return f" {' '.join(asked)} " in f" {' '.join(said)} "


def _sentences(words: list[str], gaps: list[str]) -> list[Sentence]:
    found: list[Sentence] = []
    first = 0
    for index in range(1, len(words) + 1):
        gap = gaps[index]
        is_end = gap not in INSIDE and _ends(gap, words[index - 1])
        if is_end or index == len(words) or index - first >= LONGEST_SENTENCE:
            found.append(Sentence(first, index - 1))
            first = index
    return found


def _ends(gap: str, word: str) -> bool:
    if END.search(gap) is None:
        return False
    return not (gap.strip() == "." and word in ABBREVIATIONS)


def _marks(words: list[str], gaps: list[str], sentence: Sentence, root: Node) -> list[Mark]:
    """Return the longest known phrases of a sentence, left to right."""
    marks: list[Mark] = []
    index, last = sentence.first, sentence.last
    while index <= last:
        node = root.following.get(words[index])
        if node is None:
            index += 1
            continue
        tag, end, ahead = node.tag, index, index + 1
        while ahead <= last and node.following and gaps[ahead] in JOINERS:
            node = node.following.get(words[ahead])
            if node is None:
                break
            if node.tag is not None:
                tag, end = node.tag, ahead
            ahead += 1
        if tag is not None:
            marks.append(Mark(tag.kind, tag.value, tag.form, index, end))
        index = end + 1
    return marks


def _clauses(gaps: list[str], sentence: Sentence) -> list[int]:
    """Return the tokens at which a clause begins: after punctuation, and at words like "but"."""
    starts = {sentence.first}
    for index in range(sentence.first + 1, sentence.last + 1):
        gap = gaps[index]
        if gap != " " and gap and CLAUSE.search(gap):
            starts.add(index)
    starts.update(mark.first for mark in sentence.marks if mark.kind == "break")
    return sorted(starts)


@cache
def phrase_tree() -> Node:
    """Return all known phrases as a tree of words."""
    root = Node()
    named = [(phrase, Tag("pathway", pathway)) for phrase, pathway in pathway_phrases()]
    for phrase, tag in (*entries(), *named):
        node = root
        for word in phrase:
            node = node.following.setdefault(word, Node())
        node.tag = tag
    return root
