"""What scoring asks of an encoder, and vectors kept on disk so that no text is encoded twice."""

import hashlib
import re
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from evals.errors import LabError

Vectors = npt.NDArray[np.float32]
BATCH = 128
"""Texts that are encoded before the vectors are put on disk."""
ASKED = 500
"""Texts that are looked up at once."""


class Encoder(Protocol):
    """Turns texts into vectors; `revision` changes whenever the same text could get another vector."""

    @property
    def name(self) -> str:
        """What a user calls it."""
        ...

    @property
    def revision(self) -> str:
        """Which weights exactly."""
        ...

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return one vector of length 1 per text, shape (texts, dimensions)."""
        ...


class ReadyVectors:
    """Vectors that a file brought; it encodes nothing else."""

    def __init__(self, name: str, vectors: Mapping[str, Sequence[float]]) -> None:
        self.name = name
        self._row = {text.strip(): row for row, text in enumerate(vectors)}
        self._vectors = normalised(np.array(list(vectors.values()), dtype=np.float32))
        self.revision = hashlib.sha256(self._vectors.tobytes()).hexdigest()[:12]

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of texts; LabError names the first that has none."""
        missing = [text for text in texts if text.strip() not in self._row]
        if missing:
            raise LabError(
                f"{len(missing)} texts have no vector in {self.name}, such as {missing[0][:60]!r};"
                " write one for every concern, or name an encoder"
            )
        return self._vectors[[self._row[text.strip()] for text in texts]]


class CachedEncoder:
    """An encoder whose vectors are kept in a file of their own for each revision.

    What was encoded before an interruption is not encoded again. The file may be deleted any time.
    """

    def __init__(
        self, encoder: Encoder, folder: Path, progress: Callable[[int, int], None] | None = None
    ) -> None:
        self.name, self.revision = encoder.name, encoder.revision
        self._encoder = encoder
        self._progress = progress or (lambda _done, _total: None)
        label = re.sub(r"[^\w.-]+", "-", f"{encoder.name}@{encoder.revision}")[:80]
        short = hashlib.sha256(f"{encoder.name}@{encoder.revision}".encode()).hexdigest()[:8]
        self.path = folder / f"{label}-{short}.sqlite"

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of texts, encoding those that are not on disk; each text once."""
        unique = list(dict.fromkeys(texts))
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.path, timeout=60)) as file:
                file.execute(
                    "create table if not exists vectors (key text primary key, value blob)"
                )
                known = self._known(file, unique)
                missing = [text for text in unique if text not in known]
                for start in range(0, len(missing), BATCH):
                    part = missing[start : start + BATCH]
                    known |= self._encoded(file, part)
                    self._progress(start + len(part), len(missing))
        except (sqlite3.Error, OSError) as error:
            raise LabError(
                f"the vectors in {self.path} cannot be used ({error}); delete the file or set"
                " ASSAY_CACHE to a folder that you may write to"
            ) from error
        rows = (
            np.stack([known[text] for text in unique]) if unique else np.zeros((0, 1), np.float32)
        )
        place = {text: row for row, text in enumerate(unique)}
        return rows[[place[text] for text in texts]]

    def _known(self, file: sqlite3.Connection, texts: Sequence[str]) -> dict[str, Vectors]:
        keys = {_key(text): text for text in texts}
        found: dict[str, Vectors] = {}
        wanted = list(keys)
        for start in range(0, len(wanted), ASKED):
            part = wanted[start : start + ASKED]
            marks = ",".join("?" * len(part))
            rows = file.execute(f"select key, value from vectors where key in ({marks})", part)
            found |= {keys[key]: np.frombuffer(value, dtype=np.float32) for key, value in rows}
        return found

    def _encoded(self, file: sqlite3.Connection, texts: Sequence[str]) -> dict[str, Vectors]:
        vectors = self._encoder.encode(texts).astype(np.float32, copy=False)
        rows = [(_key(text), row.tobytes()) for text, row in zip(texts, vectors, strict=True)]
        with file:
            file.executemany("insert or replace into vectors values (?, ?)", rows)
        return dict(zip(texts, vectors, strict=True))


def normalised(vectors: Vectors) -> Vectors:
    """Return vectors of length 1; LabError for one that has no direction or holds no numbers."""
    if vectors.ndim != 2:
        raise LabError("vectors differ in length; every vector of an encoder has as many numbers")
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not np.isfinite(lengths).all() or (lengths == 0).any():
        raise LabError("a vector is zero or holds what is no number; encode its text again")
    return vectors / lengths


def _key(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
