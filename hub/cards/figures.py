"""What scores of reviewers and reports on refiners say about one adapter, as tables for its card."""

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw, ImageFont
from pydantic import ValidationError

from evals.errors import LabError
from evals.report import HEADLINE, calibration_of, reading, stages_of
from evals.schema import EvalReport, Metric, StageSummary
from evals.schema.reports import Control, RefinerReport, ReviewReport, ReviewScore
from evals.schema.reviewruns import ReviewRun
from evals.stats.calibration import Bin

WIDTH, HEIGHT = 720, 560
LEFT, TOP, SIDE = 90, 60, 420
LEGEND = (
    ("upwards: share correct", "#1f2937"),
    ("line: 95 % interval", "#1f2937"),
    ("grey line: calibrated", "#6b7280"),
    ("bars: number of answers", "#4f46e5"),
)
SCALE = 2
"""Drawn so many times larger and made smaller, for smooth lines."""
INK, PALE, LINE, FILL = "#1f2937", "#9ca3af", "#4f46e5", "#a5b4fc"


def reliability_png(bins: Sequence[Bin], title: str) -> bytes:
    """Return a PNG; bins without a row are not drawn.

    The diagonal is what a calibrated model would show. A bin's dot lies at its mean confidence and
    share correct, the line through it is the 95 % interval, and the bars below count its rows.
    """
    image = Image.new("RGB", (WIDTH * SCALE, HEIGHT * SCALE), "white")
    draw = ImageDraw.Draw(image)
    _axes(draw, title)
    used = [one for one in bins if one.n and one.confidence is not None]
    most = max((one.n for one in used), default=1)
    for one in used:
        _bin(draw, one, most)
    small = image.resize((WIDTH, HEIGHT), Image.Resampling.LANCZOS)
    file = io.BytesIO()
    small.save(file, "PNG", optimize=True)
    return file.getvalue()


def _axes(draw: ImageDraw.ImageDraw, title: str) -> None:
    _text(draw, (LEFT, 20), title, INK, 18)
    draw.rectangle(_scaled(LEFT, TOP, LEFT + SIDE, TOP + SIDE), outline=PALE, width=SCALE)
    draw.line(_scaled(*_place(0, 0), *_place(1, 1)), fill=PALE, width=SCALE)
    for tick in range(0, 101, 20):
        x, y = _place(tick / 100, 0)
        _text(draw, (x - 12, y + 8), f"{tick} %", INK, 13)
        x, y = _place(0, tick / 100)
        _text(draw, (x - 48, y - 8), f"{tick} %", INK, 13)
    _text(draw, (LEFT + 120, TOP + SIDE + 34), "stated confidence", INK, 15)
    for at, (words, colour) in enumerate(LEGEND):
        _text(draw, (LEFT + SIDE + 20, TOP + 24 * at), words, colour, 14)


def _bin(draw: ImageDraw.ImageDraw, one: Bin, most: int) -> None:
    height = 0.25 * one.n / most
    low, high = _place(one.lower + 0.01, height), _place(one.upper - 0.01, 0)
    draw.rectangle(_scaled(*low, *high), fill=FILL)
    _text(draw, (low[0] + 4, low[1] - 16), str(one.n), LINE, 12)
    if one.accuracy is None or one.confidence is None:
        return
    x, y = _place(one.confidence, one.accuracy)
    if one.interval is not None:
        (_, bottom), (_, top) = (_place(one.confidence, each) for each in one.interval)
        draw.line(_scaled(x, bottom, x, top), fill=INK, width=2 * SCALE)
    draw.ellipse(_scaled(x - 5, y - 5, x + 5, y + 5), fill=LINE)


def _place(confidence: float, accuracy: float) -> tuple[float, float]:
    return LEFT + SIDE * confidence, TOP + SIDE * (1 - accuracy)


def _scaled(*values: float) -> tuple[float, ...]:
    return tuple(SCALE * value for value in values)


def _text(draw: ImageDraw.ImageDraw, place: tuple[float, float], text: str, colour: str, size: int) -> None:
    font = ImageFont.load_default(size * SCALE)
    x, y = place
    draw.text((SCALE * x, SCALE * y), text, fill=colour, font=font)


