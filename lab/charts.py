"""The reliability diagram and the risk-coverage curve as Plotly figures.

Gradio draws it with its own plotly.js, older than the Python package: only plain scatter and bar
traces are used. Text and grid colours come from the page's style sheet, which knows light and dark.
"""

# Plotly loads a class when it is first named, and annotations would name them at the start.
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from evals.reliability import Bin
from evals.risk import RiskPoint
from lab.answers import stage_name
from lab.wording import say

COLOURS = ("#7b8494", "#d55e00", "#2b84c6", "#9a6fc0", "#8a7a1f", "#c2527a")
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
        figure.add_trace(_points(stage, filled, look, largest))
        counts = _counts(stage, filled, look)
        figure.add_trace(
            counts.update(width=BAR / len(bins), offset=BAR * (place / len(bins) - 0.5))
        )
    return figure


def risk_coverage(
    curves: Mapping[str, tuple[int, Sequence[RiskPoint]]], order: Sequence[str]
) -> go.Figure:
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
    return Look(COLOURS[place % len(COLOURS)], SYMBOLS[place % len(SYMBOLS)])


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


def _points(stage: str, bins: Sequence[Bin], look: Look, largest: int) -> go.Scatter:
    accuracies = [one.accuracy or 0.0 for one in bins]
    spans = [one.interval or (0.0, 1.0) for one in bins]
    sizes = [
        SMALLEST_MARKER + (LARGEST_MARKER - SMALLEST_MARKER) * (b.n / largest) ** 0.5 for b in bins
    ]
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
    return _layout().update(
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
    return _layout().update(
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


def _layout() -> go.Layout:
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
