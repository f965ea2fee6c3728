"""Questions in the layouts of public benchmarks and of people's tables, as rows of a question set.

A layout is a row of layouts.toml: which fields hold the question, its options and the right answer. How an answer
column is read (an index from 0 or from 1, a letter, a label, the text of an option) is decided over all rows of a
file: the way that reads its rows is taken, and where two ways read them and disagree the import stops and asks.
"""

import ast
import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice, product, zip_longest
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict

from evals.errors import BadConfig, LabError, Unclear
from evals.io import first_of, sha256_of_text, short_repr
from evals.questions.sets import (
    LONGEST_ROW,
    SUFFIXES,
    Raw,
    closest,
    examples_of,
    fault_of,
    longer_than,
    normalise_question,
    number_in,
    plain_rows,
)
from evals.schema import CANNOT_BE_TOLD
from evals.schema.questions import QuestionRow, RowFault
from evals.verifiers.line import read_lines

FILES = (*SUFFIXES, ".json", ".parquet")
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
SHARES = (("train", 70), ("dev", 80), ("test", 100))
"""Upper percentiles of the splits: where a file has no split, a group goes to one by its hash."""
FIRST_ROWS = 20
"""Rows in which the fields of a layout are looked for."""
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
NUMBER = re.compile(r"([-+−]?\d(?:[\d.,]*\d)?(?:[eE][-+]?\d+)?)(?:\s+([^\s\d,.;()]{1,12})|\s?(%))?")
LETTER = re.compile(r"\W*(?:option|answer|choice)?\W*([a-z])\W*", re.IGNORECASE)
OWN_LETTER = re.compile(r"\s*\(?([A-Ja-j])\s?([).:、．])")
SEPARATORS = ("|", "\n", ";")
"""What stands between the options in one cell: the first that is there."""
OPTION_TEXT = ("text", "value", "option", "content")
NO_ANSWER = "Take rows without an answer out first"
_UNANSWERED = {"kind": "term", "accept": []}
"""The truth of a question that its text does not answer."""


