"""Waits for what happens elsewhere: in another thread or process, or in a coroutine."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


def result_of(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return what a coroutine returns, run away from the main thread, where a synchronous Playwright leaves a loop running."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, coroutine).result()


def until(is_so: Callable[[], object], seconds: float = 30.0) -> None:
    """Wait until something is so; fail where that takes too long."""
    limit = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < limit, "it did not happen in time"
        time.sleep(0.01)
