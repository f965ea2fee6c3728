"""What `assay` offers, by name, and the pages of docs/ that are made of it: commands, settings of the stages, file formats.

A page has `{{ commands() }}` where they stand: the lab puts them in when it shows it, and so does the site (mkdocs.yml).
"""

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import HTMLResponse

GROUPS = {
    "data": "Question sets of your own; questions, pairs and reviewed papers as JSONL files.",
    "train": "Train a stage of an adapter chain: SFT, then DPO, KTO or GRPO on top of it.",
    "eval": "Run a chain on questions, judge answers, measure calibration.",
    "chain": "Adapter chains: list, show, check, add a published one, import adapters, serve, export.",
    "review": "Peer review: read, clean, score, merge and compare concerns.",
    "refiner": "Short answers whose claims cite evidence: score them, run a chain on records.",
    "prefs": "Count votes and annotations, and export them as data sets.",
    "people": "Say who may enter the lab, as what, and read what they did.",
    "publish": "Publish to the Hub: checked first, private unless --public, verified after the upload.",
}
COMMANDS = {
    "ask": ("ask", "Ask a question; every stage answers as it writes."),
    "leaderboard": ("eval", "Show models and baselines in one table for each set of questions."),
    "lab": ("lab", "Start the lab and open it at http://127.0.0.1:7860."),
    "doctor": ("lab", "Check what the lab needs: packages, model, folders, database, port."),
    "backup": ("lab", "Copy the database whole, also while the lab runs."),
}
"""Commands of no group: the file that holds each, and what its line of help says."""
READ_ON = {
    "data": "question-sets",
    "train": "training",
    "eval": "metrics",
    "review": "review",
    "prefs": "preferences",
    "publish": "publishing",
    "ask": "tutorials/first-hour",
    "leaderboard": "metrics",
    "lab": "tutorials/first-hour",
    "doctor": "settings",
    "backup": "people",
}
"""The document that a command's help names, in `docs/`; the one of its own name if it is not here."""


def load_command(name: str) -> Any:
    """Return a group or command that `assay` lists, from its file."""
    from typer.main import get_group

    file, _ = COMMANDS.get(name, (name, ""))
    group = get_group(import_module(f"lab.commands.{file}").app)
    found = group.commands[name] if name in COMMANDS else group
    _name_document(
        found, f"Read on: docs/{READ_ON.get(name, name)}.md (in a running lab: /docs/{READ_ON.get(name, name)}.md)"
    )
    return found


def _name_document(command: Any, line: str) -> None:
    command.epilog = "\n\n".join(filter(None, (command.epilog, line)))
    for each in getattr(command, "commands", {}).values():
        _name_document(each, line)


# ---- the pages -----------------------------------------------------------------------------------


def every_command() -> Iterator[tuple[str, Any]]:
    """Yield the words of every command behind `assay`, and the command."""

    def walk(words: str, command: Any) -> Iterator[tuple[str, Any]]:
        if inside := getattr(command, "commands", None):
            for name, each in inside.items():
                yield from walk(f"{words} {name}", each)
        else:
            yield words, command

    for name in (*GROUPS, *COMMANDS):
        yield from walk(name, load_command(name))


@cache
def commands() -> str:
    """Return every command as its help tells it, with the settings that may stand in a file alone."""
    from typer import Context
    from typer.cli import get_docs_for_click

    made = dict[str, str]()
    for words, command in every_command():
        group = words.split()[0]
        if group in GROUPS:
            made.setdefault(group, f"## {group}\n\n{GROUPS[group]}\n")
        context = Context(command)
        told = get_docs_for_click(obj=command, ctx=context, indent=1 + (group in GROUPS), name=f"assay {words}")
        told = re.sub(r"(?m)^\* `--help`.*\n|^\*\*Usage\*\*:\n\n|; rarely set: .*(?=\.\n)", "", told)
        told = re.sub(r"(?m)^Example: (.+(?:\n(?!Example: ).+)*)", _example, told)
        if names := getattr(command, "only_in_file", ()):
            fields = command.kind.model_json_schema()["properties"]
            rows = _table([(f"--{name.replace('_', '-')}", fields[name]) for name in names])
            told = told.replace("Read on:", f"**Rarely set**, typed or in the file of `--config`:\n\n{rows}\nRead on:")
        made[words] = told
    return _page(made.values())


def _example(found: re.Match[str]) -> str:
    return f"```\n{' '.join(found[1].split())}\n```\n"


@cache
def settings() -> str:
    """Return the settings of the stages: those that all have, then what some have of their own or set otherwise."""
    from pydantic import BaseModel

    from training.stages import STAGES

    above = [each for kind in STAGES.values() for each in reversed(kind.__mro__) if issubclass(each, BaseModel)]
    sections: dict[str, dict[str, Any]] = {}
    for kind in dict.fromkeys(above):
        users = [name for name, stage in STAGES.items() if issubclass(stage, kind)]
        title = "Every stage" if len(users) == len(STAGES) else ", ".join(users)
        known = [
            dict(_fields(each.model_json_schema())) for each in above if each in kind.__mro__[1:] and each.model_fields
        ]
        for name, field in _fields(kind.model_json_schema()) if kind.model_fields else ():
            if not any(each.get(name) == field for each in known):
                sections.setdefault(title, {})[name] = field
    return _page(f"## {title}\n\n{_table(fields.items())}" for title, fields in sections.items())


