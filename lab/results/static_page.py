"""The leaderboard as one page of HTML that needs no server: every choice is written out, one is shown."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from evals.errors import IncomparableReports, LabError
from evals.leaderboard import leaderboard
from evals.report import HEADLINE, instrument
from evals.schema import EvalReport
from lab.results.leaderboard import columns_of, progress, ranking_table
from lab.results.reports import chosen_group, groups_of, headed, orders_of, source
from lab.ui.components import Html, shown
from lab.ui.templates import render
from lab.ui.text import lines, say
from lab.ui.theme import ASSETS

ORDERS = ("accuracy", "reward", "brier")
GROUPS = (HEADLINE, "all")


@dataclass(frozen=True)
class Panel:
    """One choice of questions, group and order, and the tables that belong to it as HTML."""

    questions: str
    group: str
    order: str
    page: Html


def board_page(reports: Sequence[EvalReport]) -> str:
    """Return the page of a leaderboard; takes seconds for each report.

    Reports on the same questions stand in one table. LabError without a report, IncomparableReports for
    one that other verifiers judged than today's, BadConfig for two of one chain on the same questions.
    """
    if not reports:
        raise LabError("there is no report to show; name one with --report REPORT.json.")
    _check(reports)
    panels = list(panels_of(reports))
    choices = []
    for name in ("questions", "group", "order"):
        values = dict.fromkeys(getattr(each, name) for each in panels)
        choices.append((name, say(f"board.{name}"), [(value, _told(name, value)) for value in values]))
    styles = "".join((ASSETS / name).read_text(encoding="utf-8") for name in ("lab.css", "tables.css"))
    return render("results/static_page.html.jinja", "page", styles=Html(styles), choices=choices, panels=panels)


def panels_of(reports: Sequence[EvalReport]) -> Iterator[Panel]:
    """Yield every choice that the reports on the same questions share, the most questions first."""
    by_questions: dict[str, list[EvalReport]] = {}
    for report in reports:
        by_questions.setdefault(report.data_name, []).append(report)
    for name, members in sorted(
        by_questions.items(), key=lambda each: -len({row.example.id for row in each[1][0].rows})
    ):
        orders = [one for one in ORDERS if all(one in orders_of(each) for each in members)]
        groups = dict.fromkeys(chosen_group(members[0], group) for group in GROUPS)
        shared = [one for one in groups if all(one in groups_of(each) for each in members)]
        for group, order in product(shared, orders):
            yield Panel(name, group, order, Html("".join(_tables(members, group, order))))


def _tables(members: Sequence[EvalReport], group: str, order: str) -> Iterator[Html]:
    """Yield the ranking of all chains together, then of each what its stages changed and its source."""
    names = [name for name in columns_of(members[0], order) if all(name in orders_of(each) for each in members)]
    yield ranking_table(leaderboard(members, group, order), names)
    for report in members:
        if len(members) > 1:
            title = say("leaderboard.within", chain=report.chain_name)
            yield Html(f"<h2>{shown(title)}</h2>")
        yield progress(report, group, order)
        yield source(report)


def _check(reports: Sequence[EvalReport]) -> None:
    """Return if all reports were judged as today, and those of one name asked the same questions."""
    questions: dict[str, str] = {}
    for report in reports:
        told = f"the report of {report.chain_name} on {report.data_name}"
        if report.versions != instrument():
            raise IncomparableReports(
                f"{told} was judged by {', '.join(report.versions.values())}, and today's are"
                f" {', '.join(instrument().values())}: figures of both cannot stand in one table. Bring it up"
                " to date with `assay eval rescore REPORT.json`, or leave it out."
            )
        if questions.setdefault(report.data_name, report.data_sha256) != report.data_sha256:
            raise IncomparableReports(
                f"{told} is about other questions than another report of the same name; measure both on"
                " the same, or name one of them."
            )


def _told(name: str, value: str) -> str:
    """Return a value as visitors read it."""
    if name == "order":
        return headed(value)
    return lines().get(f"{'data' if name == 'questions' else 'group'}.{value}", value)
