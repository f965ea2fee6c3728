"""What a run used: energy as the machine's own counters tell it, time, and what follows from a named figure.

Processors and their memory are read from RAPL in Linux's powercap tree, GPUs from NVML, which the package
nvidia-ml-py brings. Neither is there on every machine, so the result says what was measured and, of the
rest, why not. Nothing is estimated: no share of a load, no table of processors. What the counters see is
the whole processor or GPU, other work on it included. Knows nothing of torch.
"""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

POWERCAP = Path("/sys/class/powercap")
ZONE = re.compile(r"intel-rapl:\d+(:\d+)?")
"""A zone of RAPL, of AMD's processors too; others of its names repeat these."""
MEASURED = re.compile(r"package-\d+|dram")
"""Parts of a processor that do not contain each other."""
PROCESSORS, GPUS = "processors", "GPUs"
NVML = "pynvml"
"""What the package nvidia-ml-py is imported as; not one of ours, so it may be missing."""
JOULES_PER_KWH = 3.6e6


class Counter(Protocol):
    """Something that counts energy."""

    @property
    def what(self) -> str:
        """What it belongs to: PROCESSORS or GPUS."""

    def more(self) -> float:
        """Return the joules since it was last asked."""


@dataclass
class Zone:
    """A RAPL counter: microjoules in a file, starting anew at `span`."""

    file: Path
    span: int
    last: int
    what: str = PROCESSORS

    @classmethod
    def of(cls, folder: Path) -> "Zone":
        """Return the counter of a zone's folder; OSError if it may not be read."""
        file = folder / "energy_uj"
        return cls(file, int((folder / "max_energy_range_uj").read_text()), int(file.read_text()))

    def more(self) -> float:
        """Return the joules since the last time; to be asked before it has gone all the way round."""
        now = int(self.file.read_text())
        used, self.last = now - self.last, now
        return (used if used >= 0 else used + self.span) / 1e6


@dataclass
class Gpu:
    """An NVML counter: millijoules since the driver was loaded."""

    nvml: Any
    handle: Any
    last: int
    what: str = GPUS

    def more(self) -> float:
        """Return the joules since the last time."""
        now = self.nvml.nvmlDeviceGetTotalEnergyConsumption(self.handle)
        used, self.last = now - self.last, now
        return used / 1e3


@dataclass(frozen=True)
class Spent:
    """What was used: joules by what they were measured on, and seconds. `absent` says what was not."""

    joules: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    absent: Mapping[str, str] = field(default_factory=dict)

    def and_then(self, later: "Spent") -> "Spent":
        """Return this and what came after it."""
        return Spent(
            _sums([self.joules, later.joules]),
            self.seconds + later.seconds,
            {**self.absent, **later.absent},
        )

    @classmethod
    def together(cls, parts: Sequence["Spent"]) -> "Spent":
        """Return what several processes used at the same time."""
        absent = {what: why for part in parts for what, why in part.absent.items()}
        return cls(_sums([part.joules for part in parts]), max(part.seconds for part in parts), absent)


class Meter:
    """Adds up what counters tell. Those of RAPL go round within the hour: `read` often."""

    def __init__(
        self,
        counters: Sequence[Counter],
        absent: Mapping[str, str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._counters, self._absent, self._clock = counters, absent, clock
        self._joules = {each.what: 0.0 for each in counters}
        self._began = clock()

    def read(self) -> Spent:
        """Return what was used since the meter was made."""
        for each in self._counters:
            self._joules[each.what] += each.more()
        return Spent(dict(self._joules), self._clock() - self._began, self._absent)


def meter_of(gpu_uuids: Sequence[str], *, counts_processors: bool = True) -> Meter:
    """Return the meter of a process: of its GPUs, and of the machine's processors if it is to count them."""
    counters: list[Counter] = []
    absent: dict[str, str] = {}
    if counts_processors:
        zones, why = rapl()
        counters += zones
        absent |= {PROCESSORS: why} if why else {}
    if gpu_uuids:
        gpus, why = nvml(gpu_uuids)
        counters += gpus
        absent |= {GPUS: why} if why else {}
    return Meter(counters, absent)


def rapl(root: Path = POWERCAP) -> tuple[list[Zone], str]:
    """Return the counters of all processors and their memory; none, and why, where they cannot be read."""
    found = [path for path in sorted(root.glob("intel-rapl:*")) if ZONE.fullmatch(path.name)]
    try:
        named = [path for path in found if MEASURED.fullmatch((path / "name").read_text().strip())]
        zones = [Zone.of(path) for path in named]
    except PermissionError:
        return [], (
            "RAPL's counters may be read by root alone (sudo chmod a+r /sys/class/powercap/intel-rapl:*/energy_uj)"
        )
    except (OSError, ValueError) as error:
        return [], f"RAPL's counters cannot be read ({error})"
    return zones, "" if zones else "this machine shows no RAPL counters, as virtual ones seldom do"


def nvml(uuids: Sequence[str], library: Any = None) -> tuple[list[Gpu], str]:
    """Return the counters of the GPUs with these UUIDs; none, and why, where they cannot be read."""
    try:
        known = library or import_module(NVML)
    except ImportError:
        return [], "NVML's package is not installed (pip install nvidia-ml-py)"
    try:
        known.nvmlInit()
        handles = [known.nvmlDeviceGetHandleByUUID(uuid) for uuid in uuids]
        return [Gpu(known, each, known.nvmlDeviceGetTotalEnergyConsumption(each)) for each in handles], ""
    except known.NVMLError as error:
        return [], f"NVML tells no energy here ({error})"


def facts(spent: Spent, config: Mapping[str, Any]) -> dict[str, float | int | str]:
    """Return what run.json keeps of it; CO2 and cost only by figures that the run's settings name."""
    kept: dict[str, float | int | str] = {"train_seconds": round(spent.seconds, 1)}
    kwh = sum(spent.joules.values()) / JOULES_PER_KWH
    if spent.joules:
        kept["energy_kwh"] = float(f"{kwh:.6g}")
    kept["measured_by"] = _told(spent)
    grams, price = float(config["grid_co2"]), float(config["hour_price"])
    if spent.joules and grams:
        kept["co2_g"] = float(f"{kwh * grams:.6g}")
        kept["co2_grams_per_kwh"] = grams
    if price:
        kept["cost"] = round(spent.seconds / 3600 * price, 2)
    return kept


def _told(spent: Spent) -> str:
    """Return what was measured how, and what was not and why, in a line."""
    ways = {PROCESSORS: "RAPL", GPUS: "NVML"}
    told = [f"{what} by {ways[what]}" for what in spent.joules]
    told += [f"{what} not: {why}" for what, why in spent.absent.items()]
    return "; ".join(told) or "nothing was measured"


def _sums(all_joules: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the sums by what was measured."""
    whats = dict.fromkeys(what for joules in all_joules for what in joules)
    return {what: sum(joules.get(what, 0.0) for joules in all_joules) for what in whats}
