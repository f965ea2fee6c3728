"""Rated and corrected answers as rows for training: records with a reference, or preference pairs.

A row of "sft" is a record of the refiner whose `reference` is the answer that a person stands by, as
`assay train sft` takes it; a row of "dpo" sets such an answer before one that was rated bad or
corrected. Left out, and counted: records that are kept for testing, and answers that break a hard rule of the grammar, which nobody
should learn from.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from evals.errors import LabError
from evals.io import write_whole
from evals.questions import is_held_out
from evals.refine.grammar import HARD
from evals.refine.prompt import messages
from evals.refine.records import as_jsonl
from evals.schema.refiner import KeptRefinement, Mark, RefinedAnswer, RefinerRecord, RowForm, ScoredAnswer
from lab.ui.text import say

if TYPE_CHECKING:
    from lab.store.documents import Standing

    Refinement = Standing[KeptRefinement, Mark]

Side = tuple[RefinedAnswer, str]
"""An answer, and the text that people stand by or refused."""


@dataclass(frozen=True)
class Rows:
    """A file before it is written; `left_out` counts answers by reason."""

    name: str
    text: str
    n: int
    left_out: dict[str, int] = field(default_factory=dict)


def export(worked: "Sequence[Refinement]", form: RowForm, tested: frozenset[str]) -> Rows:
    """Return the rows of all refinements; LabError if there is none. `tested`: ids kept for testing."""
    left_out: Counter[str] = Counter()
    usable = [each for each in worked if _is_usable(each, tested, left_out)]
    if form == "sft":
        found = list(_records(usable, left_out))
        text, n = as_jsonl(found), len(found)
    else:
        pairs = [_pair(*each) for each in _pairs(usable, left_out)]
        text, n = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in pairs), len(pairs)
    if not n:
        raise LabError(say(f"refine.export.nothing.{form}", left_out=told(dict(left_out))))
    return Rows(f"refined-{form}.jsonl", text, n, dict(left_out))


def told(left_out: dict[str, int]) -> str:
    """Return what was left out in words; empty if nothing was."""
    if not left_out:
        return ""
    listed = ", ".join(say(f"refine.left_out.{why}", n=n) for why, n in left_out.items())
    return say("refine.left_out", listed=listed)


def write(rows: Rows, file: Path) -> Path:
    """Write the rows whole and return where they are. LabError if they cannot be written."""
    try:
        write_whole(file, rows.text)
    except OSError as error:
        raise LabError(
            f"the rows cannot be written to {file}: {error.strerror}. Name a file in a folder that you may write to."
        ) from error
    return file


def _is_usable(each: "Refinement", tested: frozenset[str], left_out: Counter[str]) -> bool:
    record = each.document.record
    if record.id not in tested and not is_held_out(record.asked, record.id):
        return True
    marked = sum(mark.rating is not None or mark.correction is not None for mark in each.parts)
    left_out.update({"held_out": marked} if marked else {})
    return False


def _records(worked: "Sequence[Refinement]", left_out: Counter[str]) -> Iterator[RefinerRecord]:
    seen: set[tuple[str, str]] = set()
    for each in worked:
        record = each.document.record
        for answer, text in _stood_by(each, left_out):
            if (record.id, text) in seen:
                continue
            seen.add((record.id, text))
            yield record.model_copy(
                update={
                    "id": f"{record.id}#{answer.id[:8]}",
                    "split_group": record.group,
                    "reference": text,
                    "origin": say("refine.export.origin", origin=record.origin or record.id),
                }
            )


def _pairs(worked: "Sequence[Refinement]", left_out: Counter[str]) -> Iterator[tuple[KeptRefinement, Side, Side]]:
    """Yield each refinement with an answer that people stand by and one that they do not."""
    for each in worked:
        seen: set[tuple[str, str]] = set()
        for good, chosen in _stood_by(each, left_out):
            for bad, rejected in _refused(each):
                if chosen == rejected or (chosen, rejected) in seen:
                    continue
                seen.add((chosen, rejected))
                yield each.document, (good, chosen), (bad, rejected)


def _pair(kept: KeptRefinement, good: Side, bad: Side) -> dict[str, object]:
    (chosen_by, chosen), (rejected_by, rejected) = good, bad
    is_corrected = chosen != chosen_by.scored.completion
    return {
        "id": f"{kept.record.id}#{chosen_by.id[:8]}-{rejected_by.id[:8]}",
        "record_id": kept.record.id,
        "prompt": [turn.model_dump() for turn in messages(kept.record)],
        "chosen": [{"role": "assistant", "content": chosen}],
        "rejected": [{"role": "assistant", "content": rejected}],
        "chosen_by": f"{chosen_by.name}, corrected" if is_corrected else chosen_by.name,
        "rejected_by": rejected_by.name,
        "judge": chosen_by.scored.judge,
    }


def _stood_by(each: "Refinement", left_out: Counter[str]) -> Iterator[tuple[RefinedAnswer, str]]:
    """Yield each answer that a person corrected or rated good, with the text they stand by."""
    for answer, mark in _marked(each):
        scored = mark.correction or (answer.scored if mark.rating == "good" else None)
        if scored is None:
            continue
        if not _is_wellformed(scored):
            left_out["malformed"] += 1
            continue
        yield answer, scored.completion


def _refused(each: "Refinement") -> Iterator[tuple[RefinedAnswer, str]]:
    """Yield each answer that was rated bad or had to be corrected, as it was written."""
    for answer, mark in _marked(each):
        if mark.rating == "bad" or mark.correction is not None:
            yield answer, answer.scored.completion


def _marked(each: "Refinement") -> list[tuple[RefinedAnswer, Mark]]:
    marks = {mark.answer_id: mark for mark in each.parts}
    return [(answer, marks[answer.id]) for answer in each.document.answers if answer.id in marks]


def _is_wellformed(scored: ScoredAnswer) -> bool:
    return all(scored.format_checks[name] for name in HARD)
