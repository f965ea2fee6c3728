"""How a stage is launched, what this machine lacks for it, and what it will need."""

from pathlib import Path

import pytest
import torch
from accelerate.commands.config.config_args import load_config_from_file
from transformers import AutoModelForCausalLM

from evals.errors import BadConfig
from tests.models import tiny_base
from tests.training.runs import SFT, settings_file, train
from training.config import DpoSettings, GrpoSettings, SftSettings
from training.launch.accelerate import Launch, environment, missing, profile_file, profiles, usable_cores
from training.launch.estimate import check_batches, estimate, shape_of, steps_of
from training.models.policy import lora_of, stacked_policy

COMMON = {"data": ("a",), "output": "x"}
MISTRAL = "mistralai/Mistral-7B-v0.3"


def sft(**values: object) -> SftSettings:
    return SftSettings(**COMMON, **values)


def grpo(**values: object) -> GrpoSettings:
    return GrpoSettings(**COMMON, chain="y", **{"num_generations": 4, **values})


# ---- the launcher ------------------------------------------------------------------------------


def test_a_profile_is_a_configuration_that_accelerate_reads():
    for name in profiles():
        read = load_config_from_file(str(profile_file(name)))
        launch = Launch(name)
        assert (read.num_processes, read.num_machines) == (launch.processes, launch.machines), name
        assert read.mixed_precision == "no", name


SHAPES = [  # launch, processes, machines, GPUs on each
    (Launch(), 1, 1, 1),
    (Launch(None, ("--config_file", str(profile_file("multi-node")))), 8, 2, 4),
    (Launch("cpu"), 1, 1, 0),
    (Launch("multi-node"), 8, 2, 4),
    (Launch("multi-gpu", ("--num_processes", "8")), 8, 1, 8),
    (Launch("multi-gpu", ("--num-processes=2",)), 2, 1, 2),
]
LINES = [
    (Launch(), "--num_processes 1"),
    (Launch(None, ("--num_processes", "2")), "--num_processes 2"),
    (Launch(None, ("--config_file", "mine.yaml")), "--config_file mine.yaml"),
]


def test_options_of_the_launcher_go_over_the_profile_and_one_process_is_started_unless_told_otherwise():
    assert [(each[0], each[0].processes, each[0].machines, each[0].gpus_per_machine) for each in SHAPES] == SHAPES
    for launch, options in LINES:
        assert " ".join(launch.line("sft", ())) == f"accelerate launch {options} -m training.sft"


MONITORED = DpoSettings(**COMMON, chain="y")
REFUSED = [
    (Launch("cpu", ("--num_processes", "2")), sft(), "use --profile multi-cpu"),
    (Launch(None, ("--cpu", "--num_processes=2")), sft(), "starts a single one"),
    (Launch(None, ("--num_processes",)), sft(), "--num_processes has no value"),
    (Launch(None, ("--num_processes", "--cpu")), sft(), "--num_processes has no value"),
    (Launch(None, ("--num_processes=all", "--cpu")), sft(), "--num_processes is 'all'"),
    (Launch(None, ("--config_file", "nowhere.yaml", "--cpu")), sft(), "nowhere.yaml cannot be read"),
    (Launch("zero3"), sft(weights="nf4"), "4-bit weights cannot be divided"),
    (Launch("fsdp2"), sft(weights="nf4"), "4-bit weights cannot be divided"),
    (Launch("gpu"), sft(), "there is no profile 'gpu'; choose one of cpu, fsdp2"),
    *(
        (launch, MONITORED, "set monitor_steps to 0, or use a profile")
        for launch in (
            Launch("zero3"),
            Launch("fsdp2"),
            Launch(None, ("--use_fsdp",)),
            Launch(None, ("--use_deepspeed", "--zero_stage", "3")),
            Launch("zero2", ("--zero_stage=3",)),
        )
    ),
]


def test_a_launch_that_would_not_be_what_was_asked_for_is_refused():
    for launch, settings, problem in REFUSED:
        with pytest.raises(BadConfig) as raised:
            launch.check(settings)
            launch.line("sft", ())
        assert problem in str(raised.value), launch
    for launch in (Launch("zero2"), Launch("multi-gpu"), Launch()):
        launch.check(MONITORED)
    Launch("zero3").check(MONITORED.model_copy(update={"monitor_steps": 0}))


