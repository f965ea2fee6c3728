"""Answers to records, judged for a report, and the report's tables: what `run` and `rescore` share."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evals.errors import BadConfig
from lab.commands.refiner_judge import verdicts_on
from lab.console import counted, notes, table_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from evals.refiner.answering import Answered
    from evals.refiner.judging import Judge
    from evals.refiner.second import OtherSet
    from evals.schema.refinerreports import RefinerReport, RefinerRow
    from evals.schema.refining import RefinerRecord, RewardConfig
    from evals.schema.reports import Metric

SHOWN = ("reward", "rubric", "citation_f1", "wellformed")
"""What 80 columns hold; --json has every metric."""
TESTED = "refiner-test"
OtherItems = Annotated[
    str,
    typer.Option(
        help="Items of another writer, judged beside: a JSONL file, second (our own, for refiner-test), or"
        " none; as by default second for refiner-test."
    ),
]


def records_named(data: str) -> "tuple[RefinerRecord, ...]":
    """Return the records of a data set or a JSONL file; BadConfig for a name that is neither."""
    from evals.refiner.bank import DATASETS, refiner_bank
    from evals.refiner.records import read_records

    if data in DATASETS:
        return refiner_bank().test if data == TESTED else refiner_bank().train
    if not data.endswith(".jsonl"):
        raise BadConfig(
            f"no data set is called {data!r}; known are {', '.join(DATASETS)}, or name a JSONL file."
        )
    return read_records(Path(data))


def other_set(word: str, data: str, records: "Sequence[RefinerRecord]") -> "OtherSet | None":
    """Return the items of another writer that a word names; None if there are to be none."""
    from evals.refiner.second import read_other_items, second_set

    if word == "none" or (not word and data != TESTED):
        return None
    if word.endswith(".jsonl"):
        found = read_other_items(Path(word), records, Path(word).name)
        if found.unasked:
            told = f"{counted(found.unasked, 'row')} about records that are not asked"
            notes.print(f"{found.name} has {told}", style="yellow", soft_wrap=True)
        return found
    if word not in ("", "second"):
        raise BadConfig(f"--items is {word!r}; it takes a JSONL file, second, or none.")
    if not any(record.id in second_set().items for record in records):
        raise BadConfig(
            f"--items second has items for the records of {TESTED} alone, and none is asked; name a JSONL"
            " file, or none."
        )
    return second_set()


def graded(
    given: "Sequence[Answered]", config: "RewardConfig", judge: "Judge", others: "OtherSet | None"
) -> "list[RefinerRow]":
    """Return the rows of a report; whatever is well formed is judged, gate or not.

    Items of others are asked about apart, so that they change no verdict on the record's own.
    """
    from evals.refiner.answering import beside
    from evals.refiner.explain import judged_items

    known = others.items if others else {}
    prepared = [each.prepared(config) for each in given]
    extra = {
        place: beside(case, known[case.record.id])
        for place, case in enumerate(prepared)
        if case.record.id in known
    }
    asked = [place for place, case in enumerate(prepared) if case.is_judgeable]
    second = [place for place in asked if place in extra]
    inquiries = [prepared[at].inquiry() for at in asked] + [extra[at].inquiry() for at in second]
    verdicts = verdicts_on(judge, inquiries)
    own = dict(zip(asked, verdicts[: len(asked)], strict=True))
    theirs = dict(zip(second, verdicts[len(asked) :], strict=True))
    return [
        each.row(
            case,
            own.get(place),
            judge.label,
            judged_items(extra[place], theirs.get(place)) if place in extra else (),
        )
        for place, (each, case) in enumerate(zip(given, prepared, strict=True))
    ]


def tables(report: "RefinerReport") -> "RenderableType":
    """Return the means of a report, and under them the rubric by who wrote its items."""
    from rich.console import Group

    from evals.refiner.sources import PREFIX

    names = dict.fromkeys(name for each in report.summaries for name in each.metrics)
    by_writer = [name for name in names if name.startswith(PREFIX)]
    about = f"means with 95 % intervals, judged by {report.judge}"
    first = _table(report, SHOWN, f"{report.data_name}: {about}")
    if len(by_writer) < 2:
        return first
    title = "the rubric by who wrote its items"
    return Group(first, _table(report, by_writer, title, PREFIX))


def _table(
    report: "RefinerReport", metrics: "Sequence[str]", title: str, prefix: str = ""
) -> "RenderableType":
    asked = Counter(row.stage for row in report.rows)
    rows = [
        (each.stage, *(_metric(each.metrics[name], asked[each.stage]) for name in metrics))
        for each in report.summaries
    ]
    return table_of(title, ("stage", *(name.removeprefix(prefix) for name in metrics)), rows)


def _metric(metric: "Metric", asked: int) -> str:
    """Return a mean, its interval, and n where it is not over all answers that were asked for."""
    if metric.value is None:
        return "none"
    span = "" if metric.low is None else f"\n{metric.low:.2f} to {metric.high:.2f}"
    return f"{metric.value:.2f}{span}" + (f"\nn {metric.n} of {asked}" if metric.n < asked else "")
