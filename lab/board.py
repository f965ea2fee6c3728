"""The leaderboard as one page of HTML that needs no server: every choice is written out, one is shown."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from evals.errors import LabError
from evals.report import HEADLINE
from evals.schema import EvalReport
from lab.evaluations import Evaluations
from lab.grid import shown
from lab.measured import headed, orders_of
from lab.reports import chosen_group
from lab.tabs.leaderboard import board
from lab.theme import ASSETS
from lab.wording import say

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
    """Return the page of a leaderboard; LabError without a report. Takes seconds for each report."""
    if not reports:
        raise LabError("there is no report to show; name one with --report REPORT.json.")
    names = [each.data_name for each in reports]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise LabError(
            f"two reports are about the questions {twice!r}, and the page shows one for each; name one of them."
        )
    panels = list(panels_of(reports))
    choices = "".join(_select(name, panels) for name in CHOICES)
    sections = "".join(
        f'<section data-of="{shown("/".join((each.questions, each.group, each.order)))}" hidden>'
        f"{each.page}</section>"
        for each in panels
    )
    styles = "".join(
        (ASSETS / name).read_text(encoding="utf-8") for name in ("lab.css", "tables.css")
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{shown(say('board.title'))}</title><style>{styles}{STYLE}</style></head>"
        f'<body><div class="gradio-container"><div class="prose"><h1>{shown(say("board.title"))}</h1>'
        f"<p>{shown(say('board.lead'))}</p><p>{choices}</p>{sections}</div></div>"
        f"<script>{SCRIPT}</script></body></html>\n"
    )


def panels_of(reports: Sequence[EvalReport]) -> Iterator[Panel]:
    """Yield every choice that a report has, the most questions first."""
    measured = Evaluations(tuple(reports))
    for report in measured.reports:
        orders = [order for order in ORDERS if order in orders_of(report)]
        groups = dict.fromkeys(chosen_group(report, group) for group in GROUPS)
        for group, order in product(groups, orders):
            found = board(measured, report.data_name, group, order)
            yield Panel(report.data_name, group, order, found.page)


def _select(name: str, panels: Sequence[Panel]) -> str:
    values = dict.fromkeys(getattr(each, name) for each in panels)
    options = "".join(
        f'<option value="{shown(value)}">{shown(_told(name, value))}</option>' for value in values
    )
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
