"""Questions in the layouts of public benchmarks and of people's tables, as rows of a question set.

A layout is a row of layouts.toml: which fields hold the question, its options and the right answer. How an answer
column is read is decided over all rows of a file (`evals.questions.options`).
"""

import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict

from evals.errors import BadConfig, LabError, Unclear
from evals.io import first_of, sha256_of_text, short_repr
from evals.questions.options import (
    LETTER,
    LETTERS,
    NO_ANSWER,
    WAYS,
    BadField,
    Base,
    Choice,
    Fields,
    check_options,
    choice_truth,
    find_ways,
    fold_name,
    inline_options,
    listed_options,
    named_places,
    option_text,
    scored_options,
    texts_in,
)
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
    settle_thousands,
)
from evals.schema import CANNOT_BE_TOLD
from evals.schema.questions import QuestionRow, RowFault
from evals.verifiers.line import read_lines
from evals.verifiers.numbers import LARGE, unit_of

FILES = (*SUFFIXES, ".json", ".parquet")
SHARES = (("train", 70), ("dev", 80), ("test", 100))
"""Upper percentiles of the splits: where a file has no split, a group goes to one by its hash."""
FIRST_ROWS = 200
"""Rows in which the fields of a layout are looked for."""
NUMBER = re.compile(r"([-+−]?\d(?:[\d.,]*\d)?(?:[eE][-+]?\d+)?)(?:\s+([^\s\d,.;()]{1,12})|\s?(%))?")
DERIVED = re.compile(r"(.*)\s#### *([^\n]+)", re.DOTALL)
"""An answer of GSM8K: its derivation, and behind "####" what comes out."""
SPOILT = re.compile(r"\d{1,2}-(?:Mar|Sep|Oct|Dec)|#(?:N/A|REF!|NAME\?|VALUE!|DIV/0!|NUM!|NULL!)")
"""What spreadsheets make of formulas and of genes such as SEPT2 (Ziemann et al. 2016, doi:10.1186/s13059-016-1044-7)."""
BRACKETS = re.compile(r"\s*[(\[]([^()\[\]]+)[)\]]$")
"""Behind the name of a column: its unit, or a note."""
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
    scores: tuple[str, ...] = ()
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
    measured: str = ""
    limits: tuple[str, ...] = ()
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


BESIDE = ("common", "guess", "decimal_comma")
"""Entries of layouts.toml that are no layout."""


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
    for key, pattern in _table()["guess"].items():
        role = key.removesuffix("_otherwise")
        mine = [name for name in left if role not in found and re.fullmatch(pattern, fold_name(BRACKETS.sub("", name)))]
        mine = mine if role in SEVERAL else mine[:1]
        left = [name for name in left if name not in mine]
        found |= {role: mine} if mine else {}
    return {role: found[role] for role in ROLES if role in found}


def _layout_of_columns(columns: Columns) -> Layout:
    """Return the layout of a table whose columns hold what is said of them, and nothing else."""
    if unknown := [role for role in columns if role not in ROLES]:
        raise BadConfig(f"a column holds one of {', '.join(ROLES)}, not {unknown[0]!r}")
    if missing := [role for role in ("question", "answer") if not columns.get(role)]:
        raise LabError(f"say which column holds the {'right ' * (missing[0] == 'answer')}{missing[0]}")
    named = {role: tuple(map(fold_name, columns.get(role, ()))) for role in ROLES}
    answer, options, several = named["answer"], named["options"], len(named["options"]) > 1
    measured = "".join(filter(unit_of, BRACKETS.findall(columns["answer"][0])))
    return layouts()["question-answer"].model_copy(
        update={role: named[role] for role in ("question", "explanation", "group", "split", "id", "wrong")}
        | {"answer": answer, "right": answer, "accept": answer, "unit": "".join(named["unit"]), "measured": measured}
        | {"options": () if several else options, "each": (options,) if several else (), "context": ()}
    )


