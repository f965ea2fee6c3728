"""What is wrong with a card, ours or anybody's, read offline: each finding says why and what to do."""

import ast
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from evals.schema import Record
from evals.schema.publishing import Finding
from hub.cards.licences import HUB_IDS

SECRETS = {
    "a Hugging Face token": r"\bhf_[A-Za-z0-9]{20,}",
    "an OpenAI key": r"\bsk-(?:proj-|svcacct-)?[A-Za-z0-9_-]{20,}",
    "an Anthropic key": r"\bsk-ant-[A-Za-z0-9_-]{20,}",
    "a GitHub token": r"\b(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,})",
    "a GitLab token": r"\bglpat-[A-Za-z0-9_-]{20,}",
    "an AWS key": r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
    "a Google key": r"\bAIza[0-9A-Za-z_-]{35}",
    "a Slack token": r"\bxox[abprs]-[A-Za-z0-9-]{10,}",
    "a Stripe key": r"\b[rs]k_live_[A-Za-z0-9]{20,}",
    "a Weights & Biases key": r"(?i)\bWANDB_API_KEY\s*[=:]\s*['\"]?[0-9a-f]{40}",
    "a private key": r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY(?: BLOCK)?-----",
    "a JSON web token": r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",
    "a password in an address": r"\b[a-z][a-z0-9+.-]*://[^\s/:@\"']+:(?!password@)[^\s/@\"']+@",
    "a password": r"(?i)\b(?:password|passwd|api_?key|secret_?key|access_?token)\b['\"]?\s*[=:]\s*"
    r"['\"]?(?!\$|<|None\b|null\b|true\b|false\b|os\.|[\w.]+\()[^\s'\",;<>{}()]{8,}",
}
LOCAL_PATH = r"(?<![\w:/.~-])(?:/(?:home|Users|root|mnt|scratch|work|workspace|data|tmp|private|var/folders)/(?!me(?![\w.-])|mine\b|assay\.db)[\w.-]+|[A-Z]:\\{1,2}Users\\{1,2}\w+|~/[\w.-]+/)"
"""A path of a person's or a machine's own; what texts give as an example (/home/me, /data/mine) and the
file on a Space's volume are none."""
E_MAIL = (
    r"(?<![\w.+-])[A-Za-z0-9][\w.+-]*@(?!example\.|users\.noreply)[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}\b"
)
PHONE = r"(?<![\w.+-])\+\d{1,3}[ -]\(?\d{1,4}\)?(?:[ -]\d{2,4}){2,4}(?![\w-])"
MOST = 20
"""Findings of one file that are listed."""


@dataclass(frozen=True)
class Pattern:
    """One kind of thing to look for."""

    name: str
    regex: re.Pattern[str]
    remedy: str
    is_error: bool = True


PATTERNS = (
    *(
        Pattern(name, re.compile(text), "remove it, and withdraw it where it was issued")
        for name, text in SECRETS.items()
    ),
    Pattern("a path of this machine", re.compile(LOCAL_PATH), "write a name or a relative path instead"),
    Pattern("an e-mail address", re.compile(E_MAIL), "remove it, or ask the person first"),
)
PERSONAL = (
    Pattern("an e-mail address", re.compile(E_MAIL), "remove it, or ask the person first", False),
    Pattern("a telephone number", re.compile(PHONE), "remove it, or ask the person first", False),
)
"""In the rows of a data set people may be named on purpose: these are warnings there."""


def scan(path: str, text: str, patterns: Iterable[Pattern] = PATTERNS) -> list[Finding]:
    """Return what must not be published in a text, by line; values are never repeated."""
    found: list[Finding] = []
    for pattern in patterns:
        for line in _lines(text, pattern.regex):
            finding = Finding(
                check="secrets" if pattern.is_error else "personal data",
                path=path,
                line=line,
                problem=f"{pattern.name} stands there",
                remedy=pattern.remedy,
                is_error=pattern.is_error,
            )
            found.append(finding)
    return sorted(found, key=lambda each: each.line or 0)[:MOST]


