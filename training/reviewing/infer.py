"""Papers through an engine, batch by batch, into a file that can be gone on with."""

import hashlib
import json
from collections import Counter as Tally
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

from evals.errors import BadConfig
from evals.reviewing import PROMPT_VERSION
from evals.reviewing.statistics import spread
from evals.schema import Article
from evals.schema.reviewruns import ReviewedRow, ReviewRun
from training.reviewing.engine import Asking, Engine, Reply
from training.reviewing.paper import Asked, asked_about, row_of
from training.reviewing.results import ReviewFile

Progress = Callable[[int, int, ReviewedRow | None], None]
"""Called with papers done, papers in all, and the last row."""


@dataclass(frozen=True)
class Clocks:
    """What tells the time: seconds from any start, and the date."""

    seconds: Callable[[], float]
    now: Callable[[], datetime]


@dataclass(frozen=True)
class Job:
    """What is to be done: these papers, by this engine, `batch` parts of papers at a time."""

    articles: Sequence[Article]
    engine: Engine
    asking: Asking
    batch: int = 4

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise BadConfig(f"batch is {self.batch}; it takes 1 or more.")
        ids = Tally(article.id for article in self.articles)
        twice = [name for name, count in ids.items() if count > 1]
        if twice:
            raise BadConfig(f"the paper {twice[0]!r} is there twice; ids are unique.")


def infer(
    job: Job, file: ReviewFile, clocks: Clocks, progress: Progress, *, overwrite: bool = False
) -> ReviewRun:
    """Review every paper that has no good row yet and return the run's record.

    However it ends, even by Ctrl-C, the file then holds exactly one row per paper that was reviewed.
    BadConfig if the file was made in another way.
    """
    budget = job.asking.budget(job.engine.room.context)
    asked = [asked_about(article, job.engine.room, budget) for article in job.articles]
    run = _begun(job, clocks)
    with file.open(run, overwrite=overwrite):
        open_ones = [each for each in asked if not _stands(each, file)]
        before = len(asked) - len(open_ones)
        progress(before, len(asked), None)
        started, fresh = clocks.seconds(), []
        status = "stopped"
        try:
            for rows in _reviewed(open_ones, job, clocks):
                file.add(rows)
                fresh += rows
                for row in rows:
                    before += 1
                    progress(before, len(asked), row)
            status = "finished"
        finally:
            rows = file.finish([each.article_id for each in asked])
            took = clocks.seconds() - started
            run = _ended(run, job, rows, fresh).model_copy(
                update={"status": status, "ended_at": clocks.now(), "seconds": round(took, 3)}
            )
            file.write_record(run)
    return run


def _stands(asked: Asked, file: ReviewFile) -> bool:
    """Whether a paper has a good row that answers just what would be asked."""
    known = file.rows.get(asked.article_id)
    if known is not None and known.asked_sha256 != asked.sha256:
        del file.rows[asked.article_id]
        return False
    return known is not None and known.is_good


def _reviewed(papers: Sequence[Asked], job: Job, clocks: Clocks) -> Iterator[list[ReviewedRow]]:
    """Give the rows of whole papers, as many at a time as a batch has room for."""
    for group in _groups(papers, job.batch):
        requests = [request for each in group for request in each.requests]
        started = clocks.seconds()
        replies: list[Reply] = []
        for first in range(0, len(requests), job.batch):
            replies += job.engine.answer(requests[first : first + job.batch])
        per_token = (clocks.seconds() - started) / max(1, sum(map(_effort, replies)))
        rows = []
        for each in group:
            mine, replies = replies[: len(each.requests)], replies[len(each.requests) :]
            rows.append(row_of(each, mine, per_token * sum(map(_effort, mine))))
        yield rows


def _groups(papers: Sequence[Asked], batch: int) -> Iterator[list[Asked]]:
    group: list[Asked] = []
    for each in papers:
        if group and sum(len(one.requests) for one in (*group, each)) > batch:
            yield group
            group = []
        group.append(each)
    if group:
        yield group


def _effort(reply: Reply) -> int:
    """Return what a reply cost, in tokens written and one for reading, which is fast."""
    return 1 + (reply.tokens_written or len(reply.text) // 4)


def _begun(job: Job, clocks: Clocks) -> ReviewRun:
    engine = job.engine.record()
    settings: dict[str, float | int | str] = {**asdict(job.asking)}
    settings["context"] = job.asking.budget(job.engine.room.context).context
    unsure = {"constraint", "substitutions", "served", *(() if engine.host else ("host",))}
    known = {
        "settings": settings,
        "engine": engine.model_dump(exclude=unsure),  # the others are known once it has answered
        "prompt": PROMPT_VERSION,
    }
    fingerprint = hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()
    return ReviewRun(
        prompt_version=PROMPT_VERSION,
        engine=engine,
        settings={**settings, "batch": job.batch},
        fingerprint=fingerprint,
        started_at=clocks.now(),
    )


def _ended(
    run: ReviewRun, job: Job, rows: Sequence[ReviewedRow], fresh: Sequence[ReviewedRow]
) -> ReviewRun:
    """Return the record with what came of the run."""
    return run.model_copy(
        update={
            "engine": job.engine.record(),
            "articles": len(rows),
            "reviewed_before": len(rows) - len({row.article_id for row in fresh}),
            "by_status": dict(Tally(row.status for row in rows)),
            "finish_reasons": dict(Tally(row.finish_reason for row in rows)),
            "concerns": sum(len(row.concerns) for row in rows),
            "seconds_per_article": spread([row.seconds for row in fresh]) if fresh else None,
        }
    )
