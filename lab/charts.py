"""The reliability diagram as a Plotly figure.

Gradio draws it with its own plotly.js, older than the Python package: only plain scatter and bar
traces are used. Text and grid colours come from the page's style sheet, which knows light and dark.
"""

# Plotly loads a class when it is first named, and annotations would name them at the start.
from __future__ import annotations

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from evals.calibration import Bin
from lab.answers import stage_name
from lab.wording import say

COLOURS = ("#7a869a", "#c9822b", "#15807a", "#8a5fb0", "#b0506e", "#4f7cc4")
DIAGONAL = "#8b93a1"
LARGEST_MARKER = 20.0
SMALLEST_MARKER = 7.0
BAR = 0.05
"""Width of a bar of counts, in stated confidence; stages share it."""


def reliability(bins: Mapping[str, Sequence[Bin]], order: Sequence[str]) -> go.Figure:
    """Return share correct against stated confidence, one trace per stage, with n beneath.

    Points are bins that hold answers, placed at their mean confidence, with Wilson's 95 %
    interval; the larger the point, the more answers. `order` lists all stages of the chain: a
    stage keeps its colour whichever stages are shown.
    """
    figure = go.Figure(layout=_layout())
    figure.add_trace(_diagonal())
    colours = {stage: COLOURS[i % len(COLOURS)] for i, stage in enumerate(order)}
    largest = max((one.n for each in bins.values() for one in each), default=0)
    for place, (stage, each) in enumerate(bins.items()):
        filled = [one for one in each if one.n]
        figure.add_trace(_points(stage, filled, colours[stage], largest))
        counts = _counts(stage, filled, colours[stage])
        figure.add_trace(
            counts.update(width=BAR / len(bins), offset=BAR * (place / len(bins) - 0.5))
        )
    return figure


def _points(stage: str, bins: Sequence[Bin], colour: str, largest: int) -> go.Scatter:
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
        mode="lines+markers",
        line={"width": 1.5, "dash": "dot"},
        marker={"size": sizes, "opacity": 0.9},
        name=stage_name(stage),
        legendgroup=stage,
        hovertemplate=say("calibration.hover"),
    ).update(line_color=colour, marker_color=colour, error_y_color=colour)


def _counts(stage: str, bins: Sequence[Bin], colour: str) -> go.Bar:
    return go.Bar(
        x=[one.confidence for one in bins],
        y=[one.n for one in bins],
        text=[str(one.n) for one in bins],
        textposition="outside",
        cliponaxis=False,
        marker={"color": colour},
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


def _layout() -> go.Layout:
    shares = {
        "range": [0, 1],
        "tickformat": ".0%",
        "dtick": 0.2,
        "zeroline": False,
        "fixedrange": True,
    }
    return go.Layout(
        template="none",
        height=520,
        autosize=True,
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": "'Source Sans 3', sans-serif", "size": 14},
        margin={"l": 60, "r": 12, "t": 40, "b": 50},
        legend={"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        xaxis=shares
        | {
            "title": {"text": say("calibration.axis.confidence")},
            "range": [-0.02, 1.04],
            "anchor": "y2",
            "ticklabelstandoff": 6,
        },
        yaxis=shares
        | {
            "title": {"text": say("calibration.axis.accuracy")},
            "domain": [0.27, 1],
            "range": [-0.02, 1.02],
        },
        yaxis2={
            "title": {"text": say("calibration.axis.n")},
            "domain": [0, 0.17],
            "rangemode": "tozero",
            "zeroline": False,
            "fixedrange": True,
            "nticks": 3,
        },
        hoverlabel={"font": {"color": "#fff"}},
        modebar={
            "remove": ["select2d", "lasso2d"],
            "bgcolor": "rgba(0,0,0,0)",
            "color": DIAGONAL,
        },
    )
