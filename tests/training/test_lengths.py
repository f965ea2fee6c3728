"""What a dry run shows of each stage's rows: the tokens that TRL learns from, lengths, and what becomes of long ones."""

import json
import shutil
from pathlib import Path

import pytest
from datasets import Dataset
from trl import DPOConfig, DPOTrainer

from evals.errors import BadConfig
from evals.questions import DATASETS, write_examples
from tests.models import tiny_base, tiny_chain, tiny_tokenizer
from tests.training.runs import COMMON, settings_file
from training.data.questions import grpo_row, sft_data
from training.data.tokens import length_of, sequences_of, within
from training.launch.plan import Plan, plan_of
from training.launch.preview import preview
from training.models.base import find_base, load_model
from training.sft import SftSettings

EXAMPLES = DATASETS["kmp-train"]()[:8]
PLAIN = {"prompt": "Up or down?", "chosen": " It goes up.", "rejected": " It goes down."}
ROLES = {"prompt": "user", "chosen": "assistant", "rejected": "assistant"}
TOLD = {"max_length": 2048, "report_to": "none", "use_cpu": True, "bf16": False}


@pytest.mark.parametrize("is_plain", [True, False])
def test_both_answers_of_a_preference_are_read_as_trl_reads_them(tmp_path, is_plain: bool):
    turns = {key: [{"role": ROLES[key], "content": text}] for key, text in PLAIN.items()}
    row = PLAIN if is_plain else turns
    trainer = DPOTrainer(
        model=load_model(find_base(str(tiny_base(tmp_path))), "float32"),
        args=DPOConfig(output_dir=str(tmp_path / "run"), **TOLD),
        train_dataset=Dataset.from_list([row]),
        processing_class=tiny_tokenizer(),
    )
    theirs = trainer.train_dataset[0]
    for column, ours in sequences_of(row, tiny_tokenizer()).items():
        assert list(ours.ids[: ours.given]) == theirs["prompt_ids"]
        assert list(ours.ids[ours.given :]) == theirs[f"{column}_ids"]


def test_of_a_question_alone_nothing_is_learned():
    row = grpo_row(EXAMPLES[0])
    found = sequences_of(row, tiny_tokenizer())
    assert list(found) == ["prompt"]
    assert found["prompt"].given == len(found["prompt"].ids) == length_of(row, tiny_tokenizer())


def test_rows_that_are_too_long_are_refused_by_name_even_where_they_may_be_dropped_if_none_is_left():
    data = sft_data(["kmp-train"], 0)
    sizes = {example.id: 100 + place for place, example in enumerate(EXAMPLES)}
    with pytest.raises(BadConfig) as raised:
        within(data, sizes, SftSettings(data=("kmp-train",), output="x", max_length=101))
    message = str(raised.value)
    assert message.startswith("6 of 8 rows have more than max_length 101 tokens")
    for part in (f"{EXAMPLES[2].id} (102)", "and 1 more", "Set max_length to 107"):
        assert part in message
    with pytest.raises(BadConfig, match="8 of 8 rows"):
        within(data, sizes, SftSettings(data=("kmp-train",), output="x", max_length=50, too_long="drop"))


# ---- a dry run ---------------------------------------------------------------------------------

STAGES = {"sft": "max_length", "dpo": "max_length", "grpo": "max_prompt_length"}
COLUMNS = {"sft": {("completion", True)}, "dpo": {("chosen", True), ("rejected", True)}, "grpo": {("prompt", False)}}


def pair(question: str, rejected: str = "It goes down.") -> str:
    texts = {"prompt": question, "chosen": "It goes up.", "rejected": rejected}
    return json.dumps({key: [{"role": ROLES[key], "content": text}] for key, text in texts.items()}) + "\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny base, a chain on it, questions and pairs."""
    folder = tmp_path_factory.mktemp("preview")
    tiny_chain(folder)
    scored = [row for row in DATASETS["kmp-train"]() if row.ground_truth.kind == "label"]
    write_examples(folder / "rows.jsonl", scored[:8])
    lines = "".join(pair(f"What of tissue {number}?" * (1 + number)) for number in range(8))
    (folder / "pairs.jsonl").write_text(lines, encoding="utf-8")
    return folder


