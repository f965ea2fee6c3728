"""The course of a run's figures as Plotly figures, small ones that stand beside each other.

Gradio draws them with its own plotly.js: only plain scatter traces are used. Text and grid colours
come from the page's style sheet, which knows light and dark.
"""

# Plotly loads a class when it is first named, and annotations would name them at the start.
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import plotly.graph_objects as go

from evals.verifiers import VERIFIERS
from lab.watching import Watched
from lab.wording import say

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
    """One chart: its name in lab/text, what of metrics.jsonl it shows, and how its axis reads.

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
