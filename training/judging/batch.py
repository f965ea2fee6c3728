"""Many answers judged at once, up to a deadline; and from code that has no event loop of its own."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

from evals.errors import LabError
from evals.refiner.judging import Inquiry, Judge, Verdicts, missing

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
    tasks = [asyncio.ensure_future(judge.judge(inquiry)) for inquiry in inquiries]
    if not tasks:
        return []
    if tell is not None:
        for task in tasks:
            task.add_done_callback(lambda _: tell(sum(each.done() for each in tasks)))
    done, late = await asyncio.wait(
        tasks, timeout=deadline_seconds, return_when=asyncio.FIRST_EXCEPTION
    )
    failed = [error for task in done if (error := task.exception()) is not None]
    for task in (*late,):
        task.cancel()
    await asyncio.gather(*late, return_exceptions=True)
    if failed:
        raise failed[0]
    return [
        task.result()
        if task in done
        else missing(inquiry, f"not judged within {deadline_seconds:g} s")
        for task, inquiry in zip(tasks, inquiries, strict=True)
    ]


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
