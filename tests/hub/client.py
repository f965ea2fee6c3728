"""The real client in a process of its own: HF_ENDPOINT counts only if it is set before the first import.

One process serves many tests; a test that kills it gets a new one.
"""

import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

TOKEN, OTHER = "hf_test", "hf_other"


class Client:
    """Runs functions in a process whose Hub is `url`; `is_xet` chooses how large files travel."""

    def __init__(self, url: str, home: Path, *, is_xet: bool) -> None:
        self.url, self._home, self._is_xet = url, home, is_xet
        self._pool: ProcessPoolExecutor | None = None

    def run(self, function: Callable[..., Any], *words: Any, **named: Any) -> Any:
        """Return what the function returns there; its errors are raised here."""
        if self._pool is None:
            self._pool = ProcessPoolExecutor(
                1,
                multiprocessing.get_context("spawn"),
                initializer=enter,
                initargs=(self.url, str(self._home), self._is_xet),
            )
        return self._pool.submit(function, *words, **named).result(timeout=120)

    def close(self) -> None:
        """End the process; the next call starts another."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None


def environment(url: str, home: str, *, is_xet: bool) -> dict[str, str]:
    """Return what a client's process needs to see."""
    return {
        "HF_ENDPOINT": url,
        "HF_HOME": home,
        "HF_TOKEN": TOKEN,
        "HF_HUB_OFFLINE": "0",
        "HF_DATASETS_OFFLINE": "0",
        "HF_EVALUATE_OFFLINE": "0",
        "HF_HUB_DISABLE_XET": "0" if is_xet else "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
    }


def enter(url: str, home: str, is_xet: bool) -> None:
    """Set up the process before huggingface_hub is imported in it."""
    os.environ.update(environment(url, home, is_xet=is_xet))
