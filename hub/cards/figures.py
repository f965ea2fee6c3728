"""What reports and scores say about one adapter: tables and plots for its card, results for its front matter."""

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import EvalResult
from PIL import Image, ImageDraw, ImageFont
from pydantic import ValidationError

from evals.errors import LabError
from evals.report import HEADLINE, MEASURES, calibration_of, reading, stages_of
from evals.schema import EvalReport, Metric, StageSummary
from evals.schema.reports import Control, RefinerReport, ReviewReport, ReviewScore
from evals.stats.calibration import Bin
from evals.task import narrow

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
REFINER_NAMES = {
    "reward": "reward, of 10",
    "rubric": "rubric",
    "citation_f1": "citation F1",
    "right_to_abstain": "right to abstain or answer",
    "wellformed": "well-formed",
}
EVAL_NOTE = (
    "In brackets: 95 % intervals, by resampling whole clusters of related questions. An answer is correct if it"
    " asserts the truth and nothing that contradicts it. ECE and Brier score are over answers that make a claim"
    " and state a confidence; an ECE below what chance gives is no sign of anything."
)
REFINER_NOTE = (
    "In brackets: 95 % intervals, by resampling whole studies and tissues. The reward is what the judge"
    " named below makes of rubric and citations; it is no measure of truth beyond that judge. A figure with an n"
    " of its own is over those answers alone."
)
REVIEW_METRICS = ("f1_above_permuted", "f1", "recall", "precision")
REVIEW_NOTE = (
    "In brackets: 95 % intervals, by resampling papers. *Above permuted* is what is left of F1 after the same"
    " lists were held against other papers: the part that comes from having read this one. The count bound"
    " is the most that lists of these lengths can get."
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
    figure: str | None = None
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
        group = _headline(report, stage)
        image = _plot(report, stage, group)
        figure = f"calibration-{name.removesuffix('.json')}.png" if image else None
        if image and figure:
            figures[figure] = image
        found.append(_measured(report, stage, group, figure))
    return found, figures


def tables_of(report: EvalReport) -> Measured | None:
    """Return the tables of all stages of a report, without a plot; None where it holds no figures."""
    stages = stages_of(report)
    if not stages or not report.summaries:
        return None
    return _measured(report, stages[-1], _headline(report, stages[-1]), None)


def eval_results(reports: Iterable[EvalReport], stage: str) -> list[EvalResult]:
    """Return the results for a card's model-index, n and interval with every figure."""
    found = []
    for report in reports:
        known: Mapping[str, Metric] = {}
        for group in (HEADLINE, "all"):
            metrics = _metrics(report, stage, group)
            if metrics == known:  # where no question is aided, both groups are one
                continue
            known = metrics
            for name in INDEXED:
                metric = metrics.get(name)
                if metric is not None and metric.value is not None:
                    found.append(_eval_result(report, group, name, metric, metric.value))
    return found


def _eval_result(report: EvalReport, group: str, name: str, metric: Metric, value: float) -> EvalResult:
    words, args = f"n {metric.n}", dict[str, float](n=metric.n)
    if metric.low is not None and metric.high is not None:
        words += f", 95 % interval {metric.low:.3f} to {metric.high:.3f}"
        args |= {"low": round(metric.low, 4), "high": round(metric.high, 4), "level": 0.95}
    return EvalResult(
        task_type="question-answering",
        task_name="Biology questions with known answers",
        dataset_type=report.data_name,
        dataset_name=f"{report.data_name}, {group} questions",
        dataset_config=group,
        dataset_split="test",
        dataset_args={"sha256": report.data_sha256},
        metric_type=name,
        metric_name=f"{NAMES[name]} ({words})",
        metric_value=round(value, 4),
        metric_args=args,
    )


def _measured(report: EvalReport, stage: str, group: str, figure: str | None) -> Measured:
    stages = list(stages_of(report))
    stages = stages[: stages.index(stage) + 1]
    metrics = {each: _metrics(report, each, group) for each in stages}
    keys = [
        name for name in dict.fromkeys((*NAMES, *narrow(MEASURES))) if any(name in each for each in metrics.values())
    ]
    baselines = [each for each in report.summaries if each.is_baseline and each.group == group]
    counts = {each: summary.read_by for each in stages if (summary := _summary(report, each, group))}
    facts = {
        "questions": f"{report.data_name}, group {group}",
        "how answers were read": "; ".join(f"{each}: {reading(n)}" for each, n in counts.items()),
        "sha256 of the questions": f"`{report.data_sha256}`",
        "settings": ", ".join(f"{key} {value}" for key, value in report.settings.items() if value is not None),
        "judged by": ", ".join(report.versions.values()),
        "measured": f"{report.created_at:%Y-%m-%d}",
    }

    def row(name: str, known: Mapping[str, Metric]) -> tuple[str, ...]:
        accuracy = known.get("accuracy")
        return (name, str(accuracy.n) if accuracy else "–", *(_shown(known.get(key)) for key in keys))

    def accuracy(summary: StageSummary) -> float:
        metric = summary.metrics.get("accuracy")
        return (metric.value or 0.0) if metric else 0.0

    return Measured(
        data=report.data_name,
        group=group,
        columns=("stage", "n", *(NAMES.get(key, key.replace("_", " ")) for key in keys)),
        rows=tuple(row(*each) for each in metrics.items()),
        baselines=tuple(row(each.stage, each.metrics) for each in sorted(baselines, key=accuracy, reverse=True)),
        facts=tuple(facts.items()),
        figure=figure,
    )


def _shown(metric: Metric | None, n: int | None = None) -> str:
    """Return a figure with its interval, and with its own n where that is not `n`; a dash where it is undefined."""
    if metric is None or metric.value is None:
        return "–"
    interval = "" if metric.low is None or metric.high is None else f" [{metric.low:.3f}, {metric.high:.3f}]"
    return f"{metric.value:.3f}{interval}{f', n {metric.n}' if n not in (None, metric.n) else ''}"


def _headline(report: EvalReport, stage: str) -> str:
    return HEADLINE if _summary(report, stage, HEADLINE) else "all"


def _metrics(report: EvalReport, stage: str, group: str) -> Mapping[str, Metric]:
    summary = _summary(report, stage, group)
    return summary.metrics if summary else {}


def _summary(report: EvalReport, stage: str, group: str) -> StageSummary | None:
    return next((each for each in report.summaries if (each.stage, each.group) == (stage, group)), None)


Judged = RefinerReport | ReviewScore | ReviewReport
KINDS: Mapping[type[Judged], frozenset[str]] = {
    RefinerReport: frozenset(("judge_mode", "rows", "summaries")),
    ReviewScore: frozenset(("system", "headline", "matcher")),
    ReviewReport: frozenset(("score", "rows", "summaries")),
}
"""By which fields a record is known."""
BESIDE = (frozenset(("systems", "against")), frozenset(("prompt_version", "engine", "fingerprint")))
"""Fields of a report on several systems and of a run's record, which tell nothing of one adapter alone."""


@dataclass(frozen=True)
class Graded:
    """A file of a run folder that measured its adapter, and its table."""

    file: Path
    table: Measured


def is_graded(file: Path) -> bool:
    """Whether a JSON file is a record of reviewing or refining, and so no report of `assay eval run`."""
    return _kind(file) is not None or any(fields <= _fields(file) for fields in BESIDE)


def graded(files: Iterable[Path], stage: str, sha256: str) -> tuple[Graded, ...]:
    """Return what the files say of the adapter of this checksum; files about others are passed over.

    LabError for a file that is such a record and cannot be read.
    """
    found = []
    for file in files:
        record = _read(file)
        if isinstance(record, RefinerReport) and record.stage_checksums.get(stage) == sha256:
            found.append(Graded(file, _refined(record)))
        report = ReviewReport.of(record) if isinstance(record, ReviewScore) else record
        made_by = report.score.made_by if isinstance(report, ReviewReport) else None
        if made_by and (made_by.stage, made_by.checksums.get(stage)) == (stage, sha256):
            assert isinstance(report, ReviewReport)
            found.append(Graded(file, _reviewed(report)))
    return tuple(found)


def _fields(file: Path) -> set[str]:
    try:
        known = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return set()
    return set(known) if isinstance(known, dict) else set()


def _kind(file: Path) -> type[Judged] | None:
    return next((kind for kind, needs in KINDS.items() if needs <= _fields(file)), None)


def _read(file: Path) -> Judged | None:
    kind = _kind(file)
    try:
        return kind.model_validate_json(file.read_bytes()) if kind else None
    except ValidationError as error:
        field, name = ".".join(map(str, error.errors()[0]["loc"])), kind.__name__ if kind else "record"
        raise LabError(
            f"{file} is no {name} that this version can read (field {field!r}: {error.errors()[0]['msg']});"
            " write it anew, or take it out of the run folder."
        ) from None


def _refined(report: RefinerReport) -> Measured:
    def row(each: StageSummary) -> tuple[str, ...]:
        n = each.metrics["reward"].n
        return (each.stage, str(n), *(_shown(each.metrics.get(key), n) for key in REFINER_NAMES))

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
        columns=("stage", "n", *REFINER_NAMES.values()),
        rows=tuple(row(each) for each in report.summaries if not each.is_baseline),
        baselines=tuple(row(each) for each in report.summaries if each.is_baseline),
        facts=tuple(facts.items()),
        note=REFINER_NOTE,
        asked="records",
    )


def _reviewed(report: ReviewReport) -> Measured:
    score, metrics = report.score, report.summaries[0].metrics
    micro, controls = score.micro, score.controls
    others: dict[str, Control | None] = {}
    if controls:
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
        rows=((score.system, str(micro.n_articles), *(_shown(metrics.get(name)) for name in REVIEW_METRICS)),),
        baselines=tuple(
            (name, str(each.n_articles), "–", f"{each.f1:.3f}", f"{each.recall:.3f}", f"{each.precision:.3f}")
            for name, each in others.items()
            if each
        ),
        facts=tuple(facts.items()),
        note=REVIEW_NOTE,
        asked="papers",
    )


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


def _plot(report: EvalReport, stage: str, group: str) -> bytes | None:
    """Return the calibration plot, None where no answer states a confidence for a claim."""
    if _summary(report, stage, group) is None:
        return None
    found = calibration_of(report, stage, group)
    if not found.bins:
        return None
    n = found.n - found.n_missing_confidence
    return reliability_png(found.bins, f"{stage}: {report.data_name}, {group}, n {n}")


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