SHOWN = ("accuracy", "reward", "ece", "ece_if_calibrated_q95", "brier", "base_rate_brier", "auroc")
NAMES = {
    "accuracy": "accuracy",
    "reward": "verifier reward",
    "ece": "ECE",
    "ece_if_calibrated_q95": "ECE by chance, 95th percentile",
    "brier": "Brier score",
    "base_rate_brier": "Brier score of always stating the share correct",
    "auroc": "AUROC of the confidence",
}
INDEXED = ("accuracy", "ece", "brier")
"""Metrics that the model-index holds."""
TASK = {"type": "question-answering", "name": "Biology questions with known answers"}


EVAL_NOTE = (
    "In brackets: 95 % intervals, by resampling whole clusters of related questions. An answer is correct if it"
    " asserts the truth and nothing that contradicts it. ECE and Brier score are over answers that make a claim"
    " and state a confidence; an ECE below what chance gives is no sign of anything."
)


@dataclass(frozen=True)
class Measured:
    """One report on one group of questions, as tables of text; `figure` is the plot's file name."""

    data: str
    group: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    baselines: tuple[tuple[str, ...], ...]
    facts: tuple[tuple[str, str], ...]
    figure: str | None
    note: str = EVAL_NOTE
    asked: str = "questions"

    @property
    def title(self) -> str:
        """What was measured on what."""
        return f"{self.data}, {self.group} {self.asked}"


def measured(reports: Mapping[str, EvalReport], stage: str) -> tuple[list[Measured], dict[str, bytes]]:
    """Return each report's tables, and the plots by file name."""
    found, figures = [], {}
    for name, report in reports.items():
        group = HEADLINE if _of(report, stage, HEADLINE) else "all"
        figure = f"calibration-{name.removesuffix('.json')}.png"
        image = _figure(report, stage, group)
        if image is not None:
            figures[figure] = image
        found.append(_measured(report, stage, group, figure if image else None))
    return found, figures


def tables_of(report: EvalReport) -> Measured | None:
    """Return the tables of all stages of a report, without a plot; None where it holds no figures."""
    stages = stages_of(report)
    if not stages or not report.summaries:
        return None
    group = HEADLINE if _of(report, stages[-1], HEADLINE) else "all"
    return _measured(report, stages[-1], group, None)


def model_index(name: str, reports: Iterable[EvalReport], stage: str) -> list[dict[str, Any]] | None:
    """Return the front matter's model-index, n and interval with every figure; None without any."""
    results = []
    for report in reports:
        known: list[dict[str, Any]] = []
        for group in (HEADLINE, "all"):
            summary = _of(report, stage, group)
            metrics = _indexed(summary.metrics) if summary else []
            if metrics and metrics != known:  # where no question is aided, both groups are one
                known = metrics
                data = {
                    "type": report.data_name,
                    "name": f"{report.data_name}, {group} questions",
                    "split": "test",
                    "args": {"sha256": report.data_sha256, "group": group},
                }
                results.append({"task": dict(TASK), "dataset": data, "metrics": metrics})
    return [{"name": name, "results": results}] if results else None


def shown(metric: Metric | None) -> str:
    """Return a figure with its interval; a dash where it is undefined.

    >>> shown(Metric(value=0.5, n=10, low=0.25, high=0.75))
    '0.500 [0.250, 0.750]'
    """
    if metric is None or metric.value is None:
        return "–"
    if metric.low is None or metric.high is None:
        return f"{metric.value:.3f}"
    return f"{metric.value:.3f} [{metric.low:.3f}, {metric.high:.3f}]"


def _indexed(metrics: Mapping[str, Metric]) -> list[dict[str, Any]]:
    found = []
    for name in INDEXED:
        metric = metrics.get(name)
        if metric is None or metric.value is None:
            continue
        args: dict[str, Any] = {"n": metric.n}
        words = f"n {metric.n}"
        if metric.low is not None and metric.high is not None:
            args |= {"low": round(metric.low, 4), "high": round(metric.high, 4), "level": 0.95}
            words += f", 95 % interval {metric.low:.3f} to {metric.high:.3f}"
        found.append(
            {
                "type": name,
                "name": f"{NAMES[name]} ({words})",
                "value": round(metric.value, 4),
                "args": args,
            }
        )
    return found


