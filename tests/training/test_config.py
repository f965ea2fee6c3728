import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import pytest

from evals.errors import BadConfig
from training.config import DpoSettings, GrpoSettings, SftSettings, as_document, read_request, read_settings

ROOT = Path(__file__).parents[2]


@pytest.fixture
def sft_file(tmp_path: Path) -> Path:
    file = tmp_path / "sft.yaml"
    file.write_text("data: [kmp-train]\noutput: runs/mine\nepochs: 2\n", encoding="utf-8")
    return file


def test_the_command_line_goes_over_the_file(sft_file: Path):
    words = [
        "--config",
        str(sft_file),
        "--epochs",
        "3.5",
        "--lora-r=4",
        "--data",
        "a.jsonl,kmp-train",
    ]
    settings = read_request(SftSettings, words).settings
    assert (settings.epochs, settings.lora_r) == (3.5, 4)
    assert settings.data == ("a.jsonl", "kmp-train")


def test_a_number_may_be_negative_or_in_scientific_notation_on_the_command_line(sft_file: Path):
    assert read_settings(SftSettings, sft_file, {"learning_rate": "1e-4"}).learning_rate == 1e-4
    with pytest.raises(BadConfig, match="'-1'; it takes a number from"):
        read_request(SftSettings, ["--config", str(sft_file), "--learning_rate", "-1"])


def test_yaml_reads_scientific_notation_without_a_dot_as_a_number_all_the_same(tmp_path: Path):
    file = tmp_path / "sft.yaml"
    file.write_text("data: [kmp-train]\noutput: x\nlearning_rate: 2e-4\n", encoding="utf-8")
    assert read_settings(SftSettings, file).learning_rate == 2e-4


def test_a_bare_off_in_yaml_is_the_word_and_not_false(tmp_path: Path):
    file = tmp_path / "grpo.yaml"
    file.write_text("data: [a]\noutput: x\nchain: y\nbatch: 8\nvllm: off\n", encoding="utf-8")
    assert read_settings(GrpoSettings, file).vllm == "off"


def test_an_unknown_key_is_refused_with_the_nearest_name_and_all_that_are_known(sft_file: Path):
    with pytest.raises(BadConfig) as raised:
        read_settings(SftSettings, sft_file, {"learning_rat": "1"})
    assert "Did you mean learning_rate?" in str(raised.value)
    assert all(each.name in str(raised.value) for each in fields(SftSettings))


REFUSED = {
    "epochs": ("0", "many", "inf", "nan"),
    "lora_r": ("0", "2.5", "1000"),
    "schedule": ("sawtooth",),
    "autocast": ("float16",),
    "activation_checkpointing": ("maybe",),
    "data": ("", " , "),
    "output": ("", "  "),
    "seed": ("-1", str(2**40), "1" + "0" * 400),
    "max_steps": (str(2**63), "1" + "0" * 400),
    "learning_rate": ("1" + "0" * 400,),
    "warmup": ("1e9",),
    "base": ("", " "),
}