def planned(folder: Path, stage: str, *words: str, **values: object) -> Plan:
    document: dict[str, object] = {**COMMON, "batch": 4, "output": str(folder / "new")}
    document |= {} if stage == "sft" else {"chain": str(folder / "sft")}
    document |= {"dpo": {"data": [str(folder / "pairs.jsonl")]}, "grpo": {"num_generations": 4}}.get(stage, {})
    return plan_of(stage, ["--config", str(settings_file(folder, document | values)), *words], is_dry=True)


@pytest.mark.parametrize("stage", STAGES)
def test_long_rows_are_named_and_refused_or_dropped_and_counted_in_every_stage(folder: Path, stage: str):
    limit = STAGES[stage]
    seen = preview(planned(folder, stage, **{limit: 1900}))
    assert (seen.rows, seen.kept, seen.left_out, seen.is_refused) == (8, 8, {}, False)
    assert {(row.column, any(row.learned)) for row in seen.examples} == COLUMNS[stage]
    shortest, _, longest = seen.lengths
    assert shortest < longest
    refused = preview(planned(folder, stage, **{limit: longest - 1}))
    assert refused.is_refused
    assert f"rows have more than {limit} {longest - 1} tokens: " in refused.problems[0]
    assert f"({longest})" in refused.problems[0]
    dropped = preview(planned(folder, stage, **{limit: longest - 1, "too_long": "drop"}))
    assert not dropped.is_refused and dropped.kept < 8
    assert dropped.left_out == {f"left out, more than {limit} {longest - 1} tokens": 8 - dropped.kept}


def test_pairs_that_are_left_out_are_counted_with_the_reason(folder: Path, tmp_path: Path):
    lines = (folder / "pairs.jsonl").read_text(encoding="utf-8")
    twice = tmp_path / "pairs.jsonl"
    twice.write_text(lines + lines.splitlines()[0] + "\n" + pair("Up?", "It goes up."), encoding="utf-8")
    seen = preview(planned(folder, "dpo", data=[str(twice)], max_length=1900))
    assert seen.left_out == {"left out, the same pair again": 1, "left out, both answers are the same": 1}


def test_a_dev_set_with_nothing_left_to_ask_is_refused_in_the_plan_and_dpo_may_go_without(folder: Path):
    rows = DATASETS["kmp-train"]()[:1]
    write_examples(folder / "watched.jsonl", rows)
    (folder / "asked.jsonl").write_text(pair(rows[0].prompt), encoding="utf-8")
    values = {"data": [str(folder / "asked.jsonl")], "eval_data": [str(folder / "watched.jsonl")]}
    (problem,) = planned(folder, "dpo", **values).problems
    assert "nothing is left to ask" in problem
    assert planned(folder, "dpo", "--eval_steps", "0", **values).problems == ()


def test_a_dry_run_names_weights_and_an_end_token_that_are_missing(folder: Path, tmp_path: Path):
    base = tmp_path / "model"
    shutil.copytree(folder / "model", base)
    named = {"weight_map": {"a": "model.safetensors", "b": "model-00002-of-00002.safetensors"}}
    (base / "model.safetensors.index.json").write_text(json.dumps(named), encoding="utf-8")
    assert "names 1 more, such as model-00002-of-00002" in preview(planned(folder, "sft", base=str(base))).problems[0]
    for file in base.glob("model*.safetensors*"):
        file.unlink()
    seen = preview(planned(folder, "sft", base=str(base)))
    assert seen.is_refused and "holds no model*.safetensors file" in seen.problems[0]
    told = json.loads((base / "tokenizer_config.json").read_text(encoding="utf-8"))
    del told["eos_token"]
    (base / "tokenizer_config.json").write_text(json.dumps(told), encoding="utf-8")
    assert "has no end token" in preview(planned(folder, "sft", base=str(base))).problems[-1]
