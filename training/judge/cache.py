"""Replies that were given before, in one sqlite file: the same question to the same judge costs nothing.

Only whole replies are kept; a failure is never remembered. Safe for several threads and processes.
Replies are written many in one transaction: whoever breaks off a step loses those of the last moments.
"""

import json
import sqlite3
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evals.errors import LabError
from training.judge.questions import Verdict

WAIT_SECONDS = 30.0
TOGETHER = 64
"""Replies in one transaction: one each would take as long as the rest of the work for a reply."""


class VerdictCache:
    """Verdicts by the checksum of everything that they depend on; the file is opened on first use."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._unwritten: dict[str, str] = {}

    def __getstate__(self) -> dict[str, object]:
        return {"path": self.path}

    def __setstate__(self, state: Mapping[str, Path]) -> None:
        self.__init__(state["path"])

    def get(self, key: str) -> dict[str, Verdict] | None:
        """Return the verdicts kept under a key, or None."""
        kept = self.document(key)
        return kept and {name: Verdict(*each) for name, each in kept.items()}

    def document(self, key: str) -> dict[str, Any] | None:
        """Return what is kept under a key as JSON has it, or None."""
        with self._lock:
            text = self._unwritten.get(key) or self._written(key)
        return None if text is None else json.loads(text)

    def put(self, key: str, document: Mapping[str, object]) -> None:
        """Keep a whole reply, such as its verdicts; it is in the file after `write` or some replies more."""
        text = json.dumps(dict(document), ensure_ascii=False)
        with self._lock:
            self._unwritten[key] = text
            if len(self._unwritten) >= TOGETHER:
                self._write()

    def write(self) -> None:
        """Write what is not in the file yet."""
        with self._lock:
            self._write()

    def close(self) -> None:
        """Write what is left and let go of the file; the next use opens it again."""
        with self._lock:
            self._write()
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _written(self, key: str) -> str | None:
        found = self._open().execute("SELECT verdicts FROM replies WHERE key = ?", (key,))
        row = found.fetchone()
        return None if row is None else row[0]

    def _write(self) -> None:
        if not self._unwritten:
            return
        with self._open() as connection:
            connection.executemany("INSERT OR REPLACE INTO replies VALUES (?, ?)", self._unwritten.items())
        self._unwritten.clear()

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                connection = sqlite3.connect(self.path, timeout=WAIT_SECONDS, check_same_thread=False)
                connection.execute("PRAGMA journal_mode=WAL")
                connection.execute("PRAGMA synchronous=NORMAL")
                connection.execute("CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, verdicts TEXT NOT NULL)")
            except (sqlite3.Error, OSError) as error:
                raise LabError(
                    f"the cache of verdicts {self.path} cannot be used ({error}); name another file, or"
                    " delete it: verdicts are asked for again."
                ) from error
            self._connection = connection
        return self._connection
