"""Part an answer into sentences and say of each option that it names whether it is asserted, denied or left open.

    "It is not up, it is down."                  ->  up denied, down asserted
    "Some say that it is down; they are wrong."  ->  down left open
    "It is down. That is false."                 ->  down left open: the second sentence takes back the first

Questions, suppositions, reports of what others say and what is taken back assert nothing.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from evals.plain import Plain, plain
from evals.verifiers.expected import LEVELS
from evals.verifiers.line import QUOTED, without_thought
from evals.verifiers.text.lexicon import DOWN, TOKEN, UP, Lexicon, Mark, Table, tokens

END = re.compile(r"[.!?]+[\"')\]]*(?=\s|$)|;|\n+")
SOFT_BREAK = re.compile(r"(?<=[a-z,])\n(?=[a-z])")
ASKS = frozenset("is are was were does do did can could would should has have which what who how why when where tell".split())
"""A sentence that begins with one of these, and has a subject behind it, is a question even without its mark."""
PARTS = frozenset((",", ":", "(", ")", "-", "--", '"', "|", "=", "and", "which", "because", "since", "as", "who", "than", "[", "]", "..."))
"""Words and marks that end a clause."""
BACK = frozenset(
    "this that which it the a claim idea statement sentence finding view all of these those is was and answer so , no in but data missions mission every"
    " authors however actually none whole above said here both on reflection - i am others since has not truth reality do does should be".split()
)
"""A clause of only such words points back to what was said before."""
LIST = re.compile(r"\s*(?:[-*•]|\d+[.)])\s")
State = Literal["asserted", "denied", "open"]


class Said(NamedTuple):
    """An option that a sentence names: the mark, and whether it is asserted."""

    mark: Mark
    state: State


@dataclass(slots=True)
class Sentence:
    """A sentence in plain text: its words, the marks among them, and where it begins in the text."""

    text: str
    start: int
    end: str
    words: list[str]
    marks: list[Mark] = field(default_factory=list)
    said: list[Said] = field(default_factory=list)


def page_of(text: str) -> Plain:
    """Return the answer as plain text, without thought blocks and quoted lines; offsets lead back to the text."""
    text = without_thought(text)
    if "\n" in text:
        if ">" in text:
            text = QUOTED.sub(lambda quoted: " " * len(quoted[0]), text)
        text = SOFT_BREAK.sub(" ", text)
    page = plain(text)
    if "i.e." in page.text or "e.g." in page.text or "vs." in page.text or "al." in page.text:
        shown = page.text.replace("i.e. ", "i.e, ").replace("e.g. ", "e.g, ").replace("vs. ", "vs  ").replace("et al. ", "et al  ")
        page = page._replace(text=shown)
    return page


def parts_of(page: str) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and closing mark of every sentence."""
    start = 0
    for end in END.finditer(page):
        if end.start() > start:
            yield start, end.start(), end[0][0]
        start = end.end()
    if start < len(page):
        yield start, len(page), ""


def marks_in(words: list[str], table: Table) -> list[Mark]:
    """Return the phrases of a table among words, from left to right, the longest where several begin."""
    found: list[Mark] = []
    n = len(words)
    i = 0
    get = table.get
    while i < n:
        rows = get(words[i])
        if rows is not None:
            for tail, tag, value in rows:
                end = i + 1 + len(tail)
                if not tail or words[i + 1 : end] == tail or ("_" in tail and end <= n and _fits(words, i + 1, tail)):
                    found.append(Mark(tag, value, i, end))
                    i = end - 1
                    break
        i += 1
    return found


def _fits(words: list[str], at: int, tail: list[str]) -> bool:
    return all(place in ("_", words[at + step]) for step, place in enumerate(tail))


def weigh(sentence: Sentence) -> None:
    """Fill in what a sentence says of each option that it names."""
    words = sentence.words
    said: list[Said] = []
    denials = rejects = since = first = previous = 0
    is_open = is_supposed = is_undone = keeps = scope_ended = False
    for mark in sentence.marks:
        for at in range(previous, mark.i):
            word = words[at]
            if word in ENDS_DENIAL:
                keeps = keeps or (at == previous and scope_ended)
                if not keeps:
                    denials, is_undone = 0, False
                if word == ":" and len(said) > since:
                    rejects, is_open, since = 0, False, len(said)
            elif word == "and" and words[at + 1] in GOES_ON:
                denials, is_undone = 0, False
        previous = mark.j
        tag = mark.tag
        scope_ended = tag in ("deny", "reject", "open")
        if tag == "option":
            if is_supposed or is_open or is_undone:
                state: State = "open"
            else:
                state = "denied" if (denials + rejects) % 2 else "asserted"
            if said and words[mark.i - 1] == "or" and said[-1].mark.value != mark.value:
                said[-1] = said[-1]._replace(state="open")
                state = "open"
            said.append(Said(mark, state))
        elif tag == "deny":
            if mark.i or words[mark.j] not in (",", ":") or words[0] != "no":
                denials += 1
        elif tag == "reject":
            rejects, since = rejects + 1, len(said)
        elif tag == "open":
            is_open, since = True, len(said)
        elif tag == "undo":
            is_undone = True
        elif tag == "suppose":
            is_supposed = True
            said[first:] = [each._replace(state="open") for each in said[first:]]
        elif tag == "break":
            denials = rejects = 0
            is_open = is_supposed = is_undone = keeps = False
            first = len(said)
        elif tag == "confirm":
            said[first:] = [each._replace(state="asserted") for each in said[first:]]
        elif tag == "void" and not _take_back(sentence, said, mark):
            if words[mark.j : mark.j + 1] == ["that"]:
                is_open, since = True, len(said)
            else:
                is_undone = True
    sentence.said = said


