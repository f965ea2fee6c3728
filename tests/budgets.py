"""Size of the house against its budgets in AGENTS.md: `python -m tests.budgets`. Over budget is exit code 1."""

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ROW = re.compile(r"^\| `(\w+)` \| ([\d,]+) \| ([\d,]+) \|$", re.MULTILINE)
"""A row of the table in AGENTS.md: package, most lines, most files."""
LONGEST_FILE = 800
MOST_FILES = 15


def budgets(text: str) -> dict[str, tuple[int, int]]:
    """Return package -> (most lines, most files) from AGENTS.md."""
    return {name: (_number(lines), _number(files)) for name, lines, files in ROW.findall(text)}


def modules(package: Path) -> list[Path]:
    """Return the Python files below a folder, in order."""
    return sorted(path for path in package.rglob("*.py") if "__pycache__" not in path.parts)


def n_lines(path: Path) -> int:
    """Return how many lines a file has, empty ones included."""
    return path.read_text(encoding="utf-8").count("\n")


def public_classes(path: Path) -> Iterator[str]:
    """Yield the names of the classes that a file defines at its top, private ones left out."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name


def shared_names(files: list[Path]) -> dict[str, list[str]]:
    """Return module stems and public classes that stand in more than one place, with the places."""
    places: dict[str, list[str]] = defaultdict(list)
    for path in files:
        where = path.relative_to(ROOT).as_posix()
        if path.stem not in ("__init__", "__main__", "tab", "view", "export", "session"):
            places[f"{path.stem}.py"].append(where)
        for name in public_classes(path):
            places[name].append(where)
    return {name: found for name, found in sorted(places.items()) if len(found) > 1}


def main() -> int:
    """Print the table and what stands out; 1 where a package is over its budget."""
    over = []
    product: list[Path] = []
    sys.stdout.write(f"{'package':10} {'lines':>7} {'budget':>7} {'files':>6} {'budget':>7}\n")
    for name, (most_lines, most_files) in budgets((ROOT / "AGENTS.md").read_text(encoding="utf-8")).items():
        files = modules(ROOT / name)
        lines = sum(map(n_lines, files))
        sys.stdout.write(f"{name:10} {lines:7,} {most_lines:7,} {len(files):6} {most_files:7}\n")
        if lines > most_lines or len(files) > most_files:
            over.append(name)
        if name != "tests":
            product += files
    folders = {path.parent for path in product}
    long = [(n_lines(path), path) for path in product if n_lines(path) > LONGEST_FILE]
    full = [(n, each) for each in sorted(folders) if (n := len(list(each.glob("*.py")))) > MOST_FILES]
    for count, path in [*sorted(long, reverse=True), *full]:
        what = "lines" if path.is_file() else "files in one folder"
        sys.stdout.write(f"{count:6,} {what}: {path.relative_to(ROOT)}\n")
    for name, found in shared_names(product).items():
        sys.stdout.write(f"{len(found)} x {name}: {', '.join(found)}\n")
    if over:
        sys.stdout.write(
            f"over budget: {', '.join(over)}. Remove as much as you add, or less of what few would miss.\n"
        )
    return int(bool(over))


def _number(text: str) -> int:
    return int(text.replace(",", ""))


if __name__ == "__main__":
    sys.exit(main())
