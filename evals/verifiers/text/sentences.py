"""Part an answer into sentences and say of each option that it names whether it is asserted, denied or left open.

    "It is not up, it is down."                  ->  up denied, down asserted
    "Some say that it is down; they are wrong."  ->  down left open
    "It is down. That is false."                 ->  down left open: the second sentence takes back the first

Questions, suppositions, reports of what others say and what is taken back assert nothing.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import islice, pairwise
from typing import Literal, NamedTuple

from evals.verifiers.expected import LEVELS, pattern
from evals.verifiers.line import QUOTED, blank, mark_answers, without_thought
from evals.verifiers.text.lexicon import DOWN, TOKEN, UP, Lexicon, Mark, marks_in, small_words, tokens, word_set
from evals.verifiers.text.lexicon import words as words_of
from evals.wording import Plain, plain

END = re.compile(r"[.!?;\n](?:(?<=[;\n])|[.!?]{0,2}[\"')\]]{0,3}(?=\s|$))")
LONGEST = 1000
"""Characters of a sentence that are read at once: without it time would not be linear in the length of a text."""
SOFT_BREAK = re.compile(r"\n(?<=[a-z,]\n)(?=[a-z])")
TABLE = re.compile(r"^[ \t]*\|.*\|[ \t]*$", re.MULTILINE)
"""A row of a table beside text that says what it shows."""
LIST = re.compile(r"\s*(?:[-*•]|\d+[.)])\s")
State = Literal["asserted", "denied", "open"]
NES = re.compile(r"\bnes\b[^.\d+-]{0,25}?([-+]?)\s?(\d+(?:\.\d+)?)")
CORRELATION = re.compile(r"\b(?:r|correlation)\b[^.\d+-]{0,40}?([-+]?)\s?(0?\.\d+)")


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
    marks: list[Mark]
    said: list[Said] = field(default_factory=list)
    _covered: set[int] | None = None

    @property
    def covered(self) -> set[int]:
        """Places of the words that belong to a mark."""
        if self._covered is None:
            self._covered = {at for mark in self.marks for at in range(mark.i, mark.j)}
        return self._covered

    def clause(self, i: int, j: int) -> tuple[int, int]:
        """Return where the clause around the words `i` to `j` begins and ends."""
        stops = small_words("stops")
        while i > 0 and self.words[i - 1] not in stops:
            i -= 1
        while j < len(self.words) and self.words[j] not in stops:
            j += 1
        return i, j

    def span(self, i: int, j: int) -> tuple[int, int]:
        """Return where in the page the words `i` to `j` stand."""
        places = [found.span() for found in islice(TOKEN.finditer(self.text), j)]
        return self.start + places[i][0], self.start + places[-1][1]


@lru_cache(maxsize=4)
def plain_text(text: str) -> Plain:
    """Return plain text, kept for whoever reads the same answer next: first its claims, then its confidence."""
    return plain(text)


def page_of(text: str) -> Plain:
    """Return the answer as plain text, without thought blocks and quoted lines; offsets lead back to the text."""
    text = mark_answers(without_thought(text))
    text = pattern("all_but").sub(lambda found: f"{found[0][:-3]}nor", text)
    if "\n" in text:
        if "|" in text and (rest := blank(TABLE, text)).strip(" \n|"):
            text = rest
        if ">" in text:
            text = blank(QUOTED, text)
        text = SOFT_BREAK.sub(" ", text)
    page = plain_text(text)
    for short, shown in words_of("clauses")["abbreviations"].items():
        if short in page.text:
            page = page._replace(text=page.text.replace(short, shown))
    return page


def parts_of(page: str) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and closing mark of every sentence; the number of a list stays with its item."""
    start = 0
    for end in END.finditer(page):
        stop = end.start()
        if end[0][0] == "." and stop - start < 4 and page[start:stop].strip().isdigit():
            continue
        yield from _pieces(page, start, stop, end[0][0])
        start = end.end()
    yield from _pieces(page, start, len(page), "")


def _pieces(page: str, start: int, stop: int, end: str) -> Iterator[tuple[int, int, str]]:
    while stop - start > LONGEST:
        cut = page.rfind(" ", start + 1, start + LONGEST)
        cut = cut if cut > 0 else start + LONGEST
        yield start, cut, ""
        start = cut
    if stop > start:
        yield start, stop, end


def sentence_of(text: str, start: int, end: str, words: list[str], lexicon: Lexicon) -> Sentence:
    """Return a sentence with its marks; a last word "." or "?" closes it."""
    words.append("?" if end == "?" else ".")
    return Sentence(text, start, end, words, marks_in(words, lexicon.table))


