"""Each stage trained once on the tiny model, what only that stage promises, and its dev set: best weights, an early end."""

import json
import math
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pandas
import pytest
import torch
from bitsandbytes.nn import Linear4bit
from datasets import Dataset
from peft import PeftModel
from transformers import LlamaForCausalLM, set_seed
from trl import GRPOConfig, GRPOTrainer

from evals.errors import BadConfig, ChainMismatch
from evals.papers import demonstration
from evals.papers.collection import split_by_family
from evals.questions import DATASETS, SYSTEM_PROMPT
from evals.schema import Message
from evals.schema.questions import Sampling
from tests.examples import write_examples
from tests.models import load_base, tiny_base
from tests.training import test_reviewer
from tests.training.cases import cases, not_refused
from tests.training.runs import (
    GRPO,
    ROOT,
    SFT,
    adapter,
    figures,
    launched,
    on_taught,
    ready,
    record,
    settings_file,
    train,
)
from training import grpo, kto, reward, sft, upstream
from training.config import read_request
from training.models.adapters import WEIGHTS_NAME, read_adapter
from training.models.base import find_base, load_model
from training.models.chain import check_chain, load_chain
from training.models.manifest import active_adapters, read_chain
from training.models.stack import Stack
from training.models.targets import lora_config
from training.reward import ModelReward
from training.run.folder import RunFolder
from training.sft import check_packing
from training.stages import STAGES
from training.upstream import SampledTrainer

LEFT = ["adapter", "chain.json", "metrics.jsonl", "run.json"]
QUESTION = [Message(role="user", content="How many?")]
slow = pytest.mark.slow


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def check_left(run: RunFolder, stage: str, *more: str, steps: int = 2) -> None:
    """Check the run folder of a stage on top of an SFT run: its own adapter alone, the chain, no path of here."""
    assert names(run.path) == sorted([*LEFT, *more])
    assert names(run.adapter) == ["adapter_config.json", WEIGHTS_NAME]
    kept, chain = record(run.path), read_chain(run.path).manifest
    assert [each.name for each in chain.stages] == ["sft", stage]
    assert (kept["status"], kept["stage"], kept["result"]["steps"]) == ("finished", stage, steps)
    assert kept["data"]["stage sft"] == chain.stages[0].sha256
    assert str(run.path.parent) not in (run.path / "run.json").read_text(encoding="utf-8")


# ---- SFT ---------------------------------------------------------------------------------------


@slow
def test_the_command_that_people_type_leaves_an_adapter_its_chain_and_records_and_nothing_about_the_machine(
    tmp_path: Path,
):
    done = launched("sft", settings_file(tmp_path, SFT), None)
    assert done.returncode == 0, done.stderr[-3000:]
    run, base = tmp_path / "run", str(tmp_path / "model")
    assert (names(run), names(run / "adapter")) == (LEFT, ["adapter_config.json", WEIGHTS_NAME])
    assert [row["step"] for row in RunFolder(run).metric_rows() if "loss" in row] == [1, 2]
    chain = load_chain(run, "float32", base=base)
    assert (chain.stages, chain.manifest.system_prompt) == (("base", "sft"), SYSTEM_PROMPT)
    text, kept = (run / "run.json").read_text(encoding="utf-8"), record(run)
    assert (kept["status"], kept["stage"], kept["result"]["steps"]) == ("finished", "sft", 2)
    assert (kept["data"]["rows"], kept["config"]["base"], kept["host"]["processes"]) == (8, "model", 1)
    assert kept["command"] == "accelerate launch -m training.sft --config settings.yaml"
    for private in (str(run), str(ROOT), str(Path.home()), os.uname().nodename):
        assert private not in text
    assert str(tmp_path) not in (run / "adapter" / "adapter_config.json").read_text()


@pytest.mark.parametrize("attention", ["sdpa", pytest.param("eager", marks=slow)])
def test_rows_that_are_packed_or_not_padded_do_not_see_each_other_and_give_the_loss_of_rows_apart(
    tmp_path, attention: str
):
    values = {**SFT, "max_steps": 1, "learning_rate": 1e-9, "batch": 8, "attention": attention}
    losses = []
    for name, told in {"apart": {}, "packed": {"packing": True}, "behind": {"padding_free": True}}.items():
        file = settings_file(tmp_path, {**values, **told, "output": str(tmp_path / name)})
        losses.append(record(train("sft", file).path)["result"]["train_loss"])
    assert losses == pytest.approx([losses[0]] * 3, abs=1e-5)


