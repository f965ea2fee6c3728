"""Who reviews papers: a stage of a chain on this machine, or a model on a server. Brings torch in."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from evals.review.prompt import Budget, system_prompt
from evals.schema import Article
from evals.schema.reviewruns import EngineRecord, ReviewAnswer, ReviewedRow, Reviewer
from lab.review.session import ReviewSettings, Step
from lab.settings import ReviewServer
from training.models.chain import LoadedChain
from training.reviewer.engine import Asking, ChainEngine, Engine, Room, stream_review
from training.reviewer.server import Estimate, ServerEngine, ServerSettings

REPLY_SHARE = 4
"""A reply may take at most one part in so many of what the model reads; the paper needs the rest."""


@dataclass
class ChainReader:
    """One stage of a chain. `load` gives the chain, loading it at the first call."""

    name: str
    stage: str
    load: Callable[[], LoadedChain]
    record: EngineRecord | None = None

    def reviewer(self, settings: ReviewSettings) -> Reviewer:
        """Return the stage and, once it has reviewed, what it was made of."""
        return _reviewer(self.name, "chain", self.stage, settings, self.record)

    def review(self, article: Article, settings: ReviewSettings, stop: threading.Event) -> Iterator[Step]:
        """Yield steps as concerns are found; the answer is held to the JSON schema."""
        chain = self.load()
        asking = _asking(settings, chain.context)
        engine = ChainEngine(chain, asking, self.stage)
        self.record = engine.record()
        yield from _steps(article, engine, asking, stop)


@dataclass
class ServerReader:
    """A model on a server, as whoever started the lab named it; visitors choose no address."""

    name: str
    server: ReviewServer
    record: EngineRecord | None = None

    def reviewer(self, settings: ReviewSettings) -> Reviewer:
        """Return the model and, once it has reviewed, how its answers were held to the schema."""
        return _reviewer(self.name, "server", "", settings, self.record)

    def review(self, article: Article, settings: ReviewSettings, stop: threading.Event) -> Iterator[Step]:
        """Yield a step per part of the paper: servers are asked for whole answers."""
        asking = _asking(settings, self.server.context)
        room = Room(Estimate(), self.server.context)
        where = ServerSettings(
            self.server.url,
            self.server.model,
            self.server.key_variable,
            self.server.allow_remote,
        )
        engine = ServerEngine(where, asking, room)
        for step in _steps(article, engine, asking, stop):
            self.record = engine.record()
            yield step


def _asking(settings: ReviewSettings, context: int) -> Asking:
    """Return how to ask; a reply never takes so much that hardly any paper is left."""
    context = min(context, Budget().context)
    reply = min(settings.max_new_tokens, context // REPLY_SHARE)
    return Asking(
        max_new_tokens=reply,
        temperature=settings.temperature,
        seed=settings.seed,
        overlap=min(Budget().overlap, context // REPLY_SHARE),
    )


def _steps(article: Article, engine: Engine, asking: Asking, stop: threading.Event) -> Iterator[Step]:
    for step in stream_review(article, engine, asking, stop, time.monotonic):
        answer = None if step.row is None else _answer(step.row, step.requests, step.n_tokens)
        yield Step(part=step.part, parts=step.parts, n_tokens=step.n_tokens, concerns=step.concerns, answer=answer)


def _answer(row: ReviewedRow, requests: tuple[str, ...], n_tokens: int) -> ReviewAnswer:
    return ReviewAnswer(
        requests=requests,
        raw=row.raw_output,
        status=row.status,
        problems=row.problems,
        finish_reason=row.finish_reason,
        n_tokens=n_tokens,
        seconds=row.seconds,
        tokens_lost=row.tokens_lost,
    )


def _reviewer(name: str, kind: str, stage: str, settings: ReviewSettings, record: EngineRecord | None) -> Reviewer:
    return Reviewer.model_validate(
        {
            "name": name,
            "kind": kind,
            "stage": stage,
            "checksums": record.checksums if record else {},
            "constraint": record.constraint if record else "none",
            "system_prompt": system_prompt(),
            "seed": settings.seed,
            "max_new_tokens": settings.max_new_tokens,
            "temperature": settings.temperature,
        }
    )
