"""Documents that models wrote, read by the session that made them alone, and every version people made of them; jobs."""

import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

from pydantic import BaseModel
from sqlalchemy import Engine, and_, delete, func, or_, select
from sqlalchemy.orm import Session

from evals.errors import LabError
from evals.schema.articles import AskedReview, DraftConcern, KeptReview
from evals.schema.questions import FrozenQuestions, KeptQuestions
from evals.schema.refiner import KeptRefinement
from lab.jobs import Job, State
from lab.store.database import DocumentRow, JobRow, VersionRow, reading, writing
from lab.ui.text import say

LISTED = 30
Doc = TypeVar("Doc", KeptReview, AskedReview, KeptRefinement, KeptQuestions, FrozenQuestions)


@dataclass(frozen=True)
class Standing(Generic[Doc]):
    """A document, and its parts as people left them: concerns of a review."""

    document: Doc
    parts: tuple[DraftConcern, ...]


KINDS: dict[str, type[Any]] = {
    "review": KeptReview,
    "review_asked": AskedReview,
    "refine": KeptRefinement,
    "questions": KeptQuestions,
    "question_set": FrozenQuestions,
}
"""What the documents of each kind are."""


class Documents(Generic[Doc]):
    """The documents of one task in one database; every method may be called from any thread."""

    def __init__(self, engine: Engine, now: Callable[[], datetime], task: str) -> None:
        self._engine, self._now, self._task = engine, now, task
        self._document = KINDS[task]

    def add(self, document: Doc) -> None:
        known = {"id": document.id, "made_at": document.made_at, "session": document.session}
        with writing(self._engine) as session:
            session.add(DocumentRow(task=self._task, document=document.model_dump(mode="json"), **known))

    def get(self, name: str, owner: str) -> Standing[Doc]:
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

    def delete(self, name: str, owner: str) -> None:
        """Delete a document with its versions; LabError if the session has no such document."""
        with writing(self._engine) as session:
            row = self._mine(session, name, owner)
            session.execute(delete(VersionRow).where(VersionRow.document_id == name))
            session.delete(row)

    def newest(self, owner: str) -> tuple[Doc, ...]:
        """Return the newest documents of a session, newest first."""
        mine = select(DocumentRow).where(DocumentRow.session == owner, DocumentRow.task == self._task)
        query = mine.order_by(DocumentRow.made_at.desc(), DocumentRow.id).limit(LISTED)
        with reading(self._engine) as session:
            return tuple(self._document.model_validate(row.document) for row in session.scalars(query))

    def titles(self, owner: str) -> list[tuple[str, str, int | None]]:
        """Return id, title and version of the documents of a session that have a title, newest first."""
        title, version = (DocumentRow.document[name] for name in ("title", "version"))
        query = select(DocumentRow.id, title.as_string(), version.as_integer()).order_by(DocumentRow.made_at.desc())
        with reading(self._engine) as session:
            found = session.execute(query.where(DocumentRow.session == owner, DocumentRow.task == self._task))
            return [(name, called, number) for name, called, number in found]

    def everything(self) -> tuple[Standing[Doc], ...]:
        """Return all documents as they stand, oldest first."""
        query = select(DocumentRow).where(DocumentRow.task == self._task).order_by(DocumentRow.made_at, DocumentRow.id)
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

    def _mine(self, session: Session, name: str, owner: str) -> DocumentRow:
        row = session.get(DocumentRow, name)
        if row is None or (row.session, row.task) != (owner, self._task):
            raise LabError(say(f"{self._task}.gone"))
        return row

    def _standing(self, session: Session, row: DocumentRow) -> Standing[Doc]:
        document, last = self._document.model_validate(row.document), _last(session, row.id)
        if last is None:
            return Standing(document, getattr(document, "concerns", ()))
        return Standing(document, tuple(map(DraftConcern.model_validate, last.content)))


def _last(session: Session, name: str) -> VersionRow | None:
    """Return the last version that stands; None if nothing was changed, or all was taken back."""
    query = select(VersionRow).where(VersionRow.document_id == name, VersionRow.voided_at.is_(None))
    return session.scalar(query.order_by(VersionRow.number.desc()).limit(1))


def forget_documents(session: Session, owners: Collection[str]) -> None:
    """Delete every document of these sessions with its versions."""
    mine = select(DocumentRow.id).where(DocumentRow.session.in_(owners))
    session.execute(delete(VersionRow).where(VersionRow.document_id.in_(mine)))
    session.execute(delete(DocumentRow).where(DocumentRow.session.in_(owners)))


