"""What a run used is read from the GPUs' counters, or it is said why it was not."""

from pathlib import Path

import pytest

from tests.training.runs import SFT, one_thread, record, settings_file
from training import sft
from training.config import SftSettings, read_request
from training.run.energy import Meter, Spent

__all__ = ["one_thread"]


class Driver:
    """Two GPUs as NVML shows them; the second is too old to count."""

    class NVMLError(Exception):
        """What NVML raises."""

    def __init__(self) -> None:
        self.millijoules = {"GPU-a": 5000}

    def nvmlInit(self) -> None:
        """Do nothing."""

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        return uuid

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: str) -> int:
        if handle not in self.millijoules:
            raise self.NVMLError("Not Supported")
        return self.millijoules[handle]


def test_the_energy_of_a_gpu_is_what_its_counter_rose_by():
    driver, times = Driver(), iter([100.0, 107.0])
    meter = Meter(["GPU-a"], driver, lambda: next(times))
    driver.millijoules["GPU-a"] += 2500
    assert meter.read() == Spent(7.0, 2.5)


def test_a_gpu_that_does_not_count_says_so():
    spent = Meter(["GPU-b"], Driver()).read()
    assert spent.joules is None
    assert spent.facts()["measured_by"] == "no energy: NVML tells no energy here (Not Supported)"


def test_what_several_processes_and_parts_of_a_run_used_adds_up():
    first = Spent.together([Spent(60.0, 10.0), Spent(61.0, 20.0)])
    assert first.and_then(Spent(9.0, 1.0)) == Spent(70.0, 31.0)
    assert Spent.of({"seconds": 70.0, "joules": {"processors": 1.0, "GPUs": 2.0}}) == Spent(70.0, 3.0)
    assert Spent(7200.0, 5.4e6).facts() == {"train_seconds": 7200.0, "energy_kwh": 1.5, "measured_by": "GPUs by NVML"}


def test_run_json_says_what_a_run_used_over_all_its_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = tmp_path / "sft"
    folder.mkdir()
    words = ["--config", str(settings_file(folder, {**SFT, "max_steps": 3, "save_steps": 1}))]
    step = sft.SupervisedTrainer.training_step
    driver = Driver()
    monkeypatch.setattr("training.run.session._meter", lambda: Meter(["GPU-a"], driver))

    def costly(self, *inputs, **options):
        if self.state.global_step == 2 and not (folder / "stopped").exists():
            (folder / "stopped").touch()
            raise KeyboardInterrupt
        driver.millijoules["GPU-a"] += 36_000
        return step(self, *inputs, **options)

    monkeypatch.setattr(sft.SupervisedTrainer, "training_step", costly)
    request = read_request(SftSettings, words)
    with pytest.raises(KeyboardInterrupt):
        sft.train(request)
    stopped = record(folder / "run")["result"]
    assert (stopped["energy_kwh"], stopped["error"]) == (2e-5, "KeyboardInterrupt")
    sft.train(request)
    kept = record(folder / "run")["result"]
    assert (kept["energy_kwh"], kept["measured_by"]) == (3e-5, "GPUs by NVML")
    assert kept["train_seconds"] > stopped["train_seconds"] > 0