class Layout(BaseModel):
    """A row of layouts.toml, which describes the fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    about: str = ""
    refuse: str = ""
    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    by: str = ""
    kinds: Mapping[str, Mapping[str, tuple[str, ...]]] = {}
    question: tuple[str, ...] = ()
    context: tuple[str, ...] = ()
    explanation: tuple[str, ...] = ()
    id: tuple[str, ...] = ()
    group: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    split: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    each: tuple[tuple[str, ...], ...] = ()
    inline: bool = False
    fixed: tuple[str, ...] = ()
    words: Mapping[str, str] = {}
    right: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()
    answer: tuple[str, ...] = ()
    accept: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    items: tuple[str, ...] = ()
    impossible: str = ""
    unit: str = ""
    longest: int = 0


Columns = Mapping[str, Sequence[str]]
"""The columns of a table by what they hold, one of `ROLES`."""
ROLES = ("question", "answer", "options", "wrong", "unit", "explanation", "group", "split", "id")
SEVERAL = ("options", "wrong")
"""What may stand in more than one column."""


def split_groups(rows: Iterable[QuestionRow]) -> dict[str, str]:
    """Return a split for each group, so that about 70, 10 and 20 % of the rows train, are for looking, and test.

    The same groups get the same splits each time; one of them tests.
    """
    sizes = Counter(row.group for row in rows)
    groups = sorted(sizes, key=sha256_of_text)
    found, before = {}, 0
    for group in groups:
        middle = 100 * (before + sizes[group] / 2) / sizes.total()
        found[group] = next(split for split, end in SHARES if middle < end)
        before += sizes[group]
    return found | dict.fromkeys(groups[-1:], "test")


class ImportOptions(NamedTuple):
    """Split, source and licence of the rows, the field of their group, and whether bad rows are left out.

    `answers_from` says how answer columns are read, for files that do not tell; `columns` which hold what, instead of a
    layout; `cannot_tell` that some questions cannot be answered, also where no row says so.
    """

    split: str | None = None
    group_field: str | None = None
    source: str | None = None
    licence: str | None = None
    skip_bad: bool = False
    answers_from: Base | None = None
    columns: Columns | None = None
    cannot_tell: bool = False


class ImportedRows(NamedTuple):
    """Rows of a question set, rows left out, the layout, how each answer column was read, the rows' lines.

    `unread` are the fields, as the file spells them, that no row was read from; `columns` which of them hold what.
    """

    rows: list[dict[str, Any]]
    skipped: list[RowFault]
    layout: str
    answers: dict[str, str]
    lines: list[int]
    unread: list[str]
    columns: dict[str, list[str]]


DEFAULTS = ImportOptions()


@cache
def layouts() -> Mapping[str, Layout]:
    """Return the layouts by name, in the order in which they are tried."""
    table = _table()
    return {name: Layout(**{**table["common"], **row}) for name, row in table.items() if name not in BESIDE}


BESIDE = ("common", "guess")
"""Tables of layouts.toml that are no layout."""


@cache
def _table() -> Mapping[str, Any]:
    return tomllib.loads(Path(__file__).with_name("layouts.toml").read_text(encoding="utf-8"))


def guess_columns(names: Sequence[str]) -> dict[str, list[str]]:
    """Return which columns of a table hold what, by their names alone.

    >>> guess_columns(["Frage", "Richtige Antwort", "Falsch 1", "Falsch 2", "Thema"])
    {'question': ['Frage'], 'answer': ['Richtige Antwort'], 'wrong': ['Falsch 1', 'Falsch 2']}
    """
    found: dict[str, list[str]] = {}
    left = [*names]
    for role, pattern in _table()["guess"].items():
        mine = [name for name in left if re.fullmatch(pattern, _fold(name))]
        mine = mine if role in SEVERAL else mine[:1]
        left = [name for name in left if name not in mine]
        found |= {role: mine} if mine else {}
    return {role: found[role] for role in ROLES if role in found}


def _mapped(columns: Columns) -> Layout:
    """Return the layout of a table whose columns hold what is said of them, and nothing else."""
    if unknown := [role for role in columns if role not in ROLES]:
        raise BadConfig(f"a column holds one of {', '.join(ROLES)}, not {unknown[0]!r}")
    if missing := [role for role in ("question", "answer") if not columns.get(role)]:
        raise LabError(f"say which column holds the {'right ' * (missing[0] == 'answer')}{missing[0]}")
    named = {role: tuple(map(_fold, columns.get(role, ()))) for role in ROLES}
    answer, options, several = named["answer"], named["options"], len(named["options"]) > 1
    return layouts()["question-answer"].model_copy(
        update={role: named[role] for role in ("question", "explanation", "group", "split", "id", "wrong")}
        | {"answer": answer, "right": answer, "accept": answer, "unit": "".join(named["unit"])}
        | {"options": () if several else options, "each": (options,) if several else (), "context": (), "tags": ()}
    )


def question_rows(
    path: Path, layout: str | None = None, sheet: str | None = None
) -> tuple[list[Raw], list[RowFault], str]:
    """Return the rows of a file of any layout, lines that are no rows, and how the file was read where that is unclear.

    Raises LabError for a file that cannot be read.
    """
    if path.suffix.lower() not in FILES:
        raise LabError(f"{path} ends in {path.suffix or 'nothing'}; a file of questions is {', '.join(FILES)}")
    return plain_rows(path, sheet, _named(layout).columns if layout else ())


def import_rows(
    rows: Sequence[Raw],
    name: str,
    layout: str | None = None,
    options: ImportOptions = DEFAULTS,
    faults: Sequence[RowFault] = (),
) -> ImportedRows:
    """Return rows of a layout as checked rows of a question set; `faults` are lines that were no rows.

    Without `layout` and columns, the first layout that fits is taken, or what the names of the columns say.
    Raises BadRow with all bad rows unless they are skipped, and LabError if there are no rows, no layout fits, or an
    answer column can be read in two ways.
    """
    if not rows:
        raise first_of([each.error(name) for each in faults]) if faults else LabError(f"{name} holds no rows")
    layout_name, known, rows, columns = _find_reading(rows, layout, name, options)
    if len({line for line, _ in rows}) < len(rows):  # a JSON document on one line: count its rows
        rows = [(n, row) for n, (_, row) in enumerate(rows, 1)]
    spelling = {_fold(key): str(key) for _, row in rows for key in row}
    questions: list[tuple[int, _Question]] = []
    made: list[tuple[int, dict[str, Any]]] = []
    bad: list[RowFault] = [*faults]
    groups: dict[str, str] = {}

    def add_bad(line: int, error: _BadField) -> None:
        bad.append(fault_of(line, None, spelling.get(error.field, error.field), str(error), "", error.meant))

    for line, row in rows:
        try:
            if too_long := longer_than(LONGEST_ROW, row):
                raise _BadField(*too_long)
            question = _question(known, _Fields(row))
            if known.inline and layout is None and not options.columns:
                _refuse_letter(known, question)
            questions.append((line, question))
        except _BadField as error:
            add_bad(line, error)
    truths = [None if known.impossible in each.fields else each.truth for _, each in questions]
    if truths and all(truth == _UNANSWERED for truth in truths):
        raise LabError(f"no row of {name} has an answer: it is a test file whose answers were kept back. {NO_ANSWER}")
    choices = [(line, each.truth) for line, each in questions if isinstance(each.truth, _Choice)]
    ways = _find_ways(choices, options.answers_from, name)
    for line, question in questions:
        try:
            made.append((line, _set_row(known, question, (name, line), ways, groups, options)))
        except _BadField as error:
            add_bad(line, error)
    if not options.cannot_tell and not any(_is_untold(row["truth"]) for _, row in made):
        for _, row in made:
            row["truth"] = {**row["truth"], "answerable": True}
    checked = examples_of(made, name)
    bad += checked.faults
    bad.sort(key=lambda fault: fault.line)
    if bad and not options.skip_bad:
        raise first_of([fault.error(name) for fault in bad])
    bad_lines = {error.line for error in bad}
    good = [(line, row) for line, row in made if line not in bad_lines]
    answers = {spelling.get(field, field): WAYS[way] for field, way in ways.items()}
    left = {field for _, each in questions for field in each.fields} - {
        field for _, each in questions for field in each.fields.read
    }
    unread = [field for folded, field in spelling.items() if folded in left]
    found = [row for _, row in good]
    return ImportedRows(found, bad, layout_name, answers, [line for line, _ in good], unread, columns)


def _is_untold(truth: Mapping[str, Any]) -> bool:
    """Return whether the right answer is that the question cannot be answered."""
    return any(truth.get(name) in ([], None, CANNOT_BE_TOLD) for name in ("value", "values", "accept") if name in truth)


class _BadField(ValueError):
    """What is wrong with a field of a row, and what was probably `meant` by it."""

    def __init__(self, field: str, problem: str, meant: str | None = None) -> None:
        super().__init__(problem)
        self.field, self.meant = field, meant


# ---- fields of a row --------------------------------------------------------------------------


class _Fields(dict[str, Any]):
    """The values of a row that are not empty, by the folded names of their fields; `read` are those that were used."""

    def __init__(self, row: Mapping[str, Any]) -> None:
        super().__init__()
        self.read: set[str] = set()
        for key, value in row.items():
            if value is not None and value != "":
                self.setdefault(_fold(key), value)

    def at(self, name: str) -> Any:
        """Return the value of a field, None if it is missing; "question.stem" leads inside an object."""
        outer, _, inner = name.partition(".")
        inside = self.get(outer) if name not in self else None
        value = _Fields(inside).get(inner) if isinstance(inside, Mapping) and inner else self.get(name)
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


def _fold(name: str) -> str:
    return " ".join(re.sub(r"(?<!^)[_-]", " ", str(name).strip()).casefold().split())  # _type is not type


def _named(layout: str) -> Layout:
    if layout not in layouts():
        raise BadConfig(f"there is no layout {layout!r}; choose one of {', '.join(layouts())}")
    return layouts()[layout]


# ---- which layout, and its rows ---------------------------------------------------------------


def _find_reading(
    rows: Sequence[Raw], layout: str | None, name: str, options: ImportOptions
) -> tuple[str, Layout, Sequence[Raw], dict[str, list[str]]]:
    """Return how a file is read: the name of a layout, the layout, its rows, and which of its columns hold what.

    Options and wrong answers that columns name are read, also where a layout without them fits.
    """
    names = list(dict.fromkeys(str(key) for _, row in rows for key in row))
    if options.columns:
        absent = next((each for cells in options.columns.values() for each in cells if each not in names), None)
        if absent is not None:
            meant = closest(absent, names)
            hint = f"did you mean {meant!r}?" if meant else f"it has {', '.join(names)}"
            raise BadConfig(f"{name} has no column {absent!r}; {hint}")
        mine = {role: [*cells] for role, cells in options.columns.items()}
        return COLUMNS, _mapped(mine), rows, mine
    guess = guess_columns(names) if layout is None else {}
    is_whole = {"question", "answer"} <= guess.keys()
    try:
        found, inside = _find_layout(rows, layout, name)
    except LabError:
        if not is_whole:
            raise
        return COLUMNS, _mapped(guess), rows, guess
    known = layouts()[found]
    fields = {*known.options, *known.wrong, *(each for names in known.each for each in names)}
    if is_whole and {_fold(each) for role in SEVERAL for each in guess.get(role, ())} - fields and inside == [*rows]:
        return COLUMNS, _mapped(guess), rows, guess
    return found, known, inside, _columns_of(known, names)


COLUMNS = "columns by name"
"""How a table is read that has no layout of its own."""


def _columns_of(layout: Layout, names: Sequence[str]) -> dict[str, list[str]]:
    """Return which columns a layout reads as what."""
    spelled = {_fold(name): name for name in names}
    each = next((names for names in layout.each if names[0] in spelled), ())
    fields: dict[str, Sequence[str]] = {
        role: getattr(layout, role) for role in ROLES if role not in ("answer", "options", "unit")
    }
    fields |= {"answer": (*layout.right, *layout.answer, *layout.accept), "options": (*layout.options, *each)}
    fields["unit"] = (layout.unit,)
    found = {role: [spelled[field] for field in fields[role] if field in spelled] for role in ROLES}
    return {role: list(dict.fromkeys(mine)) if role in SEVERAL else mine[:1] for role, mine in found.items() if mine}


def _find_layout(rows: Sequence[Raw], layout: str | None, name: str) -> tuple[str, list[Raw]]:
    """Return the layout of a file and its rows, taken out of a JSON document if need be."""
    by_steps: dict[tuple[str, ...], list[Raw]] = {}
    for found, each in ({layout: _named(layout)} if layout else layouts()).items():
        if each.rows not in by_steps:
            by_steps[each.rows] = [(line, row) for line, whole in rows for row in _rows_in(whole, each.rows, {})]
        inside = by_steps[each.rows]
        fits = (_fits(each, _Fields(row)) for _, row in inside)
        needs_all = not layout and (each.words or each.refuse)
        if inside and (all(fits) if needs_all else any(islice(fits, FIRST_ROWS))):
            if each.refuse:
                raise Unclear(f"the answers of {name} {each.refuse}")
            return found, inside
    keys = [str(key) for key in rows[0][1]]
    has_no_names = len(keys) == 6 and LETTER.fullmatch(keys[-1])
    raise Unclear(
        f"{name} has the fields {', '.join(short_repr(key)[1:-1] for key in keys)}, and"
        f" {f'the layout {layout} does not fit' if layout else 'no layout has them'}"
        f"{'. If its first row names no columns, say --layout mmlu' if has_no_names else ''}",
        "Needed are a question, its options (a list `options` or `choices`, or fields A, B, C, D) and an `answer`;"
        " say which fields these are with --columns, name a layout with --layout, or write a question set:"
        " `assay data new`",
    )


def _rows_in(value: Any, steps: Sequence[str], above: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the rows below a value; a step that it does not have is skipped, so that flat rows are themselves."""
    if isinstance(value, list):
        for each in value:
            yield from _rows_in(each, steps, above)
    elif isinstance(value, Mapping) and not steps:
        yield {**above, **value}
    elif isinstance(value, Mapping):
        step, rest = steps[0], steps[1:]
        if step.startswith("{") and value and all(isinstance(each, Mapping) for each in value.values()):
            for key, each in value.items():
                yield from _rows_in(each, rest, {**above, step.strip("{}"): key})
        elif isinstance(value.get(step), list):
            texts = {key: each for key, each in value.items() if isinstance(each, str | int | float)}
            yield from _rows_in(value[step], rest, {**above, **texts})
        else:
            yield from _rows_in(value, rest, above)


