"""What a dry run shows of each stage's rows: how long they are, what becomes of long ones, and why."""

import json
from pathlib import Path

import pytest

from evals.errors import BadConfig
from evals.questions import DATASETS, write_examples
from tests.models import tiny_chain
from tests.training.runs import COMMON, settings_file
from training.launch.plan import Plan, plan_of
from training.launch.preview import preview

STAGES = {"sft": "max_length", "dpo": "max_length", "grpo": "max_prompt_length"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny base, a chain on it, questions and pairs."""
    folder = tmp_path_factory.mktemp("preview")
    tiny_chain(folder)
    scored = [row for row in DATASETS["kmp-train"]() if row.ground_truth.kind == "label"]
    write_examples(folder / "rows.jsonl", scored[:8])
    pairs = [
        {
            "prompt": [{"role": "user", "content": f"What of tissue {number}?" * (1 + number)}],
            "chosen": [{"role": "assistant", "content": "It goes up."}],
            "rejected": [{"role": "assistant", "content": "It goes down."}],
        }
        for number in range(8)
    ]
    text = "".join(json.dumps(pair) + "\n" for pair in pairs)
    (folder / "pairs.jsonl").write_text(text, encoding="utf-8")
    return folder


def planned(folder: Path, stage: str, **values: object) -> Plan:
    document: dict[str, object] = {**COMMON, "batch": 4, "output": str(folder / "new"), **values}
    if stage != "sft":
        document["chain"] = str(folder / "sft")
    if stage == "dpo":
        document |= {"data": [str(folder / "pairs.jsonl")]}
    if stage == "grpo":
        document |= {"num_generations": 4}
    return plan_of(stage, ["--config", str(settings_file(folder, document))], is_dry=True)


@pytest.mark.parametrize("stage", STAGES)
def test_long_rows_are_named_and_refused_or_dropped_and_counted_in_every_stage(folder: Path, stage: str):
    limit = STAGES[stage]
    seen = preview(planned(folder, stage, **{limit: 4096}))
    assert (seen.rows, seen.kept, seen.left_out, seen.is_refused) == (8, 8, {}, False)
    assert seen.lengths is not None
    shortest, _, longest = seen.lengths
    assert shortest < longest
    refused = preview(planned(folder, stage, **{limit: longest - 1}))
    assert refused.is_refused
    assert f"rows have more than {limit} {longest - 1} tokens: " in refused.problems[0]
    assert f"({longest})" in refused.problems[0]
    dropped = preview(planned(folder, stage, **{limit: longest - 1, "too_long": "drop"}))
    assert not dropped.is_refused
    assert dropped.kept < 8
    why = f"left out, more than {limit} {longest - 1} tokens"
    assert dropped.left_out == {why: 8 - dropped.kept}


def test_what_is_learned_from_is_the_answers_of_sft_and_dpo_and_nothing_of_a_question(folder: Path):
    columns = {
        stage: {
            (row.column, row.given < len(row.tokens))
            for row in preview(planned(folder, stage, **{limit: 4096})).examples
        }
        for stage, limit in STAGES.items()
    }
    assert columns == {
        "sft": {("completion", True)},
        "dpo": {("chosen", True), ("rejected", True)},
        "grpo": {("prompt", False)},
    }


def test_pairs_that_are_left_out_are_counted_with_the_reason(folder: Path, tmp_path: Path):
    lines = (folder / "pairs.jsonl").read_text(encoding="utf-8").splitlines()
    same = json.loads(lines[0])
    same["rejected"] = same["chosen"]
    twice = tmp_path / "pairs.jsonl"
    twice.write_text("\n".join([*lines, lines[0], json.dumps(same)]) + "\n", encoding="utf-8")
    file = settings_file(folder, {**COMMON, "data": [str(twice)], "chain": str(folder / "sft"), "max_length": 4096})
    seen = preview(plan_of("dpo", ["--config", str(file)], is_dry=True))
    assert seen.left_out == {
        "left out, the same pair again": 1,
        "left out, both answers are the same": 1,
    }


def test_a_monitor_with_nothing_left_to_ask_is_refused_in_the_plan(folder: Path):
    rows = DATASETS["kmp-train"]()[:1]
    write_examples(folder / "watched.jsonl", rows)
    pair = {
        "prompt": [{"role": "user", "content": rows[0].prompt}],
        "chosen": [{"role": "assistant", "content": "Yes."}],
        "rejected": [{"role": "assistant", "content": "No."}],
    }
    (folder / "asked.jsonl").write_text(json.dumps(pair) + "\n", encoding="utf-8")
    values = {
        **COMMON,
        "data": [str(folder / "asked.jsonl")],
        "chain": str(folder / "sft"),
        "monitor_data": [str(folder / "watched.jsonl")],
    }
    words = ["--config", str(settings_file(folder, values))]
    with pytest.raises(BadConfig, match="nothing is left to watch"):
        plan_of("dpo", words, is_dry=True)
    plan_of("dpo", [*words, "--monitor_steps", "0"], is_dry=True)
