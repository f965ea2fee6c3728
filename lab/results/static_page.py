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
from lab.ui.text import say
from lab.ui.theme import ASSETS

ORDERS = ("accuracy", "reward", "brier")
GROUPS = (HEADLINE, "all")
CHOICES = ("questions", "group", "order")
SCRIPT = """
const chosen = () => ["questions", "group", "order"].map((name) => document.getElementById(name).value);
const show = () => {
  const wanted = chosen().join("/");
  const panels = [...document.querySelectorAll("section[data-of]")];
  const found = panels.find((each) => each.dataset.of === wanted)
    ?? panels.find((each) => each.dataset.of.startsWith(chosen()[0] + "/"));
  panels.forEach((each) => { each.hidden = each !== found; });
  const [questions, group, order] = found.dataset.of.split("/");
  document.getElementById("group").value = group;
  document.getElementById("order").value = order;
};
document.querySelectorAll("select").forEach((each) => each.addEventListener("change", show));
document.documentElement.classList.toggle("dark", matchMedia("(prefers-color-scheme: dark)").matches);
show();
"""
STYLE = """
body { background: var(--paper); color: var(--ink); font: 17px/1.5 system-ui, sans-serif; margin: 0 auto;
  max-width: 1320px; padding: 24px; }
h1 { font: 650 30px/1.2 var(--serif); } label { margin-right: 24px; } section[hidden] { display: none; }
select { background: var(--sheet); border: 1px solid var(--rule); color: var(--ink); font: inherit; padding: 6px; }
"""


@dataclass(frozen=True)
class Panel:
    """One choice of questions, group and order, and the tables that belong to it as HTML."""

    questions: str
    group: str
    order: str
    page: str


def board_page(reports: Sequence[EvalReport]) -> str:
    """Return the page of a leaderboard; takes seconds for each report.

    Reports on the same questions stand in one table. LabError without a report, IncomparableReports for
    one that other verifiers judged than today's, BadConfig for two of one chain on the same questions.
    """
    if not reports:
        raise LabError("there is no report to show; name one with --report REPORT.json.")
    _check(reports)
    panels = list(panels_of(reports))
    choices = "".join(_select(name, panels) for name in CHOICES)
    sections = "".join(
        f'<section data-of="{shown("/".join((each.questions, each.group, each.order)))}" hidden>{each.page}</section>'
        for each in panels
    )
    styles = "".join((ASSETS / name).read_text(encoding="utf-8") for name in ("lab.css", "tables.css"))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{shown(say('board.title'))}</title><style>{styles}{STYLE}</style></head>"
        f'<body><div class="gradio-container"><div class="prose"><h1>{shown(say("board.title"))}</h1>'
        f"<p>{shown(say('board.lead'))}</p><p>{choices}</p>{sections}</div></div>"
        f"<script>{SCRIPT}</script></body></html>\n"
    )


def panels_of(reports: Sequence[EvalReport]) -> Iterator[Panel]:
    """Yield every choice that the reports on the same questions share, the most questions first."""
    by_questions: dict[str, list[EvalReport]] = {}
    for report in reports:
        by_questions.setdefault(report.data_name, []).append(report)
    for name, members in sorted(by_questions.items(), key=lambda each: -_asked(each[1][0])):
        orders = [one for one in ORDERS if all(one in orders_of(each) for each in members)]
        groups = dict.fromkeys(chosen_group(members[0], group) for group in GROUPS)
        shared = [one for one in groups if all(one in groups_of(each) for each in members)]
        for group, order in product(shared, orders):
            yield Panel(name, group, order, "".join(_tables(members, group, order)))


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


def _asked(report: EvalReport) -> int:
    return len({row.example.id for row in report.rows})


def _select(name: str, panels: Sequence[Panel]) -> str:
    values = dict.fromkeys(getattr(each, name) for each in panels)
    options = "".join(f'<option value="{shown(value)}">{shown(_told(name, value))}</option>' for value in values)
    return f'<label>{shown(say(f"board.{name}"))} <select id="{name}">{options}</select></label>'


def _told(name: str, value: str) -> str:
    """Return a value as visitors read it."""
    if name == "order":
        return str(headed(value))
    return _line(f"{'data' if name == 'questions' else 'group'}.{value}", value)


def _line(key: str, otherwise: str) -> str:
    try:
        return say(key)
    except KeyError:
        return otherwise
