from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from evals.errors import BadConfig
from tests.models import tiny_base
from training.config import DpoSettings, GrpoSettings, SftSettings
from training.launch.estimate import check_batches, estimate, shape_of, steps_of
from training.models.policy import lora_of, stacked_policy

MISTRAL = "mistralai/Mistral-7B-v0.3"
COMMON = {"data": ("a",), "output": "x"}


@pytest.mark.parametrize("targets", [("all-linear",), ("q_proj", "v_proj")])
def test_the_weights_of_a_base_and_its_adapter_are_counted_as_they_are(tmp_path: Path, targets):
    shape = shape_of(str(tiny_base(tmp_path)))
    assert shape is not None
    model = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    weights = shape.linear_weights + shape.other_weights
    assert weights == sum(each.numel() for each in model.parameters())
    settings = SftSettings(**COMMON, lora_r=4, lora_targets=targets, autocast="none")
    policy = stacked_policy(model, {}, lora_of(settings, model))
    trained = sum(each.numel() for each in policy.parameters() if each.requires_grad)
    needs = estimate(settings, shape, rows=8)
    assert needs.trained_weights == trained
    assert needs.memory["base"] == 4 * weights


@pytest.mark.parametrize(("rank", "millions"), [(64, 168), (32, 84)])
def test_the_published_adapters_have_the_published_sizes(rank: int, millions: int):
    shape = shape_of(MISTRAL)
    assert shape is not None
    assert round(shape.adapter_weights(rank, ("all-linear",)) / 1e6) == millions


def test_mistral_has_its_weights_and_in_4_bit_fits_a_small_card():
    shape = shape_of(f"{MISTRAL}@main")
    assert shape is not None
    assert shape.linear_weights + shape.other_weights == 7_248_023_552
    held = {
        weights: estimate(SftSettings(**COMMON, weights=weights, autocast="none"), shape, 8)
        for weights in ("float32", "bfloat16", "nf4")
    }
    sizes = [held[name].memory["base"] / 1e9 for name in held]
    assert sizes == pytest.approx([29.0, 14.5, 4.1], abs=0.1)


def test_checkpointing_and_shorter_rows_need_less_memory():
    shape = shape_of(MISTRAL)
    assert shape is not None

    def activations(**values: object) -> int:
        return estimate(SftSettings(**COMMON, **values), shape, 8).memory["activations"]

    assert activations(activation_checkpointing=True) < activations() / 5
    assert activations(max_length=128) == activations(max_length=256) / 2


MEASURED = [  # settings with the lengths that the rows really had, peak in GB
    (SftSettings(**COMMON, batch=8, max_length=125), 3.52),
    (SftSettings(**COMMON, batch=8, max_length=130), 3.85),
    (
        GrpoSettings(
            **COMMON,
            chain="y",
            batch=16,
            num_generations=8,
            max_prompt_length=72,
            max_completion_length=48,
        ),
        4.45,
    ),
    (
        GrpoSettings(
            **COMMON,
            chain="y",
            batch=32,
            num_generations=8,
            max_prompt_length=88,
            max_completion_length=80,
        ),
        7.75,
    ),
]
"""Runs of the embedded base on a CPU, r = 8 on all linear layers: the resident set at its highest."""


@pytest.mark.parametrize(("settings", "peak"), MEASURED)
def test_the_memory_of_runs_that_were_measured_is_estimated_within_an_eighth(settings, peak: float):
    shape = shape_of("embedded")
    assert shape is not None
    assert estimate(settings, shape, 600).total / 1e9 == pytest.approx(peak, rel=1 / 8)


def test_a_base_that_nobody_knows_has_no_shape():
    assert shape_of("somebody/unknown-7B") is None


def test_a_folder_that_describes_no_such_model_is_refused(tmp_path: Path):
    (tmp_path / "config.json").write_text('{"d_model": 512}', encoding="utf-8")
    with pytest.raises(BadConfig, match="does not describe a model of a known kind"):
        shape_of(str(tmp_path))


GRPO = {**COMMON, "chain": "y", "num_generations": 4}
STEPS = [  # rows, processes, steps
    (SftSettings(**COMMON, batch=4, epochs=3), 10, 1, 9),
    (SftSettings(**COMMON, batch=4, epochs=3), 10, 2, 6),
    (SftSettings(**COMMON, batch=1, accumulation=4, epochs=2), 10, 1, 6),
    (SftSettings(**COMMON, max_steps=7), 10, 1, 7),
    (DpoSettings(**COMMON, chain="y", batch=2, epochs=0.5), 10, 1, 3),
    (GrpoSettings(**GRPO, batch=4), 10, 1, 10),
    (GrpoSettings(**GRPO, batch=4, generation_batch=8, num_iterations=2), 10, 1, 20),
    (GrpoSettings(**GRPO, batch=1, accumulation=8, generation_batch=16), 10, 1, 4),
]


@pytest.mark.parametrize(("settings", "rows", "processes", "steps"), STEPS)
def test_the_steps_of_a_run_follow_from_its_rows(settings, rows: int, processes: int, steps: int):
    assert steps_of(settings, rows, processes) == steps


UNEVEN = [  # settings, processes, what is said
    ({"batch": 6}, 1, "6 answers are sampled at a time .* such as generation_batch 12"),
    ({"batch": 2}, 1, "cannot be divided into groups of num_generations 4"),
    ({"batch": 2}, 2, None),
    ({"batch": 1, "accumulation": 4}, 1, None),
    ({"batch": 4, "generation_batch": 6}, 1, "cannot be divided into groups"),
    ({"batch": 8, "generation_batch": 12}, 1, "a multiple of 8, such as 8"),
    ({"batch": 4, "generation_batch": 12}, 2, "batches of 4 on each of 2 processes"),
    ({"batch": 4, "vllm": "colocate", "vllm_tensor_parallel": 2}, 3, "does not divide 3 processes"),
    ({"batch": 4, "vllm": "colocate", "vllm_tensor_parallel": 2}, 4, None),
]


@pytest.mark.parametrize(("values", "processes", "problem"), UNEVEN)
def test_answers_that_do_not_divide_among_groups_and_processes_are_refused(
    values: dict[str, object], processes: int, problem: str | None
):
    settings = GrpoSettings(**GRPO, **values)
    if problem is None:
        check_batches(settings, 100, processes)
        return
    with pytest.raises(BadConfig, match=problem):
        check_batches(settings, 100, processes)


def test_fewer_questions_than_are_asked_at_a_time_are_refused_and_count_no_step():
    settings = GrpoSettings(**GRPO, batch=4, generation_batch=16)
    assert steps_of(settings, 3) == 0
    with pytest.raises(BadConfig, match=r"asks 4 questions at a time .* there are only 3"):
        check_batches(settings, 3)
    check_batches(settings, 4)
    with pytest.raises(BadConfig, match="asks 2 questions at a time"):
        check_batches(GrpoSettings(**GRPO, batch=4), 1, processes=2)
