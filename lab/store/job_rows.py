"""Long work in the store: each job a row, held by one process at a time."""

from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Engine, and_, or_, select

from evals.errors import LabError
from lab.jobs import Job, State
from lab.store.database import JobRow, reading, writing
from lab.ui.text import say

LISTED = 100
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
        query = select(JobRow).order_by(JobRow.started_at.desc(), JobRow.id).limit(LISTED)
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
        """Keep how far a job is; return whether to go on: it is still this holder's, and nobody cancelled it."""
        return self._change(name, holder, far, seen_at=self._now())

    def keep(self, name: str, holder: str, far: Far, value: Any) -> None:
        """Keep what is done of a job, for whoever goes on with it."""
        self._change(name, holder, far, result=value)

    def release(self, name: str, holder: str, far: Far) -> None:
        """Put a job back in line."""
        self._change(name, holder, far, state="waiting")

    def finish(self, name: str, holder: str, far: Far, state: State, result: Any, error: str) -> None:
        """Keep how a job ended, unless another process has taken it over."""
        self._change(name, holder, far, state=state, result=result, error=error, ended_at=self._now())

    def _change(self, name: str, holder: str, far: Far, **changes: Any) -> bool:
        with writing(self._engine) as session:
            row = session.get(JobRow, name, with_for_update=True)
            if row is None or (row.holder, row.state) != (holder, "running"):
                return False
            for column, value in {**dict(zip(("done", "total", "line"), far, strict=True)), **changes}.items():
                setattr(row, column, value)
            return not row.is_stopping


def _job(row: JobRow) -> Job:
    return Job(**{name: getattr(row, name) for name in FIELDS})
