import json
import subprocess
import sys
from pathlib import Path

import pytest

from evals.errors import BadConfig
from training.config import STAGES, SftSettings, as_document, read_request, read_settings, read_values

ROOT = Path(__file__).parents[2]
STARTS = {
    "sft": "data: [a]\noutput: x\n",
    "dpo": "data: [a]\noutput: x\nchain: y\n",
    "grpo": "data: [a]\noutput: x\nchain: y\nbatch: 8\n",
}

READ = [  # stage, YAML, words of the command line, setting, its value
    ("sft", "epochs: 2", "--epochs 3.5", "epochs", 3.5),
    ("sft", "epochs: 2", "", "epochs", 2.0),
    ("sft", "", "--lora-r=4", "lora_r", 4),
    ("sft", "", "--data a.jsonl,kmp-train", "data", ("a.jsonl", "kmp-train")),
    ("sft", "", "--learning_rate 1e-4", "learning_rate", 1e-4),
    ("sft", "learning_rate: 2e-4", "", "learning_rate", 2e-4),  # YAML reads this as text
    ("sft", "packing: yes", "", "packing", True),
    ("sft", "", "--packing off", "packing", False),
    ("grpo", "vllm: off", "", "vllm", "off"),  # YAML reads a bare off as false
    ("grpo", "", "--verifier_weights V1=.5,V4=.5", "verifier_weights", {"V1": 0.5, "V4": 0.5}),
    ("grpo", "verifier_weights: {V1: 0.5, V4: 1}", "", "verifier_weights", {"V1": 0.5, "V4": 1.0}),
    ("grpo", "verifier_weights: mve", "--verifier_weights none", "verifier_weights", None),
    ("grpo", "loss_type: sapo", "", "loss_type", "sapo"),  # TRL's to judge
    ("dpo", "loss_type: nca_pair", "", "loss_type", "nca_pair"),
    ("dpo", "monitor_data: []\nmonitor_steps: 0", "", "monitor_data", ()),
]

LONG = "1" + "0" * 400
REFUSED = [  # stage, YAML, words of the command line, what the message says
    ("sft", "", "--learning_rate -1", "command line sets learning_rate to '-1'; it takes a number from 0 to 1."),
    ("sft", "", "--learning_rat 1", "Did you mean learning_rate? The settings are: data, output"),
    ("sft", "", "--epochs 0", "epochs"),
    ("sft", "", "--epochs many", "epochs"),
    ("sft", "", "--epochs inf", "epochs"),
    ("sft", "", "--epochs nan", "epochs"),
    ("sft", "", "--lora_r 0", "lora_r to '0'; it takes a whole number from 1 to 512. It means: rank of the adapter."),
    ("sft", "", "--lora_r 2.5", "lora_r"),
    ("sft", "", "--schedule sawtooth", "one of cosine, linear, constant, constant_with_warmup"),
    ("sft", "", "--activation_checkpointing maybe", "true or false"),
    ("sft", "", "--data=", "data is empty"),
    ("sft", "", "--data ,", "data is empty"),
    ("sft", "", "--output=", "output is empty"),
    ("sft", "", "--base=", "base is empty"),
    ("sft", "", "--seed -1", "seed"),
    ("sft", "", f"--seed {2**40}", "seed"),
    ("sft", "", f"--max_steps {2**63}", "max_steps to '9223372036854775808'; it takes a whole number of 0 or more"),
    ("sft", "", f"--max_steps {LONG}", "max_steps"),
    ("sft", "", "--warmup 1e9", "warmup"),
    ("sft", f"seed: {LONG}", "", "...; it takes a whole number from 0"),
    ("sft", f"seed: 1{'0' * 5000}", "", "is not YAML"),
    ("sft", f"learning_rate: {LONG}", "", "learning_rate to 10"),
    ("sft", "max_grad_norm: true", "", "max_grad_norm to True"),
    ("sft", "data: {a: 1}", "", "a list"),
    ("sft", "data: [1, 2]", "", "a list"),
    ("sft", "output: null", "", "output to None"),
    ("sft", "mode: continue", "", "there is no chain to build on"),
    ("sft", "", "epochs 2", "is not a setting"),
    ("sft", "", "--epochs", "--epochs has no value"),
    ("sft", "", "--epochs --lora_r 2", "--epochs has no value"),
    ("sft", "", "--config /nowhere/x.yaml", "there is no settings file"),
    ("dpo", "", "--chain=", "DPO starts from"),
    ("dpo", "mode: merge_then_new\nweights: nf4", "", "4-bit weights would round"),
    ("dpo", "monitor_stop: true\nmonitor_data: [kmp-test]", "", "stop by kmp-dev"),
    ("dpo", "monitor_data: []", "", "monitor_data is empty"),
    ("dpo", "beta: 0", "", "beta"),
    ("dpo", "mode: merge", "", "one of stack, continue, merge_then_new"),
    ("grpo", "", "--chain=", "chain is empty"),
    ("grpo", "num_generations: 1", "", "num_generations"),
    ("grpo", "verifier_weights: V9=1", "", "no verifier is called V9"),
    ("grpo", "verifier_weights: V1", "", "cannot read the weights 'V1'; name a set"),
    ("grpo", "verifier_weights: phase5", "", "name a set (assay, mve, full, phase4"),
    ("grpo", "verifier_weights: V1=0,V4=0", "", "every weight is 0"),
    ("grpo", "verifier_weights: V1=.5, V1=.6", "", "stands twice"),
    ("grpo", "verifier_weights: {V1: .5, V1: .6}", "", "the key 'V1' stands more than once"),
    ("grpo", "vllm: colocate\nweights: nf4", "", "4-bit weights do not survive"),
    ("grpo", "vllm: server\nvllm_server: gpu7", "", "vllm_server is 'gpu7'"),
    ("grpo", "v4: kind", "", "V4 has no mode"),
    ("grpo", "aggregation: mean", "", "aggregation"),
    ("grpo", "aggregation: normalize_then_sum\nscale_rewards: batch", "", "scale_rewards is 'batch' beside"),
]

