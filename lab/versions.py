"""What people keep and change in the lab: a thing on somebody's desk, and every version of it.

It is read and changed by the one on whose desk it lies (`session`, a salted hash) and nobody else.
Versions are never overwritten; one that was taken back is marked.
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from pydantic import BaseModel
from sqlalchemy import ColumnElement, select
from sqlalchemy.orm import Session

from evals.errors import LabError
from lab.tables import RefinementRow, RefinementVersionRow, ReviewRow, ReviewVersionRow
from lab.wording import say

LISTED = 30
Row = TypeVar("Row", ReviewRow, RefinementRow)
Version = TypeVar("Version", ReviewVersionRow, RefinementVersionRow)


@dataclass(frozen=True)
class Versions(Generic[Row, Version]):
    """Where one kind of thing and its versions stand.

    `of` names the column that says what a version is of, `content` the one that holds it; `words` is what the sentences about this kind of thing are called by.
    """

    row: type[Row]
    version: type[Version]
    of: str
    content: str
    words: str

    def mine(self, session: Session, name: str, desk: str) -> Row:
        """Return a thing of this desk; LabError if there is none."""
        row = session.get(self.row, name)
        if row is None or row.session != desk:
            raise LabError(say(f"{self.words}.gone"))
        return row

    def newest(self, session: Session, desk: str) -> Sequence[Row]:
        """Return the newest things of a desk, newest first."""
        row = self.row
        query = select(row).where(row.session == desk).order_by(row.made_at.desc(), row.id)
        return session.scalars(query.limit(LISTED)).all()

    def last(self, session: Session, name: str) -> Version | None:
        """Return the last version that stands; None if nothing was changed, or all was taken back."""
        version = self.version
        query = select(version).where(self._of(name), version.voided_at.is_(None))
        return session.scalar(query.order_by(version.number.desc()).limit(1))

    def change(
        self, session: Session, name: str, action: str, content: Sequence[BaseModel], now: datetime
    ) -> None:
        """Keep a thing of this session's desk after one change."""
        version = self.version
        newest = select(version.number).where(self._of(name)).order_by(version.number.desc())
        fields: dict[str, Any] = {
            self.of: name,
            self.content: [each.model_dump(mode="json") for each in content],
        }
        session.add(
            version(
                id=uuid.uuid4().hex,
                number=(session.scalar(newest.limit(1)) or 0) + 1,
                made_at=now,
                action=action,
                voided_at=None,
                **fields,
            )
        )

    def undo(self, session: Session, name: str, now: datetime) -> str:
        """Take the last standing change back and return what it was; LabError if there is none."""
        last = self.last(session, name)
        if last is None:
            raise LabError(say(f"{self.words}.nothing_to_undo"))
        last.voided_at = now
        return last.action

    def _of(self, name: str) -> ColumnElement[bool]:
        return getattr(self.version, self.of) == name
