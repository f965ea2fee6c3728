"""A dev set answered while a model is trained: by every stage, with its best weights at the end and an early end."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch

from evals.errors import BadConfig
from evals.papers import demonstration
from evals.papers.collection import split_by_family
from evals.questions import DATASETS, write_examples
from evals.refine.bank import refiner_bank
from tests.training import test_review
from tests.training.refiners import RECORDS
from tests.training.runs import SFT, adapter, figures, on_taught, record, settings_file, train
from training.config import read_request
from training.launch.accelerate import Launch
from training.launch.plan import plan_of
from training.stages import STAGES

slow = pytest.mark.slow
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
        return test_review.settings_file(folder, eval_data=[papers_file(folder)], eval_tokens=8, **values)
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


@slow
def test_a_metric_that_has_no_value_in_any_evaluation_chooses_no_weights_and_ends_nothing(tmp_path: Path, capsys):
    run = train(
        "review", looked(tmp_path, tmp_path, "review", eval_steps=1, best_metric="f1_above_permuted", patience=1)
    )
    result = record(run.path)["result"]
    assert figures(run, "eval/f1_above_permuted") == [] and figures(run, "eval/f1") == [0.0, 0.0, 0.0]
    assert result["kept_weights"] == "of the last step, 2: eval/f1_above_permuted had no value in any evaluation"
    assert result["steps"] == 2 and "ended_early" not in result
    assert "step 1: eval/f1_above_permuted has no value for these answers" in capsys.readouterr().err


REFUSED = [
    ("sft", {"eval_data": ["kmp-test"]}, "20 rows that are kept for testing"),
    ("grpo", {"eval_data": ["pathways-heldout"]}, "kept for testing"),
    ("dpo", {"eval_data": ["refiner-test"]}, "kept for testing"),
    ("sft", {"eval_data": ["ROWS"]}, "nothing is left to ask of eval_data"),
    ("sft", {"best_metric": "bleu"}, "choose one of accuracy, reward, V1"),
    ("sft", {"best_metric": "no_claim_share", "eval_data": ["refiner-train"]}, "choose one of reward, rubric"),
    ("sft", {"eval_data": []}, "an evaluation needs both"),
    ("sft", {"eval_steps": 0}, "an evaluation needs both"),
    ("sft", {"patience": 2}, "patience needs a best_metric"),
]


def test_a_dev_set_of_test_rows_or_trained_rows_and_a_metric_that_is_none_are_refused(tmp_path: Path):
    write_examples(tmp_path / "rows.jsonl", DATASETS["kmp-train"]()[:8])
    (tmp_path / "pairs.jsonl").write_text('{"prompt": "Up?", "chosen": "Yes.", "rejected": "No."}\n', encoding="utf-8")
    wrong = []
    for stage, values, said in REFUSED:
        data = "pairs.jsonl" if stage == "dpo" else "rows.jsonl"
        known = {"data": [str(tmp_path / data)], "eval_data": [dev_file(tmp_path)], "eval_steps": 5, "chain": "c"}
        known |= {key: [str(tmp_path / "rows.jsonl")] if value == ["ROWS"] else value for key, value in values.items()}
        try:
            words = ["--config", str(settings_file(tmp_path, {"base": "embedded", "batch": 8, **known}))]
            read_request(STAGES[stage], words).settings.read_rows(None)
            wrong.append((stage, values, said, "nothing"))
        except BadConfig as error:
            wrong += [] if said in str(error) else [(stage, values, said, str(error))]
    assert wrong == []


def test_records_with_evidence_are_a_dev_set_too_and_a_plan_counts_it(tmp_path: Path):
    rows = [each.model_dump_json() for each in refiner_bank().train[:4]]
    (tmp_path / "rows.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    (tmp_path / "dev.jsonl").write_text("\n".join(json.dumps(each) for each in RECORDS) + "\n", encoding="utf-8")
    file = settings_file(tmp_path, {**SFT, "base": "embedded", "eval_data": [str(tmp_path / "dev.jsonl")]})
    told = ["--config", str(file), "--eval_steps", "5", "--eval_examples", "3", "--best_metric", "citation_f1"]
    plan = plan_of("sft", told, is_dry=True)
    assert (plan.problems, plan.data.record()["dev rows"], plan.data.dev.task.name) == ((), 3, "refine")
    with pytest.raises(BadConfig, match="set eval_steps to 0"):
        Launch("zero3").check(plan.settings)