def _fits(layout: Layout, row: _Fields) -> bool:
    """Return whether a row has what a layout needs: its question and a right answer."""
    asked = row.first(layout.question)[1]
    if not isinstance(asked, str | list) or len(row.all(layout.only)) < len(layout.only):
        return False
    if layout.by:
        return str(row.at(layout.by)) in layout.kinds
    try:
        return _right_answer(layout, row, _question_text(asked)) is not None
    except _BadField:
        return True


# ---- from a row to a question -----------------------------------------------------------------


class _Choice(NamedTuple):
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
        is_lettered = len(self.options) > 2 or not any(match and match[2] == "." for match in found)
        if not is_lettered or letters != LETTERS[: len(self.options)]:
            return self.options
        bare = [OWN_LETTER.sub("", option, count=1).strip() for option in self.options]
        return bare if len({normalise_question(option) for option in bare} - {""}) == len(bare) else self.options


class _Question(NamedTuple):
    prompt: str
    fields: _Fields
    truth: dict[str, Any] | _Choice


def _question(layout: Layout, row: _Fields) -> _Question:
    if layout.by:
        kind = str(row.at(layout.by))
        if kind not in layout.kinds:
            raise _BadField(layout.by, f"is none of {', '.join(layout.kinds)}, seen {short_repr(kind)}")
        layout = layout.model_copy(update=dict(layout.kinds[kind]))
    field, asked = row.first(layout.question)
    text = _question_text(asked)
    if not text:
        raise _BadField(field, f"holds no question, seen {short_repr(asked)}; write the question as text")
    beside, context = row.first(layout.context)
    if isinstance(context, list | Mapping):
        context = "\n\n".join(_texts(context))
        if row.at(beside) and not context:
            raise _BadField(
                beside, f"holds no text, seen {short_repr(row.at(beside))}; write it as text, or take it out"
            )
    prompt = f"{context.strip()}\n\n{text}".strip() if isinstance(context, str) else text
    truth = _right_answer(layout, row, text)
    if truth is None:
        names = (*layout.right, *layout.answer, *layout.accept, *layout.values, *layout.items)
        field, value = row.first(names)
        raise _BadField(field, f"says not what is right, seen {short_repr(value)}. {NO_ANSWER}")
    return _Question(prompt, row, truth)


