"""A Space as it is published: the files of its bundle, and our packages where its app imports them.

Bundles lie under `spaces/`; the metrics under `evals/metrics` are Spaces too, so that anybody's
`evaluate.load` finds them.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from markdown_it import MarkdownIt

from evals.errors import LabError
from evals.schema.publishing import Diagnostic
from hub.cards import render
from hub.cards.lint import body_of, known_front_matter
from hub.checks import Part, Upload, part_of
from hub.client import finding, wording

ROOT = Path(__file__).parents[1]
BUNDLES, METRICS = "spaces", "evals/metrics"
PACKAGES = ("evals", "training", "hub", "lab")
BESIDE = ("LICENSE", "THIRD-PARTY.md", "requirements.txt", "requirements-embedded.txt")
"""Files of the repository that go with the packages."""
DATA = ("json", "jsonl", "parquet", "csv", "toml", "yaml", "md", "txt", "xml", "pdf", "jinja", "mako", "safetensors")
PAGES = ("css", "html", "js", "svg", "woff2")
SUFFIXES = frozenset(f".{name}" for name in ("py", *DATA, *PAGES))
"""Kinds of files that packages are made of; whatever else lies among them stays where it is."""
LEFT = frozenset(("__pycache__", "published", "checkpoints"))
PIN = re.compile(r"[\w.-]+(?:\[[\w,-]+\])?\s*(?:[=<>~!]=?.+)?")


def bundles(root: Path = ROOT) -> dict[str, Path]:
    """Return every Space that can be published, by name; none where Assay is installed without them."""
    cards = [*root.glob(f"{BUNDLES}/*/README.md"), *root.glob(f"{METRICS}/*/README.md")]
    return {card.parent.name: card.parent for card in sorted(cards, key=lambda card: card.parent.name)}


def bundle_folder(name: str, root: Path = ROOT) -> Path:
    """Return the folder of a Space; LabError if there is none of that name."""
    known = bundles(root)
    if not known:
        raise LabError(wording("no bundles", folder=root))
    if name not in known:
        raise LabError(wording("no space", name=name, known=", ".join(known)))
    return known[name]


def pack_space(folder: Path, repo: str, made: Mapping[str, bytes], root: Path = ROOT) -> Upload:
    """Return all that goes into a Space's repository, with findings; `made` files were written for this publication."""
    parts = {path: part_of(file) for path, file in sorted(_files(folder))}
    parts |= {path: part_of(content) for path, content in made.items()}
    if _imports_ours(parts):
        own = {"requirements.txt": parts["requirements.txt"]} if "requirements.txt" in parts else {}
        parts |= package_parts(root) | own
    card = parts["README.md"].text() if "README.md" in parts else ""
    settings = known_front_matter(card)
    if card and settings.get("sdk") == "static" and "index.html" not in parts:
        body = MarkdownIt("commonmark", {"html": False}).enable("table").render(body_of(card))
        parts["index.html"] = part_of(render("page.html", title=settings.get("title", ""), body=body).encode())
    findings = list(_findings(parts, settings))
    if folder.parent == root / METRICS and repo.split("/")[-1] != folder.name:
        name = f"{repo.split('/', maxsplit=1)[0]}/{folder.name}"
        findings.append(finding("metric", f"{folder.name}.py", repo=repo, name=name))
    return Upload("space", repo, parts, tuple(findings))


def package_parts(root: Path = ROOT) -> dict[str, Part]:
    """Return our packages and what belongs to them, as they lie here."""
    found = {path: file for name in PACKAGES for path, file in _files(root / name, f"{name}/")}
    found |= {name: root / name for name in BESIDE if (root / name).is_file()}
    return {path: part_of(file) for path, file in sorted(found.items())}


def _files(folder: Path, before: str = "") -> Iterator[tuple[str, Path]]:
    for file in folder.rglob("*"):
        places = file.relative_to(folder).parts
        is_kept = file.suffix in SUFFIXES and not LEFT & set(places)
        if file.is_file() and is_kept and not any(place.startswith(".") for place in places):
            yield before + "/".join(places), file


def _imports_ours(parts: Mapping[str, Part]) -> bool:
    """Whether the app imports one of our packages; they import each other, so all of them go along."""
    try:
        nodes = list(ast.walk(ast.parse(parts["app.py"].read()))) if "app.py" in parts else []
    except SyntaxError:
        return False
    names = [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    names += [each.name for node in nodes if isinstance(node, ast.Import) for each in node.names]
    return any(name.split(".")[0] in PACKAGES for name in names)


def _findings(parts: Mapping[str, Part], settings: Mapping[str, object]) -> Iterator[Diagnostic]:
    """Yield why a Space with these files would not start."""
    if settings.get("sdk") == "gradio":
        app = str(settings.get("app_file") or "app.py")
        if app not in parts:
            yield finding("no app", "README.md", app=app)
        if "sdk_version" not in settings:
            yield finding("no sdk_version", "README.md")
        lines = parts["requirements.txt"].text().splitlines() if "requirements.txt" in parts else []
        wanted = [name for line in lines if (name := line.split("#")[0].strip())]
        if not any(re.match(r"spaces\b", line) for line in wanted):
            yield finding("no spaces", "requirements.txt")
        for number, line in enumerate(wanted, 1):
            if not PIN.fullmatch(line):
                yield finding("no requirement", "requirements.txt", number)
    for path, part in parts.items():
        if path.startswith("spaces/"):
            yield finding("spaces folder", path)
        elif path.endswith(".py") and "/" not in path:
            try:
                ast.parse(part.read())
            except SyntaxError as error:
                yield finding("no Python", path, error.lineno, error=error.msg)