def weigh(sentence: Sentence) -> None:
    """Fill in what a sentence says of each option that it names."""
    words = sentence.words
    said: list[Said] = []
    ends_denial, goes_on = small_words("ends_denial"), small_words("goes_on")
    denials = rejects = since = first = previous = 0
    is_open = is_supposed = is_undone = keeps = scope_ended = is_instead = False
    for mark in sentence.marks:
        for at in range(previous, mark.i):
            word = words[at]
            if word in ends_denial:
                keeps = keeps or (at == previous and scope_ended)
                if not keeps:
                    denials, is_undone = 0, False
                if word == ":" and len(said) > since:
                    rejects, is_open, since = 0, False, len(said)
            elif word == "and" and words[at + 1] in goes_on:
                denials, is_undone = 0, False
            elif is_instead and word in ("it", "they", "there"):
                denials, is_instead = 0, False
        previous = mark.j
        tag = mark.tag
        scope_ended = tag in ("deny", "reject", "open")
        if tag == "option":
            if is_supposed or is_open or is_undone:
                state: State = "open"
            else:
                state = "denied" if (denials + rejects) % 2 else "asserted"
            if said and _is_either(words, said[-1].mark, mark):
                said[-1] = said[-1]._replace(state="open")
                state = "open"
            said.append(Said(mark, state))
        elif tag == "deny":
            is_instead = is_instead or (
                words[mark.j - 1] in ("of", "than") and words[mark.i] in ("instead", "rather", "in")
            )
            is_again = words[mark.i - 1] in ("and", "or", "nor") and said and said[-1].state == "denied"
            if not is_again and (mark.i or words[mark.j] not in (",", ":") or words[0] != "no"):
                denials += 1
        elif tag == "reject":
            rejects, since = rejects + 1, len(said)
        elif tag == "open" and words[mark.j : mark.j + 1] == ["."]:
            _take_back(sentence, said, mark)
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


def _is_either(words: list[str], one: Mark, other: Mark) -> bool:
    """Say whether two options are offered as alternatives: "down or up", "at baseline or once both act"."""
    return "or" in words[one.j : other.i] and one.value.partition("|")[0] != other.value.partition("|")[0]


def _take_back(sentence: Sentence, said: list[Said], mark: Mark) -> bool:
    """Leave open what a phrase such as "is false" is said of: its own clause, or all before it where it points back."""
    words = sentence.words
    at = mark.i
    parts = small_words("parts")
    if words[at] not in parts:
        while at > 0 and words[at - 1] not in parts:
            at -= 1
    inside = [k for k, each in enumerate(said) if each.mark.i >= at]
    listed = small_words("listed") if words[mark.i] not in ("is", "was", "has") else ()
    while inside and inside[0] and {*words[said[inside[0] - 1].mark.j : said[inside[0]].mark.i]} <= {*listed}:
        inside.insert(0, inside[0] - 1)  # "glipizide, insulin and acarbose are out"
    if not inside and points_back(words[at : mark.i]):
        inside = list(range(len(said)))
    for k in inside:
        said[k] = said[k]._replace(state="open")
    return bool(inside)


def points_back(words: list[str]) -> bool:
    """Say whether words only point to what was said before: "this", "and the claim"."""
    return small_words("back").issuperset(words)


def takes_back(sentence: Sentence) -> bool:
    """Say whether a sentence that names no option takes back the one before: "That is false.", "Just kidding."."""
    words = sentence.words
    for mark in sentence.marks:
        if mark.tag == "fine":
            return False
        if (mark.tag == "void" or (mark.tag == "suppose" and words[0] == "or")) and points_back(words[: mark.i]):
            return True
    short = small_words("short")
    return words[0] in short and (short | small_words("back")).issuperset(words)


def read_sentences(page: str, lexicon: Lexicon, question: str) -> Iterator[Sentence]:
    """Yield the sentences of a page, marked and weighed; questions assert nothing."""
    header = False
    echo = question[question.rfind(". ") + 1 :].strip(" ?.").casefold()
    for start, stop, end in parts_of(page):
        text = page[start:stop]
        words = tokens(text)
        if not words:
            header = header and end == "\n"
            continue
        if "confidence" in words[:2]:
            continue
        sentence = sentence_of(text, start, end, words, lexicon)
        if "nes" in words and lexicon.has_directions:
            _add_value(sentence, is_score=True)
        elif lexicon.has_levels and ("r" in words or "correlation" in words):
            _add_value(sentence, is_score=False)
        finish(sentence, question)
        if header and LIST.match(text):
            sentence.said = [each._replace(state="open") for each in sentence.said]
        else:
            header = words[-2] == ":" and any(
                mark.tag in ("reject", "open", "deny", "suppose") for mark in sentence.marks
            )
        if echo and echo in text:
            sentence.said, sentence.marks = [], []
        yield sentence