# ---- long work: each job a row, held by one process at a time ------------------------------------


NEWEST_JOBS = 100
FIELDS = tuple(name for name in Job.__dataclass_fields__)
Far = tuple[int, int, str]
"""How much is done, of how much, and what is being done."""


class JobRows:
    """The jobs of one database; every method may be called from any thread and process."""

    def __init__(self, engine: Engine, now: Callable[[], datetime]) -> None:
        self._engine, self._now = engine, now

    def add(self, name: str, kind: str, title: str, settings: Mapping[str, Any], who: str, holder: str = "") -> None:
        """Put a job in line, or keep it as what `holder` does from now on."""
        known = {"id": name, "kind": kind, "title": title, "settings": dict(settings), "who": who}
        empty = {"done": 0, "total": 0, "line": "", "error": "", "holder": holder, "is_stopping": False}
        now, state = self._now(), "running" if holder else "waiting"
        with writing(self._engine) as session:
            session.add(JobRow(**known, **empty, state=state, started_at=now, seen_at=now if holder else None))

    def get(self, name: str) -> Job:
        """Return a job; LabError if there is none."""
        with reading(self._engine) as session:
            row = session.get(JobRow, name)
            if row is None:
                raise LabError(say("job.gone"))
            return _job(row)

    def newest(self, who: str | None = None) -> tuple[Job, ...]:
        """Return the newest jobs, newest first; of one person if they are named."""
        query = select(JobRow).order_by(JobRow.started_at.desc(), JobRow.id).limit(NEWEST_JOBS)
        query = query if who is None else query.where(JobRow.who == who)
        with reading(self._engine) as session:
            return tuple(map(_job, session.scalars(query)))

    def cancel(self, name: str) -> None:
        """End a job that waits with nothing done, and ask the process that does one to stop; LabError if there is none."""
        with writing(self._engine) as session:
            row = session.get(JobRow, name, with_for_update=True)
            if row is None:
                raise LabError(say("job.gone"))
            if row.state == "waiting" and row.result is None:
                row.state, row.ended_at = "cancelled", self._now()
            row.is_stopping = True

    # ---- for the process that does them --------------------------------------------------------

    def claim(self, holder: str, kinds: Collection[str], lease_seconds: float) -> tuple[Job, bool] | None:
        """Return the oldest job that nobody does, now held by `holder`, and whether it is done for the first time."""
        now = self._now()
        lost = and_(JobRow.state == "running", JobRow.seen_at < now - timedelta(seconds=lease_seconds))
        query = select(JobRow).where(or_(JobRow.state == "waiting", lost), JobRow.kind.in_(kinds))
        query = query.order_by(JobRow.started_at, JobRow.id).limit(1).with_for_update(skip_locked=True)
        with reading(self._engine) as session:  # so that a lab with nothing to do never writes
            if session.scalar(query) is None:
                return None
        with writing(self._engine) as session:
            row = session.scalar(query)
            if row is None:
                return None
            if row.is_stopping and row.result is None:  # whoever did it ended before it heard
                row.state, row.ended_at = "cancelled", now
                return None
            is_new = row.seen_at is None
            row.state, row.holder, row.seen_at = "running", holder, now
            return _job(row), is_new

    def beat(self, name: str, holder: str, far: Far) -> bool:
        """Keep how far a job is; return whether to go on with it."""
        return self.change(name, holder, far, seen_at=self._now())

    def finish(self, name: str, holder: str, far: Far, state: State, result: Any, error: str) -> None:
        """Keep how a job ended."""
        self.change(name, holder, far, state=state, result=result, error=error, ended_at=self._now())

    def change(self, name: str, holder: str, far: Far, **changes: Any) -> bool:
        """Keep how far a job is, and other changes; False, and nothing changed, where another process has taken it over.

        False, too, where somebody cancelled it.
        """
        with writing(self._engine) as session:
            row = session.get(JobRow, name, with_for_update=True)
            if row is None or (row.holder, row.state) != (holder, "running"):
                return False
            for column, value in {**dict(zip(("done", "total", "line"), far, strict=True)), **changes}.items():
                setattr(row, column, value)
            return not row.is_stopping


def _job(row: JobRow) -> Job:
    return Job(**{name: getattr(row, name) for name in FIELDS})
