"""Calibration tab: stated confidence against how often it is right, stage by stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import gradio as gr
import plotly.graph_objects as go

from evals.errors import LabError
from evals.report import MEASURES, stages_of
from evals.schema import EvalReport, Metric
from evals.stats.calibration import Calibration
from evals.task import narrow
from lab.results.evaluations import Evaluations
from lab.results.reports import (
    Counted,
    calibrated,
    called,
    chosen_group,
    chosen_report,
    command,
    counted,
    data_radio,
    group_choices,
    outdated_notices,
    reading,
    scale_of,
    source,
)
from lab.services import Services
from lab.session import stage_name
from lab.ui.charts import reliability, risk_coverage
from lab.ui.components import Html, Scale, empty, grid, lead, measure, notice, number, shown
from lab.ui.text import say

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
    more = (name for name in narrow(MEASURES) if MEASURES[name].of_claims and name not in FIGURES)
    for name in (*FIGURES, *more):
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
            say("calibration.risk.row", stage=stage_name(stage), threshold=f"{100 * one.threshold:.0f}"),
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
    try:
        title, plain = say(f"calibration.row.{name}"), say(f"calibration.row.{name}.plain")
    except KeyError:
        title, plain = called(name), ""
    return Html(f'<span class="assay-meaning">{shown(title)}<small>{shown(plain)}</small></span>')


def _counted(counts: Counted) -> Html:
    number_of = say("calibration.counted", n=counts.stated, all=counts.all)
    others = say("calibration.uncounted", no_claim=counts.no_claim, missing=counts.missing, invalid=counts.invalid)
    return Html(f'<span class="assay-measure"><b>{shown(number_of)}</b><small>{shown(others)}</small></span>')


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
        value=getattr(each, name, None),
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


# Plotly loads a class when it is first named, and annotations would name them at the start.


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


def diagram(measured: Evaluations, data: str | None, stage: str | None, group: str | None = None) -> Diagram:
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
                return *hidden, outdated or empty(say("calibration.none", command=command(services)))
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
        gr.HTML(f'<h3 class="assay-chart-title">{shown(title)}</h3><p class="assay-chart-alt">{shown(alternative)}</p>')
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
    curves = {name: (each.n - each.n_missing_confidence, each.risk_coverage) for name, each in stated.items()}
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
            "calibration.empty", stage=stage_name(stage), missing=missing, no_claim=counts.no_claim, all=counts.all
        )
        return empty(line)
    told = "".join(f"<li>{shown(sentence(name, each))}</li>" for name, each in drawn.items())
    return f'<ul class="assay-sentences">{told}</ul>'
