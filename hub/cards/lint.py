"""What is wrong with a card, ours or anybody's, read offline: each finding says why and what to do.

Also what no text may hold. detect-secrets 1.5 was looked at: its last release is of 2024, it knows no keys of Hugging Face,
Anthropic, Google or W&B, no local paths and no personal data, and guesses by entropy, which checksums on cards set off.
"""

import ast
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import yaml

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
LOCAL_PATH = (
    r"(?<![\w:/.~-])(?:/(?:home|Users|root|mnt|scratch|work|workspace|data|tmp|private|var/folders)/"
    r"(?!me(?![\w.-])|mine\b|assay\.db)[\w.-]+|[A-Z]:\\{1,2}Users\\{1,2}\w+|~/[\w.-]+/)"
)
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


KEYS = (
    *(
        Pattern(name, re.compile(text), "remove it, and withdraw it where it was issued")
        for name, text in SECRETS.items()
    ),
    Pattern("a path of this machine", re.compile(LOCAL_PATH), "write a name or a relative path instead"),
)
ASK = "remove it, or ask the person first"
PATTERNS = (*KEYS, Pattern("an e-mail address", re.compile(E_MAIL), ASK))
ROW_PATTERNS = (
    *KEYS,
    Pattern("an e-mail address", re.compile(E_MAIL), ASK, is_error=False),
    Pattern("a telephone number", re.compile(PHONE), ASK, is_error=False),
)
"""In the rows of a data set people may be named on purpose: those are warnings there."""


def scan(path: str, text: str, patterns: Iterable[Pattern] = PATTERNS) -> list[Finding]:
    """Return what must not be published in a text, by line; values are never repeated."""
    found: list[Finding] = []
    for pattern in patterns:
        for line in dict.fromkeys(_lines(text, pattern.regex)):
            check, problem = "secrets" if pattern.is_error else "personal data", f"{pattern.name} stands there"
            found.append(
                Finding(
                    check=check, path=path, line=line, problem=problem, remedy=pattern.remedy, is_error=pattern.is_error
                )
            )
    return sorted(found, key=lambda each: each.line or 0)[:MOST]


def _lines(text: str, regex: re.Pattern[str]) -> Iterator[int]:
    line, at = 1, 0
    for match in regex.finditer(text):
        line, at = line + text.count("\n", at, match.start()), match.start()
        yield line


FRONT_MATTER = re.compile(r"\A\s*---\r?\n(?P<yaml>.*?)\r?\n---\s*(?:\r?\n|\Z)", re.DOTALL)
REPO_ID = re.compile(r"(?:[A-Za-z0-9][\w.-]{0,95}/)?[A-Za-z0-9][\w.-]{0,95}")
RELATIONS = ("adapter", "finetune", "quantized", "merge")
COLOURS = ("red", "yellow", "green", "blue", "indigo", "purple", "pink", "gray")
SDKS = ("gradio", "docker", "static", "streamlit")
LISTS = ("tags", "datasets", "metrics", "language", "task_categories", "size_categories")
SHORT = 60
"""Characters of a Space's short_description."""


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


def front_matter_findings(text: str, kind: str) -> list[Finding]:
    """Return what is wrong with the front matter of a model's, data set's or Space's card; errors are what the Hub refuses."""
    front = text[: len(text) - len(body_of(text))].splitlines()

    def finding(key: str, problem: str, remedy: str, is_error: bool = True) -> Finding:
        line = next((number for number, each in enumerate(front, 1) if each.startswith(f"{key}:")), 1)
        return _finding(problem, remedy, line, is_error)

    try:
        data = read_front_matter(text)
    except FrontMatterError as error:
        problem = f"the front matter is not valid YAML: {error}: the Hub refuses a commit with such a README.md"
        return [finding("", problem, "quote values with a colon, and indent lists evenly")]
    if data is None:
        problem = "empty or missing yaml metadata in repo card: without it nobody finds the repository by licence, task or base model"
        remedy = "begin the file with a block between two lines of three dashes"
        return [finding("", problem, remedy, kind == "space")]
    problems = [*_licence(data), *_lists(data), *_base(data), *_results(data)]
    if kind == "space":
        problems += _space(data)
    return [finding(*each) for each in problems]


Problem = tuple[str, str, str] | tuple[str, str, str, bool]
"""Key of the front matter, what is wrong and why, what to do, and False for a warning."""


