"""Checkpoints of a running stage in a private repository, from which a run goes on whose folder is lost."""

from pathlib import Path

import pytest
import torch
from huggingface_hub import snapshot_download

from evals.errors import LabError
from hub.copies import CheckpointCopies
from lab.commands import train as command
from tests.training.runs import SFT, adapter, settings_file, train
from training.launch.plan import plan_of
from training.run.checkpoints import fault_of, seal
from training.run.folder import RunFolder

REPO = "tester/mine-run"


def checkpoint(run: Path, step: int, *, is_whole: bool = True) -> None:
    folder = run / f"checkpoint-{step}"
    folder.mkdir(parents=True)
    (folder / "weights.bin").write_bytes(bytes([step]) * 64)
    for name in ("run.json", "metrics.jsonl"):
        (run / name).write_text(f"{step}\n", encoding="utf-8")
    if is_whole:
        seal(folder)


def test_the_newest_whole_checkpoint_is_kept_in_a_private_repository(stand, tmp_path: Path):
    run, said = tmp_path / "run", list[str]()
    copies = CheckpointCopies(stand.api(), REPO, run, said.append)
    copies.look()
    assert (stand.hub.find("model", REPO).private, said) == (True, [])
    for step, is_whole in ((3, True), (6, True), (9, False)):
        checkpoint(run, step, is_whole=is_whole)
        copies.look()
    assert stand.on_main(REPO) == {"run.json", "metrics.jsonl", "checkpoint-6/seal.json", "checkpoint-6/weights.bin"}
    assert len(said) == 2 and "checkpoint-6 is on the Hub: hf download tester/mine-run" in said[1]
    assert [each.name for each in tmp_path.iterdir()] == ["run"]


def test_a_hub_that_fails_stops_no_run_and_is_asked_again(stand, tmp_path: Path):
    run, said = tmp_path / "run", list[str]()
    copies = CheckpointCopies(stand.api(), REPO, run, said.append)
    checkpoint(run, 3)
    token, copies.api.token = copies.api.token, "hf_nobody"
    copies.look()
    assert "checkpoint-3 is not on the Hub yet" in said[0]
    copies.api.token = token
    copies.look()
    assert "checkpoint-3/weights.bin" in stand.on_main(REPO)


def test_a_public_repository_gets_no_checkpoints(stand, tmp_path: Path):
    stand.create("tester/open-run", private=False)
    with pytest.raises(LabError, match="is public, and checkpoints are working files"):
        CheckpointCopies(stand.api(), "tester/open-run", tmp_path, print)


@pytest.mark.slow
def test_a_run_that_lost_its_machine_goes_on_from_the_hub_to_the_same_weights(stand, tmp_path, monkeypatch):
    monkeypatch.setattr(command, "LOOK_SECONDS", 0.2)
    file = settings_file(tmp_path, {**SFT, "max_steps": 6, "save_steps": 2, "lora_dropout": 0.1})
    plan = plan_of("sft", ["--config", str(file), "--output", str(tmp_path / "whole")])
    assert command.run_line(plan, CheckpointCopies(stand.api(), REPO, plan.output, print)) == 0
    fetched = Path(snapshot_download(REPO, endpoint=stand.url, token="hf_test", local_dir=tmp_path / "again"))
    (found,) = fetched.glob("checkpoint-*")
    assert fault_of(found) is None
    again = train("sft", file, "--output", str(fetched))
    first, second = adapter(RunFolder(tmp_path / "whole")), adapter(again)
    assert all(torch.equal(first[name], second[name]) for name in first)
