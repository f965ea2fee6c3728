"""Multiple-choice questions in the layouts of public benchmarks, as rows of a question set.

A layout is a table of field names (layouts.yaml), found by the fields that a row has. An answer may be an
index, a letter or the text of an option: a letter or label that the layout gives goes first, then the exact
text, then the index. Indices count from 0, or from 1 where no row says 0 and one says as many as there are options.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from evals.errors import BadConfig, BadRow, LabError
from evals.io import first_of
from evals.questions.bank import normalised
from evals.questions.prompt import digest
from evals.questions.sets import Raw, examples_of
from evals.verifiers.line import read_lines

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
SHARES = (("train", 70), ("dev", 80), ("test", 100))
"""Without a split of its own, a group goes to one of these by its hash, up to so many in a hundred."""
YES_NO = {True: "yes", False: "no"}


class ImportOptions(NamedTuple):
    """Split, group, source and licence of rows that do not say; `skip_bad` leaves out what cannot be used."""

    split: str | None = None
    group_field: str | None = None
    source: str | None = None
    licence: str | None = None
    skip_bad: bool = False


AS_IT_IS = ImportOptions()


@cache
def layouts() -> Mapping[str, Mapping[str, Any]]:
    """Return the layouts by name."""
    return yaml.safe_load(Path(__file__).with_name("layouts.yaml").read_text(encoding="utf-8"))


def import_rows(
    rows: Sequence[Raw], layout: str, name: str, options: ImportOptions = AS_IT_IS
) -> tuple[list[dict[str, Any]], list[BadRow]]:
    """Return rows of a layout as rows of a question set, each checked, and what was skipped.

    Unless bad rows are to be skipped, BadRow names all that are bad and nothing is returned.
    """
    if layout not in layouts():
        raise BadConfig(f"there is no layout {layout!r}; choose one of {', '.join(layouts())}")
    if not rows:
        raise LabError(f"{name} holds no rows")
    table = layouts()[layout]
    shape = _shape(rows[0][1], table, name)
    first = _first_index(rows, shape)
    made: list[tuple[int, dict[str, Any]]] = []
    bad: list[BadRow] = []
    groups: dict[str, str] = {}
    for line, row in rows:
        try:
            made.append((line, _row(row, table, shape, first, f"{name}/{line}", options, groups)))
        except _Unfit as error:
            bad.append(BadRow(name, line, error.field, str(error)))
    checked = examples_of(made, name)
    bad += [each.error(name) for each in checked.faults]
    bad.sort(key=lambda each: each.line)
    if bad and not (options.skip_bad and checked.examples):
        raise first_of(bad)
    wrong = {each.line for each in bad}
    return [row for line, row in made if line not in wrong], bad


class _Unfit(ValueError):
    def __init__(self, field: str, problem: str) -> None:
        super().__init__(problem)
        self.field = field


def _shape(row: Mapping[str, Any], table: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    for shape in table["shapes"]:
        needed = [shape[key] for key in ("right", "list", "answer") if key in shape] + shape.get("fields", [])[:2]
        if all(_first(row, fields)[1] is not None for fields in needed):
            return shape
    raise LabError(
        f"{name} has the fields {', '.join(row)}, and no layout has them. Needed are a question, its options (a list"
        " `options` or `choices`, or fields A, B, C, D) and an `answer` (index, letter or text); rename your fields,"
        " or write a question set: `assay data new`"
    )


def _row(
    row: Mapping[str, Any],
    table: Mapping[str, Any],
    shape: Mapping[str, Any],
    first: int,
    place: str,
    wishes: ImportOptions,
    groups: dict[str, str],
) -> dict[str, Any]:
    name = place.rpartition("/")[0]
    field, question = _first(row, table["question"])
    if not isinstance(question, str) or not question.strip():
        raise _Unfit(field, f"holds no question, seen {question!r}; write the question as text")
    choices, labels = _choices(row, shape)
    right = choices[0] if "right" in shape else _right(row, shape, choices, labels, first)
    if "right" in shape:
        # Where a layout puts the right one first, the place must not tell: an order by hash, the same each time.
        choices.sort(key=lambda option: hashlib.sha256(f"{question}\0{option}".encode()).digest())
    context = _first(row, table["context"])[1]
    passage = "\n\n".join(map(str, context)) if isinstance(context, list) else str(context or "")
    prompt = f"{passage.strip()}\n\n{question.strip()}".strip()
    given = _first(row, table["id"])[1]
    group = _at(row, wishes.group_field) if wishes.group_field else given or place
    if group is None:
        raise _Unfit(wishes.group_field or "", "is missing, and is to be the group; name another with --group")
    same = groups.setdefault(normalised(prompt), str(group))
    draw = int(digest(same)[:8], 16) % 100
    explanation = _first(row, table["explanation"])[1]
    text = explanation.strip() if isinstance(explanation, str) else ""
    if read_lines(text).answer is not None:
        text = ""  # an explanation with an answer line of its own would be read as a second answer
    tags = (row.get(each) for each in table["tags"])
    made: dict[str, Any] = {
        "id": f"{name}/{given}" if given is not None else place,
        "prompt": prompt,
        "truth": {"kind": "choice", "value": right, "options": choices},
        "group": same,
        "split": wishes.split or _first(row, table["split"])[1] or next(name for name, end in SHARES if draw < end),
        "tags": [str(tag) for tag in tags if isinstance(tag, str | int) and str(tag).strip()],
        "explanation": text or None,
        "source": wishes.source or name,
        "licence": wishes.licence,
    }
    return {key: value for key, value in made.items() if value not in (None, [])}


def _choices(row: Mapping[str, Any], shape: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    if "options" in shape:
        return list(shape["options"]), []
    labels: list[str] = []
    if "right" in shape:
        wrong = shape["wrong"]
        others = _at(row, wrong) if isinstance(wrong, str) else [_at(row, field) for field in wrong]
        found, field = [_at(row, shape["right"]), *(others or [])], str(shape["right"])
    elif "fields" in shape:
        named = [(name, row[name]) for name in shape["fields"] if row.get(name) not in (None, "")]
        found, field = [value for _, value in named], shape["fields"][0]
        labels = [LETTERS[place] for place in range(len(found))]
    else:
        field = shape["list"]
        found, labels = _unpacked(_at(row, field))
        labels = [str(each) for each in _at(row, shape.get("letters")) or labels]
    choices = [YES_NO[each] if isinstance(each, bool) else str(each).strip() for each in found if each is not None]
    if len({choice.casefold() for choice in choices} - {""}) < max(2, len(choices)):
        raise _Unfit(field, f"needs two or more options, each once and none empty, seen {choices}")
    return choices, labels


def _unpacked(value: Any) -> tuple[list[Any], list[str]]:
    """Return options and letters of a list, an object by letter, a list of objects, or a text of these."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            value = [part.strip() for part in value.split("|")]
    if isinstance(value, Mapping):
        return list(value.values()), [str(key) for key in value]
    if isinstance(value, list) and value and all(isinstance(each, Mapping) for each in value):
        text = next((key for key in ("text", "value", "option") if key in value[0]), "text")
        label = next((key for key in ("label", "key", "letter", "id") if key in value[0]), "label")
        return [each.get(text) for each in value], [str(each.get(label, "")) for each in value]
    return (value, []) if isinstance(value, list) else ([], [])


