"""The table of families in docs/chain.md: a row per family, made of what came of each step.

python -m tests.training.families.table     takes every family through the sequence and writes the table
"""

import sys
import tempfile
from pathlib import Path

from tests.training.families.bases import described
from tests.training.families.sequence import STEPS, Outcome, taken_through

PAGE = Path(__file__).parents[3] / "docs" / "chain.md"
HEAD = ("family", "adapted")
FIRST = f"| {' | '.join(HEAD)} |"
PASSED = ("ok", "≤ 1e-4")
TOWERS = ("vision", "audio", "visual", "projector")


def row_of(name: str, found: Outcome) -> str:
    """Return the line of the table for a family: what is adapted, and each step that did not end as all do."""
    failed = [f"{step}: {found.cells[step]}" for step in STEPS if found.cells[step] not in PASSED]
    return f"| {name} | {'; '.join((_remark(name, found), *failed))} |"


def rows_of(page: str) -> dict[str, str]:
    """Return the table's lines as they stand on the page, by family."""
    lines = page[page.index(FIRST) :].splitlines()[2:]
    table = lines[: next((at for at, line in enumerate(lines) if not line.startswith("|")), len(lines))]
    return {line.split("|")[1].strip(): line for line in table}


def written(page: str, rows: list[str]) -> str:
    """Return the page with these lines in the table."""
    start = page.index(FIRST)
    end = start + len("\n".join(page[start:].splitlines()[: 2 + len(rows_of(page))]))
    return page[:start] + "\n".join((FIRST, f"|{'---|' * len(HEAD)}", *rows)) + page[end:]


def _remark(name: str, found: Outcome) -> str:
    told = described()["families"][name]
    if not found.layers:
        return "nothing: refused before the first step"
    kinds = dict.fromkeys(layer.rpartition(".")[2].removesuffix("_proj") for layer in found.layers)
    text = ", ".join(sorted(kinds))
    settings = str(told["config"])
    left_out = []
    if "num_experts" in settings or "num_local_experts" in settings:
        left_out += [] if any("experts" in layer for layer in found.layers) else ["experts"]
    if "vision_config" in settings:
        left_out += [] if any(tower in layer for tower in TOWERS for layer in found.layers) else ["towers"]
    if left_out:
        text += f"; {' and '.join(left_out)} left out"
    return f"{text}; nf4 weights" if told.get("weights") == "nf4" else text


def main() -> None:
    """Take every family through the sequence and write what came of it to the page."""
    rows = []
    for name in described()["families"]:
        with tempfile.TemporaryDirectory() as folder:
            found = taken_through(name, Path(folder))
        rows.append(row_of(name, found))
        sys.stderr.write("\n".join((rows[-1], *found.refusals, "")))
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), rows), encoding="utf-8")


if __name__ == "__main__":
    main()
