import json
from pathlib import Path

import pytest
import torch

from evals.errors import BadConfig
from evals.verifiers.score import MODES
from tests.training.cases import cases
from training.config import as_document, read_request, read_settings, read_values
from training.grpo import GrpoSettings, advice
from training.sft import SftSettings
from training.stages import STAGES

ROOT = Path(__file__).parents[2]
STARTS = {
    "sft": "data: [a]\noutput: x\n",
    "dpo": "data: [a]\noutput: x\nchain: y\n",
    "grpo": "data: [a]\noutput: x\nchain: y\nbatch: 8\n",
}

CASES = cases("settings")
DIGITS = {"<5001 digits>": "1" + "0" * 5000, "<3000 brackets>": "[" * 3000}


def whole(text: str) -> str:
    for short, meant in DIGITS.items():
        text = text.replace(short, meant)
    return text


def read(folder: Path, stage: str, yaml: str, words: str):
    """Return the settings of a stage; lines of `yaml` take the place of its usual ones."""
    keys = {line.partition(":")[0] for line in yaml.splitlines()}
    usual = [line for line in STARTS[stage].splitlines() if line.partition(":")[0] not in keys]
    file = folder / f"{stage}.yaml"
    file.write_text("\n".join([*usual, yaml]) + "\n", encoding="utf-8")
    return read_request(STAGES[stage], ["--config", str(file), *words.split()]).settings


def test_settings_are_read_from_yaml_with_the_command_line_over_it(tmp_path: Path):
    found = [[*row[:4], as_document(read(tmp_path, *row[:3]))[row[3]]] for row in CASES["read"]]
    assert found == CASES["read"]


def test_what_makes_no_sense_is_refused_with_setting_value_and_what_is_accepted(tmp_path: Path):
    wrong = []
    for stage, yaml, words, said in CASES["refused"]:
        try:
            read(tmp_path, stage, whole(yaml), whole(words))
            wrong.append((stage, yaml, words, said, "nothing"))
        except BadConfig as error:
            wrong += [] if said in str(error) else [(stage, yaml, words, said, str(error))]
    assert wrong == []


def test_a_settings_file_that_is_not_whole_is_refused_with_the_reason(tmp_path: Path):
    file = tmp_path / "odd.yaml"
    for text, problem in CASES["files"]:
        file.write_text(whole(text), encoding="utf-8")
        with pytest.raises(BadConfig) as raised:
            read_settings(SftSettings, file)
        assert problem in str(raised.value), text


def test_a_command_line_without_a_file_is_told_how_to_name_one():
    with pytest.raises(BadConfig, match="no settings file was named; add --config"):
        read_request(SftSettings, [])


def test_some_settings_are_read_without_the_others():
    assert read_values(SftSettings, {"data": "a,b", "epochs": "2"}, "the form") == {"data": ["a", "b"], "epochs": 2.0}
    with pytest.raises(BadConfig, match="the form sets epochs to 'x': Input should be a valid number"):
        read_values(SftSettings, {"epochs": "x"}, "the form")


def test_settings_become_plain_json_values_and_come_back_from_them(tmp_path: Path):
    settings = read(tmp_path, "grpo", "verifier_weights: {V1: 0.5, V4: 0.5}", "")
    again = tmp_path / "again.yaml"
    again.write_text(json.dumps(as_document(settings)), encoding="utf-8")
    assert read_settings(STAGES["grpo"], again) == settings


# ---- advice ------------------------------------------------------------------------------------

STATED = torch.linspace(0.05, 0.95, 19)
GROUPS, SIZE = 400, 8
SHARES = (0.2, 0.35, 0.5, 0.65, 0.8)
RATE = {"none": 4.0, "group": 1.0}  # undivided gains are a fraction as large

SETTINGS = GrpoSettings(data=("kmp-train",), output="runs/g", chain="runs/sft")


def settled(share_right: float, scale: str) -> float:
    """Return the mean confidence that GRPO leads to, where an answer's group is right or wrong as a whole.

    The confidence is drawn from a softmax over `STATED`; advantages are TRL's.
    """
    draw = torch.Generator().manual_seed(0)
    earned = torch.tensor([[MODES["proper"]("direct", c, y) for c in STATED.tolist()] for y in (0.0, 1.0)])
    is_right = (torch.arange(GROUPS) < GROUPS * share_right).long()[:, None]
    logits = torch.zeros(len(STATED))
    for _ in range(600):
        chances = logits.softmax(0)
        chosen = torch.multinomial(chances, GROUPS * SIZE, replacement=True, generator=draw)
        chosen = chosen.view(GROUPS, SIZE)
        gained = earned[is_right, chosen]
        gained = gained - gained.mean(1, keepdim=True)
        if scale == "group":
            gained = gained / (gained.std(1, keepdim=True) + 1e-4)
        pull = torch.zeros_like(logits).scatter_add_(0, chosen.flatten(), gained.flatten())
        logits += RATE[scale] * pull / chosen.numel()
    return float((logits.softmax(0) * STATED).sum())


@pytest.mark.parametrize("share_right", [0.35, 0.65])
def test_a_proper_score_leads_to_the_truth_undivided_and_to_false_sureness_divided(share_right):
    assert settled(share_right, "none") == pytest.approx(share_right, abs=0.08)
    divided = settled(share_right, "group")
    assert divided > 0.85 if share_right > 0.5 else divided < 0.15


def test_it_is_said_of_grpo_that_rewards_confidence_and_divides_by_the_deviation_of_groups():
    (note,) = advice(SETTINGS)
    assert "scale_rewards group" in note and "scale_rewards none" in note
    assert advice(SETTINGS.model_copy(update={"verifier_weights": "mve"}))
    for other in ({"scale_rewards": "none"}, {"verifier_weights": "V1=1"}, {"v4": "legacy"}):
        assert advice(SETTINGS.model_copy(update=other)) == (), other
    assert advice(SftSettings(data=("kmp-train",), output="runs/s")) == ()
