import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import pandas
import pytest
import torch
import yaml
from datasets import Dataset
from peft import PeftModel
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, set_seed
from trl import GRPOConfig

from evals.errors import ChainMismatch
from evals.questions import DATASETS
from evals.schema import Example
from tests.models import ALL_LINEAR, SYSTEM_PROMPT, tiny_adapter, tiny_base
from tests.training.runs import COMMON, GRPO, environment, one_thread, record, settings_file
from training import grpo
from training.config import GrpoSettings, read_request, read_settings
from training.data.questions import grpo_data, grpo_row
from training.models.base import find_base, load_base
from training.models.chain import NewStage, append_stage, load_chain
from training.models.policy import lora_of
from training.models.start import start_of
from training.run import trainer as trainers
from training.run.folder import RunFolder

ROOT = Path(__file__).parents[2]
TRL = Path(sys.executable).with_name("trl")

__all__ = ["one_thread"]


@pytest.fixture
def start(tmp_path: Path) -> Path:
    """A folder with a tiny base and an SFT run on it."""
    base = tiny_base(tmp_path / "model")
    adapter = tiny_adapter(base, tmp_path / "sft" / "adapter")
    stage = NewStage("sft", "sft", adapter)
    append_stage(tmp_path / "sft", stage, find_base(str(base)), None, SYSTEM_PROMPT)
    return tmp_path


def command(folder: Path, **values: object) -> list[str]:
    file = settings_file(folder, {**GRPO, "chain": str(folder / "sft"), **values})
    return ["--config", str(file)]


def prepared(folder: Path, **values: object) -> grpo.PolicyTrainer:
    settings = read_request(GrpoSettings, command(folder, **values)).settings
    assert isinstance(settings, GrpoSettings)
    data, base = grpo_data(settings.data, settings.seed), find_base(settings.base)
    return grpo.build_trainer(settings, data, start_of(settings, base), base)


def length_of_answer(completions: list[list[dict[str, str]]], **_: object) -> list[float]:
    """A reward that a random model earns in different amounts."""
    return [float(len(each[0]["content"]) % 7) for each in completions]


def trained_weights(trainer: grpo.GRPOTrainer) -> dict[str, torch.Tensor]:
    return {
        name.replace("base_model.model.", ""): value.clone()
        for name, value in trainer.model.state_dict().items()
        if ".lora_" in name and ".default." in name
    }


def test_a_run_adds_one_stage_to_the_chain_and_saves_its_own_adapter_alone(start: Path):
    frozen = (start / "sft" / "adapter" / "adapter_model.safetensors").read_bytes()
    grpo.train(read_request(GrpoSettings, command(start)))
    run = start / "run"
    assert sorted(path.name for path in run.iterdir()) == [
        "adapter",
        "chain.json",
        "completions",
        "metrics.jsonl",
        "run.json",
    ]
    assert sorted(path.name for path in (run / "adapter").iterdir()) == [
        "adapter_config.json",
        "adapter_model.safetensors",
    ]
    assert (start / "sft" / "adapter" / "adapter_model.safetensors").read_bytes() == frozen
    chain = load_chain(run, "float32", base=str(start / "model"))
    assert chain.stages == ("base", "sft", "grpo")
    assert chain.manifest.system_prompt == SYSTEM_PROMPT
    assert [stage.path for stage in chain.manifest.stages] == ["../sft/adapter", "adapter"]
    kept = record(run)
    assert (kept["status"], kept["config"]["chain"]) == ("finished", "sft")
    assert kept["data"]["stage sft"] == chain.manifest.stages[0].sha256
    assert str(start) not in (run / "run.json").read_text(encoding="utf-8")


