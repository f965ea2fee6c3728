"""What is wrong with a card, ours or anybody's, read offline: each finding says why and what to do.

Also what no text may hold. Patterns and wordings stand in lint.yaml. detect-secrets 1.5 was looked at: its last release is
of 2024, it knows no keys of Hugging Face, Anthropic, Google or W&B, no local paths and no personal data, and guesses by
entropy, which checksums on cards set off. A model-index is read by huggingface_hub.
"""

import ast
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from huggingface_hub.repocard_data import model_index_to_eval_results

from evals.schema.publishing import Diagnostic
from hub.cards.licences import HUB_IDS

RULES: dict[str, Any] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
MOST = 20
"""Findings of one file that are listed."""


@dataclass(frozen=True)
class Pattern:
    """One kind of thing to look for."""

    name: str
    regex: re.Pattern[str]
    remedy: str = "remove it, or ask the person first"
    is_error: bool = True


WITHDRAW = "remove it, and withdraw it where it was issued"
KEYS = (
    *(Pattern(name, re.compile(text), WITHDRAW) for name, text in RULES["secrets"].items()),
    Pattern("a path of this machine", re.compile(RULES["local_path"]), "write a name or a relative path instead"),
)
E_MAIL, PHONE = re.compile(RULES["e_mail"]), re.compile(RULES["phone"])
PATTERNS = (*KEYS, Pattern("an e-mail address", E_MAIL))
ROW_PATTERNS = (
    *KEYS,
    Pattern("an e-mail address", E_MAIL, is_error=False),
    Pattern("a telephone number", PHONE, is_error=False),
)
"""In the rows of a data set people may be named on purpose: those are warnings there."""


def _of_card(problem: str, remedy: str, line: int, is_error: bool = True) -> Diagnostic:
    return Diagnostic(check="card", path="README.md", problem=problem, remedy=remedy, line=line, is_error=is_error)


def scan(path: str, text: str, patterns: Iterable[Pattern] = PATTERNS) -> list[Diagnostic]:
    """Return what must not be published in a text, errors first, by line; values are never repeated."""
    found: list[Diagnostic] = []
    for pattern in patterns:
        known: dict[str, Any] = {
            "problem": f"{pattern.name} stands there",
            "remedy": pattern.remedy,
            "is_error": pattern.is_error,
        }
        check = "secrets" if pattern.is_error else "personal data"
        lines = dict.fromkeys(_lines(text, pattern.regex))
        found += [Diagnostic(check=check, path=path, line=line, **known) for line in lines]
    return sorted(found, key=lambda each: (not each.is_error, each.line or 0))[:MOST]


def _lines(text: str, regex: re.Pattern[str]) -> Iterator[int]:
    line, at = 1, 0
    for match in regex.finditer(text):
        line, at = line + text.count("\n", at, match.start()), match.start()
        yield line


FRONT_MATTER = re.compile(r"\A\s*---\r?\n(?P<yaml>.*?)\r?\n---\s*(?:\r?\n|\Z)", re.DOTALL)
REPO_ID = re.compile(r"(?:[A-Za-z0-9][\w.-]{0,95}/)?[A-Za-z0-9][\w.-]{0,95}")
RELATIONS = ("adapter", "finetune", "quantized", "merge")
COLOURS = ("red", "yellow", "green", "blue", "indigo", "purple", "pink", "gray")
SDKS = ("gradio", "docker", "static")
LISTS = ("tags", "datasets", "metrics", "language", "task_categories", "size_categories")


class FrontMatterError(ValueError):
    """The text between the dashes is no YAML mapping."""


def read_front_matter(text: str) -> dict[str, Any] | None:
    """Return the front matter of a card, None if it has none; FrontMatterError if it is no mapping."""
    match = FRONT_MATTER.match(text)
    if match is None:
        return None
    try:
        found = yaml.safe_load(match["yaml"])
    except yaml.YAMLError as error:
        raise FrontMatterError(" ".join(str(error).split())) from None
    if not isinstance(found or {}, dict):
        raise FrontMatterError("it is no list of keys and values")
    return found or {}


def known_front_matter(text: str) -> dict[str, Any]:
    """Return the front matter of a card, empty where there is none that can be read."""
    try:
        return read_front_matter(text) or {}
    except FrontMatterError:
        return {}


def body_of(text: str) -> str:
    """Return a card without its front matter."""
    return FRONT_MATTER.sub("", text, count=1)


