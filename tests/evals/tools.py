"""Other people's tools, installed in environments of their own and run there."""

import os
import subprocess
import sys
from pathlib import Path

PACKAGES = {
    "label-studio-sdk": ["label-studio-sdk"],
    "lm-eval": ["lm_eval[api]", "pydantic"],
    "inspect": ["inspect-ai", "openai"],
    "verifiers": ["verifiers>=0.4"],
    "uv": ["uv"],
}


def run(command: list[str], cwd: Path, bin: Path, **env: str) -> str:
    surroundings = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
    surroundings |= {"PATH": f"{bin}{os.pathsep}{os.environ['PATH']}", **env}
    ran = subprocess.run(command, cwd=cwd, env=surroundings, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, f"{' '.join(command)}\n{ran.stdout[-3000:]}\n{ran.stderr[-3000:]}"
    return ran.stdout


def installed(tool: str, tmp_path: Path) -> Path:
    """Return the bin folder of a fresh environment with the tool; ASSAY_TOOLS names a folder that keeps it.

    Installed by uv, which answers in seconds what pip takes minutes for.
    """
    kept = os.environ.get("ASSAY_TOOLS")
    place = (Path(kept) if kept else tmp_path) / f"venv-{tool}"
    if not place.exists():
        run([sys.executable, "-m", "venv", str(place)], tmp_path, place / "bin")
        run([str(place / "bin/pip"), "install", "-q", "uv"], tmp_path, place / "bin")
        python = str(place / "bin/python")
        run(["uv", "pip", "install", "-q", "--python", python, *PACKAGES[tool]], tmp_path, place / "bin")
    return place / "bin"