def _lines(text: str, regex: re.Pattern[str]) -> Iterator[int]:
    """Yield the number of each line that a pattern is found in, once."""
    line, at, last = 1, 0, 0
    for match in regex.finditer(text):
        line += text.count("\n", at, match.start())
        at = match.start()
        if line != last:
            yield line
        last = line


FRONTMATTER_FENCED = re.compile(r"\A\s*---\r?\n(?P<yaml>.*?)\r?\n---\s*(?:\r?\n|\Z)", re.DOTALL)
REPO_ID = re.compile(r"(?:[A-Za-z0-9][\w.-]{0,95}/)?[A-Za-z0-9][\w.-]{0,95}")
RELATIONS = ("adapter", "finetune", "quantized", "merge")
COLOURS = ("red", "yellow", "green", "blue", "indigo", "purple", "pink", "gray")
SDKS = ("gradio", "docker", "static", "streamlit")
LISTS = ("tags", "datasets", "metrics", "language", "task_categories", "size_categories")
SHORT = 60
"""Characters of a Space's short_description."""


class FrontMatterError(ValueError):
    """The text between the dashes is no YAML mapping."""


class Problem(Record):
    """Something wrong with a card: an error is refused by the Hub, anything else is a warning."""

    key: str
    message: str
    why: str
    remedy: str
    is_error: bool = True


def read_front_matter(text: str) -> dict[str, Any] | None:
    """Return the front matter of a card, None if it has none; FrontMatterError if it is no mapping."""
    match = FRONTMATTER_FENCED.match(text)
    if match is None:
        return None
    try:
        found = yaml.safe_load(match["yaml"])
    except yaml.YAMLError as error:
        raise FrontMatterError(" ".join(str(error).split())) from None
    if not isinstance(found or {}, dict):
        raise FrontMatterError("it is no list of keys and values")
    return found or {}


def body_of(text: str) -> str:
    """Return a card without its front matter."""
    return FRONTMATTER_FENCED.sub("", text, count=1)


def problems_of(text: str, kind: str) -> tuple[Problem, ...]:
    """Return what is wrong with the front matter of a model's, data set's or Space's card."""
    try:
        data = read_front_matter(text)
    except FrontMatterError as error:
        return (
            Problem(
                key="front matter",
                message=f"the front matter is not valid YAML: {error}",
                why="the Hub refuses a commit with such a README.md",
                remedy="quote values with a colon, and indent lists evenly",
            ),
        )
    if data is None:
        missing = Problem(
            key="front matter",
            message="empty or missing yaml metadata in repo card",
            why="without it nobody finds the repository by licence, task or base model",
            remedy="begin the file with a block between two lines of three dashes",
            is_error=kind == "space",
        )
        return (missing,)
    found = [*_licence(data), *_lists(data), *_base(data), *_results(data)]
    if kind == "space":
        found += _space(data)
    return tuple(found)


def _licence(data: dict[str, Any]) -> Iterator[Problem]:
    licences = data.get("license")
    for licence in licences if isinstance(licences, list) else [licences]:
        if licence is not None and licence not in HUB_IDS:
            yield Problem(
                key="license",
                message=f'"license" must be one of the Hub identifiers, got {licence!r}',
                why="the Hub refuses a commit with a licence that it does not know",
                remedy="take an id such as apache-2.0 or cc-by-4.0; for any other: license: other,"
                " with license_name and license_link",
            )
    if licences is None:
        yield Problem(
            key="license",
            message="no license",
            why="without a licence nobody may use what you publish",
            remedy="add license: ID",
            is_error=False,
        )
    if "licence" in data:
        yield Problem(
            key="licence",
            message='"licence" is no key of the Hub',
            why="the Hub does not read it, so the repository shows no licence",
            remedy="spell it license",
            is_error=False,
        )
    if licences == "other" and not data.get("license_name"):
        yield Problem(
            key="license_name",
            message='"license_name" is required when license is other',
            why="readers cannot know which licence is meant",
            remedy="add license_name and, if its text is elsewhere, license_link",
        )


def _lists(data: dict[str, Any]) -> Iterator[Problem]:
    for key in LISTS:
        value = data.get(key)
        is_plain = isinstance(value, str) and key in ("datasets", "language")
        is_list = isinstance(value, list) and all(isinstance(each, str) for each in value)
        if value is not None and not is_plain and not is_list:
            yield Problem(
                key=key,
                message=f'"{key}" must be an array of strings',
                why="the Hub refuses anything else here",
                remedy=f"write {key}: [first, second]; quote yes, no and numbers",
            )