ODD_FILES = [  # a whole file, what the message says
    ("", "holds no settings"),
    ("- a\n- b\n", "holds no settings"),
    ("data: [", "is not YAML"),
    ("epochs: 2\n", "data is not set; add data: data sets by name"),
    ("seed: 1\noutput: x\nseed: 2\ndata: [a]\n", "the key 'seed' stands more than once"),
    ("{a: {b: 1, b: 2}}", "the key 'b' stands more than once"),
    ("[" * 3000, "is not YAML"),
]


def read(folder: Path, stage: str, yaml: str, words: str):
    """Return the settings of a stage; lines of `yaml` take the place of its usual ones."""
    keys = {line.partition(":")[0] for line in yaml.splitlines()}
    usual = [line for line in STARTS[stage].splitlines() if line.partition(":")[0] not in keys]
    file = folder / f"{stage}.yaml"
    file.write_text("\n".join([*usual, yaml]) + "\n", encoding="utf-8")
    return read_request(STAGES[stage], ["--config", str(file), *words.split()]).settings


def test_settings_are_read_from_yaml_with_the_command_line_over_it(tmp_path: Path):
    found = [(*row[:4], getattr(read(tmp_path, *row[:3]), row[3])) for row in READ]
    assert found == READ


def test_what_makes_no_sense_is_refused_with_setting_value_and_what_is_accepted(tmp_path: Path):
    said = []
    for stage, yaml, words, _ in REFUSED:
        try:
            read(tmp_path, stage, yaml, words)
            said.append("nothing")
        except BadConfig as error:
            said.append(str(error))
    wrong = [(row, message) for row, message in zip(REFUSED, said, strict=True) if row[3] not in message]
    assert wrong == []


@pytest.mark.parametrize(("text", "problem"), ODD_FILES)
def test_a_settings_file_that_is_not_whole_is_refused_with_the_reason(tmp_path: Path, text: str, problem: str):
    file = tmp_path / "odd.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(BadConfig) as raised:
        read_settings(SftSettings, file)
    assert problem in str(raised.value)


def test_a_command_line_without_a_file_is_told_how_to_name_one():
    with pytest.raises(BadConfig, match="no settings file was named; add --config"):
        read_request(SftSettings, [])


def test_some_settings_are_read_without_the_others():
    assert read_values(SftSettings, {"data": "a,b", "epochs": "2"}, "the form") == {"data": ["a", "b"], "epochs": 2.0}
    with pytest.raises(BadConfig, match="the form sets epochs to 'x'; it takes a number from"):
        read_values(SftSettings, {"epochs": "x"}, "the form")


def test_settings_become_plain_json_values_and_come_back_from_them(tmp_path: Path):
    settings = read(tmp_path, "grpo", "verifier_weights: {V1: 0.5, V4: 0.5}", "")
    again = tmp_path / "again.yaml"
    again.write_text(json.dumps(as_document(settings)), encoding="utf-8")
    assert read_settings(STAGES["grpo"], again) == settings


def test_reading_settings_and_data_does_not_import_torch():
    program = (
        "import sys, training.config, training.data.questions, training.run.folder; sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False).returncode == 0
