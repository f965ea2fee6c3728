"""Statements of a table of results that cannot all be true: counts and rates are held against each other."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, Field, ValidationError

from evals.errors import LabError
from evals.schema.record import Record
from evals.schema.reports import PublishedGroup, PublishedResult, Rates, ReviewScore, Span

EXACT = 1e-6
"""Difference between rates of a file that gives many digits."""
ROUNDED = 10
"""A value with fewer digits than this was rounded when it was published."""


def faults_of(result: PublishedResult) -> tuple[str, ...]:
    """Return what in a published result cannot be, each in one sentence with the figures."""
    return (*_rates(result), *_counts(result), *_spans(result), *_groups(result))


def faults_of_score(score: ReviewScore) -> tuple[str, ...]:
    """Return what in a score of ours cannot be: files can be edited, and bugs can be ours."""
    micro = score.micro
    sources = {name: _group(rates) for name, rates in score.per_source.items()}
    result = PublishedResult(
        system=score.system,
        file="",
        sha256="",
        form="result record",
        precision=micro.precision,
        recall=micro.recall,
        f1=micro.f1,
        soft_precision=score.soft.precision,
        soft_recall=score.soft.recall,
        n_articles=micro.n_articles,
        n_human=micro.n_human,
        n_predicted=round(micro.n_predicted),
        n_matched=round(micro.n_matched),
        interval_recall=score.intervals.get("recall"),
        interval_precision=score.intervals.get("precision"),
        groups=sources,
    )
    categories = {
        name: _group(rates).model_copy(update={"n_articles": None}) for name, rates in score.per_category.items()
    }
    by_category = result.model_copy(update={"groups": categories})
    return tuple(dict.fromkeys([*faults_of(result), *_groups(by_category)]))


def share_of(value: float, n: int) -> int | None:
    """Return the whole number k with k / n equal to a value as far as its digits go; None without one.

    share_of(0.625, 40)  ->  25; share_of(0.625, 39)  ->  None: no k of 39 is 0.625
    """
    if n <= 0:
        return 0 if value == 0 else None
    k = round(value * n)
    return k if abs(k / n - value) <= _slack(value) else None


def _rates(result: PublishedResult) -> Iterator[str]:
    named = (
        ("recall", result.recall),
        ("precision", result.precision),
        ("F1", result.f1),
        ("major recall", result.recall_major),
    )
    for name, value in named:
        if value is not None and not 0 <= value <= 1:
            yield f"{name} is {value:g}; a share lies from 0 to 1"
    if not _agrees(result.f1, result.precision, result.recall):
        mean = _harmonic(result.precision, result.recall)
        yield f"F1 is {result.f1:g}, but precision and recall make {mean:.4f}"
    for name, soft, hard in (
        ("recall", result.soft_recall, result.recall),
        ("precision", result.soft_precision, result.precision),
    ):
        if soft is not None and soft > hard + _slack(soft) + _slack(hard):
            yield (
                f"soft {name} {soft:.4f} is above {name} {hard:.4f}: a match counts for 1 at most, so the two"
                " were averaged in different ways"
            )


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


def _spans(result: PublishedResult) -> Iterator[str]:
    for name, value, span in (
        ("recall", result.recall, result.interval_recall),
        ("precision", result.precision, result.interval_precision),
    ):
        if span is not None and not span[0] - EXACT <= value <= span[1] + EXACT:
            yield f"{name} {value:.4f} lies outside its interval {span[0]:.4f} to {span[1]:.4f}"


def _groups(result: PublishedResult) -> Iterator[str]:
    groups = result.groups
    for name, group in groups.items():
        yield from _group_faults(name, group)
    yield from _sums(result, groups)


def _group_faults(name: str, group: PublishedGroup) -> Iterator[str]:
    if group.n_human is not None and share_of(group.recall, group.n_human) is None:
        yield f"recall {group.recall:g} of {name} is no whole number of {group.n_human:,} concerns"
    if group.f1 is not None and group.precision is not None and not _agrees(group.f1, group.precision, group.recall):
        yield f"F1 {group.f1:g} of {name} does not follow from its precision and recall"
    if group.n_predicted == 0 and group.n_articles and group.n_human:
        yield f"{name} has {group.n_articles} articles and not one predicted concern: counted as misses"


def _sums(result: PublishedResult, groups: Mapping[str, PublishedGroup]) -> Iterator[str]:
    if not groups or any(each.n_human is None for each in groups.values()):
        return
    total = sum(each.n_human or 0 for each in groups.values())
    if result.n_human is not None and total != result.n_human:
        yield f"the groups have {total:,} human concerns together, the whole {result.n_human:,}"
        return
    matched = sum(
        each.n_matched if each.n_matched is not None else each.recall * (each.n_human or 0) for each in groups.values()
    )
    slack = sum(0.5 + (each.n_human or 0) * _slack(each.recall) for each in groups.values() if each.n_matched is None)
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


def _group(rates: Rates) -> PublishedGroup:
    return PublishedGroup(
        precision=rates.precision,
        recall=rates.recall,
        f1=rates.f1,
        n_articles=rates.n_articles,
        n_human=rates.n_human,
        n_predicted=round(rates.n_predicted),
        n_matched=round(rates.n_matched),
    )


ACCEPTED = (
    "accepted are a result record (tool_name, recall_overall, …), a summary with eval_metrics, a table of"
    " sources by tool, and a leaderboard (a list with tool_name, recall, precision, f1)"
)


class Tolerant(Record):
    """A published object of which only the named fields are read."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)