def question_rows(
    path: Path, layout: str | None = None, sheet: str | None = None
) -> tuple[list[Raw], list[RowFault], str]:
    """Return the rows of a file of any layout, lines that are no rows, and how the file was read where that is unclear.

    Raises LabError for a file that cannot be read.
    """
    if path.suffix.lower() not in FILES:
        raise LabError(f"{path} ends in {path.suffix or 'nothing'}; a file of questions is {', '.join(FILES)}")
    return plain_rows(path, sheet, _layout_called(layout).columns if layout else ())


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
    spelling = {fold_name(key): str(key) for _, row in rows for key in row}
    questions: list[tuple[int, _Question]] = []
    made: list[tuple[int, dict[str, Any]]] = []
    bad: list[RowFault] = [*faults]
    groups: dict[str, str] = {}

    def add_bad(line: int, error: BadField) -> None:
        bad.append(fault_of(line, None, spelling.get(error.field, error.field), str(error), "", error.meant))

    for line, row in rows:
        try:
            if too_long := longer_than(LONGEST_ROW, row):
                raise BadField(*too_long)
            question = _question(known, Fields(row))
            if known.inline and layout is None and not options.columns:
                _refuse_letter(known, question)
            questions.append((line, question))
        except BadField as error:
            add_bad(line, error)
    truths = [None if known.impossible in each.fields else each.truth for _, each in questions]
    if truths and all(truth == _UNANSWERED for truth in truths):
        raise LabError(f"no row of {name} has an answer: it is a test file whose answers were kept back. {NO_ANSWER}")
    has_comma = any(re.fullmatch(_table()["decimal_comma"], name) for name in spelling)
    has_thousands = settle_thousands((each.truth for _, each in questions if isinstance(each.truth, dict)), has_comma)
    choices = [(line, each.truth) for line, each in questions if isinstance(each.truth, Choice)]
    ways = find_ways(choices, options.answers_from, name)
    for line, question in questions:
        try:
            made.append((line, _set_row(known, question, (name, line), ways, groups, options)))
        except BadField as error:
            add_bad(line, error)
    if not options.cannot_tell and not any(_is_untold(row["truth"]) for _, row in made):
        for _, row in made:
            row["truth"] = {**row["truth"], "answerable": True}
    said = {n: texts_in([each["truth"].get(name) for name in ("value", "accept", "options")]) for n, each in made}
    spoilt = {line: text for line, texts in said.items() for text in texts if SPOILT.fullmatch(text)}
    for line, text in spoilt.items():
        told = f"{text!r} is what a spreadsheet makes of a formula, or of a name such as SEPT2; write the name as text"
        add_bad(line, BadField(fold_name(next(iter(columns.get("answer", ())), "truth")), told))
    made = [(line, row) for line, row in made if line not in spoilt]
    checked = examples_of(made, name)
    bad += checked.faults
    bad.sort(key=lambda fault: fault.line)
    if bad and not options.skip_bad:
        raise first_of([fault.error(name) for fault in bad])
    bad_lines = {error.line for error in bad}
    good = [(line, row) for line, row in made if line not in bad_lines]
    answers = {spelling.get(field, field): WAYS[way] for field, way in ways.items()}
    if has_thousands:
        answers |= dict.fromkeys(columns.get("answer", ()), "numbers, 1.234 as 1234")
    left = {field for _, each in questions for field, value in each.fields.items() if _holds(value)} - {
        field for _, each in questions for field in each.fields.read
    }
    unread = [field for folded, field in spelling.items() if folded in left]
    found = [row for _, row in good]
    kinds = {row["truth"]["kind"] for row in found}
    is_guessed = layout is None and not options.columns
    passed = _like_options(unread, {text for texts in said.values() for text in texts})
    if is_guessed and kinds and kinds <= {"number", "term"} and passed:
        raise LabError(
            f"the columns {', '.join(passed)} of {name} look like options, and the answers were read without them; say"
            ' what they hold with --columns, such as "question=Q,answer=Key,options=A|B|C", or take them out'
        )
    return ImportedRows(found, bad, layout_name, answers, [line for line, _ in good], unread, columns)


def _like_options(fields: Sequence[str], answers: set[str]) -> list[str]:
    """Return the fields that are called so, or numbered and of one name: pick1, pick2, pick3, or two that answers number."""
    stem = {field: field.rstrip("0123456789") for field in fields if field[-1:].isdigit()}
    sizes, called = Counter(stem.values()), guess_columns(fields)
    named = [field for role in SEVERAL for field in called.get(role, ())]
    least = 2 if answers <= {field.removeprefix(of) for field, of in stem.items()} else 3
    return named or [field for field, of in stem.items() if sizes[of] >= least]


