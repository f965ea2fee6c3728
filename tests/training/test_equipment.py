import pytest

from evals.errors import BadConfig
from training.config import GrpoSettings, SftSettings
from training.launch.accelerate import Launch
from training.launch.equipment import check_equipment, missing


def sft(**values: object) -> SftSettings:
    return SftSettings(data=("a",), output="x", **values)


def grpo(**values: object) -> GrpoSettings:
    return GrpoSettings(data=("a",), output="x", chain="y", batch=8, **values)


CASES = [
    (sft(), False, set(), []),
    (sft(attention="flash_attention_2"), False, {"flash_attn"}, ["runs on GPUs only"]),
    (sft(attention="flash_attention_2"), True, set(), ["pip install flash-attn"]),
    (sft(attention="flash_attention_2"), True, {"flash_attn"}, []),
    (sft(report_to="wandb"), False, set(), ["pip install wandb"]),
    (grpo(vllm="colocate"), False, {"vllm"}, ["samples on GPUs only; use vllm off"]),
    (grpo(vllm="server"), True, set(), ["pip install"]),
    (grpo(vllm="colocate"), False, set(), ["samples on GPUs only", "vLLM is not installed"]),
    (grpo(vllm="colocate"), True, {"vllm"}, []),
    (sft(weights="nf4"), True, set(), ["pip install bitsandbytes"]),
    (sft(report_to="tensorboard"), False, {"bitsandbytes"}, ["pip install tensorboard"]),
]


@pytest.mark.parametrize(("settings", "has_gpu", "packages", "said"), CASES)
def test_what_is_missing_is_named_with_what_to_do(settings, has_gpu, packages, said):
    found = missing(settings, has_gpu=has_gpu, has=packages.__contains__)
    assert len(found) == len(said)
    assert all(part in sentence for part, sentence in zip(said, found, strict=True))


def test_a_run_that_needs_what_is_not_here_is_refused():
    with pytest.raises(BadConfig, match="vLLM samples on GPUs only"):
        check_equipment(grpo(vllm="colocate"), has_gpu=False)


LAUNCHES = [
    (Launch(), False, set(), []),
    (Launch("cpu"), False, set(), []),
    (Launch("multi-cpu"), False, set(), []),
    (Launch("single-gpu"), False, set(), ["profile single-gpu is for GPUs"]),
    (Launch("single-gpu"), True, set(), []),
    (Launch("fsdp2"), False, set(), ["profile fsdp2 is for GPUs"]),
    (Launch("multi-cpu", ("--use_fsdp",)), False, set(), ["FSDP on the CPU: accelerate divides"]),
    (Launch("multi-cpu", ("--use_fsdp",)), True, set(), []),
    (Launch("zero2"), True, set(), ["pip install deepspeed"]),
    (Launch("zero3"), False, {"deepspeed"}, ["use --profile cpu or multi-cpu"]),
]


@pytest.mark.parametrize(("launch", "has_gpu", "packages", "said"), LAUNCHES)
def test_what_a_launch_lacks_here_is_named(launch: Launch, has_gpu: bool, packages, said):
    found = missing(sft(), has_gpu=has_gpu, has=packages.__contains__, launch=launch)
    assert len(found) == len(said)
    assert all(part in sentence for part, sentence in zip(said, found, strict=True))