def test_what_was_sampled_and_how_it_was_judged_is_kept(start: Path):
    grpo.train(read_request(GrpoSettings, command(start, max_steps=1)))
    table = pandas.read_parquet(start / "run" / "completions")
    assert len(table) == GRPO["batch"]
    assert {"prompt", "completion", "verifier", "verdict", "stated_confidence"} <= set(table.columns)
    logged = RunFolder(start / "run").metric_rows()[0]
    assert {"kl", "reward", "frac_reward_zero_std", "verdict/no_claim", "verifier/V4"} <= set(logged)


BY_MODE = [
    (mode, weights, autocast)
    for mode in ("stack", "continue", "merge_then_new")
    for weights, autocast in (("float32", "none"), ("float32", "bfloat16"), ("nf4", "bfloat16"))
    if (mode, weights) != ("merge_then_new", "nf4")  # refused
]


def test_each_verifier_is_compared_on_its_own_within_a_group_where_that_is_asked(start: Path):
    trainer = prepared(
        start,
        aggregation="normalize_then_sum",
        verifier_weights="V1=0.3,V4=0.1",
        max_steps=1,
        batch=8,
    )
    names = ("verifier", "verifier_V1", "verifier_V2", "verifier_V3", "verifier_V4")
    assert tuple(trainer.reward_func_names) == names
    trainer.reward_funcs = [partial(length_modulo, n) for n in (1, 3, 5, 7, 2)]
    trainer.train()
    rewards, logged = trainer._logs["rewards"], trainer.state.log_history[0]
    scores = torch.tensor([list(rewards[name]) for name in ("verifier_V1", "verifier_V4")])
    groups = scores.view(2, 2, 4)
    apart = (groups - groups.mean(-1, keepdim=True)) / (groups.std(-1, keepdim=True) + 1e-4)
    together = (torch.tensor([[0.75], [0.25]]) * apart.view(2, 8)).sum(0)
    assert together.abs().max() > 0.1
    expected = (together - together.mean()) / (together.std() + 1e-4)
    assert list(trainer._logs["advantages"]) == pytest.approx(expected.tolist(), abs=1e-4)
    assert logged["frac_reward_zero_std"] == 1.0  # of the composed reward, which was 0 everywhere


def length_modulo(modulus: int, completions: list[list[dict[str, str]]], **_: object) -> list[float]:
    return [float(len(each[0]["content"]) % modulus) for each in completions]


@pytest.mark.parametrize(("mode", "weights", "autocast"), BY_MODE)
def test_the_kl_is_zero_at_the_first_step_because_the_reference_is_base_plus_sft(
    start: Path, mode: str, weights: str, autocast: str
):
    shape = {"lora_targets": list(ALL_LINEAR), "weights": weights, "autocast": autocast}
    trainer = prepared(start, max_steps=3, beta=0.5, mode=mode, **shape)
    trainer.reward_funcs = [length_of_answer]
    before = {name: value.clone() for name, value in trainer.model.state_dict().items() if ".default." not in name}
    trainer.train()
    kl = [row["kl"] for row in trainer.state.log_history if "kl" in row]
    assert kl[0] == 0.0
    assert max(kl) > 0.0
    after = trainer.model.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())


def test_training_on_top_equals_training_on_a_merged_base(start: Path):
    stacked = prepared(start, max_steps=4)
    initial = trained_weights(stacked)
    stacked.reward_funcs = [length_of_answer]
    set_seed(0)
    stacked.train()

    settings = read_settings(GrpoSettings, start / "settings.yaml")
    model, tokenizer = load_base(find_base(settings.base), "float32")
    merged = PeftModel.from_pretrained(model, str(start / "sft" / "adapter")).merge_and_unload()
    merged.requires_grad_(True)
    arguments = GRPOConfig(**grpo.options(settings))
    arguments.set_save(strategy="no")
    rows = [grpo_row(each, SYSTEM_PROMPT) for each in grpo_data(settings.data, 0).examples]
    plain = grpo.GRPOTrainer(
        model=merged,
        args=arguments,
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer,
        reward_funcs=length_of_answer,
        peft_config=lora_of(settings, merged),
    )
    own = plain.model.state_dict()
    for name in own:
        if ".lora_" in name and ".default." in name:
            own[name].copy_(initial[name.replace("base_model.model.", "")])
    set_seed(settings.seed)
    plain.train()

    ours, theirs = trained_weights(stacked), trained_weights(plain)
    assert ours.keys() == theirs.keys()
    moved = max(float((ours[name] - initial[name]).abs().max()) for name in ours)
    apart = max(float((ours[name] - theirs[name]).abs().max()) for name in ours)
    assert moved > 1e-3
    assert apart < 1e-5
    rewards = [[row["reward"] for row in each.state.log_history if "reward" in row] for each in (stacked, plain)]
    assert rewards[0] == rewards[1]


