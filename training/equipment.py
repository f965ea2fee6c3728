"""What settings need that a machine may not have: a GPU, a package. Knows nothing of torch."""

from collections.abc import Callable
from importlib.util import find_spec

from evals.errors import BadConfig
from training.config import GrpoSettings, StageSettings

PACKAGES = {
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
    settings: StageSettings, *, has_gpu: bool, has: Callable[[str], bool] = is_installed
) -> tuple[str, ...]:
    """Return what the settings need and this machine lacks, a sentence each, with what to do."""
    found = []
    for value in (settings.attention, settings.report_to):
        package, remedy = PACKAGES.get(value, ("", ""))
        if package and not has(package):
            found.append(f"{value} needs the package {package}, which is not installed: {remedy}.")
    if settings.attention.startswith("flash") and not has_gpu:
        found.append(f"attention {settings.attention} runs on GPUs only; use sdpa here.")
    if isinstance(settings, GrpoSettings) and settings.vllm != "off":
        found += _vllm(settings, has_gpu, has)
    return tuple(found)


def check_equipment(
    settings: StageSettings, *, has_gpu: bool, has: Callable[[str], bool] = is_installed
) -> None:
    """Raise BadConfig, saying what to do, if this machine lacks what the settings need."""
    lacking = missing(settings, has_gpu=has_gpu, has=has)
    if lacking:
        raise BadConfig(" ".join(lacking))


def _vllm(settings: GrpoSettings, has_gpu: bool, has: Callable[[str], bool]) -> list[str]:
    found = []
    if not has_gpu:
        found.append(
            f"vllm is {settings.vllm}, and vLLM samples on GPUs only; use vllm off here, which samples"
            " with transformers."
        )
    if not has("vllm"):
        found.append(f"vllm is {settings.vllm}, but vLLM is not installed: {VLLM}.")
    return found
