"""The course of a run's figures as Plotly figures, small ones that stand beside each other.

Gradio draws them with its own plotly.js: only plain scatter traces are used. Text and grid colours
come from the page's style sheet, which knows light and dark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import plotly.graph_objects as go

from evals.stats.calibration import Bin
from evals.stats.scores import RiskPoint
from evals.verifiers import VERIFIERS
from lab.ask.session import stage_name
from lab.train.runs import Watched
from lab.ui.text import say

# Plotly loads a class when it is first named, and annotations would name them at the start.


CHARTS_COLOURS = ("#7b8494", "#d55e00", "#2b84c6", "#9a6fc0", "#8a7a1f", "#c2527a")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "star")
"""A stage has a colour, told apart by the colour blind and 3:1 against both papers, and a shape."""
DIAGONAL = "#8b93a1"
LARGEST_MARKER = 20.0
SMALLEST_MARKER = 7.0
ROOM = 0.06
"""Of coverage, that the number of answers at a point of a curve needs beside it."""
BAR = 0.05
"""Width of a bar of counts, in stated confidence; stages share it."""


def reliability(bins: Mapping[str, Sequence[Bin]], order: Sequence[str]) -> go.Figure:
    """Return share correct against stated confidence, one trace per stage, with n beneath.

    Points are bins that hold answers, placed at their mean confidence, with the 95 % interval of the
    share correct; the larger the point, the more answers. `order` lists all stages of the chain: a
    stage keeps its colour whichever stages are shown.
    """
    figure = go.Figure(layout=_reliability_layout())
    figure.add_trace(_diagonal())
    largest = max((one.n for each in bins.values() for one in each), default=0)
    for place, (stage, each) in enumerate(bins.items()):
        filled = [one for one in each if one.n]
        look = _look(stage, order)
        figure.add_trace(_charts_points(stage, filled, look, largest))
        counts = _counts(stage, filled, look)
        figure.add_trace(counts.update(width=BAR / len(bins), offset=BAR * (place / len(bins) - 0.5)))
    return figure


def risk_coverage(curves: Mapping[str, tuple[int, Sequence[RiskPoint]]], order: Sequence[str]) -> go.Figure:
    """Return share wrong against share answered, most confident first, one trace per stage.

    `curves` holds for each stage how many answers state a confidence, and its curve. The last point
    of a curve is all of them answered; a dotted line runs from it at the same height.
    """
    figure = go.Figure(layout=_risk_layout())
    for stage, (n, points) in curves.items():
        look = _look(stage, order)
        if points:
            figure.add_trace(_without_order(stage, points[-1].risk, look))
        figure.add_trace(_curve(stage, n, points, look))
    return figure


@dataclass(frozen=True)
class Look:
    """How a stage is drawn, the same whichever stages are shown."""

    colour: str
    symbol: str


def _look(stage: str, order: Sequence[str]) -> Look:
    place = order.index(stage)
    return Look(CHARTS_COLOURS[place % len(CHARTS_COLOURS)], SYMBOLS[place % len(SYMBOLS)])


def _curve(stage: str, n: int, points: Sequence[RiskPoint], look: Look) -> go.Scatter:
    return go.Scatter(
        x=[one.coverage for one in points],
        y=[one.risk for one in points],
        customdata=[(one.threshold, round(one.coverage * n)) for one in points],
        text=_answered(n, points),
        textposition="top center",
        cliponaxis=False,
        mode="lines+markers+text",
        line={"width": 2, "color": look.colour},
        marker={"size": 9, "color": look.colour, "symbol": look.symbol},
        name=stage_name(stage),
        legendgroup=stage,
        hovertemplate=say("calibration.hover.risk"),
    )


def _answered(n: int, points: Sequence[RiskPoint]) -> list[str]:
    """Return how many answers stand behind each point, "" where there is no room before the next."""
    ahead = [*(one.coverage for one in points[1:]), 2.0]
    return [
        str(round(one.coverage * n)) if after - one.coverage >= ROOM else ""
        for one, after in zip(points, ahead, strict=True)
    ]


def _without_order(stage: str, risk: float, look: Look) -> go.Scatter:
    return go.Scatter(
        x=[0, 1],
        y=[risk, risk],
        mode="lines",
        line={"width": 1.2, "dash": "dot", "color": look.colour},
        name=stage_name(stage),
        legendgroup=stage,
        showlegend=False,
        hoverinfo="skip",
    )


def _charts_points(stage: str, bins: Sequence[Bin], look: Look, largest: int) -> go.Scatter:
    accuracies = [one.accuracy or 0.0 for one in bins]
    spans = [one.interval or (0.0, 1.0) for one in bins]
    sizes = [SMALLEST_MARKER + (LARGEST_MARKER - SMALLEST_MARKER) * (b.n / largest) ** 0.5 for b in bins]
    return go.Scatter(
        x=[one.confidence for one in bins],
        y=accuracies,
        customdata=[(one.n, low, high) for one, (low, high) in zip(bins, spans, strict=True)],
        error_y={
            "type": "data",
            "symmetric": False,
            "array": [high - y for (_, high), y in zip(spans, accuracies, strict=True)],
            "arrayminus": [y - low for (low, _), y in zip(spans, accuracies, strict=True)],
            "thickness": 1.5,
            "width": 4,
        },
        cliponaxis=False,
        mode="lines+markers",
        line={"width": 1.5, "dash": "dot"},
        marker={"size": sizes, "opacity": 0.9, "symbol": look.symbol, "line": {"width": 0}},
        name=stage_name(stage),
        legendgroup=stage,
        hovertemplate=say("calibration.hover"),
    ).update(line_color=look.colour, marker_color=look.colour, error_y_color=look.colour)


def _counts(stage: str, bins: Sequence[Bin], look: Look) -> go.Bar:
    return go.Bar(
        x=[one.confidence for one in bins],
        y=[one.n for one in bins],
        text=[str(one.n) for one in bins],
        textposition="outside",
        textangle=0,
        constraintext="none",
        cliponaxis=False,
        marker={"color": look.colour},
        name=stage_name(stage),
        legendgroup=stage,
        showlegend=False,
        yaxis="y2",
        hovertemplate=say("calibration.hover.n"),
    )


def _diagonal() -> go.Scatter:
    return go.Scatter(
        x=[0, 1],
        y=[0, 1],
        mode="lines",
        line={"color": DIAGONAL, "dash": "dash", "width": 1.5},
        name=say("calibration.diagonal"),
        hoverinfo="skip",
    )


def _reliability_layout() -> go.Layout:
    return _charts_layout().update(
        xaxis=SHARES
        | {
            "title": {"text": say("calibration.axis.confidence")},
            "range": [-0.02, 1.04],
            "anchor": "y2",
            "ticklabelstandoff": 6,
        },
        yaxis=SHARES | {"title": {"text": say("calibration.axis.accuracy")}, "domain": [0.27, 1]},
        yaxis2={
            "title": {"text": say("calibration.axis.n")},
            "domain": [0, 0.17],
            "rangemode": "tozero",
            "zeroline": False,
            "fixedrange": True,
            "nticks": 3,
        },
    )


def _risk_layout() -> go.Layout:
    return _charts_layout().update(
        xaxis=SHARES | {"title": {"text": say("calibration.axis.coverage")}},
        yaxis=SHARES | {"title": {"text": say("calibration.axis.risk")}},
    )


SHARES: dict[str, object] = {
    "range": [-0.02, 1.02],
    "tickformat": ".0%",
    "dtick": 0.2,
    "zeroline": False,
    "fixedrange": True,
}
"""An axis from 0 to 100 %."""


def _charts_layout() -> go.Layout:
    return go.Layout(
        template="none",
        height=460,
        autosize=True,
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": "'Source Sans 3', sans-serif", "size": 14},
        margin={"l": 60, "r": 12, "t": 40, "b": 50},
        legend={"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        hoverlabel={"font": {"color": "#fff"}},
        modebar={
            "remove": ["select2d", "lasso2d"],
            "bgcolor": "rgba(0,0,0,0)",
            "color": DIAGONAL,
        },
    )


# Plotly loads a class when it is first named, and annotations would name them at the start.


COLOURS = ("#0f8278", "#d55e00", "#2b84c6", "#9a6fc0", "#8a7a1f", "#c2527a")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash")
"""Courses of one chart are told apart by their dashes too, not by colour alone."""
MOST_POINTS = 500
"""Of a longer course every second, third … point is drawn, and the last one."""
SMOOTHED_OVER = 10
"""Points that a mean is taken over where single ones say little; of shorter courses none is taken."""
ECE = "ece"


@dataclass(frozen=True)
class Chart:
    """One chart: its name in lab/ui/text, what of metrics.jsonl it shows, and how its axis reads.

    The figures of one step of a noisy one hang on the few questions asked at it, so means are drawn.
    """

    name: str
    metrics: tuple[str, ...]
    ticks: str = "~g"
    from_zero: bool = True
    is_noisy: bool = False

    def title(self, *, has_means: bool) -> str:
        """Return the heading over it."""
        text = say(f"train.chart.{self.name}")
        return say("train.chart.means", title=text, n=SMOOTHED_OVER) if has_means else text


CHARTS = (
    Chart("reward", ("reward", *(f"verifier/{name}" for name in VERIFIERS)), is_noisy=True),
    Chart("loss", ("loss",), from_zero=False),
    Chart("ece", (ECE,), is_noisy=True),
    Chart("kl", ("kl", "monitor/kl")),
    Chart("lines", ("line/answer", "confidence/stated"), ".0%", is_noisy=True),
    Chart("zero", ("frac_reward_zero_std",), ".0%", is_noisy=True),
    Chart("length", ("completions/mean_length",), is_noisy=True),
    Chart("accuracy", ("mean_token_accuracy", "rewards/accuracies", "monitor/accuracy"), ".0%"),
    Chart("margins", ("rewards/margins",), from_zero=False),
    Chart("rate", ("learning_rate",), "~e"),
)

Points = Sequence[tuple[int, float]]


def curve(chart: Chart, watched: Watched) -> go.Figure | None:
    """Return a chart of what the run has logged of it; None if that is nothing."""
    courses = {name: points for name in chart.metrics if (points := _points(name, watched))}
    if not courses:
        return None
    has_means = chart.is_noisy and max(map(len, courses.values())) >= 2 * SMOOTHED_OVER
    figure = go.Figure(layout=_layout(chart, len(courses), has_means=has_means))
    for place, (name, points) in enumerate(courses.items()):
        if has_means and len(courses) == 1:
            figure.add_trace(_faint(points, place))
        drawn = _means(points) if has_means else points
        figure.add_trace(_line(name, drawn, place, is_mean=has_means))
    return figure


def _points(name: str, watched: Watched) -> Points:
    if name == ECE:
        return [(batch.step, batch.ece) for batch in watched.batches if batch.ece is not None]
    return watched.points(name)


def _means(points: Points) -> Points:
    """Return the mean over the last points at each point, at the start over as many as there are."""
    sums = [0.0, *accumulate(value for _, value in points)]
    found = []
    for end, (step, _) in enumerate(points, start=1):
        count = min(end, SMOOTHED_OVER)
        found.append((step, (sums[end] - sums[end - count]) / count))
    return found


def _thinned(points: Points) -> Points:
    every = -(-len(points) // MOST_POINTS)
    if every <= 1:
        return points
    kept = list(points[::every])
    return kept if kept[-1] == points[-1] else [*kept, points[-1]]


def _line(name: str, points: Points, place: int, *, is_mean: bool) -> go.Scatter:
    label, colour = _label(name), COLOURS[place % len(COLOURS)]
    drawn = _thinned(points)
    return go.Scatter(
        x=[step for step, _ in drawn],
        y=[value for _, value in drawn],
        mode="lines+markers" if len(drawn) < 40 and not is_mean else "lines",
        line={
            "width": 1.6 if place else 2.2,
            "color": colour,
            "dash": DASHES[place % len(DASHES)],
        },
        marker={"size": 5, "color": colour},
        name=label,
        hovertemplate=f"{label} %{{y:.4g}}<extra>{say('train.step', step='%{x}')}</extra>",
    )


def _faint(points: Points, place: int) -> go.Scatter:
    """Return the single points behind their means."""
    drawn = _thinned(points)
    return go.Scatter(
        x=[step for step, _ in drawn],
        y=[value for _, value in drawn],
        mode="lines",
        opacity=0.35,
        line={"width": 1.2, "color": COLOURS[place % len(COLOURS)]},
        showlegend=False,
        hoverinfo="skip",
    )


def _label(name: str) -> str:
    """Return a metric's name in words, of a verifier its own name."""
    head, _, verifier = name.partition("/")
    return verifier if head == "verifier" else say(f"train.metric.{name}")


