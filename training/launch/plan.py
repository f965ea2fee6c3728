"""What a training command would do: settings, rows, the exact line, what it needs."""

import shlex
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evals.errors import LabError
from training.config import StageSettings, read_request
from training.data.tokens import Rows
from training.launch.accelerate import Launch
from training.launch.estimate import Estimate, estimate, shape_of
from training.models.manifest import Chain, read_chain
from training.run.folder import RunFolder
from training.stages import STAGES


@dataclass(frozen=True)
class Plan:
    """A command that can be run. On a dry run `problems` say what it could not run with; `data` and `chain` may be None then."""

    stage: str
    settings: StageSettings
    launch: Launch
    words: tuple[str, ...]
    data: Rows[Any] | None
    problems: tuple[str, ...] = ()
    chain: Chain | None = None

    @property
    def line(self) -> tuple[str, ...]:
        """The command, word by word."""
        return self.launch.line(self.stage, self.words)

    @property
    def command(self) -> str:
        """The line as it is typed."""
        return shlex.join(self.line)

    @property
    def output(self) -> Path:
        """The run folder."""
        return Path(self.settings.output)

    def needs(self, rows: int, *, trained: int | None = None) -> Estimate | None:
        """Return what the run would need with so many rows and `trained` weights; None for a base of unknown shape."""
        shape = shape_of(self.settings.base)
        if shape is None:
            return None
        return estimate(self.settings, shape, rows, self.launch.processes, trained=trained)


def plan_of(stage: str, words: Sequence[str], launch: Launch | None = None, *, is_dry: bool = False) -> Plan:
    """Return the plan of `--config F [--key value …]`.

    Raises LabError for settings, data, a chain, a judge or a run folder that cannot be used. A chain or rows
    that are not here, or a judge's key that is not set here, are only problems to be named if the plan is to be
    looked at and not to be run: it may be made for another machine.
    """
    chosen = launch or Launch()
    request = read_request(STAGES[stage], words)
    settings = request.settings
    chosen.check(settings)
    RunFolder(Path(settings.output)).refuse_unless_open(overwrite=request.overwrite)
    problems: list[str] = []

    @contextmanager
    def needed() -> Generator[None]:
        try:
            yield
        except LabError as error:
            if not is_dry:
                raise
            problems.append(str(error))

    chain: Chain | None = None
    data: Rows[Any] | None = None
    if settings.chain:
        with needed():
            chain = read_chain(settings.chain)
    settings.check_judge()
    with needed():  # else asked for when the run starts
        settings.check_key()
    with needed():
        data = settings.read_rows(chain.manifest.system_prompt if chain else None)
        settings.check_batches(data.count, chosen.processes)
    return Plan(stage, settings, chosen, tuple(words), data, tuple(problems), chain)
