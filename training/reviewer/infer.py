"""Papers through an engine, batch by batch, into a file that can be gone on with."""

import hashlib
import json
import os
from collections import Counter as Tally
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

from evals.errors import BadConfig
from evals.io import jsonl_text, read_rows, write_whole
from evals.review.clean import read_record, record_beside
from evals.review.corpus import spread
from evals.review.prompt import PROMPT_VERSION
from evals.schema import Article
from evals.schema.articles import ReviewedRow, ReviewRun
from training.judge.client import Reply
from training.reviewer.engine import Asking, PaperRequests, Replies, ReviewEngine, requests_for, row_of
from training.run.folder import only_writer


class ReviewFile:
    """The rows of one run. `rows` are those that stand, by the id of the paper.

    `replies` are what was answered about papers that have no good row, by the checksum of what was asked.
    """

    def __init__(self, path: Path) -> None:
        if path.suffix != ".jsonl":
            raise BadConfig(f"--out is {path}; name a file that ends in .jsonl.")
        self.path, self.journal = path, path.with_name(f"{path.name}.journal")
        self.rows: dict[str, ReviewedRow] = {}
        self.replies: dict[str, Reply] = {}

    @contextmanager
    def open(self, run: ReviewRun) -> Generator[None]:
        """Keep the file for one run, with the good rows of an earlier one of the same kind in `rows`.

        BadConfig if another process writes to it, or if its rows were made in another way.
        """
        refusal = f"another process is writing {self.path}; wait for it, or name another file."
        with only_writer(self.path.with_name(f".{self.path.name}.lock"), refusal):
            self._read_earlier_rows(run)
            self.write_record(run)
            yield

    def add(self, rows: Sequence[ReviewedRow]) -> None:
        """Note rows, safe against being killed from here on; a good row is never replaced by a bad one."""
        self._note([row.model_dump_json() for row in rows])
        self._keep(rows)

    def add_reply(self, key: str, reply: Reply) -> None:
        """Note a reply about a paper whose row is not there yet, as safely as a row."""
        self._note([json.dumps({"key": key, "reply": asdict(reply)})])
        self.replies[key] = reply

    def finish(self, order: Sequence[str]) -> tuple[ReviewedRow, ...]:
        """Write the file with one row per paper, in this order; the journal keeps the replies that are still needed."""
        rows = {name: self.rows[name] for name in order if name in self.rows}
        write_whole(self.path, jsonl_text((rows | self.rows).values()))
        self.journal.unlink(missing_ok=True)
        if len(rows) < len(order) or not all(row.is_good for row in rows.values()):
            self._note([json.dumps({"key": key, "reply": asdict(reply)}) for key, reply in self.replies.items()])
        return tuple(rows.values())

    def _note(self, lines: Iterable[str]) -> None:
        with self.journal.open("a", encoding="utf-8") as file:
            file.writelines(f"\n{line}" for line in lines)  # a kill may have cut off the last line
            file.flush()
            os.fsync(file.fileno())

    def write_record(self, run: ReviewRun) -> None:
        """Write how the rows come about."""
        write_whole(record_beside(self.path), run.model_dump_json(indent=1) + "\n")

    def _read_earlier_rows(self, run: ReviewRun) -> None:
        """Read the rows of an earlier run that went about it in the same way."""
        if not (self.path.exists() or self.journal.exists()):
            return
        known = read_record(self.path)
        if known is None or known.fingerprint != run.fingerprint:
            apart = "were not written by this command (there is no record of it beside them)"
            if known is not None:
                fields = {"kind", "name", "host", "stage", "dtype", "checksums"}
                before, now = ({**each.settings, **each.engine.model_dump(include=fields)} for each in (known, run))
                other = [key for key in now if key != "batch" and before.get(key) != now[key]]
                changed = "; ".join(f"{key} {before.get(key)!r}, now {now[key]!r}" for key in other)
                apart = f"were made in another way ({changed or 'by another version'})"
            raise BadConfig(
                f"{self.path} holds rows that {apart}; rows of two kinds in one file could not be"
                f" told apart. Name another --out, or delete {self.path.name} and {self.journal.name} to make them again."
            )
        if self.path.exists():
            self._keep(read_rows(self.path, ReviewedRow, otherwise="delete it"))
        if self.journal.exists():
            for line in self.journal.read_bytes().split(b"\n"):
                with suppress(ValueError, TypeError):  # empty, or cut off by a kill
                    if line.startswith(b'{"key"'):
                        noted = json.loads(line)
                        self.replies[noted["key"]] = Reply(**noted["reply"])
                    else:
                        self._keep([ReviewedRow.model_validate_json(line)])

    def _keep(self, rows: Iterable[ReviewedRow]) -> None:
        for row in rows:
            known = self.rows.get(row.article_id)
            if known is None or row.is_good or not known.is_good:
                self.rows[row.article_id] = row


