"""The options and the right answer of a question, however a file writes them.

Options stand in a list, in an object by letter, in columns, or in the question itself. How an answer column is read (an
index from 0 or from 1, a letter, a label, the text of an option) is decided over all rows of a file: the way that reads
its rows is taken, and where two ways read them and disagree the import stops and asks.
"""

import ast
import json
import re
from collections.abc import Mapping, Sequence
from itertools import product, zip_longest
from typing import Any, Literal, NamedTuple

from evals.errors import LabError, Unclear
from evals.io import short_repr
from evals.questions.sets import closest, normalise_question

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
NEARLY_ALL = 0.99
"""A second way to read an answer column counts if it reads this share of what the best way reads."""
HALF = 0.5
"""A column of which no way reads this share is not used as an answer column."""
Base = Literal["0", "1", "letter", "text"]
WAYS: Mapping[str, str] = {
    "letter": "a letter or label",
    "text": "the text of the option",
    "0": "an index that counts from 0",
    "1": "an index that counts from 1",
}
INLINE = (
    re.compile(r"^[ \t]*\(?([A-Ja-j])\s?[).:]", re.MULTILINE),
    re.compile(r"(?:(?<=\s)\(?|^\(?|(?<=\())([A-Ja-j])\s?[).:]"),
)
"""Beginnings of options inside a question: on lines of their own, else after a blank or bracket."""
LETTER = re.compile(r"\W*(?:option|answer|choice)?\W*([a-z])\W*", re.IGNORECASE)
OWN_LETTER = re.compile(r"\s*\(?([A-Ja-j])\s?([).:、．]|(?<=\s))")
SEPARATORS = ("|", "\n", ";")
"""What stands between the options in one cell: the first that is there."""
OPTION_TEXT = ("text", "value", "option", "content", "atext")
NO_ANSWER = "Take rows without an answer out first"


class BadField(ValueError):
    """What is wrong with a field of a row, and what was probably `meant` by it."""

    def __init__(self, field: str, problem: str, meant: str | None = None) -> None:
        super().__init__(problem)
        self.field, self.meant = field, meant


class Fields(dict[str, Any]):
    """The values of a row that are not empty, by the folded names of their fields; `read` are those that were used."""

    def __init__(self, row: Mapping[str, Any]) -> None:
        super().__init__()
        self.read: set[str] = set()
        for key, value in row.items():
            if value is not None and value != "":
                self.setdefault(fold_name(key), value)

    def at(self, name: str) -> Any:
        """Return the value of a field, None if it is missing; "question.stem" leads inside an object."""
        outer, _, inner = name.partition(".")
        inside = self.get(outer) if name not in self else None
        value = Fields(inside).get(inner) if isinstance(inside, Mapping) and inner else self.get(name)
        if value is not None:
            self.read.add(name if name in self else outer)
        return value

    def first(self, names: Sequence[str]) -> tuple[str, Any]:
        """Return the first of the names that has a value, and the value; else the first name and None."""
        found = ((name, value) for name in names if (value := self.at(name)) is not None)
        return next(found, (names[0] if names else "", None))

    def all(self, names: Sequence[str]) -> dict[str, Any]:
        """Return the values of those names that have one."""
        return {name: value for name in names if (value := self.at(name)) is not None}


def fold_name(name: str) -> str:
    return " ".join(re.sub(r"(?<!^)[_-]", " ", str(name).strip()).casefold().split())  # _type is not type


class Choice(NamedTuple):
    """Options and the values of the answer columns, before it is known how these are read."""

    options: list[str]
    labels: list[str]
    answers: dict[str, Any]
    is_inline: bool

    @property
    def bare(self) -> list[str]:
        """The options without the letters that they begin with, such as (A), (B), or A., B., C. of three or more."""
        found = [OWN_LETTER.match(option) for option in self.options]
        letters = "".join(match[1].upper() for match in found if match)
        is_lettered = len(self.options) > 2 or not any(match and match[2] in (".", "") for match in found)
        if not is_lettered or letters != LETTERS[: len(self.options)]:
            return self.options
        bare = [OWN_LETTER.sub("", option, count=1).strip() for option in self.options]
        return bare if len({normalise_question(option) for option in bare} - {""}) == len(bare) else self.options


# ---- options ----------------------------------------------------------------------------------


def texts_in(value: Any) -> list[str]:
    """Return the texts of a value: its own, or those in lists and objects, which may be written as text."""
    if isinstance(value, str) and (parsed := _parse_literal(value)) is not None:
        return texts_in(parsed)
    if isinstance(value, list):
        return [text for each in value for text in texts_in(each)]
    if isinstance(value, Mapping):
        return texts_in(value.get("text", value.get("value")))
    return [option_text(value)] if value is not None and option_text(value) else []


def option_text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return re.sub(r"\s*\n\s*", " ", str(value).strip())  # an answer line is one line


