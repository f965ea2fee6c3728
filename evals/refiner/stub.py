"""A judge whose verdicts were written down beforehand, for test cases and replays."""

from collections.abc import Sequence
from typing import ClassVar

from pydantic import Field

from evals.refiner.judging import Inquiry, Verdicts, number_of
from evals.schema.record import Record


class Attribution(Record):
    """Whether an id bears on a claim; `claim` is its position in the answer, the first is 0."""

    claim: int = Field(ge=0)
    id: str
    relevant: object = None


class StubTable(Record):
    """Verdicts on one answer. null, or anything that is no finite number, is a missing verdict.

    `rubric_raw` by title on 0..score_scale; `claim_support` by position; `uncited_needs_citation` 1 for
    each uncited sentence that needs one: sentences that are not listed need none.
    """

    rubric_raw: dict[str, object] = Field(default_factory=dict)
    claim_support: tuple[object, ...] = ()
    attribution_relevant: tuple[Attribution, ...] = ()
    uncited_needs_citation: tuple[object, ...] = ()


class StubJudge:
    """Reads verdicts off the table that comes with each inquiry; without one, all are missing."""

    label: ClassVar[str] = "stub (verdicts from a table)"

    async def judge(self, inquiry: Inquiry) -> Verdicts:
        """Return what the table says."""
        return read_table(inquiry)


def read_table(inquiry: Inquiry) -> Verdicts:
    """Return the verdicts of the inquiry's table, shares clamped to 0..1."""
    table = inquiry.table if isinstance(inquiry.table, StubTable) else StubTable()
    relevant = {(row.claim, row.id): row.relevant for row in table.attribution_relevant}
    return Verdicts(
        raws=tuple(number_of(table.rubric_raw.get(item.title)) for item in inquiry.items),
        quotes=("",) * len(inquiry.items),
        support=tuple(
            _share(_at(table.claim_support, place)) for place in range(len(inquiry.claims))
        ),
        relevance=tuple(
            tuple(_share(relevant.get((place, name))) for name in ids)
            for place, ids in enumerate(inquiry.cited)
        ),
        needs=tuple(_share(each) for each in table.uncited_needs_citation),
    )


def _at(values: Sequence[object], place: int) -> object:
    return values[place] if place < len(values) else None


def _share(value: object) -> float | None:
    number = number_of(value)
    return None if number is None else min(1.0, max(0.0, number))