ENDS_DENIAL = frozenset((",", "(", ":", "-", "...", ")"))
GOES_ON = frozenset(("it", "this", "that", "the", "is", "all"))


def _take_back(sentence: Sentence, said: list[Said], mark: Mark) -> bool:
    """Leave open what a phrase such as "is false" is said of: its own clause, or all before it where it points back."""
    words = sentence.words
    at = mark.i
    if words[at] not in PARTS:
        while at > 0 and words[at - 1] not in PARTS:
            at -= 1
    inside = [k for k, each in enumerate(said) if each.mark.i >= at]
    if not inside and points_back(words[at : mark.i]):
        inside = list(range(len(said)))
    for k in inside:
        said[k] = said[k]._replace(state="open")
    return bool(inside)


def points_back(words: list[str]) -> bool:
    """Say whether words only point to what was said before: "this", "and the claim"."""
    return all(word in BACK for word in words)


def takes_back(sentence: Sentence) -> bool:
    """Say whether a sentence that names no option takes back the one before: "That is false.", "Just kidding."."""
    words = sentence.words
    for mark in sentence.marks:
        if mark.tag == "fine":
            return False
        if (mark.tag == "void" or (mark.tag == "suppose" and words[0] == "or")) and points_back(words[: mark.i]):
            return True
    return words[0] in SHORT and all(word in BACK or word in SHORT for word in words)


SHORT = frozenset("no not wrong false incorrect untrue nonsense nope nah isn't wait quite at all it".split())


def is_question(sentence: Sentence) -> bool:
    """Say whether a sentence asks."""
    if sentence.end == "?":
        return True
    return bool(sentence.words) and sentence.words[0] in ASKS and len(sentence.words) > 3 and sentence.words[0] not in ("can", "when", "where")


def read_sentences(page: str, lexicon: Lexicon, question: str) -> Iterator[Sentence]:
    """Yield the sentences of a page that could matter, marked and weighed; questions assert nothing."""
    header = False
    asked = question.casefold()
    for start, stop, end in parts_of(page):
        text = page[start:stop]
        words = tokens(text)
        if not words:
            header = header and end == "\n"
            continue
        if lexicon.keys.isdisjoint(words) or "confidence" in words[:2]:
            continue
        words.append("?" if end == "?" else ".")
        sentence = Sentence(text, start, end, words, marks_in(words, lexicon.table))
        if "nes" in words and lexicon.has_directions:
            _add_value(sentence, NES, _direction)
        elif lexicon.has_levels and ("r" in words or "correlation" in words):
            _add_value(sentence, CORRELATION, _level)
        finish(sentence, asked)
        if header and LIST.match(text):
            sentence.said = [each._replace(state="open") for each in sentence.said]
        else:
            header = words[-2] == ":" and any(mark.tag in ("reject", "open", "deny", "suppose") for mark in sentence.marks)
        yield sentence


NES = re.compile(r"\bnes\b[^.\d+-]{0,25}?([-+]?)\s?(\d+(?:\.\d+)?)")
CORRELATION = re.compile(r"\b(?:r|correlation)\b[^.\d+-]{0,40}?([-+]?)\s?(0?\.\d+)")


def _direction(value: float) -> str:
    return f"{UP if value > 0 else DOWN}|nes"


def _level(value: float) -> str:
    return LEVELS[0 if value > 0.5 else 1 if value > 0.2 else 2]


def _add_value(sentence: Sentence, pattern: re.Pattern[str], read: Callable[[float], str]) -> None:
    """Mark enrichment scores and correlations as the direction or level that they stand for."""
    places = {found.start(): at for at, found in enumerate(TOKEN.finditer(sentence.text))}
    for found in pattern.finditer(sentence.text):
        at = places.get(found.start(2))
        if at is not None and float(found[2]):
            sentence.marks = [mark for mark in sentence.marks if not mark.i <= at < mark.j]
            sentence.marks.append(Mark("option", read(float(found[1] + found[2])), at, at + 1))
    sentence.marks.sort(key=lambda mark: mark.i)


def finish(sentence: Sentence, asked: str) -> None:
    """Weigh a sentence as an answer to what is asked."""
    if "would" in asked or "could" in asked:
        sentence.marks = [mark for mark in sentence.marks if sentence.words[mark.i] not in ("would", "could")]
    weigh(sentence)
    if is_question(sentence):
        sentence.said = []
        sentence.end = "?"


__all__ = ["Said", "Sentence", "is_question", "marks_in", "page_of", "read_sentences", "takes_back"]
