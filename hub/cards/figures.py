"""What reports say about one adapter, whatever their task: tables and plots for its card, results for its front matter."""

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import yaml
from huggingface_hub import EvalResult, EvalResultEntry, eval_result_entries_to_yaml
from huggingface_hub.constants import EVAL_RESULTS_FOLDER
from PIL import Image, ImageDraw, ImageFont

from evals.report import calibration_of, reading, stages_of, task_of
from evals.schema import EvalReport, Metric, StageSummary
from evals.schema.reports import Report, ReviewReport
from evals.stats.calibration import Bin
from evals.task import narrow
from hub.cards import TEMPLATES

WORDS: dict[str, dict[str, Any]] = yaml.safe_load((TEMPLATES / "figures.yaml").read_text(encoding="utf-8"))
INDEXED = ("accuracy", "ece")
"""Metrics that the model-index holds."""
WILSON = "†"
"""Stands behind an interval that is Wilson's."""


@dataclass(frozen=True)
class Measured:
    """One report on one group of rows, as tables of text; `figure` is the plot's file name."""

    data: str
    group: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    baselines: tuple[tuple[str, ...], ...]
    facts: tuple[tuple[str, str], ...]
    figure: str | None
    note: str
    asked: str
    source: str = ""

    @property
    def title(self) -> str:
        """What was measured on what."""
        return f"{self.data}, {'all' if self.group == 'all' else self.group} {self.asked}"

    @property
    def headline(self) -> str:
        """The first figure of the last stage, with n, beside the first stage's and the best control's."""
        (first, *_), last = self.rows, self.rows[-1]
        told = f"{self.columns[2]} **{last[2]}**, n {last[1]}"
        told += f"; {first[0]} {first[2]}" if first is not last else ""
        best = next((each for each in self.baselines if each[2] != "–"), None)
        return told + (f"; without a model at most {best[2]} ({best[0].split(' = ')[0]})" if best else "")


def measured(reports: Mapping[str, Report[Any]], stage: str) -> tuple[list[Measured], dict[str, bytes]]:
    """Return each report's tables, and the plots by file name."""
    found, figures = [], dict[str, bytes]()
    for name, report in reports.items():
        figure = f"calibration-{name.removesuffix('.json')}.png"
        if isinstance(report, EvalReport) and _summary(report, stage, group := _group(report, stage)):
            drawn = calibration_of(report, stage, group)
            title = f"{stage}: {report.data_name}, {group}, n {drawn.n - drawn.n_missing_confidence}"
            figures |= {figure: reliability_png(drawn.bins, title)} if drawn.bins else {}
        if table := tables_of(report, stage, figure if figure in figures else None):
            found.append(replace(table, source=name))
    return found, figures


def tables_of(report: Report[Any], stage: str | None = None, figure: str | None = None) -> Measured | None:
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
        figures = (_shown(known.get(key), n if words.get("own_n") else None) for key in keys)
        return (name, "–" if n is None else str(n), *figures)

    none = Metric(value=None, n=0)
    trivial = [each for each in of_group if each.is_baseline]
    trivial.sort(key=lambda each: each.metrics.get(keys[0], none).value or 0.0, reverse=True)
    baselines = [row(each.stage, each.metrics) for each in trivial]
    if isinstance(report, ReviewReport):
        for name, words_of in words["controls"].items():
            if control := getattr(report.score.controls, name, None):
                rates = {key: Metric(value=getattr(control, key, None), n=control.n_articles) for key in keys}
                baselines.append(row(words_of, rates))
    alike: dict[tuple[str, ...], list[str]] = {}
    for name, *values in baselines:
        alike.setdefault(tuple(values), []).append(name)
    tables = [row(each.stage, each.metrics) for name in stages for each in of_group if each.stage == name]
    tables += [(" = ".join(names), *values) for values, names in alike.items()]
    titles = ("stage", "n", *(words["columns"].get(key, key.replace("_", " ")) for key in keys))
    told = [at for at in range(len(titles)) if at < 3 or any(each[at] != "–" for each in tables)]
    columns, *tables = (tuple(each[at] for at in told) for each in (titles, *tables))
    counts = [f"{each.stage}: {reading(each.read_by)}" for each in of_group if each.stage in stages]
    settings = ", ".join(f"{key} {value}" for key, value in report.settings.items() if value is not None)
    named = ((name, each) for name, each in report.instrument.items() if each != "{}")
    judges = [each if each.startswith(name) else f"{name} {each}" for name, each in named]
    facts = {
        task.asked: report.data_name if group == "all" else f"{report.data_name}, group {group}",
        "how answers were read": "; ".join(counts) if task.says_reading else "",
        f"sha256 of the {task.asked}": f"`{report.data_sha256}`",
        "settings": settings,
        "judged by": ", ".join(judges),
        "measured": f"{report.created_at:%Y-%m-%d}",
    }
    return Measured(
        data=report.data_name,
        group=group,
        columns=columns,
        rows=tuple(tables[: len(tables) - len(alike)]),
        baselines=tuple(tables[len(tables) - len(alike) :]),
        facts=tuple((name, fact) for name, fact in facts.items() if fact),
        figure=figure,
        note=words.get("note", "") + (f" {WORDS['wilson']}" if any(WILSON in str(each) for each in tables) else ""),
        asked=task.asked,
    )


