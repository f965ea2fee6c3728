"""A Space as it is published: the files of its bundle, and of our packages what its app imports, at once or late.

Bundles lie under `spaces/`; the metrics under `evals/metrics` are Spaces too, so that anybody's
`evaluate.load` finds them.
"""

import ast
import re
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from huggingface_hub import HfApi, SpaceHardware, Volume
from huggingface_hub.utils import parse_hf_mount
from markdown_it import MarkdownIt

from evals.errors import LabError
from evals.schema.runs import Diagnostic
from hub.cards import NO_OWN, OwnCard, about, add_own, body_of, known_front_matter, render
from hub.checks import Part, Upload, part_of
from hub.client import TROUBLE, explain, finding, wording

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


def pack_space(folder: Path, repo: str, made: Mapping[str, bytes], root: Path = ROOT, own: OwnCard = NO_OWN) -> Upload:
    """Return all that goes into a Space's repository, with findings; `made` files were written for this publication.

    `own` is what the publisher says on the card.
    """
    parts = {path: part_of(file) for path, file in sorted(_files(folder))}
    parts |= {path: part_of(content) for path, content in made.items()}
    parts = _imported_parts(folder, root) | parts
    card = add_own(parts["README.md"].text(), own) if "README.md" in parts else ""
    settings = known_front_matter(card)
    if card:
        card = card.replace("From Assay.", about(repo, "space", licence=settings.get("license")))
        card = card.replace(f'"{METRICS}/{folder.name}")  # a path, so nothing is downloaded', f'"{repo}")')
        parts["README.md"] = part_of(card.encode())
    if card and settings.get("sdk") == "static" and "index.html" not in parts:
        body = MarkdownIt("commonmark", {"html": False}).enable("table").render(body_of(card))
        parts["index.html"] = part_of(render("page.html", title=settings.get("title", ""), body=body).encode())
    findings: list[Diagnostic] = []
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


def _imported_parts(folder: Path, root: Path) -> dict[str, Part]:
    """Return the files of our packages that an app needs: the modules that it imports, and the data beside them.

    `spaces/bundles.toml` names what is imported by name (`also`), and what the app could import and never does (`never`).
    """
    table = tomllib.loads((root / BUNDLES / "bundles.toml").read_text(encoding="utf-8"))
    told = table.get(folder.name, {})
    app, never = folder / "app.py", [*table["every"]["never"], *told.get("never", ())]
    modules = _imported_modules([*told.get("also", ()), *(_names(app) if app.is_file() else ())], root, never)
    packages = {file.parent for file in modules if file.name == "__init__.py"}
    if not packages:
        return {}

    def is_wanted(path: str) -> bool:
        file = root / path
        package = next(place for place in file.parents if (place / "__init__.py").is_file() or place == root)
        is_module = package == file.parent and file.suffix == ".py"
        is_named = file in modules if is_module else path in BESIDE or package in packages
        return is_named and (is_module or not _is_any(path, never))

    return {path: part for path, part in package_parts(root).items() if is_wanted(path)}


def _is_any(path: str, patterns: Collection[str]) -> bool:
    return any(fnmatch(path, pattern) for pattern in patterns)


def _imported_modules(names: Iterable[str], root: Path, never: Collection[str]) -> set[Path]:
    """Return our modules that have these names, and those that they import, at once or late."""
    found, waiting = set[Path](), list(names)
    while waiting:
        parts = waiting.pop().split(".")
        places = [root.joinpath(*parts[:end]) for end in range(1, len(parts) + 1) if parts[0] in PACKAGES]
        for file in (each for place in places for each in (place.with_suffix(".py"), place / "__init__.py")):
            if file not in found and file.is_file() and not _is_any(file.relative_to(root).as_posix(), never):
                found.add(file)
                waiting += _names(file)
    return found


def _names(file: Path) -> Iterator[str]:
    """Yield what a file imports, in full; not what only a type checker reads."""
    waiting: list[ast.AST] = []
    with suppress(SyntaxError):  # told among the findings
        waiting.append(ast.parse(file.read_bytes()))
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{each.name}" for each in node.names)
        elif isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif not (isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"):
            waiting += (each for each in ast.iter_child_nodes(node) if not isinstance(each, ast.expr))


def space_options(
    hardware: str | None,
    volumes: Sequence[str],
    secrets: Sequence[str],
    variables: Sequence[str],
    known: Mapping[str, str],
) -> dict[str, Any]:
    """Return what a Space is given besides its files, as `HfApi.create_repo` takes it; LabError for what makes no sense.

    A volume is hf://[TYPE/]SOURCE:/PLACE, a variable NAME=VALUE; of a secret the name is given, and its value is in `known`.
    """
    flavours = [each.value for each in SpaceHardware]
    if hardware and hardware not in flavours:
        raise LabError(wording("no hardware", hardware=hardware, known=", ".join(flavours)))
    if missing := [name for name in secrets if not known.get(name)]:
        raise LabError(wording("no secret", names=", ".join(missing)))
    if unset := [each for each in variables if not re.fullmatch(r"[A-Za-z_]\w*=.*", each, re.DOTALL)]:
        raise LabError(wording("no variable", given=unset[0].split("=")[0]))
    try:
        mounts = [parse_hf_mount(each) for each in volumes]
    except ValueError as error:
        raise LabError(wording("no volume", problem=str(error).splitlines()[0])) from None
    given = {
        "space_hardware": hardware,
        "space_volumes": [
            Volume(
                type=mount.source.type, source=mount.source.id, mount_path=mount.mount_path, read_only=mount.read_only,
                path=mount.source.path_in_repo or None, revision=mount.source.revision or None,
            )
            for mount in mounts
        ],
        "space_secrets": [{"key": name, "value": known[name]} for name in secrets],
        "space_variables": [dict(zip(("key", "value"), each.split("=", 1), strict=True)) for each in variables],
    }  # fmt: skip
    return {name: value for name, value in given.items() if value}


def configure(api: HfApi, repo: str, options: Mapping[str, Any]) -> None:
    """Give a Space that is there already what `space_options` returned; HubTrouble if the Hub refuses."""
    try:
        for each in options.get("space_variables", ()):
            api.add_space_variable(repo, **each)
        for each in options.get("space_secrets", ()):
            api.add_space_secret(repo, **each)
        if volumes := options.get("space_volumes"):
            api.set_space_volumes(repo, volumes)
        if hardware := options.get("space_hardware"):
            api.request_space_hardware(repo, hardware)
    except TROUBLE as error:
        raise explain(error, f"cannot set up the Space {repo}") from error
