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
from evals.schema.publishing import Finding
from hub.cards.lint import FrontMatterError, body_of, read_front_matter
from hub.checks import Limits, size_finding
from hub.plan import Parcel, Part, part_of

ROOT = Path(__file__).parents[1]
BUNDLES, METRICS = "spaces", "evals/metrics"
PACKAGES = ("evals", "training", "hub", "lab")
BESIDE = ("LICENSE", "THIRD-PARTY.md", "requirements.txt", "requirements-embedded.txt")
"""Files of the repository that go with the packages."""
CODE = (
    ".py",
    ".json",
    ".jsonl",
    ".parquet",
    ".csv",
    ".toml",
    ".yaml",
    ".md",
    ".txt",
    ".xml",
    ".pdf",
)
SHOWN = (".css", ".html", ".js", ".svg", ".woff2", ".jinja", ".mako", ".safetensors")
SUFFIXES = frozenset((*CODE, *SHOWN))
"""Kinds of files that packages are made of; whatever else lies among them stays where it is."""
LEFT = frozenset(("__pycache__", "published", "checkpoints"))
PIN = re.compile(r"[\w.-]+(?:\[[\w,-]+\])?\s*(?:[=<>~!]=?.+)?")
PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>body{{font:17px/1.6 system-ui,sans-serif;margin:2rem auto;max-width:46rem;padding:0 1rem}}
pre{{background:#f2f1ee;overflow:auto;padding:1rem}}td,th{{padding:.3rem .8rem .3rem 0;text-align:left;vertical-align:top}}</style>
{body}
</html>
"""


def bundles(root: Path = ROOT) -> dict[str, Path]:
    """Return every Space that can be published, by name; none where Assay is installed without them."""
    cards = [*root.glob(f"{BUNDLES}/*/README.md"), *root.glob(f"{METRICS}/*/README.md")]
    return {card.parent.name: card.parent for card in sorted(cards, key=lambda card: card.parent.name)}


def bundle_folder(name: str, root: Path = ROOT) -> Path:
    """Return the folder of a Space; LabError if there is none of that name."""
    known = bundles(root)
    if name in known:
        return known[name]
    if not known:
        raise LabError(
            f"there are no bundles in {root}: Spaces are published from a clone of the repository, not from"
            " an installed package."
        )
    raise LabError(f"there is no Space called {name!r}; there are {', '.join(known)}.")


def pack_space(folder: Path, repo: str, made: Mapping[str, bytes], limits: Limits, root: Path = ROOT) -> Parcel:
    """Return everything that goes into a Space's repository; what is wrong is among its findings.

    `made` are files that were written for this publication, such as the page of a leaderboard.
    """
    parts = {path: part_of(file) for path, file in sorted(_files(folder))}
    parts |= {path: part_of(content) for path, content in made.items()}
    if _imports_ours(parts):
        own = {"requirements.txt": parts["requirements.txt"]} if "requirements.txt" in parts else {}
        parts |= package_parts(root) | own
    settings = _settings(parts)
    if settings.get("sdk") == "static" and "index.html" not in parts and "README.md" in parts:
        parts["index.html"] = part_of(_page(parts["README.md"].read().decode(), settings))
    findings = [*_findings(parts, settings), *_metric_findings(folder, repo, root)]
    for path, part in parts.items():
        too_large = size_finding(path, part.size, limits)
        findings += [too_large] if too_large else []
    return Parcel("space", repo, parts, tuple(findings))


def package_parts(root: Path = ROOT) -> dict[str, Part]:
    """Return our packages and what belongs to them, as they lie here."""
    found = {path: file for name in PACKAGES for path, file in _files(root / name, f"{name}/")}
    found |= {name: root / name for name in BESIDE if (root / name).is_file()}
    return {path: part_of(file) for path, file in sorted(found.items())}


def sdk_of(parcel: Parcel) -> str:
    """Return what a Space runs on, from its card: gradio unless that says otherwise."""
    return str(_settings(parcel.parts).get("sdk") or "gradio")


def _files(folder: Path, before: str = "") -> Iterator[tuple[str, Path]]:
    for file in folder.rglob("*"):
        places = file.relative_to(folder).parts
        is_kept = file.suffix in SUFFIXES and not LEFT & set(places)
        if file.is_file() and is_kept and not any(place.startswith(".") for place in places):
            yield before + "/".join(places), file


def _imports_ours(parts: Mapping[str, Part]) -> bool:
    """Whether the app imports one of our packages; they import each other, so all of them go along."""
    if "app.py" not in parts:
        return False
    try:
        tree = ast.parse(parts["app.py"].read())
    except SyntaxError:
        return False
    names = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    names += [each.name for node in ast.walk(tree) if isinstance(node, ast.Import) for each in node.names]
    return any(name.split(".")[0] in PACKAGES for name in names)


def _settings(parts: Mapping[str, Part]) -> dict[str, object]:
    if "README.md" not in parts:
        return {}
    try:
        return read_front_matter(parts["README.md"].read().decode("utf-8", "replace")) or {}
    except FrontMatterError:
        return {}


def _page(card: str, settings: Mapping[str, object]) -> bytes:
    """Return a card as a page of its own, for a Space that has nothing else to show."""
    body = MarkdownIt("commonmark", {"html": False}).enable("table").render(body_of(card))
    return PAGE.format(title=settings.get("title", ""), body=body).encode()


def _findings(parts: Mapping[str, Part], settings: Mapping[str, object]) -> Iterator[Finding]:
    """Yield why a Space with these files would not start."""
    if settings.get("sdk") == "gradio":
        yield from _gradio(parts, settings)
    for path in parts:
        if path.startswith("spaces/"):
            yield Finding(
                check="space",
                path=path,
                problem="a folder called spaces hides the package of that name, which gradio imports on a"
                " Space, and the app would not start",
                remedy="give the folder another name",
            )
        elif path.endswith(".py") and "/" not in path:
            yield from _syntax(path, parts[path])


def _gradio(parts: Mapping[str, Part], settings: Mapping[str, object]) -> Iterator[Finding]:
    app = str(settings.get("app_file") or "app.py")
    if app not in parts:
        problem, remedy = f"names {app} as the app, and there is no such file", "set app_file"
        yield Finding(check="space", path="README.md", problem=problem, remedy=remedy)
    if "sdk_version" not in settings:
        yield Finding(
            check="space",
            path="README.md",
            problem="says nothing of the version of gradio, so another may be taken every time it is built",
            remedy="write sdk_version: and the version that was tested",
        )
    lines = parts["requirements.txt"].read().decode() if "requirements.txt" in parts else ""
    wanted = [line.split("#")[0].strip() for line in lines.splitlines()]
    wanted = [line for line in wanted if line]
    if not any(re.match(r"spaces\b", line) for line in wanted):
        yield Finding(
            check="space",
            path="requirements.txt",
            problem="does not name the package spaces, which gradio imports on a Space",
            remedy="add spaces with its version",
        )
    for number, line in enumerate(wanted, 1):
        if not PIN.fullmatch(line):
            yield Finding(
                check="space",
                path="requirements.txt",
                line=number,
                problem="is no requirement that pip takes by name",
                remedy="write NAME==VERSION",
            )


def _syntax(path: str, part: Part) -> Iterator[Finding]:
    try:
        ast.parse(part.read())
    except SyntaxError as error:
        yield Finding(
            check="space",
            path=path,
            line=error.lineno,
            problem=f"is no Python that can run: {error.msg}",
            remedy="mend it, and start it here once",
        )


def _metric_findings(folder: Path, repo: str, root: Path) -> Iterator[Finding]:
    if folder.parent == root / METRICS and repo.split("/")[-1] != folder.name:
        yield Finding(
            check="space",
            path=f"{folder.name}.py",
            problem=f"evaluate.load({repo!r}) looks for a file named after the repository",
            remedy=f"publish it as {repo.split('/', maxsplit=1)[0]}/{folder.name}",
        )
