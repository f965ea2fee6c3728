"""Results as others published them: four forms read by a table of fields, and statements that cannot all be true."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from evals.errors import LabError
from evals.review.rates import rates_of
from evals.schema.reports import PublishedGroup, PublishedResult

ACCEPTED = (
    "accepted are a result record (tool_name, recall_overall, …), a summary with eval_metrics, a table of"
    " sources by tool, and a leaderboard (a list with tool_name, recall, precision, f1)"
)
EXACT = 1e-6
"""Difference between rates of a file that gives many digits."""
ROUNDED = 10
"""A value with fewer digits than this was rounded when it was published."""
_NAMES = {"f1": "F1", "recall_major": "major recall"}


def share_of(value: float, n: int) -> int | None:
    """Return the whole number k with k / n equal to a value as far as its digits go; None without one.

    share_of(0.625, 40)  ->  25; share_of(0.625, 39)  ->  None: no k of 39 is 0.625
    """
    if n <= 0:
        return 0 if value == 0 else None
    k = round(value * n)
    return k if abs(k / n - value) <= _slack(value) else None


def _rates(result: PublishedResult) -> Iterator[str]:
    """Yield what in a published result cannot be, each in one sentence with the figures."""
    for name in ("recall", "precision", "f1", "recall_major"):
        value = getattr(result, name)
        if value is not None and not 0 <= value <= 1:
            yield f"{_NAMES.get(name, name)} is {value:g}; a share lies from 0 to 1"
    if not _agrees(result.f1, result.precision, result.recall):
        mean = _harmonic(result.precision, result.recall)
        yield f"F1 is {result.f1:g}, but precision and recall make {mean:.4f}"
    for name in ("recall", "precision"):
        value, soft, span = (getattr(result, field) for field in (name, f"soft_{name}", f"interval_{name}"))
        if soft is not None and soft > value + _slack(soft) + _slack(value):
            yield (
                f"soft {name} {soft:.4f} is above {name} {value:.4f}: a match counts for 1 at most, so the two"
                " were averaged in different ways"
            )
        if span is not None and not span[0] - EXACT <= value <= span[1] + EXACT:
            yield f"{name} {value:.4f} lies outside its interval {span[0]:.4f} to {span[1]:.4f}"


def _counts(result: PublishedResult) -> Iterator[str]:
    found: dict[str, int] = {}
    if result.n_matched is not None:
        found["stated"] = result.n_matched
    for name, value, n in (
        ("recall", result.recall, result.n_human),
        ("precision", result.precision, result.n_predicted),
    ):
        if n is None:
            continue
        k = share_of(value, n)
        if k is None:
            yield f"{name} {value:g} is no whole number of {n:,} concerns"
        elif n * _slack(value) < 0.5:
            found[f"by {name}"] = k
    if len(set(found.values())) > 1:
        listed = ", ".join(f"{n:,} {how}" for how, n in found.items())
        yield f"the matched concerns are {listed}: they should be the same"
    limit = min((n for n in (result.n_human, result.n_predicted) if n is not None), default=None)
    if limit is not None and found and max(found.values()) > limit:
        yield f"{max(found.values()):,} concerns are matched one to one, but a list has only {limit:,}"
    if result.n_articles is not None:
        settled = (result.n_none or 0) + (result.n_all or 0)
        if settled > result.n_articles:
            yield f"{settled} articles are found wholly or not at all, but there are {result.n_articles}"


def _groups(result: PublishedResult) -> Iterator[str]:
    for name, group in result.groups.items():
        if group.n_human is not None and share_of(group.recall, group.n_human) is None:
            yield f"recall {group.recall:g} of {name} is no whole number of {group.n_human:,} concerns"
        is_rated = group.f1 is not None and group.precision is not None
        if is_rated and not _agrees(group.f1, group.precision, group.recall):
            yield f"F1 {group.f1:g} of {name} does not follow from its precision and recall"
        if group.n_predicted == 0 and group.n_articles and group.n_human:
            yield f"{name} has {group.n_articles} articles and not one predicted concern: counted as misses"
    groups = result.groups.values()
    if not groups or any(each.n_human is None for each in groups):
        return
    total = sum(each.n_human or 0 for each in groups)
    if result.n_human is not None and total != result.n_human:
        yield f"the groups have {total:,} human concerns together, the whole {result.n_human:,}"
        return
    unstated = [each for each in groups if each.n_matched is None]
    matched = sum(each.n_matched or 0 for each in groups) + sum(each.recall * (each.n_human or 0) for each in unstated)
    slack = sum(0.5 + (each.n_human or 0) * _slack(each.recall) for each in unstated)
    stated = result.recall * (result.n_human or total)
    if abs(matched - stated) > 1 + slack:
        yield (
            f"the groups' recalls make {matched:,.0f} matched concerns, the whole {stated:,.0f}: one of the"
            " two is not of pooled counts"
        )


def _agrees(f1: float, precision: float, recall: float) -> bool:
    slack = _slack(f1) + _slack(precision) + _slack(recall)
    return abs(f1 - _harmonic(precision, recall)) <= slack


def _harmonic(precision: float, recall: float) -> float:
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def _slack(value: float) -> float:
    """Return how far a value may be from the true one: half of its last digit, if it was rounded."""
    digits = len(repr(value).partition(".")[2])
    return 0.5 * 10**-digits + EXACT if digits < ROUNDED else EXACT


def read_published(path: Path) -> tuple[PublishedResult, ...]:
    """Return the results in a published file with their faults; LabError for a file of another form."""
    try:
        data = path.read_bytes()
        document = json.loads(data)
    except FileNotFoundError:
        raise LabError(f"there is no file {path}; name a published result file.") from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise LabError(f"{path} is not one JSON document: {error}; {ACCEPTED}.") from None
    form = None
    if isinstance(document, list) and document:
        form = "leaderboard"
    elif isinstance(document, dict) and "tool_name" in document:
        form = "result record"
    elif isinstance(document, dict) and isinstance(document.get("eval_metrics"), dict):
        form = "training summary"
    elif isinstance(document, dict) and document:
        tables = [by.values() if isinstance(by, dict) else () for by in document.values()]
        if all(by and all(isinstance(each, dict) and "n_gt" in each for each in by) for by in tables):
            form = "sources"
    if form is None:
        raise LabError(f"{path} is no published result that is known here; {ACCEPTED}.")
    known = {"file": path.name, "sha256": hashlib.sha256(data).hexdigest(), "form": form}
    table = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))[form]
    try:
        if form == "leaderboard":
            found = [_result(each, table, known) for each in document]
        elif form == "sources":
            found = [_pooled(each, table, known | {"system": str(name)}) for name, each in document.items()]
        elif form == "training summary":
            name = path.name.removesuffix(".json").removesuffix(".summary")
            known |= {"system": name, "split": str(document.get("split") or "")}
            found = [_result(document["eval_metrics"], table, known)]
        else:
            found = [_result(document, table, known)]
    except ValidationError as error:
        first = min(error.errors(), key=lambda each: each["type"] == "missing")
        field = ".".join(str(part) for part in first["loc"])
        written = {**table.get("group", {}), **table.get("fields", {})}.get(field, field)
        raise LabError(f"{path}, field {written!r}: {first['msg']}; {ACCEPTED}.") from None
    return tuple(each.model_copy(update={"faults": (*_rates(each), *_counts(each), *_groups(each))}) for each in found)


def _fields(document: Any, table: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a document says under our names; what it does not say is left out."""

    def value_at(path: str | list[str]) -> Any:
        if isinstance(path, list):
            ends = tuple(value_at(each) for each in path)
            return None if None in ends else ends
        value = document
        for part in path.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        return value

    found = {name: value_at(path) for name, path in table.items()}
    return {name: value for name, value in found.items() if value is not None}


