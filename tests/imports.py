"""Reads who imports whom from source text; nothing is executed."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True)
class Import:
    """One imported module, in full, and where.

    `inline` is inside a function, so only when that function runs, or the file itself; `typing` is for type checkers alone.
    """

    module: str
    file: Path
    line: int
    inline: bool
    typing: bool = False

    @property
    def root(self) -> str:
        """The top-level package: `torch` of `torch.nn`."""
        return self.module.split(".")[0]


@cache
def imports_of(file: Path, root: Path) -> list[Import]:
    """Return every import in `file`, relative ones resolved against `root`.

    `from a.b import c` counts as `a.b.c`, whether c is a module or a name in one.
    `importlib.import_module("a")` and `__import__("a")` count when the name is written out.
    """
    relative, source = file.relative_to(root), file.read_text(encoding="utf-8")
    skipped = () if "import_module" in source or "__import__" in source else ast.expr  # most of a file is expressions
    return [
        Import(module, relative, getattr(node, "lineno", 0), inline, typing)
        for node, inline, typing in _walk(ast.parse(source, str(file)), skipped)
        for module in _modules(node, relative.parent.parts)
    ]


def _walk(
    node: ast.AST, skipped: type | tuple[()], inside: bool = False, typing: bool = False
) -> Iterator[tuple[ast.AST, bool, bool]]:
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, skipped):
            yield child, inside, typing
            is_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            asked = ast.unparse(child.test) if isinstance(child, ast.If) else ""
            is_late = is_function or asked.startswith("__name__ ==")
            yield from _walk(child, skipped, inside or is_late, typing or asked.endswith("TYPE_CHECKING"))


def _modules(node: ast.AST, package: tuple[str, ...]) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        above = package[: max(len(package) - node.level + 1, 0)] if node.level else ()
        start = [*above, *([node.module] if node.module else [])]
        return [".".join([*start, alias.name]) for alias in node.names]
    if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
        name = getattr(node.func, "attr", None) or getattr(node.func, "id", None)
        return [str(node.args[0].value)] if name in {"import_module", "__import__"} else []
    return []


def canonical(name: str) -> str:
    """Return a distribution's name as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()
