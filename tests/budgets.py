"""Size of the code against AGENTS.md, and words of the documents: `python -m tests.budgets`. Over budget is exit code 1."""

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ROW = re.compile(r"^\| `(\w+)` \| ([\d,]+) \| ([\d,]+) \|$", re.MULTILINE)
"""A row of the table in AGENTS.md: package, most lines, most files."""
MOST_WORDS = {"README.md": 1_300, "docs": 24_000}
LONGEST_FILE = 600
MOST_FILES = 15
OF_EVERY_TAB = {"__init__", "__main__", "tab", "view", "export", "session", "form"}
OF_EVERY_TASK = {"task", "bank", "prompt", "records", "score", "report", "leaderboard"}
OF_EVERY_STAGE = {"build", "build_trainer", "options", "train", "upgrade"}
"""Functions that each tab, stage of training or migration has."""
ALONE = ("evals/metrics", "lab/commands")
"""Folders whose functions are called by nobody else: commands, and modules that `evaluate` loads."""


def sizes() -> dict[str, tuple[int, int, int, int]]:
    """Return package -> code lines, most code lines, files, most files."""
    found = {}
    for name, *most in ROW.findall((ROOT / "AGENTS.md").read_text(encoding="utf-8")):
        most_lines, most_files = (int(number.replace(",", "")) for number in most)
        files = modules(ROOT / name)
        found[name] = (sum(map(n_lines, files)), most_lines, len(files), most_files)
    return found


def over_budget() -> list[str]:
    """Return the packages with more lines or files than AGENTS.md gives them."""
    return [name for name, (lines, most, files, most_files) in sizes().items() if lines > most or files > most_files]


def words() -> dict[str, int]:
    """Return README.md and docs -> words, as `wc -w` counts them."""
    files = {
        name: [ROOT / name] if name.endswith(".md") else sorted((ROOT / name).rglob("*.md")) for name in MOST_WORDS
    }
    return {name: sum(len(each.read_text(encoding="utf-8").split()) for each in found) for name, found in files.items()}


def too_long() -> list[str]:
    """Return what of README.md and docs has more words than it may have."""
    return [name for name, count in words().items() if count > MOST_WORDS[name]]


def modules(package: Path) -> list[Path]:
    """Return the Python files below a folder, in order."""
    return sorted(path for path in package.rglob("*.py") if "__pycache__" not in path.parts)


@cache
def n_lines(path: Path) -> int:
    """Return how many lines of a file hold code: no blank lines, comments or docstrings."""
    text = path.read_text(encoding="utf-8")
    docs = set[int]()
    held = {number for number, line in enumerate(text.splitlines(), 1) if line.strip() and line.lstrip()[0] != "#"}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and node.value.value is not ...:
            docs.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        elif isinstance(node, ast.Constant | ast.JoinedStr):  # a text over several lines, blank ones among them
            held.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(held - docs)


@cache
def definitions(path: Path) -> list[tuple[str, bool]]:
    """Return the public functions and classes of a file, each with whether it is a class."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    known = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return [
        (each.name, isinstance(each, ast.ClassDef)) for each in body if isinstance(each, known) and each.name[0] != "_"
    ]


def shared_names(files: list[Path]) -> Iterator[tuple[str, list[str]]]:
    """Yield modules and public functions of one name in one package, and classes of one name, with their places."""
    places: dict[tuple[str, str], list[str]] = defaultdict(list)
    for path in files:
        where = path.relative_to(ROOT)
        if path.stem not in OF_EVERY_TAB | OF_EVERY_TASK:
            places[where.parts[0], f"{path.stem}.py"].append(where.as_posix())
        for name, is_class in definitions(path):
            if is_class:
                places["", name].append(where.as_posix())
            elif name not in OF_EVERY_STAGE and not where.as_posix().startswith(ALONE):
                places[where.parts[0], f"{name}()"].append(where.as_posix())
    for (_, name), found in sorted(places.items()):
        if len(found) > 1:
            yield name, found


def main() -> int:
    """Print the table and what stands out; 1 where a package is over its budget."""
    lines = [f"{'package':10} {'lines':>7} {'budget':>7} {'files':>6} {'budget':>7}"]
    lines += [f"{name:10} {a:7,} {b:7,} {c:6} {d:7}" for name, (a, b, c, d) in sizes().items()]
    lines += [f"{name:10} {count:7,} words, budget {MOST_WORDS[name]:,}" for name, count in words().items()]
    files = [path for name in sizes() if name != "tests" for path in modules(ROOT / name)]
    long = sorted(((n_lines(path), path) for path in files if n_lines(path) > LONGEST_FILE), reverse=True)
    lines += [f"{count:6,} lines: {path.relative_to(ROOT)}" for count, path in long]
    for folder in sorted({path.parent for path in files}):
        if (count := len(list(folder.glob("*.py")))) > MOST_FILES:
            lines.append(f"{count:6} files in one folder: {folder.relative_to(ROOT)}")
    lines += [f"{len(found)} x {name}: {', '.join(found)}" for name, found in shared_names(files)]
    over = [*over_budget(), *too_long()]
    if over:
        lines.append(f"over budget: {', '.join(over)}. Remove as much as you add, or less of what few would miss.")
    sys.stdout.write("\n".join(lines) + "\n")
    return int(bool(over))


if __name__ == "__main__":
    sys.exit(main())