def _result(document: Any, table: Mapping[str, Any], known: Mapping[str, Any]) -> PublishedResult:
    fields = _fields(document, table["fields"])
    method, algorithm = fields.pop("method", ""), fields.pop("algorithm", "")
    fields["matcher"] = " ".join(filter(None, (fields.get("matcher") or method, algorithm)))
    fields["date"] = str(fields.get("date", ""))[:10]
    groups = document.get(table.get("groups")) if isinstance(document, dict) else None
    listed = groups.items() if isinstance(groups, dict) else ()
    found = {name: _fields(each, table["group"]) for name, each in listed}
    return PublishedResult.model_validate({**fields, **known, "groups": found})


def _pooled(by: Mapping[str, Any], table: Mapping[str, Any], known: Mapping[str, Any]) -> PublishedResult:
    """Return the counts of all sources pooled, with each source as a group."""
    groups = {name: PublishedGroup.model_validate(_fields(each, table["group"])) for name, each in by.items()}
    sums = dict.fromkeys(("n_articles", "n_human", "n_predicted", "n_matched"), 0)
    for name, group in groups.items():
        for each in sums:
            if (n := getattr(group, each)) is None:
                field = f"{known['system']}.{name}.{table['group'][each]}"
                raise LabError(f"{known['file']}, field {field!r} is missing; {ACCEPTED}.")
            sums[each] += n
    rates = rates_of([sums["n_matched"], sums["n_human"], sums["n_predicted"], 0, 0, 0], 0)
    shares = rates.model_dump(include={"precision", "recall", "f1"})
    return PublishedResult(**known, **sums, **shares, groups=groups)
