"""The reward as TRL's own command loads it and TRL's own trainer calls it."""

import inspect
import json
from pathlib import Path

import pytest
import torch
from trl import DatasetMixtureConfig, GRPOConfig, GRPOTrainer, ModelConfig
from trl.scripts import grpo as trl_grpo
from trl.scripts.grpo import GRPOScriptArguments
from trl.scripts.utils import DatasetConfig
from trl.trainer.grpo_trainer import is_async_callable

from evals.questions import DATASETS
from evals.schema import Example
from evals.verifiers import verify
from tests.models import tiny_base
from training.data.questions import grpo_row, prompt_of
from training.rewards import verifier_reward

FREE = next(each for each in DATASETS["kmp-train"]() if each.ground_truth.kind == "facts")
KNOWN = [*DATASETS["kmp-train"]()[:2], *DATASETS["pathways-train"]()[:2]]


def column(*examples: Example) -> list[str]:
    return [str(grpo_row(example)["example"]) for example in examples]


def said(*texts: str) -> list[list[dict[str, str]]]:
    return [[{"role": "assistant", "content": text}] for text in texts]


def test_trl_can_call_it_with_keywords_alone():
    parameters = inspect.signature(verifier_reward).parameters.values()
    assert not [each for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]
    assert not is_async_callable(verifier_reward)


def loaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> GRPOTrainer:
    """Return the trainer that `trl grpo` builds from its own options, stopped before it trains."""
    built: list[GRPOTrainer] = []

    def stop(trainer: GRPOTrainer, resume_from_checkpoint: object = None) -> None:
        built.append(trainer)
        raise KeyboardInterrupt

    rows = tmp_path / "rows.jsonl"
    lines = [{"prompt": prompt_of(each), "ground_truth": each.ground_truth.model_dump(mode="json")} for each in KNOWN]
    rows.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    script = GRPOScriptArguments(reward_funcs=["training.rewards.verifier_reward"])
    arguments = GRPOConfig(
        output_dir=str(tmp_path / "run"),
        per_device_train_batch_size=2,
        num_generations=2,
        max_completion_length=4,
        max_steps=1,
        bf16=False,
        use_cpu=True,
        report_to="none",
        save_strategy="no",
    )
    data = DatasetMixtureConfig(datasets=[DatasetConfig(path="json", data_files=str(rows), split="train")])
    model = ModelConfig(model_name_or_path=str(tiny_base(tmp_path / "model")))
    monkeypatch.setattr(GRPOTrainer, "train", stop)
    with pytest.raises(KeyboardInterrupt):
        trl_grpo.main(script, arguments, model, data)
    return built[0]


def test_trls_loader_and_its_own_code_for_rewards_take_rows_with_ground_truth(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    trainer = loaded(monkeypatch, tmp_path)
    assert trainer.reward_func_names == ["verifier"]
    rows = [trainer.train_dataset[index] for index in range(len(trainer.train_dataset))]
    answers = [[{"role": "assistant", "content": each.answer}] for each in KNOWN]
    rewards = trainer._calculate_rewards(rows, [row["prompt"] for row in rows], answers, [[0]] * len(rows))
    expected = [verify(each, each.answer).reward for each in KNOWN]
    assert rewards[:, 0].tolist() == pytest.approx(expected)
    assert trainer._pending_extra_logs["verdict"] == ["correct"] * 4
    assert trainer._pending_metrics["verdict/correct"] == [1.0]


def test_a_row_that_nothing_scores_reaches_trl_as_no_reward(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    trainer = loaded(monkeypatch, tmp_path)
    row = {"prompt": prompt_of(FREE), "example": column(FREE)[0]}
    rewards = trainer._calculate_rewards([row], [row["prompt"]], said(FREE.answer), [[0]])
    assert torch.isnan(rewards).all()
