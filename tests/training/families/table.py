"""The table of families in docs/chain.md: what is adapted of each, made of what came of each step.

python -m tests.training.families.table     takes every family through the sequence and writes the table
"""

import sys
import tempfile
from pathlib import Path

from tests.training.families.bases import described
from tests.training.families.sequence import STEPS, Outcome, taken_through

PAGE = Path(__file__).parents[3] / "docs" / "chain.md"
HEAD = ("adapted", "families")
BETWEEN = " · "
FIRST = f"| {' | '.join(HEAD)} |"
PASSED = ("ok", "≤ 1e-4")
TOWERS = ("vision", "audio", "visual", "projector")


def row_of(name: str, found: Outcome) -> str:
    """Return what is adapted of a family, and each step that did not end as all do."""
    failed = [f"{step}: {found.cells[step]}" for step in STEPS if found.cells[step] not in PASSED]
    return "; ".join((_remark(name, found), *failed))


def rows_of(page: str) -> dict[str, str]:
    """Return what the page says of each family."""
    lines = page[page.index(FIRST) :].split("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("| ").split("|")] for line in lines]
    return {name: remark for remark, names in cells for name in names.split(BETWEEN)}


def written(page: str, remarks: dict[str, str]) -> str:
    """Return the page with these families in the table: a line for those of which the same is adapted."""
    start = page.index(FIRST)
    families = {remark: [name for name in remarks if remarks[name] == remark] for remark in remarks.values()}
    rows = [f"| {remark} | {BETWEEN.join(names)} |" for remark, names in families.items()]
    end = start + len(page[start:].split("\n\n")[0])
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
    remarks = {}
    for name in described()["families"]:
        with tempfile.TemporaryDirectory() as folder:
            found = taken_through(name, Path(folder))
        remarks[name] = row_of(name, found)
        sys.stderr.write("\n".join((f"{name}: {remarks[name]}", *found.refusals, "")))
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), remarks), encoding="utf-8")


if __name__ == "__main__":
    main()
