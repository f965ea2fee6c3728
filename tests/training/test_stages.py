"""Each stage trained once on the tiny model, and what only that stage promises."""

import math
import os
import subprocess
import weakref
from functools import partial
from pathlib import Path
from typing import Any

import pandas
import pytest
import torch
from bitsandbytes.nn import Linear4bit
from peft import PeftModel
from transformers import LlamaForCausalLM, set_seed
from trl import GRPOConfig, GRPOTrainer

from evals.errors import BadConfig, ChainMismatch
from evals.questions import SYSTEM_PROMPT
from evals.schema import Message
from evals.schema.questions import Sampling
from tests.models import load_base, tiny_base
from tests.training.runs import (
    ACCELERATE,
    GRPO,
    ROOT,
    SFT,
    adapter,
    environment,
    figures,
    on_taught,
    ready,
    record,
    settings_file,
    train,
)
from training import grpo, sft, upstream
from training.models.adapters import WEIGHTS_NAME, read_adapter
from training.models.base import find_base, load_model
from training.models.chain import check_chain, load_chain
from training.models.manifest import active_adapters, read_chain
from training.models.stack import Stack
from training.models.targets import lora_config
from training.run import session
from training.run.folder import RunFolder
from training.run.session import run_command
from training.sft import SftSettings, check_packing
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