def test_one_process_where_two_were_asked_for_is_refused(monkeypatch, tmp_path: Path):
    monkeypatch.setenv("ASSAY_PROCESSES", "2")
    with pytest.raises(BadConfig, match="2 processes were asked for, but 1 came together"):
        train("sft", settings_file(tmp_path, SFT))
    assert not (tmp_path / "run").exists()


def test_one_process_gets_every_core_that_may_be_used_and_a_number_that_somebody_set_stands(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert environment(Launch().line("sft", ()), 1)["OMP_NUM_THREADS"] == str(usable_cores())
    assert "OMP_NUM_THREADS" not in environment(Launch().line("sft", ()), 2)
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    assert environment(Launch().line("sft", ()), 1)["OMP_NUM_THREADS"] == "7"


@pytest.mark.parametrize(
    ("text", "cores"), [("100000 100000", 1), ("50000 100000", 1), ("max 100000", None), ("", None)]
)
def test_a_container_uses_no_more_cores_than_it_was_granted(text, cores, tmp_path: Path):
    (tmp_path / "cpu.max").write_text(text)
    assert usable_cores(tmp_path / "cpu.max") == (cores or usable_cores(tmp_path / "nowhere"))


# ---- what this machine lacks -------------------------------------------------------------------

LACKS = [  # settings, has a GPU, packages, launch, what is said
    (sft(), False, set(), Launch("multi-cpu"), []),
    (sft(attention="flash_attention_2"), False, {"flash_attn"}, None, ["runs on GPUs only"]),
    (sft(attention="flash_attention_2"), True, set(), None, ["pip install flash-attn"]),
    (sft(attention="flash_attention_2"), True, {"flash_attn"}, None, []),
    (sft(report_to="wandb"), False, set(), None, ["pip install wandb"]),
    (sft(report_to="tensorboard"), False, {"bitsandbytes"}, None, ["pip install tensorboard"]),
    (sft(weights="nf4"), True, set(), None, ["pip install bitsandbytes"]),
    (grpo(vllm="colocate"), False, {"vllm"}, None, ["samples on GPUs only; use vllm off"]),
    (grpo(vllm="server"), True, set(), None, ["pip install"]),
    (grpo(vllm="colocate"), False, set(), None, ["samples on GPUs only", "vLLM is not installed"]),
    (grpo(vllm="colocate"), True, {"vllm"}, None, []),
    (sft(), False, set(), Launch("single-gpu"), ["profile single-gpu is for GPUs"]),
    (sft(), True, set(), Launch("single-gpu"), []),
    (sft(), False, set(), Launch("multi-cpu", ("--use_fsdp",)), ["FSDP on the CPU: accelerate divides"]),
    (sft(), True, set(), Launch("multi-cpu", ("--use_fsdp",)), []),
    (sft(), True, set(), Launch("zero2"), ["pip install deepspeed"]),
    (sft(), False, {"deepspeed"}, Launch("zero3"), ["use --profile cpu or multi-cpu"]),
]


def test_what_is_missing_is_named_with_what_to_do():
    for settings, has_gpu, packages, launch, said in LACKS:
        found = missing(settings, has_gpu=has_gpu, has=packages.__contains__, launch=launch)
        assert len(found) == len(said), found
        assert all(part in sentence for part, sentence in zip(said, found, strict=True)), found


# ---- what a run will need ----------------------------------------------------------------------


@pytest.mark.parametrize("targets", [("all-linear",), ("q_proj", "v_proj")])
def test_the_weights_of_a_base_and_its_adapter_are_counted_as_they_are(tmp_path: Path, targets):
    shape = shape_of(str(tiny_base(tmp_path)))
    model = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    weights = shape.linear_weights + shape.other_weights
    assert weights == sum(each.numel() for each in model.parameters())
    settings = sft(lora_r=4, lora_targets=targets, autocast="none")
    policy = stacked_policy(model, {}, lora_of(settings, model))
    needs = estimate(settings, shape, rows=8)
    assert needs.trained_weights == sum(each.numel() for each in policy.parameters() if each.requires_grad)
    assert needs.memory["base"] == 4 * weights


def test_mistral_and_the_published_adapters_have_their_sizes():
    shape = shape_of(f"{MISTRAL}@main")
    assert shape.linear_weights + shape.other_weights == 7_248_023_552
    assert [round(shape.adapter_weights(rank, ("all-linear",)) / 1e6) for rank in (64, 32)] == [168, 84]
    kinds = ("float32", "bfloat16", "nf4")
    sizes = [estimate(sft(weights=each, autocast="none"), shape, 8).memory["base"] / 1e9 for each in kinds]
    assert sizes == pytest.approx([29.0, 14.5, 4.1], abs=0.1)
    whole, less = (estimate(sft(activation_checkpointing=each), shape, 8).memory for each in (False, True))
    assert less["activations"] < whole["activations"] / 5


MEASURED = [  # settings with the lengths that the rows really had, peak in GB
    (sft(batch=8, max_length=125), 3.52),
    (sft(batch=8, max_length=130), 3.85),
    (grpo(batch=16, num_generations=8, max_prompt_length=72, max_completion_length=48), 4.45),
    (grpo(batch=32, num_generations=8, max_prompt_length=88, max_completion_length=80), 7.75),
]
"""Runs of the embedded base on a CPU, r = 8 on all linear layers: the resident set at its highest."""


def test_the_memory_of_runs_that_were_measured_is_estimated_within_an_eighth():
    found = [estimate(settings, shape_of("embedded"), 600).total / 1e9 for settings, _ in MEASURED]
    assert found == pytest.approx([peak for _, peak in MEASURED], rel=1 / 8)


def test_a_base_that_nobody_knows_has_no_shape_and_a_folder_that_describes_none_is_refused(tmp_path: Path):
    assert shape_of("somebody/unknown-7B") is None
    (tmp_path / "config.json").write_text('{"d_model": 512}', encoding="utf-8")
    with pytest.raises(BadConfig, match="does not describe a model of a known kind"):
        shape_of(str(tmp_path))


STEPS = [  # settings, rows, processes, steps
    (sft(batch=4, epochs=3), 10, 1, 9),
    (sft(batch=4, epochs=3), 10, 2, 6),
    (sft(batch=1, accumulation=4, epochs=2), 10, 1, 6),
    (sft(max_steps=7), 10, 1, 7),
    (DpoSettings(**COMMON, chain="y", batch=2, epochs=0.5), 10, 1, 3),
    (grpo(batch=4), 10, 1, 10),
    (grpo(batch=4, generation_batch=8, num_iterations=2), 10, 1, 20),
    (grpo(batch=1, accumulation=8, generation_batch=16), 10, 1, 4),
    (grpo(batch=4, generation_batch=16), 3, 1, 0),
]


def test_the_steps_of_a_run_follow_from_its_rows():
    assert [(*row[:3], steps_of(*row[:3])) for row in STEPS] == STEPS


UNEVEN = [  # settings, rows, processes, what is said
    ({"batch": 6}, 100, 1, "6 answers are sampled at a time"),
    ({"batch": 6}, 100, 1, "such as generation_batch 12"),
    ({"batch": 2}, 100, 1, "cannot be divided into groups of num_generations 4"),
    ({"batch": 2}, 100, 2, None),
    ({"batch": 1, "accumulation": 4}, 100, 1, None),
    ({"batch": 4, "generation_batch": 6}, 100, 1, "cannot be divided into groups"),
    ({"batch": 8, "generation_batch": 12}, 100, 1, "a multiple of 8, such as 8"),
    ({"batch": 4, "generation_batch": 12}, 100, 2, "batches of 4 on each of 2 processes"),
    ({"batch": 4, "vllm": "colocate", "vllm_tensor_parallel": 2}, 100, 3, "does not divide 3 processes"),
    ({"batch": 4, "vllm": "colocate", "vllm_tensor_parallel": 2}, 100, 4, None),
    ({"batch": 4, "generation_batch": 16}, 3, 1, "asks 4 questions at a time (16 answers, 4 to each)"),
    ({"batch": 4, "generation_batch": 16}, 4, 1, None),
    ({"batch": 4}, 1, 2, "asks 2 questions at a time"),
]


def test_answers_that_do_not_divide_among_groups_and_processes_or_lack_questions_are_refused():
    for values, rows, processes, problem in UNEVEN:
        if problem is None:
            check_batches(grpo(**values), rows, processes)
            continue
        with pytest.raises(BadConfig) as raised:
            check_batches(grpo(**values), rows, processes)
        assert problem in str(raised.value), values