def check_options(field: str, options: Sequence[str]) -> None:
    """Raise BadField for fewer than two options, an empty one, or two that differ in case, blanks or form alone."""
    if len(options) < 2 or not all(options):
        raise BadField(field, f"needs two or more options and none empty, seen {short_repr(list(options))}")
    for n, option in enumerate(options):
        other = next((each for each in options[:n] if normalise_question(each) == normalise_question(option)), None)
        if other is not None:
            how = "stands twice" if other == option else f"and {other!r} differ in case, blanks or form alone"
            raise BadField(field, f"needs options that differ in a letter or digit: {option!r} {how}")


def listed_options(value: Any) -> tuple[list[str], list[str]]:
    """Return options and their labels of a list, an object by letter, a list of objects, or a text of these."""
    if isinstance(value, str):
        mark = next((each for each in SEPARATORS if each in value), "|")
        value = _parse_literal(value) or value.split(mark)
    if isinstance(value, Mapping) and isinstance(value.get("text"), list):
        pairs = list(zip_longest(value.get("label", ()), value["text"]))
    elif isinstance(value, Mapping):
        pairs = list(value.items())
    elif isinstance(value, list):
        rows = [Fields(each if isinstance(each, Mapping) else {"text": each}) for each in value]
        pairs = [(row.first(("label", "key", "letter", "id", "aid"))[1], row.first(OPTION_TEXT)[1]) for row in rows]
    else:
        return [], []
    known = [(label, option_text(option)) for label, option in pairs if option is not None]
    has_labels = all(label is not None for label, _ in known)
    return [option for _, option in known], [str(label) for label, _ in known] if has_labels else []


