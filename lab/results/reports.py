"""What the Leaderboard and Calibration tabs have in common: which report is shown, and its source."""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import combinations
from typing import Any

import gradio as gr

from evals.compare import Comparisons, Pairing, compare
from evals.errors import LabError
from evals.leaderboard import LeaderboardRow, leaderboard
from evals.report import HEADLINE, MEASURES, calibration_of, instrument, rows_behind, rows_of, stages_of
from evals.schema import EvalReport, EvalRow
from evals.schema.votes import AnnotationItem
from evals.stats.calibration import SHARES
from evals.stats.scores import OVERCONFIDENT, UNDERCONFIDENT
from lab.annotate.panel import build_rating
from lab.annotate.session import RATED, Rater, item_of_row, row_name
from lab.page import Painted
from lab.results.evaluations import Evaluations, Outdated
from lab.results.rows import Behind, Place, link, read_place, rows_page, said_of
from lab.services import REPORTS, Services, load_reports
from lab.train.runs import chain_of
from lab.ui.components import Html, Scale, clicks, empty, lead, notice, render, script, shown, stage_name, thumbs
from lab.ui.text import lines, page, say
from lab.visitors import Door, Visitor
from training.models.manifest import chain_file

draw = partial(render, "results/view.html.jinja")
KEPT = 128


@dataclass(frozen=True)
class Counted:
    """How many answers of a stage there are, and how many of them enter calibration.

    `stated` make a claim and state a confidence; `missing` and `invalid` make one without. `sure` and
    `unsure` are those of the stated that the rates of over- and underconfidence are shares of.
    """

    all: int
    stated: int
    missing: int
    invalid: int
    no_claim: int
    sure: int
    unsure: int


@lru_cache(maxsize=KEPT)
def ranked(report: EvalReport, group: str, order: str) -> tuple[LeaderboardRow, ...]:
    """Return stages and baselines of one group, the best by `order` first, with their ranks."""
    return leaderboard([report], group, order)


@lru_cache(maxsize=KEPT)
def differences(report: EvalReport, group: str, metrics: tuple[str, ...]) -> Comparisons | None:
    """Return the paired differences between every two stages; None where there is one stage only."""
    pairs = [((report, one), (report, other)) for one, other in combinations(stages_of(report), 2)]
    return compare(pairs, Pairing(metrics=metrics, group=group)) if pairs else None


behind = lru_cache(maxsize=4 * KEPT)(rows_behind)
"""The rows that a metric of a stage in a group is over."""

calibrated = lru_cache(maxsize=KEPT)(calibration_of)
"""The calibration of one stage in one group, over the answers that make a claim."""


@lru_cache(maxsize=KEPT)
def counted(report: EvalReport, stage: str, group: str) -> Counted:
    """Return how many answers of a stage count in its calibration, and why the others do not."""
    rows = rows_of(report, stage, group)
    claims = [row.verdict.confidence for row in rows if row.verdict.verdict != "no_claim"]
    by_status = Counter(claim.status for claim in claims)
    values = [claim.value for claim in claims if claim.value is not None]
    return Counted(
        all=len(rows),
        stated=len(values),
        missing=by_status["missing"],
        invalid=by_status["invalid"],
        no_claim=len(rows) - len(claims),
        sure=sum(value > OVERCONFIDENT for value in values),
        unsure=sum(value < UNDERCONFIDENT for value in values),
    )


def orders_of(report: EvalReport) -> tuple[str, ...]:
    """Return the metrics that every entry of the report has and that have a better end."""
    held = [summary.metrics for summary in report.summaries]
    return tuple(name for name, each in MEASURES.items() if each.better and all(name in metrics for metrics in held))


def scale_of(metric: str) -> Scale:
    """Return how a metric is written: in percent where it is a share of answers."""
    if metric == "log_loss":
        return "open"
    return "share" if metric in MEASURES and MEASURES[metric].is_share else "number"


def called(metric: str) -> str:
    """Return the name of a metric as people read it; one without a line of its own by its own name."""
    try:
        return say(f"metric.{metric}")
    except KeyError:
        return metric.replace("_", " ")


def headed(metric: str) -> str:
    """Return the name of a metric as a heading, with an arrow towards its better end.

    >>> headed("accuracy"), headed("ece")
    ('Accuracy ↑', 'ECE ↓')
    """
    name = called(metric)
    name = name[:1].upper() + name[1:]
    better = MEASURES[metric].better
    return say(f"metric.{better}", name=name) if better else name


