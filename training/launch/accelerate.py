"""How a stage is started: the words of `accelerate launch` for a profile, and what this machine lacks for it.

A profile is a configuration file of accelerate under `training/configs/accelerate`, chosen by name.
"""

import os
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path
from typing import Any

import yaml

from evals.errors import BadConfig
from training.config import StageSettings

FOLDER = Path(__file__).parents[1] / "configs" / "accelerate"
ASKED_FOR = "ASSAY_PROCESSES"
"""Variable that tells a stage how many processes were asked for: fewer would go unnoticed."""
QUOTA = Path("/sys/fs/cgroup/cpu.max")
"""What a container may use of the processors, where the kernel tells it (cgroup v2)."""
NO_FSDP = (
    "accelerate divides weights among GPUs alone, and on a CPU trains a whole copy in each process and says"
    " nothing; use --profile multi-cpu, which does that by name."
)
LAUNCHED_BY = "ASSAY_LAUNCHER"
"""Variable that tells a stage the words it was launched by, up to its own name."""


@dataclass(frozen=True)
class Launch:
    """What starts a stage: a profile by name, or None for accelerate's own choice, and more options."""

    profile: str | None = None
    options: tuple[str, ...] = ()

    def line(self, stage: str, words: Sequence[str]) -> tuple[str, ...]:
        """Return the command, word by word."""
        chosen: tuple[str, ...] = ()
        if self.profile:
            file, here = profile_file(self.profile), Path.cwd()
            chosen = ("--config_file", str(file.relative_to(here) if file.is_relative_to(here) else file))
        if not chosen and not self._option("num_processes") and not self._option("config_file"):
            chosen = ("--num_processes", "1")  # else accelerate takes every GPU it finds
        return ("accelerate", "launch", *chosen, *self.options, "-m", f"training.{stage}", *words)

    @property
    def processes(self) -> int:
        """How many processes are asked for, over all machines."""
        return self._count("num_processes")

    @property
    def machines(self) -> int:
        """How many machines are asked for."""
        return self._count("num_machines")

    @property
    def gpus_per_machine(self) -> int:
        """How many GPUs each machine needs; 0 on the CPU."""
        is_cpu = self._profile().get("use_cpu", False) or "--cpu" in self.options
        return 0 if is_cpu else max(1, self.processes // self.machines)

    @property
    def divides_weights(self) -> bool:
        """Whether each process holds only a part of the base: FSDP and ZeRO-3."""
        return self.uses_fsdp or (self.uses_deepspeed and self._engine("zero_stage") == "3")

    @property
    def copies_in_main_memory(self) -> int:
        """How many times the base goes through the main memory of each machine; 0 where GPUs read it themselves."""
        here = max(1, self.processes // self.machines)
        if not self.gpus_per_machine:
            return here
        if not self.divides_weights:
            return 0
        reads_all = self.uses_fsdp and self._engine("fsdp_cpu_ram_efficient_loading") == "false"
        offloads = self._engine("fsdp_offload_params") == "true" or self._engine("offload_param_device") == "cpu"
        read = 2 if self.uses_deepspeed else 1  # as measured: docs/performance.md
        return (here if reads_all else read) + offloads

    @property
    def offloads_optimizer(self) -> bool:
        """Whether what the optimizer knows of each weight is held in main memory."""
        of_fsdp = self.uses_fsdp and self._engine("fsdp_offload_params") == "true"
        return of_fsdp or (self.uses_deepspeed and self._engine("offload_optimizer_device") == "cpu")

    @property
    def uses_fsdp(self) -> bool:
        """Whether PyTorch's FSDP was asked for."""
        return self._profile().get("distributed_type") == "FSDP" or "--use_fsdp" in self.options

    @property
    def uses_deepspeed(self) -> bool:
        """Whether DeepSpeed drives the processes."""
        return self._profile().get("distributed_type") == "DEEPSPEED" or "--use_deepspeed" in self.options

    @property
    def wants_gpus(self) -> bool:
        """Whether a configuration was chosen that is made for GPUs."""
        return self._profile().get("use_cpu") is False and "--cpu" not in self.options

    def check(self, settings: StageSettings) -> None:
        """Raise BadConfig for what would start another run than was asked for, or none."""
        is_one = self.profile == "cpu" or "--cpu" in self.options
        if is_one and self.processes > 1:
            raise BadConfig(
                f"{self.processes} processes were asked for on the CPU, where accelerate starts a single"
                " one and says nothing; use --profile multi-cpu, with -- --num_processes N for more."
            )
        if not self.divides_weights:
            return
        if self.uses_fsdp and settings.answers_at_once() and settings.vllm_mode == "off":
            raise BadConfig(
                "under FSDP no process holds a whole model, and transformers cannot sample from its parts; let vLLM"
                " sample (vllm colocate or server), or use profile zero3, which gathers them."
            )
        this = f"profile {self.profile}" if self.profile else "this launch"
        if settings.weights == "nf4":
            raise BadConfig(
                f"{this} divides the weights of the base among processes, and 4-bit weights cannot"
                " be divided; use weights bfloat16 with it, or profile multi-gpu."
            )
        for asked, what in (
            (settings.mode == "merge_then_new", "mode merge_then_new adds adapters to"),
            (settings.is_packed, "packing is tried first on"),
        ):
            if asked:
                raise BadConfig(
                    f"{what} a whole base, and {this} loads parts of it; use a profile that does not divide the weights"
                    " (single-gpu, multi-gpu, zero2)."
                )
        if settings.eval_steps:
            raise BadConfig(
                f"{this} divides the weights of the base among processes, and what eval_steps asks for"
                " needs a whole model on each; set eval_steps to 0, or use a profile that does not divide"
                " them (single-gpu, multi-gpu, zero2)."
            )

    def _profile(self) -> dict[str, Any]:
        """Return the configuration that counts: a file named in the options goes over the profile."""
        named = self._option("config_file")
        if named is None and self.profile is None:
            return {}
        file = Path(named).expanduser() if named else profile_file(str(self.profile))
        try:
            document = yaml.safe_load(file.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            problem = " ".join(str(error).split())
            raise BadConfig(f"--config_file {file} cannot be read: {problem}") from None
        if not isinstance(document, dict):
            raise BadConfig(f"--config_file {file} is no configuration of accelerate.")
        return document

    def _engine(self, name: str) -> str:
        """Return, in small letters, what FSDP or DeepSpeed is told of `name`; "" for nothing."""
        known = self._profile()
        said = self._option(name) or {**(known.get("deepspeed_config") or {}), **(known.get("fsdp_config") or {})}.get(
            name
        )
        return str("" if said is None else said).lower()

    def _count(self, name: str) -> int:
        value = self._option(name) or self._profile().get(name, 1)
        if not str(value).isdecimal() or int(value) < 1:
            raise BadConfig(f"--{name} is {value!r}; it takes a whole number of 1 or more.")
        return int(value)

    def _option(self, name: str) -> str | None:
        """Return what the options say of `name`, in any of accelerate's spellings; None for nothing."""
        found = None
        for at, word in enumerate(self.options):
            key, equals, value = word.partition("=")
            if key.replace("-", "_") == f"__{name}":
                found = value if equals else "".join(self.options[at + 1 : at + 2])
                if not found or (not equals and found.startswith("--")):
                    raise BadConfig(f"{word} has no value; write {word.rstrip('=')} VALUE.")
        return found


def profiles() -> tuple[str, ...]:
    """Return the names of the profiles."""
    return tuple(sorted(file.stem for file in FOLDER.glob("*.yaml")))


def profile_file(name: str) -> Path:
    """Return the file of a profile; BadConfig if there is none of that name."""
    if name not in profiles():
        raise BadConfig(f"there is no profile {name!r}; choose one of {', '.join(profiles())}.")
    return FOLDER / f"{name}.yaml"


def environment(line: Sequence[str], processes: int) -> dict[str, str]:
    """Return what a line's stage is started with; a single process gets every core (accelerate gives it one thread)."""
    wanted = {"HF_HUB_DISABLE_TELEMETRY": "1", "TOKENIZERS_PARALLELISM": "false"}
    if processes == 1:
        wanted["OMP_NUM_THREADS"] = str(usable_cores())
    launcher = shlex.join(line[: line.index("-m")] if "-m" in line else line)
    return {**wanted, **os.environ, ASKED_FOR: str(processes), LAUNCHED_BY: launcher}


LAUNCHER = (
    "import signal; signal.signal(signal.SIGINT, lambda *_: None); from accelerate.commands.launch import main; main()"
)
"""Accelerate's launcher, which would die of a Ctrl-C and leave the stage alone, which has it too.

A signal that is ignored would be so in the stage as well until it has loaded; what a function takes is not handed on.
"""
UNSAID = ("--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no")
"""What accelerate takes where no configuration says it, with a warning; the stage's `autocast` decides."""


def command_of(line: Sequence[str]) -> list[str]:
    """Return what starts a line of `Launch.line` with this Python, errors of the stage being all that is shown."""
    is_told = any(word.startswith(("--config_file", "--config-file")) for word in line)
    return [sys.executable, "-c", LAUNCHER, "--quiet", *(() if is_told else UNSAID), *line[2:]]


def usable_cores(quota: Path = QUOTA) -> int:
    """Return how many cores this process may use: fewer than the machine has where it is bound to some.

    In a container `quota` holds how many microseconds of CPU it has in how many (cgroup v2): "200000 100000"
    is two cores, "max 100000" no limit.
    """
    may_ask = hasattr(os, "sched_getaffinity")  # Linux
    cores = len(os.sched_getaffinity(0)) if may_ask else os.cpu_count() or 1
    try:
        granted, period = quota.read_text(encoding="ascii").split()
        return max(1, min(cores, int(granted) // int(period)))
    except (OSError, ValueError, ZeroDivisionError):
        return cores


def gpus_here(devices: Path = Path("/dev")) -> int:
    """Return how many of NVIDIA's GPUs a run here would see, CUDA_VISIBLE_DEVICES considered; 0 if none can be counted."""
    found = sum(each.name.removeprefix("nvidia").isdecimal() for each in devices.glob("nvidia*"))
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is None or not found:
        return found
    seen = list(takewhile(lambda each: each and not each.startswith("-"), map(str.strip, named.split(","))))
    return min(len(seen), found)


def unused_gpus(gpus: int, processes: int) -> tuple[str, ...]:
    """Return what to say, if anything, where one process is started on a machine with several GPUs."""
    if processes > 1 or gpus < 2:
        return ()
    return (
        f"1 of {gpus} GPUs is used, the first that is visible (CUDA_VISIBLE_DEVICES chooses another);"
        f" --profile multi-gpu -- --num_processes {gpus} uses all",
    )


# ---- packages and machines that settings need: checked before a run starts, without torch ---------------

BNB = ("bitsandbytes", "pip install bitsandbytes")
PACKAGES = {
    **dict.fromkeys(("nf4", "adamw_bnb_8bit", "paged_adamw_8bit", "paged_adamw_32bit", "lion_8bit", "lion_32bit"), BNB),
    "flash_attention_2": ("flash_attn", "pip install flash-attn --no-build-isolation"),
    "flash_attention_3": ("flash_attn_interface", "build flash-attention's hopper/ folder"),
    "liger": ("liger_kernel", "pip install liger-kernel"),
    "trackio": ("trackio", "pip install trackio"),
    "wandb": ("wandb", "pip install wandb"),
    "tensorboard": ("tensorboard", "pip install tensorboard"),
}
"""By value of a setting: the package that it needs, and how to get it."""
VLLM = 'pip install "vllm>=0.22,<=0.31"'


def missing(
    settings: StageSettings,
    *,
    has_gpu: bool,
    has: Callable[[str], object] | None = None,
    launch: Launch | None = None,
    gpus: int = 0,
) -> tuple[str, ...]:
    """Return what settings and launch need and this machine lacks, a sentence each, with what to do.

    `gpus` is how many can be seen, 0 where they cannot be counted.
    """
    has, found = has or find_spec, []
    if launch:
        named = f"profile {launch.profile}" if launch.profile else "the launcher's configuration"
        if launch.wants_gpus and not has_gpu:
            found.append(f"{named} is for GPUs, and there is none here; use --profile cpu or multi-cpu.")
        elif 0 < gpus < launch.gpus_per_machine and has_gpu:
            found.append(
                f"{named} starts {launch.gpus_per_machine} processes on a machine, each on a GPU of its own, and"
                f" {gpus} can be seen here; add -- --num_processes {gpus * launch.machines}."
            )
        elif launch.uses_fsdp and not has_gpu:
            found.append(f"{named} asks for FSDP on the CPU: {NO_FSDP}")
        if launch.uses_deepspeed and not has("deepspeed"):
            found.append(f"{named} needs DeepSpeed, which is not installed: pip install deepspeed.")
    for value in settings.wanted_packages:
        package, remedy = PACKAGES.get(value, ("", ""))
        if package and not has(package):
            found.append(f"{value} needs the package {package}, which is not installed: {remedy}.")
    if settings.attention.startswith("flash") and not has_gpu:
        found.append(f"attention {settings.attention} runs on GPUs only; use auto here.")
    if "liger" in settings.wanted_packages and not has_gpu:
        found.append("Liger's kernels run on GPUs only; set liger to false here.")
    if settings.vllm_mode != "off":
        if not has_gpu:
            found.append(
                f"vllm is {settings.vllm_mode}, and vLLM samples on GPUs only; use vllm off here, which samples"
                " with transformers."
            )
        if not has("vllm"):
            found.append(f"vllm is {settings.vllm_mode}, but vLLM is not installed: {VLLM}.")
    return tuple(found)


def check_equipment(settings: StageSettings, *, has_gpu: bool, launch: Launch | None = None, gpus: int = 0) -> None:
    """Raise BadConfig, saying what to do, if this machine lacks what the settings or the launch need."""
    lacking = missing(settings, has_gpu=has_gpu, launch=launch, gpus=gpus)
    if lacking:
        raise BadConfig(" ".join(lacking))