@pytest.mark.parametrize(("key", "value"), [(key, value) for key, values in REFUSED.items() for value in values])
def test_a_value_that_makes_no_sense_is_refused_by_the_name_of_its_setting(sft_file: Path, key: str, value: str):
    with pytest.raises(BadConfig, match=key):
        read_settings(SftSettings, sft_file, {key: value})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "holds no settings"),
        ("- a\n- b\n", "holds no settings"),
        ("data: [", "is not YAML"),
        ("epochs: 2\n", "says nothing about data, output"),
        ("data: {a: 1}\noutput: x\n", "a list"),
        ("data: [1, 2]\noutput: x\n", "a list"),
        ("data: [kmp-train]\noutput: null\n", "output to None"),
        (
            "data: [a]\noutput: x\nseed: 1" + "0" * 400,
            r"seed to 10+\.\.\.; it takes a whole number from 0",
        ),
        ("data: [a]\noutput: x\nseed: 1" + "0" * 5000, "is not YAML"),
        ("data: [a]\noutput: x\nlearning_rate: 1" + "0" * 400, "learning_rate to 10+"),
        (
            "seed: 1\noutput: x\nseed: 2\ndata: [a]\n",
            "the key 'seed' stands more than once.* line 3",
        ),
        ("{a: {b: 1, b: 2}}", "the key 'b' stands more than once"),
        ("[" * 3000, "is not YAML"),
    ],
)
def test_a_settings_file_that_is_not_whole_is_refused_with_the_reason(tmp_path: Path, text: str, problem: str):
    file = tmp_path / "odd.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(BadConfig, match=problem):
        read_settings(SftSettings, file)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ([], "no settings file was named"),
        (["--config", "/nowhere/x.yaml"], "there is no settings file"),
        (["epochs", "2"], "is not a setting"),
        (["--epochs"], "--epochs has no value"),
        (["--epochs", "--lora_r", "2"], "--epochs has no value"),
    ],
)
def test_a_command_line_that_cannot_be_read_is_refused(words: list[str], problem: str):
    with pytest.raises(BadConfig, match=problem):
        read_request(SftSettings, words)


GRPO = {"data": "kmp-train", "output": "x", "chain": "runs/sft"}


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"chain": ""}, "chain is empty"),
        ({"num_generations": "1"}, "num_generations"),
        ({"verifier_weights": "V9=1"}, "no verifier is called V9"),
        ({"verifier_weights": "V1"}, "cannot read the weights .V1.; name a set"),
        ({"verifier_weights": "phase5"}, "name a set .assay, mve, full, phase4"),
        ({"vllm": "colocate", "weights": "nf4"}, "4-bit weights do not survive"),
        ({"v4": "kind"}, "V4 has no mode"),
        ({"vllm": "server", "vllm_server": "gpu7"}, "vllm_server is .gpu7."),
        ({"verifier_weights": "V1=0,V4=0"}, "every weight is 0"),
        ({"aggregation": "mean"}, "aggregation"),
        (
            {"aggregation": "normalize_then_sum", "scale_rewards": "batch"},
            "scale_rewards is .batch. beside aggregation normalize_then_sum",
        ),
    ],
)
def test_grpo_settings_that_contradict_each_other_are_refused(tmp_path: Path, changes: dict[str, str], problem: str):
    file = tmp_path / "grpo.yaml"
    file.write_text("batch: 8\n", encoding="utf-8")
    with pytest.raises(BadConfig, match=problem):
        read_settings(GrpoSettings, file, GRPO | changes)


@pytest.mark.parametrize("written", ["verifier_weights: V1=.5, V1=.6", "verifier_weights: {V1: .5, V1: .6}"])
def test_a_verifier_is_weighed_once(tmp_path: Path, written: str):
    file = tmp_path / "grpo.yaml"
    file.write_text(f"data: [a]\noutput: x\nchain: y\n{written}\n", encoding="utf-8")
    with pytest.raises(BadConfig, match=r"V1.* stands (twice|more than once)"):
        read_settings(GrpoSettings, file)


def test_a_monitor_without_data_is_refused_unless_it_never_looks():
    unwatched = DpoSettings(("a",), output="x", chain="y", monitor_data=(), monitor_steps=0)
    with pytest.raises(BadConfig, match="monitor_data is empty"):
        replace(unwatched, monitor_steps=25)


def test_settings_become_plain_json_values_and_come_back_from_them(tmp_path: Path):
    file = tmp_path / "grpo.yaml"
    file.write_text("batch: 8\nverifier_weights: {V1: 0.5, V4: 0.5}\n", encoding="utf-8")
    settings = read_settings(GrpoSettings, file, GRPO)
    again = tmp_path / "again.yaml"
    import json

    again.write_text(json.dumps(as_document(settings)), encoding="utf-8")
    assert read_settings(GrpoSettings, again) == settings


def test_reading_settings_and_data_does_not_import_torch():
    program = (
        "import sys, training.config, training.data.questions, training.run.folder; sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False).returncode == 0