def chosen_report(reports: Sequence[EvalReport], name: str | None) -> EvalReport:
    """Return the report on the data called `name`, the first one if there is none of that name."""
    return next((report for report in reports if report.data_name == name), reports[0])


def chosen_group(report: EvalReport, name: str | None) -> str:
    """Return the group called `name`, the first one, which is the headline, if there is none."""
    known = groups_of(report)
    return name if name in known else known[0]


def groups_of(report: EvalReport) -> tuple[str, ...]:
    """Return the groups of questions, the headline first."""
    known = dict.fromkeys(summary.group for summary in report.summaries)
    return tuple(sorted(known, key=lambda group: group != HEADLINE))


Make = Callable[[Evaluations, Place, str], Painted]
"""Shows the evaluations at a place, given what is outdated."""


class ReportTab:
    """What the tabs over reports lay out alike: what they are for, three choices, how figures are read, one page.

    The third choice is the tab's own, called `own` in the address, which says everything that is shown. Events are wired
    by `listen`; `page` is placed by the tab.
    """

    def __init__(
        self, services: Services, door: Door, name: str, own: str, last: gr.Radio | gr.Dropdown, page_id: str
    ) -> None:
        """Lay it out inside the `gr.Blocks` that is currently open; `last` is placed here."""
        self.services, self.door, self.name, self.own, self.last = services, door, name, own, last
        gr.HTML(lead(name))
        self.address = gr.Textbox(visible=False, label=say("report.address"))
        with gr.Row(elem_classes="assay-choices"):
            self.data = gr.Radio([], label=say("report.questions"), visible=False)
            self.group = gr.Dropdown([], label=say("report.group"), visible=False)
            last.render()
        with gr.Accordion(say(f"{name}.reading"), open=False, elem_classes="assay-reading"):
            gr.Markdown(page(f"{name}-reading"))
        self.page = gr.HTML(elem_id=page_id, js_on_load=clicks("rows"), render=False)
        self.choices = [self.data, self.group, last]

    def show(self, make: Make, visitor: Visitor | None, address: str) -> Painted:
        """Return what the address asks for: the rows behind a figure, or what `make` shows; or why there is nothing."""
        place = read_place(address, self.name)
        hidden: Painted = {each: type(each)(visible=False) for each in self.choices}
        try:
            chain = chain_of(self.services, place.get("chain"))
            measured = replace(load_reports(chain), chain=place["chain"]) if chain else self.services.reports()
            outdated = outdated_notices(measured.outdated)
            if chain:
                outdated = Html(draw("chain", name=place["chain"], own=link({"tab": self.name})) + outdated)
            chain = chain or self.services.settings.chain
            if not measured.reports:
                command = (
                    f"assay eval run --chain {chain} --stage all --data pathways-heldout "
                    f"--out {chain_file(chain).parent / REPORTS / 'pathways-heldout.json'}"
                )
                return hidden | {self.page: outdated + empty(say(f"{self.name}.none", command=command))}
            report = chosen_report(measured.reports, place.get("questions"))
            group = chosen_group(report, place.get("group"))
            choices = hidden | self._chosen(measured, report, group)
            if not place.get("rows"):
                return choices | make(measured, place, outdated)
            place |= {"questions": report.data_name, "group": group}
            back = link({name: place.get(name, "") for name in ("tab", "chain", "questions", "group", self.own)})

            given = Rater(self.services, visitor).thumbs() if visitor else {}

            def slot(row: EvalRow) -> Html:
                return thumbs(name := row_name(report, row), given.get(name), can_open=True)

            behind = behind_figure(report, group, place, back)
            place |= {"stage": place.get("stage") or behind.rows[0].stage} if behind.rows else {}
            return choices | {self.page: outdated + rows_page(behind, place, partial(said_of, self.services), slot)}
        except LabError as error:
            return hidden | {self.page: notice(str(error), "problem")}

    def _chosen(self, measured: Evaluations, report: EvalReport, group: str) -> Painted:
        """Return the choices of report and group; where there is one report, none between reports."""
        reports = []
        for one in measured.reports:
            key = "report.data.outdated" if measured.is_outdated(one) else "report.data"
            called = lines().get(f"data.{one.data_name}", one.data_name)
            reports.append((say(key, name=called, n=len({row.example.id for row in one.rows})), one.data_name))
        stage = stages_of(report)[0] if stages_of(report) else report.summaries[0].stage
        counts = {each.group: each.metrics["accuracy"].n for each in report.summaries if each.stage == stage}
        groups = [
            (f"{lines().get(f'group.{name}', name.capitalize())} ({counts.get(name, 0)})", name)
            for name in groups_of(report)
        ]
        return {
            self.data: gr.Radio(choices=reports, value=report.data_name, visible=len(reports) > 1),
            self.group: gr.Dropdown(choices=groups, value=group, visible=True),
        }

    def listen(self, tab: gr.Tab, make: Make, nothing: Painted | None = None) -> None:
        """Show what the address asks for when the tab is opened, a choice is made or a link is followed.

        `nothing` is how the tab's own parts stand where `make` says nothing of them. Of two steps Back the second counts.
        """
        bare = nothing or {}
        seen = [*self.choices, *bare, self.page]

        def show(visitor: Visitor | None, address: str) -> Painted:
            """Show a report, or the rows behind a figure, by an address: ?questions=kmp-test&rows=accuracy&stage=sft."""
            return bare | self.show(make, visitor, address)

        def on_known(visitor: Visitor | None, address: str) -> Painted:  # rows name what this visitor thinks of them
            return show(visitor, address) if read_place(address, self.name).get("rows") else {self.page: gr.skip()}

        known = [self.door.known, self.address]
        here: dict[str, Any] = {"js": "assayWithAddress", "trigger_mode": "always_last"}
        quiet: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
        tab.select(show, known, seen, api_name=self.name, **here)
        self.page.click(show, known, seen, **quiet, **here)
        self.door.known.change(on_known, known, seen, **quiet, **here)
        for choice, called in zip(self.choices, ("questions", "group", self.own), strict=True):
            chosen = choice.input(None, choice, self.address, js=script("assayChoose", self.name, called))
            chosen.then(show, known, seen, api_visibility="private")
        build_rating(
            self.services, self.door, self.name, f"{self.name}_row", self.page.select, gr.State(None), self._found
        )

    def _found(self, visitor: Visitor | None, name: str) -> list[AnnotationItem]:
        """Return the answer of a report that is rated under this name, as an item; none if it is not there any more."""
        questions = name.split("|")[0]
        return [
            item_of_row(report, row, RATED, name, self.services.now())
            for report in self.services.reports().reports
            if report.data_name == questions
            for row in report.rows
            if row_name(report, row) == name
        ]


