"""A run folder: its record, metrics and sampled answers, and whether a run may go on in it."""

import json
import math
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from filelock import FileLock, Timeout

from evals.errors import BadConfig, CannotWrite, LabError
from evals.io import public_path, write_whole
from evals.schema import RunRecord
from evals.schema.runs import RunProgress
from evals.verifiers import VERSION as VERIFIERS_VERSION
from evals.wording import VERSION as CONFIDENCE_VERSION
from training.config import StageSettings, as_document
from training.rewards import text_of
from training.run.checkpoints import RECORD, checkpoints, fault_of, read_record, remove_checkpoints, step_of


def say(text: str) -> None:
    """Write one line; of several processes only the first speaks."""
    if os.environ.get("RANK", "0") == "0":
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


def announce(share: float, message: str) -> None:
    """Report progress as `evals.schema.questions.Progress` does, a line at a time."""
    say(f"[{share:4.0%}] {message}")


PACKAGES = ("assay", "torch", "transformers", "peft", "trl", "accelerate", "datasets")
REPOSITORY = Path(__file__).resolve().parents[2]


def versions() -> dict[str, str]:
    """Return the version of Python, of the libraries that train, and of what judges answers."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return {**found, "verifiers": VERIFIERS_VERSION, "confidence": CONFIDENCE_VERSION}


def code_revision(folder: Path = REPOSITORY) -> str | None:
    """Return the commit of the code, with "+changes" if files that git knows were edited since; None outside git."""
    commit = _git(folder, "rev-parse", "HEAD")
    if commit is None:
        return None
    return f"{commit}+changes" if _git(folder, "status", "--porcelain", "-uno") else commit


def host(accelerator: str | None = None) -> dict[str, str | int | float]:
    """Return processor, cores, memory in GB and accelerator; no name of machine or person."""
    described = Path("/proc/cpuinfo")
    text = described.read_text() if described.is_file() else ""
    match = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return {
        "system": platform.system(),
        "processor": match[1].strip() if match else platform.processor() or platform.machine(),
        "cores": os.cpu_count() or 1,
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "accelerator": accelerator or "none",
    }


def _git(folder: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *words], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


METRICS, ADAPTER, CHAIN = "metrics.jsonl", "adapter", "chain.json"
COMPLETIONS, REPORTS, PROGRESS = "completions", "reports", "progress.json"
WRITTEN_BY_A_RUN = (RECORD, METRICS, PROGRESS, ADAPTER, CHAIN, COMPLETIONS, REPORTS, "report.json", "README.md")
LIMITS = ("monitor_max_drop", "monitor_max_kl", "monitor_stop")
"""Settings that decide whether a run stops itself."""
MAY_CHANGE_ON_RESUME = {
    *LIMITS,
    *("output", "save_steps", "keep_checkpoints", "log_steps", "report_to"),
    *("judge", "judge_probe", "judge_concurrency", "judge_timeout_seconds", "judge_deadline_seconds"),
    *("judge_retries", "judge_cache", "max_none_fraction", "none_patience", "patience"),
}
"""Settings that leave the trained weights as they are."""
PATHS, LISTS_OF_PATHS = ("base", "output", "chain", "judge_cache", "reward"), ("data", "eval_data")
"""Settings that may be paths of this machine, or lists of them."""
PROCESSES, STOPPED_BECAUSE = "processes", "stopped_because"
"""Keys of a record's host and result: how many processes train together, what made a run stop itself."""

MetricRow = Mapping[str, float | str | None]
"""One line of metrics.jsonl: `step`, then figures (None = not finite), or an `alert` in words."""


@contextmanager
def only_writer(file: Path, refusal: str) -> Generator[None]:
    """Hold a lock file until the block ends; BadConfig, with this refusal, if another process holds it."""
    lock = FileLock(file)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except Timeout:
        raise BadConfig(refusal) from None
    except OSError as error:
        raise CannotWrite(f"cannot write to {file.parent}: {error.strerror}; name another place") from error
    try:
        yield
    finally:
        lock.release()
        file.unlink(missing_ok=True)