def _base(data: dict[str, Any]) -> Iterator[Problem]:
    bases = data.get("base_model")
    for base in bases if isinstance(bases, list) else [bases]:
        if base is not None and not REPO_ID.fullmatch(str(base)):
            yield Problem(
                key="base_model",
                message=f'"base_model" with value {_shown(base)} is not valid. Use a model id from the'
                " Hub (name or org/name)",
                why="the model tree and every loader follow this name; a path leads nowhere but on the"
                " machine that trained",
                remedy="name the base by its Hub id",
            )
    relation = data.get("base_model_relation")
    if relation is not None and relation not in RELATIONS:
        yield Problem(
            key="base_model_relation",
            message=f'"base_model_relation" must be one of {", ".join(RELATIONS)}, got {relation!r}',
            why="the Hub draws the model tree from it",
            remedy="an adapter that stays beside its base is an adapter",
        )


def _results(data: dict[str, Any]) -> Iterator[Problem]:
    index = data.get("model-index") or []
    for at, entry in enumerate(index if isinstance(index, list) else [None]):
        place = f"model-index[{at}]"
        if not isinstance(entry, dict) or not isinstance(entry.get("results"), list):
            yield _missing(f"{place}.results")
            continue
        if not entry.get("name"):
            yield _missing(f"{place}.name")
        for number, result in enumerate(entry["results"]):
            yield from _result(f"{place}.results[{number}]", result)


def _result(place: str, result: Any) -> Iterator[Problem]:
    if not isinstance(result, dict):
        yield _missing(place)
        return
    for group, key in (("task", "type"), ("dataset", "type"), ("dataset", "name")):
        found = result.get(group)
        if not isinstance(found, dict) or not found.get(key):
            yield _missing(f"{place}.{group}.{key}")
    metrics: list[Any] = result.get("metrics") or [{}]
    for number, metric in enumerate(metrics):
        if not isinstance(metric, dict) or not metric.keys() >= {"type", "value"}:
            yield _missing(f"{place}.metrics[{number}] type and value")


def _missing(place: str) -> Problem:
    return Problem(
        key="model-index",
        message=f'"{place}" is required',
        why="the Hub refuses a model-index with holes",
        remedy="fill it in, or leave the whole result out",
    )


def _space(data: dict[str, Any]) -> Iterator[Problem]:
    if data.get("sdk") not in SDKS:
        yield Problem(
            key="sdk",
            message=f"Missing or invalid configuration: sdk must be one of {', '.join(SDKS)}",
            why="the Space cannot be built",
            remedy="write sdk: gradio, with sdk_version and app_file",
        )
    for key in ("colorFrom", "colorTo"):
        if data.get(key) not in (None, *COLOURS):
            yield Problem(
                key=key,
                message=f'"{key}" must be one of {", ".join(COLOURS)}, got {data[key]!r}',
                why="the Hub refuses other colours",
                remedy="choose one of them",
            )
    if len(str(data.get("short_description") or "")) > SHORT:
        yield Problem(
            key="short_description",
            message=f'"short_description" may have {SHORT} characters',
            why="the Hub refuses longer ones",
            remedy="shorten it",
        )
    if isinstance(data.get("python_version"), float):
        yield Problem(
            key="python_version",
            message='"python_version" is read as a number',
            why="3.10 would become 3.1",
            remedy='quote it: python_version: "3.11"',
            is_error=False,
        )


def _shown(value: object) -> str:
    """Return a value as a message may show it: of a path only that it is one."""
    text = str(value)
    return "a local path" if text.startswith(("/", "~", ".")) or "\\" in text else repr(text)


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
        _finding(f"{each.message}: {each.why}", each.remedy, _line_of(text, each.key), each.is_error)
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
        isinstance(each, ast.Constant) and str(each.value) in ("json", "parquet", "csv") for each in call.args
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
        yield _finding("nothing is said about personal data", "say what is in it and who looked", 1, False)


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
