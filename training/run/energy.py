"""Time and GPU energy of a run, as NVML's own counters tell it (package nvidia-ml-py, not one of ours).

codecarbon was considered: where it cannot measure it estimates, and an estimate is not kept in run.json.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

JOULES_PER_KWH = 3.6e6
NVML = "pynvml"
"""Where a GPU is, `nvidia-ml-py` gives it; nothing of ours needs it."""


@dataclass(frozen=True)
class Spent:
    """Seconds, and joules of the GPUs (None = not measured, `why` says why not)."""

    seconds: float = 0.0
    joules: float | None = None
    why: str = ""

    def and_then(self, later: "Spent") -> "Spent":
        """Return this and what came after it."""
        return Spent(self.seconds + later.seconds, _sum([self, later]), later.why)

    @classmethod
    def together(cls, parts: Sequence["Spent"]) -> "Spent":
        """Return what several processes used at the same time."""
        why = next((part.why for part in parts if part.why), "")
        return cls(max(part.seconds for part in parts), _sum(parts), why)

    @classmethod
    def of(cls, totals: Mapping[str, Any]) -> "Spent":
        """Return what a checkpoint's totals say; those of earlier versions part joules by device."""
        joules = totals["joules"]
        return cls(totals["seconds"], sum(joules.values()) or None if isinstance(joules, Mapping) else joules)

    def facts(self) -> dict[str, float | int | str]:
        """Return what run.json keeps of it."""
        kept: dict[str, float | int | str] = {"train_seconds": round(self.seconds, 1)}
        if self.joules is None:
            return {**kept, "measured_by": f"no energy: {self.why or 'nothing was counted'}"}
        kept["energy_kwh"] = float(f"{self.joules / JOULES_PER_KWH:.6g}")
        return {**kept, "measured_by": f"GPUs by NVML{f'; not all: {self.why}' if self.why else ''}"}


class Meter:
    """Counts from when it is made: seconds, and joules of the GPUs with these UUIDs."""

    def __init__(self, uuids: Sequence[str], nvml: Any = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._began, self._handles, self._why = clock, clock(), [], ""
        if not uuids:
            self._why = "no GPU was used"
            return
        try:
            self._nvml = nvml or import_module(NVML)
        except ImportError:
            self._why = "NVML's package is not installed (pip install nvidia-ml-py)"
            return
        try:
            self._nvml.nvmlInit()
            self._handles = [self._nvml.nvmlDeviceGetHandleByUUID(uuid) for uuid in uuids]
            self._first = self._millijoules()
        except self._nvml.NVMLError as error:
            self._handles, self._why = [], f"NVML tells no energy here ({error})"

    def read(self) -> Spent:
        """Return what was used since the meter was made."""
        joules = (self._millijoules() - self._first) / 1e3 if self._handles else None
        return Spent(self._clock() - self._began, joules, self._why)

    def _millijoules(self) -> int:
        return sum(self._nvml.nvmlDeviceGetTotalEnergyConsumption(each) for each in self._handles)


def _sum(parts: Sequence[Spent]) -> float | None:
    known = [part.joules for part in parts if part.joules is not None]
    return sum(known) if known else None