def _question_text(value: Any) -> str:
    """Return a question as text; the messages of a conversation one after another."""
    if isinstance(value, list) and all(isinstance(each, Mapping) for each in value):
        said = [(each.get("name") or each.get("role"), str(each.get("content") or "").strip()) for each in value]
        return "\n\n".join(text if role in ("system", "user") else f"{role}: {text}" for role, text in said if text)
    return value.strip() if isinstance(value, str) else ""


def _right_answer(layout: Layout, row: _Fields, question: str) -> dict[str, Any] | _Choice | None:
    """Return the truth of a row, a choice where answer columns are still to be read, None if it has neither."""
    if row.all(layout.right) and row.all(layout.wrong):
        return _shuffled_choice(layout, row, question)
    answer = row.first(layout.answer)[1]
    if answer is not None and not isinstance(answer, Mapping):
        if choice := _choice(layout, row, question):
            return choice
        said = _option(answer).casefold().rstrip(".")
        if word := {option.casefold(): option for option in layout.fixed}.get(layout.words.get(said, said)):
            return {"kind": "choice", "value": word, "options": [*layout.fixed]}
    if layout.impossible and str(row.at(layout.impossible)).casefold() == "true":
        return _UNANSWERED
    if row.all(layout.accept):
        return _term_truth(layout, row)
    given = row.first(layout.values)[1]
    if given is not None:
        names = [found for each in (given if isinstance(given, list) else [given]) if (found := _texts(each))]
        aliases = {name: others for name, *others in names if others}
        return {"kind": "set", "values": [name for name, *_ in names], "aliases": aliases}
    given = row.first(layout.items)[1]
    return {"kind": "rubric", "items": _texts(given)[:1]} if given is not None else None