def _measured(report: EvalReport, stage: str, group: str, figure: str | None) -> Measured:
    stages = list(stages_of(report))
    stages = stages[: stages.index(stage) + 1]
    baselines = [each for each in report.summaries if each.is_baseline and each.group == group]
    present = {name for each in stages for name in _metrics(report, each, group)}
    keys = [name for name in SHOWN if name in present]
    counts = {each: summary.read_by for each in stages if (summary := _of(report, each, group))}
    facts = {
        "questions": f"{report.data_name}, group {group}",
        "how answers were read": "; ".join(f"{each}: {reading(n)}" for each, n in counts.items()),
        "sha256 of the questions": f"`{report.data_sha256}`",
        "settings": ", ".join(f"{key} {value}" for key, value in report.settings.items() if value is not None),
        "judged by": ", ".join(report.versions.values()),
        "measured": f"{report.created_at:%Y-%m-%d}",
    }
    return Measured(
        data=report.data_name,
        group=group,
        columns=("stage", "n", *(NAMES[key] for key in keys)),
        rows=tuple(_row(each, _metrics(report, each, group), keys) for each in stages),
        baselines=_best(baselines, keys),
        facts=tuple(facts.items()),
        figure=figure,
    )


def _best(baselines: Sequence[StageSummary], keys: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Return all trivial baselines, the most accurate first."""

    def accuracy(summary: StageSummary) -> float:
        metric = summary.metrics.get("accuracy")
        return -(metric.value or 0.0) if metric else 0.0

    ordered = sorted(baselines, key=accuracy)
    return tuple(_row(each.stage, each.metrics, keys) for each in ordered)


def _row(name: str, metrics: Mapping[str, Metric], keys: Sequence[str]) -> tuple[str, ...]:
    accuracy = metrics.get("accuracy")
    n = str(accuracy.n) if accuracy else "–"
    return (name, n, *(shown(metrics.get(key)) for key in keys))


def _metrics(report: EvalReport, stage: str, group: str) -> Mapping[str, Metric]:
    summary = _of(report, stage, group)
    return summary.metrics if summary else {}


def _of(report: EvalReport, stage: str, group: str) -> StageSummary | None:
    found = (each for each in report.summaries if (each.stage, each.group) == (stage, group))
    return next(found, None)


def _figure(report: EvalReport, stage: str, group: str) -> bytes | None:
    """Return the calibration plot, None where no answer states a confidence for a claim."""
    if _of(report, stage, group) is None:
        return None
    found = calibration_of(report, stage, group)
    if not found.bins:
        return None
    n = found.n - found.n_missing_confidence
    return reliability_png(found.bins, f"{stage}: {report.data_name}, {group}, n {n}")


Judged = RefinerReport | ReviewScore | ReviewReport | ReviewRun
KINDS: Mapping[type[Judged], frozenset[str]] = {
    RefinerReport: frozenset(("judge_mode", "rows", "summaries")),
    ReviewScore: frozenset(("system", "headline", "matcher")),
    ReviewReport: frozenset(("systems", "tests", "against")),
    ReviewRun: frozenset(("prompt_version", "engine", "fingerprint")),
}
"""By which fields a record is known; the last two tell nothing of one adapter alone."""
COLUMNS = {"reward": "reward, of 10", "rubric": "rubric", "citation_f1": "citation F1"} | {
    "right_to_abstain": "right to abstain or answer",
    "wellformed": "well-formed",
}
REFINER_NOTE = (
    "In brackets: 95 % intervals, by resampling whole studies and tissues. The reward is what the judge"
    " named below makes of rubric and citations; it is no measure of truth beyond that judge. A figure with an n"
    " of its own is over those answers alone."
)
REVIEW_NOTE = (
    "In brackets: 95 % intervals, by resampling papers. *Above permuted* is what is left of F1 after the same"
    " lists were held against other papers: the part that comes from having read this one. The count bound"
    " is the most that lists of these lengths can get."
)


@dataclass(frozen=True)
class Graded:
    """A file of a run folder that measured its adapter, and its table."""

    file: Path
    table: Measured


def is_graded(file: Path) -> bool:
    """Whether a JSON file is a record of reviewing or refining, and so no report of `assay eval run`."""
    return _kind(file) is not None


def graded(files: Iterable[Path], stage: str, sha256: str) -> tuple[Graded, ...]:
    """Return what the files say of the adapter of this checksum; files about others are passed over.

    LabError for a file that is such a record and cannot be read.
    """
    found = []
    for file in files:
        record = _read(file)
        if isinstance(record, RefinerReport) and record.stage_checksums.get(stage) == sha256:
            found.append(Graded(file, _refined(record)))
        if isinstance(record, ReviewScore) and record.made_by is not None:
            made_by = record.made_by
            if made_by.stage == stage and made_by.checksums.get(stage) == sha256:
                found.append(Graded(file, _reviewed(record)))
    return tuple(found)


def _kind(file: Path) -> type[Judged] | None:
    try:
        known = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return None
    keys = known.keys() if isinstance(known, dict) else ()
    return next((kind for kind, needs in KINDS.items() if needs <= set(keys)), None)


def _read(file: Path) -> Judged | None:
    kind = _kind(file)
    try:
        return kind.model_validate_json(file.read_bytes()) if kind else None
    except ValidationError as error:
        field = ".".join(map(str, error.errors()[0]["loc"]))
        raise LabError(
            f"{file} is no {kind.__name__ if kind else 'record'} that this version can read (field"
            f" {field!r}: {error.errors()[0]['msg']}); write it anew, or take it out of the run folder."
        ) from None


def _refined(report: RefinerReport) -> Measured:
    def row(name: str, metrics: Mapping[str, Metric]) -> tuple[str, ...]:
        n = metrics["reward"].n
        return (name, str(n), *(_over(metrics.get(key), n) for key in COLUMNS))

    rows = [(each.is_baseline, row(each.stage, each.metrics)) for each in report.summaries]
    facts = {
        "records": report.data_name,
        "sha256 of the records": f"`{report.data_sha256}`",
        "judge": report.judge,
        "measured": f"{report.created_at:%Y-%m-%d}",
        "command": f"`{report.command}`",
    }
    return Measured(
        data=report.data_name,
        group="all",
        columns=("stage", "n", *COLUMNS.values()),
        rows=tuple(cells for is_baseline, cells in rows if not is_baseline),
        baselines=tuple(cells for is_baseline, cells in rows if is_baseline),
        facts=tuple(facts.items()),
        figure=None,
        note=REFINER_NOTE,
        asked="records",
    )


def _over(metric: Metric | None, n: int) -> str:
    """Return a figure with its interval, and with its own n where that is not `n`."""
    is_defined = metric is not None and metric.value is not None
    return shown(metric) + (f", n {metric.n}" if is_defined and metric.n != n else "")


def _reviewed(score: ReviewScore) -> Measured:
    spans, micro = score.intervals, score.micro

    def figure(name: str, value: float | None) -> str:
        low, high = spans.get(name) or (None, None)
        return shown(Metric(value=value, n=micro.n_articles, low=low, high=high))

    headline, controls = score.headline, score.controls
    above = figure("f1_above_permuted", headline.f1_above_permuted)
    own = (
        figure("f1", micro.f1),
        figure("recall", micro.recall),
        figure("precision", micro.precision),
    )
    others: dict[str, Control | None] = {}
    if controls is not None:
        others = {
            "permuted papers": controls.permuted,
            "generic objections": controls.generic,
            "BM25 retrieval": controls.bm25,
            "count bound": controls.count_bound,
        }
    facts = {
        "human concerns": f"{micro.n_human} on {micro.n_articles} papers",
        "matcher": f"{score.matcher.encoder}, threshold {score.matcher.threshold:.3f} ({score.matcher.threshold_from})",
        "sha256 of the reference": f"`{score.reference_sha256}`",
        "intervals": f"{score.draws:,} draws, seed {score.seed}",
    }
    return Measured(
        data="concerns of human reviewers",
        group="held-out",
        columns=("system", "papers", "F1 above permuted", "F1", "recall", "precision"),
        rows=((score.system, str(micro.n_articles), above, *own),),
        baselines=tuple(
            (
                name,
                str(each.n_articles),
                "–",
                f"{each.f1:.3f}",
                f"{each.recall:.3f}",
                f"{each.precision:.3f}",
            )
            for name, each in others.items()
            if each
        ),
        facts=tuple(facts.items()),
        figure=None,
        note=REVIEW_NOTE,
        asked="papers",
    )
