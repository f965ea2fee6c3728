"""What a run took place in: versions, code revision, machine. Nothing that names a person or a folder."""

import os
import platform
import re
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from evals.confidence import VERSION as CONFIDENCE_VERSION
from evals.verifiers import VERSION as VERIFIERS_VERSION

PACKAGES = ("assay", "torch", "transformers", "peft", "trl", "accelerate", "datasets")
REPOSITORY = Path(__file__).resolve().parent.parent


def versions() -> dict[str, str]:
    """Return the version of Python, of the libraries that train, and of what judges answers."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return {**found, "verifiers": VERIFIERS_VERSION, "confidence": CONFIDENCE_VERSION}


def code_revision(folder: Path = REPOSITORY) -> str | None:
    """Return the commit of the code, with "+changes" if it was edited since; None outside git.

    Files that git does not know, such as the run that is being written, are no change of the code.
    """
    commit = _git(folder, "rev-parse", "HEAD")
    if commit is None:
        return None
    return f"{commit}+changes" if _git(folder, "status", "--porcelain", "-uno") else commit


def host(accelerator: str | None = None) -> dict[str, str | int | float]:
    """Return processor, cores, memory in GB and accelerator; no name of machine or person."""
    return {
        "system": platform.system(),
        "processor": _processor(),
        "cores": os.cpu_count() or 1,
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "accelerator": accelerator or "none",
    }


def _git(folder: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *words],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _processor() -> str:
    described = Path("/proc/cpuinfo")
    if described.is_file():
        match = re.search(r"^model name\s*:\s*(.+)$", described.read_text(), re.MULTILINE)
        if match:
            return match[1].strip()
    return platform.processor() or platform.machine()
