"""The front matter of a card: read, and held to what the Hub accepts.

The rules are those of the Hub's public documentation and of its validator as far as they are known;
the true judge is huggingface.co. Every problem says why it matters and what to write instead.
"""

import re
from collections.abc import Iterator
from typing import Any

import yaml

from evals.schema import Record
from hub.licences import HUB_IDS

FENCED = re.compile(r"\A\s*---\r?\n(?P<yaml>.*?)\r?\n---\s*(?:\r?\n|\Z)", re.DOTALL)
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
    match = FENCED.match(text)
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
    return FENCED.sub("", text, count=1)


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