def _layout(chart: Chart, courses: int, *, has_means: bool) -> go.Layout:
    return go.Layout(
        template="none",
        height=250,
        autosize=True,
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": "'Source Sans 3', sans-serif", "size": 13},
        title={
            "text": chart.title(has_means=has_means),
            "x": 0,
            "xanchor": "left",
            "y": 0.97,
            "yanchor": "top",
            "font": {"size": 15},
        },
        margin={"l": 54, "r": 10, "t": 36, "b": 30},
        showlegend=courses > 1,
        # below, where more rows of it on a narrow page take room from the plot and not from the heading
        legend={"orientation": "h", "x": 0, "y": -0.14, "yanchor": "top"},
        hoverlabel={"font": {"color": "#fff"}},
        modebar={
            "bgcolor": "rgba(0,0,0,0)",
            "color": "#8a8a8a",
            "activecolor": COLOURS[0],
            "remove": ["select2d", "lasso2d", "zoomIn2d", "zoomOut2d", "autoScale2d"],
        },
        xaxis={"zeroline": False, "nticks": 6, "tickformat": "d", "rangemode": "tozero"},
        yaxis={
            "zeroline": False,
            "nticks": 5,
            "tickformat": chart.ticks,
            "rangemode": "tozero" if chart.from_zero else "normal",
        },
    )