def scored_options(value: Any) -> dict[str, Any]:
    """Return options with whether each is right: an object of scores, or a list of objects that say so; {} for others."""
    if isinstance(value, Mapping):
        return {**value} if all(isinstance(score, int | float) for score in value.values()) else {}
    rows = [Fields(each) for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []
    marks = [str(row.first(("correct", "is correct", "iscorrect"))[1]).casefold() for row in rows]
    if not {"true", "false"} >= {*marks}:
        return {}
    return {option_text(row.first(OPTION_TEXT)[1]): mark == "true" for row, mark in zip(rows, marks, strict=True)}


def _parse_literal(text: str) -> list[Any] | dict[str, Any] | None:
    """Return the list or object that a text is, as JSON or as Python prints it; None for other texts."""
    if not text.lstrip().startswith(("[", "{")):
        return None
    for parse in (json.loads, ast.literal_eval):
        try:
            found = parse(text.strip())
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
        if isinstance(found, list | dict):
            return found
    return None


def _marks(letter: re.Match[str]) -> str:
    """Return what stands around an option's letter: "()" of "(A) ", ")" of "A) "."""
    return re.sub(r"[\sA-Ja-j]", "", letter[0])


def inline_options(question: str) -> list[str]:
    """Return the options that stand in a question as (A) … (B) …; [] if there are none."""
    for pattern, first in product(INLINE, "Aa"):
        starts: list[re.Match[str]] = []
        for match in pattern.finditer(question):
            is_next = match[1] == chr(ord(first) + len(starts))
            if is_next and (not starts or _marks(match) == _marks(starts[0])):
                starts.append(match)
            elif match[1] == first and len(starts) == 1:
                starts = [match]
        if len(starts) > 1:
            ends = [*(match.start() for match in starts[1:]), len(question)]
            spans = zip(starts, ends, strict=True)
            return [question[match.end() : end].strip(" \n\t(;").split("\n")[0].strip() for match, end in spans]
    return []


# ---- how an answer column is read -------------------------------------------------------------


def named_places(answer: Any, options: Sequence[str], labels: Sequence[str], way: str) -> list[int]:
    """Return the places of the options that an answer names, read in one of WAYS; [] if it cannot be read so."""
    place = _place(answer, options, labels, way)
    if place is not None:
        return [place]
    parts = (_parse_literal(answer) or _parts(answer, way)) if isinstance(answer, str) else answer
    places = [_place(part, options, labels, way) for part in parts] if isinstance(parts, list) else []
    found = sorted(place for place in places if place is not None)
    return found if len(found) == len(places) == len(set(found)) else []


def _parts(answer: str, way: str) -> list[str]:
    """Return the parts of an answer that names several options: "A, C", "A and C", "AC"; texts between ; or |."""
    if way == "text":
        return re.split(r"\s*[;|]\s*", answer.strip())
    if way == "letter" and re.fullmatch(r"[A-J]{2,10}", answer.strip()):
        return [*answer.strip()]
    return re.split(r"[\s,;|/&+]+", re.sub(r"\b(?:and|or|et|und)\b", ",", answer, flags=re.IGNORECASE).strip())


def _place(answer: Any, options: Sequence[str], labels: Sequence[str], way: str) -> int | None:
    """Return the place of the one option that an answer names."""
    if isinstance(answer, list | Mapping) or answer is None:
        return None
    said = option_text(answer)
    if way == "text":
        if isinstance(answer, int) and not isinstance(answer, bool):
            return None  # a bare number is an index
        names = [normalise_question(option) for option in options]
        return names.index(normalise_question(said)) if normalise_question(said) in names else None
    if way == "letter":
        names, bare = [label.casefold() for label in labels], said.strip("(). :").casefold()
        if bare in names:
            return names.index(bare)
        match = LETTER.fullmatch(said)
        place = LETTERS.index(match[1].upper()) if match else -1
    else:
        is_index = not isinstance(answer, bool) and re.fullmatch(r"\d{1,3}(?:\.0)?", said)
        place = int(float(said)) - int(way) if is_index else -1
    return place if 0 <= place < len(options) else None


def find_ways(choices: Sequence[tuple[int, Choice]], answers_from: Base | None, name: str) -> dict[str, str]:
    """Return how each answer column of a file is read; LabError if two ways fit and differ.

    Columns that no way reads in at least half of their rows are left out, unless that leaves none.
    """
    if not choices:
        return {}
    fields = list(dict.fromkeys(field for _, choice in choices for field in choice.answers))
    candidates: dict[str, list[str]] = {}
    for field in fields:
        filled = [choice for _, choice in choices if field in choice.answers]
        ways = [answers_from] if answers_from else list(WAYS)
        counts = {way: sum(bool(_named_options(choice, {field: way})) for choice in filled) for way in ways}
        best = max(counts.values())
        if best and best >= HALF * len(filled):
            fitting = [way for way, n in counts.items() if n >= NEARLY_ALL * best]
            is_labelled = "letter" in fitting and all(choice.labels for choice in filled)
            candidates[field] = ["letter"] if is_labelled else fitting
    if not candidates:
        return {fields[0]: answers_from or "text"}
    combinations = [dict(zip(candidates, each, strict=True)) for each in product(*candidates.values())]
    agreements = [
        sum(len(set(_named_options(choice, ways).values())) == 1 for _, choice in choices) for ways in combinations
    ]
    fits = [ways for ways, n in zip(combinations, agreements, strict=True) if n >= NEARLY_ALL * max(agreements)]
    for line, choice in choices:
        meanings = {next(iter(_named_options(choice, ways).values()), ()): ways for ways in fits}
        if len(meanings) > 1:
            raise _two_ways(choice, meanings, name, line)
    return combinations[agreements.index(max(agreements))]


def _two_ways(choice: Choice, meanings: Mapping[tuple[int, ...], Mapping[str, str]], name: str, line: int) -> LabError:
    field, answer = next(iter(choice.answers.items()))
    meant = "; ".join(
        f"{WAYS[ways[field]]}: {' and '.join(choice.options[n] for n in places) or 'no option'}"
        for places, ways in meanings.items()
    )
    ways = " or ".join(sorted({ways[field] for ways in meanings.values()}))
    return Unclear(
        f"{name}: whether {field!r} counts from 0 or from 1, or names its option otherwise, cannot be told from the"
        f" file. {answer!r} in line {line} may be {meant}",
        f"Say --answers-from {ways} to `assay data import`",
    )


def _named_options(choice: Choice, ways: Mapping[str, str]) -> dict[str, tuple[int, ...]]:
    """Return the places of the options that each answer column names, without columns that name none."""
    read = {
        field: named_places(choice.answers.get(field), choice.options, choice.labels, way)
        for field, way in ways.items()
    }
    return {field: tuple(places) for field, places in read.items() if places}


def choice_truth(choice: Choice, ways: Mapping[str, str]) -> dict[str, Any]:
    """Return the truth: a choice of one option, or a set of letters with their options as other names."""
    options, named = choice.bare, _named_options(choice, ways)
    if len(set(named.values())) > 1:
        told = ", ".join(f"{field} says {[options[n] for n in places]}" for field, places in named.items())
        raise BadField(next(iter(named)), f"disagrees with another column: {told}; correct one of them")
    if not named:
        field, way = next(iter(ways.items()))
        seen = choice.answers.get(field)
        meant = closest(str(seen), options)
        if meant is not None:
            place = options.index(meant)
            said = {"letter": LETTERS[place], "0": str(place), "1": str(place + 1)}.get(way, meant)
            how = "" if way == "text" else f"; in this file the answer is {WAYS[way]}"
            raise BadField(field, f"{seen!r} is not one of the options: {', '.join(options)}{how}", said)
        raise BadField(
            field,
            f"names none of the options {short_repr(options)}, seen {seen!r}, read as {WAYS[way]};"
            f" write all answers of a file in one way. {NO_ANSWER}",
        )
    places = next(iter(named.values()))
    if len(places) == 1:
        return {"kind": "choice", "value": options[places[0]], "options": options, "lettered": True}
    plain = {n: option for n, option in enumerate(options) if not re.search(r"[,;/|]|\band\b|\bor\b", option)}
    aliases = {LETTERS[n]: [option] for n, option in plain.items()}
    return {"kind": "set", "values": [LETTERS[n] for n in places], "aliases": aliases}
