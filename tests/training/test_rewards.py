"""The verifiers as TRL's trainer calls them, and as TRL's own command loads them."""

import inspect
import json
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from datasets import Dataset
from trl import DatasetMixtureConfig, GRPOTrainer
from trl.scripts import grpo as trl_grpo
from trl.scripts.utils import DatasetConfig
from trl.trainer.grpo_trainer import is_async_callable

from evals.errors import BadConfig
from evals.questions import DATASETS
from evals.schema import Example
from evals.verifiers import verify
from tests.models import tiny_base
from tests.training.cases import cases
from training.data.questions import grpo_row, prompt_of
from training.rewards import VerifierReward, text_of, verifier_reward

EXAMPLES = DATASETS["kmp-train"]()
DIRECT = next(each for each in DATASETS["pathways-train"]() if each.kind == "direct")
FREE = next(each for each in EXAMPLES if each.ground_truth.kind == "facts")
KINDS = {example.ground_truth.kind: example for name in ("pathways-train", "kmp-train") for example in DATASETS[name]()}
KNOWN = list(KINDS.values())
PATHWAYS = [each for each in KNOWN if each.source == "genelab"]
RIGHT = verify(DIRECT, DIRECT.answer).reward


def column(*examples: Example) -> list[str]:
    return [str(grpo_row(example)["example"]) for example in examples]


def said(*texts: str) -> list[list[dict[str, str]]]:
    return [[{"role": "assistant", "content": text}] for text in texts]


def rewards(rows: list[tuple[Example, str]], reward: Any = verifier_reward, **more: Any) -> list[float | None]:
    return reward(completions=said(*(text for _, text in rows)), example=column(*(row for row, _ in rows)), **more)


def test_only_the_answer_line_earns_whatever_the_text_before_it_says():
    text, _, lines = DIRECT.answer.partition("\nAnswer: ")
    without_line = f"{text}\n{lines.splitlines()[1]}"
    assert rewards([(DIRECT, without_line), (DIRECT, f"Answer: {lines}")]) == [0.0, RIGHT]


def test_hedging_listing_wrong_units_and_false_figures_earn_less_than_the_honest_answer():
    table = yaml.safe_load((Path(__file__).parent / "cases" / "exploits.yaml").read_text(encoding="utf-8"))
    pays = []
    for group in table:
        lines = (group["honest"], *group["exploits"])
        told = {"ground_truth": [json.dumps(group["truth"])] * len(lines), "prompts": [group["question"]] * len(lines)}
        honest, *earned = verifier_reward(completions=list(lines), **told)
        pays += [line for line, reward in zip(group["exploits"], earned, strict=True) if reward >= honest]
        assert honest > 0.95, group["honest"]
    assert pays == []
    assert sum(len(group["exploits"]) for group in table) >= 25


def test_weights_that_pay_for_a_known_falsehood_are_warned_of(caplog: pytest.LogCaptureFixture):
    for weights in (None, "mve", "full", "phase4"):
        VerifierReward(weights)
    assert not caplog.records
    VerifierReward("V1=.1,V4=.9")
    assert "a known falsehood at 0 % earns 0.90 and an honest guess among three 0.73" in caplog.text


def test_the_reward_is_what_the_verifiers_say_of_each_question_and_none_for_what_nobody_scores():
    other = next(each for each in DATASETS["pathways-train"]() if each.answer != DIRECT.answer)
    rows = [(DIRECT, DIRECT.answer), (other, DIRECT.answer), (DIRECT, DIRECT.answer), (other, other.answer)]
    assert rewards(rows) == [verify(*row).reward for row in rows]
    assert rewards([(FREE, FREE.answer), (DIRECT, DIRECT.answer)]) == [None, RIGHT]
    weights = {"V1": 1.0}
    assert rewards(rows, VerifierReward(weights)) == [verify(*row, weights).reward for row in rows]
    plain = verifier_reward(completions=[DIRECT.answer], example=column(DIRECT))
    assert plain == [RIGHT]


def test_the_parts_and_the_verdicts_go_to_the_trainers_log():
    metrics: dict[str, float] = {}
    extra: dict[str, list[object]] = {}
    rows = [(DIRECT, DIRECT.answer), (DIRECT, "no idea"), (FREE, "anything")]
    rewards(rows, log_metric=metrics.__setitem__, log_extra=extra.__setitem__, trainer_state=None)
    half = ("verdict/correct", "verdict/no_claim", "verifier/V1", "verifier/V3", "line/answer", "confidence/stated")
    assert {name: metrics[name] for name in half} == dict.fromkeys(half, 0.5)
    assert (metrics["confidence/invalid"], metrics["confidence/mean"]) == (0.0, DIRECT.confidence)
    assert extra["verdict"] == ["correct", "no_claim", "no_claim"]
    assert extra["stated_confidence"] == [DIRECT.confidence, None, None]
    assert extra["V1"] == [1.0, 0.0, None]
    metrics.clear()  # what applies to no row of a batch is left out
    counted = next(each for each in EXAMPLES if each.kind == "count")
    rewards([(counted, "Confidence: 140%")], log_metric=metrics.__setitem__)
    assert not {"verifier/V2", "confidence/mean"} & set(metrics)
    assert metrics["confidence/invalid"] == 1.0


