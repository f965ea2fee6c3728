"""The words that a question's answers may hold, made once for each question: tables, options, names of subjects.

A phrase of the tables (`evals/verifiers/words/*.toml`) has one word per place; "a/b" is either of two words, "a?"
may be missing and "_" is any one word. Hyphens are blanks: "up-regulated" is "up regulated".
"""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import product
from typing import NamedTuple

from evals.facts import load_hallmark
from evals.schema import CANNOT_BE_TOLD
from evals.verifiers.expected import AGREE, DIFFERENT, DIRECTIONS, LEVELS, SAME, Expected, normalised, shared_wordings

UP, DOWN, DISAGREE = DIRECTIONS
TOKEN = re.compile(r"[a-z][a-z0-9]*(?:'[a-z]+)?|\d+(?:[.,]\d+)*%?|\.{3}|[,:;()\[\]\"|=?!<>/+]|(?<![a-z0-9])-+|-(?![a-z0-9])")
"""Words, numbers and marks of plain text; a hyphen inside a word parts it in two."""


class Mark(NamedTuple):
    """A phrase of the lexicon in a sentence: what it does, what it stands for, and its words `i` to `j`."""

    tag: str
    value: str
    i: int
    j: int


Table = dict[str, list[tuple[list[str], str, str]]]
"""From the first word of a phrase to its other words, its tag and its value, the longest first."""


@dataclass(frozen=True, slots=True)
class Lexicon:
    """What a reader looks for in the answers to one question.

    `keys` are first words of phrases that make a sentence worth reading. `named` are the options that are names
    of the question's own. `tissues` are those that the question is about.
    """

    table: Table
    keys: frozenset[str]
    named: frozenset[str]
    tissues: frozenset[str]
    has_directions: bool
    has_yes: bool
    has_levels: bool


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


@cache
def words(name: str) -> Mapping[str, object]:
    """Return a table of words: `evals/verifiers/words/<name>.toml`."""
    return tomllib.loads(files("evals.verifiers").joinpath(f"words/{name}.toml").read_text(encoding="utf-8"))


@cache
def word_set(table: str, key: str) -> frozenset[str]:
    """Return the words, with blanks between them, under a key of a table."""
    return frozenset(str(words(table)[key]).split())


def tokens(text: str) -> list[str]:
    """Return the words and marks of plain text."""
    return TOKEN.findall(text)


def build(*groups: tuple[Iterable[str], str, str]) -> Table:
    """Return a table of phrases: each group has its entries, their tag and their value."""
    table: Table = {}
    for entries, tag, value in groups:
        for entry in entries:
            for first, *tail in phrases(entry):
                table.setdefault(first, []).append((tail, tag, value))
    for row in table.values():
        row.sort(key=_length)
    return table


def join(*tables: Table) -> Table:
    """Return tables as one; of phrases that are the same, that of the first table counts."""
    joined = dict(tables[-1])
    for table in reversed(tables[:-1]):
        for first, row in table.items():
            joined[first] = sorted(row + joined[first], key=_length) if first in joined else row
    return joined


def _length(row: tuple[list[str], str, str]) -> tuple[int, int]:
    return (-len(row[0]), row[0].count("_"))


@cache
def _shared() -> Table:
    """Return the words of every question: what denies and takes back, and places."""
    alike: Mapping[str, str] = words("subjects")["same_tissue"]  # type: ignore[assignment]
    places = [([word], "place", alike.get(word, word)) for word in word_set("subjects", "tissues")]
    elsewhere = (word_set("subjects", "elsewhere"), "place", "elsewhere")
    tags = ("fine", "confirm", "void", "reject", "suppose", "open", "undo", "deny", "break")
    scope = [(words("scope")[tag], tag, "") for tag in tags]
    return build(*places, elsewhere, *scope)  # type: ignore[arg-type]


@cache
def _other_names() -> Table:
    return build((_hallmark_names(), "other", ""))


@cache
def _hallmark_names() -> Mapping[str, str]:
    return {
        " ".join(tokens(normalised(name))): key
        for key, row in load_hallmark().items()
        for name in (row.name, *row.synonyms, key.removeprefix("HALLMARK_").replace("_", " "))
    }


_MADE: dict[int, tuple[Expected, Lexicon]] = {}


def lexicon(expected: Expected) -> Lexicon:
    """Return the lexicon of a question; made once for each."""
    found = _MADE.get(id(expected))
    if found is not None and found[0] is expected:
        return found[1]
    made = _made(expected)
    if len(_MADE) > 8192:
        _MADE.clear()
    _MADE[id(expected)] = (expected, made)
    return made