def behind_figure(report: EvalReport, group: str, place: Place, back: str) -> Behind:
    """Return the answers behind the figure that the address names: a metric of a stage or baseline."""
    every = tuple(dict.fromkeys(row.stage for row in report.rows))
    stages = stages_of(report)
    stage = place.get("stage") or (stages or every or ("",))[-1]
    metric = place["rows"]
    rows = behind(report, stage, group, metric if metric in MEASURES else "ece") if every else []
    beside: dict[str, list[EvalRow]] = defaultdict(list)
    for row in report.rows:
        beside[row.id].append(row)
    if metric in SHARES:
        rows = [row for row in rows if SHARES[metric](row.grade.confidence)]
    return Behind(
        title=say("rows.title", metric=called(metric), stage=stage_name(stage)),
        rows=rows,
        beside=beside,
        back=back,
        choices={"stage": [(each, stage_name(each)) for each in every]},
        trivial=frozenset(every) - frozenset(stages),
    )


def source(report: EvalReport) -> Html:
    """Return where the figures come from: chain, date, instrument, questions, settings, command."""
    parts = {
        "chain": report.chain_name,
        "date": f"{report.created_at:%Y-%m-%d}",
        **{name: report.versions.get(name) for name in ("verifiers", "confidence", "metrics")},
        "earlier": "; ".join(map(_listed, report.earlier_versions)),
        "questions": say("report.source.questions.cell", name=report.data_name, sha256=report.data_sha256[:12]),
        "settings": _listed(report.settings),
        "libraries": _listed(report.libraries),
    }
    return draw("source", facts=parts, command=report.command)


def outdated_notices(outdated: Sequence[Outdated]) -> Html:
    """Return one line per report that no longer holds: its file, why, and the command that helps."""
    found = ""
    for one in outdated:
        line = say("report.outdated.gone", file=one.file, reason=one.reason)
        if one.report is not None:
            then, now = (", ".join(each.values()) for each in (one.report.versions, instrument()))
            line = say("report.outdated.judged", file=one.file, then=then, now=now)
        found += f'<p class="notice info" role="status">{shown(line)} <code>{shown(one.command)}</code></p>'
    return Html(found)


def _listed(facts: dict[str, str] | dict[str, str | int | float | None]) -> str:
    return ", ".join(f"{name} {value}" for name, value in facts.items() if value is not None)