class RunFolder:
    """A folder that one run writes to, and that anyone may read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.adapter = path / ADAPTER
        self.metrics = path / METRICS
        self.progress = path / PROGRESS
        self.completions = path / COMPLETIONS

    def record(self) -> RunRecord | None:
        """Return run.json, or None if there is none; BadConfig if it cannot be read."""
        return read_record(self.path)

    def metric_rows(self) -> tuple[dict[str, Any], ...]:
        """Return the lines of metrics.jsonl; a last line that is not whole yet is left out."""
        if not self.metrics.is_file():
            return ()
        *lines, _ = self.metrics.read_text(encoding="utf-8").split("\n")
        return tuple(json.loads(line) for line in lines)

    def append_metrics(self, row: MetricRow) -> None:
        """Add one line to metrics.jsonl."""
        with self.metrics.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")

    def last_checkpoint(self) -> Path | None:
        """Return the newest whole checkpoint, or None; writes a line for each that cannot be used."""
        for folder in reversed(checkpoints(self.path)):
            fault = fault_of(folder)
            if fault is None:
                return folder
            say(f"{folder.name} cannot be used ({fault}); looking for the one before it")
        return None

    def lock(self) -> AbstractContextManager[None]:
        """Keep every other process from training in this folder; BadConfig if one does already."""
        refusal = f"another process is training in {self.path}; wait for it, or name another --output."
        return only_writer(self.path / ".lock", refusal)

    def begin(self, record: RunRecord, *, overwrite: bool = False) -> Path | None:
        """Write run.json as running and return the checkpoint to go on from, None for a new start.

        BadConfig if the folder holds a finished run, a run with other settings or data, or things
        that no run wrote; `overwrite` removes an earlier run (never anything else) and starts again.
        """
        self.refuse_unless_open(overwrite=overwrite)
        known = self.record()
        if known is not None and overwrite:
            self.clear()
        elif known is not None:
            self._refuse_other(known, record)
            record = record.model_copy(update={"started_at": known.started_at})
        checkpoint = self.last_checkpoint()
        self._cut_metrics(step_of(checkpoint) if checkpoint else 0)
        self.write(record)
        return checkpoint

    def _cut_metrics(self, step: int) -> None:
        """Drop the lines after `step` and the one that closed a run: a resumed run writes them again."""
        kept = [row for row in self.metric_rows() if row["step"] <= step and "train_runtime" not in row] if step else []
        write_whole(self.metrics, "".join(json.dumps(row) + "\n" for row in kept))

    def end(self, status: Literal["finished", "failed", "stopped"], result: Mapping[str, float | int | str]) -> None:
        """Write how the run ended; a finished one needs its checkpoints no more."""
        known = self.record()
        if known is None:
            return
        ended = {"status": status, "result": dict(result), "ended_at": datetime.now(UTC)}
        self.write(known.model_copy(update=ended))
        if status == "finished":
            remove_checkpoints(self.path)
            self.progress.unlink(missing_ok=True)

    def write(self, record: RunRecord) -> None:
        """Write run.json whole."""
        write_whole(self.path / RECORD, record.model_dump_json(indent=1) + "\n")

    def clear(self) -> None:
        """Remove all that a run writes, and nothing else."""
        remove_checkpoints(self.path)
        for path in (self.path / name for name in WRITTEN_BY_A_RUN):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)

    def refuse_unless_open(self, *, overwrite: bool = False) -> None:
        """Raise BadConfig if the folder holds a finished run, or things that no run wrote."""
        known = self.record()
        if known is not None and known.status == "finished" and not overwrite:
            raise BadConfig(
                f"the run in {self.path} has finished; name another --output, or add --overwrite to train it again."
            )
        if known is not None or not self.path.exists():
            return
        found = sorted(path.name for path in self.path.iterdir() if path.name != ".lock")
        if found:
            raise BadConfig(
                f"{self.path} holds {', '.join(found[:3])} but no {RECORD}, so it is no run folder;"
                " name an empty or new folder with --output."
            )

    def refuse_changes(self, changed: Sequence[str]) -> None:
        """Raise BadConfig where anything changed since the unfinished run in the folder."""
        if changed:
            raise BadConfig(
                f"{self.path} holds an unfinished run with other settings ({'; '.join(changed)}); use"
                " those again to go on with it, add --overwrite to start again, or name another"
                " --output."
            )

    def _refuse_other(self, known: RunRecord, wanted: RunRecord) -> None:
        """Raise BadConfig for a run of other settings or data, and for one that stopped itself and would again."""
        changed = [*changes(known.config, wanted.config), *changes(known.data, wanted.data)]
        if PROCESSES in known.host:
            changed += changes(*({PROCESSES: each.host.get(PROCESSES)} for each in (known, wanted)))
        self.refuse_changes(changed)
        reason = known.result.get(STOPPED_BECAUSE)
        if reason and all(known.config.get(key) == wanted.config.get(key) for key in LIMITS):
            raise BadConfig(
                f"the run in {self.path} stopped itself: {reason}. To continue anyway change one of"
                f" {', '.join(LIMITS)}; or train again with other settings and --overwrite."
            )


Doing = Literal["loading", "measuring", "training", "saving", "checking"]
REPORTED_SECONDS = 0.5


class ProgressWriter:
    """Keeps progress.json up to date; the time left is that of the steps and looks that remain, as long as those so far."""

    def __init__(self, file: Path, looks_every: int = 0) -> None:
        self.step, self.steps = 0, 0
        self._file, self._looks_every = file, looks_every
        self._now: tuple[Doing, int, int] = ("loading", 0, 0)
        self._since, self._written = time.monotonic(), -math.inf
        self._seconds: dict[Doing, float] = defaultdict(float)
        self._units: dict[Doing, int] = defaultdict(int)
        self._asked = 0

    def tell(self, doing: Doing, done: int = 0, of: int = 0, steps_made: int = 0) -> None:
        """Write what is done from now on, of several processes the first: every half second, or when it changes."""
        now, (before, had, _) = time.monotonic(), self._now
        self._seconds[before] += now - self._since
        if before == doing == "measuring":
            self._units[doing] += done - had
        self.step += steps_made
        self._units["training"] += steps_made
        self._since, self._now, self._asked = now, (doing, done, of), of or self._asked
        is_soon = doing == before and now - self._written < REPORTED_SECONDS
        if is_soon or os.environ.get("RANK", "0") != "0":
            return
        self._written, left = now, self.seconds_left()
        known = RunProgress(
            doing=doing,
            at=datetime.now(UTC),
            step=self.step,
            steps=self.steps or None,
            done=done,
            of=of,
            seconds_left=left if left is None else round(left, 1),
        )
        with suppress(LabError):  # a full disk stops the run where it must write
            write_whole(self._file, known.model_dump_json() + "\n")

    def seconds_left(self) -> float | None:
        """Return how long the run will still take; None before a first step."""
        if not self._units["training"]:
            return None
        doing, done, of = self._now
        a_step = self._seconds["training"] / self._units["training"]
        a_question = self._seconds["measuring"] / (self._units["measuring"] or 1)
        questions = (of - done) if doing == "measuring" else 0
        return (self.steps - self.step) * a_step + (questions + self._looks_left() * self._asked) * a_question

    def _looks_left(self) -> int:
        """Return how many looks come after the step that is made: one every so many steps, and one after the last."""
        every = self._looks_every
        if not every or self.step >= self.steps:
            return 0
        return (self.steps - 1) // every - self.step // every + 1


def public_config(settings: StageSettings) -> dict[str, Any]:
    """Return settings as records keep them: plain values, without folders of this machine."""
    config = as_document(settings)
    config |= {key: public_path(str(config[key])) for key in PATHS if key in config}
    for key in LISTS_OF_PATHS:
        if key in config:
            config[key] = [public_path(name) for name in config[key]]
    return config


def changes(known: Mapping[str, object], wanted: Mapping[str, object]) -> list[str]:
    """Return "key: old, now new" for every value that would train other weights."""
    keys = [key for key in {**known, **wanted} if key not in MAY_CHANGE_ON_RESUME]
    return [f"{key}: {known.get(key)!r}, now {wanted.get(key)!r}" for key in keys if known.get(key) != wanted.get(key)]


REWARDS = ("verifier", "refiner")
"""Names of the rewards that the stages give, each a column of the table."""
NO_PARTS = frozenset(("step", "stated_confidence", *REWARDS))


@dataclass(frozen=True)
class Sampled:
    """One answer that was rewarded; None for what the table does not hold of it. `parts` are its other figures."""

    step: int
    prompt: str
    completion: str
    reward: float | None
    verdict: str | None
    confidence: float | None
    parts: Mapping[str, float]
    why: str


def read_completions(file: Path) -> tuple[Sampled, ...] | None:
    """Return the answers in one of TRL's tables; None while it is not written to its end."""
    try:
        rows = pq.read_table(file).to_pylist()
    except (pa.ArrowInvalid, FileNotFoundError):
        return None
    return tuple(
        Sampled(
            step=row["step"],
            prompt=text_of(row["prompt"]),
            completion=text_of(row["completion"]),
            reward=next((row[name] for name in REWARDS if name in row), None),
            verdict=row.get("verdict"),
            confidence=row.get("stated_confidence"),
            parts={name: row[name] for name in row if name not in NO_PARTS and isinstance(row[name], int | float)},
            why=str(row.get("why") or ""),
        )
        for row in rows
    )
