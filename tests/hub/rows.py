"""Small folders of rows."""

import json
from pathlib import Path
from typing import Any

from evals.report import load_report
from evals.schema import EvalReport

REPORT = Path(__file__).with_name("report.json")
"""A report of two stages and a baseline on two questions."""


def put(folder: Path, name: str, rows: list[dict[str, Any]]) -> Path:
    """Write rows into a folder as JSONL and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return folder


def concerns() -> list[dict[str, Any]]:
    """Return the concerns of twelve papers, every fourth of another category."""
    kinds = [("other", "minor"), ("design_flaw", "major"), ("design_flaw", "minor"), ("design_flaw", "major")] * 3
    told = ({"text": f"Group {n} has no control.", "category": a, "severity": b} for n, (a, b) in enumerate(kinds))
    return [{"article_id": f"paper-{n}", "source": "demonstration", "concerns": [each]} for n, each in enumerate(told)]


def report() -> EvalReport:
    """Return the report."""
    return load_report(REPORT)


def put_report(folder: Path) -> Path:
    """Write the report into a folder as `assay eval run` does and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "kmp.json").write_bytes(REPORT.read_bytes())
    return folder
