"""Results tab: the leaderboard and the calibration of a report, under one choice of questions and stages."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import gradio as gr

from evals.errors import LabError
from evals.report import stages_of
from evals.schema import EvalReport, EvalRow
from evals.schema.votes import AnnotationItem
from lab.page import Painted, chart, choosing, manage_panel
from lab.results.calibration import diagram
from lab.results.leaderboard import board
from lab.results.reports import (
    behind_figure,
    chosen_group,
    chosen_report,
    chosen_stages,
    draw,
    groups_of,
    metric_heading,
    orders_of,
    outdated_notices,
)
from lab.services import REPORTS, Services, load_reports
from lab.session import Door, Visitor
from lab.shared.evaluations import Evaluations
from lab.shared.rater import RATED, Rater, item_of_row, row_name
from lab.shared.rating import build_rating
from lab.shared.rows import judgements_of, link, read_place, rows_page
from lab.shared.runs import chain_of
from lab.ui.components import Html, clicks, empty, lead, notice, script, stage_name, thumbs
from lab.ui.text import lines, page, plural, say
from training.models.manifest import chain_file

VIEWS = ("leaderboard", "calibration")
CHARTS = ("reliability", "risk")


def build(services: Services, door: Door, tab: gr.Tab) -> None:
    """Lay out the tab inside the `gr.Blocks` that is currently open."""
    ResultsTab(services, door, tab)


class ResultsTab:
    """The choices, which stand in the address, and what they show: tables, charts, or the answers behind a figure."""

    def __init__(self, services: Services, door: Door, tab: gr.Tab) -> None:
        """Lay it out inside the `gr.Blocks` that is currently open, and wire it."""
        self.services = services
        gr.HTML(lead("results"))
        address = gr.Textbox(visible=False, label=say("report.address"))
        hidden: dict[str, Any] = {"visible": False}
        with gr.Row(elem_classes="assay-choices"):
            views = [(say(f"report.view.{each}"), each) for each in VIEWS]
            self.view = gr.Radio(views, value=VIEWS[0], label=say("report.view"), elem_id="results-view")
            self.data = gr.Radio([], label=say("report.questions"), elem_id="results-questions", **hidden)
        with gr.Row(elem_classes="assay-choices"):
            self.group = gr.Dropdown([], label=say("report.group"), elem_id="results-group", **hidden)
            self.stages = gr.CheckboxGroup([], label=say("report.stages"), elem_id="results-stages", **hidden)
            self.order = gr.Dropdown([], label=say("leaderboard.order"), elem_id="results-order", **hidden)
        with gr.Accordion(say("report.reading"), open=False, elem_classes="assay-reading"):
            self.reading = gr.Markdown(page("leaderboard-reading"))
        self.words = gr.HTML(elem_id="calibration-words")
        with gr.Row(elem_classes="assay-charts", visible=False) as self.forest_row:
            self.forest = chart("leaderboard.forest")
        with gr.Row(elem_classes="assay-charts", visible=False) as self.charts:
            self.drawn = [chart(f"calibration.chart.{each}") for each in CHARTS]
        self.page = gr.HTML(elem_id="results-page", js_on_load=clicks("rows"))
        self.managing = manage_panel("results")
        self.choices = {
            "view": self.view,
            "questions": self.data,
            "group": self.group,
            "stages": self.stages,
            "order": self.order,
        }
        known = [door.known, address]
        seen = [
            *self.choices.values(),
            self.reading,
            self.words,
            self.forest_row,
            self.forest,
            self.charts,
            *self.drawn,
            self.page,
            *self.managing.outputs,
        ]
        here: dict[str, Any] = {"js": "assayWithAddress", "trigger_mode": "always_last"}
        quiet: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
        tab.select(self.show, known, seen, api_name="results", **here)
        self.page.click(self.show, known, seen, **quiet, **here)
        door.known.change(self.on_known, known, seen, **quiet, **here)
        for called, choice in self.choices.items():
            when = choosing(choice) if isinstance(choice, gr.Dropdown) else choice.input
            chosen = when(None, choice, address, js=script("assayChoose", "results", called))
            chosen.then(self.show, known, seen, api_visibility="private")
        changes = {"results_rename": self.on_rename, "results_delete": self.on_drop}
        for changed in self.managing.wire([address], self.goes, changes, [address], js="assayAddressAnd"):
            changed.success(None, address, None, js="assayFollow")
        self.address = address
        build_rating(services, door, "results", "results_row", self.page.select, gr.State(None), self._found)

    def on_known(self, visitor: Visitor | None, address: str) -> Painted:
        """Show the rows again to a visitor who is known by now: they name what this one thinks of them."""
        return self.show(visitor, address) if read_place(address, "results").get("rows") else {self.page: gr.skip()}

    def show(self, visitor: Visitor | None, address: str) -> Painted:
        """Show a report, or the rows behind a figure, by an address: ?questions=kmp-test&rows=accuracy&stage=sft."""
        place = read_place(address, "results")
        view = place.get("view") if place.get("view") in VIEWS else VIEWS[0]
        empty_page: Painted = {each: type(each)(visible=False) for each in self.choices.values()}
        empty_page |= {self.reading: page(f"{view}-reading"), self.words: ""}
        empty_page |= dict.fromkeys((self.forest_row, self.charts), gr.Row(visible=False))
        empty_page |= dict.fromkeys((self.forest, *self.drawn)) | self.managing.show("", may=False)
        try:
            measured, chain = self._measured(place)
            outdated = outdated_notices(measured.outdated)
            if chain:
                outdated = Html(draw("chain", name=place["chain"], own=link({"tab": "results"})) + outdated)
            if not measured.reports:
                chain = chain or self.services.settings.chain
                command = (
                    f"assay eval run --chain {chain} --stage all --data pathways-heldout "
                    f"--out {chain_file(chain).parent / REPORTS / 'pathways-heldout.json'}"
                )
                return empty_page | {self.page: outdated + empty(say("report.none", command=command))}
            report = chosen_report(measured.reports, asked := place.get("questions"))
            if asked and report.data_name != asked:
                outdated += notice(say("report.gone", name=asked))
            group = chosen_group(report, place.get("group"))
            chosen = (
                empty_page
                | self._chosen(measured, report, group, place.get("stages"))
                | {self.view: gr.Radio(value=view, visible=True)}
                | self.managing.show(report.data_name, may=measured.own_file(report) is not None)
            )
            if not place.get("rows"):
                return chosen | (self._ranked if view == VIEWS[0] else self._calibrated)(measured, place, outdated)
            place |= {"questions": report.data_name, "group": group}
            back = link({name: place.get(name, "") for name in ("tab", "chain", *self.choices)})
            given = Rater(self.services, visitor).thumbs() if visitor else {}

            def slot(row: EvalRow) -> Html:
                return thumbs(name := row_name(report, row), given.get(name), can_open=True)

            behind = behind_figure(report, group, place, back)
            place |= {"stage": place.get("stage") or behind.rows[0].stage} if behind.rows else {}
            return chosen | {
                self.page: outdated + rows_page(behind, place, partial(judgements_of, self.services), slot)
            }
        except LabError as error:
            return empty_page | {self.page: notice(str(error), "problem")}

    def _measured(self, place: dict[str, str]) -> tuple[Evaluations, str]:
        """Return the reports of the chain that an address names, and its folder, "" for the lab's own."""
        chain = chain_of(self.services, place.get("chain"))
        return (replace(load_reports(chain), chain=place["chain"]) if chain else self.services.reports()), chain

    def _own_report(self, address: str) -> tuple[Evaluations, EvalReport, Path, dict[str, str]]:
        """Return the report of an address with its file, which may be changed; LabError for one that came with Assay."""
        place = read_place(address, "results")
        measured, _ = self._measured(place)
        named = place.get("questions", "")
        report = chosen_report(measured.reports, named) if measured.reports else None
        if report is None or (named and report.data_name != named):
            raise LabError(say("manage.changed", name=named))
        if (file := measured.own_file(report)) is None:
            raise LabError(say("manage.not_own", name=report.data_name))
        return measured, report, file, place

    def goes(self, address: str) -> str:
        """Return what deleting a report takes away."""
        _, report, _, _ = self._own_report(address)
        held = plural(len(report.rows), "answer")
        return say("manage.goes.report", name=report.data_name, held=held)

    def on_rename(self, address: str, title: str) -> Painted:
        """Give a report another name."""
        measured, report, _, place = self._own_report(address)
        name = measured.rename(report, title or "")
        told = notice(say("manage.renamed", title=name), "good")
        return {self.address: link({"tab": "results", **place, "questions": name}), self.managing.line: told}

    def on_drop(self, address: str) -> Painted:
        """Delete a report."""
        _, report, file, place = self._own_report(address)
        file.unlink()
        told = notice(say("questions.deleted", name=report.data_name), "good")
        return {self.address: link({"tab": "results", "chain": place.get("chain", "")}), self.managing.line: told}

    def _ranked(self, measured: Evaluations, place: dict[str, str], outdated: str) -> Painted:
        found = board(measured, *map(place.get, ("questions", "group", "order", "stages")))
        orders = [(metric_heading(one), one) for one in orders_of(found.report)]
        order = gr.Dropdown(choices=orders, value=found.order, visible=True)
        drawn = {self.forest_row: gr.Row(visible=found.forest is not None), self.forest: found.forest}
        return {self.order: order, self.page: outdated + found.page, **drawn}

    def _calibrated(self, measured: Evaluations, place: dict[str, str], outdated: str) -> Painted:
        found = diagram(measured, *map(place.get, ("questions", "stages", "group")))
        charts = dict(zip(self.drawn, found.charts or (None, None), strict=True))
        shows = {self.charts: gr.Row(visible=found.charts is not None), self.words: outdated + found.words}
        return {**charts, **shows, self.page: found.page}

    def _chosen(self, measured: Evaluations, report: EvalReport, group: str, stages: str | None) -> Painted:
        """Return the choices of report, group and stages; where there is one report, none between reports."""
        reports = []
        for one in measured.reports:
            key = "report.data.outdated" if measured.is_outdated(one) else "report.data"
            name, *more = one.data_name.split(" ", 1)  # "(first 20)", or the file of another report on the same
            called = " ".join([lines().get(f"data.{name}", name), *more])
            reports.append((say(key, name=called, n=len({row.example.id for row in one.rows})), one.data_name))
        every = stages_of(report)
        stage = every[0] if every else report.summaries[0].stage
        counts = {each.group: each.metrics["accuracy"].n for each in report.summaries if each.stage == stage}
        groups = [
            (f"{lines().get(f'group.{name}', name.capitalize())} ({counts.get(name, 0)})", name)
            for name in groups_of(report)
        ]
        named, value = [(stage_name(each), each) for each in every], chosen_stages(report, stages)
        return {
            self.data: gr.Radio(choices=reports, value=report.data_name, visible=len(reports) > 1),
            self.group: gr.Dropdown(choices=groups, value=group, visible=True),
            self.stages: gr.CheckboxGroup(choices=named, value=list(value), visible=len(every) > 1),
        }

    def _found(self, visitor: Visitor | None, name: str) -> Sequence[AnnotationItem]:
        """Return the answer of a report that is rated under this name, as an item; none if it is not there any more."""
        questions = name.split("|")[0]
        return [
            item_of_row(report, row, RATED, name, self.services.now())
            for report in self.services.reports().reports
            if report.data_name == questions
            for row in report.rows
            if row_name(report, row) == name
        ]
