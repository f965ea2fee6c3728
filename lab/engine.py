"""The engine: one chain in memory, loaded in the background, answering one visitor at a time.

It refuses to know torch: how a chain is loaded comes in as a function. Whoever asks gets a
`Ticket` at once and a place in line; a model that is still loading only makes the line longer.
"""

import logging
import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from typing import Literal, Protocol

from evals.errors import LabError
from evals.model import Progress, Sampling
from evals.questions import system_prompt_for
from evals.schema import ChainManifest, Message

log = logging.getLogger(__name__)

State = Literal["idle", "loading", "ready", "failed"]
Finish = Literal["stop", "length", "cancelled"]
HEARTBEAT_SECONDS = 0.5


class Piece(Protocol):
    """The next bit of one stage's answer; `finish_reason` is set on its last piece."""

    @property
    def stage(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def n_tokens(self) -> int: ...
    @property
    def finish_reason(self) -> Finish | None: ...


class Chain(Protocol):
    """What the engine needs of `training.models.chain.LoadedChain`."""

    @property
    def manifest(self) -> ChainManifest: ...
    @property
    def dtype(self) -> str: ...
    @property
    def stages(self) -> tuple[str, ...]: ...
    @property
    def stage_checksums(self) -> Mapping[str, str]: ...
    @property
    def substitutions(self) -> tuple[str, ...]: ...

    def stream(
        self,
        prompt: Sequence[Message],
        stages: Sequence[str],
        sampling: Sampling,
        stop: threading.Event,
    ) -> Iterator[Piece]: ...


Load = Callable[[Progress], Chain]


@dataclass(frozen=True)
class Status:
    """How far the model is (`share` 0..1), a `message` for people, and what stands in for the base."""

    state: State
    share: float = 0.0
    message: str = ""
    substitutions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Waiting:
    """The answer has not begun. `position` counts from 1; `status` says how far the model is."""

    position: int
    status: Status


@dataclass(frozen=True)
class Request:
    """One question to the model, and the page that asked it.

    `pick` chooses among the stages, in order, once the chain is there; `prompt` is for tasks with their own.
    """

    owner: str
    question: str
    pick: Callable[[tuple[str, ...]], tuple[str, ...]]
    sampling: Sampling
    prompt: tuple[Message, ...] | None = None


@dataclass(eq=False)
class Ticket:
    """A place in line, then a stream of pieces. `stages` are picked when its turn comes.

    `replaced` is set when the same page asked for something else meanwhile: nobody reads this.
    """

    request: Request
    stages: tuple[str, ...] = ()
    stop: threading.Event = field(default_factory=threading.Event)
    replaced: threading.Event = field(default_factory=threading.Event)
    context: Context = field(default_factory=copy_context)
    pieces: queue.SimpleQueue[Piece | LabError | None] = field(default_factory=queue.SimpleQueue)


def prompt_of(system_prompt: str, question: str) -> tuple[Message, ...]:
    """Return the conversation that every stage is given; `system_prompt` is the chain's."""
    asked = Message(role="user", content=question)
    told = system_prompt_for(system_prompt, question)
    return (Message(role="system", content=told), asked) if told else (asked,)


class Engine:
    """Loads a chain in a background thread and answers tickets in the order they came.

    `start` may be called again after a failure. Every method may be called from any thread.
    """

    def __init__(self, load: Load) -> None:
        self._load = load
        self._status = Status("idle")
        self._chain: Chain | None = None
        self._line: list[Ticket] = []
        self._running: Ticket | None = None
        self._changed = threading.Condition()

    @property
    def status(self) -> Status:
        """How far the model is."""
        return self._status

    @property
    def chain(self) -> Chain:
        """The chain that answers. Raises LabError while there is none."""
        if self._chain is None:
            raise LabError(f"the model is not ready ({self._status.state}). Wait for it to load.")
        return self._chain

    def start(self) -> None:
        """Begin loading, unless the model is there or on its way."""
        with self._changed:
            if self._status.state in {"loading", "ready"}:
                return
            self._status = Status("loading", 0.0, "starting")
            self._changed.notify_all()
        threading.Thread(target=self._work, name="assay-engine", daemon=True).start()

    def ask(self, request: Request) -> Ticket:
        """Return a place in line; an earlier one of the same page is given up for it."""
        self.start_if_idle()
        ticket = Ticket(request)
        with self._changed:
            self._end(request.owner, is_replaced=True)
            self._line.append(ticket)
            self._changed.notify_all()
        return ticket

    def start_if_idle(self) -> None:
        """Begin loading if nobody did yet; a failure waits for someone to say `start`."""
        if self._status.state == "idle":
            self.start()

    def stop(self, owner: str, *, silently: bool = False) -> None:
        """End what this page is waiting for or reading; `silently` also marks it as replaced."""
        with self._changed:
            self._end(owner, is_replaced=silently)

    def updates(self, ticket: Ticket) -> Iterator[Waiting | tuple[Piece, ...]]:
        """Yield the place in line while it lasts, then pieces, as many at once as are there.

        Raises LabError if the model failed to load or broke off.
        """
        try:
            while True:
                found = self._drain(ticket)
                if isinstance(found, Waiting):
                    yield found
                    continue
                pieces, is_last = found
                if pieces:
                    yield pieces
                if is_last:
                    return
        finally:
            with self._changed:
                ticket.stop.set()
                if ticket in self._line:
                    self._line.remove(ticket)
                self._changed.notify_all()

    # ---- the reader's side -----------------------------------------------------------------

    def _drain(self, ticket: Ticket) -> Waiting | tuple[tuple[Piece, ...], bool]:
        try:
            first = ticket.pieces.get(timeout=HEARTBEAT_SECONDS)
        except queue.Empty:
            return self._waiting(ticket)
        pieces: list[Piece] = []
        found: Piece | LabError | None = first
        while True:
            if isinstance(found, LabError):
                raise found
            if found is None:
                return tuple(pieces), True
            pieces.append(found)
            try:
                found = ticket.pieces.get_nowait()
            except queue.Empty:
                return tuple(pieces), False

    def _waiting(self, ticket: Ticket) -> Waiting | tuple[tuple[Piece, ...], bool]:
        with self._changed:
            if ticket is self._running:
                return (), False
            if ticket.stop.is_set() or ticket not in self._line:
                return (), ticket.pieces.empty()
            if self._status.state == "failed":
                raise LabError(self._status.message)
            ahead = self._line.index(ticket) + (self._running is not None)
            return Waiting(ahead + 1, self._status)

    def _end(self, owner: str, *, is_replaced: bool) -> None:
        for ticket in [*self._line, *([self._running] if self._running else [])]:
            if ticket.request.owner == owner:
                if is_replaced:
                    ticket.replaced.set()
                ticket.stop.set()

    # ---- the working thread ----------------------------------------------------------------

    def _work(self) -> None:
        try:
            chain = self._load(self._report)
        except LabError as error:
            self._fail(str(error))
        except Exception as error:
            log.exception("the model could not be loaded")
            self._fail(
                f"loading stopped with {type(error).__name__}: {error}. "
                "Run `assay doctor` to see what is missing, then try again."
            )
        else:
            with self._changed:
                self._chain = chain
                self._status = Status("ready", 1.0, chain.manifest.name, chain.substitutions)
                self._changed.notify_all()
            while True:
                self._serve(chain, self._next())

    def _report(self, share: float, message: str) -> None:
        self._status = Status("loading", min(max(share, 0.0), 1.0), message)

    def _fail(self, message: str) -> None:
        with self._changed:
            self._status = Status("failed", 0.0, message)
            self._changed.notify_all()

    def _next(self) -> Ticket:
        with self._changed:
            while not self._line:
                self._changed.wait()
            self._running = self._line.pop(0)
            return self._running

    def _serve(self, chain: Chain, ticket: Ticket) -> None:
        """Answer one ticket in the context of the visitor who asked (ZeroGPU bills by it)."""
        try:
            if not ticket.stop.is_set():
                ticket.context.run(self._stream, chain, ticket)
        except LabError as error:
            ticket.pieces.put(error)
        except Exception as error:
            log.exception("the model failed while answering")
            ticket.pieces.put(_stopped_by(error))
        finally:
            ticket.pieces.put(None)
            with self._changed:
                self._running = None
                self._changed.notify_all()

    def _stream(self, chain: Chain, ticket: Ticket) -> None:
        request = ticket.request
        ticket.stages = request.pick(chain.stages)
        prompt = request.prompt or prompt_of(chain.manifest.system_prompt, request.question)
        for piece in chain.stream(prompt, ticket.stages, request.sampling, ticket.stop):
            ticket.pieces.put(piece)


def _stopped_by(error: Exception) -> LabError:
    problem = LabError(
        f"the model stopped in the middle with {type(error).__name__}: {error}. Ask again; if it "
        "happens every time, shorten the question or run `assay doctor`."
    )
    problem.__cause__ = error
    return problem
