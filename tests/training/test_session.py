"""What run.json says of a run: the line that runs it again, and the loss it had."""

from pathlib import Path

import pytest
from transformers.trainer_utils import TrainOutput

from evals.errors import BadConfig, MissingModel
from tests.models import tiny_base, tiny_tokenizer
from tests.training.runs import GRPO, SFT, one_thread, record, settings_file
from training import sft
from training.config import DpoSettings, SftSettings
from training.launch import environment
from training.plan import plan_of
from training.preview import preview
from training.request import Request, read_request
from training.session import command_line, mean_loss

__all__ = ["one_thread"]


def request(*overrides: str) -> Request:
    settings = SftSettings(data=("a",), output="x")
    return Request(settings, Path("a.yaml"), overrides)


LINES = [
    ("--data=/secret/a.jsonl,/secret/b.jsonl[count]", "--data 'a.jsonl,b.jsonl[count]'"),
    ("--monitor_data=kmp-dev, /secret/c.jsonl", "--monitor_data kmp-dev,c.jsonl"),
    ("--chain=/secret/my run", "--chain 'my run'"),
]


@pytest.mark.parametrize(("override", "shown"), LINES)
def test_a_line_can_be_repeated_and_keeps_no_folder_of_this_machine(override: str, shown: str):
    line = command_line("sft", request(override))
    assert line == f"accelerate launch -m training.sft --config a.yaml {shown}"


def test_a_line_has_the_launchers_options_but_no_address(monkeypatch: pytest.MonkeyPatch):
    words = ("--config_file=/secret/mine.yaml", "--num_processes", "2")
    address = ("--main_process_ip", "10.0.0.1", "--main-process-port=29500")
    line = ("accelerate", "launch", *words, *address, "-m", "training.sft")
    monkeypatch.setenv("ASSAY_LAUNCHER", environment(line, 2)["ASSAY_LAUNCHER"])
    assert command_line("sft", request()).startswith(
        "accelerate launch --config_file=mine.yaml --num_processes 2 -m training.sft"
    )


def test_the_loss_of_a_resumed_run_is_that_of_one_that_was_never_stopped():
    logged = [{"step": step, "loss": float(step)} for step in range(1, 11)]
    logged.insert(3, {"step": 3, "monitor/kl": 0.1})
    whole = TrainOutput(10, 5.5, {})
    resumed = TrainOutput(10, (7 + 8 + 9 + 10) / 10, {})  # as transformers divides it
    assert mean_loss(whole, logged, 0) == pytest.approx(5.5)
    assert mean_loss(resumed, logged, 6) == pytest.approx(5.5)


def test_a_run_says_how_many_processes_trained_it(tmp_path: Path):
    file = settings_file(tmp_path, {**SFT, "max_steps": 1})
    sft.train(read_request(SftSettings, ["--config", str(file)]))
    assert record(tmp_path / "run")["host"]["processes"] == 1


def test_a_base_that_cannot_write_a_chat_is_refused_before_training_and_in_a_dry_run(
    tmp_path: Path,
):
    base = tiny_base(tmp_path / "model")
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = None
    for file in base.glob("*template*"):
        file.unlink()
    tokenizer.save_pretrained(base)
    words = ["--config", str(settings_file(tmp_path, SFT))]
    with pytest.raises(MissingModel, match="has no chat template"):
        sft.train(read_request(SftSettings, words))
    assert not (tmp_path / "run").exists()
    with pytest.raises(MissingModel, match="has no chat template"):
        preview(plan_of("sft", words, is_dry=True))


def test_grpo_with_fewer_questions_than_it_asks_at_a_time_is_refused_in_the_plan(tmp_path: Path):
    values = {**GRPO, "chain": str(tmp_path / "none"), "generation_batch": 36}
    file = settings_file(tmp_path, values)
    with pytest.raises(BadConfig, match="asks 9 questions at a time"):
        plan_of("grpo", ["--config", str(file)], is_dry=True)


@pytest.mark.parametrize("name", [" kmp-test", "kmp-test[count]", "kmp-test "])
def test_a_run_is_never_stopped_by_test_questions_however_they_are_written(name: str):
    with pytest.raises(BadConfig, match="monitor_stop with kmp-test"):
        DpoSettings(data=("a",), output="x", chain="y", monitor_data=(name,), monitor_stop=True)
