"""What a run used is read from the machine's counters, or it is said why it was not."""

import os
from pathlib import Path

import pytest

from tests.training.runs import SFT, one_thread, record, settings_file
from training import sft
from training.config import SftSettings, read_request
from training.run.energy import GPUS, PROCESSORS, Meter, Spent, facts, nvml, rapl

__all__ = ["one_thread"]

JOULE = 1_000_000


def zone(root: Path, name: str, what: str, microjoules: int, span: int = 1000 * JOULE) -> Path:
    """Write one zone as Linux shows it; return the file of its counter."""
    folder = root / name
    folder.mkdir()
    for file, value in (("name", what), ("max_energy_range_uj", span), ("energy_uj", microjoules)):
        (folder / file).write_text(f"{value}\n")
    return folder / "energy_uj"


@pytest.fixture
def machine(tmp_path: Path) -> dict[str, Path]:
    """Two processors, one with memory counted apart; parts and wholes that would count twice."""
    (tmp_path / "intel-rapl").mkdir()
    return {
        "first": zone(tmp_path, "intel-rapl:0", "package-0", 10 * JOULE),
        "cores": zone(tmp_path, "intel-rapl:0:0", "core", 5 * JOULE),
        "memory": zone(tmp_path, "intel-rapl:0:1", "dram", 0),
        "second": zone(tmp_path, "intel-rapl:1", "package-1", 990 * JOULE),
        "all": zone(tmp_path, "intel-rapl:2", "psys", 7 * JOULE),
        "again": zone(tmp_path, "intel-rapl-mmio:0", "package-0", 10 * JOULE),
    }


def test_the_energy_of_processors_and_memory_is_counted_once_and_past_the_end_of_a_counter(
    machine: dict[str, Path], tmp_path: Path
):
    zones, why = rapl(tmp_path)
    times = iter([100.0, 107.0, 130.0])
    meter = Meter(zones, {}, lambda: next(times))
    for file in machine.values():
        file.write_text(str((int(file.read_text()) + 20 * JOULE) % (1000 * JOULE)))
    first = meter.read()
    assert (why, first.joules, first.seconds) == ("", {PROCESSORS: pytest.approx(60.0)}, 7.0)
    machine["second"].write_text(str(40 * JOULE))
    assert meter.read().joules == {PROCESSORS: pytest.approx(90.0)}


def test_counters_that_may_not_be_read_are_said_to_be_so(machine: dict[str, Path], tmp_path: Path):
    machine["first"].chmod(0)
    if os.geteuid() == 0:
        machine["first"].unlink()
        machine["first"].mkdir()  # what not even root can read as a file
    zones, why = rapl(tmp_path)
    assert zones == []
    assert "RAPL's counters" in why


def test_a_machine_without_counters_says_so(tmp_path: Path):
    assert rapl(tmp_path / "nowhere") == (
        [],
        "this machine shows no RAPL counters, as virtual ones seldom do",
    )


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
    driver = Driver()
    gpus, why = nvml(["GPU-a"], driver)
    meter = Meter(gpus, {})
    driver.millijoules["GPU-a"] += 2500
    assert (why, meter.read().joules) == ("", {GPUS: 2.5})


def test_a_gpu_that_does_not_count_says_so():
    assert nvml(["GPU-b"], Driver()) == ([], "NVML tells no energy here (Not Supported)")


def test_what_several_processes_and_parts_of_a_run_used_adds_up():
    first = Spent.together([Spent({PROCESSORS: 5.0, GPUS: 10.0}, 60.0), Spent({GPUS: 20.0}, 61.0)])
    assert first == Spent({PROCESSORS: 5.0, GPUS: 30.0}, 61.0)
    assert first.and_then(Spent({GPUS: 1.0}, 9.0)) == Spent({PROCESSORS: 5.0, GPUS: 31.0}, 70.0)


UNKNOWN = {"grid_co2": 0.0, "hour_price": 0.0}


def test_co2_and_cost_are_told_by_a_figure_that_was_given_and_not_without():
    spent = Spent({PROCESSORS: 3.6e6, GPUS: 1.8e6}, 7200.0)
    plain = {
        "train_seconds": 7200.0,
        "energy_kwh": 1.5,
        "measured_by": "processors by RAPL; GPUs by NVML",
    }
    assert facts(spent, UNKNOWN) == plain
    assert facts(spent, {"grid_co2": 400.0, "hour_price": 2.5}) == plain | {
        "co2_g": 600.0,
        "co2_grams_per_kwh": 400.0,
        "cost": 5.0,
    }


def test_without_a_counter_there_is_no_energy_and_no_co2_but_a_reason():
    spent = Spent({}, 12.0, {PROCESSORS: "this machine shows no RAPL counters"})
    assert facts(spent, UNKNOWN | {"grid_co2": 400.0}) == {
        "train_seconds": 12.0,
        "measured_by": "processors not: this machine shows no RAPL counters",
    }


def test_run_json_says_what_a_run_used_over_all_its_parts(
    machine: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(rapl, "__defaults__", (tmp_path,))
    folder = tmp_path / "sft"
    folder.mkdir()
    words = ["--config", str(settings_file(folder, {**SFT, "max_steps": 3, "save_steps": 1}))]
    step = sft.SupervisedTrainer.training_step

    def costly(self, *inputs, **options):
        if self.state.global_step == 2 and not (folder / "stopped").exists():
            (folder / "stopped").touch()
            raise KeyboardInterrupt
        machine["first"].write_text(str(int(machine["first"].read_text()) + 36 * JOULE))
        return step(self, *inputs, **options)

    monkeypatch.setattr(sft.SupervisedTrainer, "training_step", costly)
    request = read_request(SftSettings, words)
    with pytest.raises(KeyboardInterrupt):
        sft.train(request)
    stopped = record(folder / "run")["result"]
    assert (stopped["energy_kwh"], stopped["error"]) == (2e-5, "KeyboardInterrupt")
    sft.train(request)
    kept = record(folder / "run")["result"]
    assert (kept["energy_kwh"], kept["measured_by"]) == (3e-5, "processors by RAPL")
    assert kept["train_seconds"] > stopped["train_seconds"] > 0
