"""To add a stage is one file and one line in the registry: everything else knows it then."""

from pathlib import Path

import pytest

from lab.train.runs import find
from tests.lab.trainings import now
from tests.training import toy
from tests.training.runs import SFT, record, settings_file
from training.config import read_request
from training.launch.plan import plan_of
from training.models.chain import check_chain
from training.models.manifest import read_chain
from training.run.session import prepare
from training.stages import STAGES


@pytest.mark.slow
def test_a_toy_stage_is_planned_trained_recorded_and_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(STAGES, "toy", toy.ToySettings)  # the line in the registry
    file = settings_file(tmp_path / "runs", {**SFT, "max_steps": 1})

    plan = plan_of("toy", ["--config", str(file)])
    toy.train(prepare("toy", read_request(toy.ToySettings, ["--config", str(file)])))

    run = tmp_path / "runs" / "run"
    assert plan.command.endswith(f"-m training.toy --config {file}")
    assert plan.data.count == record(run)["data"]["rows"]
    assert (record(run)["stage"], record(run)["status"]) == ("toy", "finished")
    chain = read_chain(run).manifest
    assert [(stage.name, stage.kind) for stage in chain.stages] == [("toy", "toy")]
    assert chain.system_prompt == "Repeat."
    assert all(finding.is_ok for finding in check_chain(run, base=str(tmp_path / "runs" / "model")))
    assert [(each.name, each.state) for each in find([tmp_path / "runs"], now())] == [("runs/run", "finished")]
