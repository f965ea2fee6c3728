"""What is wrong with a card, ours or anybody's, read offline: each finding says why and what to do."""

import ast
import re
from collections.abc import Collection, Iterator
from typing import Any

from evals.schema.publishing import Finding
from hub.frontmatter import FrontMatterError, body_of, problems_of, read_front_matter
from hub.secrets import scan

CODE = re.compile(r"^```python\n(?P<code>.*?)^```", re.DOTALL | re.MULTILINE)
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"!?\[[^\]]*\]\((?P<target>[^)\s]+)\)")
PLACEHOLDERS = {
    r"\[More Information Needed\]": "a placeholder that nobody filled in",
    r"\b(?:TODO|FIXME|TBD|XXX)\b": "a note to yourself",
    r"\[None\]|/None\b|[\"']None[\"']|\bmodel=None\b|\*\*None\*\*|: None$": "“None” where a name should be",
    r"\{\{.*?\}\}|\{%.*?%\}": "a template that was not filled in",
    r"\bnan\b(?=\s*[|%\]])": "a figure that is no number",
    r"(?i)lorem ipsum": "filler text",
}
LOADERS = ("from_pretrained", "load_adapter", "load_dataset", "hf_hub_download")
REMEDY = "write what is the case, or leave the sentence out"


def lint_card(text: str, kind: str, files: Collection[str] | None = None) -> list[Finding]:
    """Return what is wrong with a model's, data set's or Space's card.

    `files` are those beside it, to look for what it links to; None = not known. Errors are what the
    Hub refuses, what misleads readers, and what must not be published at all.
    """
    found = [
        _finding(
            f"{each.message}: {each.why}", each.remedy, _line_of(text, each.key), each.is_error
        )
        for each in problems_of(text, kind)
    ]
    found += scan("README.md", text)
    found += _placeholders(text)
    found += _code(text)
    found += _links(text, files)
    if kind == "model":
        found += _model(text)
    if kind == "dataset":
        found += _dataset(text)
    return sorted(found, key=lambda each: (not each.is_error, each.line or 0))


def _placeholders(text: str) -> Iterator[Finding]:
    prose = FENCED.sub(lambda block: "\n" * block[0].count("\n"), text)
    for pattern, what in PLACEHOLDERS.items():
        for match in re.finditer(pattern, text if "None" in pattern else prose):
            yield _finding(f"{what} stands there: readers learn nothing", REMEDY, _at(text, match))


def _code(text: str) -> Iterator[Finding]:
    for block in CODE.finditer(text):
        line = _at(text, block)
        try:
            tree = ast.parse(block["code"])
        except SyntaxError as error:
            place = line + (error.lineno or 1)
            yield _finding(f"this Python does not parse: {error.msg}", "run it once", place)
            continue
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            if _is_unpinned(call):
                yield _finding(
                    "this loads whatever the repository holds on that day",
                    "add revision=, a commit or a tag that does not move",
                    line + call.lineno,
                    is_error=False,
                )


def _is_unpinned(call: ast.Call) -> bool:
    """Whether a call loads something from the Hub by name without saying which version."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else None
    name = call.func.id if isinstance(call.func, ast.Name) else name
    named = [word.arg for word in call.keywords]
    is_local = any(
        isinstance(each, ast.Constant) and str(each.value) in ("json", "parquet", "csv")
        for each in call.args
    )
    return name in LOADERS and "revision" not in named and not is_local


def _links(text: str, files: Collection[str] | None) -> Iterator[Finding]:
    outside = FENCED.sub(lambda block: "\n" * block[0].count("\n"), text)
    for match in LINK.finditer(outside):
        target = match["target"].split("#")[0]
        if not target or re.match(r"[a-z]+:", target):
            continue
        if files is not None and target.removeprefix("./") not in files:
            yield _finding(
                f"the link to {target!r} leads nowhere: there is no such file beside the card",
                "add the file, or link to a full address",
                _at(outside, match),
            )


def _model(text: str) -> Iterator[Finding]:
    data = _data(text)
    is_adapter = data.get("library_name") == "peft" or "lora" in (data.get("tags") or ())
    wanted = {
        "license": "nobody may use a model without one",
        "pipeline_tag": "the Hub finds the model by it and chooses how to run it",
        "library_name": "the Hub shows loading code by it",
        "language": "readers look for models by language",
    }
    if is_adapter:
        wanted["base_model"] = "an adapter without its base is numbers"
        wanted["base_model_relation"] = "the Hub would have to guess that it is an adapter"
    for key, why in wanted.items():
        if not data.get(key) and key != "license":
            yield _finding(f"{key} is missing: {why}", f"add {key} to the front matter", 1, False)
    if not data.get("model-index") and "evaluation" in text.lower():
        yield _finding(
            "there is no model-index: figures in the text are found by no search",
            "add the results to the front matter",
            1,
            is_error=False,
        )
    if "model-index" in data and not re.search(r"interval|±|\bCI\b", text):
        yield _finding(
            "figures stand without n or interval: nobody can tell them from chance",
            "give the number of questions and a 95 % interval",
            1,
            is_error=False,
        )


def _dataset(text: str) -> Iterator[Finding]:
    data = _data(text)
    for key in ("task_categories", "size_categories", "configs"):
        if not data.get(key):
            yield _finding(
                f"{key} is missing: the Hub shows and finds data sets by it",
                f"add {key} to the front matter",
                1,
                is_error=False,
            )
    if not re.search(r"personal data|PII|privacy", text, re.IGNORECASE):
        yield _finding(
            "nothing is said about personal data", "say what is in it and who looked", 1, False
        )


def _data(text: str) -> dict[str, Any]:
    try:
        return read_front_matter(text) or {}
    except FrontMatterError:
        return {}


def _finding(problem: str, remedy: str, line: int | None, is_error: bool = True) -> Finding:
    return Finding(
        check="card",
        path="README.md",
        problem=problem,
        remedy=remedy,
        line=line,
        is_error=is_error,
    )


def _line_of(text: str, key: str) -> int:
    """Return the line of a key in the front matter, 1 if it is not there."""
    front = text[: len(text) - len(body_of(text))]
    for number, line in enumerate(front.splitlines(), 1):
        if line.startswith(f"{key}:"):
            return number
    return 1


def _at(text: str, match: re.Match[str]) -> int:
    return text.count("\n", 0, match.start()) + 1