def _right(row: Mapping[str, Any], shape: Mapping[str, Any], choices: list[str], labels: list[str], first: int) -> str:
    field, answer = _first(row, shape["answer"])
    answer = YES_NO[answer] if isinstance(answer, bool) else answer
    if isinstance(answer, str):
        said = answer.strip()
        for known in (labels, choices):
            if said in known and len(known) == len(choices):
                return choices[known.index(said)]
        same = [choice for choice in choices if normalised(choice) == normalised(said)]
        bare = said.strip("().: ").upper()
        if not same and len(bare) == 1 and bare in LETTERS[: len(choices)]:
            same = [choices[LETTERS.index(bare)]]
        if same:
            return same[0]
    with suppress(ValueError, TypeError):
        if not isinstance(answer, float) and 0 <= (index := int(answer) - first) < len(choices):
            return choices[index]
    raise _Unfit(
        field,
        f"names none of the options {choices}, seen {answer!r}; write an index from {first}, a letter from A, or the text"
        " of an option. Take rows without an answer out first",
    )


def _first_index(rows: Iterable[Raw], shape: Mapping[str, Any]) -> int:
    """Return 1 if the answers of a file are plainly counted from 1, else 0."""
    found: list[tuple[int, int]] = []
    for _, row in rows if "answer" in shape else ():
        answer = _first(row, shape["answer"])[1]
        with suppress(_Unfit, ValueError, TypeError):
            if not isinstance(answer, bool | float):
                found.append((int(answer), len(_choices(row, shape)[0])))
    return int(any(index == n for index, n in found) and all(index >= 1 for index, _ in found))


def _first(row: Mapping[str, Any], fields: str | Sequence[str]) -> tuple[str, Any]:
    names = [fields] if isinstance(fields, str) else fields
    return next(((name, value) for name in names if (value := _at(row, name)) is not None), (names[0], None))


def _at(row: Mapping[str, Any], field: str | None) -> Any:
    """Return what stands under a field; "choices.text" leads inside."""
    value: Any = row
    for step in [field] if field is None or field in row else field.split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    return value
