"""Calibration tab: stated confidence against how often it is right, stage by stage."""

# Plotly loads a class when it is first named, and annotations would name them at the start.
from __future__ import annotations

from dataclasses import dataclass

import gradio as gr
import plotly.graph_objects as go

from evals.errors import LabError
from evals.report import stages_of
from evals.schema import EvalReport
from lab.answers import stage_name
from lab.charts import reliability, risk_coverage
from lab.confidences import Measured, charts_as_tables, figures, sentence
from lab.evaluations import Evaluations
from lab.grid import Html, shown
from lab.measured import calibrated, counted
from lab.reports import (
    chosen_group,
    chosen_report,
    command,
    data_radio,
    group_choices,
    outdated_notices,
    reading,
    source,
)
from lab.services import Services
from lab.views import empty, lead, notice
from lab.wording import say

ALL = "all stages"


@dataclass(frozen=True)
class Charts:
    """The two figures of the tab."""

    reliability: go.Figure
    risk: go.Figure


@dataclass(frozen=True)
class Diagram:
    """What the tab shows: report, stage and group that were found, charts, what stands around them.

    `charts` is None where no answer states a confidence; `words` then say so.
    """

    report: EvalReport
    stage: str
    group: str
    charts: Charts | None
    words: str
    page: str


def diagram(
    measured: Evaluations, data: str | None, stage: str | None, group: str | None = None
) -> Diagram:
    """Return the diagram of one stage (or all) on one report, over one group of questions.

    What is not found is the first report, its last stage and the headline group, where no question
    names the direction it asks about. There must be a report.
    """
    report = chosen_report(measured.reports, data)
    part = chosen_group(report, group)
    stages = stages_of(report)
    found = stage if stage in (*stages, ALL) else (stages[-1] if stages else ALL)
    every = {name: calibrated(report, name, part) for name in stages}
    drawn = {name: each for name, each in every.items() if found in (name, ALL)}
    return Diagram(
        report=report,
        stage=found,
        group=part,
        charts=_charts(drawn, stages),
        words=_words(report, part, found, drawn),
        page=f"{charts_as_tables(drawn)}{figures(report, part, every)}{source(report)}",
    )


def build(services: Services, tab: gr.Tab) -> None:
    """Lay out the tab inside the `gr.Blocks` that is currently open."""
    gr.HTML(lead("calibration"))
    with gr.Row(elem_classes="assay-choices"):
        data = gr.Radio([], label=say("report.questions"), visible=False)
        group = gr.Dropdown([], label=say("report.group"), visible=False)
        stage = gr.Radio([], label=say("calibration.stage"), visible=False)
    reading("calibration")
    words = gr.HTML(elem_id="calibration-words")
    with gr.Row(elem_classes="assay-charts", visible=False) as charts:
        drawn = [_chart("reliability"), _chart("risk")]
    page = gr.HTML(elem_id="calibration-figures")

    def show(name: str | None, part: str | None, one: str | None) -> tuple[object, ...]:
        hidden = (
            gr.Radio(visible=False),
            gr.Dropdown(visible=False),
            gr.Radio(visible=False),
            "",
            gr.Row(visible=False),
            None,
            None,
        )
        try:
            measured = services.reports()
            outdated = outdated_notices(measured.outdated)
            if not measured.reports:
                return *hidden, outdated or empty(
                    say("calibration.none", command=command(services))
                )
            return _answer(measured, outdated, diagram(measured, name, one, part))
        except LabError as error:
            return *hidden, notice(str(error), "problem")

    asked = [data, group, stage]
    seen = [*asked, words, charts, *drawn, page]
    tab.select(show, asked, seen, api_name="calibration")
    data.input(show, asked, seen, api_name="calibration_questions")
    group.input(show, asked, seen, api_name="calibration_group")
    stage.input(show, asked, seen, api_name="calibration_stage")


def _chart(name: str) -> gr.Plot:
    """Lay out one chart under its heading and what it shows in words."""
    with gr.Column(min_width=320):
        title, alternative = say(f"calibration.chart.{name}"), say(f"calibration.chart.{name}.alt")
        gr.HTML(
            f'<h3 class="assay-chart-title">{shown(title)}</h3>'
            f'<p class="assay-chart-alt">{shown(alternative)}</p>'
        )
        return gr.Plot(show_label=False, elem_id=f"calibration-{name}", elem_classes="assay-plot")


def _answer(measured: Evaluations, outdated: Html, found: Diagram) -> tuple[object, ...]:
    """Return a value for each widget of the tab."""
    choices = [(stage_name(one), one) for one in stages_of(found.report)]
    choices.append((say("calibration.all"), ALL))
    drawn = found.charts
    return (
        data_radio(measured, found.report),
        gr.Dropdown(choices=group_choices(found.report), value=found.group, visible=True),
        gr.Radio(choices=choices, value=found.stage, visible=True),
        outdated + found.words,
        gr.Row(visible=drawn is not None),
        drawn.reliability if drawn else None,
        drawn.risk if drawn else None,
        found.page,
    )


def _charts(drawn: Measured, stages: tuple[str, ...]) -> Charts | None:
    stated = {name: each for name, each in drawn.items() if each.ece is not None}
    if not stated:
        return None
    curves = {
        name: (each.n - each.n_missing_confidence, each.risk_coverage)
        for name, each in stated.items()
    }
    bins = {name: each.bins for name, each in stated.items()}
    return Charts(reliability(bins, stages), risk_coverage(curves, stages))


def _words(report: EvalReport, group: str, stage: str, drawn: Measured) -> str:
    """Return what came out in sentences; where nothing is stated, why there is nothing to see."""
    if not any(each.ece is not None for each in drawn.values()):
        if stage == ALL:
            return empty(say("calibration.empty.all"))
        counts = counted(report, stage, group)
        missing = counts.missing + counts.invalid
        line = say(
            "calibration.empty",
            stage=stage_name(stage),
            missing=missing,
            no_claim=counts.no_claim,
            all=counts.all,
        )
        return empty(line)
    told = "".join(f"<li>{shown(sentence(name, each))}</li>" for name, each in drawn.items())
    return f'<ul class="assay-sentences">{told}</ul>'
