"""Documents that models wrote, read by the session that made them alone, and every version people made of them."""

import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from pydantic import BaseModel
from sqlalchemy import Engine, delete, func, select
from sqlalchemy.orm import Session

from evals.errors import LabError
from evals.schema.articles import AskedReview, DraftConcern, KeptReview
from evals.schema.questions import FrozenQuestions, KeptQuestions
from evals.schema.refiner import AnswerMark, KeptRefinement
from lab.store.database import DocumentRow, VersionRow, reading, writing
from lab.ui.text import say

LISTED = 30
Doc = TypeVar("Doc", KeptReview, AskedReview, KeptRefinement, KeptQuestions, FrozenQuestions)
Part = TypeVar("Part", DraftConcern, AnswerMark)


@dataclass(frozen=True)
class Standing(Generic[Doc, Part]):
    """A document, and its parts as people left them: concerns of a review, marks of answers."""

    document: Doc
    parts: tuple[Part, ...]


KINDS: dict[str, tuple[type[Any], type[Any] | None, Callable[[Any], tuple[Any, ...]]]] = {
    "review": (KeptReview, DraftConcern, lambda kept: kept.concerns),
    "review_asked": (AskedReview, DraftConcern, lambda asked: ()),
    "refine": (KeptRefinement, AnswerMark, lambda kept: ()),
    "questions": (KeptQuestions, None, lambda kept: ()),
    "question_set": (FrozenQuestions, None, lambda kept: ()),
}
"""Of each kind: its documents, the parts that people change (None: nobody does), and those a document begins with."""


class Documents(Generic[Doc, Part]):
    """The documents of one task in one database; every method may be called from any thread."""

    def __init__(self, engine: Engine, now: Callable[[], datetime], task: str) -> None:
        self._engine, self._now, self._task = engine, now, task
        self._document, self._part, self._first = KINDS[task]

    def add(self, document: Doc) -> None:
        known = {"id": document.id, "made_at": document.made_at, "session": document.session}
        with writing(self._engine) as session:
            session.add(DocumentRow(task=self._task, document=document.model_dump(mode="json"), **known))

    def get(self, name: str, owner: str) -> Standing[Doc, Part]:
        """Return a document of this session as it stands; LabError if there is none."""
        with reading(self._engine) as session:
            return self._standing(session, self._mine(session, name, owner))

    def turn(self, document: Doc, was: str) -> None:
        """Keep a document in place of that of another task with its id; LabError if its session has none any more."""
        with writing(self._engine) as session:
            row = session.get(DocumentRow, document.id)
            if row is None or (row.session, row.task) != (document.session, was):
                raise LabError(say(f"{self._task}.gone"))
            row.task, row.made_at, row.document = self._task, document.made_at, document.model_dump(mode="json")

    def newest(self, owner: str) -> tuple[Doc, ...]:
        """Return the newest documents of a session, newest first."""
        query = self._all(owner).order_by(DocumentRow.made_at.desc(), DocumentRow.id).limit(LISTED)
        with reading(self._engine) as session:
            return tuple(self._document.model_validate(row.document) for row in session.scalars(query))

    def titles(self, owner: str) -> list[tuple[str, str, int | None]]:
        """Return id, title and version of the documents of a session that have a title, newest first."""
        title, version = (DocumentRow.document[name] for name in ("title", "version"))
        query = select(DocumentRow.id, title.as_string(), version.as_integer()).order_by(DocumentRow.made_at.desc())
        with reading(self._engine) as session:
            found = session.execute(query.where(DocumentRow.session == owner, DocumentRow.task == self._task))
            return [(name, called, number) for name, called, number in found]

    def everything(self, owner: str | None = None) -> tuple[Standing[Doc, Part], ...]:
        """Return all documents as they stand, oldest first; of one session if it is named."""
        query = self._all(owner).order_by(DocumentRow.made_at, DocumentRow.id)
        with reading(self._engine) as session:
            return tuple(self._standing(session, row) for row in session.scalars(query))

    def change(self, name: str, owner: str, action: str, parts: Sequence[BaseModel]) -> None:
        """Keep the parts after one change; LabError if the session has no such document."""
        content = [each.model_dump(mode="json") for each in parts]
        known = {"id": uuid.uuid4().hex, "document_id": name, "made_at": self._now(), "action": action}
        with writing(self._engine) as session:
            self._mine(session, name, owner)
            last = session.scalar(select(func.max(VersionRow.number)).filter_by(document_id=name)) or 0
            session.add(VersionRow(**known, number=last + 1, content=content))

    def undo(self, name: str, owner: str) -> str:
        """Take the last standing change back and return what it was; LabError if there is none."""
        with writing(self._engine) as session:
            self._mine(session, name, owner)
            last = _last(session, name)
            if last is None:
                raise LabError(say(f"{self._task}.nothing_to_undo"))
            last.voided_at = self._now()
            return last.action

    def _all(self, owner: str | None) -> Any:
        query = select(DocumentRow).where(DocumentRow.task == self._task)
        return query if owner is None else query.where(DocumentRow.session == owner)

    def _mine(self, session: Session, name: str, owner: str) -> DocumentRow:
        row = session.get(DocumentRow, name)
        if row is None or (row.session, row.task) != (owner, self._task):
            raise LabError(say(f"{self._task}.gone"))
        return row

    def _standing(self, session: Session, row: DocumentRow) -> Standing[Doc, Part]:
        document, last = self._document.model_validate(row.document), _last(session, row.id)
        if last is None or self._part is None:
            return Standing(document, self._first(document))
        return Standing(document, tuple(self._part.model_validate(each) for each in last.content))


def _last(session: Session, name: str) -> VersionRow | None:
    """Return the last version that stands; None if nothing was changed, or all was taken back."""
    query = select(VersionRow).where(VersionRow.document_id == name, VersionRow.voided_at.is_(None))
    return session.scalar(query.order_by(VersionRow.number.desc()).limit(1))


def forget_documents(session: Session, owners: Collection[str]) -> None:
    """Delete every document of these sessions with its versions."""
    mine = select(DocumentRow.id).where(DocumentRow.session.in_(owners))
    session.execute(delete(VersionRow).where(VersionRow.document_id.in_(mine)))
    session.execute(delete(DocumentRow).where(DocumentRow.session.in_(owners)))