@cache
def formats() -> str:
    """Return the fields of the files in `formats.toml`, and of the records inside."""
    from pydantic.json_schema import models_json_schema

    made, told = [], set[str]()
    for title, places in tomllib.loads(Path(__file__).with_name("formats.toml").read_text(encoding="utf-8")).items():
        records = [resolve_name(place.replace("_.", "evals.schema.", 1)) for place in places]
        found = models_json_schema([(each, "validation") for each in records])[1]["$defs"]
        names = dict.fromkeys([*(each.__name__ for each in records), *found])
        made.append(f"## {title}\n")
        for name in [each for each in names if each not in told and "properties" in found[each]]:
            made.append(f"### {name}\n\n{_meaning(found[name])}\n\n{_table(_fields(found[name]))}")
        told |= names.keys()
    return _page(made)


def _fields(record: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    required = record.get("required", ())
    return [(name, each | {"required": name in required}) for name, each in record["properties"].items()]


def _table(fields: Iterable[tuple[str, Mapping[str, Any]]]) -> str:
    lines = ["| name | type (default) | meaning |", "|---|---|---|"]
    for name, each in fields:
        told = ", required" if each.get("required") else ""
        if "default" in each and "const" not in each:
            told = f" (`{json.dumps(each['default'], ensure_ascii=False)}`)"
        cells = f"`{name}`", _kind(each) + told, _meaning(each)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _meaning(record: Mapping[str, Any]) -> str:
    return " ".join(record.get("description", "marks this kind" if "const" in record else "").split())


def _kind(value: Mapping[str, Any]) -> str:
    """Return the type of a value, or what it may be, in words and links."""
    match value:
        case {"const": fixed}:
            return f"`{fixed}`"
        case {"enum": choices}:
            return ", ".join(f"`{each}`" for each in choices)
        case {"$ref": place}:
            name = place.rsplit("/", 1)[-1]
            return f"[{name}](#{_anchor(name)})"
        case {"anyOf": kinds} | {"oneOf": kinds}:
            return " or ".join(dict.fromkeys(map(_kind, kinds)))
        case {"type": "array", **inside}:
            return f"list of {', '.join(map(_kind, inside.get('prefixItems') or [inside['items']]))}"
        case {"type": "object", "additionalProperties": {**inside}}:
            return f"mapping to {_kind(inside)}"
    limits = [f"{sign} {value[key]:,.10g}" for key, sign in LIMITS.items() if key in value]
    return f"{value.get('format') or value.get('type', 'any')} {', '.join(limits)}".strip()


LIMITS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}


def _page(sections: Iterable[str]) -> str:
    """Return the sections below a list of links to them, with links to the documents that they name."""
    text = re.sub(r"docs/(\S+\.md)(?: \(in a running lab: \S+\))?", r"[\1](\1)", "\n".join(sections))
    contents = ""
    for level, title in re.findall(r"(?m)^(##+) (.+)$", text):
        label = re.sub(r"`(?:assay (?:\w+ )?)?", "", title)
        contents += f"{' · ' if level == '###' else chr(10) + '- '}[{label}](#{_anchor(title)})"
    return f"{contents}\n\n{text}"


def _anchor(heading: str) -> str:
    """Return the id that the site gives a heading."""
    return re.sub(r"[\s-]+", "-", re.sub(r"<.*?>|&\w+;|[^\w\s-]", "", heading).strip().lower())


PAGES = {each.__name__: each for each in (commands, settings, formats)}


def define_env(env: Any) -> None:
    """Give the site the pages (zensical.extensions.macros)."""
    for each in PAGES.values():
        env.macro(each)


def document(request: "Request") -> "HTMLResponse":
    """Answer with one of the documents; links between them hold."""
    from starlette.responses import HTMLResponse

    from lab.ui.components import Html, document_title, draw, escape, markdown
    from lab.ui.text import DOCS, say

    path = f"{request.path_params['path']}.md"
    file = (DOCS / path).resolve()
    if not (file.is_file() and file.is_relative_to(DOCS.resolve())):
        return HTMLResponse(escape(say("document.gone")), 404)
    text = re.sub(r"\{\{ (\w+)\(\) \}\}", lambda found: PAGES[found[1]](), file.read_text(encoding="utf-8"))
    body = re.sub(
        r"<h(\d)>(.+?)</h", lambda found: f'<h{found[1]} id="{_anchor(found[2])}">{found[2]}</h', markdown(text)
    )
    return HTMLResponse(draw("document", title=document_title(path), body=Html(body)))