def _made(expected: Expected) -> Lexicon:
    own, starts = _own_names(expected)
    is_hallmark = any(name in _hallmark_names() for name in own)
    alike: Mapping[str, str] = words("subjects")["same_tissue"]  # type: ignore[assignment]
    subjects = [name for name in expected.subjects if name not in _hallmark_names()]
    mine = {word for name in subjects for word in tokens(normalised(name))} & word_set("subjects", "tissues")
    table, keys = _options(expected)
    names = build((own, "own", "full"), (starts, "own", "start"))
    if is_hallmark:
        names = join(names, _other_names())
        if UP not in expected.options:
            directions = join(_option_table(UP, False), _option_table(DOWN, False))
            table = join(table, directions)
            keys = keys | frozenset(directions)
    shared = _shared()
    voids = frozenset(first for first, row in shared.items() if any(tag == "void" for _, tag, _ in row))
    return Lexicon(
        join(names, table, shared),
        keys | voids | frozenset(names),
        frozenset(option for option in expected.options if meaning_of(option) == option and option not in SHARED),
        frozenset(alike.get(word, word) for word in mine),
        is_hallmark or UP in expected.options,
        any(meaning_of(option) == "yes" for option in expected.options),
        LEVELS[0] in expected.options,
    )


def _own_names(expected: Expected) -> tuple[list[str], list[str]]:
    """Return the names of the subject as words, and the first words of long names: "tnf alpha signaling"."""
    tissues = word_set("subjects", "tissues")
    names = dict.fromkeys(" ".join(tokens(normalised(name))) for name in expected.subjects if name not in tissues)
    keys = {_hallmark_names()[name] for name in names if name in _hallmark_names()}
    if not keys:
        return list(names), []
    for name, key in _hallmark_names().items():
        if key in keys:
            names[name] = None
    acronyms = {tokens(normalised(row.name))[0] for key in keys for row in [load_hallmark()[key]] if _is_acronym(row.name)}
    heads = word_set("subjects", "heads")
    parts = [name.split() for name in names]
    starts = [" ".join(each[:end]) for each in parts for end in range(2, len(each)) if each[end - 1] not in heads]
    return list(names), [*starts, *acronyms]


def _is_acronym(name: str) -> bool:
    """Say whether a name begins with an acronym of its own, such as KRAS or mTORC1; DNA and UV are shared by others."""
    first = re.split(r"[ /-]", name)[0]
    return sum(char.isupper() or char.isdigit() for char in first) > 1 and first not in ("DNA", "IL", "UV")


def _options(expected: Expected) -> tuple[Table, frozenset[str]]:
    options = expected.options or tuple(dict.fromkeys(expected.by_wording.values()))
    tables = []
    for option in options:
        meaning = meaning_of(option)
        is_lone = meaning in (UP, DOWN) and not {UP, DOWN} <= {meaning_of(each) for each in options}
        if is_lone or (meaning == option and option not in SHARED):
            shared = shared_wordings().get(option.casefold(), ())
            wordings = {normalised(option), *map(normalised, expected.wordings.get(option, ()))}
            wordings |= {word for word, of in expected.by_wording.items() if of == option and word not in shared}
            tables.append(build((filter(None, (" ".join(tokens(wording)) for wording in wordings)), "option", option)))
        else:
            tables.append(_option_table(option, expected.right == CANNOT_BE_TOLD))
    keys = frozenset(first for table in tables for first, row in table.items() if any(tag == "option" for _, tag, _ in row))
    return join(*tables, {}), keys


SHARED = (*DIRECTIONS, AGREE, SAME, DIFFERENT, *LEVELS, CANNOT_BE_TOLD, "yes", "no")
"""Options that the tables have words for."""


@cache
def _option_table(option: str, is_wide: bool) -> Table:
    """Return the words for an option of the shared tables."""
    meaning = meaning_of(option)
    agreement: Mapping[str, list[str]] = words("agreement")  # type: ignore[assignment]
    if meaning in (UP, DOWN):
        rows: Mapping[str, list[str]] = words("directions")[meaning]  # type: ignore[assignment]
        return build(*((rows[kind], "option", f"{option}|{kind}") for kind in ("said", "does", "way")))
    if meaning in LEVELS:
        key = ("high", "moderate", "poor")[LEVELS.index(meaning)]
        pairs = [f"{degree} {kept}" for degree in agreement[key] for kept in agreement["kept"]]
        return build((pairs, "option", option), (agreement[f"{key}_alone"], "option", option))
    if meaning == CANNOT_BE_TOLD:
        abstention: Mapping[str, list[str]] = words("abstention")  # type: ignore[assignment]
        wide = abstention["wide"] if is_wide else []
        name = " ".join(tokens(normalised(option)))
        return build((abstention["apart"], "fine", ""), ([*abstention["firm"], *wide, name], "option", option))
    if meaning in ("yes", "no"):
        return {}
    key = {DISAGREE: "disagree", AGREE: "agree", SAME: "same", DIFFERENT: "different"}[meaning]
    return build((agreement[key], "option", option))


@cache
def meaning_of(option: str) -> str:
    """Return the option of the shared tables that an option of any question means: "Increased" -> "up"."""
    name = normalised(option)
    for meaning in SHARED:
        if name == meaning or (meaning in (UP, DOWN) and name in shared_wordings()[meaning]):
            return meaning
    return option
