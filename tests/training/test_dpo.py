import json
import math
from pathlib import Path

import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file
from transformers import LlamaForCausalLM

from evals.errors import BadConfig, ChainMismatch
from evals.model import Sampling
from evals.questions import write_examples
from evals.schema import Message
from tests.models import ALL_LINEAR, tiny_base
from tests.training.runs import COMMON, answered_in_lines, one_thread, record, settings_file
from tests.training.runs import launched as typed
from training import dpo, sft
from training.config import DpoSettings, SftSettings, read_request
from training.models.adapters import read_adapter
from training.models.chain import check_chain, load_chain, read_chain
from training.models.manifest import active_adapters
from training.models.stack import Stack
from training.run.folder import RunFolder

MODES = ("stack", "continue", "merge_then_new")
TOKENS = torch.arange(24).reshape(2, 12)

__all__ = ["one_thread"]


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny base, and an SFT run on it that knows the answers to three questions."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("dpo")
    write_examples(folder / "rows.jsonl", answered_in_lines(3))
    lesson = {"batch": 3, "max_length": 1024, "max_steps": 120, "learning_rate": 1e-2}
    shape = {"lora_r": 8, "lora_alpha": 8, "lora_targets": list(ALL_LINEAR)}
    values = {**COMMON, **lesson, **shape, "output": str(folder / "sft")}
    sft.train(read_request(SftSettings, ["--config", str(settings_file(folder, values))]))
    (folder / "pairs.jsonl").write_text(
        "".join(json.dumps(pair(number)) + "\n" for number in range(8)), encoding="utf-8"
    )
    return folder


def pair(number: int) -> dict[str, object]:
    return {
        "prompt": [{"role": "user", "content": f"What of tissue {number}?"}],
        "chosen": [{"role": "assistant", "content": f"It goes up {number} times."}],
        "rejected": [{"role": "assistant", "content": "It goes down."}],
        "vote_id": f"vote-{number}",
    }


def settings(folder: Path, output: Path, **values: object) -> Path:
    document = {
        **COMMON,
        "lora_r": 8,
        "lora_alpha": 8,
        "lora_targets": list(ALL_LINEAR),
        "chain": str(folder / "sft"),
        "data": [str(folder / "pairs.jsonl")],
        "batch": 2,
        "max_length": 1024,
        "monitor_data": [str(folder / "rows.jsonl")],
        "monitor_steps": 1,
        "monitor_tokens": 40,
        "output": str(output),
        **values,
    }
    return settings_file(folder, document)


def train(folder: Path, output: Path, *words: str, **values: object) -> Path:
    file = settings(folder, output, **values)
    dpo.train(read_request(DpoSettings, ["--config", str(file), *words]))
    return output


def figures(run: Path, key: str) -> list[float]:
    return [row[key] for row in RunFolder(run).metric_rows() if key in row]


def adapter(run: Path) -> dict[str, torch.Tensor]:
    return load_file(run / "adapter" / "adapter_model.safetensors")


