"""Who reviews papers: stages of a chain on this machine, and a model on a server."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from evals.schema import Article
from evals.schema.articles import ReviewStep
from evals.schema.questions import Sampling
from evals.schema.runs import is_demonstration
from lab.settings import LabSettings, Server
from lab.ui.text import say
from training.models.manifest import chain_file, read_chain

if TYPE_CHECKING:
    from training.reviewer.engine import ReviewEngine

REPLY_SHARE = 4
"""A reply may take at most one part in so many of what the model reads; the paper needs the rest."""

SECTIONS_OF_A_SERVER = 4
"""Sections that a server is asked about at once; a chain reviews one after another, so that it can be stopped."""


@dataclass(frozen=True)
class Reader:
    """A stage of a chain, as in `lab.engine.WriteRequest`, or the model of a server; `name` is what people choose it by."""

    name: str
    chain: str | None = None
    stage: str = ""
    server: Server | None = None

    def write(
        self,
        article: Article,
        sampling: Sampling,
        chain: Any,
        stop: threading.Event,
        before: Mapping[str, Any] | None = None,
        keep: Callable[[Mapping[str, Any]], None] = lambda parts: None,
        *,
        is_staged: bool = False,
    ) -> Iterator[ReviewStep]:
        """Yield steps as concerns are found; setting `stop` ends it soon, with what was found.

        `keep` is given all replies so far, as JSON, after each part or stage; from `before`, the last of it, it goes on.
        """
        from evals.review.prompt import Budget
        from training.judge.client import Reply
        from training.judge.prompts import ServerSettings
        from training.reviewer.engine import (
            Asking,
            ChainEngine,
            EstimatedTokens,
            Replies,
            Room,
            ServerEngine,
            stream_review,
        )

        context = self.server.context if self.server else chain.context
        share = min(context, Budget().context) // REPLY_SHARE
        asking = Asking(
            max_new_tokens=min(sampling.max_new_tokens, share),
            temperature=sampling.temperature,
            seed=sampling.seed,
            overlap=min(Budget().overlap, share),
        )
        if (server := self.server) is None:
            engine: ReviewEngine = ChainEngine(chain, asking, self.stage)
        else:
            where = ServerSettings(server.url, server.model, server.key_variable, server.allow_remote)
            engine = ServerEngine(where, asking, Room(EstimatedTokens(), context))
        if is_staged:
            from training.reviewer.staged import StagedEngine

            engine = StagedEngine(engine, SECTIONS_OF_A_SERVER if server else 1)
        kept, seconds = dict((before or {}).get("replies", {})), (before or {}).get("seconds", 0.0)
        started = time.monotonic() - seconds

        def add(key: str, reply: Reply) -> None:
            kept[key] = asdict(reply)
            keep({"replies": kept, "seconds": time.monotonic() - started})

        engine.replies = Replies({key: Reply(**each) for key, each in kept.items()}, add, seconds)
        return stream_review(article, engine, asking, stop, time.monotonic)


def find_readers(settings: LabSettings) -> tuple[Reader, ...]:
    """Return who can review papers: every stage of the reviewer chain, its base, and a named server.

    Where the chain is not there, the embedded base stands alone. Nothing is loaded yet.
    """
    chain, stages, checksums = "base:embedded", ["base"], dict[str, str]()
    if chain_file(settings.reviewer).exists():
        manifest = read_chain(settings.reviewer).manifest
        chain, stages = settings.reviewer, [*(stage.name for stage in reversed(manifest.stages)), "base"]
        checksums = {stage.name: stage.sha256 for stage in manifest.stages}
    kinds = {"base": "base"} | {stage: "demonstration" for stage in stages if is_demonstration(stage, checksums)}
    readers = [Reader(say(f"review.stage.{kinds.get(stage, 'other')}", stage=stage), chain, stage) for stage in stages]
    server = settings.review_server
    if server is not None:
        readers.append(Reader(say("review.server", model=server.model or server.url), server=server))
    return tuple(readers)
