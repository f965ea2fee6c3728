"""Find the names that a text gives beside those of a set, and those that it gives for another thing than is asked about.

"CAU, CAC, CAA" holds one too many for histidine; "CAU and CAC; CAA and CAG are for glutamine" does not.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache

from evals.verifiers.expected import Expected, fold, normalise, pattern, symbols, word_set
from evals.verifiers.line import BULLET, NOT_NAME, PARTS, is_denied, without_asides, without_thought
from evals.verifiers.numbers import WORDS
from evals.verifiers.text.sentences import is_known

TOKEN = re.compile(r"(?<![\w-])[A-Za-z][A-Za-z0-9]+(?![\w-])")
JOIN = r"(?:[\s,;/&|•*-]|\band\b|\bor\b)+"
BEFORE, BEHIND = re.compile(rf"(\w+){JOIN}\Z"), re.compile(rf"{JOIN}(\w+)")
OTHERWISE = re.compile(
    r"(?:,[^.,;]{0,40},)? (?:is|are|was) (?:the|a|an|for|no|not)\b|,? (?:codes?|stands?|encodes?|means?)\b"
)
"""Behind a name: it says what else that is ("AUG is the start codon")."""
MORE = re.compile(r"\b(?:also|too|as well|in addition|additionally|plus)\b", re.IGNORECASE)
"""In a short sentence without a known name: it may add one in words that look like any other."""
ACRONYMS = frozenset(("DNA", "RNA", "ATP", "GTP"))
LONGEST = 3
"""Words of a name in a list, numbers aside; at its ends, where a sentence may begin or go on, one or none that sentences have."""


def unknown_names(expected: Expected, question: str, text: str) -> tuple[set[str], set[str]]:
    """Return the names that an answer lists beside known ones, and others that look like them elsewhere in it.

    What is listed is another name whatever it looks like. Elsewhere a word looks like a name where known names have
    capitals or digits in the same places: CAA beside CAU, IL6 beside TP53.
    """
    text, known = without_asides(without_thought(text)), expected.by_wording
    listed = {
        name
        for items in _lists(text)
        if any(not known.keys().isdisjoint((name, *name.split())) for name in items)
        for at, name in enumerate(items)
        if _is_name(items, at, known, fold(question))
    }
    shapes = {_shape(each) for each in expected.values} - {""}
    asked = frozenset(normalise(question).split())
    loose: set[str] = set()
    for found in TOKEN.finditer(text) if shapes else ():
        name, shape = normalise(found[0]), _shape(found[0])
        if name in known or name in asked or shape not in shapes or found[0] in ACRONYMS:
            continue
        if is_denied(normalise(text[max(0, found.start() - 60) : found.start()]) + " ", 61):
            continue
        beside = (BEFORE.search(text, max(0, found.start() - 40), found.start()), BEHIND.match(text, found.end()))
        is_listed = any(each and (normalise(each[1]) in known or _shape(each[1]) == shape) for each in beside)
        if is_listed or not OTHERWISE.match(text, found.end()):
            (listed if is_listed else loose).add(name)
    for sentence in re.split(r"[.!?;]\s|\n", text):
        words = normalise(sentence).split()
        if MORE.search(sentence) and len(words) <= 8 and known.keys().isdisjoint(words):
            loose.add(" ".join(words))
    return listed, loose - listed


@lru_cache(maxsize=8192)
def _things(question: str) -> tuple[tuple[Mapping[str, tuple[str, ...]], ...], frozenset[str], frozenset[str]]:
    """Return the tables of symbols that a question takes its thing from, all names of it, and the forms of names in capitals."""
    words = {*TOKEN.findall(question)}
    asked = frozenset(map(normalise, words))
    tables = tuple(table for table in symbols() if not asked.isdisjoint(table))
    own = asked.union(normalise(name) for table in tables for word in asked & table.keys() for name in table[word])
    return tables, own, frozenset(map(_shape, words - ACRONYMS)) - {""}


SEGMENT = re.compile(r"[.;\n]|,?\s\b(?:while|whereas|but|although|though|however|unlike)\b|\([^()]*\)", re.IGNORECASE)
LINK = re.compile(
    r"\b(?:for|by|as|is|are|(?:en)?codes?|(?:en)?coded|encoding|stands?|specif\w+|means?|gives?)\b|[(=:→]|->",
    re.IGNORECASE,
)
NO_LINK = re.compile(r"\b(?:differ\w*|from|than|not|unlike|which)\b", re.IGNORECASE)
LABEL = re.compile(r"\W*([A-Za-z]{3,})\s*(?:→|->|=)")
""""stop → UGA" beside "Cys → UGU": what is no name is another thing."""
FAR = 80
"""Characters between a name and what it is given for."""
Place = tuple[int, int]

SUPERSEDED = pattern("superseded")
"""What was held once, or might be held, up to what is said instead; an aside that tells a history keeps the name before it."""
CORRECTED = pattern("corrected")
SENTENCE = re.compile(r"[.!?;:]\s|\n")
HISTORY = re.compile(r"[,(]\s*(?:which|that)?(?: was| were)?\s*\Z")


def without_withdrawn(text: str) -> str:
    """Return a text with blanks for what it takes back itself: A stays of "B. No, wait: A", Y of "initially X, later Y"."""
    letters = [*text]
    for found in (*CORRECTED.finditer(text), *SUPERSEDED.finditer(text)):
        low = max(0, found.start() - 240)
        before = text[low : found.start()]
        is_aside = found.re is SUPERSEDED and HISTORY.search(before)
        said = before.rstrip(" .,;:!?…—–-\n") if found.re is CORRECTED else before
        start = low + (len(before) if is_aside else max((each.end() for each in SENTENCE.finditer(said)), default=0))
        letters[start : found.end()] = " " * (found.end() - start)
    return "".join(letters)


def without_others(expected: Expected, question: str, text: str) -> str:
    """Return a text with blanks for the names that it gives for another thing than the one that is asked about.

    "CAU and CAC; CAA and CAG are for glutamine" keeps two codons where histidine is asked about. A name may be given for a
    name of `symbols`, or for one in capitals like one in the question: GAU where AAU is asked about. Where no name would be left,
    all stay. What the text takes back itself is blank in any case.
    """
    text = without_withdrawn(text)
    tables, own, shapes = _things(question)
    values = {_shape(value) for value in expected.values} - {""}
    if not (tables or shapes) or expected.kind not in ("choice", "set"):
        return text

    def kind(found: re.Match[str]) -> str | None:
        word, shape = normalise(found[0]), _shape(found[0])
        if word in expected.by_wording or (shape in values and found[0] not in ACRONYMS):
            return "name"
        is_symbol = any(word in table for table in tables) and (len(word) > 3 or found[0].istitle())
        is_like = shape in shapes and found[0] not in ACRONYMS
        return None if not (is_symbol or is_like) else "own" if word in own else "other"

    names_own = any(kind(found) == "own" for found in TOKEN.finditer(text))
    given: list[tuple[Place, str]] = []
    clauses: list[Place] = []
    heading = ""
    for start, end in _segments(text, kind):
        events = [(found.span(), of) for found in TOKEN.finditer(text, start, end) if (of := kind(found))]
        label = LABEL.match(text, start, end)
        is_other = names_own and label and events and events[0][0][0] != label.start(1)
        owner, pending, before = "other" if is_other else heading, list[Place](), len(given)
        for place, of in events:
            if of == "name":
                pending.append(place)
                continue
            between = text[pending[-1][1] : min(place[0], pending[-1][1] + FAR)] if pending else ""
            is_near = bool(pending) and place[0] - pending[-1][1] < FAR
            is_linked = is_near and not owner and LINK.search(between) and not NO_LINK.search(between)
            given += [(each, of if is_linked else owner) for each in pending]
            owner, pending = "" if is_linked else of, []
        given += [(each, owner) for each in pending]
        if len(given) > before and all(owner == "other" for _, owner in given[before:]):
            clauses.append((start, end))
        is_heading = events and all(of != "name" for _, of in events) and text[start:end].rstrip(" *").endswith(":")
        heading = events[-1][1] if is_heading else heading if not any(of != "name" for _, of in events) else ""
    taken = [place for place, owner in given if owner == "other"]
    if len(taken) == len(given):
        return text
    letters = [*text]
    for start, end in (*taken, *clauses):
        letters[start:end] = " " * (end - start)
    return "".join(letters)


def _segments(text: str, kind: Callable[[re.Match[str]], str | None]) -> Iterator[Place]:
    """Yield the parts of a text that speak of one thing each: clauses, and brackets that hold a name and what it is given for."""
    start = 0
    for found in SEGMENT.finditer(text):
        if found[0][0] == "(":
            inside = {kind(each) for each in TOKEN.finditer(text, *found.span())} - {None}
            if len(inside) < 2:
                continue
            yield start, found.start()
            yield found.span()
        else:
            yield start, found.end()
        start = found.end()
    yield start, len(text)


def _is_name(items: list[str], at: int, known: Mapping[str, str], asked: frozenset[str]) -> bool:
    """Say whether an item of a list is an unknown name; several words at an end only beside a known one, and if no sentence has them."""
    words = items[at].split()
    no_names = word_set("stems", "denial") | word_set("stems", "explains")
    is_short = bool(words) and sum(map(str.isalpha, words)) <= LONGEST
    if (
        not is_short
        or not WORDS.keys().isdisjoint(words)
        or not known.keys().isdisjoint((items[at], *words))
        or not no_names.isdisjoint(words)
    ):
        return False
    if len(words) == 1 or 0 < at < len(items) - 1:
        return True
    is_beside = items[at - 1].endswith(tuple(known)) if at else items[1].startswith(tuple(known))
    is_told = any(word.endswith(("ed", "ing")) or (word.isalpha() and is_known(word)) for word in words)
    return is_beside and not is_told and asked.isdisjoint(fold(items[at]))


def _shape(name: str) -> str:
    """Return capitals and digits as A and 9, "" where only the first letter is one: CAU is AAA, TP53 is A9."""
    if not re.search(r"\d|.[A-Z]", name):
        return ""
    shape = "".join("9" if char.isdigit() else "A" if char.isupper() else "a" for char in name)
    return re.sub(r"(.)\1+", r"\1", shape) if "9" in shape else shape


def _lists(text: str) -> Iterator[list[str]]:
    """Yield the lists of a text, normalised: its bulleted lines, and what commas, "and" and "or" part in each sentence."""
    bullets = [re.split(r"\s[-–—]\s|:|,", line, maxsplit=1)[0] for line in text.split("\n") if re.match(BULLET, line)]
    if len(bullets) > 1:
        yield ["", *(normalise(NOT_NAME.sub(" ", bullet)) for bullet in bullets), ""]
    for sentence in re.split(r"[.!?:](?:\s|$)|\n", text):
        items = PARTS.split(sentence)
        if len(items) > 1:
            yield [name for item in items if (name := normalise(NOT_NAME.sub(" ", item)))]
