"""A record as the fields of the Refine tab, and the fields as a record: nothing is lost on the way.

A rubric is typed as one behaviour per line:  + Direction: Says that it is "down".   (- for unwanted)
A weight other than 1 stands in brackets:     + [2] Direction: Says that it is "down".
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from evals.errors import LabError
from evals.refiner.records import CheckedRecord
from evals.schema.refining import RefinerRecord, RubricItem
from lab.wording import say

LINE = re.compile(r"([+\-−–])\s*(?:\[([0-9.]+)\]\s*)?([^:\[\s][^:]*):\s*(.+)")
LONGEST = 60_000
"""Characters of all fields together; a model's own limit is lower and told in tokens."""


@dataclass(frozen=True)
class Fields:
    """What the form holds, as it was typed."""

    question: str = ""
    reasoning: str = ""
    tool_output: str = ""
    rubric: str = ""
    answerable: bool = True


def fields_of(record: RefinerRecord) -> Fields:
    """Return a record as the form shows it."""
    lines = [_line("+", item) for item in record.positive_rubrics]
    lines += [_line("-", item) for item in record.negative_rubrics]
    return Fields(
        question=record.asked,
        reasoning=record.agent_reasoning,
        tool_output=record.tool_output,
        rubric="\n".join(lines),
        answerable=record.answerable,
    )


def record_of(fields: Fields, picked: RefinerRecord | None) -> RefinerRecord:
    """Return the record that was picked, or a new one where a field says something else.

    A new record is named after what it says. LabError names the field that is wrong.
    """
    if picked is not None and fields == fields_of(picked):
        return picked
    if not fields.question.strip():
        raise LabError(say("refine.no_question"))
    if not fields.tool_output.strip() and fields.answerable:
        raise LabError(say("refine.no_evidence"))
    length = sum(map(len, (fields.question, fields.reasoning, fields.tool_output, fields.rubric)))
    if length > LONGEST:
        raise LabError(say("refine.long", length=length, limit=LONGEST))
    positive, negative = rubric_of(fields.rubric)
    digest = hashlib.sha256(repr(fields).encode("utf-8", "replace")).hexdigest()[:12]
    try:
        checked = CheckedRecord(
            id=f"typed/{digest}",
            prompt=fields.question.strip(),
            agent_reasoning=fields.reasoning,
            tool_output=fields.tool_output,
            positive_rubrics=positive,
            negative_rubrics=negative,
            answerable=fields.answerable,
            origin="typed in the lab",
        )
    except ValidationError as error:
        first = error.errors()[0]
        problem = str(first["msg"]).removeprefix("Value error, ")
        raise LabError(say("refine.bad_record", problem=problem)) from None
    return RefinerRecord.model_validate(checked.model_dump())


def rubric_of(text: str) -> tuple[tuple[RubricItem, ...], tuple[RubricItem, ...]]:
    r"""Return the wanted and the unwanted behaviours of a typed rubric; LabError names the line.

    >>> wanted, unwanted = rubric_of('+ Way: Says "down".\n- Hedge: Says "maybe".')
    >>> wanted[0].title, unwanted[0].description
    ('Way', 'Says "maybe".')
    """
    wanted: list[RubricItem] = []
    unwanted: list[RubricItem] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        found = LINE.fullmatch(line.strip())
        weight = _weight(found[2]) if found else None
        if found is None or weight is None:
            raise LabError(say("refine.bad_rubric", number=number, line=line.strip()[:80]))
        item = RubricItem(title=found[3].strip(), description=found[4].strip(), weight=weight)
        (wanted if found[1] == "+" else unwanted).append(item)
    return tuple(wanted), tuple(unwanted)


def labels(records: Sequence[RefinerRecord], held_out: frozenset[str]) -> list[tuple[str, str]]:
    """Return a line and the id of each record, for a list to pick from."""
    return [(_label(record, record.id in held_out), record.id) for record in records]


def _label(record: RefinerRecord, is_held_out: bool) -> str:
    parts = [" ".join(record.asked.split())]
    parts += [] if record.answerable else [say("refine.record.unanswerable")]
    parts += [say("refine.record.held_out")] if is_held_out else []
    return " · ".join(parts)


def _line(sign: str, item: RubricItem) -> str:
    weight = "" if item.weight == 1.0 else f"[{item.weight:g}] "
    return f"{sign} {weight}{' '.join(item.title.split())}: {' '.join(item.description.split())}"


def _weight(text: str | None) -> float | None:
    """Return a weight above 0, 1 where none is given; None for what is no number."""
    try:
        weight = 1.0 if text is None else float(text)
    except ValueError:
        return None
    return weight if weight > 0 else None
