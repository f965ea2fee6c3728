"""Verdicts that were given before, in one sqlite file: the same question to the same judge costs nothing.

Only whole replies are kept; a failure is never remembered. Safe for several threads and processes.
"""

import json
import sqlite3
import threading
from collections.abc import Mapping
from pathlib import Path

from evals.errors import LabError
from training.judging.reply import Verdict

WAIT_SECONDS = 30.0


class VerdictCache:
    """Verdicts by the checksum of everything that they depend on; the file is opened on first use."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    def __getstate__(self) -> dict[str, object]:
        return {"path": self.path}

    def __setstate__(self, state: Mapping[str, Path]) -> None:
        self.__init__(state["path"])

    def get(self, key: str) -> dict[str, Verdict] | None:
        """Return the verdicts kept under a key, or None."""
        with self._lock:
            row = (
                self._open()
                .execute("SELECT verdicts FROM replies WHERE key = ?", (key,))
                .fetchone()
            )
        if row is None:
            return None
        return {name: Verdict(*each) for name, each in json.loads(row[0]).items()}

    def put(self, key: str, verdicts: Mapping[str, Verdict]) -> None:
        """Keep the verdicts of a whole reply."""
        text = json.dumps(dict(verdicts), ensure_ascii=False)
        with self._lock, self._open() as connection:
            connection.execute("INSERT OR REPLACE INTO replies VALUES (?, ?)", (key, text))

    def close(self) -> None:
        """Let go of the file; the next use opens it again."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                connection = sqlite3.connect(
                    self.path, timeout=WAIT_SECONDS, check_same_thread=False
                )
                connection.execute("PRAGMA journal_mode=WAL")
                connection.execute("PRAGMA synchronous=NORMAL")
                connection.execute(
                    "CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, verdicts TEXT NOT NULL)"
                )
            except (sqlite3.Error, OSError) as error:
                raise LabError(
                    f"the cache of verdicts {self.path} cannot be used ({error}); name another file, or"
                    " delete it: verdicts are asked for again."
                ) from error
            self._connection = connection
        return self._connection
