"""How a stage is started: the words of `accelerate launch` for a profile. Knows nothing of torch.

A profile is a configuration file of accelerate under `training/configs/accelerate`, chosen by name.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from evals.errors import BadConfig
from training.config import StageSettings

FOLDER = Path(__file__).parent / "configs" / "accelerate"
SHARDED = ("zero3", "fsdp2")
"""Profiles that divide the base's weights among the processes."""
ASKED_FOR = "ASSAY_PROCESSES"
"""Variable that tells a stage how many processes were asked for: fewer would go unnoticed."""


@dataclass(frozen=True)
class Launch:
    """What starts a stage: a profile by name, or None for accelerate's own choice, and more options."""

    profile: str | None = None
    options: tuple[str, ...] = ()

    def line(self, stage: str, words: Sequence[str]) -> tuple[str, ...]:
        """Return the command, word by word."""
        chosen = ("--config_file", _shown(profile_file(self.profile))) if self.profile else ()
        return ("accelerate", "launch", *chosen, *self.options, "-m", f"training.{stage}", *words)

    @property
    def processes(self) -> int:
        """How many processes are asked for, over all machines."""
        return int(self._option("num_processes", self._profile().get("num_processes", 1)))

    @property
    def machines(self) -> int:
        """How many machines are asked for."""
        return int(self._option("num_machines", self._profile().get("num_machines", 1)))

    @property
    def gpus_per_machine(self) -> int:
        """How many GPUs each machine needs; 0 on the CPU."""
        is_cpu = self._profile().get("use_cpu", False) or "--cpu" in self.options
        return 0 if is_cpu else max(1, self.processes // self.machines)

    def check(self, settings: StageSettings) -> None:
        """Raise BadConfig for what would start another run than was asked for, or none."""
        is_one = self.profile == "cpu" or "--cpu" in self.options
        if is_one and self.processes > 1:
            raise BadConfig(
                f"{self.processes} processes were asked for on the CPU, where accelerate starts a single"
                " one and says nothing; use --profile multi-cpu, with -- --num_processes N for more."
            )
        if self.profile in SHARDED and settings.weights == "nf4":
            raise BadConfig(
                f"profile {self.profile} divides the weights of the base among processes, and 4-bit"
                " weights cannot be divided; use weights bfloat16 with it, or profile multi-gpu."
            )

    def _profile(self) -> dict[str, Any]:
        if self.profile is None:
            return {}
        return yaml.safe_load(profile_file(self.profile).read_text(encoding="utf-8"))

    def _option(self, name: str, default: Any) -> Any:
        """Return what the options say of `name`, in any of accelerate's spellings."""
        words = [word.replace("-", "_") for word in self.options]
        for at, word in enumerate(words):
            key, equals, _ = word.partition("=")
            if key == f"__{name}":
                return self.options[at].partition("=")[2] if equals else self.options[at + 1]
        return default


def profiles() -> tuple[str, ...]:
    """Return the names of the profiles."""
    return tuple(sorted(file.stem for file in FOLDER.glob("*.yaml")))


def profile_file(name: str) -> Path:
    """Return the file of a profile; BadConfig if there is none of that name."""
    if name not in profiles():
        raise BadConfig(f"there is no profile {name!r}; choose one of {', '.join(profiles())}.")
    return FOLDER / f"{name}.yaml"


def environment(processes: int) -> dict[str, str]:
    """Return what a stage is started with: this environment, and what training wants of it."""
    wanted = {"HF_HUB_DISABLE_TELEMETRY": "1", "TOKENIZERS_PARALLELISM": "false"}
    return {**wanted, **os.environ, ASKED_FOR: str(processes)}


def _shown(file: Path) -> str:
    """Return a path from here where it lies below, so that a line can be read and repeated."""
    here = Path.cwd()
    return str(file.relative_to(here) if file.is_relative_to(here) else file)
