"""What a run writes of itself before it trains: run.json as it begins, and the line that runs it again."""

import os
import shlex
from datetime import UTC, datetime
from pathlib import Path

import torch

from evals.schema import RunRecord
from training.base import Base, load_tokenizer
from training.launch import LAUNCHED_BY
from training.lineage import Kind
from training.request import Request
from training.runs import LISTS_OF_PATHS, PATHS, PROCESSES, public_config, public_path
from training.session import processes
from training.surroundings import code_revision, host, versions
from training.template import notes_of

ADDRESSES = ("main_process_ip", "main_process_port", "deepspeed_hostfile")
"""Options of the launcher that name machines."""


def record_of(stage: Kind, request: Request, base: Base, data: dict[str, str | int]) -> RunRecord:
    """Return the record that a run starts with; paths in it start from here or are left out."""
    settings = request.settings
    accelerator = torch.cuda.get_device_name(0) if torch.cuda.is_available() else None
    return RunRecord(
        name=Path(settings.output).name,
        stage=stage,
        command=command_line(stage, request),
        config=public_config(settings),
        seed=settings.seed,
        data={**data, "base_sha256": base.weights_sha256},
        versions=versions(),
        code_revision=code_revision(),
        host={**host(accelerator), PROCESSES: processes().num_processes},
        started_at=datetime.now(UTC),
        substitutions=(*base.substitutions, *notes_of(load_tokenizer(base))),
    )


def command_line(stage: str, request: Request) -> str:
    """Return the line that runs this again, without the folders of this machine."""
    words = [*_launcher(), "-m", f"training.{stage}", "--config", public_path(str(request.config))]
    for override in request.overrides:
        key, _, value = override.partition("=")
        name = key.removeprefix("--")
        if name in LISTS_OF_PATHS:
            value = ",".join(public_path(each.strip()) for each in value.split(","))
        words += [key, public_path(value) if name in PATHS else value]
    return shlex.join(words)


def _launcher() -> list[str]:
    """Return the launcher and its options as they were given, without names of machines."""
    words: list[str] = []
    given = shlex.split(os.environ.get(LAUNCHED_BY) or "accelerate launch")
    while given:
        key, equals, value = given.pop(0).partition("=")
        if key.removeprefix("--").replace("-", "_") in ADDRESSES:
            given = given if equals else given[1:]
        else:
            words.append(f"{key}={public_path(value)}" if equals else public_path(key))
    return words