@pytest.fixture(scope="module")
def launched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One whole run by the command that people type."""
    folder = tmp_path_factory.mktemp("sft")
    command = [str(ACCELERATE), "launch", "-m", "training.sft", "--config", str(settings_file(folder, SFT))]
    done = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "training on 8 rows" in done.stderr
    return folder / "run"


@slow
def test_the_command_leaves_an_adapter_its_chain_its_records_and_nothing_else(launched: Path):
    assert names(launched) == LEFT
    assert names(launched / "adapter") == ["adapter_config.json", WEIGHTS_NAME]
    assert [row["step"] for row in RunFolder(launched).metric_rows() if "loss" in row] == [1, 2]
    base = str(launched.parent / "model")
    assert all(finding.is_ok for finding in check_chain(launched, base=base))
    chain = load_chain(launched, "float32", base=base)
    assert (chain.stages, chain.manifest.system_prompt) == (("base", "sft"), SYSTEM_PROMPT)
    assert len(chain.generate([QUESTION], ("base", "sft"), Sampling(max_new_tokens=4))[0]) == 2


@slow
def test_run_json_tells_what_was_done_and_nothing_about_the_machine_or_its_user(launched: Path):
    text, kept = (launched / "run.json").read_text(encoding="utf-8"), record(launched)
    assert (kept["status"], kept["stage"], kept["result"]["steps"]) == ("finished", "sft", 2)
    assert (kept["data"]["rows"], kept["config"]["base"], kept["host"]["processes"]) == (8, "model", 1)
    assert kept["command"] == "accelerate launch -m training.sft --config settings.yaml"
    for private in (str(launched), str(ROOT), str(Path.home()), os.uname().nodename):
        assert private not in text
    assert str(launched.parent) not in (launched / "adapter" / "adapter_config.json").read_text()


@pytest.mark.parametrize(  # on DPO, the first two are quick and the last is slow
    "mode", [pytest.param("stack", marks=slow), pytest.param("continue", marks=slow), "merge_then_new"]
)
def test_a_second_sft_stage_builds_on_the_first_as_its_mode_says(taught: Path, tmp_path: Path, mode: str):
    file = on_taught(taught, "sft", tmp_path / "run", mode=mode, max_length=1024, max_steps=1, seed=5)
    run, base = train("sft", file), str(taught / "model")
    stages = read_chain(run.path).manifest.stages
    assert [(stage.name, stage.mode) for stage in stages] == [("sft", "stack"), ("sft-2", mode)]
    assert all(finding.is_ok for finding in check_chain(run.path, base=base))
    first, second = adapter(RunFolder(taught / "sft")), adapter(run)
    apart = max(float((first[name] - second[name]).float().abs().max()) for name in first)
    assert (apart < 0.02) == (mode == "continue")  # one step of at most 3e-3 from where it was


@slow
def test_the_model_is_let_go_of_before_the_new_stage_is_measured(tmp_path, monkeypatch):
    built: list[weakref.ref[torch.nn.Module]] = []
    left: list[bool] = []
    build, append = sft.build_trainer, session.append_stage

    def built_trainer(*parts):
        made = build(*parts)
        built.append(weakref.ref(made.model))
        return made

    monkeypatch.setattr(sft, "build_trainer", built_trainer)
    monkeypatch.setattr(session, "append_stage", lambda *a, **k: (left.append(built[0]() is not None), append(*a, **k)))
    train("sft", settings_file(tmp_path, SFT))
    assert left == [False]


def test_a_row_that_is_too_long_fails_the_run_before_anything_is_trained(tmp_path: Path):
    with pytest.raises(BadConfig, match="rows have more than max_length 32 tokens"):
        train("sft", settings_file(tmp_path, {**SFT, "max_length": 32}))
    assert not (tmp_path / "run").exists()


@slow  # without training: tests/training/test_runs.py
def test_a_finished_run_is_left_alone_until_overwrite_is_asked_for(tmp_path: Path):
    run = train("sft", settings_file(tmp_path, {**SFT, "max_steps": 1}))
    before = (run.path / "run.json").read_bytes()
    with pytest.raises(BadConfig, match="has finished"):
        train("sft", tmp_path / "settings.yaml")
    assert (run.path / "run.json").read_bytes() == before
    train("sft", settings_file(tmp_path, SFT), "--overwrite")
    assert record(run.path)["result"]["steps"] == 2


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], 1, "error: no settings file was named"),
        (["--config", "nowhere.yaml"], 1, "error: there is no settings file nowhere.yaml"),
    ],
)
def test_a_command_that_cannot_run_says_why_in_one_line(words, code, said, capsys):
    with pytest.raises(SystemExit) as raised:
        run_command("sft", SftSettings, sft.train, words)
    assert raised.value.code == code
    assert capsys.readouterr().err.startswith(said)


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


def test_tensorboard_where_it_is_installed_gets_the_figures_beside_the_run_folder(tmp_path: Path):
    pytest.importorskip("tensorboard")
    run = train("sft", settings_file(tmp_path, {**SFT, "report_to": "tensorboard"}))
    assert names(run.path) == LEFT
    assert len(list(tmp_path.glob("run.tensorboard/events.*"))) == 1


# ---- DPO ---------------------------------------------------------------------------------------

MODES = ["stack", "continue", pytest.param("merge_then_new", marks=slow)]


@pytest.fixture(scope="module", params=MODES)
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
@pytest.mark.parametrize(("mode", "weights"), [("stack", "nf4"), ("continue", "nf4"), ("stack", "float32")])
def test_in_bfloat16_and_over_4_bit_weights_the_policy_is_its_own_reference_too(taught, tmp_path, mode, weights):
    values = {"mode": mode, "weights": weights, "autocast": "bfloat16"}
    run = train("dpo", on_taught(taught, "dpo", tmp_path / "run", **values))
    assert figures(run, "loss")[0] == pytest.approx(math.log(2), abs=1e-6)
    assert (figures(run, "rewards/margins")[0], figures(run, "eval/kl")[0]) == (0.0, 0.0)
    assert figures(run, "eval/kl")[-1] > 0.0


@slow
@pytest.mark.parametrize(("weights", "autocast"), [("float32", "none"), ("nf4", "bfloat16")])
def test_a_look_with_kl_leaves_the_trained_weights_as_they_are(
    taught: Path, tmp_path: Path, weights: str, autocast: str
):
    values = {"weights": weights, "autocast": autocast, "max_steps": 2}
    runs = [
        train("dpo", on_taught(taught, "dpo", tmp_path / str(steps) / "run", **values, eval_steps=steps))
        for steps in (1, 0)
    ]
    assert figures(runs[1], "eval/kl") == []
    first, second = map(adapter, runs)
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


def test_vllm_beside_training_is_told_the_folder_of_the_base_and_the_adapter_its_name_alone(
    taught, tmp_path, monkeypatch
):
    given: dict[str, Any] = {}
    monkeypatch.setattr(SampledTrainer, "before", lambda _: lambda **parts: given.update(parts))
    built(taught, tmp_path / "run", vllm="colocate")
    assert given["model"].name_or_path == str(taught / "model")
    assert given["model"].peft_config["default"].base_model_name_or_path == "model"


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
        train_dataset=prepared.dataset(),
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
