"""Stated confidence in words and tables: what each stage claims about itself, and what came of it."""

from collections.abc import Mapping, Sequence
from typing import Literal

from evals.calibration import Calibration
from evals.measures import MEASURES
from evals.schema import EvalReport, Metric
from lab.answers import stage_name
from lab.grid import Html, Scale, grid, measure, number, shown
from lab.measured import Counted, counted, scale_of
from lab.wording import say

Measured = Mapping[str, Calibration]
"""The calibration of each stage, by its name."""

FIGURES = (
    "mean_confidence",
    "mean_accuracy",
    "ece",
    "chance",
    "smece",
    "brier",
    "base_rate_brier",
    "log_loss",
    "auroc",
    "aurc",
    "overconfidence_rate",
    "underconfidence_rate",
)
SHARES = frozenset(
    ("mean_confidence", "mean_accuracy", "overconfidence_rate", "underconfidence_rate")
)
Standing = Literal["worse", "between", "chance"]


def standing(each: Calibration) -> Standing | None:
    """Return whether an ECE is worse than chance explains, None where there is no ECE.

    "between" lies above what chance shows where answers are independent of each other and below what
    it shows where related ones go together, or the other way round.
    """
    if each.ece is None or each.ece_if_calibrated is None:
        return None
    ends = _chance_ends(each)
    return "worse" if each.ece > max(ends) else "between" if each.ece > min(ends) else "chance"


def sentence(stage: str, each: Calibration) -> str:
    """Return in plain words what the stage claims about itself and how that turned out."""
    name = stage_name(stage)
    if each.mean_confidence is None or each.mean_accuracy is None or each.ece is None:
        return say("calibration.sentence.none", stage=name, n=each.n)
    gap = each.mean_confidence - each.mean_accuracy
    claim = say(
        "calibration.sentence.over" if gap > 0 else "calibration.sentence.under",
        stage=name,
        stated=f"{100 * each.mean_confidence:.0f}",
        right=f"{100 * each.mean_accuracy:.0f}",
        points=f"{100 * abs(gap):.0f}",
        n=each.n - each.n_missing_confidence,
    )
    found = standing(each)
    if found is None or each.ece_if_calibrated is None:
        return claim
    ends = _chance_ends(each)
    chance = say(
        f"calibration.sentence.{found}",
        ece=f"{each.ece:.3f}",
        mean=f"{each.ece_if_calibrated.mean:.3f}",
        q95=f"{each.ece_if_calibrated.q95:.3f}",
        low=f"{min(ends):.3f}",
        high=f"{max(ends):.3f}",
    )
    return f"{claim} {chance}"


def figures(report: EvalReport, group: str, measured: Measured) -> Html:
    """Return one line per figure with what it means, one column per stage.

    What the report's summaries hold is taken from there, so that it reads as in the Leaderboard.
    """
    stored = {each.stage: each.metrics for each in report.summaries if each.group == group}
    counts = {stage: counted(report, stage, group) for stage in measured}
    lines = [(_heading("counted"), *(_counted(counts[stage]) for stage in measured))]
    for name in FIGURES:
        cells = []
        for stage, each in measured.items():
            known = stored.get(stage, {}).get(name)
            cells.append(_figure(name, each, known or _metric(name, each, counts[stage])))
        lines.append((_heading(name), *cells))
    columns = (say("calibration.figure"), *map(stage_name, measured))
    return grid(say("calibration.caption"), columns, lines)


def charts_as_tables(measured: Measured) -> Html:
    """Return what both charts draw as tables that open on demand; "" where nothing is drawn."""
    bins = [
        (
            say(
                "calibration.bins.row",
                stage=stage_name(stage),
                lower=f"{100 * one.lower:.0f}",
                upper=f"{100 * one.upper:.0f}",
            ),
            "–" if one.confidence is None else number(one.confidence, "share"),
            _share_correct(one.accuracy, one.interval, one.n),
        )
        for stage, each in measured.items()
        for one in each.bins
        if one.n
    ]
    risks = [
        (
            say(
                "calibration.risk.row",
                stage=stage_name(stage),
                threshold=f"{100 * one.threshold:.0f}",
            ),
            _answered(one.coverage, each.n - each.n_missing_confidence),
            number(one.risk, "share"),
        )
        for stage, each in measured.items()
        for one in each.risk_coverage
    ]
    if not bins:
        return Html()
    bin_columns = ("stated", "mean", "correct")
    risk_columns = ("threshold", "coverage", "wrong")
    return Html(
        f'<details class="assay-more"><summary>{shown(say("calibration.bins"))}</summary>'
        f"{_table('bins', bin_columns, bins)}{_table('risk', risk_columns, risks)}</details>"
    )


