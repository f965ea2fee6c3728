"""Rows on disk while a run goes on: nothing finished is lost, and one row per paper is left.

    predictions.jsonl           one row per paper, written whole when the run ends or is stopped
    predictions.jsonl.journal   rows as they come, one line each; only until then
    predictions.run.json        who answered, how, and what came of it (ReviewRun)

A run that is given again goes on: the last good row of a paper stands, papers without one are asked
about again. Knows nothing of torch.
"""

import os
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from filelock import FileLock, Timeout
from pydantic import ValidationError

from evals.concerns.provenance import record_beside
from evals.errors import BadConfig, LabError
from evals.jsonl import read_rows
from evals.schema.reviewruns import ReviewedRow, ReviewRun
from training.files import write_whole


class ReviewFile:
    """The rows of one run. `rows` are those that stand, by the id of the paper."""

    def __init__(self, path: Path) -> None:
        if path.suffix != ".jsonl":
            raise BadConfig(f"--out is {path}; name a file that ends in .jsonl.")
        self.path = path
        self.journal = path.with_name(f"{path.name}.journal")
        self.record = record_beside(path)
        self.rows: dict[str, ReviewedRow] = {}

    @contextmanager
    def open(self, run: ReviewRun, *, overwrite: bool = False) -> Generator[None]:
        """Keep the file for one run, with the good rows of an earlier one of the same kind in `rows`.

        BadConfig if another process writes to it, or if its rows were made in another way.
        """
        lock = FileLock(self.path.with_name(f".{self.path.name}.lock"))
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            lock.acquire(timeout=0)
        except Timeout:
            raise BadConfig(
                f"another process is writing {self.path}; wait for it, or name another file."
            ) from None
        except OSError as error:
            raise LabError(
                f"cannot write {self.path}: {error.strerror}; name another file."
            ) from error
        try:
            if overwrite:
                self.journal.unlink(missing_ok=True)
            else:
                self._take_up(run)
            self.write_record(run)
            yield
        finally:
            lock.release()
            Path(lock.lock_file).unlink(missing_ok=True)

    def add(self, rows: Sequence[ReviewedRow]) -> None:
        """Note rows, safe against being killed from here on; a good row is never replaced by a bad one."""
        text = "".join(row.model_dump_json() + "\n" for row in rows)
        with self.journal.open("ab") as file:
            _mend(file)
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        self._keep(rows)

    def finish(self, order: Sequence[str]) -> tuple[ReviewedRow, ...]:
        """Write the file with one row per paper, in this order, and let go of the journal."""
        rows = tuple(self.rows[name] for name in order if name in self.rows)
        others = [row for name, row in self.rows.items() if name not in set(order)]
        write_whole(self.path, "".join(row.model_dump_json() + "\n" for row in (*rows, *others)))
        self.journal.unlink(missing_ok=True)
        return rows

    def write_record(self, run: ReviewRun) -> None:
        """Write how the rows come about."""
        write_whole(self.record, run.model_dump_json(indent=1) + "\n")

    def _take_up(self, run: ReviewRun) -> None:
        has_rows = self.path.exists() or self.journal.exists()
        if not has_rows:
            return
        known = self._known()
        if known is None or known.fingerprint != run.fingerprint:
            raise BadConfig(
                f"{self.path} holds rows that {_apart(known, run)}; rows of two kinds in one file could not be"
                " told apart. Name another --out, or give --overwrite to make them anew."
            )
        if self.path.exists():
            self._keep(read_rows(self.path, ReviewedRow, otherwise="give --overwrite"))
        if self.journal.exists():
            self._keep(_whole_rows(self.journal))

    def _known(self) -> ReviewRun | None:
        try:
            return ReviewRun.model_validate_json(self.record.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValidationError, UnicodeDecodeError):
            return None

    def _keep(self, rows: Iterable[ReviewedRow]) -> None:
        for row in rows:
            known = self.rows.get(row.article_id)
            if known is None or row.is_good or not known.is_good:
                self.rows[row.article_id] = row


def _whole_rows(journal: Path) -> list[ReviewedRow]:
    """Return the rows of a journal; a line that a kill has cut off is no row."""
    rows = []
    for line in journal.read_bytes().split(b"\n"):
        with suppress(ValidationError):  # empty, or cut off by a kill
            rows.append(ReviewedRow.model_validate_json(line))
    return rows


def _mend(file: BinaryIO) -> None:
    """Begin a new line if the last one was cut off by a kill."""
    if file.tell():
        with Path(file.name).open("rb") as reader:
            reader.seek(-1, os.SEEK_END)
            if reader.read(1) != b"\n":
                file.write(b"\n")


def _apart(known: ReviewRun | None, run: ReviewRun) -> str:
    """Return in words how the rows of a file differ from those that are asked for now."""
    if known is None:
        return "were not written by this command (there is no record of it beside them that can be read)"
    before, now = _told(known), _told(run)
    changed = [
        f"{key} {before.get(key)!r}, now {now[key]!r}"
        for key in now
        if key != "batch" and before.get(key) != now[key]
    ]
    return f"were made in another way ({'; '.join(changed) or 'by another version'})"


def _told(run: ReviewRun) -> Mapping[str, object]:
    engine = run.engine.model_dump()
    return {
        **run.settings,
        **{key: engine[key] for key in ("kind", "name", "host", "stage", "dtype", "checksums")},
    }