def _shown(metric: Metric | None, n: int | None = None) -> str:
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


def eval_results(reports: Iterable[Report[Any]], stage: str, benchmarks: Mapping[str, str]) -> list[EvalResult]:
    """Return the results on questions for a card's model-index, n and interval in the name of every figure.

    `benchmarks` names the data sets of the Hub that hold the questions; others are no data sets that the Hub knows.
    """
    found = []
    for report in (report for report in reports if report.task == "questions"):
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
                    dataset_type=benchmarks.get(report.data_name, "custom"),
                    dataset_name=f"{report.data_name}, {group} questions",
                    dataset_config=report.data_name,
                    dataset_split="test",
                    dataset_args={"sha256": report.data_sha256},
                    metric_type=name,
                    metric_name=f"{WORDS['questions']['columns'][name]} ({words})",
                    metric_value=round(metric.value, 4),
                )
            )
    return found


def benchmark_results(reports: Iterable[Report[Any]], stage: str, benchmarks: Mapping[str, str]) -> dict[str, str]:
    """Return the files of `.eval_results` by path: the accuracy on questions that are a data set of the Hub."""
    found = {}
    for report in reports:
        place, summary = benchmarks.get(report.data_name), _summary(report, stage, _group(report, stage))
        metric = summary.metrics.get("accuracy") if summary else None
        if place and metric and metric.value is not None:
            told = f"share of answers that are right, {_group(report, stage)} questions, {_shown(metric)}, n {metric.n}"
            known: dict[str, Any] = {"value": round(metric.value, 4), "date": f"{report.created_at:%Y-%m-%d}"}
            entry = EvalResultEntry(dataset_id=place, task_id=report.data_name, notes=told, **known)
            name = f"{EVAL_RESULTS_FOLDER}/{report.data_name}.yaml"
            found[name] = yaml.safe_dump(eval_result_entries_to_yaml([entry]), sort_keys=False, allow_unicode=True)
    return found


SCALE = 2
"""Drawn so many times larger and made smaller, for smooth lines."""
WIDTH, HEIGHT, LEFT, TOP, SIDE = 720, 560, 90, 60, 420
INK, PALE, LINE, FILL = "#1f2937", "#9ca3af", "#4f46e5", "#a5b4fc"
LEGEND = {
    "upwards: share correct": INK,
    "line: 95 % interval": INK,
    "grey line: calibrated": "#6b7280",
    "bars: number of answers": LINE,
}


def reliability_png(bins: Sequence[Bin], title: str) -> bytes:
    """Return a PNG; bins without a row are not drawn. Pillow is here anyway; matplotlib would come for this plot alone.

    The diagonal is what a calibrated model would show. A bin's dot lies at its mean confidence and
    share correct, the line through it is the 95 % interval, and the bars below count its rows.
    """
    image = Image.new("RGB", (WIDTH * SCALE, HEIGHT * SCALE), "white")
    draw = ImageDraw.Draw(image)

    def place(confidence: float, accuracy: float) -> tuple[float, float]:
        return LEFT + SIDE * confidence, TOP + SIDE * (1 - accuracy)

    def scaled(*values: float) -> tuple[float, ...]:
        return tuple(SCALE * value for value in values)

    def write(x: float, y: float, text: str, colour: str, size: int) -> None:
        draw.text((SCALE * x, SCALE * y), text, fill=colour, font=ImageFont.load_default(size * SCALE))

    write(LEFT, 20, title, INK, 18)
    draw.rectangle(scaled(LEFT, TOP, LEFT + SIDE, TOP + SIDE), outline=PALE, width=SCALE)
    draw.line(scaled(*place(0, 0), *place(1, 1)), fill=PALE, width=SCALE)
    for tick in range(0, 101, 20):
        along, up = place(tick / 100, 0), place(0, tick / 100)
        write(along[0] - 12, along[1] + 8, f"{tick} %", INK, 13)
        write(up[0] - 48, up[1] - 8, f"{tick} %", INK, 13)
    write(LEFT + 120, TOP + SIDE + 34, "stated confidence", INK, 15)
    for at, (words, colour) in enumerate(LEGEND.items()):
        write(LEFT + SIDE + 20, TOP + 24 * at, words, colour, 14)
    most = max((one.n for one in bins), default=1)
    for one in bins:
        if not one.n or one.confidence is None or one.accuracy is None:
            continue
        corner = place(one.lower + 0.01, 0.25 * one.n / most)
        draw.rectangle(scaled(*corner, *place(one.upper - 0.01, 0)), fill=FILL)
        write(corner[0] + 4, corner[1] - 16, str(one.n), LINE, 12)
        x, y = place(one.confidence, one.accuracy)
        if one.interval is not None:
            low, high = (place(one.confidence, each)[1] for each in one.interval)
            draw.line(scaled(x, low, x, high), fill=INK, width=2 * SCALE)
        draw.ellipse(scaled(x - 5, y - 5, x + 5, y + 5), fill=LINE)
    small, file = image.resize((WIDTH, HEIGHT), Image.Resampling.LANCZOS), io.BytesIO()
    small.save(file, "PNG", optimize=True)
    return file.getvalue()