def _shuffled_choice(layout: Layout, row: _Fields, question: str) -> dict[str, Any]:
    """Return a choice with its options ordered by hash, the same each time, so that the place tells nothing."""
    field, right = row.first(layout.right)
    wrong = list(row.all(layout.wrong).values())
    others = _options_in(wrong[0])[0] if len(layout.wrong) == 1 else wrong
    options = [_option(each) for each in (right, *others)]
    _check_options(field, options)
    order = sorted(options, key=lambda option: sha256_of_text(f"{question}\0{option}"))
    return {"kind": "choice", "value": options[0], "options": order}


def _choice(layout: Layout, row: _Fields, question: str) -> _Choice | None:
    """Return the options of a row from a list, from columns or from the question; None if there are none."""
    answers, is_inline = row.all(layout.answer), False
    field, listed = row.first(layout.options)
    options, labels = _options_in(listed)
    if len(options) < 2 and not isinstance(listed, list):
        names = next((names for names in layout.each if names[0] in row and len(row.all(names)) > 1), ())
        columns = row.all(names)
        field = names[0] if names else layout.question[0]
        if missing := [name for name in names[: len(columns)] if name not in columns]:
            raise _BadField(missing[0], f"is empty, and there are options after it; {list(columns)} have one")
        options, labels = [_option(value) for value in columns.values()], []
        if layout.inline and not names:
            inline = _inline(question)
            is_inline = bool(_read(next(iter(answers.values())), inline, [], "letter"))
            options = inline if is_inline else []
        if not options:
            return None
    _check_options(field, options)
    return _Choice(options, labels, answers, is_inline)


