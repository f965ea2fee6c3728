"""What a run writes while it trains, followed from where the last look ended.

metrics.jsonl by byte offset, the tables of sampled answers file by file. A line or a file that is not
whole yet is left for the next look; metrics that were written anew, as a resumed run does, are read anew.
"""

import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from evals.binning import Settings, bin_edges, ece
from training.runs import COMPLETIONS, METRICS, MetricRow

if TYPE_CHECKING:
    from training.completions import Sampled

Reader = Callable[[Path], "Sequence[Sampled] | None"]
TABLES_AT_A_LOOK = 100
"""A long run that is opened late is taken in over several looks, so that none takes seconds."""
LOG_BYTES = 16_384
TERMINAL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass(frozen=True)
class Batch:
    """The answers of one logging step: their table, and what they say together.

    `ece` is None where none of them states a confidence that can be judged.
    """

    file: Path
    changed_ns: int
    step: int
    n: int
    ece: float | None


@dataclass(frozen=True)
class Watched:
    """What has been read of a run so far, and where to read on."""

    run: Path
    file: int = 0
    offset: int = 0
    rows: tuple[MetricRow, ...] = ()
    unreadable: int = 0
    batches: tuple[Batch, ...] = ()

    @property
    def step(self) -> int:
        """The last step that was logged; 0 before the first."""
        return int(self.rows[-1]["step"] or 0) if self.rows else 0

    @property
    def alerts(self) -> tuple[tuple[int, str], ...]:
        """What the run itself found wrong, with the step it said so at."""
        return tuple(
            (int(row["step"] or 0), str(row["alert"])) for row in self.rows if row.get("alert")
        )

    def points(self, metric: str) -> list[tuple[int, float]]:
        """Return step and value of a figure wherever it was logged as a number."""
        return [
            (int(row["step"] or 0), float(value))
            for row in self.rows
            if isinstance(value := row.get(metric), int | float)
        ]


def follow(seen: Watched, read: Reader) -> Watched:
    """Return what is known after one more look; `seen` itself if there is nothing new."""
    return _follow_tables(_follow_metrics(seen), read)


def last_lines(log: Path, lines: int = 14) -> str:
    """Return the end of a log as a terminal shows it; "" if there is none.

    Of a line that was written over itself, as a progress bar is, its last state counts.
    """
    if not log.is_file():
        return ""
    with log.open("rb") as content:
        content.seek(max(0, log.stat().st_size - LOG_BYTES))
        text = content.read().decode("utf-8", errors="replace")
    shown = [line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n")]
    clean = [TERMINAL.sub("", line) for line in shown]
    return "\n".join([line for line in clean if line.strip()][-lines:])


def _follow_metrics(seen: Watched) -> Watched:
    try:
        with (seen.run / METRICS).open("rb") as content:
            status = os.fstat(content.fileno())
            if status.st_ino != seen.file or status.st_size < seen.offset:
                seen = Watched(seen.run, file=status.st_ino)
            content.seek(seen.offset)
            fresh = content.read()
    except FileNotFoundError:
        return seen if not seen.rows else Watched(seen.run)
    whole = fresh[: fresh.rfind(b"\n") + 1]
    if not whole:
        return seen
    rows = [_row(line) for line in whole.splitlines()]
    read = tuple(row for row in rows if row is not None)
    return replace(
        seen,
        offset=seen.offset + len(whole),
        rows=seen.rows + read,
        unreadable=seen.unreadable + len(rows) - len(read),
    )


def _row(line: bytes) -> MetricRow | None:
    """Return one line of metrics; None if it is none, as after a fault of the disk."""
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) and isinstance(row.get("step"), int) else None


def _follow_tables(seen: Watched, read: Reader) -> Watched:
    known = {batch.file: batch for batch in seen.batches}
    files = sorted((seen.run / COMPLETIONS).glob("*.parquet"))
    kept: list[Batch] = []
    fresh = 0
    for file in files:
        changed = file.stat().st_mtime_ns
        batch = known.get(file)
        if batch is None or batch.changed_ns != changed:
            if fresh == TABLES_AT_A_LOOK:
                break
            answers = read(file)
            if not answers:
                continue
            fresh += 1
            batch = Batch(file, changed, answers[0].step, len(answers), batch_ece(answers))
        kept.append(batch)
    batches = tuple(kept)
    return seen if batches == seen.batches else replace(seen, batches=batches)


def batch_ece(answers: "Sequence[Sampled]") -> float | None:
    """Return the calibration error of answers that were scored and state a confidence; None of none.

    Few answers make it large by chance: its course tells more than its height.
    """
    judged = [
        (answer.confidence, answer.verdict == "correct")
        for answer in answers
        if answer.confidence is not None and answer.reward is not None
    ]
    if not judged:
        return None
    c, y = (np.array(column, dtype=np.float64) for column in zip(*judged, strict=True))
    return float(ece(c, y, np.ones((1, len(c))), bin_edges(c, Settings()))[0])