def _licence(data: dict[str, Any]) -> Iterator[Problem]:
    licences = data.get("license")
    for licence in licences if isinstance(licences, list) else [licences]:
        if licence is not None and licence not in HUB_IDS:
            yield (
                "license",
                f'"license" must be one of the Hub identifiers, got {licence!r}: the Hub refuses a commit with a licence'
                " that it does not know",
                "take an id such as apache-2.0 or cc-by-4.0; for any other: license: other, with license_name and license_link",
            )
    if licences is None:
        yield "license", "no license: without a licence nobody may use what you publish", "add license: ID", False
    if "licence" in data:
        problem = '"licence" is no key of the Hub: the Hub does not read it, so the repository shows no licence'
        yield "licence", problem, "spell it license", False
    if licences == "other" and not data.get("license_name"):
        problem = '"license_name" is required when license is other: readers cannot know which licence is meant'
        yield "license_name", problem, "add license_name and, if its text is elsewhere, license_link"


def _lists(data: dict[str, Any]) -> Iterator[Problem]:
    for key in LISTS:
        value = data.get(key)
        is_plain = isinstance(value, str) and key in ("datasets", "language")
        is_list = isinstance(value, list) and all(isinstance(each, str) for each in value)
        if value is not None and not is_plain and not is_list:
            problem = f'"{key}" must be an array of strings: the Hub refuses anything else here'
            yield key, problem, f"write {key}: [first, second]; quote yes, no and numbers"


def _base(data: dict[str, Any]) -> Iterator[Problem]:
    bases = data.get("base_model")
    for base in bases if isinstance(bases, list) else [bases]:
        text = str(base)
        if base is not None and not REPO_ID.fullmatch(text):
            shown = "a local path" if text.startswith(("/", "~", ".")) or "\\" in text else repr(text)
            yield (
                "base_model",
                f'"base_model" with value {shown} is not valid. Use a model id from the Hub (name or org/name): the model'
                " tree and every loader follow this name; a path leads nowhere but on the machine that trained",
                "name the base by its Hub id",
            )
    relation = data.get("base_model_relation")
    if relation not in (None, *RELATIONS):
        choices = ", ".join(RELATIONS)
        problem = (
            f'"base_model_relation" must be one of {choices}, got {relation!r}: the Hub draws the model tree from it'
        )
        yield "base_model_relation", problem, "an adapter that stays beside its base is an adapter"


def _results(data: dict[str, Any]) -> Iterator[Problem]:
    index = data.get("model-index") or []
    missing = []
    for at, entry in enumerate(index if isinstance(index, list) else [None]):
        place = f"model-index[{at}]"
        if not isinstance(entry, dict) or not isinstance(entry.get("results"), list):
            missing.append(f"{place}.results")
            continue
        if not entry.get("name"):
            missing.append(f"{place}.name")
        for number, result in enumerate(entry["results"]):
            missing += _missing(f"{place}.results[{number}]", result)
    for place in missing:
        problem = f'"{place}" is required: the Hub refuses a model-index with holes'
        yield "model-index", problem, "fill it in, or leave the whole result out"


def _missing(place: str, result: Any) -> Iterator[str]:
    if not isinstance(result, dict):
        yield place
        return
    for group, key in (("task", "type"), ("dataset", "type"), ("dataset", "name")):
        if not isinstance(result.get(group), dict) or not result[group].get(key):
            yield f"{place}.{group}.{key}"
    metrics: list[Any] = result.get("metrics") or [{}]
    for number, metric in enumerate(metrics):
        if not isinstance(metric, dict) or not metric.keys() >= {"type", "value"}:
            yield f"{place}.metrics[{number}] type and value"


def _space(data: dict[str, Any]) -> Iterator[Problem]:
    if data.get("sdk") not in SDKS:
        choices = ", ".join(SDKS)
        problem = f"Missing or invalid configuration: sdk must be one of {choices}: the Space cannot be built"
        yield "sdk", problem, "write sdk: gradio, with sdk_version and app_file"
    for key in ("colorFrom", "colorTo"):
        if data.get(key) not in (None, *COLOURS):
            problem = f'"{key}" must be one of {", ".join(COLOURS)}, got {data[key]!r}: the Hub refuses other colours'
            yield key, problem, "choose one of them"
    if len(str(data.get("short_description") or "")) > SHORT:
        problem = f'"short_description" may have {SHORT} characters: the Hub refuses longer ones'
        yield "short_description", problem, "shorten it"
    if isinstance(data.get("python_version"), float):
        problem = '"python_version" is read as a number: 3.10 would become 3.1'
        yield "python_version", problem, 'quote it: python_version: "3.11"', False


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
FORMATS = ("json", "parquet", "csv")
"""What `load_dataset` is told to load local files."""
WANTED = {
    "pipeline_tag": "the Hub finds the model by it and chooses how to run it",
    "library_name": "the Hub shows loading code by it",
    "language": "readers look for models by language",
}
WANTED_OF_ADAPTERS = {
    "base_model": "an adapter without its base is numbers",
    "base_model_relation": "the Hub would have to guess that it is an adapter",
}


