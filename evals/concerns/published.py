"""Results as others published them: read into one record, checked for what cannot be, never recomputed.

Four forms are known: the result record of bioreview-bench, the summary beside a training project's
predictions, a table of sources by tool, and a leaderboard. What a file does not say stays unsaid.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, Field, ValidationError

from evals.concerns.consistency import faults_of
from evals.errors import LabError
from evals.schema.record import Record
from evals.schema.reviewreports import PublishedGroup, PublishedResult, Span

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
    groups = {
        name: PublishedGroup(**each.model_dump()) for name, each in found.per_category.items()
    }
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
