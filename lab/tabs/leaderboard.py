"""Leaderboard tab: stages and trivial baselines in one table, and what changed between stages."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import gradio as gr

from evals.errors import LabError
from evals.leaderboard import LOWER_IS_BETTER, LeaderboardRow, leaderboard
from evals.report import HEADLINE, paired_difference
from evals.schema import EvalReport, Metric
from lab.answers import stage_name
from lab.grid import Html, Scale, grid, interval, measure, number, shown
from lab.reports import (
    chosen_report,
    command,
    data_radio,
    group_choices,
    groups_of,
    outdated_notices,
    source,
    stages_of,
)
from lab.services import Services
from lab.views import empty, lead, notice
from lab.wording import say

SHOWN: tuple[tuple[str, Scale], ...] = (
    ("accuracy", "share"),
    ("reward", "number"),
    ("ece", "number"),
    ("brier", "number"),
)


@dataclass(frozen=True)
class Board:
    """What the tab shows: the report and group that were found, and their tables as HTML."""

    report: EvalReport
    group: str
    page: str


def board(reports: Sequence[EvalReport], data: str | None, group: str | None) -> Board:
    """Return the tables of one report in one group; the first and the headline if not found."""
    report = chosen_report(reports, data)
    found = group if group in groups_of(report) else HEADLINE
    parts = (ranking(report, found), progress(report, found), source(report))
    return Board(report, found, "".join(parts))


def ranking(report: EvalReport, group: str) -> Html:
    """Return one row per stage and baseline, the most accurate first."""
    rows = leaderboard([report], group, order="accuracy")
    columns = ("Stage", *(say(f"metric.{name}") for name, _ in SHOWN))
    cells = [
        (_name(row), *(measure(row.metrics.get(name), scale) for name, scale in SHOWN))
        for row in rows
    ]
    return grid(say("leaderboard.caption"), columns, cells)


def progress(report: EvalReport, group: str) -> Html:
    """Return the paired difference between every two stages, and what it means in plain words."""
    pairs = list(combinations(stages_of(report), 2))
    if not pairs:
        return Html()
    rows, sentences = [], []
    for first, second in pairs:
        differences = {
            name: paired_difference(report, (first, second), name, group) for name, _ in SHOWN
        }
        title = f"{stage_name(first)} → {stage_name(second)}"
        rows.append((title, *(_difference(differences[n], n, scale) for n, scale in SHOWN)))
        sentences.append(_sentence((first, second), differences["accuracy"]))
    columns = (say("leaderboard.step"), *(say(f"metric.{name}") for name, _ in SHOWN))
    listed = "".join(f"<li>{shown(sentence)}</li>" for sentence in sentences)
    table = grid(say("leaderboard.differences"), columns, rows)
    return Html(
        f'{table}<ul class="assay-sentences">{listed}</ul>'
        f'<p class="assay-source">{shown(say("leaderboard.caution"))}</p>'
    )


def build(services: Services, tab: gr.Tab) -> None:
    """Lay out the tab inside the `gr.Blocks` that is currently open."""
    gr.HTML(lead("leaderboard"))
    with gr.Row(elem_classes="assay-choices"):
        data = gr.Radio([], label=say("report.questions"), visible=False)
        group = gr.Dropdown([], label=say("leaderboard.group"), visible=False)
    tables = gr.HTML(elem_id="leaderboard-tables")

    def show(name: str | None, part: str | None) -> tuple[gr.Radio, gr.Dropdown, str]:
        hidden = gr.Radio(visible=False), gr.Dropdown(visible=False)
        try:
            measured = services.reports()
            reports, outdated = measured.current, outdated_notices(measured.outdated)
            if not reports:
                return *hidden, outdated or empty(
                    say("leaderboard.none", command=command(services))
                )
            found = board(reports, name, part)
        except LabError as error:
            return *hidden, notice(str(error), "problem")
        groups = gr.Dropdown(choices=group_choices(found.report), value=found.group, visible=True)
        return data_radio(reports, found.report), groups, outdated + found.page

    seen = [data, group, tables]
    tab.select(show, [data, group], seen, api_name="leaderboard")
    data.input(show, [data, group], seen, api_name="leaderboard_questions")
    group.input(show, [data, group], seen, api_name="leaderboard_group")


def _name(row: LeaderboardRow) -> Html:
    if row.is_baseline:
        tag = shown(say("leaderboard.baseline"))
        return Html(f'{shown(row.stage)}<span class="assay-tag">{tag}</span>')
    return Html(f'<span class="assay-stage">{shown(stage_name(row.stage))}</span>')


def _difference(metric: Metric, name: str, scale: Scale) -> Html:
    """Return a difference with its interval, marked if the interval excludes zero."""
    scale = "points" if scale == "share" else scale
    if metric.value is None or metric.low is None or metric.high is None:
        return measure(metric, scale)
    better = (metric.value < 0) == (name in LOWER_IS_BETTER)
    tone = ("good" if better else "bad") if _excludes_zero(metric) else "open"
    sign = "+" if metric.value > 0 else ""
    return Html(
        f'<span class="assay-measure assay-{tone}"><b>{sign}{number(metric.value, scale)}</b>'
        f"<small>{interval(metric.low, metric.high, scale)}</small>"
        f"<em>{shown(say(f'leaderboard.{tone}'))}</em></span>"
    )


def _sentence(stages: tuple[str, str], accuracy: Metric) -> str:
    first, second = (stage_name(stage) for stage in stages)
    if accuracy.value is None:
        return say("leaderboard.sentence.none", first=first, second=second)
    key = "same" if not accuracy.value else "more" if accuracy.value > 0 else "less"
    change = say(
        f"leaderboard.sentence.{key}",
        first=first,
        second=second,
        points=f"{abs(100 * accuracy.value):.1f}",
        n=accuracy.n,
    )
    if accuracy.low is None or accuracy.high is None:
        return say("leaderboard.sentence.constant", change=change)
    clear = "clear" if _excludes_zero(accuracy) else "unclear"
    return say(
        f"leaderboard.sentence.{clear}",
        change=change,
        interval=interval(accuracy.low, accuracy.high, "points"),
    )


def _excludes_zero(metric: Metric) -> bool:
    return metric.low is not None and metric.high is not None and not metric.low <= 0 <= metric.high
