"""Long work as rows of the store, so that it outlives a reload and a restart.

Jobs wait in line, one at a time in each process; what somebody sits before (`begin`) is done at once beside them.
"""

import logging
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

from evals.errors import LabError
from lab.ui.text import say

if TYPE_CHECKING:
    from lab.services import Services

log = logging.getLogger(__name__)
JSON = Any
State = Literal["waiting", "running", "done", "failed", "cancelled"]
OnStep = Callable[[int, int, str], None]
"""Takes how much is done, of how much, and in a short line what is being done."""
Run = Callable[[Mapping[str, JSON], OnStep, Callable[[], bool], JSON], JSON]
"""What a kind of job does, given its settings, a function to tell how far it is and one that says whether to end early.

The last is None, or how far it was when its process ended ({"done", "total"}, and "kept" what `Jobs.keep` was given):
then it is to go on. Returns the result.
"""
LEASE_SECONDS = 20.0
"""A job of which nothing was heard for so long belongs to a process that ended: another one goes on with it."""
BEAT_SECONDS = 1.0
LOOK_SECONDS = 5.0
END_SECONDS = 5.0
"""What a job has to come to its next look at `stop` when the lab ends."""


@dataclass(frozen=True)
class Job:
    """One piece of long work; `started_at` is when it was asked for, `line` what it does now, `error` why it failed."""

    id: str
    kind: str
    title: str
    settings: Mapping[str, JSON]
    who: str
    state: State
    done: int
    total: int
    line: str
    started_at: datetime
    ended_at: datetime | None = None
    result: JSON = None
    error: str = ""

    @property
    def is_over(self) -> bool:
        return self.state not in ("waiting", "running")


@dataclass
class JobUnderWay:
    """A job that this process does, and how far it is: how much of how much is done, and a line."""

    job: Job
    far: tuple[int, int, str]
    stop: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)


class Jobs:
    """Everybody's long work. Nothing waits in vain once the lab runs (`working`); the store of `services` keeps it.

    `doing` are the jobs that this process does, `live` what each shows meanwhile, by its id; both are gone when it is over.
    """

    def __init__(self, services: "Services", lease_seconds: float = LEASE_SECONDS) -> None:
        self._services, self._lease = services, lease_seconds
        self._kinds: dict[str, Run] = {}
        self._holder = uuid4().hex
        self._wake, self._end = threading.Event(), threading.Event()
        self.doing: dict[str, JobUnderWay] = {}
        self.live: dict[str, Any] = {}

    @property
    def is_ending(self) -> bool:
        """Whether the lab is being stopped: jobs that end now do so to be gone on with."""
        return self._end.is_set()

    def register(self, kind: str, run: Run) -> None:
        """Say how a kind of job is done; a process leaves kinds alone that it does not know."""
        self._kinds[kind] = run

    def start(self, kind: str, title: str, settings: Mapping[str, JSON], who: str) -> str:
        """Put a job in line and return its id; it is kept when this returns."""
        name = uuid4().hex
        self._services.store.jobs.add(name, kind, title, settings, who)
        self._wake.set()
        return name

    def begin(self, kind: str, title: str, settings: Mapping[str, JSON], who: str, id: str) -> None:
        """Do a job at once, in the context of who asked; it waits in line only where its process ended before it did."""
        self._services.store.jobs.add(id, kind, title, settings, who, self._holder)
        run = partial(copy_context().run, self._do, self.get(id), True)
        threading.Thread(target=run, name="assay-job", daemon=True).start()

    def keep(self, id: str, value: JSON) -> None:
        """Keep what is done of a job that this process does, for whoever goes on with it."""
        if (doing := self.doing.get(id)) is not None:
            self._services.store.jobs.change(id, self._holder, doing.far, result=value)

    def cancel(self, id: str) -> None:
        """End a job, wherever it runs; one that is over stays as it is. LabError if there is none."""
        self._services.store.jobs.cancel(id)
        if (doing := self.doing.get(id)) is not None:
            doing.stop.set()

    def all(self, who: str | None = None) -> Sequence[Job]:
        """Return the newest jobs, newest first; of one person if they are named."""
        return self._services.store.jobs.newest(who)

    def get(self, id: str) -> Job:
        """Return a job; LabError if there is none."""
        return self._services.store.jobs.get(id)

    @contextmanager
    def working(self, is_early: Callable[[], bool] = lambda: False) -> Generator[None]:
        """Do jobs, one after another, in a thread of their own, not while it `is_early`; what is under way at the end goes back in line.

        A job must not import what the thread that loads the model imports at the same moment: modules that
        need each other would be seen half made.
        """
        threading.Thread(target=self._work, args=(is_early,), name="assay-jobs", daemon=True).start()
        try:
            yield
        finally:
            self._end.set()
            self._wake.set()
            for doing in list(self.doing.values()):
                doing.stop.set()
                self._services.store.jobs.change(doing.job.id, self._holder, doing.far, state="waiting")
                doing.over.wait(END_SECONDS)  # Python ends in an abort where a thread is inside torch

    # ---- the thread ----------------------------------------------------------------------------

    def _work(self, is_early: Callable[[], bool]) -> None:
        while is_early() and not self._end.wait(BEAT_SECONDS / 20):
            continue
        while not self._end.is_set():
            self._wake.clear()
            try:
                found = self._services.store.jobs.claim(self._holder, [*self._kinds], self._lease)
                if found is not None:
                    self._do(*found)
                    continue
            except LabError as error:  # the store cannot be reached: it may be later
                log.warning("%s", error)
            self._wake.wait(LOOK_SECONDS)

    def _do(self, job: Job, is_new: bool) -> None:
        doing = self.doing[job.id] = JobUnderWay(job, (job.done, job.total, job.line))

        def told(done: int, total: int, line: str) -> None:
            doing.far = (done, total, line)

        beat = threading.Thread(target=self._beat, args=(doing,), name="assay-job-beat", daemon=True)
        beat.start()
        result, error = None, ""
        try:
            kept = {"kept": job.result} if job.result is not None else {}
            resume = None if is_new else {"done": job.done, "total": job.total} | kept
            if resume and not self._services.store.jobs.beat(job.id, self._holder, doing.far):
                doing.stop.set()  # it was cancelled, and what is kept of it is to be made its result
            result = self._kinds[job.kind](job.settings, told, doing.stop.is_set, resume)
        except LabError as problem:
            error = str(problem)
        except Exception as problem:
            log.exception("a job failed")
            error = say("job.broke", name=type(problem).__name__, problem=problem)
        finally:
            doing.over.set()
            beat.join()
            del self.doing[job.id]
        try:
            if not self._end.is_set():
                state: State = "cancelled" if doing.stop.is_set() else "failed" if error else "done"
                self._services.store.jobs.finish(
                    job.id, self._holder, doing.far, state, result, error if state == "failed" else ""
                )
        except LabError as problem:  # another process finds it lost, and goes on with it
            log.warning("%s", problem)
        finally:
            self.live.pop(job.id, None)

    def _beat(self, doing: JobUnderWay) -> None:
        """Keep how far the job is; stop it where somebody cancelled it, or another process has taken it over."""
        while not doing.over.wait(min(BEAT_SECONDS, self._lease / 4)):
            try:
                if not self._services.store.jobs.beat(doing.job.id, self._holder, doing.far):
                    doing.stop.set()
            except LabError as error:
                log.warning("%s", error)
