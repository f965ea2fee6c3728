"""Packages and machines that settings need, checked before a run starts: no torch is imported for it."""

from collections.abc import Callable
from importlib.util import find_spec

from evals.errors import BadConfig
from training.config import SampledSettings, StageSettings
from training.launch.accelerate import NO_FSDP, Launch

PACKAGES = {
    "nf4": ("bitsandbytes", "pip install bitsandbytes"),
    "flash_attention_2": ("flash_attn", "pip install flash-attn --no-build-isolation"),
    "flash_attention_3": ("flash_attn_interface", "build flash-attention's hopper/ folder"),
    "trackio": ("trackio", "pip install trackio"),
    "wandb": ("wandb", "pip install wandb"),
    "tensorboard": ("tensorboard", "pip install tensorboard"),
}
"""By value of a setting: the package that it needs, and how to get it."""
VLLM = 'pip install "vllm>=0.22,<=0.31"'


def is_installed(package: str) -> bool:
    """Whether a package can be imported."""
    return find_spec(package) is not None


def missing(
    settings: StageSettings,
    *,
    has_gpu: bool,
    has: Callable[[str], bool] | None = None,
    launch: Launch | None = None,
) -> tuple[str, ...]:
    """Return what settings and launch need and this machine lacks, a sentence each, with what to do."""
    has, found = has or is_installed, []
    if launch:
        named = f"profile {launch.profile}" if launch.profile else "the launcher's configuration"
        if launch.wants_gpus and not has_gpu:
            found.append(f"{named} is for GPUs, and there is none here; use --profile cpu or multi-cpu.")
        elif launch.uses_fsdp and not has_gpu:
            found.append(f"{named} asks for FSDP on the CPU: {NO_FSDP}")
        if launch.uses_deepspeed and not has("deepspeed"):
            found.append(f"{named} needs DeepSpeed, which is not installed: pip install deepspeed.")
    for value in (settings.weights, settings.attention, settings.report_to):
        package, remedy = PACKAGES.get(value, ("", ""))
        if package and not has(package):
            found.append(f"{value} needs the package {package}, which is not installed: {remedy}.")
    if settings.attention.startswith("flash") and not has_gpu:
        found.append(f"attention {settings.attention} runs on GPUs only; use sdpa here.")
    if isinstance(settings, SampledSettings) and settings.vllm != "off":
        if not has_gpu:
            found.append(
                f"vllm is {settings.vllm}, and vLLM samples on GPUs only; use vllm off here, which samples"
                " with transformers."
            )
        if not has("vllm"):
            found.append(f"vllm is {settings.vllm}, but vLLM is not installed: {VLLM}.")
    return tuple(found)


def check_equipment(settings: StageSettings, *, has_gpu: bool, launch: Launch | None = None) -> None:
    """Raise BadConfig, saying what to do, if this machine lacks what the settings or the launch need."""
    lacking = missing(settings, has_gpu=has_gpu, launch=launch)
    if lacking:
        raise BadConfig(" ".join(lacking))
