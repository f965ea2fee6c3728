"""Rated and corrected answers as rows for training: records with a reference, or preference pairs.

A row of "sft" is a record of the refiner whose `reference` is the answer that a person stands by, as
`assay train sft` takes it; a row of "dpo" sets such an answer before one that was rated bad or
corrected. Left out, and counted: records that are kept for testing, and answers that break a hard rule of
the grammar, which nobody should learn from.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from evals.errors import LabError
from evals.io import jsonl_text
from evals.questions import is_held_out
from evals.refine.grammar import HARD
from evals.refine.records import as_jsonl
from evals.refine.task import messages
from evals.schema.refiner import AnswerMark, KeptRefinement, RefinedAnswer, RefinerRecord, RowForm
from lab.session import Exported, left_out_line
from lab.ui.text import say

if TYPE_CHECKING:
    from lab.store.documents import Standing

    Refinement = Standing[KeptRefinement, AnswerMark]


def export(worked: "Sequence[Refinement]", form: RowForm, tested: frozenset[str]) -> Exported:
    """Return the rows of all refinements; LabError if there is none. `tested`: ids kept for testing."""
    left_out: Counter[str] = Counter()
    usable = []
    for each in worked:
        record = each.document.record
        if record.id not in tested and not is_held_out(record.asked, record.id):
            usable.append(each)
        elif marked := sum(mark.rating is not None or mark.correction is not None for mark in each.parts):
            left_out["held_out"] += marked
    if form == "sft":
        found = list(_records(usable, left_out))
        text, n = as_jsonl(found), len(found)
    else:
        pairs = list(_pairs(usable, left_out))
        text, n = jsonl_text(pairs), len(pairs)
    if not n:
        raise LabError(say(f"refine.export.nothing.{form}", left_out=left_out_line("refine", left_out)))
    return Exported(f"refined-{form}.jsonl", text, n, left_out=dict(left_out))


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


def _pairs(worked: "Sequence[Refinement]", left_out: Counter[str]) -> Iterator[dict[str, object]]:
    """Yield a row for each answer that people stand by and one of the same record that they do not."""
    for each in worked:
        record, seen = each.document.record, set[tuple[str, str]]()
        refused = [answer for answer, mark in _marked(each) if mark.rating == "bad" or mark.correction is not None]
        for good, chosen in _stood_by(each, left_out):
            for bad in refused:
                rejected = bad.scored.completion
                if chosen == rejected or (chosen, rejected) in seen:
                    continue
                seen.add((chosen, rejected))
                yield {
                    "id": f"{record.id}#{good.id[:8]}-{bad.id[:8]}",
                    "record_id": record.id,
                    "prompt": [turn.model_dump() for turn in messages(record)],
                    "chosen": [{"role": "assistant", "content": chosen}],
                    "rejected": [{"role": "assistant", "content": rejected}],
                    "chosen_by": good.name if chosen == good.scored.completion else f"{good.name}, corrected",
                    "rejected_by": bad.name,
                    "judge": good.scored.judge,
                }


def _stood_by(each: "Refinement", left_out: Counter[str]) -> Iterator[tuple[RefinedAnswer, str]]:
    """Yield each answer that a person corrected or rated good, with the text they stand by."""
    for answer, mark in _marked(each):
        scored = mark.correction or (answer.scored if mark.rating == "good" else None)
        if scored is None:
            continue
        if not all(scored.format_checks[name] for name in HARD):
            left_out["malformed"] += 1
            continue
        yield answer, scored.completion


def _marked(each: "Refinement") -> list[tuple[RefinedAnswer, AnswerMark]]:
    marks = {mark.answer_id: mark for mark in each.parts}
    return [(answer, marks[answer.id]) for answer in each.document.answers if answer.id in marks]
