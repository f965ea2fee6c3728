"""The words that a question's answers may hold, made once for each question: tables, options, names of subjects.

A phrase of the tables (`evals/verifiers/words/*.toml`) has one word per place; "a/b" is either of two words and "a?"
may be missing. Hyphens are blanks: "up-regulated" is "up regulated".
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache, partial, reduce
from itertools import product
from typing import Any, NamedTuple

from evals.facts import load_hallmark
from evals.schema import CANNOT_BE_TOLD
from evals.verifiers.expected import (
    AGREE,
    DIFFERENT,
    DIRECTIONS,
    LEVELS,
    SAME,
    Expected,
    american,
    normalise,
    pattern,
    word_set,
    words,
)
from evals.wording import plain

UP, DOWN, DISAGREE = DIRECTIONS
TOKEN = re.compile(r"[a-z0-9]+(?:'[a-z]+|[.,]\d+)*%?|[,:;()\[\]\"|=?!<>/+]|-+(?=[ \n]|$)|\.\.\.")
"""Words, numbers and marks of plain text; a hyphen inside a word parts it in two."""
small_words = cache(partial(word_set, "clauses"))
Table = dict[str, Any]
"""A tree of words: each leads to the words that may follow it; under "" are the tag and the value of the phrase."""
SHARED = (*DIRECTIONS, AGREE, SAME, DIFFERENT, *LEVELS, CANNOT_BE_TOLD, "yes", "no")
"""Options that the tables have words for."""


class Mark(NamedTuple):
    """A phrase of the lexicon in a sentence: what it does, what it stands for, and its words `i` to `j`."""

    tag: str
    value: str
    i: int
    j: int


@dataclass(frozen=True, slots=True, eq=False)
class Lexicon:
    """What a reader looks for in the answers to one question.

    `named` are the options that are names of the question's own, `tissues` those that the question is about, `yes_no` the
    options that mean yes and no, where there are such.
    """

    table: Table
    named: frozenset[str]
    tissues: frozenset[str]
    has_directions: bool
    has_subject: bool
    yes_no: Mapping[str, str]
    has_levels: bool

    def has_places(self, question: str) -> bool:
        """Say whether a claim about another tissue is no answer: not where tissues are the options, or not asked about."""
        if not self.tissues or self.named & self.tissues:
            return False
        return self.has_directions or any(tissue in question.casefold() for tissue in self.tissues)


def phrases(entry: str) -> Iterator[list[str]]:
    """Yield the phrases that an entry of a table stands for.

    >>> list(phrases("is/was not? so"))
    [['is', 'not', 'so'], ['is', 'so'], ['was', 'not', 'so'], ['was', 'so']]
    """
    places = []
    for place in entry.split():
        is_optional = place.endswith("?") and len(place) > 1
        words = place.rstrip("?").split("/") if len(place) > 1 else [place]
        places.append([*words, ""] if is_optional else words)
    for words in product(*places):
        yield [word for word in words if word]


def tokens(text: str) -> list[str]:
    """Return the words and marks of plain text."""
    return TOKEN.findall(american(text))


def build(*groups: tuple[Iterable[str], str, str]) -> Table:
    """Return a table of phrases: each group has its entries, their tag and their value. The first of two that are the same stays."""
    table: Table = {}
    for entries, tag, value in groups:
        for entry in entries:
            for phrase in phrases(entry):
                node = table
                for word in phrase:
                    node = node.setdefault(word, {})
                node.setdefault("", (tag, value))
    return table


def join(first: Table, second: Table) -> Table:
    """Return two tables as one; of phrases that are the same, that of the first counts. Neither is changed."""
    joined = dict(second)
    for word, node in first.items():
        joined[word] = join(node, second[word]) if word and word in second else node
    return joined


@cache
def _replies() -> Table:
    return build(*((words("agreement")[f"reply_{word}"], "reply", word) for word in ("no", "yes")))


def reply_at(parts: list[str]) -> tuple[str, int, int] | None:
    """Return whether words begin with a reply that means yes or no, where it begins and where it ends; None for none.

    >>> reply_at(["that", "is", "incorrect", "."]), reply_at(["so", ",", "absolutely", "not", "."])
    (('no', 0, 3), ('no', 2, 4))
    """
    for at, word in enumerate(parts):
        if found := phrase_at(parts, at, _replies()):
            return found[0][1], at, found[1]
        if word not in small_words("openers") and word[-2:] != "ly":
            return None
    return None


@cache
def _shared_words() -> Table:
    """Return the words of every question: what denies and takes back, and places."""
    alike = words("subjects")["same_tissue"]
    places = [([word], "place", alike.get(word, word)) for word in word_set("subjects", "tissues")]
    elsewhere = (word_set("subjects", "elsewhere"), "place", "elsewhere")
    tags = ("fine", "confirm", "void", "reject", "suppose", "open", "undo", "deny", "break")
    scope = [(words("scope")[tag], tag, "") for tag in tags]
    left_out = [(words("scope")[key], tag, "except") for key, tag in (("except", "deny"), ("excluded", "void"))]
    return build(*places, elsewhere, *left_out, *scope)


@lru_cache(maxsize=4096)
def excludes(text: str) -> bool:
    """Say whether a text takes something back or leaves it out: "metformin is out", "all except CAU"."""
    marks = marks_in([*tokens(plain(text).text), "."], _shared_words())
    return bool(pattern("all_but").search(text)) or any(mark.value == "except" for mark in marks)


def marks_in(words: list[str], table: Table) -> list[Mark]:
    """Return the phrases of a table among words, from left to right, the longest where several begin."""
    found: list[Mark] = []
    for i, word in enumerate(words):
        if word in table and (not found or i >= found[-1].j) and (hit := phrase_at(words, i, table)):
            found.append(Mark(*hit[0], i, hit[1]))
    return found


def phrase_at(words: list[str], i: int, table: Table) -> tuple[Any, int] | None:
    """Return tag and value of the longest phrase of a table that begins at a word, and where it ends."""
    found, node = None, table
    for at in range(i, len(words)):
        node = node.get(words[at])
        if node is None:
            break
        if "" in node:
            found = node[""], at + 1
    return found


@cache
def _other_names() -> Table:
    return build((_hallmark_names(), "other", ""))


@cache
def _hallmark_names() -> Mapping[str, str]:
    return {
        " ".join(tokens(normalise(name))): key
        for key, row in load_hallmark().items()
        for name in (row.name, *row.synonyms, key.removeprefix("HALLMARK_").replace("_", " "))
    }


@lru_cache(maxsize=8192)
def lexicon(expected: Expected) -> Lexicon:
    """Return the lexicon of a question; made once for each."""
    own, starts = _own_names(expected)
    is_hallmark = any(name in _hallmark_names() for name in own)
    alike = words("subjects")["same_tissue"]
    subjects = [name for name in expected.subjects if name not in _hallmark_names()]
    mine = {word for name in subjects for word in tokens(normalise(name))} & word_set("subjects", "tissues")
    table = _options(expected)
    if is_hallmark and UP not in options_of(expected):
        table = join(table, join(_option_table(UP, False), _option_table(DOWN, False)))
    names = build((own, "own", "full"), (starts, "own", "start"))
    if is_hallmark:
        names = join(names, _other_names())
    options = options_of(expected)
    yes_no = {meaning: option for option in options if (meaning := meaning_of(option)) in ("yes", "no")}
    yes_no = yes_no if "yes" in yes_no else {}
    return Lexicon(
        table=join(names, join(table, _shared_words())),
        named=frozenset(option for option in options if _meaning(option, options) is None),
        tissues=frozenset(alike.get(word, word) for word in mine),
        has_directions=is_hallmark or {UP, DOWN} <= {meaning_of(option) for option in options},
        has_subject=bool(expected.subjects),
        yes_no=yes_no,
        has_levels=LEVELS[0] in options,
    )


def _own_names(expected: Expected) -> tuple[list[str], list[str]]:
    """Return the names of the subject as words, and the first words of long names: "tnf alpha signaling"."""
    tissues = word_set("subjects", "tissues")
    names = dict.fromkeys(" ".join(tokens(normalise(name))) for name in expected.subjects if name not in tissues)
    keys = {_hallmark_names()[name] for name in names if name in _hallmark_names()}
    if not keys:
        return list(names), []
    for name, key in _hallmark_names().items():
        if key in keys:
            names[name] = None
    acronyms = {
        tokens(normalise(row.name))[0] for key in keys for row in [load_hallmark()[key]] if _is_acronym(row.name)
    }
    parts = [name.split() for name in names]
    starts = [" ".join(each[:end]) for each in parts for end in range(2, len(each))]
    return list(names), [*starts, *acronyms]


def _is_acronym(name: str) -> bool:
    """Say whether a name begins with an acronym of its own, such as KRAS or mTORC1; DNA and UV are shared by others."""
    first = re.split(r"[ /-]", name)[0]
    return sum(char.isupper() or char.isdigit() for char in first) > 1 and first not in ("DNA", "IL", "UV")


def options_of(expected: Expected) -> tuple[str, ...]:
    """Return the options to look for; where the data cannot tell and the prompt lists none, only that they cannot."""
    if expected.right == CANNOT_BE_TOLD and not expected.offered:
        return (CANNOT_BE_TOLD,)
    return expected.options or tuple(dict.fromkeys(expected.by_wording.values()))


def _options(expected: Expected) -> Table:
    options = options_of(expected)
    tables = []
    for option in options:
        if _meaning(option, options) is not None:
            tables.append(_option_table(option, expected.right == CANNOT_BE_TOLD))
            continue
        shared = words("options").get(option.casefold(), ())
        names = (option, *expected.wordings.get(option, ()))
        wordings = {*map(normalise, names), *(name for name in names if "'" in name or "’" in name)}
        wordings |= {word for word, of in expected.by_wording.items() if of == option and word not in shared}
        ways = [way for word in wordings for way in _ways(word, is_symbol=word != normalise(option))]
        tables.append(build((ways, "option", option)))
    return reduce(join, tables, {})


def _ways(wording: str, *, is_symbol: bool) -> list[str]:
    """Return how a wording stands in a text; "a" and "i", and letters that stand for a name, are options only in few places."""
    found = " ".join(tokens(plain(wording).text))
    if len(found) != 1:
        return [found] if found else []
    ways = ["option/answer/choice {}", "answer is {}", "answer : {}", "( {} )", "{} )"]
    if is_symbol:
        ways += [
            "{} instead/place/rather of/than",
            "{} in place of",
            *(["is/has/uses/contains {}"] if found not in "ai" else []),
        ]
        return [way.format(found) for way in ways[1:4] + ways[5:]]
    return [way.format(found) for way in (ways if found in "ai" else [*ways, "is {}", "{}"])]


def _meaning(option: str, options: tuple[str, ...]) -> str | None:
    """Return the shared option that one of these stands for. "suppression" is a direction only beside its opposite."""
    meaning = meaning_of(option)
    if meaning in (UP, DOWN) and not {UP, DOWN} <= {meaning_of(each) for each in options}:
        return None
    return meaning if meaning in SHARED else None


@cache
def _option_table(option: str, is_wide: bool) -> Table:
    meaning = meaning_of(option)
    agreement = words("agreement")
    if meaning in (UP, DOWN):
        rows = words("directions")[meaning]
        return build(*((rows[kind], "option", f"{option}|{kind}") for kind in ("said", "does", "way")))
    if meaning in LEVELS:
        key = ("high", "moderate", "poor")[LEVELS.index(meaning)]
        pairs = [f"{degree} {kept}" for degree in agreement[key] for kept in agreement["kept"]]
        return build((pairs, "option", option), (agreement[f"{key}_alone"], "option", option))
    if meaning == CANNOT_BE_TOLD:
        abstention = words("abstention")
        wide = abstention["wide"] if is_wide else []
        name = " ".join(tokens(normalise(option)))
        return build((abstention["apart"], "fine", ""), ([*abstention["firm"], *wide, name], "option", option))
    if meaning in ("yes", "no"):
        return {}
    key = {DISAGREE: "disagree", AGREE: "agree", SAME: "same", DIFFERENT: "different"}[meaning]
    return build((agreement[key], "option", option))


@cache
def meaning_of(option: str) -> str:
    """Return the option of the shared tables that an option of any question means: "Increased" -> "up"."""
    name = normalise(option)
    for meaning in SHARED:
        if name == meaning or (meaning in (UP, DOWN) and name in words("options")[meaning]):
            return meaning
        if meaning in ("yes", "no") and name in words("options")[meaning][:2]:  # "right" is also a side
            return meaning
    return option
