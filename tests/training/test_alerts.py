import json
from pathlib import Path

import pytest
from transformers import TrainerControl, TrainerState, TrainingArguments

from training.run.alarms import Alarm, AlarmCallback, alarms_of
from training.run.folder import RunFolder

SHARE = Alarm("share", "{now:.0%} of them, {before:.0%} before", above=0.5)
LENGTH = Alarm("length", "from {before:.0f} to {now:.0f}", above=2.0, below=0.5, from_start=True)


class Log:
    """A run that logs one figure after the other, and what was said at each step."""

    def __init__(self, folder: Path, *rules: Alarm, window: int = 2) -> None:
        self.run = RunFolder(folder)
        self.callback = AlarmCallback(self.run, rules, window=window)
        self.arguments = TrainingArguments(output_dir=str(folder), use_cpu=True)
        self.step = 0

    def add(self, **figures: float) -> None:
        self.step += 1
        state = TrainerState(global_step=self.step, is_world_process_zero=True)
        self.callback.on_log(self.arguments, state, TrainerControl(), dict(figures))

    def said(self) -> list[tuple[int, str]]:
        rows = self.run.metric_rows()
        return [(row["step"], row["alert"]) for row in rows if "alert" in row]


def test_what_is_wrong_is_said_once_with_its_figures(tmp_path: Path, capsys):
    log = Log(tmp_path, SHARE)
    for share in (0.4, 0.8, 0.9, 1.0):
        log.add(share=share)
    assert log.said() == [(2, "60% of them, 60% before")]
    assert "step 2: 60% of them" in capsys.readouterr().err


def test_it_is_said_again_only_after_it_was_right_in_between(tmp_path: Path):
    log = Log(tmp_path, SHARE)
    for share in (0.9, 0.9, 0.1, 0.1, 0.9, 0.9):
        log.add(share=share)
    assert [step for step, _ in log.said()] == [2, 6]


def test_nothing_is_said_before_the_window_is_full_or_about_other_figures(tmp_path: Path):
    log = Log(tmp_path, SHARE, window=3)
    log.add(share=1.0)
    log.add(loss=3.0)
    log.add(share=1.0)
    assert log.said() == []
    log.add(share=1.0)
    assert [step for step, _ in log.said()] == [4]


def test_a_figure_can_be_held_against_what_it_was_at_the_start(tmp_path: Path):
    log = Log(tmp_path, LENGTH)
    for length in (40, 60, 60, 60, 10, 10):
        log.add(length=length)
    assert log.said() == [(6, "from 50 to 10")]


def test_a_figure_that_was_zero_at_the_start_has_no_ratio(tmp_path: Path):
    log = Log(tmp_path, LENGTH)
    for length in (0, 0, 60, 60):
        log.add(length=length)
    assert log.said() == []


def test_a_resumed_run_remembers_its_start_and_what_was_said(tmp_path: Path):
    run = RunFolder(tmp_path)
    for step, length in enumerate((50, 50, 10, 10), start=1):
        run.append_metrics({"step": step, "length": length})
    log = Log(tmp_path, LENGTH)
    log.callback.on_train_begin(log.arguments, TrainerState(), TrainerControl())
    log.add(length=10)
    assert log.said() == []
    log.add(length=50)
    log.add(length=50)
    log.add(length=10)
    log.add(length=10)
    assert [text for _, text in log.said()] == ["from 50 to 10"]


def test_only_the_first_of_several_processes_speaks(tmp_path: Path):
    log = Log(tmp_path, SHARE, window=1)
    state = TrainerState(global_step=1, is_world_process_zero=False)
    log.callback.on_log(log.arguments, state, TrainerControl(), {"share": 1.0})
    assert log.said() == []


SPOKEN = [
    ("frac_reward_zero_std", [0.62], "62% of groups had equal rewards"),
    ("completions/clipped_ratio", [0.25], "25% of answers were cut"),
    ("kl", [0.8], "0.8 nats per token away"),
    ("completions/mean_length", [40, 15], "from 40 to 15 tokens"),
    ("completions/mean_length", [40, 90], "from 40 to 90 tokens"),
    ("entropy", [0.01], "hardly vary"),
    ("confidence/stated", [0.3], "only 30% of answers have a readable line `Confidence"),
    ("line/answer", [0.95, 0.6], "only 60% of answers have a line `Answer"),
    ("verdict/correct", [0.8, 0.4], "right answers fell from 80% to 40%"),
    ("verifier/V1", [0.8, 0.4], "the mean of V1 fell from 0.80 to 0.40"),
    ("verifier/V4", [0.8, 0.4], "the mean of V4 fell from 0.80 to 0.40"),
    ("rewards/chosen", [-1.5], "even the chosen answers became less likely"),
    ("rewards/margins", [4.0], "separated far beyond"),
]


@pytest.mark.parametrize(("metric", "values", "said"), SPOKEN)
def test_each_rule_speaks_in_words_about_its_own_figure(metric: str, values: list[float], said: str, tmp_path: Path):
    log = Log(tmp_path, *alarms_of("sampling", "grpo", "dpo"), window=1)
    for value in values:
        log.add(**{metric: value})
    assert [text for _, text in log.said() if said in text] == [text for _, text in log.said()]
    assert len(log.said()) == 1


HEALTHY = {
    "frac_reward_zero_std": 0.1,
    "completions/clipped_ratio": 0.0,
    "kl": 0.02,
    "completions/mean_length": 40.0,
    "entropy": 0.6,
    "line/answer": 0.98,
    "confidence/stated": 1.0,
    "verdict/correct": 0.6,
    "verifier/V1": 0.6,
    "rewards/chosen": 0.2,
    "rewards/margins": 0.8,
}


def test_a_healthy_run_is_left_in_peace(tmp_path: Path):
    log = Log(tmp_path, *alarms_of("sampling", "grpo", "dpo"))
    for _ in range(6):
        log.add(**HEALTHY)
    assert log.said() == []
    assert not (tmp_path / "metrics.jsonl").exists()


def test_an_alert_is_one_json_line_beside_the_figures(tmp_path: Path):
    log = Log(tmp_path, SHARE, window=1)
    log.add(share=1.0)
    line = json.loads((tmp_path / "metrics.jsonl").read_text(encoding="utf-8"))
    assert line == {"step": 1, "alert": "100% of them, 100% before"}
