"""Graded answers in the store: as they were written, and every version of what people made of them.

A refinement is read and changed by the one on whose desk it lies (`session`, a salted hash) and nobody
else. Versions are never overwritten; one that was taken back is marked.
"""

import uuid
from collections.abc import Callable, Sequence
from datetime import datetime

from sqlalchemy import Engine, delete, select
from sqlalchemy.orm import Session

from evals.errors import LabError
from evals.schema.refinements import KeptRefinement, Mark, Worked
from lab.database import reading, writing
from lab.tables import RefinementRow, RefinementVersionRow
from lab.wording import say

LISTED = 30
STANDS = RefinementVersionRow.voided_at.is_(None)


class Workbench:
    """Refinements in one database; every method may be called from any thread."""

    def __init__(self, engine: Engine, now: Callable[[], datetime]) -> None:
        self._engine, self._now = engine, now

    def add(self, kept: KeptRefinement) -> None:
        """Keep answers as they were graded."""
        row = RefinementRow(
            id=kept.id,
            made_at=kept.made_at,
            session=kept.session,
            document=kept.model_dump(mode="json"),
        )
        with writing(self._engine) as session:
            session.add(row)

    def worked(self, name: str, desk: str) -> Worked:
        """Return a refinement of this desk as it stands; LabError if there is none."""
        with reading(self._engine) as session:
            return _worked(session, _mine(session, name, desk))

    def newest(self, desk: str) -> tuple[KeptRefinement, ...]:
        """Return the newest refinements of a desk, newest first."""
        query = (
            select(RefinementRow)
            .where(RefinementRow.session == desk)
            .order_by(RefinementRow.made_at.desc(), RefinementRow.id)
            .limit(LISTED)
        )
        with reading(self._engine) as session:
            return tuple(_kept(row) for row in session.scalars(query))

    def everything(self, desk: str | None = None) -> tuple[Worked, ...]:
        """Return all refinements as they stand, oldest first; of one desk if it is named."""
        query = select(RefinementRow).order_by(RefinementRow.made_at, RefinementRow.id)
        if desk is not None:
            query = query.where(RefinementRow.session == desk)
        with reading(self._engine) as session:
            return tuple(_worked(session, row) for row in session.scalars(query))

    def change(self, name: str, desk: str, action: str, marks: Sequence[Mark]) -> None:
        """Keep the marks after one change."""
        newest = (
            select(RefinementVersionRow.number)
            .where(RefinementVersionRow.refinement_id == name)
            .order_by(RefinementVersionRow.number.desc())
            .limit(1)
        )
        with writing(self._engine) as session:
            _mine(session, name, desk)
            session.add(
                RefinementVersionRow(
                    id=uuid.uuid4().hex,
                    refinement_id=name,
                    number=(session.scalar(newest) or 0) + 1,
                    made_at=self._now(),
                    action=action,
                    marks=[mark.model_dump(mode="json") for mark in marks],
                    voided_at=None,
                )
            )

    def undo(self, name: str, desk: str) -> str:
        """Take the last standing change back and return what it was; LabError if there is none."""
        with writing(self._engine) as session:
            _mine(session, name, desk)
            last = _last(session, name)
            if last is None:
                raise LabError(say("refine.nothing_to_undo"))
            last.voided_at = self._now()
            return last.action


def forget_refinements(session: Session, desks: Sequence[str]) -> None:
    """Delete every refinement of these desks with its versions."""
    mine = select(RefinementRow.id).where(RefinementRow.session.in_(desks))
    session.execute(
        delete(RefinementVersionRow).where(RefinementVersionRow.refinement_id.in_(mine))
    )
    session.execute(delete(RefinementRow).where(RefinementRow.session.in_(desks)))


def _mine(session: Session, name: str, desk: str) -> RefinementRow:
    row = session.get(RefinementRow, name)
    if row is None or row.session != desk:
        raise LabError(say("refine.gone"))
    return row


def _last(session: Session, name: str) -> RefinementVersionRow | None:
    query = select(RefinementVersionRow).where(RefinementVersionRow.refinement_id == name, STANDS)
    return session.scalar(query.order_by(RefinementVersionRow.number.desc()).limit(1))


def _worked(session: Session, row: RefinementRow) -> Worked:
    last = _last(session, row.id)
    marks = last.marks if last is not None else []
    return Worked(kept=_kept(row), marks=tuple(Mark.model_validate(mark) for mark in marks))


def _kept(row: RefinementRow) -> KeptRefinement:
    return KeptRefinement.model_validate(row.document)
