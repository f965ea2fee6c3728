"""The leaderboard: stages and trivial baselines in one table with earned ranks, and what training did."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from evals.compare import Difference, PairedComparison
from evals.leaderboard import APART, LeaderboardRow, has_ranks, questions_needed
from evals.report import LOWER_IS_BETTER, MEASURES, stages_of
from evals.report import reading as reading_of
from evals.schema import EvalReport
from evals.task import narrow
from lab.results.reports import (
    behind,
    chosen_group,
    chosen_report,
    chosen_stages,
    differences,
    metric_heading,
    orders_of,
    scale_of,
    source,
    stage_ranking,
)
from lab.shared.evaluations import Evaluations
from lab.shared.rows import Place, link, metric_label
from lab.ui.components import (
    Column,
    Html,
    Scale,
    as_html,
    emphasis,
    grid,
    interval,
    measure,
    number,
    opening,
    stack_figure,
    stage_name,
)
from lab.ui.text import say

if TYPE_CHECKING:
    import plotly.graph_objects as go


@dataclass(frozen=True)
class Opens:
    """Leads from a figure of a report to the answers behind it."""

    report: EvalReport
    group: str
    place: Place

    def __call__(self, metric: str, stage: str, other: str = "") -> str:
        """Return the address of the answers of a stage; of a difference, the side that has fewer of them."""
        if other:
            n = {each: len(behind(self.report, each, self.group, metric)) for each in (stage, other)}
            stage, other = sorted(n, key=lambda each: n[each])
        return link(self.place, rows=metric, stage=stage, against=other)


def difference_cell(found: Difference, href: str = "") -> Html:
    """Return a difference with its interval, p and n, and in words whether it is more than chance.

    `href` leads to the answers behind it.
    """
    scale = _scale(found.metric)
    if found.value is None:
        found = found.model_copy(update={"note": MEASURES[found.metric].undefined})
    if found.value is None or found.low is None or found.high is None:
        return measure(found, scale)
    tone = "open" if not found.is_shown else "good" if found.is_better else "bad"
    key = "alone" if tone == "open" and found.is_tested and found.excludes_zero else tone
    verdict = say(f"leaderboard.{key if found.is_tested else 'untested'}")
    span = interval(found.low, found.high, scale, plus=True)
    told = [say("leaderboard.n", interval=span, n=found.n)]
    if found.p_permutation is not None and found.p_holm is not None:
        told.append(say("leaderboard.p", p=probability(found.p_permutation), corrected=probability(found.p_holm)))
    if found.note:
        told.append(found.note)
    figure = opening(number(found.value, scale, plus=True), href, found.n)
    return stack_figure(figure, *told, last=emphasis(verdict), tone=f" assay-{tone}")


def comparison_sentence(compared: PairedComparison, metric: str, tests: int) -> str:
    """Return what one metric shows of two stages; `tests` is how many p were corrected together."""
    found = next(each for each in compared.differences if each.metric == metric)
    names = {
        "first": stage_name(compared.first.stage),
        "second": stage_name(compared.second.stage),
        "metric": metric_label(metric),
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
        told = {"p": probability(found.p_permutation or 0.0), "corrected": probability(found.p_holm)}
        figures = say("leaderboard.figures", difference=change, interval=span, tests=tests, n=found.n, **told)
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
class LeaderboardPage:
    """What the tab shows: the report, group and metric that were found, and their tables as HTML."""

    report: EvalReport
    group: str
    order: str
    page: str
    forest: "go.Figure | None" = None


def board(
    measured: Evaluations,
    data: str | None,
    group: str | None = None,
    order: str | None = None,
    stages: str | None = None,
) -> LeaderboardPage:
    """Return the tables of one report in one group, ordered by one metric; every figure opens the answers behind it.

    What is not found is the first report, the headline group, accuracy and all stages. There must be a report. Ranks and
    corrections count all entries, whichever are shown.
    """
    report = chosen_report(measured.reports, data)
    found = chosen_group(report, group)
    known = orders_of(report)
    by = order if order is not None and order in known else known[0]
    shown_stages = chosen_stages(report, stages)
    known_by = {"chain": measured.chain, "questions": report.data_name, "group": found, "order": by}
    place = {"tab": "results", **known_by, "stages": stages or ""}
    opens = Opens(report, found, place)
    rows = [row for row in stage_ranking(report, found, by) if row.is_baseline or row.stage in shown_stages]
    ranking = ranking_table(rows, columns_of(report, by), opens)
    parts = (ranking, progress(report, found, by, opens, shown_stages), source(report))
    return LeaderboardPage(report, found, by, "".join(parts), forest_of(rows, by, stages_of(report)))


def forest_of(rows: Sequence[LeaderboardRow], order: str, stages: Sequence[str]) -> "go.Figure | None":
    """Return the ranked entries with their intervals, the best at the top; None where none of them has a value."""
    from lab.ui.charts import forest

    drawn = [
        (row.stage if row.is_baseline else stage_name(row.stage), "" if row.is_baseline else row.stage, metric)
        for row in rows
        if (metric := row.metrics.get(order))
        and metric.value is not None
        and not (row.is_baseline and row.rank is None)
    ]
    return forest(drawn, stages, metric_heading(order), is_share=scale_of(order) == "share") if drawn else None


def ranking_table(rows: Sequence[LeaderboardRow], names: Sequence[str], opens: Opens) -> Html:
    """Return ranked rows, the best first, as a table, and in words who leads, if anyone.

    The metric that ordered them comes first among the columns.
    """
    order = names[0]
    sharing = Counter(row.rank for row in rows) if has_ranks(rows) else Counter()
    sort = "ascending" if order in LOWER_IS_BETTER else "descending"
    ordered = Column(metric_heading(order), sort=sort)
    others = [Column(metric_heading(name), href=link(opens.place, order=name)) for name in names[1:]]
    columns = (say("leaderboard.name"), ordered, say("leaderboard.against"), *others)
    cells = []
    weaker = [row for row in rows if row.is_baseline and row.rank is None]
    for row in (each for each in rows if each not in weaker):
        links = [opens(name, row.stage) for name in names]
        first, *rest = (
            measure(row.metrics.get(name), scale_of(name), href=href) for name, href in zip(names, links, strict=True)
        )
        name = _name(row, sharing[row.rank])
        if row.from_best is not None:
            against = difference_cell(row.from_best, opens(order, row.stage, rows[0].stage))
        else:
            why = say("leaderboard.unranked" if row.rank is None else "leaderboard.against.first")
            against = Html(f'<span class="assay-missing">{as_html(why)}</span>')
        cells.append((name, first, against, *rest))
    if weaker:
        cells.append(_fold_baselines(weaker, names, opens))
    caption = say("leaderboard.caption", metric=metric_label(order))
    top = f'<p class="assay-verdict">{as_html(_top(rows, order))}</p>'
    return Html(top + grid(caption, columns, cells))


def progress(report: EvalReport, group: str, order: str, opens: Opens, stages: Sequence[str]) -> Html:
    """Return the paired difference between every two of these stages, and what it means in plain words."""
    names = columns_of(report, order)
    found = differences(report, group, names)
    compared = (
        [each for each in found.comparisons if {each.first.stage, each.second.stage} <= {*stages}] if found else []
    )
    if found is None or not compared:
        return Html()

    def table(shown: Sequence[PairedComparison], caption: str) -> str:
        rows = []
        for each in shown:
            one, other = each.first.stage, each.second.stage
            links = [opens(name, other, one) for name in names]
            rows.append((f"{stage_name(one)} → {stage_name(other)}", *map(difference_cell, each.differences, links)))
        return grid(say(caption), (say("leaderboard.step"), *map(metric_heading, names)), rows)

    steps = [each for each in compared if (each.first.stage, each.second.stage) in {*pairwise(stages)}]
    others = [each for each in compared if each not in steps]
    listed = "".join(f"<li>{as_html(comparison_sentence(each, order, found.n_tests))}</li>" for each in compared)
    more = table(others, "leaderboard.differences.others") if others else ""
    words = f"<details><summary>{as_html(say('leaderboard.more'))}</summary>"
    words += f'{more}<ul class="assay-sentences">{listed}</ul></details>'
    return Html(table(steps, "leaderboard.differences") + words)


def columns_of(report: EvalReport, order: str) -> tuple[str, ...]:
    """Return the metrics of the tables: the one that orders them, then those that narrow tables show, as many in all."""
    known, usual = orders_of(report), narrow(MEASURES)
    return (order, *(name for name in usual if name != order and name in known))[: len(usual)]


def _name(row: LeaderboardRow, sharing: int) -> Html:
    """Return rank and name; a rank that several entries have says how many share it, and 0 that nobody is ranked."""
    if row.rank is None:
        rank = f"<small>{as_html(say('leaderboard.unranked'))}</small>"
    elif not sharing:
        rank = ""
    else:
        shared = say("leaderboard.shared", n=sharing) if sharing > 1 else ""
        rank = (
            f'<span class="assay-hidden">{as_html(say("leaderboard.rank"))} </span>'
            f"<b>{row.rank}</b><small>{as_html(shared)}</small>"
        )
    if row.is_baseline:
        tag = as_html(say("leaderboard.baseline"))
        name = f'{as_html(row.stage)} <span class="assay-tag">{tag}</span>'
    else:
        name = f'<span class="assay-stage">{as_html(stage_name(row.stage))}</span>'
    name = f"{name}{_read(row)}"
    if row.abstains_below:
        name += f" <small>{as_html(say('leaderboard.abstains', at=row.abstains_below))}</small>"
    return Html(f'<span class="assay-ranked"><span class="assay-rank">{rank}</span> <span>{name}</span></span>')


def _read(row: LeaderboardRow) -> str:
    """Return how answers were read, where not all of them from a line."""
    if not row.read_by.keys() - {"answer"}:
        return ""
    return f" <small>{as_html(say('leaderboard.read', how=reading_of(row.read_by)))}</small>"


def _fold_baselines(rows: Sequence[LeaderboardRow], names: Sequence[str], opens: Opens) -> tuple[Html, ...]:
    """Return one row for baselines without a rank: their names and figures to open, the range of each metric."""
    spans, listed = [], []
    for name in names:
        values = [row.metrics[name].value for row in rows if name in row.metrics]
        known = sorted(value for value in values if value is not None)
        spans.append(interval(known[0], known[-1], scale_of(name)) if known else say("leaderboard.unranked.none"))
    for row in rows:
        first = row.metrics[names[0]]
        figure = say("leaderboard.unranked.none")
        if first.value is not None:
            figure = opening(number(first.value, scale_of(names[0])), opens(names[0], row.stage), first.n)
        listed.append(f"<li>{as_html(row.stage)}: {figure}{_read(row)}</li>")
    told = as_html(say("leaderboard.weaker", n=len(rows)))
    name = Html(f"<details><summary>{told}</summary><ul>{''.join(listed)}</ul></details>")
    cells = (spans[0], say("leaderboard.weaker.against"), *spans[1:])
    return name, *(Html(f'<span class="assay-missing">{as_html(each)}</span>') for each in cells)


def _top(rows: Sequence[LeaderboardRow], order: str) -> str:
    """Return who is at rank 1, and that several there are no winners."""
    first = [row for row in rows if row.rank == 1]
    if not first:
        return say("leaderboard.top.none", metric=metric_label(order))
    if not MEASURES[order].is_tested:
        return say("leaderboard.top.untested", metric=metric_label(order), n=len(first))
    names = [row.stage if row.is_baseline else stage_name(row.stage) for row in first]
    n = first[0].metrics["accuracy"].n
    if len(names) > 1 and not has_ranks(rows):
        needed = questions_needed(rows) if scale_of(order) != "open" else None
        key = "unknown" if needed is None else "more" if needed > n else "enough"
        return say(f"leaderboard.top.{key}", n=len(names), questions=n, needed=needed, points=round(100 * APART))
    key = "alone" if len(names) == 1 else "shared"
    *before, last = names  # names of baselines hold commas
    named = f"{'; '.join(before)} {say('leaderboard.and')} {last}" if before else last
    return say(f"leaderboard.top.{key}", names=named, n=len(names), questions=n)