def _term_truth(layout: Layout, row: _Fields) -> dict[str, Any]:
    """Return a term; where the layout says so a number, or a rubric for a long answer."""
    field, given = row.first(layout.accept)
    wordings = list(dict.fromkeys(_texts(given)))
    if not wordings and not layout.impossible:
        raise _BadField(field, f"holds no answer, seen {short_repr(given)}. {NO_ANSWER}")
    if layout.longest:
        number = NUMBER.fullmatch(wordings[0]) if len(wordings) == 1 else None
        unit = str(row.at(layout.unit) or "").strip()
        if unit and number is None:
            problem = f"is no number, seen {wordings[0]!r}, and its unit is {unit!r}"
            raise _BadField(field, problem, number_in(wordings[0]))
        if number is not None:
            unit = unit or str(number[2] or number[3] or "")
            return {"kind": "number", "value": number[1].replace("−", "-"), **({"unit": unit} if unit else {})}
        if min(len(each.split()) for each in wordings) > layout.longest:
            return {"kind": "rubric", "items": wordings[:1]}
    return {"kind": "term", "accept": wordings}


def _refuse_letter(layout: Layout, question: _Question) -> None:
    """Raise _BadField for an answer that is a letter, though no options were found in the question."""
    wordings = question.truth.get("accept", []) if isinstance(question.truth, dict) else []
    if wordings and len(wordings[0]) == 1 and wordings[0].isalpha():
        raise _BadField(
            question.fields.first(layout.accept)[0],
            f"is the letter {wordings[0]!r}, and no options were found; call their columns A, B, C, D, or say --layout"
            " question-answer if letters are the answers",
        )