def test_a_model_that_lets_packed_rows_see_each_other_is_refused(taught: Path):
    model = load_model(find_base(str(taught / "model")), "float32")
    honest = model.forward
    model.forward = lambda position_ids=None, **others: honest(**others)
    with pytest.raises(BadConfig, match="packed rows see each other"):
        check_packing(model, "sdpa")


def test_a_4_bit_base_is_nf4_with_doubly_quantised_scales_and_steps_of_published_size_are_not_lost(tmp_path: Path):
    values = {**SFT, "weights": "nf4", "autocast": "bfloat16", "learning_rate": 5e-7, "max_steps": 3}
    trainer = sft.build_trainer(ready("sft", settings_file(tmp_path, values)))
    layers = [each for each in trainer.model.modules() if isinstance(each, Linear4bit)]
    assert len(layers) == 7 * 2
    for layer in layers:
        assert (layer.weight.quant_state.quant_type, layer.weight.quant_state.nested) == ("nf4", True)
        assert (layer.compute_dtype, layer.weight.requires_grad) == (torch.bfloat16, False)
    weights = {name: each for name, each in trainer.model.named_parameters() if each.requires_grad}
    before = {name: each.detach().clone() for name, each in weights.items()}
    assert {each.dtype for each in weights.values()} == {torch.float32}
    trainer.train()
    above = [name for name in weights if ".lora_A." in name]  # B starts at nothing: any step is seen
    assert all(0 < (weights[name] - before[name]).abs().max().item() < 2e-6 for name in above)
    lost = [(before[name].bfloat16() == weights[name].bfloat16()).float().mean() for name in above]
    assert min(lost) > 0.9  # of the weights in bfloat16