def test_a_resumed_run_ends_with_the_weights_of_one_that_was_never_stopped(start: Path):
    def run(name: str, **values: object) -> Path:
        output = start / name
        arguments = command(start, max_steps=4, output=str(output), **values)
        grpo.train(read_request(GrpoSettings, arguments))
        return output

    whole = run("whole", save_steps=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trainers, "write_adapter", _stop)
        with pytest.raises(KeyboardInterrupt):
            run("parts", save_steps=3)
    (start / "parts" / "checkpoint-4" / "trainer_state.json").unlink()
    parts = run("parts", save_steps=3)
    one, other = (load_file(each / "adapter" / "adapter_model.safetensors") for each in (whole, parts))
    assert max(float((one[name] - other[name]).abs().max()) for name in one) < 1e-6


def _stop(*_: object) -> str:
    raise KeyboardInterrupt


def test_a_run_that_learns_nothing_says_so_in_words(start: Path, capsys):
    grpo.train(read_request(GrpoSettings, command(start, max_steps=10)))
    alerts = [row for row in RunFolder(start / "run").metric_rows() if "alert" in row]
    assert alerts[0]["step"] == 10
    said = [row["alert"] for row in alerts]
    assert any(text.startswith("100% of groups had equal rewards") for text in said)
    assert any(text.startswith("only 0% of answers have a line `Answer") for text in said)
    assert f"step 10: {said[0]}" in capsys.readouterr().err


def test_a_chain_of_another_base_is_refused_before_anything_is_written(start: Path):
    other = tiny_base(start / "other", seed=9)
    with pytest.raises(ChainMismatch, match="weights"):
        grpo.train(read_request(GrpoSettings, command(start, base=str(other))))
    assert not (start / "run").exists()


def test_trls_own_command_line_takes_the_reward_as_it_is(tmp_path: Path):
    rows = tmp_path / "rows.jsonl"
    examples: tuple[Example, ...] = DATASETS["pathways-train"]()[:4]
    rows.write_text("".join(json.dumps(grpo_row(each)) + "\n" for each in examples))
    config = {
        "model_name_or_path": str(tiny_base(tmp_path / "model")),
        "datasets": [{"path": "json", "data_files": str(rows)}],
        "reward_funcs": ["training.rewards.verifier_reward"],
        "output_dir": str(tmp_path / "run"),
        "max_steps": 1,
        "per_device_train_batch_size": 2,
        "num_generations": 2,
        "max_completion_length": 8,
        "bf16": False,
        "use_cpu": True,
        "logging_steps": 1,
        "save_strategy": "no",
        "log_completions": True,
        "learning_rate": COMMON["learning_rate"],
    }
    file = tmp_path / "trl.yaml"
    file.write_text(yaml.safe_dump(config), encoding="utf-8")
    done = subprocess.run(
        [str(TRL), "grpo", "--config", str(file)],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    table = pandas.read_parquet(tmp_path / "run" / "completions")
    assert table["verifier"].notna().all()
    assert set(table["verdict"]) <= {"correct", "incorrect", "contradictory", "no_claim"}
    assert AutoModelForCausalLM.from_pretrained(tmp_path / "run") is not None