class Ends(Tolerant):
    """An interval as a result record writes it."""

    lo: float
    hi: float


class PublishedCategory(Tolerant):
    """A category of a result record, or a source of a table."""

    recall: float
    precision: float | None = None
    f1: float | None = Field(default=None, alias="f1_micro")
    n_articles: int | None = None
    n_human: int | None = Field(default=None, alias="n_human_concerns")
    n_predicted: int | None = None
    n_matched: int | None = None


class Source(Tolerant):
    """A source in a table by tool."""

    recall: float
    precision: float
    f1: float
    n_articles: int
    n_gt: int
    n_tool: int
    n_matched: int


class Matching(Tolerant):
    """How a result record says that it matched."""

    method: str = ""
    embedding_model: str = ""
    threshold: float | None = None
    algorithm: str = ""
    n_matched_pairs: int | None = None


class Rated(Tolerant):
    """The rates that a result record and a summary share."""

    recall: float = Field(alias="recall_overall")
    precision: float = Field(alias="precision_overall")
    f1: float = Field(alias="f1_micro")
    recall_major: float | None = None
    n_articles: int | None = None
    n_human: int | None = Field(default=None, alias="n_human_concerns")
    n_predicted: int | None = Field(default=None, alias="n_tool_concerns")
    n_none: int | None = Field(default=None, alias="n_zero_recall_articles")
    n_all: int | None = Field(default=None, alias="n_perfect_recall_articles")


class ResultRecord(Rated):
    """The result record of a benchmark run."""

    tool_name: str
    benchmark_version: str = ""
    split: str = ""
    run_date: str = ""
    soft_recall: float | None = Field(default=None, alias="soft_recall_overall")
    soft_precision: float | None = Field(default=None, alias="soft_precision_overall")
    ci_recall: Ends | None = None
    ci_precision: Ends | None = None
    per_category: dict[str, PublishedCategory] = Field(default_factory=dict)
    matching_stats: Matching = Matching()


class BoardEntry(Tolerant):
    """A line of a published leaderboard."""

    tool_name: str
    split: str = ""
    recall: float
    precision: float
    f1: float
    recall_major: float | None = None
    n_articles: int | None = None
    run_date: str = ""


def read_published(path: Path) -> tuple[PublishedResult, ...]:
    """Return the results in a published file with their faults; LabError for a file of another form."""
    try:
        data = path.read_bytes()
        document = json.loads(data)
    except FileNotFoundError:
        raise LabError(f"there is no file {path}; name a published result file.") from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise LabError(f"{path} is not one JSON document: {error}; {ACCEPTED}.") from None
    origin = {"file": path.name, "sha256": hashlib.sha256(data).hexdigest()}
    try:
        found = _read(document, path, origin)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise LabError(f"{path}, field {field!r}: {first['msg']}; {ACCEPTED}.") from None
    return tuple(each.model_copy(update={"faults": faults_of(each)}) for each in found)


