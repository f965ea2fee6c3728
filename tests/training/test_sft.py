import os
import signal
import subprocess
import sys
import time
import weakref
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from evals.errors import BadConfig
from evals.model import Sampling
from evals.questions import SYSTEM_PROMPT
from evals.schema import Message
from tests.training.runs import SFT, environment, one_thread, record, settings_file
from training import sft
from training.config import SftSettings, read_request
from training.models.adapters import WEIGHTS_NAME
from training.models.chain import check_chain, load_chain, read_chain
from training.run import session, trainer
from training.run.folder import RunFolder

ROOT = Path(__file__).parents[2]
ACCELERATE = Path(sys.executable).with_name("accelerate")

__all__ = ["one_thread"]


def train(folder: Path, *words: str, **values: object) -> Path:
    file = settings_file(folder, {**SFT, **values})
    sft.train(read_request(SftSettings, ["--config", str(file), *words]))
    return folder / "run"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One whole run by the command that people type."""
    folder = tmp_path_factory.mktemp("sft")
    command = [str(ACCELERATE), "launch", "-m", "training.sft", "--config"]
    done = subprocess.run(
        [*command, str(settings_file(folder, SFT))],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "training on 8 rows" in done.stderr
    return folder / "run"


def test_the_run_folder_holds_the_adapter_its_chain_and_its_records_and_nothing_else(trained: Path):
    assert sorted(path.name for path in trained.iterdir()) == [
        "adapter",
        "chain.json",
        "metrics.jsonl",
        "run.json",
    ]
    assert sorted(path.name for path in (trained / "adapter").iterdir()) == [
        "adapter_config.json",
        "adapter_model.safetensors",
    ]


def test_the_trained_stage_answers_through_the_chain_loader(trained: Path):
    assert all(finding.is_ok for finding in check_chain(trained, base=str(trained.parent / "model")))
    chain = load_chain(trained, "float32", base=str(trained.parent / "model"))
    assert chain.stages == ("base", "sft")
    assert chain.manifest.system_prompt == SYSTEM_PROMPT
    prompt = [Message(role="user", content="How many?")]
    base, tuned = chain.generate([prompt], ("base", "sft"), Sampling(max_new_tokens=4))[0]
    assert (base.stage, tuned.stage) == ("base", "sft")


def test_run_json_tells_what_was_done_and_nothing_about_the_machine_or_its_user(trained: Path):
    text = (trained / "run.json").read_text(encoding="utf-8")
    kept = record(trained)
    assert (kept["status"], kept["stage"]) == ("finished", "sft")
    assert kept["result"]["steps"] == 2
    assert kept["data"]["rows"] == 8
    assert kept["config"]["base"] == "model"
    assert kept["command"] == "accelerate launch -m training.sft --config settings.yaml"
    for private in (str(trained), str(ROOT), str(Path.home()), os.uname().nodename):
        assert private not in text
    assert str(trained.parent) not in (trained / "adapter" / "adapter_config.json").read_text()


def test_metrics_hold_the_loss_of_every_step(trained: Path):
    rows = RunFolder(trained).metric_rows()
    assert [row["step"] for row in rows if "loss" in row] == [1, 2]


def test_a_resumed_run_ends_with_the_weights_of_one_that_was_never_stopped(tmp_path: Path):
    whole = train(tmp_path / "whole", max_steps=4, save_steps=2)
    run = tmp_path / "parts" / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trainer, "write_adapter", _stop)
        with pytest.raises(KeyboardInterrupt):
            train(tmp_path / "parts", max_steps=4, save_steps=3, log_steps=2)
    assert record(run)["status"] == "stopped"
    assert RunFolder(run).last_checkpoint() == run / "checkpoint-4"
    (run / "checkpoint-4" / "trainer_state.json").unlink()
    assert RunFolder(run).last_checkpoint() == run / "checkpoint-3"
    train(tmp_path / "parts", max_steps=4, save_steps=3, log_steps=2)
    one = load_file(whole / "adapter" / "adapter_model.safetensors")
    other = load_file(run / "adapter" / "adapter_model.safetensors")
    assert all(torch.equal(one[name], other[name]) for name in one)
    losses = [[row["loss"] for row in RunFolder(each).metric_rows() if "loss" in row] for each in (whole, run)]
    assert [len(each) for each in losses] == [4, 2]  # the loss of step 3 was never logged
    kept = [record(each)["result"]["train_loss"] for each in (whole, run)]
    assert kept == [pytest.approx(sum(losses[0]) / 4, abs=1e-4)] * 2
    assert kept[0] == kept[1]


def test_the_trained_model_is_let_go_of_before_the_new_stage_is_measured(tmp_path: Path):
    trained: list[weakref.ref[torch.nn.Module]] = []
    left: list[bool] = []
    build, append = sft.build_trainer, session.append_stage

    def built(*parts):
        made = build(*parts)
        trained.append(weakref.ref(made.model))
        return made

    def appended(*parts):
        left.append(trained[0]() is not None)
        return append(*parts)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sft, "build_trainer", built)
        patch.setattr(session, "append_stage", appended)
        train(tmp_path)
    assert left == [False]


def _stop(*_: object) -> str:
    raise KeyboardInterrupt


def test_ctrl_c_finishes_the_step_writes_a_checkpoint_and_says_stopped(tmp_path: Path):
    file = settings_file(tmp_path, {**SFT, "max_steps": 5000, "save_steps": 5000})
    command = [sys.executable, "-m", "training.sft", "--config", str(file)]
    metrics = tmp_path / "run" / "metrics.jsonl"
    process = subprocess.Popen(command, cwd=ROOT, env=environment(), stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 60
        while not (metrics.is_file() and metrics.read_text()) and time.monotonic() < deadline:
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0, said[-3000:]
    assert "stopping after this step" in said
    assert record(tmp_path / "run")["status"] == "stopped"
    assert RunFolder(tmp_path / "run").last_checkpoint() is not None


@pytest.mark.parametrize("mode", ["stack", "continue", "merge_then_new"])
def test_a_second_sft_stage_builds_on_the_first_as_its_mode_says(trained: Path, tmp_path: Path, mode: str):
    base = str(trained.parent / "model")
    shape = {"lora_targets": ["all-linear"], "max_steps": 1, "seed": 5}
    run = train(tmp_path, base=base, chain=str(trained), mode=mode, **shape)
    stages = read_chain(run).manifest.stages
    assert [(stage.name, stage.mode) for stage in stages] == [("sft", "stack"), ("sft-2", mode)]
    assert all(finding.is_ok for finding in check_chain(run, base=base))
    first, second = (load_file(each / "adapter" / WEIGHTS_NAME) for each in (trained, run))
    apart = max(float((first[name] - second[name]).float().abs().max()) for name in first)
    assert (apart < 0.02) == (mode == "continue")  # one step of at most 3e-3 from where it was
    assert record(run)["data"]["stage sft"] == stages[0].sha256


def test_a_row_that_is_too_long_fails_the_run_before_anything_is_trained(tmp_path: Path):
    with pytest.raises(BadConfig, match="rows have more than max_length 32 tokens"):
        train(tmp_path, max_length=32)
    assert not (tmp_path / "run").exists()


def test_a_finished_run_is_left_alone_until_overwrite_is_asked_for(tmp_path: Path):
    run = train(tmp_path, max_steps=1)
    before = (run / "run.json").read_bytes()
    with pytest.raises(BadConfig, match="has finished"):
        train(tmp_path, max_steps=1)
    assert (run / "run.json").read_bytes() == before
    train(tmp_path, "--overwrite", max_steps=2)
    assert record(run)["result"]["steps"] == 2


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], 2, "accelerate launch -m training.sft --config FILE"),
        (["--help"], 0, "accelerate launch -m training.sft --config FILE"),
        (["--config", "nowhere.yaml"], 1, "error: there is no settings file nowhere.yaml"),
    ],
)
def test_a_command_that_cannot_run_says_why_in_one_line(words, code, said, capsys):
    with pytest.raises(SystemExit) as raised:
        sft.main(words)
    assert raised.value.code == code
    assert capsys.readouterr().err.startswith(said)


def test_tensorboard_where_it_is_installed_gets_the_figures_beside_the_run_folder(tmp_path: Path):
    pytest.importorskip("tensorboard")
    run = train(tmp_path, report_to="tensorboard")
    assert sorted(path.name for path in run.iterdir()) == [
        "adapter",
        "chain.json",
        "metrics.jsonl",
        "run.json",
    ]
    assert len(list(tmp_path.glob("run.tensorboard/events.*"))) == 1
