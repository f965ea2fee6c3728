"""Tables as HTML: every text is escaped, every row turns into a card on a narrow screen."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from evals.report import CONSTANT
from evals.schema import Metric
from lab.views import escape
from lab.wording import say

Scale = Literal["share", "points", "number", "open"]
"""Percent, percentage points, a number from 0 to 1, a number without an upper end."""


class Html(str):
    """Text that is markup already; any other string is escaped before it is shown."""

    __slots__ = ()


@dataclass(frozen=True)
class Column:
    """The heading of a column that the rows are sorted by."""

    text: str
    sort: Literal["ascending", "descending"]

    def __str__(self) -> str:
        return self.text


def shown(text: object) -> Html:
    """Return `text` as it may stand in a page: `<b>` becomes `&lt;b&gt;`, Html stays as it is."""
    return text if isinstance(text, Html) else Html(escape(text))


def grid(caption: str, columns: Sequence[object], rows: Sequence[Sequence[object]]) -> Html:
    """Return a table; the first cell of a row is its heading. A table without rows says so.

    Raises ValueError for a row with more or fewer cells than there are columns.
    """
    heads = "".join(map(_head, columns))
    body = "".join(_row(columns, row) for row in rows)
    if not rows:
        body = f'<tr><td colspan="{len(columns)}">nothing yet</td></tr>'
    return Html(
        f'<table class="assay-grid"><caption>{shown(caption)}</caption>'
        f"<thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
    )


def measure(metric: Metric | None, scale: Scale = "share", band: float | None = None) -> Html:
    """Return a number with its interval, n, and a bar that shows both on a scale from 0 to 1.

    `band` shades the bar from 0 up to there. A metric without a value shows a dash and its reason,
    never a zero.
    """
    if metric is None:
        return Html('<span class="assay-missing">not measured</span>')
    if metric.value is None:
        reason = shown(metric.note or "undefined")
        return Html(f'<span class="assay-missing">– <small>{reason}</small></span>')
    parts = [f"<b>{number(metric.value, scale)}</b>"]
    if metric.low is None or metric.high is None:
        told = say("metric.constant") if metric.note == CONSTANT else metric.note
        note = f" · {shown(told)}" if told else ""
        parts.append(f"<small>n\u00a0=\u00a0{metric.n}{note}</small>")
    else:
        span = interval(metric.low, metric.high, scale)
        parts.append(f"<small>{span} · n\u00a0=\u00a0{metric.n}</small>")
        if scale != "open":
            parts.append(_bar(metric.value, metric.low, metric.high, band))
    return Html(f'<span class="assay-measure">{"".join(parts)}</span>')


def number(value: float, scale: Scale, plus: bool = False) -> str:
    """Return a share as "62.6 %", percentage points as "−6.8 points", a number as "0.213".

    `plus` writes the sign of positive values too, as differences need it.
    """
    return f"{_figure(value, scale, plus)}{UNITS[scale]}"


def interval(low: float, high: float, scale: Scale, plus: bool = False) -> str:
    """Return "53.3 to 71.2 %", "−6.9 to 21.3 points" or "0.150 to 0.280"."""
    return f"{_figure(low, scale, plus)} to {number(high, scale, plus)}"


UNITS = {"share": " %", "points": " points", "number": "", "open": ""}


def _figure(value: float, scale: Scale, plus: bool) -> str:
    text = f"{value:.3f}" if scale in ("number", "open") else f"{100 * value:.1f}"
    sign = "+" if plus and value > 0 and text.strip("0.") else ""
    return sign + text.replace("-", "−" if text.strip("-0.") else "")


def tiles(facts: Sequence[tuple[object, object]]) -> Html:
    """Return figures side by side, each with what it counts beneath."""
    each = "".join(
        f"<div><dd>{shown(figure)}</dd><dt>{shown(meaning)}</dt></div>" for meaning, figure in facts
    )
    return Html(f'<dl class="assay-tiles">{each}</dl>')


def _head(column: object) -> str:
    sort = f' aria-sort="{column.sort}"' if isinstance(column, Column) else ""
    return f'<th scope="col"{sort}>{shown(column)}</th>'


def _row(columns: Sequence[object], cells: Sequence[object]) -> str:
    labelled = list(zip(columns, cells, strict=True))
    head = f'<th scope="row">{shown(labelled[0][1])}</th>'
    rest = (
        f'<td data-label="{escape(column)}">{shown(cell)}</td>' for column, cell in labelled[1:]
    )
    return f"<tr>{head}{''.join(rest)}</tr>"


def _bar(value: float, low: float, high: float, band: float | None) -> str:
    left, middle, right = (100 * min(max(x, 0.0), 1.0) for x in (low, value, high))
    shade = f'<i class="assay-band" style="width:{100 * band:.1f}%"></i>' if band else ""
    return (
        f'<span class="assay-range" aria-hidden="true">{shade}'
        f'<i style="left:{left:.1f}%;width:{right - left:.1f}%"></i>'
        f'<i class="assay-point" style="left:{middle:.1f}%"></i></span>'
    )
