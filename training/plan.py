"""What a training command would do: settings, rows and the exact line, all checked without torch."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from training.config import STAGES, GrpoSettings, Request, as_document, read_request
from training.data import Row, TrainingData, grpo_data, grpo_row, sft_data, sft_row
from training.manifest import read_chain
from training.runs import RunFolder

SHOWN = 2


@dataclass(frozen=True)
class Plan:
    """A command that can be run: `line` are its words, `rows` the count of rows by source."""

    stage: str
    line: tuple[str, ...]
    settings: Mapping[str, Any]
    rows: Mapping[str, str | int]
    examples: tuple[Row, ...]
    output: Path

    @property
    def command(self) -> str:
        """The line as it is typed."""
        return shlex.join(self.line)


def plan_of(stage: str, words: Sequence[str], launcher: Sequence[str] = ()) -> Plan:
    """Return the plan of `--config F [--key value …]`, `launcher` being accelerate's own options.

    Raises LabError for settings, data, a chain or a run folder that cannot be used.
    """
    request = read_request(STAGES[stage], words)
    settings = request.settings
    RunFolder(Path(settings.output)).refuse_unless_open(overwrite=request.overwrite)
    data, system_prompt = _data(request)
    make = grpo_row if isinstance(settings, GrpoSettings) else sft_row
    options = [word for word in words if word != "--dry-run"]
    return Plan(
        stage=stage,
        line=("accelerate", "launch", *launcher, "-m", f"training.{stage}", *options),
        settings=as_document(settings),
        rows=data.record(),
        examples=tuple(make(example, *system_prompt) for example in data.examples[:SHOWN]),
        output=Path(settings.output),
    )


def _data(request: Request) -> tuple[TrainingData, tuple[str, ...]]:
    """Return the rows and, where a chain brings one, the system prompt."""
    settings = request.settings
    if isinstance(settings, GrpoSettings):
        prompt = read_chain(settings.chain).manifest.system_prompt
        return grpo_data(settings.data, settings.seed), (prompt,)
    return sft_data(settings.data, settings.seed), ()