def _set_row(
    layout: Layout,
    question: _Question,
    place: tuple[str, int],
    ways: Mapping[str, str],
    groups: dict[str, str],
    options: ImportOptions,
) -> dict[str, Any]:
    """Return a question as a row of a set; `groups` holds the group of each prompt so far."""
    prompt, fields, truth = question
    if isinstance(truth, _Choice):
        choice, truth = truth, _choice_truth(truth, ways)
        if truth["kind"] == "set" and not choice.is_inline:
            listed = "\n".join(f"{LETTERS[n]}. {option}" for n, option in enumerate(choice.bare))
            prompt = f"{prompt}\n\n{listed}"
    name, line = place
    given = fields.first(layout.id)[1]
    row_id = f"{name}/{line if given is None else given}"
    group = fields.first([_fold(options.group_field)] if options.group_field else layout.group)[1]
    if group is None and options.group_field:
        raise _BadField(options.group_field, "is missing, and is to be the group; name another with --group")
    group = next(each for each in (group, given, row_id) if each is not None)
    group = groups.setdefault(normalise_question(prompt), str(group))
    percentile = int(sha256_of_text(group)[:8], 16) % 100
    split = fields.first(layout.split)[1] or next(share for share, end in SHARES if percentile < end)
    said = fields.first(layout.explanation)[1]
    said = next(iter(said), "") if isinstance(said, list) else said
    explanation = said.strip() if isinstance(said, str) else ""
    if read_lines(explanation).answer is not None:
        explanation = ""  # an answer line in an explanation would be read as a second answer
    tags = [str(tag).strip() for tag in fields.all(layout.tags).values() if isinstance(tag, str | int)]
    row = {
        "id": row_id,
        "prompt": prompt,
        "truth": truth,
        "group": group,
        "split": options.split or split,
        "tags": [tag for tag in tags if tag],
        "explanation": explanation or None,
        "source": options.source or name,
        "licence": options.licence,
    }
    return {key: value for key, value in row.items() if value not in (None, [])}


# ---- options ----------------------------------------------------------------------------------


def _texts(value: Any) -> list[str]:
    """Return the texts of a value: its own, or those in lists and objects, which may be written as text."""
    if isinstance(value, str) and (parsed := _parse_literal(value)) is not None:
        return _texts(parsed)
    if isinstance(value, list):
        return [text for each in value for text in _texts(each)]
    if isinstance(value, Mapping):
        return _texts(value.get("text", value.get("value")))
    return [_option(value)] if value is not None and _option(value) else []


