"""Leaderboard tab: stages and trivial baselines in one table with earned ranks, and what training did."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import gradio as gr

from evals.compare import Difference, PairedComparison
from evals.leaderboard import LeaderboardRow
from evals.report import LOWER_IS_BETTER, MEASURES
from evals.report import reading as reading_of
from evals.schema import EvalReport
from evals.task import narrow
from lab.results.evaluations import Evaluations
from lab.results.reports import (
    ReportTab,
    called,
    chosen_group,
    chosen_report,
    differences,
    headed,
    orders_of,
    ranked,
    scale_of,
    source,
)
from lab.services import Services
from lab.session import stage_name
from lab.ui.components import Column, Html, Scale, emphasis, grid, interval, measure, number, shown, stacked
from lab.ui.layout import Painted
from lab.ui.text import say


def difference_cell(found: Difference) -> Html:
    """Return a difference with its interval, p and n, and in words whether it is more than chance."""
    scale = _scale(found.metric)
    if found.value is None:
        found = found.model_copy(update={"note": MEASURES[found.metric].undefined})
    if found.value is None or found.low is None or found.high is None:
        return measure(found, scale)
    tone = "open" if not found.is_shown else "good" if found.is_better else "bad"
    verdict = say(f"leaderboard.{tone if found.is_tested else 'untested'}")
    span = interval(found.low, found.high, scale, plus=True)
    told = [say("leaderboard.n", interval=span, n=found.n)]
    if found.p_permutation is not None and found.p_holm is not None:
        told.append(say("leaderboard.p", p=probability(found.p_permutation), corrected=probability(found.p_holm)))
    if found.note:
        told.append(found.note)
    figure = number(found.value, scale, plus=True)
    return stacked(figure, *told, last=emphasis(verdict), tone=f" assay-{tone}")


def sentence(compared: PairedComparison, metric: str, tests: int) -> str:
    """Return what one metric shows of two stages; `tests` is how many p were corrected together."""
    found = next(each for each in compared.differences if each.metric == metric)
    names = {
        "first": stage_name(compared.first.stage),
        "second": stage_name(compared.second.stage),
        "metric": called(metric),
    }
    if found.value is None:
        silent = [names[side] for side in ("first", "second") if getattr(found, side) is None]
        return say(
            "leaderboard.sentence.undefined",
            **names,
            silent=f" {say('leaderboard.and')} ".join(silent),
            why=MEASURES[metric].undefined,
        )
    scale = _scale(metric)
    change = number(found.value, scale, plus=True)
    if found.low is None or found.high is None:
        key = "same" if not found.value else "constant" if found.is_tested else "bare"
        return say(f"leaderboard.sentence.{key}", **names, difference=change, n=found.n)
    tone = "open" if not found.is_shown else "better" if found.is_better else "worse"
    tone = tone if found.is_tested else "untested"
    span = interval(found.low, found.high, scale, plus=True)
    if found.p_holm is None:
        figures = say("leaderboard.figures.untested", difference=change, interval=span, n=found.n)
    else:
        p = probability(found.p_holm)
        figures = say("leaderboard.figures", difference=change, interval=span, tests=tests, p=p, n=found.n)
    return say(f"leaderboard.sentence.{tone}", **names, figures=figures)


def probability(p: float) -> str:
    """Return a p-value with two digits that count.

    >>> probability(0.16898), probability(0.0076), probability(0.00002)
    ('0.17', '0.0076', '< 0.001')
    """
    return say("leaderboard.p.small") if p < 0.001 else f"{p:.2g}"


def _scale(metric: str) -> Scale:
    scale = scale_of(metric)
    return "points" if scale == "share" else scale


@dataclass(frozen=True)
class Board:
    """What the tab shows: the report, group and metric that were found, and their tables as HTML."""

    report: EvalReport
    group: str
    order: str
    page: str


def board(measured: Evaluations, data: str | None, group: str | None = None, order: str | None = None) -> Board:
    """Return the tables of one report in one group, ordered by one metric.

    What is not found is the first report, the headline group and accuracy. There must be a report.
    """
    report = chosen_report(measured.reports, data)
    found = chosen_group(report, group)
    known = orders_of(report)
    by = order if order is not None and order in known else known[0]
    parts = (ranking(report, found, by), progress(report, found, by), source(report))
    return Board(report, found, by, "".join(parts))


def ranking(report: EvalReport, group: str, order: str) -> Html:
    """Return one row per stage and baseline, the best first, and in words who leads, if anyone."""
    return ranking_table(ranked(report, group, order), columns_of(report, order))


def ranking_table(rows: Sequence[LeaderboardRow], names: Sequence[str]) -> Html:
    """Return ranked rows as a table, the metric that ordered them first among its columns.

    Stages are told apart by their chain where there are several.
    """
    order = names[0]
    sharing = Counter(row.rank for row in rows)
    has_chains = len({row.chain for row in rows if row.chain}) > 1
    sort = "ascending" if order in LOWER_IS_BETTER else "descending"
    ordered, *others = (headed(name) for name in names)
    columns = (say("leaderboard.name"), Column(ordered, sort=sort), say("leaderboard.against"), *others)
    cells = []
    weaker = [row for row in rows if row.is_baseline and row.rank is None]
    for row in (each for each in rows if each not in weaker):
        first, *rest = (measure(row.metrics.get(name), scale_of(name)) for name in names)
        name = _name(row, sharing[row.rank], has_chains=has_chains)
        if row.from_best is not None:
            against = difference_cell(row.from_best)
        else:
            why = say("leaderboard.unranked" if row.rank is None else "leaderboard.against.first")
            against = Html(f'<span class="assay-missing">{shown(why)}</span>')
        cells.append((name, first, against, *rest))
    if weaker:
        cells.append(_folded(weaker, names))
    caption = say("leaderboard.caption", metric=called(order))
    top = f'<p class="assay-verdict">{shown(_top(rows, order, has_chains=has_chains))}</p>'
    return Html(top + grid(caption, columns, cells))


def progress(report: EvalReport, group: str, order: str) -> Html:
    """Return the paired difference between every two stages, and what it means in plain words."""
    names = columns_of(report, order)
    found = differences(report, group, names)
    if found is None:
        return Html()
    rows = []
    for each in found.comparisons:
        title = f"{stage_name(each.first.stage)} → {stage_name(each.second.stage)}"
        rows.append((title, *map(difference_cell, each.differences)))
    listed = "".join(f"<li>{shown(sentence(each, order, found.n_tests))}</li>" for each in found.comparisons)
    columns = (say("leaderboard.step"), *map(headed, names))
    table = grid(say("leaderboard.differences"), columns, rows)
    return Html(f'{table}<ul class="assay-sentences">{listed}</ul>')


def build(services: Services, tab: gr.Tab) -> None:
    """Lay out the tab inside the `gr.Blocks` that is currently open."""
    choices = ReportTab(
        services, "leaderboard", gr.Dropdown([], label=say("leaderboard.order"), visible=False, render=False)
    )
    tables = gr.HTML(elem_id="leaderboard-tables")

    def show(name: str | None, part: str | None, by: str | None) -> Painted:
        def make(measured: Evaluations, outdated: str) -> Painted:
            found = board(measured, name, part, by)
            orders = [(headed(one), one) for one in orders_of(found.report)]
            last = gr.Dropdown(choices=orders, value=found.order, visible=True)
            shown = choices.chosen(measured, found.report, found.group)
            return shown | {choices.last: last, tables: outdated + found.page}

        return choices.answer(tables, make)

    choices.listen(tab, show, [tables], "order")


def columns_of(report: EvalReport, order: str) -> tuple[str, ...]:
    """Return the metrics of the tables: the one that orders them, then those that narrow tables show, as many in all."""
    known, usual = orders_of(report), narrow(MEASURES)
    return (order, *(name for name in usual if name != order and name in known))[: len(usual)]


def _name(row: LeaderboardRow, sharing: int, *, has_chains: bool) -> Html:
    """Return rank and name; a rank that several entries have says how many share it."""
    if row.rank is None:
        rank = f"<small>{shown(say('leaderboard.unranked'))}</small>"
    else:
        shared = say("leaderboard.shared", n=sharing) if sharing > 1 else ""
        rank = (
            f'<span class="assay-hidden">{shown(say("leaderboard.rank"))} </span>'
            f"<b>{row.rank}</b><small>{shown(shared)}</small>"
        )
    if row.is_baseline:
        tag = shown(say("leaderboard.baseline"))
        name = f'{shown(row.stage)} <span class="assay-tag">{tag}</span>'
    else:
        name = f'<span class="assay-stage">{shown(stage_name(row.stage))}</span>'
        if has_chains:
            name = f"{name} <small>{shown(say('leaderboard.of', chain=row.chain))}</small>"
    name = f"{name}{_read(row)}"
    return Html(f'<span class="assay-ranked"><span class="assay-rank">{rank}</span> <span>{name}</span></span>')


def _read(row: LeaderboardRow) -> str:
    """Return how answers were read, where not all of them from a line."""
    if not row.read_by.keys() - {"answer"}:
        return ""
    return f" <small>{shown(say('leaderboard.read', how=reading_of(row.read_by)))}</small>"


def _folded(rows: Sequence[LeaderboardRow], names: Sequence[str]) -> tuple[Html, ...]:
    """Return one row for baselines without a rank: their names and figures to open, the range of each metric."""
    spans, listed = [], []
    for name in names:
        values = [row.metrics[name].value for row in rows if name in row.metrics]
        known = sorted(value for value in values if value is not None)
        spans.append(interval(known[0], known[-1], scale_of(name)) if known else say("leaderboard.unranked.none"))
    for row in rows:
        value = row.metrics[names[0]].value
        figure = say("leaderboard.unranked.none") if value is None else number(value, scale_of(names[0]))
        listed.append(f"<li>{shown(row.stage)}: {figure}{_read(row)}</li>")
    told = shown(say("leaderboard.weaker", n=len(rows)))
    name = Html(f"<details><summary>{told}</summary><ul>{''.join(listed)}</ul></details>")
    cells = (spans[0], say("leaderboard.weaker.against"), *spans[1:])
    return name, *(Html(f'<span class="assay-missing">{shown(each)}</span>') for each in cells)


def _top(rows: Sequence[LeaderboardRow], order: str, *, has_chains: bool) -> str:
    """Return who is at rank 1, and that several there are no winners."""
    first = [row for row in rows if row.rank == 1]
    if not first:
        return say("leaderboard.top.none", metric=called(order))
    if not MEASURES[order].is_tested:
        return say("leaderboard.top.untested", metric=called(order), n=len(first))
    names = []
    for row in first:
        chain = f" {say('leaderboard.of', chain=row.chain)}" if has_chains else ""
        names.append(row.stage if row.is_baseline else f"{stage_name(row.stage)}{chain}")
    is_all = len(names) == sum(row.rank is not None for row in rows)
    key = "alone" if len(names) == 1 else "all" if is_all else "shared"
    *before, last = names  # names of baselines hold commas
    named = f"{'; '.join(before)} {say('leaderboard.and')} {last}" if before else last
    return say(f"leaderboard.top.{key}", names=named, n=len(names), questions=first[0].metrics["accuracy"].n)