def _add_value(sentence: Sentence, is_score: bool) -> None:
    """Mark enrichment scores and correlations as the direction or level that they stand for."""
    places = {found.start(): at for at, found in enumerate(TOKEN.finditer(sentence.text))}
    for found in (NES if is_score else CORRELATION).finditer(sentence.text):
        at = places.get(found.start(2))
        value = float(found[1] + found[2])
        if at is None or not value:
            continue
        way = f"{UP if value > 0 else DOWN}|nes"
        level = LEVELS[0 if value > 0.5 else 1 if value > 0.2 else 2]
        marks = [mark for mark in sentence.marks if not mark.i <= at < mark.j]
        marks.append(Mark("option", way if is_score else level, at, at + 1))
        sentence.marks = sorted(marks, key=lambda mark: mark.i)


def finish(sentence: Sentence, question: str) -> None:
    """Weigh a sentence; a question asserts nothing. Where the question supposes, "would" leaves nothing open."""
    asked = tokens(question.casefold())
    sentence.marks = [
        each
        for each in sentence.marks
        if (each.tag != "open" or each.j > each.i + 1 or sentence.words[each.i] not in asked)
        and ((each.tag, each.value) != ("void", "except") or sentence.words[each.j - 1] not in asked)
    ]
    if sentence.end == "?" or (sentence.words[0] in small_words("asks") and len(sentence.words) > 3):
        sentence.end = "?"
    elif any(mark.tag == "option" for mark in sentence.marks):
        weigh(sentence)


# ---- what a sentence is about --------------------------------------------------------------------


@cache
def _words_without_subject() -> frozenset[str]:
    subjects = words_of("subjects")
    return frozenset(word for key in ("heads", "pronouns", "function") for word in subjects[key].split())


def is_known(word: str) -> bool:
    """Say whether a word names nothing that a claim could be about instead."""
    return word in _words_without_subject() or (word.endswith("ly") and len(word) > 4) or not word[0].isalpha()


def _is_stranger(sentence: Sentence, at: int, familiar: frozenset[str] = frozenset()) -> bool:
    word = sentence.words[at]
    return not (at in sentence.covered or word in familiar or is_known(word))


def is_own(sentence: Sentence, mark: Mark, topic: bool, familiar: frozenset[str]) -> bool:
    """Say whether the direction at a mark is said of the gene set of the question.

    `topic` says whether the gene set was what the text last named; `familiar` are words that are no other subject.
    """
    words, marks = sentence.words, sentence.marks
    kind = mark.value.partition("|")[2]
    start, end = sentence.clause(mark.i, mark.j)
    left = [m for m in marks if start <= m.i < mark.i]
    right = [m for m in marks if mark.j <= m.i < end]
    if kind == "way" and not _is_way(words, mark, start, marks):
        return False
    if kind != "way" and _has_object(sentence, mark, kind, left, right, familiar):
        return False
    names = [m for m in left if m.tag in ("own", "other")]
    if names:
        return names[-1].tag == "own" and _is_head(sentence, names[-1], mark, start)
    after = next((m for m in right if m.tag in ("own", "other")), None)
    leads = after is not None and all(map(is_known, words[mark.j : after.i]))
    if after is not None and after.tag == "own" and (kind == "does" or leads):
        return _is_head(sentence, after, mark, mark.j)
    if leads or _is_about_tissue(words, left, mark):
        return False
    unknown = [at for at in range(start, mark.i) if _is_stranger(sentence, at, familiar)]
    if unknown:
        refs = ("it", "its", "pathway", "set", "expression")
        return topic and any(word in refs for word in words[unknown[-1] : mark.i])
    is_labelled = start == mark.i > 1 and words[start - 1] == ":"
    if is_labelled and not any(m.tag in ("own", "fine") for m in marks):
        is_labelled = any(_is_stranger(sentence, at) for at in range(max(0, start - 6), start - 1))
        if is_labelled:
            return False
    earlier = next((m for m in reversed(marks) if m.tag in ("own", "other") and m.j <= start), None)
    if earlier is None:
        return topic
    is_left_out = any(m.tag in ("deny", "reject") and m.j == earlier.i for m in marks)
    return earlier.tag == "own" and not is_left_out and _is_head(sentence, earlier, mark, 0)


def _is_about_tissue(words: list[str], left: list[Mark], mark: Mark) -> bool:
    """Say whether a tissue itself rises or falls: "the thymus is lower"; "liver up" is no such sentence."""
    place = next((m for m in left if m.tag == "place"), None)
    if place is None or place.j == mark.i:
        return False
    at = place.i - 1
    while at >= 0 and words[at] in ("the", "mouse", "spaceflown", "murine"):
        at -= 1
    return at < 0 or words[at] in small_words("stops")