@pytest.fixture(scope="module")
def launched(taught: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """One whole run by the command that people type, and what it said."""
    run = tmp_path_factory.mktemp("launched") / "run"
    done = typed("dpo", settings(taught, run), None, "--beta", "0.05")
    assert done.returncode == 0, done.stderr[-3000:]
    return run, done.stderr


def test_a_run_adds_one_stage_to_the_chain_and_saves_its_own_adapter_alone(launched, taught: Path):
    run, _ = launched
    assert sorted(path.name for path in run.iterdir()) == [
        "adapter",
        "chain.json",
        "metrics.jsonl",
        "run.json",
    ]
    assert sorted(path.name for path in (run / "adapter").iterdir()) == [
        "adapter_config.json",
        "adapter_model.safetensors",
    ]
    kept, chain = record(run), read_chain(run).manifest
    assert [(stage.name, stage.kind, stage.mode) for stage in chain.stages] == [
        ("sft", "sft", "stack"),
        ("dpo", "dpo", "stack"),
    ]
    assert (kept["status"], kept["stage"], kept["result"]["steps"]) == ("finished", "dpo", 2)
    assert kept["data"]["stage sft"] == chain.stages[0].sha256
    assert kept["data"]["rows of pairs.jsonl"] == 8
    assert str(taught) not in (run / "run.json").read_text(encoding="utf-8")


def test_the_trained_stage_answers_beside_the_others(launched, taught: Path):
    run, _ = launched
    chain = load_chain(run, "float32", base=str(taught / "model"))
    answers = chain.generate([[Message(role="user", content="How many?")]], chain.stages, Sampling(max_new_tokens=4))[0]
    assert [answer.stage for answer in answers] == ["base", "sft", "dpo"]


def test_a_beta_that_is_known_to_destroy_knowledge_is_warned_about(launched):
    _, said = launched
    assert "warning: beta 0.05 is aggressive" in said


def test_the_monitor_starts_from_what_the_chain_knows_with_no_distance_to_itself(launched):
    run, _ = launched
    first, *later = [row for row in RunFolder(run).metric_rows() if "monitor/kl" in row]
    assert first["step"] == 0
    assert (first["monitor/accuracy"], first["monitor/kl"]) == (1.0, 0.0)
    assert [row["step"] for row in later] == [1, 2]
    assert all(row["monitor/kl"] > 0 for row in later)


@pytest.fixture(scope="module", params=MODES)
def by_mode(taught: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    torch.set_num_threads(1)
    run = tmp_path_factory.mktemp(request.param) / request.param
    return train(taught, run, mode=request.param, learning_rate=2e-2)


def test_before_the_first_step_the_policy_is_its_own_reference(by_mode: Path):
    assert figures(by_mode, "loss")[0] == pytest.approx(math.log(2), abs=1e-6)
    assert figures(by_mode, "rewards/margins")[0] == 0.0
    assert figures(by_mode, "rewards/chosen")[0] == 0.0
    assert figures(by_mode, "monitor/kl")[0] == 0.0
    assert figures(by_mode, "monitor/kl")[-1] > 0.0
    assert figures(by_mode, "monitor/accuracy")[0] == 1.0


@pytest.mark.parametrize(("mode", "weights"), [("stack", "nf4"), ("continue", "nf4"), ("stack", "float32")])
def test_in_bfloat16_and_over_4_bit_weights_the_policy_is_its_own_reference_too(
    taught: Path, tmp_path: Path, mode: str, weights: str
):
    run = train(taught, tmp_path / "run", mode=mode, weights=weights, autocast="bfloat16")
    assert figures(run, "loss")[0] == pytest.approx(math.log(2), abs=1e-6)
    assert figures(run, "rewards/margins")[0] == 0.0
    assert figures(run, "monitor/kl")[0] == 0.0
    assert figures(run, "monitor/kl")[-1] > 0.0


@torch.no_grad()
def test_each_mode_is_served_as_it_was_trained(by_mode: Path, taught: Path):
    mode = by_mode.name
    trained = LlamaForCausalLM.from_pretrained(taught / "model", dtype=torch.float32)
    if mode != "continue":
        below = PeftModel.from_pretrained(trained, str(taught / "sft" / "adapter"))
        trained = below.merge_and_unload()
    trained = PeftModel.from_pretrained(trained, str(by_mode / "adapter"))

    chain = read_chain(by_mode)
    stages = chain.manifest.stages
    served = LlamaForCausalLM.from_pretrained(taught / "model", dtype=torch.float32)
    stack = Stack(served, {each.name: read_adapter(chain.adapter_folder(each)) for each in stages})
    active = active_adapters(stages)
    with stack.rows([active["dpo"]] * 2):
        as_dpo = served(TOKENS).logits
    with stack.rows([active["sft"]] * 2):
        as_sft = served(TOKENS).logits

    assert stages[-1].mode == mode
    assert (as_dpo - trained(TOKENS).logits).abs().max() < 1e-4
    assert (as_dpo - as_sft).abs().max() > 0.01
    assert all(finding.is_ok for finding in check_chain(by_mode, base=str(taught / "model")))


def test_the_frozen_chain_is_left_as_it_was(by_mode: Path, taught: Path):
    chain = read_chain(by_mode)
    assert chain.manifest.stages[0] == read_chain(taught / "sft").manifest.stages[0].model_copy(
        update={"path": chain.manifest.stages[0].path}
    )
    assert all(finding.is_ok for finding in check_chain(taught / "sft", base=str(taught / "model")))


def test_what_was_learned_in_stack_and_in_merged_weights_is_the_same(taught: Path, tmp_path: Path):
    one = train(taught, tmp_path / "stack", max_steps=3)
    other = train(taught, tmp_path / "merged", max_steps=3, mode="merge_then_new")
    first, second = adapter(one), adapter(other)
    apart = max(float((first[name] - second[name]).abs().max()) for name in first)
    assert apart < 1e-3  # bfloat16 as written; the losses agree further
    assert figures(one, "loss") == pytest.approx(figures(other, "loss"), abs=1e-5)


@pytest.mark.parametrize(("weights", "autocast"), [("float32", "none"), ("nf4", "bfloat16")])
def test_the_monitor_leaves_the_trained_weights_as_they_are(taught: Path, tmp_path: Path, weights: str, autocast: str):
    plan = {"weights": weights, "autocast": autocast, "max_steps": 3}
    watched = train(taught, tmp_path / "watched", **plan)
    alone = train(taught, tmp_path / "alone", **plan, monitor_steps=0)
    assert figures(alone, "monitor/kl") == []
    first, second = adapter(watched), adapter(alone)
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_forgetting_is_said_in_words_and_stops_the_run_where_that_is_asked(taught: Path, tmp_path: Path, capsys):
    run = train(
        taught,
        tmp_path / "run",
        learning_rate=0.5,
        max_steps=8,
        monitor_max_kl=0.1,
        monitor_stop=True,
    )
    alerts = [row for row in RunFolder(run).metric_rows() if "alert" in row]
    assert "of 3 watched questions 0% are answered right, 100% before" in alerts[0]["alert"]
    assert "nats per token away from the reference (allowed 0.1)" in alerts[1]["alert"]
    assert f"step {alerts[0]['step']}: of 3 watched questions" in capsys.readouterr().err
    kept = record(run)
    assert kept["status"] == "stopped"
    assert kept["result"]["steps"] < 8
    assert "nats per token" in kept["result"]["stopped_because"]
    assert RunFolder(run).last_checkpoint() is not None
    assert not (run / "adapter").exists()


def test_a_resumed_run_ends_with_the_weights_and_the_figures_of_one_that_was_never_stopped(
    taught: Path, tmp_path: Path
):
    plan = {"max_steps": 4, "save_steps": 2, "mode": "continue"}
    whole = train(taught, tmp_path / "whole", **plan)
    parts = train(taught, tmp_path / "parts", **plan, monitor_stop=True, monitor_max_kl=0.0)
    assert record(parts)["status"] == "stopped"
    train(taught, tmp_path / "parts", **plan)
    assert record(parts)["status"] == "finished"
    first, second = adapter(whole), adapter(parts)
    assert all(torch.equal(first[name], second[name]) for name in first)
    for key in ("loss", "monitor/accuracy", "monitor/kl"):
        assert figures(parts, key) == figures(whole, key)


def test_an_adapter_is_continued_only_in_its_own_shape(taught: Path, tmp_path: Path):
    with pytest.raises(BadConfig, match=r"rank 8, alpha 8 .* ask for rank 2, alpha 8"):
        train(taught, tmp_path / "run", mode="continue", lora_r=2)
    with pytest.raises(BadConfig, match="settings ask for rank 8, alpha 8 on 2 q_proj"):
        train(taught, tmp_path / "other", mode="continue", lora_targets=["q_proj"])
    whole = train(taught, tmp_path / "all", mode="continue", lora_targets=["all-linear"])
    assert record(whole)["status"] == "finished"


def test_a_pair_that_is_too_long_is_named_before_anything_is_trained(taught: Path, tmp_path: Path):
    with pytest.raises(BadConfig, match=r"max_length 32 tokens: pairs.jsonl:1 \("):
        train(taught, tmp_path / "run", max_length=32)


def test_a_chain_of_another_base_is_refused_before_anything_is_written(taught: Path, tmp_path: Path):
    other = tiny_base(tmp_path / "other", seed=9)
    with pytest.raises(ChainMismatch, match="weights"):
        train(taught, tmp_path / "run", base=str(other))
    assert not (tmp_path / "run").exists()