def _option(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return re.sub(r"\s*\n\s*", " ", str(value).strip())  # an answer line is one line


def _check_options(field: str, options: Sequence[str]) -> None:
    """Raise _BadField for fewer than two options, an empty one, or two that differ in case, blanks or form alone."""
    if len(options) < 2 or not all(options):
        raise _BadField(field, f"needs two or more options and none empty, seen {short_repr(list(options))}")
    for n, option in enumerate(options):
        other = next((each for each in options[:n] if normalise_question(each) == normalise_question(option)), None)
        if other is not None:
            how = "stands twice" if other == option else f"and {other!r} differ in case, blanks or form alone"
            raise _BadField(field, f"needs options that differ in a letter or digit: {option!r} {how}")


def _options_in(value: Any) -> tuple[list[str], list[str]]:
    """Return options and their labels of a list, an object by letter, a list of objects, or a text of these."""
    if isinstance(value, str):
        mark = next((each for each in SEPARATORS if each in value), "|")
        value = _parse_literal(value) or value.split(mark)
    if isinstance(value, Mapping) and isinstance(value.get("text"), list):
        pairs = list(zip_longest(value.get("label", ()), value["text"]))
    elif isinstance(value, Mapping):
        pairs = list(value.items())
    elif isinstance(value, list):
        rows = [_Fields(each if isinstance(each, Mapping) else {"text": each}) for each in value]
        pairs = [(row.first(("label", "key", "letter", "id"))[1], row.first(OPTION_TEXT)[1]) for row in rows]
    else:
        return [], []
    known = [(label, _option(option)) for label, option in pairs if option is not None]
    has_labels = all(label is not None for label, _ in known)
    return [option for _, option in known], [str(label) for label, _ in known] if has_labels else []


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


def _inline(question: str) -> list[str]:
    """Return the options that stand in a question as (A) … (B) …; [] if there are none."""
    for pattern, first in product(INLINE, "Aa"):
        starts: list[re.Match[str]] = []
        for match in pattern.finditer(question):
            if match[1] == chr(ord(first) + len(starts)):
                starts.append(match)
            elif match[1] == first and len(starts) == 1:
                starts = [match]
        if len(starts) > 1:
            ends = [*(match.start() for match in starts[1:]), len(question)]
            spans = zip(starts, ends, strict=True)
            return [question[match.end() : end].strip(" \n\t(;").split("\n")[0].strip() for match, end in spans]
    return []


# ---- how an answer column is read -------------------------------------------------------------


def _read(answer: Any, options: Sequence[str], labels: Sequence[str], way: str) -> list[int]:
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
    said = _option(answer)
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


def _find_ways(choices: Sequence[tuple[int, _Choice]], answers_from: Base | None, name: str) -> dict[str, str]:
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


def _two_ways(choice: _Choice, meanings: Mapping[tuple[int, ...], Mapping[str, str]], name: str, line: int) -> LabError:
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


def _named_options(choice: _Choice, ways: Mapping[str, str]) -> dict[str, tuple[int, ...]]:
    """Return the places of the options that each answer column names, without columns that name none."""
    read = {field: _read(choice.answers.get(field), choice.options, choice.labels, way) for field, way in ways.items()}
    return {field: tuple(places) for field, places in read.items() if places}


def _choice_truth(choice: _Choice, ways: Mapping[str, str]) -> dict[str, Any]:
    """Return the truth: a choice of one option, or a set of letters with their options as other names."""
    options, named = choice.bare, _named_options(choice, ways)
    if len(set(named.values())) > 1:
        told = ", ".join(f"{field} says {[options[n] for n in places]}" for field, places in named.items())
        raise _BadField(next(iter(named)), f"disagrees with another column: {told}; correct one of them")
    if not named:
        field, way = next(iter(ways.items()))
        seen = choice.answers.get(field)
        meant = closest(str(seen), options)
        if meant is not None:
            place = options.index(meant)
            said = {"letter": LETTERS[place], "0": str(place), "1": str(place + 1)}.get(way, meant)
            how = "" if way == "text" else f"; in this file the answer is {WAYS[way]}"
            raise _BadField(field, f"{seen!r} is not one of the options: {', '.join(options)}{how}", said)
        raise _BadField(
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
