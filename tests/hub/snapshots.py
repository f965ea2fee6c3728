"""Texts held to what they were; ASSAY_WRITE_SNAPSHOTS=1 writes them anew."""

import os
from pathlib import Path

FOLDER = Path(__file__).parent / "snapshots"


def was(name: str, text: str) -> str:
    """Return how a text read when its snapshot was written."""
    file = FOLDER / f"{name}.txt"
    if os.environ.get("ASSAY_WRITE_SNAPSHOTS"):
        FOLDER.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return file.read_text(encoding="utf-8")