def lint_card(text: str, kind: str, files: Collection[str] | None = None) -> list[Finding]:
    """Return what is wrong with a model's, data set's or Space's card.

    `files` are those beside it, to look for what it links to; None = not known. Errors are what the
    Hub refuses, what misleads readers, and what must not be published at all.
    """
    found = [*front_matter_findings(text, kind), *scan("README.md", text)]
    prose = FENCED.sub(lambda block: "\n" * block[0].count("\n"), text)
    for pattern, what in PLACEHOLDERS.items():
        for match in re.finditer(pattern, text if "None" in pattern else prose):
            remedy = "write what is the case, or leave the sentence out"
            found.append(_finding(f"{what} stands there: readers learn nothing", remedy, _at(text, match)))
    found += _code(text)
    for match in LINK.finditer(prose) if files is not None else ():
        target = match["target"].split("#")[0]
        if target and not re.match(r"[a-z]+:", target) and target.removeprefix("./") not in (files or ()):
            problem = f"the link to {target!r} leads nowhere: there is no such file beside the card"
            found.append(_finding(problem, "add the file, or link to a full address", _at(prose, match)))
    wishes = {"model": _model, "dataset": _dataset}.get(kind)
    if wishes:
        found += [_finding(*each, line=1, is_error=False) for each in wishes(known_front_matter(text), text)]
    return sorted(found, key=lambda each: (not each.is_error, each.line or 0))


def _code(text: str) -> Iterator[Finding]:
    for block in CODE.finditer(text):
        line = _at(text, block)
        try:
            tree = ast.parse(block["code"])
        except SyntaxError as error:
            problem = f"this Python does not parse: {error.msg}"
            yield _finding(problem, "run it once", line + (error.lineno or 1))
            continue
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            name = getattr(call.func, "attr", getattr(call.func, "id", None))
            is_pinned = "revision" in [word.arg for word in call.keywords]
            is_local = any(isinstance(each, ast.Constant) and each.value in FORMATS for each in call.args)
            if name in LOADERS and not is_pinned and not is_local:
                problem = "this loads whatever the repository holds on that day"
                remedy = "add revision=, a commit or a tag that does not move"
                yield _finding(problem, remedy, line + call.lineno, is_error=False)


def _model(data: dict[str, Any], text: str) -> Iterator[tuple[str, str]]:
    is_adapter = data.get("library_name") == "peft" or "lora" in (data.get("tags") or ())
    for key, why in (WANTED | (WANTED_OF_ADAPTERS if is_adapter else {})).items():
        if not data.get(key):
            yield f"{key} is missing: {why}", f"add {key} to the front matter"
    if not data.get("model-index") and "evaluation" in text.lower():
        problem = "there is no model-index: figures in the text are found by no search"
        yield problem, "add the results to the front matter"
    if "model-index" in data and not re.search(r"interval|±|\bCI\b", text):
        problem = "figures stand without n or interval: nobody can tell them from chance"
        yield problem, "give the number of questions and a 95 % interval"


def _dataset(data: dict[str, Any], text: str) -> Iterator[tuple[str, str]]:
    for key in ("task_categories", "size_categories", "configs"):
        if not data.get(key):
            problem = f"{key} is missing: the Hub shows and finds data sets by it"
            yield problem, f"add {key} to the front matter"
    if not re.search(r"personal data|PII|privacy", text, re.IGNORECASE):
        yield "nothing is said about personal data", "say what is in it and who looked"


def _finding(problem: str, remedy: str, line: int, is_error: bool = True) -> Finding:
    return Finding(check="card", path="README.md", problem=problem, remedy=remedy, line=line, is_error=is_error)


def _at(text: str, match: re.Match[str]) -> int:
    return text.count("\n", 0, match.start()) + 1
