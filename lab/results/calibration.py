"""Calibration: stated confidence against how often it is right, stage by stage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import plotly.graph_objects as go

from evals.report import MEASURES, claims_of, stages_of
from evals.schema import EvalReport, Metric
from evals.stats.calibration import Calibration
from evals.task import narrow
from lab.results.reports import (
    Counted,
    answer_counts,
    calibrated,
    chosen_group,
    chosen_report,
    chosen_stages,
    draw,
    scale_of,
    source,
)
from lab.shared.evaluations import Evaluations
from lab.shared.rows import link, metric_label
from lab.ui.charts import Opens, reliability, risk_coverage
from lab.ui.components import Html, as_html, emphasis, empty, grid, meaning, measure, opening, stack_figure, stage_name
from lab.ui.text import lines as known_lines
from lab.ui.text import say

if TYPE_CHECKING:
    from evals.confidence import Promise

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
SHARES = frozenset(("mean_confidence", "mean_accuracy", "overconfidence_rate", "underconfidence_rate"))


def ece_against_chance(each: Calibration) -> Literal["worse", "between", "chance"] | None:
    """Return whether an ECE is worse than chance explains, None where there is no ECE.

    "between" lies above what chance shows where answers are independent of each other and below what
    it shows where related ones go together, or the other way round.
    """
    if each.ece is None or each.ece_if_calibrated is None:
        return None
    ends = _chance_ends(each)
    return "worse" if each.ece > max(ends) else "between" if each.ece > min(ends) else "chance"


def calibration_sentence(stage: str, each: Calibration) -> str:
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
    found = ece_against_chance(each)
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


def _chance_ends(each: Calibration) -> tuple[float, ...]:
    """Return the 95th percentiles of the ECE by chance, under either assumption that was made."""
    made = (each.ece_if_calibrated, each.ece_if_dependent)
    return tuple(null.q95 for null in made if null is not None)


def _promised(stage: str, each: Promise) -> str:
    kept = {"kept": each.chosen_on.kept, "n": each.n, "wrong": each.chosen_on.wrong, "at": f"{each.threshold:.0%}"}
    return say("calibration.threshold", stage=stage_name(stage), **kept)


def figures(report: EvalReport, group: str, measured: Measured, opens: Opens) -> Html:
    """Return one line per figure with what it means, one column per stage.

    What the report's summaries hold is taken from there, so that it reads as in the Leaderboard.
    """
    stored = {each.stage: each.metrics for each in report.summaries if each.group == group}
    counts = {stage: answer_counts(report, stage, group) for stage in measured}
    of_claims = [name for name in narrow(MEASURES) if MEASURES[name].of_claims]
    lines = []
    for name in dict.fromkeys(("counted", *FIGURES, *of_claims)):
        cells = []
        for stage, each in measured.items():
            n = counts[stage]
            if name == "counted":
                others = say("calibration.uncounted", no_claim=n.no_claim, missing=n.missing, invalid=n.invalid)
                told = say("calibration.counted", n=n.stated, all=n.all)
                cells.append(stack_figure(opening(told, opens("ece", stage), n.stated), others))
            elif name == "chance":
                cells.append(_chance(each))
            else:
                cells.append(_figure(name, each, stored.get(stage, {}).get(name), n, opens(name, stage)))
        title = known_lines().get(f"calibration.row.{name}", metric_label(name))
        lines.append((draw("figure", title=title, plain=meaning(title)), *cells))
    columns = (say("calibration.figure"), *map(stage_name, measured))
    return grid(say("calibration.caption"), columns, lines)


def _figure(name: str, each: Calibration, stored: Metric | None, counts: Counted, href: str) -> Html:
    if stored is None:
        low, high = each.intervals.get(name, (None, None))
        n = {"overconfidence_rate": counts.sure, "underconfidence_rate": counts.unsure}.get(name, counts.stated)
        note = MEASURES["ece"].undefined if each.note else each.interval_notes.get(name)
        stored = Metric(value=getattr(each, name, None), n=n, low=low, high=high, note=note)
    band = each.ece_if_calibrated.q95 if name == "ece" and each.ece_if_calibrated else None
    cell = measure(stored, "share" if name in SHARES else scale_of(name), band, href)
    if name != "aurc" or each.mean_accuracy is None:
        return cell
    told = say("calibration.aurc.plain_order", share=f"{1 - each.mean_accuracy:.3f}")
    return Html(f'{cell}<span class="assay-aside">{as_html(told)}</span>')


def _chance(each: Calibration) -> Html:
    """Return the ECE of perfectly calibrated models, and on which side of it this one lies."""
    null, found = each.ece_if_calibrated, ece_against_chance(each)
    if null is None or found is None:
        return measure(Metric(value=None, n=0, note=MEASURES["ece"].undefined))
    q95 = f"{null.q95:.3f}"
    told = [say("calibration.chance", q95=q95)]
    together = each.ece_if_dependent
    if together is not None and f"{together.q95:.3f}" != q95:
        told.append(say("calibration.chance.dependent", q95=f"{together.q95:.3f}"))
    return stack_figure(f"{null.mean:.3f}", *told, last=emphasis(say(f"calibration.chance.{found}")))


@dataclass(frozen=True)
class Diagram:
    """What is shown: report, stages and group that were found, charts, what stands around them.

    `charts` are reliability and risk; None where no answer states a confidence, and `words` then say so.
    """

    report: EvalReport
    stages: tuple[str, ...]
    group: str
    charts: tuple[go.Figure, go.Figure] | None
    words: str
    page: str


def diagram(measured: Evaluations, data: str | None, stages: str | None = None, group: str | None = None) -> Diagram:
    """Return the diagram of these stages on one report, over one group of questions.

    What is not found is the first report, all its stages and the headline group, where no question
    names the direction it asks about. There must be a report.
    """
    report = chosen_report(measured.reports, data)
    part = chosen_group(report, group)
    every, found = stages_of(report), chosen_stages(report, stages)
    drawn = {name: calibrated(report, name, part) for name in found}
    stated = {name: each for name, each in drawn.items() if each.ece is not None}
    charts = None

    def opens(metric: str, stage: str, confidence: str = "") -> str:
        place = {"tab": "results", "view": "calibration", "chain": measured.chain, "questions": report.data_name}
        return link(place, group=part, stages=stages, rows=metric, stage=stage, confidence=confidence)

    if stated:
        curves = {name: (each.n - each.n_missing_confidence, each.risk_coverage) for name, each in stated.items()}
        bins = {name: each.bins for name, each in stated.items()}
        from evals.confidence import promise  # late: it brings in SciPy

        promised = {name: promise(*claims_of(report, name, part)) for name in stated}
        at = {name: each.threshold for name, each in promised.items() if each.threshold is not None}
        charts = (reliability(bins, every, opens), risk_coverage(curves, every, opens, at))
        said = [calibration_sentence(name, each) for name, each in drawn.items()]
        said += [_promised(name, each) for name, each in promised.items() if name in at]
        if silent := [stage_name(name) for name in promised if name not in at]:
            said.append(say("calibration.threshold.none", stages=", ".join(silent)))
        words = draw("sentences", said=said)
    elif len(found) != 1:
        words = empty(say("calibration.empty.all"))
    else:
        n = answer_counts(report, found[0], part)
        silent, name = n.missing + n.invalid, stage_name(found[0])
        words = empty(say("calibration.empty", stage=name, missing=silent, no_claim=n.no_claim, all=n.all))
    page = f"{figures(report, part, drawn, opens)}{source(report)}"
    return Diagram(report, found, part, charts, words, page)
