"""Plotly figures of the page: calibration of answers, ratings over votes, and the course of a run's figures.

Gradio draws them with its own plotly.js: only plain scatter and bar traces are used. Text and grid colours
come from the page's style sheet, which knows light and dark. Plotly loads a class when it is first named.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import plotly.graph_objects as go

from evals.schema import Metric
from evals.schema.votes import BoardPoint
from evals.stats.calibration import Bin, RiskPoint
from evals.verifiers.score import VERIFIERS
from lab.ui.components import meaning, stage_name
from lab.ui.text import say

if TYPE_CHECKING:
    from lab.shared.runs import Watched

COLOURS = ("#0f8278", "#d55e00", "#2b84c6", "#9a6fc0", "#8a7a1f", "#c2527a")
STAGE_COLOURS = ("#7b8494", *COLOURS[1:])
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "star")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash")
"""Told apart by the colour blind and 3:1 against both papers; stages have a shape too, courses of a run a dash."""
LARGEST_MARKER = 20.0
SMALLEST_MARKER = 7.0
ROOM = 0.06
"""Of both axes, that the number of answers at a point of a curve needs beside it."""
NAME = 18
"""Characters of a name in one line beside a plot."""
BAR = 0.05
"""Width of a bar of counts, in stated confidence; stages share it."""
VERIFIER_METRICS = [f"verifier/{name}" for name in VERIFIERS]
MOST_POINTS = 500
"""Of a longer course every second, third … point is drawn, and the last one."""
SMOOTHED_OVER = 10
"""Points that a mean is taken over where single ones say little; of shorter courses none is taken."""
LOOKS: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
TRACES: dict[str, Any] = LOOKS["trace"]


Opens = Callable[..., str]
"""Gives the address of the answers behind a point: metric, stage, confidence as the address writes it."""


def reliability(bins: Mapping[str, Sequence[Bin]], order: Sequence[str], opens: Opens) -> go.Figure:
    """Return share correct against stated confidence, one trace per stage, with n beneath.

    Points are bins that hold answers, placed at their mean confidence, with the 95 % interval of the
    share correct; the larger the point, the more answers. `order` lists all stages of the chain: a
    stage keeps its colour whichever stages are shown. A click leads to where `opens` says.
    """
    figure = _figure("calibration", "reliability", xaxis="confidence", yaxis="accuracy", yaxis2="n")
    figure.add_scatter(x=[0, 1], y=[0, 1], name=say("calibration.diagonal"), **TRACES["diagonal"])
    largest = max((one.n for each in bins.values() for one in each), default=0)
    for place, (stage, each) in enumerate(bins.items()):
        filled = [one for one in each if one.n]
        colour, symbol = _look(stage, order)
        named = {"name": stage_name(stage), "legendgroup": stage, "marker_color": colour}
        accuracies = [one.accuracy or 0.0 for one in filled]
        spans = [one.interval or (0.0, 1.0) for one in filled]
        links = [opens("ece", stage, f"{100 * one.lower:.0f}-{100 * one.upper:.0f}") for one in filled]
        sizes = [SMALLEST_MARKER + (LARGEST_MARKER - SMALLEST_MARKER) * (b.n / largest) ** 0.5 for b in filled]
        figure.add_scatter(
            x=[one.confidence for one in filled],
            y=accuracies,
            customdata=[(b.n, low, high, link) for b, (low, high), link in zip(filled, spans, links, strict=True)],
            error_y_array=[high - y for (_, high), y in zip(spans, accuracies, strict=True)],
            error_y_arrayminus=[y - low for (low, _), y in zip(spans, accuracies, strict=True)],
            error_y_color=colour,
            line_color=colour,
            marker_size=sizes,
            marker_symbol=symbol,
            hovertemplate=say("calibration.hover"),
            **named,
            **TRACES["bins"],
        )
        figure.add_bar(
            x=[one.confidence for one in filled],
            y=[one.n for one in filled],
            customdata=links,
            width=BAR / len(bins),
            offset=BAR * (place / len(bins) - 0.5),
            text=[str(one.n) for one in filled],
            hovertemplate=say("calibration.hover.n"),
            **named,
            **TRACES["counts"],
        )
    return figure


def risk_coverage(
    curves: Mapping[str, tuple[int, Sequence[RiskPoint]]],
    order: Sequence[str],
    opens: Opens,
    thresholds: Mapping[str, float] | None = None,
) -> go.Figure:
    """Return share wrong against share answered, most confident first; `curves`: of each stage n and its curve.

    `thresholds` are confidences from which a stage keeps a promise: a ring stands there.
    """
    figure, counted = _figure("calibration", xaxis="coverage", yaxis="risk"), list[RiskPoint]()

    def has_room(one: RiskPoint, after: float) -> bool:
        """Return whether a count fits above a point: before the next one, and beside those of other stages."""
        near = any(max(abs(each.coverage - one.coverage), abs(each.risk - one.risk)) < ROOM for each in counted)
        if fits := after - one.coverage >= ROOM and not near:
            counted.append(one)
        return fits

    for stage, (n, points) in curves.items():
        colour, symbol = _look(stage, order)
        named = {"name": stage_name(stage), "legendgroup": stage, "line_color": colour}
        if points:
            figure.add_scatter(x=[0, 1], y=[points[-1].risk] * 2, **named, **TRACES["all answered"])
        ahead = [*(one.coverage for one in points[1:]), 2.0][: len(points)]
        answered = [round(one.coverage * n) for one in points]
        figure.add_scatter(
            x=[one.coverage for one in points],
            y=[one.risk for one in points],
            customdata=[
                (one.threshold, count, opens("ece", stage, f"{100 * one.threshold:g}-"))
                for one, count in zip(points, answered, strict=True)
            ],
            text=[
                str(count) if has_room(one, after) else ""
                for count, one, after in zip(answered, points, ahead, strict=True)
            ],
            marker_color=colour,
            marker_symbol=symbol,
            hovertemplate=say("calibration.hover.risk"),
            **named,
            **TRACES["risk"],
        )
        for one in (one for one in points if one.threshold == (thresholds or {}).get(stage)):
            about = {"hovertext": say("calibration.hover.threshold", at=f"{one.threshold:.0%}"), **named}
            figure.add_scatter(x=[one.coverage], y=[one.risk], **about, **TRACES["threshold"])
    return figure


def forest(rows: Sequence[tuple[str, str, Metric]], order: Sequence[str], axis: str, *, is_share: bool) -> go.Figure:
    """Return values with their 95 % intervals, the first row at the top; a row is its name, its stage ("" = a baseline), its metric."""
    figure = _figure("forest")
    figure.update_layout(height=90 + 36 * len(rows), xaxis={"title": {"text": axis}, "tickformat": ".0%" * is_share})
    named = [("<br>".join(wrap(name, NAME)), stage, metric) for name, stage, metric in rows]
    figure.update_layout(yaxis={"categoryarray": [name for name, *_ in reversed(named)]})
    for name, stage, metric in named:
        colour, symbol = _look(stage, order) if stage else (STAGE_COLOURS[0], "line-ns-open")
        value = metric.value or 0.0
        low, high = (value if each is None else each for each in (metric.low, metric.high))
        figure.add_scatter(
            x=[value],
            y=[name],
            name=name,
            customdata=[(low, high, metric.n)],
            error_x_array=[high - value],
            error_x_arrayminus=[value - low],
            error_x_color=colour,
            marker_color=colour,
            marker_symbol=symbol,
            hovertemplate=say("leaderboard.hover.share" if is_share else "leaderboard.hover"),
            **TRACES["forest"],
        )
    return figure


def ratings_over_votes(points: Sequence[BoardPoint]) -> go.Figure:
    """Return the rating of each model, with its 95 % interval, against how many votes there were; the best at the end first."""
    figure = _figure("votes")
    figure.update_layout({f"{axis}axis": {"title": {"text": say(f"ratings.votes.{axis}")}} for axis in "xy"})
    last = max(point.votes for point in points)
    best = sorted((point for point in points if point.votes == last), key=lambda point: -point.rating)
    for place, model in enumerate(point.model for point in best):
        own = [point for point in points if point.model == model]
        colour = COLOURS[place % len(COLOURS)]
        figure.add_scatter(
            x=[point.votes for point in own],
            y=[point.rating for point in own],
            name=stage_name(model),
            customdata=[(point.low, point.high) for point in own],
            error_y_array=[point.high - point.rating for point in own],
            error_y_arrayminus=[point.rating - point.low for point in own],
            error_y_color=colour,
            line_color=colour,
            marker_symbol=SYMBOLS[place % len(SYMBOLS)],
            hovertemplate=say("ratings.votes.hover"),
            **TRACES["votes"],
        )
    late = [point for point in points if 3 * point.votes >= last]  # earlier intervals would leave the rest no room
    figure.update_layout(yaxis={"range": [min(point.low for point in late), max(point.high for point in late)]})
    return figure


def _look(stage: str, order: Sequence[str]) -> tuple[str, str]:
    place = order.index(stage)
    return STAGE_COLOURS[place % len(STAGE_COLOURS)], SYMBOLS[place % len(SYMBOLS)]


def _figure(*looks: str, **axes: str) -> go.Figure:
    """Return an empty figure that looks so; `axes` name what runs along each."""
    figure = go.Figure(layout=LOOKS["every"])
    for look in looks:
        figure.update_layout(LOOKS[look])
    for axis, name in axes.items():
        figure.update_layout({axis: {"title": {"text": say(f"calibration.axis.{name}")}}})
    return figure


@dataclass(frozen=True)
class Chart:
    """One chart of a run: its name in lab/ui/text, what of metrics.jsonl it shows, and how its axis reads."""

    name: str
    metrics: tuple[str, ...]
    yaxis: Mapping[str, str]
    is_noisy: bool = False


CHARTS = tuple(
    Chart(
        each["name"],
        tuple(one for name in each["metrics"] for one in (VERIFIER_METRICS if name == "verifier/*" else [name])),
        each.get("yaxis", {}),
        each.get("is_noisy", False),
    )
    for each in LOOKS["chart"]
)

Points = Sequence[tuple[int, float]]


@dataclass(frozen=True)
class ChartLook:
    """How courses are drawn: the mean of so many points (None: of noisy ones, once there are enough), on a log scale or not."""

    smoothed: int | None = None
    is_log: bool = False


USUAL_LOOK = ChartLook()


def curve(
    chart: Chart, watched: Watched, look: ChartLook = USUAL_LOOK, other: tuple[str, Watched] | None = None
) -> go.Figure | None:
    """Return a chart of what a run has logged of it, beside another run and its name; None if that is nothing."""
    courses = {(name, ""): points for name, points in _courses(chart, watched).items()}
    if not courses:
        return None
    if other is not None:
        courses |= {(name, other[0]): points for name, points in _courses(chart, other[1]).items()}
    n_means = look.smoothed or SMOOTHED_OVER
    is_smooth = n_means > 1 if look.smoothed else chart.is_noisy
    has_means = is_smooth and max(map(len, courses.values())) >= 2 * n_means
    title = say(f"train.chart.{chart.name}")
    means = [meaning(title)]
    if has_means:
        title = say("train.chart.means", title=title, n=n_means)
    figure = _figure("curve")
    figure.update_layout(title={"text": title}, yaxis=dict(chart.yaxis), showlegend=len(courses) > 1)
    last = max(step for points in courses.values() for step, _ in points)
    figure.update_layout(xaxis={"title": {"text": say("train.axis.step")}, "dtick": 1 if last < 6 else None})
    above = [value for points in courses.values() for _, value in points if value > 0]
    if look.is_log and above and "tickformat" not in chart.yaxis:  # a share stays as it is
        ticks = "D2" if max(above) < 100 * min(above) else 1  # 1, 2, 5, or powers of ten alone
        figure.update_layout(yaxis={"type": "log", "rangemode": "normal", "dtick": ticks})
    for place, ((name, run), points) in enumerate(courses.items()):
        colour = COLOURS[place % len(COLOURS)]
        if has_means and len(courses) == 1:  # the single points behind their means
            figure.add_scatter(**_axes(_thin(points)), line_color=colour, **TRACES["single points"])
        drawn = _thin(_means(points, n_means) if has_means else points)
        head, _, verifier = name.partition("/")
        label = say(f"metric.{verifier}") if head == "verifier" else say(f"train.metric.{name}")
        if len(chart.metrics) > 1 and not run:
            means.append(f"{label}: {meaning(label)}")
        label = f"{label}, {run}" if run else label
        figure.add_scatter(
            **_axes(drawn),
            mode="lines+markers" if len(drawn) < 40 and not has_means else "lines",
            line={"width": 1.6 if place else 2.2, "color": colour, "dash": DASHES[place % len(DASHES)]},
            marker={"size": 5, "color": colour},
            name=label,
            hovertemplate=f"{label} %{{y:.4g}}<extra>{say('train.step', step='%{x}')}</extra>",
        )
    figure.update_layout(meta={"means": "\n".join(means)})  # lab.js tells it at the title
    return figure


def _courses(chart: Chart, watched: Watched) -> dict[str, Points]:
    """Return what a run has logged of a chart, by metric."""
    known = {"ece": [(batch.step, batch.ece) for batch in watched.batches if batch.ece is not None]}
    return {name: points for name in chart.metrics if (points := known.get(name) or watched.points(name))}


def _axes(points: Points) -> dict[str, Any]:
    return {"x": [step for step, _ in points], "y": [value for _, value in points]}


def _means(points: Points, n: int) -> Points:
    """Return the mean over the last `n` points at each point, at the start over as many as there are."""
    sums = [0.0, *accumulate(value for _, value in points)]
    found = []
    for end, (step, _) in enumerate(points, start=1):
        count = min(end, n)
        found.append((step, (sums[end] - sums[end - count]) / count))
    return found


def _thin(points: Points) -> Points:
    kept = list(points[:: -(-len(points) // MOST_POINTS)])
    return kept if kept[-1] == points[-1] else [*kept, points[-1]]
