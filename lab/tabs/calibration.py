"""Calibration tab: stated confidence against how often it is right, stage by stage."""

# Plotly loads a class when it is first named, and annotations would name them at the start.
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import gradio as gr
import plotly.graph_objects as go

from evals.calibration import Calibration
from evals.errors import LabError
from evals.report import HEADLINE, calibration_of
from evals.schema import EvalReport, Metric
from lab.answers import stage_name
from lab.charts import reliability
from lab.grid import Html, grid, measure, shown
from lab.reports import (
    chosen_report,
    command,
    data_radio,
    outdated_notices,
    source,
    stages_of,
)
from lab.services import Services
from lab.views import empty, lead, notice
from lab.wording import say

ALL = "all stages"


@dataclass(frozen=True)
class Diagram:
    """What the tab shows: the report and stage that were found, the figure, and what stands below."""

    report: EvalReport
    stage: str
    figure: go.Figure
    page: str


def diagram(reports: Sequence[EvalReport], data: str | None, stage: str | None) -> Diagram:
    """Return the diagram of one stage (or all) on one report; the last stage if not found.

    Over the headline group only, where a question does not name the direction it asks about.
    """
    report = chosen_report(reports, data)
    stages = stages_of(report)
    found = stage if stage in (*stages, ALL) else (stages[-1] if stages else ALL)
    measured = {name: calibration_of(report, name, HEADLINE) for name in stages}
    drawn = {name: each.bins for name, each in measured.items() if found in (name, ALL)}
    sentences = "".join(
        f"<li>{shown(sentence(name, each))}</li>"
        for name, each in measured.items()
        if found in (name, ALL)
    )
    page = f'<ul class="assay-sentences">{sentences}</ul>{table(report, measured)}{source(report)}'
    return Diagram(report, found, reliability(drawn, stages), page)


def table(report: EvalReport, measured: dict[str, Calibration]) -> Html:
    """Return the calibration of every stage, each figure with its interval.

    ECE and Brier score are the report's own, so that they read the same as in the Leaderboard.
    """
    columns = ("Stage", *(say(f"calibration.column.{name}") for name in COLUMNS))
    rows = [
        (
            stage_name(stage),
            measure(_reported(report, stage, "ece"), "number"),
            _chance(each),
            measure(_reported(report, stage, "brier"), "number"),
            measure(_metric(each, "base_rate_brier"), "number"),
            say("calibration.missing.cell", missing=each.n_missing_confidence, n=each.n),
        )
        for stage, each in measured.items()
    ]
    return grid(say("calibration.caption"), columns, rows)


COLUMNS = ("ece", "chance", "brier", "base_rate", "missing")


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
    if each.ece_if_calibrated is None:
        return claim
    is_worse = each.ece > each.ece_if_calibrated.q95
    chance = say(
        "calibration.sentence.worse" if is_worse else "calibration.sentence.chance",
        ece=f"{each.ece:.3f}",
        q95=f"{each.ece_if_calibrated.q95:.3f}",
    )
    return f"{claim} {chance}"


def build(services: Services, tab: gr.Tab) -> None:
    """Lay out the tab inside the `gr.Blocks` that is currently open."""
    gr.HTML(lead("calibration"))
    with gr.Row(elem_classes="assay-choices"):
        data = gr.Radio([], label=say("report.questions"), visible=False)
        stage = gr.Radio([], label=say("calibration.stage"), visible=False)
    plot = gr.Plot(
        show_label=False, visible=False, elem_id="calibration-plot", elem_classes="assay-plot"
    )
    figures = gr.HTML(elem_id="calibration-figures")

    def show(name: str | None, part: str | None) -> tuple[gr.Radio, gr.Radio, gr.Plot, str]:
        hidden = gr.Radio(visible=False), gr.Radio(visible=False), gr.Plot(visible=False)
        try:
            measured = services.reports()
            reports, outdated = measured.current, outdated_notices(measured.outdated)
            if not reports:
                return *hidden, outdated or empty(
                    say("calibration.none", command=command(services))
                )
            found = diagram(reports, name, part)
        except LabError as error:
            return *hidden, notice(str(error), "problem")
        choices = [(stage_name(one), one) for one in stages_of(found.report)]
        choices.append((say("calibration.all"), ALL))
        return (
            data_radio(reports, found.report),
            gr.Radio(choices=choices, value=found.stage, visible=True),
            gr.Plot(value=found.figure, visible=True),
            outdated + found.page,
        )

    seen = [data, stage, plot, figures]
    tab.select(show, [data, stage], seen, api_name="calibration")
    data.input(show, [data, stage], seen, api_name="calibration_questions")
    stage.input(show, [data, stage], seen, api_name="calibration_stage")


def _reported(report: EvalReport, stage: str, name: str) -> Metric:
    return next(
        summary.metrics[name]
        for summary in report.summaries
        if (summary.stage, summary.group) == (stage, HEADLINE)
    )


def _metric(each: Calibration, name: str) -> Metric:
    value = getattr(each, name)
    low, high = each.intervals.get(name, (None, None))
    n = each.n - each.n_missing_confidence
    return Metric(value=value, n=n, low=low, high=high, note=each.note)


def _chance(each: Calibration) -> Html | str:
    if each.ece_if_calibrated is None:
        return "–"
    mean, q95 = each.ece_if_calibrated.mean, each.ece_if_calibrated.q95
    below = shown(say("calibration.below", q95=f"{q95:.3f}"))
    return Html(f'<span class="assay-measure"><b>{mean:.3f}</b><small>{below}</small></span>')
