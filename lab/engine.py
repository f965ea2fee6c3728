"""The engine: chains in memory, loaded in the background, and those who are answered by them.

It knows neither torch nor tasks: how a chain is loaded and what is written come in as functions. Whoever asks gets
a `Ticket` at once. Each is answered in a thread of its own: the chain puts them into one batch. Who comes while a
model is loading, or when `at_once` others are being answered, waits in line.
"""

import logging
import queue
import threading
from collections.abc import Callable, Iterator
from contextvars import Context, copy_context
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from evals.errors import LabError
from evals.schema.questions import Progress

if TYPE_CHECKING:
    from training.models.chain import LoadedChain

log = logging.getLogger(__name__)

State = Literal["idle", "loading", "ready", "failed"]
Finish = Literal["stop", "length", "cancelled"]
HEARTBEAT_SECONDS = 0.5
END_SECONDS = 5.0


Item = TypeVar("Item")
Load = Callable[[str, Progress], "LoadedChain"]
"""Gives the chain of a name, "" for the lab's own."""
Write = Callable[[Any, threading.Event], Iterator[Item]]
"""Writes with a chain (None where none was asked for) until it is done or the event is set."""


@dataclass(frozen=True)
class Status:
    """How far a model is (`share` 0..1), a `message` for people, and what stands in for the base."""

    state: State
    share: float = 0.0
    message: str = ""
    substitutions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Waiting:
    """The answer has not begun. `position` counts those who wait, from 1; `status` says how far the model is."""

    position: int
    status: Status


@dataclass(frozen=True)
class WriteRequest(Generic[Item]):
    """Something to be written for a page. `chain` names who writes: "" the lab's own, None nobody in memory."""

    owner: str
    write: Write[Item]
    chain: str | None = ""


@dataclass(eq=False)
class Ticket(Generic[Item]):
    """A place in line, then a stream of items; nobody reads it once it is `replaced` by another of the same page."""

    request: WriteRequest[Item]
    stop: threading.Event = field(default_factory=threading.Event)
    replaced: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)
    context: Context = field(default_factory=copy_context)
    items: "queue.SimpleQueue[Item | LabError | None]" = field(default_factory=queue.SimpleQueue)