def is_published(document: object) -> bool:
    """Whether a JSON document looks like one of the known forms rather than a score of ours."""
    if isinstance(document, list):
        return True
    return isinstance(document, dict) and "headline" not in document


def _read(document: Any, path: Path, origin: dict[str, str]) -> list[PublishedResult]:
    if isinstance(document, list) and document:
        return [_entry(BoardEntry.model_validate(each), origin) for each in document]
    if isinstance(document, dict) and "tool_name" in document:
        return [_record(ResultRecord.model_validate(document), origin)]
    if isinstance(document, dict) and isinstance(document.get("eval_metrics"), dict):
        rated = Rated.model_validate(document["eval_metrics"])
        name = path.name.removesuffix(".json").removesuffix(".summary")
        split = str(document.get("split") or "")
        return [_rated(rated, name, origin, form="training summary", split=split)]
    if isinstance(document, dict) and document and all(map(_is_sources, document.values())):
        return [
            _sources(
                str(name),
                {source: Source.model_validate(each) for source, each in by.items()},
                origin,
            )
            for name, by in document.items()
        ]
    raise LabError(f"{path} is no published result that is known here; {ACCEPTED}.")


def _is_sources(value: object) -> bool:
    return (
        isinstance(value, dict)
        and bool(value)
        and all(isinstance(each, dict) and "n_gt" in each for each in value.values())
    )


def _rated(found: Rated, system: str, origin: dict[str, str], **known: Any) -> PublishedResult:
    return PublishedResult.model_validate(
        {**found.model_dump(include=set(Rated.model_fields)), **origin, "system": system, **known}
    )


def _record(found: ResultRecord, origin: dict[str, str]) -> PublishedResult:
    stats = found.matching_stats
    named = " ".join(filter(None, (stats.embedding_model or stats.method, stats.algorithm)))
    groups = {name: PublishedGroup(**each.model_dump()) for name, each in found.per_category.items()}
    return _rated(
        found,
        found.tool_name,
        origin,
        form="result record",
        benchmark=found.benchmark_version,
        split=found.split,
        date=found.run_date[:10],
        matcher=named,
        threshold=stats.threshold,
        soft_recall=found.soft_recall,
        soft_precision=found.soft_precision,
        n_matched=stats.n_matched_pairs,
        interval_recall=_span(found.ci_recall),
        interval_precision=_span(found.ci_precision),
        groups=groups,
    )


def _entry(found: BoardEntry, origin: dict[str, str]) -> PublishedResult:
    return PublishedResult(
        file=origin["file"],
        sha256=origin["sha256"],
        form="leaderboard",
        system=found.tool_name,
        split=found.split,
        date=found.run_date[:10],
        precision=found.precision,
        recall=found.recall,
        f1=found.f1,
        recall_major=found.recall_major,
        n_articles=found.n_articles,
    )


def _sources(system: str, by: dict[str, Source], origin: dict[str, str]) -> PublishedResult:
    """Return the counts of all sources pooled, with each source as a group."""
    human, said, matched = (
        sum(getattr(each, name) for each in by.values()) for name in ("n_gt", "n_tool", "n_matched")
    )
    return PublishedResult(
        file=origin["file"],
        sha256=origin["sha256"],
        form="sources",
        system=system,
        precision=matched / said if said else 0.0,
        recall=matched / human if human else 0.0,
        f1=2 * matched / (human + said) if human + said else 0.0,
        n_articles=sum(each.n_articles for each in by.values()),
        n_human=human,
        n_predicted=said,
        n_matched=matched,
        groups={
            name: PublishedGroup(
                precision=each.precision,
                recall=each.recall,
                f1=each.f1,
                n_articles=each.n_articles,
                n_human=each.n_gt,
                n_predicted=each.n_tool,
                n_matched=each.n_matched,
            )
            for name, each in by.items()
        },
    )


def _span(ends: Ends | None) -> Span | None:
    return None if ends is None else (ends.lo, ends.hi)