def _table(name: str, columns: tuple[str, ...], rows: Sequence[tuple[object, ...]]) -> Html:
    heads = [say(f"calibration.{name}.{column}") for column in columns]
    return grid(say(f"calibration.{name}.caption"), heads, rows)


def _share_correct(accuracy: float | None, span: tuple[float, float] | None, n: int) -> Html:
    low, high = span or (None, None)
    return measure(Metric(value=accuracy, n=n, low=low, high=high), "share")


def _answered(coverage: float, n: int) -> str:
    share = f"{100 * coverage:.0f}"
    return say("calibration.risk.coverage.cell", share=share, n=round(coverage * n), all=n)


def _heading(name: str) -> Html:
    title, plain = say(f"calibration.row.{name}"), say(f"calibration.row.{name}.plain")
    return Html(f'<span class="assay-meaning">{shown(title)}<small>{shown(plain)}</small></span>')


def _counted(counts: Counted) -> Html:
    number_of = say("calibration.counted", n=counts.stated, all=counts.all)
    others = say(
        "calibration.uncounted",
        no_claim=counts.no_claim,
        missing=counts.missing,
        invalid=counts.invalid,
    )
    return Html(
        f'<span class="assay-measure"><b>{shown(number_of)}</b>'
        f"<small>{shown(others)}</small></span>"
    )


def _figure(name: str, each: Calibration, metric: Metric) -> Html:
    if name == "chance":
        return _chance(each)
    band = each.ece_if_calibrated.q95 if name == "ece" and each.ece_if_calibrated else None
    cell = measure(metric, _scale(name), band)
    if name != "aurc" or each.mean_accuracy is None:
        return cell
    told = say("calibration.aurc.plain_order", share=f"{1 - each.mean_accuracy:.3f}")
    return Html(f'{cell}<span class="assay-aside">{shown(told)}</span>')


def _scale(name: str) -> Scale:
    return "share" if name in SHARES else scale_of(name)


def _metric(name: str, each: Calibration, counts: Counted) -> Metric:
    if name == "chance":
        return Metric(value=None, n=0)
    low, high = each.intervals.get(name, (None, None))
    n = {"overconfidence_rate": counts.sure, "underconfidence_rate": counts.unsure}
    return Metric(
        value=getattr(each, name),
        n=n.get(name, counts.stated),
        low=low,
        high=high,
        note=MEASURES["ece"].undefined if each.note else each.interval_notes.get(name),
    )


def _chance(each: Calibration) -> Html:
    """Return the ECE of perfectly calibrated models, and on which side of it this one lies."""
    null, found = each.ece_if_calibrated, standing(each)
    if null is None or found is None:
        return measure(Metric(value=None, n=0, note=MEASURES["ece"].undefined))
    q95 = f"{null.q95:.3f}"
    told = [say("calibration.chance", q95=q95)]
    together = each.ece_if_dependent
    if together is not None and f"{together.q95:.3f}" != q95:
        told.append(say("calibration.chance.dependent", q95=f"{together.q95:.3f}"))
    small = "".join(f"<small>{shown(line)}</small>" for line in told)
    return Html(
        f'<span class="assay-measure"><b>{null.mean:.3f}</b>{small}'
        f"<em>{shown(say(f'calibration.chance.{found}'))}</em></span>"
    )


def _chance_ends(each: Calibration) -> tuple[float, ...]:
    """Return the 95th percentiles of the ECE by chance, under either assumption that was made."""
    made = (each.ece_if_calibrated, each.ece_if_dependent)
    return tuple(null.q95 for null in made if null is not None)