OnPaper = Callable[[int, int, ReviewedRow | None], None]
"""Called with papers done, papers in all, and the last row."""


Within = Callable[[str], None]
"""Called within papers: "part 2 of 4, 120 tokens"."""


@dataclass(frozen=True)
class Clocks:
    """What tells the time: seconds from any start, and the date."""

    seconds: Callable[[], float]
    now: Callable[[], datetime]


@dataclass(frozen=True)
class ReviewPlan:
    """What is to be done: these papers, by this engine, `batch` parts of papers at a time."""

    articles: Sequence[Article]
    engine: ReviewEngine
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
    plan: ReviewPlan, file: ReviewFile, clocks: Clocks, progress: OnPaper, within: Within | None = None
) -> ReviewRun:
    """Review every paper that has no good row yet and return the run's record.

    However it ends, even by Ctrl-C, the file then holds exactly one row per paper that was reviewed.
    BadConfig if the file was made in another way.
    """
    budget = plan.asking.budget(plan.engine.room.context)
    asked = [requests_for(article, plan.engine.room, budget) for article in plan.articles]
    engine = plan.engine.record()
    settings: dict[str, float | int | str] = {**asdict(plan.asking), "context": budget.context}
    unsure = {"constraint", "substitutions", "served", *(() if engine.host else ("host",))}  # known by an answer
    known = {"settings": settings, "engine": engine.model_dump(exclude=unsure), "prompt": PROMPT_VERSION}
    run = ReviewRun(
        prompt_version=PROMPT_VERSION,
        engine=engine,
        settings={**settings, "batch": plan.batch},
        fingerprint=hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest(),
        started_at=clocks.now(),
        paper_notes={each.id: each.origin.notes for each in plan.articles if each.origin.notes},
    )
    with file.open(run):
        for each in asked:  # rows about another text of a paper do not stand
            if (row := file.rows.get(each.article_id)) and row.asked_sha256 != each.sha256:
                del file.rows[each.article_id]
        open_ones = [each for each in asked if not ((row := file.rows.get(each.article_id)) and row.is_good)]
        done = len(asked) - len(open_ones)
        progress(done, len(asked), None)
        started, fresh, status = clocks.seconds(), [], "stopped"
        replies = plan.engine.replies = Replies(file.replies, file.add_reply)
        try:
            for rows in _review_papers(open_ones, plan, clocks, within):
                file.add(rows)
                if all(row.is_good for row in rows):
                    for key in replies.used:
                        file.replies.pop(key, None)
                replies.used.clear()
                fresh += rows
                for row in rows:
                    done += 1
                    progress(done, len(asked), row)
            status = "finished"
        finally:
            rows = file.finish([each.article_id for each in asked])
            run = run.model_copy(
                update={
                    "engine": plan.engine.record(),
                    "articles": len(rows),
                    "reviewed_before": len(rows) - len({row.article_id for row in fresh}),
                    "by_status": dict(Tally(row.status for row in rows)),
                    "finish_reasons": dict(Tally(row.finish_reason for row in rows)),
                    "concerns": sum(len(row.concerns) for row in rows),
                    "seconds_per_article": spread([row.seconds for row in fresh]) if fresh else None,
                    "status": status,
                    "ended_at": clocks.now(),
                    "seconds": round(clocks.seconds() - started, 3),
                }
            )
            file.write_record(run)
    return run


def _review_papers(
    papers: Sequence[PaperRequests], plan: ReviewPlan, clocks: Clocks, within: Within | None
) -> Iterator[list[ReviewedRow]]:
    """Give the rows of whole papers, as many at a time as a batch has room for."""
    groups: list[list[PaperRequests]] = []
    for each in papers:
        if groups and sum(len(one.requests) for one in (*groups[-1], each)) <= plan.batch:
            groups[-1].append(each)
        else:
            groups.append([each])
    for group in groups:
        requests = [request for each in group for request in each.requests]
        started = clocks.seconds()
        replies = []
        for at in range(0, len(requests), plan.batch):
            batch = requests[at : at + plan.batch]
            parts = f"part {at + 1}" if len(batch) == 1 else f"parts {at + 1} to {at + len(batch)}"
            where = f"{group[0].article_id if len(group) == 1 else f'{len(group)} papers'}: {parts} of {len(requests)}"
            if within:
                within(where)
            on_tokens = (lambda tokens, where=where: within(f"{where}, {tokens} tokens")) if within else None
            replies += plan.engine.answer(batch, on_tokens)
        seconds = clocks.seconds() - started
        # what a reply cost: tokens written, and one for reading, which is fast
        effort = [1 + (reply.tokens_written or len(reply.text) // 4) for reply in replies]
        rows, at = [], 0
        for each in group:
            mine = slice(at, at := at + len(each.requests))
            rows.append(row_of(each, replies[mine], seconds * sum(effort[mine]) / max(1, sum(effort))))
        yield rows