def _holds(value: Any) -> bool:
    """Return whether a value has content; an object of empty lists has none."""
    if isinstance(value, Mapping):
        value = [*value.values()]
    return any(map(_holds, value)) if isinstance(value, list) else value not in (None, "")


def _is_untold(truth: Mapping[str, Any]) -> bool:
    """Return whether the right answer is that the question cannot be answered."""
    return any(truth.get(name) in ([], None, CANNOT_BE_TOLD) for name in ("value", "values", "accept") if name in truth)


def _layout_called(layout: str) -> Layout:
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
        return COLUMNS, _layout_of_columns(mine), rows, mine
    filled = dict.fromkeys(str(key) for _, row in rows for key, value in row.items() if _holds(value))
    guess = guess_columns([*filled]) if layout is None else {}
    is_whole = {"question", "answer"} <= guess.keys()
    try:
        found, inside = _find_layout(rows, layout, name)
    except LabError:
        if not is_whole:
            raise
        return COLUMNS, _layout_of_columns(guess), rows, guess
    known = layouts()[found]
    fields = {*known.options, *known.wrong, *(each for names in known.each for each in names)}
    if (
        is_whole
        and {fold_name(each) for role in SEVERAL for each in guess.get(role, ())} - fields
        and inside == [*rows]
    ):
        return COLUMNS, _layout_of_columns(guess), rows, guess
    return found, known, inside, _columns_of(known, names)


COLUMNS = "columns by name"
"""How a table is read that has no layout of its own."""


