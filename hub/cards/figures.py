"""What reports say about one adapter, whatever their task: tables for its card, results for its front matter."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import yaml
from huggingface_hub import EvalResult

from evals.report import reading, rows_of, stages_of, task_of
from evals.review.score import control_rates
from evals.schema import Metric, StageSummary
from evals.schema.reports import Report, ReviewReport
from evals.task import narrow
from hub.cards import TEMPLATES

WORDS: dict[str, dict[str, Any]] = yaml.safe_load((TEMPLATES / "figures.yaml").read_text(encoding="utf-8"))
INDEXED = ("accuracy", "ece")
"""Metrics that the model-index holds."""
WILSON = "†"
"""Marks Wilson's interval."""


@dataclass(frozen=True)
class ReportTables:
    """One report on one group of rows, as tables of text."""

    data: str
    group: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    baselines: tuple[tuple[str, ...], ...]
    facts: tuple[tuple[str, str], ...]
    note: str
    noun: str
    brief_note: str = ""
    subject: str = ""
    about: str = ""
    source: str = ""

    @property
    def title(self) -> str:
        """What was measured on what."""
        about = f" ({self.about})" if self.about else ""
        return f"{self.data}, {self.group} {self.noun}{about}"

    @property
    def brief(self) -> dict[str, str]:
        """The first figure of each stage, with its 95 % interval."""
        return {row[0]: row[2] for row in self.rows}

    @property
    def best_trivial(self) -> str:
        """The first figure of the best answer without a model, and whether it is higher than the last stage's."""
        best = next((each for each in self.baselines if each[2] != "–" and each[0] not in WORDS["ceilings"]), None)
        if best is None:
            return "–"
        last = self.rows[-1][2]
        is_higher = last != "–" and float(best[2].split(" ")[0]) > float(last.split(" ")[0])
        return f"{best[2]}{', which is higher' if is_higher else ''} ({best[0].split(' = ')[0]})"


def evaluation_tables(reports: Mapping[str, Report[Any]], stage: str) -> list[ReportTables]:
    """Return each report's tables, the largest first and those on facts that were trained on last."""
    found = [(len(report.rows), name, tables_of(report, stage)) for name, report in reports.items()]
    found.sort(key=lambda each: (bool(each[2] and each[2].about), -each[0]))
    return [replace(table, source=name) for _, name, table in found if table]