def front_matter_findings(text: str, kind: str) -> list[Diagnostic]:
    """Return what is wrong with the front matter of a model's, data set's or Space's card; errors are what the Hub refuses."""
    front, found = text[: len(text) - len(body_of(text))].splitlines(), []

    def add(key: str, got: object = None, rule: str | None = None, *, is_error: bool = True) -> None:
        problem, remedy, *warning = RULES["front_matter"][rule or key]
        line = next((number for number, each in enumerate(front, 1) if each.startswith(f"{key}:")), 1)
        found.append(_of_card(problem.format(got=got, key=key), remedy.format(key=key), line, is_error and not warning))

    try:
        data = read_front_matter(text)
    except FrontMatterError as error:
        add("yaml", error)
        return found
    if data is None:
        add("missing", is_error=kind == "space")
        return found
    licences = data.get("license")
    for licence in licences if isinstance(licences, list) else [licences]:
        if licence is not None and licence not in HUB_IDS:
            add("license", licence)
    if licences is None:
        add("license", rule="no license")
    if "licence" in data:
        add("licence")
    if licences == "other" and not data.get("license_name"):
        add("license_name")
    for key in LISTS:
        value = data.get(key)
        is_plain = isinstance(value, str) and key in ("datasets", "language")
        is_list = isinstance(value, list) and all(isinstance(each, str) for each in value)
        if value is not None and not is_plain and not is_list:
            add(key, rule="list")
    bases = data.get("base_model")
    for base in bases if isinstance(bases, list) else [bases]:
        if base is not None and not REPO_ID.fullmatch(str(base)):
            add("base_model", "a local path" if re.match(r"[/~.]|.*\\", str(base)) else repr(str(base)))
    if data.get("base_model_relation") not in (None, *RELATIONS):
        add("base_model_relation", data["base_model_relation"])
    try:
        model_index_to_eval_results(data.get("model-index") or [{"name": "", "results": []}])
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        add("model-index", f"{type(error).__name__}: {error}")
    if kind == "space":
        if data.get("sdk") not in SDKS:
            add("sdk")
        for key in ("colorFrom", "colorTo"):
            if data.get(key) not in (None, *COLOURS):
                add(key, data[key], "colour")
        if len(str(data.get("short_description") or "")) > 60:
            add("short_description")
        if isinstance(data.get("python_version"), float):
            add("python_version")
    return found


CODE = re.compile(r"^```python\n(?P<code>.*?)^```", re.DOTALL | re.MULTILINE)
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"!?\[[^\]]*\]\((?P<target>[^)\s]+)\)")
LOADERS = ("from_pretrained", "load_adapter", "load_dataset", "hf_hub_download")
UNPINNED = "this loads whatever the repository holds on that day", "add revision=, a commit or a tag that does not move"
FORMATS = ("json", "parquet", "csv")
"""What `load_dataset` is told to load local files."""


def lint_card(text: str, kind: str, files: Collection[str] | None = None) -> list[Diagnostic]:
    """Return what is wrong with a model's, data set's or Space's card.

    `files` are those beside it, to look for what it links to; None = not known. Errors are what the
    Hub refuses, what misleads readers, and what must not be published at all.
    """
    found = [*front_matter_findings(text, kind), *scan("README.md", text)]
    prose = FENCED.sub(lambda block: "\n" * block[0].count("\n"), text)
    for pattern, what in RULES["placeholders"].items():
        for match in re.finditer(pattern, text if "None" in pattern else prose):
            told = (f"{what} stands there: readers learn nothing", "write what is the case, or leave the sentence out")
            found.append(_of_card(*told, _at(text, match)))
    found += _code(text)
    for match in LINK.finditer(prose) if files is not None else ():
        target = match["target"].split("#")[0]
        if target and not re.match(r"[a-z]+:", target) and target.removeprefix("./") not in (files or ()):
            problem = f"the link to {target!r} leads nowhere: there is no such file beside the card"
            found.append(_of_card(problem, "add the file, or link to a full address", _at(prose, match)))
    found += [_of_card(*each, line=1, is_error=False) for each in _wishes(kind, known_front_matter(text), text)]
    return sorted(found, key=lambda each: (not each.is_error, each.line or 0))


def _code(text: str) -> Iterator[Diagnostic]:
    for block in CODE.finditer(text):
        line = _at(text, block)
        try:
            tree = ast.parse(block["code"])
        except SyntaxError as error:
            problem = f"this Python does not parse: {error.msg}"
            yield _of_card(problem, "run it once", line + (error.lineno or 1))
            continue
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            name = getattr(call.func, "attr", getattr(call.func, "id", None))
            is_pinned = "revision" in [word.arg for word in call.keywords]
            is_local = any(isinstance(each, ast.Constant) and each.value in FORMATS for each in call.args)
            if name in LOADERS and not is_pinned and not is_local:
                yield _of_card(*UNPINNED, line + call.lineno, is_error=False)


def _wishes(kind: str, data: dict[str, Any], text: str) -> Iterator[tuple[str, str]]:
    """Yield what readers of a model's or data set's card would miss, and what to do."""
    wanted: dict[str, str] = RULES["wanted"].get(kind, {})
    if kind == "model" and (data.get("library_name") == "peft" or "lora" in (data.get("tags") or ())):
        wanted = wanted | RULES["wanted"]["adapter"]
    for key, why in wanted.items():
        if not data.get(key):
            yield f"{key} is missing: {why}", f"add {key} to the front matter"
    if kind == "model":
        if not data.get("model-index") and "evaluation" in text.lower():
            problem = "there is no model-index: figures in the text are found by no search"
            yield problem, "add the results to the front matter"
        if "model-index" in data and not re.search(r"interval|±|\bCI\b", text):
            problem = "figures stand without n or interval: nobody can tell them from chance"
            yield problem, "give the number of questions and a 95 % interval"
    elif kind == "dataset" and not re.search(r"personal data|PII|privacy", text, re.IGNORECASE):
        yield "nothing is said about personal data", "say what is in it and who looked"


def _at(text: str, match: re.Match[str]) -> int:
    return text.count("\n", 0, match.start()) + 1
