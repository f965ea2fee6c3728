"""A judge whose verdicts were written down beforehand, for test cases and replays."""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import ClassVar

from pydantic import Field, field_validator

from evals.refiner.judging import Inquiry, Verdicts, number_of
from evals.refiner.rubric import Item
from evals.schema.record import Record

SUPPORT = (0.0, 0.5, 1.0)
"""A claim is unsupported, supported in part, or supported."""


class Attribution(Record):
    """Whether an id bears on a claim; `claim` is its position in the answer, the first is 0."""

    claim: int = Field(ge=0)
    id: str
    relevant: object = None


class StubTable(Record):
    """Verdicts on one answer. null, or anything that is no finite number, is a missing verdict.

    `rubric_raw` by title on 0..score_scale; `claim_support` 0, 0.5 or 1 by position; `uncited_needs_citation` 1 for
    each uncited sentence that needs one: sentences that are not listed need none.
    """

    rubric_raw: dict[str, object] = Field(default_factory=dict)
    claim_support: tuple[object, ...] = ()
    attribution_relevant: tuple[Attribution, ...] = ()
    uncited_needs_citation: tuple[object, ...] = ()

    @field_validator("claim_support")
    @classmethod
    def _is_on_the_scale(cls, support: tuple[object, ...]) -> tuple[object, ...]:
        for each in support:
            if _share(each) not in (None, *SUPPORT):
                raise ValueError(f"a claim's support is 0, 0.5 or 1 (null = missing), not {each}")
        return support


def fitting(table: StubTable | None, items: Sequence[Item]) -> StubTable | None:
    """Return the table; ValueError for a title that is a misspelling of one whose verdict is missing.

    Verdicts on other titles are passed over: one table may serve records with different items.
    """
    given = table.rubric_raw if table is not None else {}
    titles = {item.title for item in items}
    missing = sorted(titles - given.keys())
    for title in given:
        if title not in titles and (near := get_close_matches(title, missing, n=1)):
            raise ValueError(
                f"rubric_raw has a verdict on {title!r}, which is no item's title, and none on"
                f" {near[0]!r}; write that title, or take the verdict out"
            )
    return table


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