def tables_of(report: Report[Any], stage: str | None = None) -> ReportTables | None:
    """Return the tables of a report's stages up to one, of all if None; None where it holds no figures."""
    stages = list(stages_of(report))
    if not stages or not report.summaries:
        return None
    stages = stages[: stages.index(stage) + 1] if stage in stages else stages
    task, group = task_of(report), _group(report, stages[-1])
    words = WORDS.get(report.task, {"columns": {}})
    of_group = [each for each in report.summaries if each.group == group]
    keys = [
        name
        for name in dict.fromkeys((*words["columns"], *narrow(task.metrics)))
        if any(name in each.metrics for each in of_group)
    ]

    def row(name: str, known: Mapping[str, Metric]) -> tuple[str, ...]:
        n = known[keys[0]].n if keys[0] in known else None
        figures = (_figure_text(known.get(key), n if words.get("own_n") else None) for key in keys)
        return (name, "–" if n is None else str(n), *figures)

    none = Metric(value=None, n=0)
    trivial: dict[str, Mapping[str, Metric]] = {each.stage: each.metrics for each in of_group if each.is_baseline}
    if isinstance(report, ReviewReport):
        papers = rows_of(report, stages[-1], group)
        for name, control in control_rates(papers).items():
            rates = {key: Metric(value=getattr(control, key, None), n=len(papers)) for key in keys}
            trivial[words["controls"][name]] = rates
    alike: dict[tuple[str, ...], list[str]] = {}
    for name, known in sorted(trivial.items(), key=lambda each: -(each[1].get(keys[0], none).value or 0.0)):
        alike.setdefault(row(name, known)[1:], []).append(name)
    tables = [row(each.stage, each.metrics) for name in stages for each in of_group if each.stage == name]
    tables += [(" = ".join(names), *values) for values, names in alike.items()]
    titles = ("stage", "n", *(words["columns"].get(key, key.replace("_", " ")) for key in keys))
    places = [at for at in range(len(titles)) if at < 3 or any(each[at] != "–" for each in tables)]
    columns, *tables = (tuple(each[at] for at in places) for each in (titles, *tables))
    counts = [f"{each.stage}: {reading(each.read_by)}" for each in of_group if each.stage in stages]
    settings = ", ".join(f"{key} {value}" for key, value in report.settings.items() if value is not None)
    named = ((name, each) for name, each in report.instrument.items() if each != "{}")
    judges = [each if each.startswith(name) else f"{name} {each}" for name, each in named]
    facts = {
        task.noun: report.data_name if group == "all" else f"{report.data_name}, group {group}",
        "how answers were read": "; ".join(counts) if task.says_reading else "",
        f"sha256 of the {task.noun}": f"`{report.data_sha256}`",
        "settings": settings,
        "judged by": ", ".join(judges),
        "measured": f"{report.created_at:%Y-%m-%d}",
    }
    return ReportTables(
        data=report.data_name,
        group=group,
        columns=columns,
        rows=tuple(tables[: len(tables) - len(alike)]),
        baselines=tuple(tables[len(tables) - len(alike) :]),
        facts=tuple((name, fact) for name, fact in facts.items() if fact),
        note=words.get("note", "") + (f"\n{WORDS['wilson']}" if any(WILSON in str(each) for each in tables) else ""),
        noun=task.noun,
        brief_note=words.get("brief", ""),
        subject=WORDS["subjects"].get(report.data_name, ""),
        about=WORDS["known_facts"].get(report.data_name, ""),
    )


def _figure_text(metric: Metric | None, n: int | None = None) -> str:
    """Return a figure with its interval, and with its own n where that is not `n`; a dash where it is undefined."""
    if metric is None or metric.value is None:
        return "–"
    interval = "" if metric.low is None or metric.high is None else f" [{metric.low:.3f}, {metric.high:.3f}]"
    interval += WILSON if interval and "Wilson" in (metric.note or "") else ""
    return f"{metric.value:.3f}{interval}{f', n {metric.n}' if n not in (None, metric.n) else ''}"


def _group(report: Report[Any], stage: str) -> str:
    headline = task_of(report).headline
    return headline if _summary(report, stage, headline) else "all"


def _summary(report: Report[Any], stage: str, group: str) -> StageSummary | None:
    return next((each for each in report.summaries if (each.stage, each.group) == (stage, group)), None)


def eval_results(reports: Iterable[Report[Any]], stage: str) -> list[EvalResult]:
    """Return the results on questions for a card's model-index, n and interval in the name of every figure."""
    found = []
    for report in (report for report in reports if report.task == "questions"):
        known = WORDS["known_facts"].get(report.data_name)
        group = _group(report, stage)
        summary = _summary(report, stage, group)
        for name in INDEXED:
            metric = summary.metrics.get(name) if summary else None
            if metric is None or metric.value is None:
                continue
            words = f"n {metric.n}"
            if metric.low is not None and metric.high is not None:
                words += f", 95 % interval {metric.low:.3f} to {metric.high:.3f}"
            found.append(
                EvalResult(
                    task_type="text-generation",
                    dataset_type="custom",
                    dataset_name=f"{report.data_name}, {group} questions{f' ({known})' if known else ''}",
                    dataset_config=report.data_name,
                    dataset_split=None if known else "test",
                    dataset_args={"sha256": report.data_sha256},
                    metric_type=name,
                    metric_name=f"{WORDS['questions']['columns'][name]} ({words})",
                    metric_value=round(metric.value, 4),
                )
            )
    return found