@pytest.mark.parametrize(("known", "as_json"), [(KNOWN, True), (PATHWAYS, True), (PATHWAYS, False)])
def test_rows_with_ground_truth_earn_what_the_same_rows_with_an_example_earn(known: list[Example], as_json: bool):
    truths = [each.ground_truth.model_dump(mode="json") for each in known]
    table = Dataset.from_list(  # in which every row has the fields of all
        [
            {"prompt": prompt_of(each), "ground_truth": json.dumps(truth) if as_json else truth}
            for each, truth in zip(known, truths, strict=True)
        ]
    )
    answers = said(*(each.answer for each in known))
    found = verifier_reward(prompts=table["prompt"], completions=answers, ground_truth=table["ground_truth"])
    assert found == rewards([(each, each.answer) for each in known])
    assert len({each.ground_truth.kind for each in known}) >= 5


def test_a_prompt_of_plain_text_is_the_question_and_an_example_counts_before_a_truth():
    truth = DIRECT.ground_truth.model_dump(mode="json")
    told: dict[str, Any] = {"prompts": [DIRECT.prompt], "ground_truth": [truth]}
    assert verifier_reward(completions=[f"{DIRECT.prompt}\nConfidence: 62%"], **told) == [0.0]
    assert verifier_reward(completions=[DIRECT.answer], **told) == [RIGHT]
    assert rewards([(DIRECT, DIRECT.answer)], prompts=["?"], ground_truth=[{"kind": "abstain"}]) == [RIGHT]


def test_a_broken_row_or_column_raises_with_its_field_and_never_counts_as_a_wrong_answer():
    for columns, words in cases("rewards")["broken"]:
        told = {} if "no column" in words else {"prompts": ["?"]}
        with pytest.raises(BadConfig, match=words):
            verifier_reward(completions=said("x"), **told, **columns)
    with pytest.raises(ValueError, match="zip"):
        verifier_reward(completions=said("x", "y"), example=column(DIRECT))


def test_the_last_words_of_a_completion_are_the_answer():
    turns = [{"role": "assistant", "content": "Up."}, {"role": "assistant", "content": "Down."}]
    parts = [{"role": "assistant", "content": [{"type": "text", "text": "Down."}]}]
    assert [text_of(each) for each in ("Down.", turns, parts)] == ["Down."] * 3
    call: Any = [{"role": "assistant", "content": None, "tool_calls": []}]
    assert [text_of(each) for each in (call, [])] == ["", ""]


# ---- TRL's own command and trainer ----------------------------------------------------------------------


def loaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, asked: list[Example]) -> GRPOTrainer:
    """Return the trainer that `trl grpo` builds from its own options, stopped before it trains."""
    built: list[GRPOTrainer] = []

    def stop(trainer: GRPOTrainer, resume_from_checkpoint: object = None) -> None:
        built.append(trainer)
        raise KeyboardInterrupt

    rows = tmp_path / "rows.jsonl"
    lines = [{"prompt": prompt_of(each), "ground_truth": each.ground_truth.model_dump(mode="json")} for each in asked]
    rows.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    words = "--reward_funcs training.rewards.verifier_reward --per_device_train_batch_size 2 --num_generations 2"
    words += " --max_completion_length 4 --max_steps 1 --bf16 False --use_cpu True --report_to none --save_strategy no"
    words += f" --model_name_or_path {tiny_base(tmp_path / 'model')} --output_dir {tmp_path / 'run'}"
    parsed = trl_grpo.make_parser().parse_args_and_config(words.split())
    data = DatasetMixtureConfig(datasets=[DatasetConfig(path="json", data_files=str(rows), split="train")])
    monkeypatch.setattr(GRPOTrainer, "train", stop)
    with pytest.raises(KeyboardInterrupt):
        trl_grpo.main(*parsed[:3], data)
    return built[0]


def test_trls_loader_and_its_own_code_for_rewards_take_rows_with_ground_truth(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    asked = [*EXAMPLES[:2], *DATASETS["pathways-train"]()[:2]]
    parameters = inspect.signature(verifier_reward).parameters.values()
    assert not [each for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]
    assert not is_async_callable(verifier_reward)
    trainer = loaded(monkeypatch, tmp_path, asked)
    assert trainer.reward_func_names == ["verifier"]
    rows = [trainer.train_dataset[index] for index in range(len(trainer.train_dataset))]
    answers = said(*(each.answer for each in asked))
    found = trainer._calculate_rewards(rows, [row["prompt"] for row in rows], answers, [[0]] * len(rows))
    assert found[:, 0].tolist() == pytest.approx([verify(each, each.answer).reward for each in asked])
    assert trainer._pending_extra_logs["verdict"] == ["correct"] * 4
    assert trainer._pending_metrics["verdict/correct"] == [1.0]
    row = {"prompt": prompt_of(FREE), "example": column(FREE)[0]}  # a row that nothing scores is no reward
    assert torch.isnan(trainer._calculate_rewards([row], [row["prompt"]], said(FREE.answer), [[0]])).all()