# ---- DPO ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["stack", pytest.param("continue", marks=slow), "merge_then_new"])
def preferred(taught: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> RunFolder:
    """A DPO run on the taught chain, built on it in each way."""
    output = tmp_path_factory.mktemp(request.param) / request.param
    return train("dpo", on_taught(taught, "dpo", output, mode=request.param, learning_rate=2e-2, beta=0.05))


def test_a_dpo_run_starts_as_its_own_reference_and_adds_one_stage(preferred: RunFolder, taught: Path):
    check_left(preferred, "dpo")
    assert record(preferred.path)["data"]["rows of pairs.jsonl"] == 8
    assert figures(preferred, "loss")[0] == pytest.approx(math.log(2), abs=1e-6)
    first = {"rewards/margins": 0.0, "rewards/chosen": 0.0, "eval/kl": 0.0, "eval/accuracy": 1.0}
    assert {name: figures(preferred, name)[0] for name in first} == first
    assert [row["step"] for row in preferred.metric_rows() if "eval/kl" in row] == [0, 1, 2]
    assert figures(preferred, "eval/kl")[-1] > 0.0
    assert all(finding.is_ok for finding in check_chain(taught / "sft", base=str(taught / "model")))


def test_a_kto_run_starts_as_its_own_reference_balances_good_and_bad_and_adds_one_stage(taught: Path, tmp_path: Path):
    rows = [json.loads(line) for line in (taught / "pairs.jsonl").read_text().splitlines()]
    thumbs = [
        {"prompt": row["prompt"], "completion": row[name], "label": name == "chosen"}
        for at, row in enumerate(rows)
        for name in ("chosen", "rejected")
        if at < 4 or name == "rejected"
    ]
    (tmp_path / "thumbs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in thumbs))
    told = {"data": [str(tmp_path / "thumbs.jsonl")], "batch": 4, "learning_rate": 2e-2, "mode": "stack"}
    run = train("kto", on_taught(taught, "kto", tmp_path / "run", **told))
    check_left(run, "kto")
    assert figures(run, "eval/kl")[0] == figures(run, "kl")[0] == 0.0 < figures(run, "eval/kl")[-1]
    data = record(run.path)["data"]
    assert (data["answers called good"], data["answers called bad"]) == (4, 8)
    begun = ready("kto", on_taught(taught, "kto", tmp_path / "other", **told))
    trainer = kto.build_trainer(begun)
    assert (trainer.desirable_weight, trainer.undesirable_weight) == (2.0, 1.0)
    batch = trainer.data_collator([trainer.train_dataset[at] for at in range(4)])
    good = int(batch["label"].sum())
    assert trainer.compute_loss(trainer.model, batch).item() == pytest.approx((2 * good + 4 - good) / 8, abs=1e-6)
    with pytest.raises(BadConfig, match="batch is 1; KTO puts each answer beside"):
        ready("kto", on_taught(taught, "kto", tmp_path / "one", **told | {"batch": 1}))


def test_a_reward_model_says_what_it_is_worth_on_pairs_held_out_and_rewards_grpo_beside_the_verifiers(
    taught: Path, tmp_path: Path
):
    told = {"learning_rate": 2e-2, "max_steps": 6, "save_steps": 6}
    run = train("reward", on_taught(taught, "reward", tmp_path / "rm", **told))
    kept = record(run.path)
    assert kept["data"]["left out, held out, to measure the loss on"] == kept["data"]["held out rows"] == 2
    found = {name: kept["result"][f"held_out_{name}"] for name in ("pairs", "accuracy", "low", "high", "longer")}
    assert found["pairs"] == 2 and found["low"] <= found["accuracy"] <= found["high"]
    assert figures(run, "loss")[-1] < figures(run, "loss")[0] and figures(run, "eval_accuracy")[-1] == 1.0
    assert all(finding.is_ok for finding in check_chain(run.path, base=str(taught / "model")))
    data = ready("reward", on_taught(taught, "reward", tmp_path / "again", **told)).data
    pairs = reward.Scorer(str(run.path), str(taught / "model")).pairs(data)
    assert all(better > worse for better, worse in pairs)

    told = {"reward": str(run.path), "reward_share": 0.25, "data": [str(taught / "rows.jsonl")]}
    improved = train("grpo", on_taught(taught, "grpo", tmp_path / "grpo", **told))
    assert record(improved.path)["result"]["reward model"] == "rm"
    for each in improved.metric_rows():
        if "reward_model" in each:
            verified = each["rewards/reward/mean"] - 0.25 * each["reward_model"]
            assert 0 < each["reward_model"] < 1 and -1e-6 <= verified <= 0.75
    with pytest.raises(BadConfig, match="which is no reward model; name the run folder of a finished"):
        ModelReward(str(taught / "sft"), 0.5, lambda **_: [])


@torch.no_grad()
def test_each_mode_is_served_as_it_was_trained(preferred: RunFolder, taught: Path):
    tokens, chain = torch.arange(24).reshape(2, 12), read_chain(preferred.path)
    stages = chain.manifest.stages
    trained = LlamaForCausalLM.from_pretrained(taught / "model", dtype=torch.float32)
    if stages[-1].mode != "continue":
        trained = PeftModel.from_pretrained(trained, str(taught / "sft" / "adapter")).merge_and_unload()
    trained = PeftModel.from_pretrained(trained, str(preferred.adapter))
    served = LlamaForCausalLM.from_pretrained(taught / "model", dtype=torch.float32)
    stack = Stack(served, {each.name: read_adapter(chain.adapter_folder(each)) for each in stages})
    found = {}
    for stage in ("sft", "dpo"):
        with stack.rows([active_adapters(stages)[stage]] * 2):
            found[stage] = served(tokens).logits
    assert stages[-1].mode == preferred.path.name
    assert (found["dpo"] - trained(tokens).logits).abs().max() < 1e-4
    assert (found["dpo"] - found["sft"]).abs().max() > 0.01
    chain = load_chain(preferred.path, "float32", base=str(taught / "model"))
    answers = chain.generate([QUESTION], chain.stages, Sampling(max_new_tokens=4))[0]
    assert [answer.stage for answer in answers] == ["base", "sft", "dpo"]


@slow
@pytest.mark.parametrize(
    ("mode", "weights", "autocast"), [("stack", "float32", "none"), ("continue", "nf4", "bfloat16")]
)
def test_a_look_leaves_the_trained_weights_as_they_are_also_in_bfloat16_over_4_bit_weights(
    taught: Path, tmp_path: Path, mode: str, weights: str, autocast: str
):
    values = {"mode": mode, "weights": weights, "autocast": autocast}
    looked, blind = (
        train("dpo", on_taught(taught, "dpo", tmp_path / str(steps) / "run", **values, eval_steps=steps))
        for steps in (1, 0)
    )
    assert figures(looked, "loss")[0] == pytest.approx(math.log(2), abs=1e-6)
    assert (figures(looked, "rewards/margins")[0], figures(looked, "eval/kl")[0]) == (0.0, 0.0)
    assert figures(looked, "eval/kl")[-1] > 0.0 and figures(blind, "eval/kl") == []
    first, second = adapter(looked), adapter(blind)
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_forgetting_is_said_in_words_stops_the_run_where_that_is_asked_and_the_run_goes_on(taught, tmp_path, capsys):
    values = {"learning_rate": 0.5, "max_steps": 8, "monitor_max_kl": 0.1, "monitor_stop": True, "beta": 0.05}
    run = train("dpo", on_taught(taught, "dpo", tmp_path / "run", **values))
    alerts = [row for row in run.metric_rows() if "alert" in row]
    assert "of the watched questions 0% are answered right, 100% before" in alerts[0]["alert"]
    assert "nats per token away from the reference (allowed 0.1)" in alerts[1]["alert"]
    said = capsys.readouterr().err
    assert f"step {alerts[0]['step']}: of the watched questions" in said
    assert "warning: beta 0.05 is aggressive" in said
    kept = record(run.path)
    assert kept["status"] == "stopped" and kept["result"]["steps"] < 8
    assert "nats per token" in kept["result"]["stopped_because"]
    assert run.last_checkpoint() is not None and not run.adapter.exists()


REFUSED = [
    ("dpo", {"mode": "continue", "lora_r": 2}, BadConfig, r"rank 8, alpha 8 .* ask for rank 2, alpha 8"),
    ("dpo", {"mode": "continue", "lora_targets": ["q_proj"]}, BadConfig, "ask for rank 8, alpha 8 on q_proj \\(2\\)"),
    ("dpo", {"max_length": 32}, BadConfig, r"max_length 32 tokens: pairs.jsonl:1 \("),
    ("dpo", {"base": "OTHER"}, ChainMismatch, "weights"),
    ("grpo", {"base": "OTHER"}, ChainMismatch, "weights"),
]


@pytest.mark.parametrize(("stage", "values", "error", "said"), REFUSED)
def test_a_chain_that_does_not_fit_is_refused_with_the_reason(taught, tmp_path, stage, values, error, said):
    if "base" in values:
        values = {"base": str(tiny_base(tmp_path / "other", seed=9))}
    with pytest.raises(error, match=said):
        train(stage, on_taught(taught, stage, tmp_path / "run", **values))
    assert "adapter" not in names(tmp_path / "run") if (tmp_path / "run").exists() else True


# ---- GRPO --------------------------------------------------------------------------------------


def length_modulo(modulus: int, completions: list[list[dict[str, str]]], **_: object) -> list[float]:
    """A reward that a random model earns in different amounts."""
    return [float(len(each[0]["content"]) % modulus) for each in completions]


def built(taught: Path, output: Path, **values: object) -> SampledTrainer:
    return grpo.build_trainer(ready("grpo", on_taught(taught, "grpo", output, **values)))


def trained_weights(trainer: GRPOTrainer) -> dict[str, torch.Tensor]:
    return {
        name.replace("base_model.model.", ""): value.clone()
        for name, value in trainer.model.state_dict().items()
        if ".lora_" in name and ".default." in name
    }


def test_a_grpo_run_keeps_what_was_sampled_and_judged_leaves_the_chain_as_it_was_and_says_that_it_learns_nothing(
    taught: Path, tmp_path: Path, capsys
):
    frozen = (taught / "sft" / "adapter" / WEIGHTS_NAME).read_bytes()
    run = train("grpo", on_taught(taught, "grpo", tmp_path / "run", max_steps=10))
    check_left(run, "grpo", "completions", steps=10)
    assert (taught / "sft" / "adapter" / WEIGHTS_NAME).read_bytes() == frozen
    table = pandas.read_parquet(run.completions)
    assert len(table) == 10 * int(str(GRPO["batch"]))
    assert {"prompt", "completion", "verifier", "verdict", "stated_confidence"} <= set(table.columns)
    logged = run.metric_rows()[0]
    assert {"kl", "reward", "frac_reward_zero_std", "verdict/no_claim", "verifier/V4"} <= set(logged)
    assert logged["kl"] == 0.0
    alerts = [row for row in run.metric_rows() if "alert" in row]
    assert {row["step"] for row in alerts} == {10}
    said = [row["alert"] for row in alerts]
    assert any(text.startswith("100% of groups had equal rewards") for text in said)
    assert any(text.startswith("only 0% of answers have a line `Answer") for text in said)
    assert f"step 10: {said[0]}" in capsys.readouterr().err


KINDS = [
    ("stack", "float32", "none"),
    pytest.param("stack", "nf4", "bfloat16", marks=slow),
    pytest.param("continue", "float32", "bfloat16", marks=slow),
    pytest.param("continue", "nf4", "bfloat16", marks=slow),
    pytest.param("merge_then_new", "float32", "bfloat16", marks=slow),
]


@pytest.mark.parametrize(("mode", "weights", "autocast"), KINDS)
def test_the_kl_is_zero_at_the_first_step_because_the_reference_is_base_plus_sft(
    taught: Path, tmp_path: Path, mode: str, weights: str, autocast: str
):
    kind = {"mode": mode, "weights": weights, "autocast": autocast}
    trainer = built(taught, tmp_path / "run", **kind, max_steps=3, beta=0.5, temperature=3.0)
    trainer.reward_funcs = [partial(length_modulo, 7)]
    before = {name: value.clone() for name, value in trainer.model.state_dict().items() if ".default." not in name}
    trainer.train()
    kl = [row["kl"] for row in trainer.state.log_history if "kl" in row]
    assert kl[0] == 0.0 and max(kl) > 0.0
    after = trainer.model.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())


def test_training_on_top_equals_training_on_a_merged_base(taught: Path, tmp_path: Path):
    stacked = built(taught, tmp_path / "run", max_steps=4, temperature=3.0)
    initial = trained_weights(stacked)
    stacked.reward_funcs = [partial(length_modulo, 7)]
    set_seed(0)
    stacked.train()

    prepared = ready("grpo", on_taught(taught, "grpo", tmp_path / "plain", max_steps=4, temperature=3.0))
    model, tokenizer = load_base(prepared.base, "float32")
    merged = PeftModel.from_pretrained(model, str(taught / "sft" / "adapter")).merge_and_unload()
    merged.requires_grad_(True)
    arguments = GRPOConfig(**prepared.arguments, **grpo.options(prepared.settings))
    arguments.set_save(strategy="no")
    plain = GRPOTrainer(
        model=merged,
        args=arguments,
        train_dataset=Dataset.from_list([*map(dict, prepared.data.trl_rows().values())]),
        processing_class=tokenizer,
        reward_funcs=partial(length_modulo, 7),
        peft_config=lora_config(prepared.settings, merged),
    )
    own = plain.model.state_dict()
    for name in own:
        if ".lora_" in name and ".default." in name:
            own[name].copy_(initial[name.replace("base_model.model.", "")])
    set_seed(prepared.settings.seed)
    plain.train()

    ours, theirs = trained_weights(stacked), trained_weights(plain)
    assert ours.keys() == theirs.keys()
    assert max(float((ours[name] - initial[name]).abs().max()) for name in ours) > 5e-3
    assert max(float((ours[name] - theirs[name]).abs().max()) for name in ours) < 5e-5
    rewards = [[row["reward"] for row in each.state.log_history if "reward" in row] for each in (stacked, plain)]
    assert rewards[0] == rewards[1]


# after a kill and after a signal: tests/training/test_kills.py
@pytest.mark.parametrize("stage", ["sft", pytest.param("grpo", marks=slow)])
def test_a_resumed_run_ends_with_the_weights_and_the_loss_of_one_that_was_never_stopped(taught, tmp_path, stage: str):
    def settings(name: str, **values: object) -> Path:
        values = {"max_steps": 4, "max_length": 1024, **values}
        if stage == "grpo":
            values.pop("max_length")
        return on_taught(taught, stage, tmp_path / name / "run", **values)

    whole = train(stage, settings("whole", save_steps=2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(upstream, "write_adapter", _stop)
        with pytest.raises(KeyboardInterrupt):
            train(stage, settings("parts", save_steps=3, log_steps=2))
    parts = RunFolder(tmp_path / "parts" / "run")
    assert record(parts.path)["status"] == "stopped"
    (parts.path / "checkpoint-4" / "trainer_state.json").unlink()
    assert parts.last_checkpoint() == parts.path / "checkpoint-3"
    train(stage, settings("parts", save_steps=3, log_steps=2))
    one, other = adapter(whole), adapter(parts)
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert [len(figures(each, "loss")) for each in (whole, parts)] == [4, 2]  # that of step 3 was never logged
    kept = [record(each.path)["result"]["train_loss"] for each in (whole, parts)]
    assert kept[0] == kept[1] == pytest.approx(sum(figures(whole, "loss")) / 4, abs=1e-4)


def _stop(*_: object, **__: object) -> str:
    raise KeyboardInterrupt


# ---- a dev set that is answered while a model is trained ---------------------------------------------


SHOWN = {"sft": "accuracy", "grpo": "reward", "review": "f1"}


def dev_file(folder: Path) -> str:
    """Return a file of three questions that no run here is trained on."""
    write_examples(folder / "dev.jsonl", DATASETS["kmp-train"]()[20:23])
    return str(folder / "dev.jsonl")


def papers_file(folder: Path) -> str:
    """Return a file of two papers of the development split."""
    dev = [each for each in split_by_family(demonstration(), 0) if each.split == "dev"][:2]
    file = folder / "dev.jsonl"
    file.write_text("".join(each.model_dump_json() + "\n" for each in dev), encoding="utf-8")
    return str(file)


def looked(taught: Path, folder: Path, stage: str, **values: object) -> Path:
    """Return the settings file of a run of two steps that is evaluated after each."""
    if stage == "review":
        return test_reviewer.review_settings(folder, eval_data=[papers_file(folder)], eval_tokens=8, **values)
    known: dict[str, object] = {"eval_data": [dev_file(folder)], "eval_tokens": 8, **values}
    if stage == "sft":
        return settings_file(folder, {**SFT, **known})
    return on_taught(taught, stage, folder / "run", **known)


@slow
@pytest.mark.parametrize("stage", ["sft", "grpo", "review"])
def test_a_stage_is_evaluated_before_its_first_step_and_after_others_and_learns_the_same(taught, tmp_path, stage):
    file = looked(taught, tmp_path, stage, eval_steps=1)
    run = train(stage, file)
    rows = [row for row in run.metric_rows() if f"eval/{SHOWN[stage]}" in row]
    assert [row["step"] for row in rows] == [0, 1, 2]
    assert all(0 < row["eval/length"] <= 8 for row in rows)
    kept = record(run.path)
    assert kept["data"]["dev rows"] == len(Path(tmp_path / "dev.jsonl").read_text(encoding="utf-8").splitlines())
    assert "dev.jsonl" in kept["config"]["eval_data"][0] and "kept_weights" not in kept["result"]
    if stage == "sft":  # DPO has the same test over 4-bit weights
        words = ("--eval_data=", "--eval_steps", "0", "--output", str(tmp_path / "blind"))
        blind = train(stage, file, *words)
        assert figures(blind, "eval/accuracy") == []
        first, second = adapter(run), adapter(blind)
        assert all(torch.equal(first[name], second[name]) for name in first)


def test_a_run_ends_early_with_the_weights_of_its_best_evaluation(taught: Path, tmp_path: Path):
    values: Mapping[str, object] = {"eval_data": [str(taught / "rows.jsonl")], "eval_steps": 1, "eval_tokens": 40}
    told = {**values, "best_metric": "accuracy", "patience": 2}
    run = train("dpo", on_taught(taught, "dpo", tmp_path / "run", **told, learning_rate=0.5, max_steps=9, beta=0.05))
    accuracies, kept = figures(run, "eval/accuracy"), record(run.path)
    assert accuracies[0] == 1.0 > accuracies[-1] and len(accuracies) < 9
    best = max(range(len(accuracies)), key=lambda at: (accuracies[at], at > 0, -at))
    assert kept["result"]["steps"] == best + 2 and kept["status"] == "finished"
    assert kept["result"]["ended_early"].startswith("eval/accuracy has not become better in 2 evaluations (best 1 at")
    assert kept["result"]["kept_weights"].startswith(f"of step {best}, which has the best eval/accuracy, 1")
    moved = max(float(weight.abs().max()) for name, weight in adapter(run).items() if "lora_B" in name)
    assert (moved == 0.0) == (best == 0)


def test_a_dev_set_of_test_rows_or_trained_rows_and_a_metric_that_is_none_are_refused(tmp_path: Path):
    write_examples(tmp_path / "rows.jsonl", DATASETS["kmp-train"]()[:8])
    (tmp_path / "pairs.jsonl").write_text('{"prompt": "Up?", "chosen": "Yes.", "rejected": "No."}\n', encoding="utf-8")

    def read_rows(stage: str, values: Mapping[str, object]) -> None:
        data = "pairs.jsonl" if stage == "dpo" else "rows.jsonl"
        known = {"data": [str(tmp_path / data)], "eval_data": [dev_file(tmp_path)], "eval_steps": 5, "chain": "c"}
        known |= {key: [str(tmp_path / "rows.jsonl")] if value == ["ROWS"] else value for key, value in values.items()}
        words = ["--config", str(settings_file(tmp_path, {"base": "embedded", "batch": 8, **known}))]
        read_request(STAGES[stage], words).settings.read_rows(None)

    assert not_refused(cases("sources")["dev sets"], read_rows) == []