def _is_way(words: list[str], mark: Mark, start: int, marks: list[Mark]) -> bool:
    """Say whether "up" or "down" is a direction, not a part of "boils down to" or "up to 2 times"."""
    rules = words_of("directions")["words"]
    following, before = words[mark.j], words[mark.i - 1]
    if following in rules["not_before"] or following[0].isdigit():
        return False
    if mark.i == start or before in rules["moves"] or before.endswith("ly"):
        return True
    behind = next((m for m in marks if m.j == mark.i), None)
    is_telegram = behind is not None and (behind.tag != "place" or words[behind.i - 1] != "the")  # "liver up"
    return is_telegram and behind.tag in ("own", "place", "deny", "fine", "reject")


def _has_object(
    sentence: Sentence, mark: Mark, kind: str, left: list[Mark], right: list[Mark], familiar: frozenset[str]
) -> bool:
    """Say whether something else stands behind the word: "reduced stress", "a rise in fat", "suppresses inflammation"."""
    words, at = sentence.words, mark.j
    if words[at] == "to":
        return kind == "said"
    heads = word_set("subjects", "heads")
    if not any(m.tag == "own" for m in (*left, *right)):
        if words[at] in small_words("generic") and words[mark.i - 1] != "the":
            return True
        last = words[mark.j - 1]
        if last in small_words("nouns") or last.endswith("tion") or words[at] in heads:
            while words[at] in heads or words[at] in ("in", "of", "the"):
                at += 1
    elif kind == "does":
        while words[at] in ("the", "a", "its", "their"):
            at += 1
    following = next((m for m in right if m.i == at), None)
    if following is None:
        return _is_stranger(sentence, at, familiar)
    if following.tag == "place" and kind == "does":
        return any(m.tag == "own" for m in left)
    return following.tag == "other"


def _is_head(sentence: Sentence, name: Mark, mark: Mark, start: int) -> bool:
    """Say whether the name is what is spoken of, not a part of "inhibitors of …", "some … genes" or "the … section"."""
    words, at = sentence.words, name.i - 1
    while at >= start and words[at] in ("the", "mouse", "this", "a", "hallmark"):
        at -= 1
    if at > start and words[at] in small_words("before_name") and _is_stranger(sentence, at - 1):
        return False
    for at in range(start, name.i):
        if words[at] in small_words("partial") and (at + 1 == name.i or words[at + 1] in ("gene", "genes")):
            return False
    at = name.j
    unknown_names = [k for k in range(at, min(at + 2, mark.i)) if _is_stranger(sentence, k)]
    return not unknown_names or unknown_names[0] > at or (name.value == "start" and len(unknown_names) == 1)


def place_of(sentence: Sentence, mark: Mark, lexicon: Lexicon) -> tuple[tuple[str, ...], bool]:
    """Return the question's tissues that a direction holds in, and whether it holds in others only.

    They stand behind it, up to the next direction, else before it.
    """
    words, marks = sentence.words, sentence.marks
    ends = [m for m in marks if m.tag in ("option", "break")]
    stop = next((m.i for m in ends if m.i >= mark.j), len(words))
    start = max((m.j for m in ends if m.j <= mark.i), default=0)
    places = [m for m in marks if m.tag == "place" and _is_meant(sentence, m)]
    found = [m for m in places if mark.j <= m.i < stop]
    for at, (one, other) in enumerate(pairwise(found)):
        if not small_words("listing").issuperset(words[one.j : other.i]):
            found = found[: at + 1]
            break
    named = {m.value: None for m in found or [m for m in places if start <= m.i < mark.i]}
    own = tuple(place for place in named if place in lexicon.tissues)
    return own, "elsewhere" in named or (bool(named) and not own)


def _is_meant(sentence: Sentence, place: Mark) -> bool:
    """Say whether a place is not only what it is compared with: "unlike liver", "than in ground controls"."""
    words, before = sentence.words, sentence.words[place.i - 1]
    if words[place.i] not in small_words("control"):
        return before not in ("unlike", "not")
    start, _ = sentence.clause(place.i, place.j)
    return before not in small_words("against") and small_words("than").isdisjoint(words[start : place.i])


def is_of_missions(sentence: Sentence, mark: Mark) -> bool:
    """Say whether a word such as "disagree" or "highly conserved" is said of what is asked, not of crews or sequences."""
    words = sentence.words
    at = mark.j
    while words[at] in ("only", "about", "on", "in", "their", "the", "for"):
        at += 1
    if _is_stranger(sentence, at) or words[at] == "nothing":
        return False
    if any(m.tag == "other" and m.i == at for m in sentence.marks):
        return False
    before = mark.i - 1
    while before >= 0 and words[before] in ("is", "are", "was", "were", "be", "been"):
        before -= 1
    return before < 0 or not _is_stranger(sentence, before)
