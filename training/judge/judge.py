"""Many answers judged at once, up to a deadline; and from code that has no event loop of its own."""

import asyncio
import json
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

from evals.errors import BadConfig, LabError, TrainingStopped
from evals.refine.judge import HeuristicJudge, Inquiry, Judge, StubJudge, Verdicts, missing
from evals.refine.score import prepare, settle
from evals.schema.record import Record
from evals.schema.refiner import RefinerRecord, RewardConfig
from training.judge.client import HttpJudge
from training.judge.questions import HttpSettings


class StopRule:
    """Raises once too large a share of answers had no verdict, `patience` batches in a row."""

    def __init__(self, max_missing_share: float = 0.25, patience: int = 1) -> None:
        self.max_missing_share = max_missing_share
        self.patience = patience
        self._in_a_row = 0

    def saw(self, missing: int, judged: int, problems: tuple[str, ...] = ()) -> None:
        """Take note of a batch; TrainingStopped if it was one too many."""
        if not judged or missing / judged <= self.max_missing_share:
            self._in_a_row = 0
            return
        self._in_a_row += 1
        if self._in_a_row < self.patience:
            return
        seen = f" It said: {'; '.join(problems[:3])}." if problems else ""
        raise TrainingStopped(
            f"the judge gave no verdict on {missing} of {judged} answers, in {self._in_a_row} batches in a"
            f" row (allowed: {self.max_missing_share:.0%} of a batch).{seen} Look at its server, then give"
            " the same command again to go on from the last checkpoint."
        )


Backend = Literal["http", "heuristic", "stub"]


def judge_of(backend: Backend, settings: HttpSettings | None = None) -> Judge:
    """Return the judge of a name; `settings` are for "http"."""
    if backend == "heuristic":
        return HeuristicJudge()
    if backend == "stub":
        return StubJudge()
    if settings is None:
        raise BadConfig(
            "the judge is http, but no address was given; set judge to one, such as http://127.0.0.1:8000/v1."
        )
    return HttpJudge(settings)


def backend_of(word: str) -> Backend:
    """Return which judge a word names; BadConfig for what is neither a name nor an address."""
    if word in ("stub", "heuristic"):
        return "stub" if word == "stub" else "heuristic"
    if word.startswith(("http://", "https://")):
        return "http"
    raise BadConfig(
        f"there is no judge {word!r}; use stub, heuristic, or the address of a server, such as"
        " http://127.0.0.1:8000/v1."
    )


Asked = TypeVar("Asked")
Result = TypeVar("Result")


@runtime_checkable
class Closable(Protocol):
    """A judge that holds connections."""

    async def close(self) -> None:
        """Let go of them."""


async def judge_all(
    judge: Judge,
    inquiries: Sequence[Inquiry],
    deadline_seconds: float,
    tell: Callable[[int], None] | None = None,
) -> list[Verdicts]:
    """Return the verdicts on each answer; those not there at the deadline are missing.

    `tell` hears how many are done. LabError, which a person can act on, is raised; so is any bug.
    """
    given = await by_deadline(counting(judge.judge, inquiries, tell), deadline_seconds)
    return [
        late(inquiry, deadline_seconds) if each is None else each
        for inquiry, each in zip(inquiries, given, strict=True)
    ]


def counting(
    ask: Callable[[Asked], Coroutine[Any, Any, Result]],
    asked: Iterable[Asked],
    tell: Callable[[int], None] | None,
) -> Iterator[Coroutine[Any, Any, Result]]:
    """Yield the work of asking each; `tell` hears how many are done."""
    done = 0

    async def one(each: Asked) -> Result:
        nonlocal done
        result = await ask(each)
        done += 1
        if tell is not None:
            tell(done)
        return result

    return map(one, asked)


def late(inquiry: Inquiry, deadline_seconds: float) -> Verdicts:
    """Return the verdicts on an answer that was not judged in time: all missing."""
    return missing(inquiry, f"not judged within {deadline_seconds:g} s")


async def by_deadline(work: Iterable[Coroutine[Any, Any, Result]], deadline_seconds: float) -> list[Result | None]:
    """Return what each piece of work returns, in order; None for what is not done at the deadline.

    Each is begun while those before it wait, so what it takes to make one costs the others no time.
    The first error ends all the rest and is raised.
    """
    ends_at = asyncio.get_running_loop().time() + deadline_seconds
    tasks: list[asyncio.Task[Result]] = []
    try:
        for each in work:
            tasks.append(asyncio.create_task(each))
            await asyncio.sleep(0)
        if not tasks:
            return []
        left = max(0.0, ends_at - asyncio.get_running_loop().time())
        done, _ = await asyncio.wait(tasks, timeout=left, return_when=asyncio.FIRST_EXCEPTION)
        failed = [error for task in done if (error := task.exception()) is not None]
        if failed:
            raise failed[0]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return [task.result() if task in done else None for task in tasks]


def judged(
    judge: Judge,
    inquiries: Sequence[Inquiry],
    deadline_seconds: float,
    tell: Callable[[int], None] | None = None,
) -> list[Verdicts]:
    """Return the verdicts on each answer, from anywhere: the judge works in a loop of its own."""

    async def work() -> list[Verdicts]:
        try:
            return await judge_all(judge, inquiries, deadline_seconds, tell)
        finally:
            if isinstance(judge, Closable):
                await judge.close()

    return in_a_loop(work())


def in_a_loop(work: Coroutine[Any, Any, Result]) -> Result:
    """Return what a coroutine returns; it runs in a thread, so a loop that runs here is no hindrance."""
    results: list[Result] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(asyncio.run(work))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="judge")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    if not results:
        raise LabError("the judge was interrupted; nothing was judged.")
    return results[0]


NEEDED = 7
"""Of the eight pairs, how many have to come out right."""


class ProbePair(Record):
    """A record with a better and a worse answer; `about` says what makes the difference."""

    about: str
    record: RefinerRecord
    better: str
    worse: str


@dataclass(frozen=True)
class ProbeResult:
    """How many pairs a judge put in the right order, and what the others are about."""

    right: int
    total: int
    wrong: tuple[str, ...]

    def refuse_unless_fit(self, label: str, needed: int = NEEDED) -> None:
        """Raise BadConfig if too few pairs came out right."""
        if self.right < needed:
            raise BadConfig(
                f"the judge {label} put only {self.right} of {self.total} known pairs in the right order"
                f" (needed: {needed}); it failed at: {'; '.join(self.wrong)}. Use a more capable model, or"
                " look whether the server answers at all."
            )


@cache
def probe_pairs() -> tuple[ProbePair, ...]:
    """Return the eight pairs, from pairs.json."""
    text = files("training.judge").joinpath("pairs.json").read_text(encoding="utf-8")
    return tuple(ProbePair.model_validate(row) for row in json.loads(text))


def probe(judge: Judge, deadline_seconds: float = 120.0) -> ProbeResult:
    """Return how a judge orders the known pairs; a missing verdict is a wrong order."""
    config = RewardConfig(gate="off")
    pairs = probe_pairs()
    cases = [prepare(pair.record, answer, config) for pair in pairs for answer in (pair.better, pair.worse)]
    verdicts = judged(judge, [case.inquiry() for case in cases], deadline_seconds)
    rewards = [settle(case, given).reward for case, given in zip(cases, verdicts, strict=True)]
    wrong = []
    for place, pair in enumerate(pairs):
        better, worse = rewards[2 * place], rewards[2 * place + 1]
        if better is None or worse is None or better <= worse:
            wrong.append(pair.about)
    return ProbeResult(len(pairs) - len(wrong), len(pairs), tuple(wrong))
