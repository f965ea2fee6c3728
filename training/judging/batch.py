"""Many answers judged at once, up to a deadline; and from code that has no event loop of its own."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

from evals.errors import LabError
from evals.refiner.judging import Inquiry, Judge, Verdicts, missing

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


async def by_deadline(
    work: Iterable[Coroutine[Any, Any, Result]], deadline_seconds: float
) -> list[Result | None]:
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