class LabEngine:
    """Loads chains, one after another, and answers tickets; those that need no chain here do not count."""

    def __init__(self, load: Load, at_once: int = 16) -> None:
        self._load, self._at_once = load, at_once
        self._chains: dict[str, LoadedChain] = {}
        self._status: dict[str, Status] = {}
        self._to_load: list[str] = []
        self._line: list[Ticket[Any]] = []
        self._running: list[Ticket[Any]] = []
        self._changed = threading.Lock()
        self._is_loading = False

    @property
    def status(self) -> Status:
        """How far the lab's own model is."""
        return self.status_of("")

    def status_of(self, name: str) -> Status:
        return self._status.get(name, Status("idle"))

    def chain(self, name: str = "") -> "LoadedChain":
        """Return a chain in memory. Raises LabError while it is not there."""
        if name not in self._chains:
            raise LabError(f"the model is not ready ({self.status_of(name).state}). Wait for it to load.")
        return self._chains[name]

    def start(self, name: str = "") -> None:
        """Begin loading a chain, unless it is there or on its way."""
        with self._changed:
            if self.status_of(name).state in {"loading", "ready"}:
                return
            self._status[name] = Status("loading", 0.0, "starting")
            self._to_load.append(name)
            if not self._is_loading:
                self._is_loading = True
                threading.Thread(target=self._load_all, name="assay-engine", daemon=True).start()

    def ask(self, request: WriteRequest[Item]) -> Ticket[Item]:
        """Return a place in line; an earlier one of the same page is given up for it."""
        ticket = Ticket(request)
        # A failure waits for someone to say `start`.
        if request.chain is not None and self.status_of(request.chain).state == "idle":
            self.start(request.chain)
        with self._changed:
            self._end(request.owner, is_replaced=True)
            self._line.append(ticket)
            self._begin()
        return ticket

    def stop(self, owner: str, *, silently: bool = False) -> None:
        """End what this page is waiting for or reading; `silently` also marks it as replaced."""
        with self._changed:
            self._end(owner, is_replaced=silently)

    def hand_over(self, owner: str, to: str) -> None:
        """Let another page stop what this one asked for: the same page, after a reload."""
        with self._changed:
            for ticket in [*self._line, *self._running]:
                if ticket.request.owner == owner:
                    ticket.request = replace(ticket.request, owner=to)

    def close(self) -> None:
        """Give up all answers, and wait until those who write them have seen it."""
        with self._changed:
            writing = list(self._running)
            for ticket in (*self._line, *writing):
                ticket.stop.set()
        for ticket in writing:
            ticket.over.wait(END_SECONDS)  # Python ends in an abort where a thread is inside torch

    def updates(self, ticket: Ticket[Item]) -> "Iterator[Waiting | tuple[Item, ...]]":
        """Yield the place in line while it lasts, then the items that are there; LabError if the model failed."""
        try:
            while True:
                try:
                    found = [ticket.items.get(timeout=HEARTBEAT_SECONDS)]
                except queue.Empty:
                    with self._changed:
                        if ticket not in self._line:
                            continue
                        status = self.status_of(ticket.request.chain or "")
                        before = self._line[: self._line.index(ticket)]
                        ahead = [each for each in before if self.status_of(each.request.chain or "").state == "ready"]
                        waiting = Waiting(len(ahead) + 1, status)
                    if ticket.stop.is_set():
                        return
                    yield waiting
                    continue
                while not ticket.items.empty():
                    found.append(ticket.items.get())
                for error in (each for each in found if isinstance(each, LabError)):
                    raise error
                if items := [each for each in found if each is not None and not isinstance(each, LabError)]:
                    yield tuple(items)
                if found[-1] is None:
                    return
        finally:
            with self._changed:
                ticket.stop.set()
                if ticket in self._line:
                    self._line.remove(ticket)

    def _end(self, owner: str, *, is_replaced: bool) -> None:
        for ticket in [*self._line, *self._running]:
            if ticket.request.owner == owner:
                if is_replaced:
                    ticket.replaced.set()
                ticket.stop.set()

    def _begin(self) -> None:
        """Let those begin whose turn it is."""
        for ticket in list(self._line):
            name, answered = ticket.request.chain, [each for each in self._running if each.request.chain is not None]
            if name is not None and (self.status_of(name).state == "loading" or len(answered) >= self._at_once):
                continue
            self._line.remove(ticket)
            self._running.append(ticket)
            threading.Thread(target=self._serve, args=(ticket,), name="assay-answer", daemon=True).start()

    # ---- threads of their own ----------------------------------------------------------------

    def _load_all(self) -> None:
        while True:
            with self._changed:
                self._begin()
                self._is_loading = bool(self._to_load)
                if not self._is_loading:
                    return
                name = self._to_load.pop(0)
            self._status[name] = self._load_named(name)

    def _load_named(self, name: str) -> Status:
        def report(share: float, message: str) -> None:
            self._status[name] = Status("loading", min(max(share, 0.0), 1.0), message)

        try:
            chain = self._chains[name] = self._load(name, report)
        except LabError as error:
            return Status("failed", 0.0, str(error))
        except Exception as error:
            log.exception("the model could not be loaded")
            told = f"loading stopped with {type(error).__name__}: {error}."
            return Status("failed", 0.0, f"{told} Run `assay doctor` to see what is missing, then try again.")
        return Status("ready", 1.0, chain.manifest.name, chain.substitutions)

    def _serve(self, ticket: Ticket[Any]) -> None:
        """Answer one ticket in the context of the visitor who asked (ZeroGPU bills by it)."""
        request = ticket.request
        try:
            chain = None if request.chain is None else self._chains.get(request.chain)
            if ticket.stop.is_set():
                return
            if chain is None and request.chain is not None:
                raise LabError(self.status_of(request.chain).message)

            def write() -> None:
                for item in request.write(chain, ticket.stop):
                    ticket.items.put(item)

            ticket.context.run(write)
        except LabError as error:
            ticket.items.put(error)
        except Exception as error:
            log.exception("the model failed while answering")
            told = f"the model stopped in the middle with {type(error).__name__}: {error}. Ask again; if it happens"
            problem = LabError(f"{told} every time, shorten the question or run `assay doctor`.")
            problem.__cause__ = error
            ticket.items.put(problem)
        finally:
            ticket.items.put(None)
            with self._changed:
                self._running.remove(ticket)
                self._begin()
            ticket.over.set()