def _columns_of(layout: Layout, names: Sequence[str]) -> dict[str, list[str]]:
    """Return which columns a layout reads as what."""
    spelled = {fold_name(name): name for name in names}
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
    for found, each in ({layout: _layout_called(layout)} if layout else layouts()).items():
        if each.rows not in by_steps:
            by_steps[each.rows] = [(line, row) for line, whole in rows for row in _rows_in(whole, each.rows, {})]
        inside = by_steps[each.rows]
        fits = (_fits(each, Fields(row)) for _, row in inside)
        needs_all = not layout and (each.words or each.refuse)
        if inside and (all(fits) if needs_all else any(islice(fits, FIRST_ROWS))):
            if each.refuse:
                raise Unclear(f"the answers of {name} {each.refuse}")
            return found, inside
    keys = [str(key) for key in rows[0][1]]
    why = f"the layout {layout} does not fit" if layout else "their names do not tell question and right answer"
    has_no_names = len(keys) == 6 and LETTER.fullmatch(keys[-1])
    raise Unclear(
        f"{name} has the columns {', '.join(short_repr(key)[1:-1] for key in keys)}, and"
        f" {why}{'. If its first row names no columns, say --layout mmlu' if has_no_names else ''}",
        'Say it with --columns, such as "question=Q,answer=Key" (options=A|B|C or wrong=X|Y where there are any), name a'
        " layout with --layout, or write a question set: `assay data new`",
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
        elif isinstance(value.get(step), list | Mapping):
            texts = {key: each for key, each in value.items() if isinstance(each, str | int | float)}
            yield from _rows_in(value[step], rest, {**above, **texts})
        else:
            yield from _rows_in(value, rest, above)


def _fits(layout: Layout, row: Fields) -> bool:
    """Return whether a row has what a layout needs: its question and a right answer."""
    asked = row.first(layout.question)[1]
    if not isinstance(asked, str | list) or len(row.all(layout.only)) < len(layout.only):
        return False
    if layout.by:
        return str(row.at(layout.by)) in layout.kinds
    try:
        return _right_answer(layout, row, _question_text(asked)) is not None
    except BadField:
        return True


# ---- from a row to a question -----------------------------------------------------------------


class _Question(NamedTuple):
    prompt: str
    fields: Fields
    truth: dict[str, Any] | Choice


def _question(layout: Layout, row: Fields) -> _Question:
    if layout.by:
        kind = str(row.at(layout.by))
        if kind not in layout.kinds:
            raise BadField(layout.by, f"is none of {', '.join(layout.kinds)}, seen {short_repr(kind)}")
        layout = layout.model_copy(update=dict(layout.kinds[kind]))
    field, asked = row.first(layout.question)
    text = _question_text(asked)
    if not text:
        raise BadField(field, f"holds no question, seen {short_repr(asked)}; write the question as text")
    beside, context = row.first([name for name in layout.context if name != field])
    if isinstance(context, list | Mapping):
        context = "\n\n".join(texts_in(context))
        if row.at(beside) and not context:
            raise BadField(
                beside, f"holds no text, seen {short_repr(row.at(beside))}; write it as text, or take it out"
            )
    is_beside = isinstance(context, str) and context.strip() not in text
    prompt = f"{context.strip()}\n\n{text}" if is_beside else text
    truth = _right_answer(layout, row, text)
    if truth is None:
        names = (*layout.right, *layout.answer, *layout.accept, *layout.values, *layout.items)
        field, value = row.first(names)
        raise BadField(field, f"says not what is right, seen {short_repr(value)}. {NO_ANSWER}")
    return _Question(prompt, row, truth)


def _question_text(value: Any) -> str:
    """Return a question as text; the messages of a conversation one after another."""
    if isinstance(value, list) and all(isinstance(each, Mapping) for each in value):
        said = [(each.get("name") or each.get("role"), str(each.get("content") or "").strip()) for each in value]
        return "\n\n".join(text if role in ("system", "user") else f"{role}: {text}" for role, text in said if text)
    return value.strip() if isinstance(value, str) else ""


def _right_answer(layout: Layout, row: Fields, question: str) -> dict[str, Any] | Choice | None:
    """Return the truth of a row, a choice where answer columns are still to be read, None if it has neither."""
    if row.all(layout.right) and row.all(layout.wrong):
        return _shuffled_choice(layout, row, question)
    field, scored = row.first(layout.scores)
    if scores := scored_options(scored):
        options = [*scores]
        check_options(field, options)
        return Choice(options, [], {field: [option for option in options if scores[option]]}, is_inline=False)
    answer = row.first(layout.answer)[1]
    if answer is not None and not isinstance(answer, Mapping):
        if choice := _choice(layout, row, question):
            return choice
        said = "".join(texts_in(answer)).casefold().rstrip(".")
        if word := {option.casefold(): option for option in layout.fixed}.get(layout.words.get(said, said)):
            return {"kind": "choice", "value": word, "options": [*layout.fixed]}
    if layout.impossible and str(row.at(layout.impossible)).casefold() == "true":
        return _UNANSWERED
    if row.first(layout.accept)[1] is not None:
        return _term_truth(layout, row)
    given = row.first(layout.values)[1]
    if given is not None:
        names = [found for each in (given if isinstance(given, list) else [given]) if (found := texts_in(each))]
        aliases = {name: others for name, *others in names if others}
        return {"kind": "set", "values": [name for name, *_ in names], "aliases": aliases}
    given = row.first(layout.items)[1]
    return {"kind": "rubric", "items": texts_in(given)[:1]} if given is not None else None


def _shuffled_choice(layout: Layout, row: Fields, question: str) -> dict[str, Any]:
    """Return a choice with its options ordered by hash, the same each time, so that the place tells nothing."""
    field, right = row.first(layout.right)
    wrong = list(row.all(layout.wrong).values())
    others = listed_options(wrong[0])[0] if len(layout.wrong) == 1 else wrong
    options = [option_text(each) for each in (right, *others)]
    check_options(field, options)
    order = sorted(options, key=lambda option: sha256_of_text(f"{question}\0{option}"))
    return {"kind": "choice", "value": options[0], "options": order}


def _choice(layout: Layout, row: Fields, question: str) -> Choice | None:
    """Return the options of a row from a list, from columns or from the question; None if there are none."""
    answers, is_inline = row.all(layout.answer), False
    field, listed = row.first(layout.options)
    options, labels = listed_options(listed)
    if len(options) == 1 and isinstance(listed, str):  # as Inspect reads a CSV file
        options = [part.strip() for part in listed.split(",")]
    if len(options) < 2 and not isinstance(listed, list):
        names = next((names for names in layout.each if names[0] in row and len(row.all(names)) > 1), ())
        columns = row.all(names)
        field = names[0] if names else layout.question[0]
        if missing := [name for name in names[: len(columns)] if name not in columns]:
            raise BadField(missing[0], f"is empty, and there are options after it; {list(columns)} have one")
        options, labels = [option_text(value) for value in columns.values()], []
        if layout.inline and not names:
            inline = inline_options(question)
            is_inline = bool(named_places(next(iter(answers.values())), inline, [], "letter"))
            options = inline if is_inline else []
        if not options:
            return None
    check_options(field, options)
    return Choice(options, labels, answers, is_inline)


def _term_truth(layout: Layout, row: Fields) -> dict[str, Any]:
    """Return a term; where the layout says so a number, or a rubric for a long answer."""
    field, given = row.first(layout.accept)
    wordings = list(dict.fromkeys(texts_in(given)))
    if len(wordings) == 1 and (derived := DERIVED.fullmatch(wordings[0].strip())):
        wordings = [derived[2].strip()]
    if not wordings and not layout.impossible:
        raise BadField(field, f"holds no answer, seen {short_repr(given)}. {NO_ANSWER}")
    if layout.longest:
        number = NUMBER.fullmatch(wordings[0]) if len(wordings) == 1 else None
        unit = str(row.at(layout.unit) or layout.measured).strip()
        if unit and number is None:
            problem = f"is no number, seen {wordings[0]!r}, and its unit is {unit!r}"
            raise BadField(field, problem, number_in(wordings[0]))
        if number is not None:
            unit, value = unit or str(number[2] or number[3] or ""), number[1].replace("−", "-")
            if unit in LARGE:
                unit, value = "", f"{float(value.replace(',', '')) * LARGE[unit]:.15g}"
            numbers = [str(each) for each in (*row.all(layout.limits).values(), value)]
            is_bounded = len(numbers) > 1 and all(re.fullmatch(r"-?\d+(?:\.\d+)?", each) for each in numbers)
            distance = max(abs(float(each) - float(numbers[-1])) for each in numbers) if is_bounded else 0
            told = {"unit": unit, "tolerance": f"{distance:.6g}" if distance else ""}
            return {"kind": "number", "value": value} | {name: each for name, each in told.items() if each}
        if min(len(each.split()) for each in wordings) > layout.longest:
            return {"kind": "rubric", "items": wordings[:1]}
    return {"kind": "term", "accept": wordings}


def _refuse_letter(layout: Layout, question: _Question) -> None:
    """Raise BadField for an answer that is a letter, though no options were found in the question."""
    wordings = question.truth.get("accept", []) if isinstance(question.truth, dict) else []
    if wordings and len(wordings[0]) == 1 and wordings[0].isalpha():
        raise BadField(
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
    if isinstance(truth, Choice):
        choice, truth = truth, choice_truth(truth, ways)
        if truth["kind"] == "set" and not choice.is_inline:
            listed = "\n".join(f"{LETTERS[n]}. {option}" for n, option in enumerate(choice.bare))
            prompt = f"{prompt}\n\n{listed}"
    name, line = place
    given = fields.first(layout.id)[1]
    row_id = f"{name}/{line if given is None else given}"
    group = fields.first([fold_name(options.group_field)] if options.group_field else layout.group)[1]
    if group is None and options.group_field:
        raise BadField(options.group_field, "is missing, and is to be the group; name another with --group")
    group = next(each for each in (group, given, row_id) if each is not None)
    group = groups.setdefault(normalise_question(prompt), str(group))
    percentile = int(sha256_of_text(group)[:8], 16) % 100
    split = fields.first(layout.split)[1] or next(share for share, end in SHARES if percentile < end)
    said = fields.first(layout.explanation)[1]
    said = next(iter(said), "") if isinstance(said, list) else said
    if said is None and (derived := DERIVED.fullmatch(str(fields.first(layout.accept)[1] or "").strip())):
        said = derived[1]
    explanation = said.strip() if isinstance(said, str) else ""
    if (lines := read_lines(explanation)).answer is not None:  # it would be read as a second answer
        explanation = lines.explanation if read_lines(lines.explanation).answer is None else ""
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
