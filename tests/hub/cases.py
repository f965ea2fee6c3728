"""The tables of cases.yaml, and texts held to what they were; ASSAY_WRITE_SNAPSHOTS=1 writes these anew."""

import os
from pathlib import Path
from typing import Any

import yaml

CASES: dict[str, Any] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))


def was(name: str, text: str) -> str:
    """Return how a text read when its snapshot was written."""
    file = Path(__file__).parent / "snapshots" / f"{name}.txt"
    if os.environ.get("ASSAY_WRITE_SNAPSHOTS"):
        file.write_text(text, encoding="utf-8")
    return file.read_text(encoding="utf-8")
