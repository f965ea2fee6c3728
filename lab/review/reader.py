"""Who reviews papers: a stage of a chain on this machine, or a model on a server. Brings torch in."""

import threading
import time
from collections.abc import Iterator

from evals.model import Sampling
from evals.review.prompt import Budget
from evals.schema import Article
from evals.schema.reviewruns import ReviewStep
from lab.settings import Server
from training.models.chain import LoadedChain
from training.reviewer.engine import Asking, ChainEngine, Room, stream_review
from training.reviewer.server import Estimate, ServerEngine, ServerSettings

REPLY_SHARE = 4
"""A reply may take at most one part in so many of what the model reads; the paper needs the rest."""


def chain_steps(
    stage: str, article: Article, sampling: Sampling, chain: LoadedChain, stop: threading.Event
) -> Iterator[ReviewStep]:
    """Yield steps as one stage of a chain finds concerns; its answer is held to the JSON schema."""
    asking = _asking(sampling, chain.context)
    return stream_review(article, ChainEngine(chain, asking, stage), asking, stop, time.monotonic)


def server_steps(server: Server, article: Article, sampling: Sampling, stop: threading.Event) -> Iterator[ReviewStep]:
    """Yield a step per part of the paper: servers are asked for whole answers."""
    asking = _asking(sampling, server.context)
    where = ServerSettings(server.url, server.model, server.key_variable, server.allow_remote)
    engine = ServerEngine(where, asking, Room(Estimate(), server.context))
    return stream_review(article, engine, asking, stop, time.monotonic)


def _asking(sampling: Sampling, context: int) -> Asking:
    """Return how to ask; a reply never takes so much that hardly any paper is left."""
    share = min(context, Budget().context) // REPLY_SHARE
    return Asking(
        max_new_tokens=min(sampling.max_new_tokens, share),
        temperature=sampling.temperature,
        seed=sampling.seed,
        overlap=min(Budget().overlap, share),
    )
