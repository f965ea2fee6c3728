"""What scores of reviewers and reports on refiners say about one adapter, as tables for its card."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from evals.errors import LabError
from evals.refiner.sources import PREFIX
from evals.schema import Metric
from evals.schema.refinerreports import RefinerReport
from evals.schema.reviewreports import ReviewReport
from evals.schema.reviewruns import ReviewRun
from evals.schema.reviewscores import Control, ReviewScore
from hub.measured import Measured, shown

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
WRITER_NOTE = (
    " *Rubric by* counts the items of one writer alone; those of another writer than the records' are in no"
    " reward. *Above*: how far the records' own items are ahead on the same answers."
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
    columns = COLUMNS | {name: name for name in _by_writer(report)}

    def row(name: str, metrics: Mapping[str, Metric]) -> tuple[str, ...]:
        n = metrics["reward"].n
        return (name, str(n), *(_over(metrics.get(key), n) for key in columns))

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
        columns=("stage", "n", *columns.values()),
        rows=tuple(cells for is_baseline, cells in rows if not is_baseline),
        baselines=tuple(cells for is_baseline, cells in rows if is_baseline),
        facts=tuple(facts.items()),
        figure=None,
        note=REFINER_NOTE + (WRITER_NOTE if len(columns) > len(COLUMNS) else ""),
        asked="records",
    )


def _over(metric: Metric | None, n: int) -> str:
    """Return a figure with its interval, and with its own n where that is not `n`."""
    is_defined = metric is not None and metric.value is not None
    return shown(metric) + (f", n {metric.n}" if is_defined and metric.n != n else "")


def _by_writer(report: RefinerReport) -> list[str]:
    """Return the metrics that set items of another writer beside the records' own; none without such."""
    names = dict.fromkeys(name for each in report.summaries for name in each.metrics)
    return [name for name in names if report.other_items and name.startswith(PREFIX)]


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
        "matcher": f"{score.matcher.encoder}, threshold {score.matcher.threshold:.3f}"
        f" ({score.matcher.threshold_from})",
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
