"""Graded answers in the store: as they were written, and every version of what people made of them.

Who may read and change them, and what becomes of versions: `lab.versions`.
"""

from collections.abc import Callable, Sequence
from datetime import datetime

from sqlalchemy import Engine, delete, select
from sqlalchemy.orm import Session

from evals.schema.refinements import KeptRefinement, Mark, Worked
from lab.database import reading, writing
from lab.tables import RefinementRow, RefinementVersionRow
from lab.versions import Versions

KEPT = Versions(RefinementRow, RefinementVersionRow, "refinement_id", "marks", "refine")


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
            return _worked(session, KEPT.mine(session, name, desk))

    def newest(self, desk: str) -> tuple[KeptRefinement, ...]:
        """Return the newest refinements of a desk, newest first."""
        with reading(self._engine) as session:
            return tuple(_kept(row) for row in KEPT.newest(session, desk))

    def everything(self, desk: str | None = None) -> tuple[Worked, ...]:
        """Return all refinements as they stand, oldest first; of one desk if it is named."""
        query = select(RefinementRow).order_by(RefinementRow.made_at, RefinementRow.id)
        if desk is not None:
            query = query.where(RefinementRow.session == desk)
        with reading(self._engine) as session:
            return tuple(_worked(session, row) for row in session.scalars(query))

    def change(self, name: str, desk: str, action: str, marks: Sequence[Mark]) -> None:
        """Keep the marks after one change."""
        with writing(self._engine) as session:
            KEPT.mine(session, name, desk)
            KEPT.change(session, name, action, marks, self._now())

    def undo(self, name: str, desk: str) -> str:
        """Take the last standing change back and return what it was; LabError if there is none."""
        with writing(self._engine) as session:
            KEPT.mine(session, name, desk)
            return KEPT.undo(session, name, self._now())


def forget_refinements(session: Session, desks: Sequence[str]) -> None:
    """Delete every refinement of these desks with its versions."""
    mine = select(RefinementRow.id).where(RefinementRow.session.in_(desks))
    session.execute(
        delete(RefinementVersionRow).where(RefinementVersionRow.refinement_id.in_(mine))
    )
    session.execute(delete(RefinementRow).where(RefinementRow.session.in_(desks)))


def _worked(session: Session, row: RefinementRow) -> Worked:
    last = KEPT.last(session, row.id)
    marks = last.marks if last is not None else []
    return Worked(kept=_kept(row), marks=tuple(Mark.model_validate(mark) for mark in marks))


def _kept(row: RefinementRow) -> KeptRefinement:
    return KeptRefinement.model_validate(row.document)
