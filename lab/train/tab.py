"""Train tab: watch a run, wherever it was started; start one, stop it, go on with it, publish it.

All that is shown comes from the run folder and the files beside it, so a page that is loaded anew, or
a lab that was started anew, shows the same.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import gradio as gr

from evals.errors import LabError
from lab.page import Painted, choosing, event, manage_panel
from lab.services import Services
from lab.session import Door
from lab.settings import EMBEDDED, EMBEDDED_RUNS
from lab.shared.rows import Place, judgements_of, read_place, rows_page
from lab.shared.runner import (
    Recipe,
    begin,
    delete_run,
    free_output,
    go_on,
    halt,
    preview,
    propose_recipe,
    read_recipe,
    recipes,
    rename_run,
    run_to_change,
    why_not_here,
    with_values,
)
from lab.shared.runs import (
    LOG,
    Training,
    Watched,
    beside,
    find,
    first_to_show,
    follow,
    is_from_here,
    last_lines,
    look,
    progress_of,
)
from lab.shared.work import register_batches, sets_to_measure, start_run
from lab.train.view import behind_step, estimate_of, facts, is_measured, label, none_sampled, onward, panel
from lab.ui.charts import CHARTS, USUAL_LOOK, ChartLook, curve
from lab.ui.components import CHOSEN, QUIET, as_html, clicks, empty, lead, notice
from lab.ui.text import say
from training.grpo import advice
from training.launch.accelerate import gpus_here, profiles, unused_gpus
from training.run.folder import read_completions
from training.stages import STAGES

FIRST = "embedded/sft"
"""The settings that an empty form is filled with."""

LOOK_SECONDS, IDLE_SECONDS = 2.0, 10.0
"""How often a run that is being trained is looked at, and the list of runs where none is."""

MEANS = (5, 10, 50)
"""Points that a mean may be taken over in the charts."""


@dataclass(frozen=True)
class TrainView:
    """What one page is watching: a run by its name in the list, the list as it was shown, how charts are drawn and beside which run."""

    name: str
    watched: Watched
    listed: tuple[str, ...]
    look: ChartLook = USUAL_LOOK
    other: tuple[str, Watched] | None = None


def build(services: Services, _: Door, tab: gr.Tab) -> None:
    """Lay out the tab inside the `gr.Blocks` that is currently open."""
    register_batches(services, "evaluate")
    gr.HTML(lead("train"))
    refused = gr.HTML(elem_id="train-refused")
    form = TrainForm(services)
    page = TrainPage(services)
    outputs = [*page.outputs, refused, *form.outputs]

    def on_open(address: str, view: TrainView | None, started: str | None = None) -> Painted:
        reason, place = why_not_here(services.settings.training), read_place(address, "train")
        run = page.opened(started, view) if started else page.opened(place.get("run"), view, place)
        fold: dict[str, Any] = {"open": False} if started else {}
        told: Painted = {refused: notice(reason), form.box: gr.Accordion(visible=not reason, **fold)} | run
        told |= {page.note: notice(say("train.started", run=started), "good")} if started else {}
        data = "" if started or reason else place.get("data")
        return told | form.propose(place.get("stage", "dpo"), data) if data else told

    page.linked(
        tab.select(on_open, [page.address, page.view], outputs, js="assayAddressAnd", api_name="train", **QUIET)
    )
    given: dict[str, Any] = {"js": "assayAddressAnd", "api_visibility": "private"}
    begun = form.begin.then(on_open, [page.address, page.view, form.started], outputs, **given, **QUIET)
    begun.then(None, page.runs, None, js="assayBegun")


class TrainPage:
    """The part of the tab that watches: its components, and what is painted on them."""

    def __init__(self, services: Services) -> None:
        self.services = services
        with gr.Row(elem_classes="train-choose"):
            self.runs = gr.Dropdown([], label=say("train.runs"), elem_id="train-runs")
        self.panel = gr.HTML(elem_id="train-panel")
        self.facts = gr.HTML(elem_id="train-facts")
        self.note = gr.HTML(elem_id="train-notice")
        self.onward = gr.HTML(elem_id="train-onward")
        with gr.Row(elem_classes="actions train-actions", visible=False) as self.measuring:
            self.data = gr.Dropdown([], label=say("train.measure.data"), elem_id="train-measured")
            measure = gr.Button(say("train.measure"), elem_id="train-measure")
        with gr.Row(elem_classes="actions train-actions"):
            self.stop = gr.Button(say("train.stop"), visible=False, elem_id="train-stop")
            self.resume = gr.Button(say("train.resume"), visible=False, elem_id="train-resume")
        self.address = gr.Textbox(visible=False, label=say("report.address"))
        self.view = gr.State(None)
        self.publishing = None
        if services.is_local:
            from lab.train.publish_panel import Publishing  # not in a bundle

            self.publishing = Publishing(services, self.view)
        with gr.Row(elem_classes="train-choose", visible=False) as self.looks:
            self.beside = gr.Dropdown([], label=say("train.beside"), elem_id="train-beside")
            means = [(say("train.means.usual"), 0), (say("train.means.none"), 1), *((str(n), n) for n in MEANS)]
            self.means = gr.Dropdown(means, value=0, label=say("train.means"), elem_id="train-means")
            self.log_scale = gr.Checkbox(label=say("train.log_scale"), elem_id="train-log-scale")
        with gr.Row(elem_classes="train-charts"):
            self.plots = [
                gr.Plot(show_label=False, visible=False, elem_id=f"train-{chart.name}", elem_classes="assay-plot")
                for chart in CHARTS
            ]
        self.answers = gr.HTML(elem_id="train-answers", js_on_load=clicks("rows"))
        with gr.Accordion(say("train.log"), open=False, visible=False, elem_id="train-log") as self.log_box:
            self.log = gr.HTML()
        self.managing = manage_panel("train")
        self.timer = gr.Timer(LOOK_SECONDS, active=False)
        self.outputs: list[Any] = [
            *self.managing.outputs,
            self.view,
            self.runs,
            self.panel,
            self.facts,
            self.note,
            self.stop,
            self.resume,
        ]
        self.outputs += [self.onward, self.measuring, self.data, self.answers, self.log_box, self.log]
        self.outputs += [
            self.timer,
            self.looks,
            self.beside,
            *self.plots,
            *(self.publishing.of_run if self.publishing else []),
        ]
        here = [self.view, self.address]
        chosen = choosing(self.runs)(self.opened, [self.runs, self.view], self.outputs, api_name="train_run", **CHOSEN)
        chosen.then(None, self.runs, None, js="assayOpenRun")
        self.timer.tick(self.looked, here, self.outputs, js="assayWithAddress", api_name="train_look", **QUIET)
        drawn = [self.view, self.beside, self.means, self.log_scale], [self.view, *self.plots]
        for how, name in (choosing(self.beside, self.means), "train_charts"), (self.log_scale.input, ""):
            event(how, self.on_look, *drawn, name, shows=self.note, **QUIET)
        asked: dict[str, Any] = {"js": "assayWithAddress", "api_name": "train_answers", "trigger_mode": "always_last"}
        self.linked(self.answers.click(self.on_place, here, self.outputs, **asked, **QUIET))
        shows: dict[str, Any] = {"shows": self.note, **QUIET}
        event(measure.click, self.on_measure, [self.view, self.data], [self.note], "train_measure", **shows)
        changes = {"train_rename": self.on_rename, "train_delete": self.on_drop}
        for changed in self.managing.wire([self.view], self.goes, changes, self.outputs):
            changed.then(None, self.runs, None, js="assayOpenRun")
        for button, act, said, name in (
            (self.stop, halt, "train.stopping", "train_stop"),
            (self.resume, go_on, "train.resumed", "train_resume"),
        ):
            event(button.click, partial(self._act, act, said), [self.view], self.outputs, name, **shows)

    def linked(self, shown: Any) -> None:
        """Fill the fold of publishing after an event that showed a run, where the address opens it."""
        if self.publishing:
            known: dict[str, Any] = {"js": "assayWithAddress", "shows": self.publishing.line, **QUIET}
            event(shown.then, self.publishing.on_linked, [self.view, self.address], self.publishing.outputs, **known)

    def _act(self, act: Callable[[Path, Any, Any], None], said: str, view: TrainView | None) -> Painted:
        """Stop the run or go on with it, and show how it stands then."""
        if view is None:
            return {self.note: notice(say("train.empty"), "problem")}
        act(view.watched.run, self.services.settings.training, self.services.now())
        return self.opened(view.name, view) | {self.note: notice(say(said))}

    def goes(self, view: TrainView | None) -> str:
        """Return what deleting a run takes away."""
        run = run_to_change(self.services, view.name if view else "")
        size = sum(each.stat().st_size for each in run.path.rglob("*") if each.is_file()) / 1e6
        return say("manage.goes.run", name=run.name, size=f"{size:,.0f} MB")

    def on_rename(self, view: TrainView | None, title: str) -> Painted:
        """Give the folder of a finished run another name."""
        target = rename_run(self.services, view.name if view else "", title or "")
        return self.opened(str(target)) | {self.note: notice(say("manage.renamed", title=target.name), "good")}

    def on_drop(self, view: TrainView | None) -> Painted:
        """Delete a run."""
        delete_run(self.services, name := view.name if view else "")
        return self.opened(None) | {self.note: notice(say("questions.deleted", name=name), "good")}

    def on_look(self, view: TrainView | None, beside: str | None, means: int, is_log: bool) -> Painted:
        """Draw the charts as chosen: beside another run, smoothed, on a log scale."""
        if view is None:
            return {self.view: gr.skip()}
        runs = {each.name: each.path for each in find(self.services.settings.training.runs, self.services.now())}
        other = (beside, follow(Watched(runs[beside]))) if beside in runs else None
        view = replace(view, look=ChartLook(means or None, is_log), other=other)
        return {self.view: view, **self._figures(view)}

    def on_measure(self, view: TrainView | None, data: str | None, request: gr.Request) -> Painted:
        """Put the measuring of the run that is shown in line."""
        run = view.name if view else ""
        data = start_run(self.services, run, data, request.username or "")
        return {self.note: notice(say("train.measured", run=run, data=data), "good")}

    def on_place(self, view: TrainView | None, address: str) -> Painted:
        """Show what the address asks for: another run, or other answers of this one."""
        place = read_place(address, "train")
        if view is None or place.get("run", view.name) != view.name or place.get("publish"):
            return self.opened(place.get("run"), view, place)
        return self.listed(view, place)

    def opened(self, chosen: str | None, before: TrainView | None = None, place: Place | None = None) -> Painted:
        """Return the page of the run of that name or folder, of the first to show if there is none; `before` is what it shows."""
        found = find(self.services.settings.training.runs, self.services.now())
        if not found:
            nothing, later = gr.Dropdown(choices=[], value=None), gr.Timer(IDLE_SECONDS, active=True)
            none = {self.view: None, **self.managing.show("", may=False)}
            return {**none, self.runs: nothing, self.panel: empty(say("train.empty")), self.timer: later}
        called = [each for each in found if chosen in (each.name, str(each.path))]
        training = called[0] if called else first_to_show(found, EMBEDDED_RUNS)
        gone = notice(say("train.gone", run=chosen)) if chosen and not called else ""
        seen = follow(Watched(training.path))
        look = before.look if before else USUAL_LOOK
        view = TrainView(training.name, seen, tuple(map(label, found)), look, before.other if before else None)
        others = [(say("train.beside.none"), ""), *(each for each in _choices(found) if each[1] != training.name)]
        if view.other and view.other[0] == training.name:
            view = replace(view, other=None)
        sets = sets_to_measure(self.services)
        return {
            self.data: gr.Dropdown(choices=sets, value=sets[0][1]),
            self.runs: gr.Dropdown(choices=_choices(found), value=training.name),
            **{self.note: gone, self.managing.line: ""},
            self.facts: facts(training.record),
            self.view: view,
            **self.managing.show(training.path.name, may=self._is_own(training)),
            **self._status(training, seen),
            **self._folded(training, before, place or {}),
            self.looks: gr.Row(visible=bool(seen.rows)),
            self.beside: gr.Dropdown(choices=others, value=view.other[0] if view.other else ""),
            **self._figures(view),
            **self.listed(view, place or {}, training),
        }

    def _is_own(self, training: Training) -> bool:
        is_shipped = training.path.resolve().is_relative_to(EMBEDDED_RUNS)
        return not is_shipped and not why_not_here(self.services.settings.training)

    def _folded(self, training: Training, before: TrainView | None, place: Place) -> Painted:
        """Open the fold of publishing where the address says so; close it over what was said of another run."""
        is_asked, is_new = bool(place.get("publish")), before is None or before.name != training.name
        changed: dict[str, Any] = {"open": is_asked} if is_asked or (before and is_new) else {}
        return self.publishing.folded(training, is_new=is_new, **changed) if self.publishing else {}

    def looked(self, view: TrainView | None, address: str) -> Painted:
        """Return what has changed since the last look."""
        if view is None:
            return self.opened(None)
        seen = view.watched
        now = follow(seen)
        training = replace(look(seen.run, self.services.now()), name=view.name)
        page = self._status(training, now)
        if not training.is_live or label(training) not in view.listed:
            page |= {self.facts: facts(training.record)}
            found = find(self.services.settings.training.runs, self.services.now())
            listed = tuple(map(label, found))
            if self.publishing and label(training) not in view.listed:
                page |= self.publishing.folded(training, is_new=True)
            if listed != view.listed:
                view = replace(view, listed=listed)
                page |= {self.runs: gr.Dropdown(choices=_choices(found), value=view.name)}
        view, place = replace(view, watched=now), read_place(address, "train")
        page |= {self.view: view}
        if now is not seen:
            if view.other:
                view = replace(view, other=(view.other[0], follow(view.other[1])))
                page |= {self.view: view}
            page |= self._figures(view) | {self.looks: gr.Row(visible=True)}
        if now.batches != seen.batches and not place.get("step"):
            page |= self.listed(view, place)
        return page

    def listed(self, view: TrainView, place: Place, training: Training | None = None) -> Painted:
        """Return the answers of a step that the address asks for; in words why there are none."""
        batches = view.watched.batches
        chosen = [batch for batch in batches if str(batch.step) == place.get("step")] or list(batches)
        answers = (read_completions(chosen[-1].file) or ()) if chosen else ()
        if not answers:
            return {self.answers: empty(say("train.answers.gone") if chosen else none_sampled(training))}
        behind = behind_step(answers, [batch.step for batch in reversed(batches)])
        here = {"tab": "train", "run": view.name, **place}
        return {self.answers: rows_page(behind, here, partial(judgements_of, self.services))}

    def _status(self, training: Training, seen: Watched) -> Painted:
        now, may_act = self.services.now(), not why_not_here(self.services.settings.training)
        launched = training.launched
        is_ours = launched and is_from_here(launched) and training.is_live
        word = "train.stop.now" if training.state == "stopping" else "train.stop"
        log = last_lines(beside(training.path) / LOG) if may_act and launched else ""
        return {
            self.panel: panel(training, seen, progress_of(training, seen, now)),
            self.onward: onward(training, may_publish=may_act),
            self.measuring: gr.Row(visible=may_act and is_measured(training)),
            self.stop: gr.Button(say(word), visible=may_act and bool(is_ours)),
            self.resume: gr.Button(visible=may_act and training.can_go_on),
            self.log_box: gr.Accordion(visible=bool(log)),
            self.log: f'<pre class="train-log" tabindex="0">{as_html(log)}</pre>',
            self.timer: gr.Timer(LOOK_SECONDS if training.is_live else IDLE_SECONDS, active=True),
        }

    def _figures(self, view: TrainView) -> Painted:
        drawn = [curve(chart, view.watched, view.look, view.other) for chart in CHARTS]
        pairs = zip(self.plots, drawn, strict=True)
        return {plot: gr.Plot(value=figure, visible=figure is not None) for plot, figure in pairs}


def _choices(found: Sequence[Training]) -> list[tuple[str, str]]:
    return [(label(each), each.name) for each in found]


class TrainForm:
    """Starts a run: a form over a settings file, checked before it is used.

    Its `box`, the event `begin` of starting, and the run that was `started`, if any.
    """

    def __init__(self, services: Services) -> None:
        self.services, self.settings = services, services.settings.training
        with gr.Accordion(say("train.new"), open=False, visible=False, elem_id="train-new") as self.box:
            with gr.Row(elem_classes="train-form"):
                self.config = gr.Dropdown([], label=say("train.config"), elem_id="train-config")
                stages = [(name.upper(), name) for name in STAGES]
                self.stage = gr.Dropdown(stages, value="sft", label=say("train.stage"))
                usual = (say("train.profile.usual"), "")
                self.profile = gr.Dropdown(
                    [usual, *profiles()], value="", label=say("train.profile"), elem_id="train-profile"
                )
            self.text = gr.Textbox(label=say("train.text"), lines=12, max_lines=30, elem_id="train-text")
            with gr.Row(elem_classes="actions"):
                check = gr.Button(say("train.check"), elem_id="train-check")
                start = gr.Button(say("train.start"), variant="primary", elem_id="train-begin")
            self.told = gr.HTML(elem_id="train-told")
        self.started = gr.State(None)
        recipe = [self.stage, self.profile, self.text]
        form = [self.config, *recipe, self.told]
        choosing(self.config)(self.fill_form, [self.config], form, api_name="train_config", **CHOSEN)
        once: dict[str, Any] = {"trigger_mode": "once", **QUIET}
        event(check.click, self.on_check, recipe, [self.told], "train_check", shows=self.told, **once)
        self.begin = start.click(self.on_start, recipe, [self.told, self.started], api_name="train_start", **once)
        self.box.expand(self.on_expand, [self.config, self.text], form, api_name="train_form", **QUIET)
        self.outputs = [self.box, *form]

    def on_expand(self, chosen: str | None, text: str) -> Painted:
        """Fill a form that is still empty."""
        return {self.told: gr.skip()} if text else self.fill_form(chosen)

    def propose(self, stage: str, data: str) -> Painted:
        """Open the form for a stage on data, on top of the lab's own chain."""
        try:
            recipe = propose_recipe(stage, data, self.services.settings.chain, self.settings)
        except LabError as error:
            return {self.box: gr.Accordion(open=True), self.told: notice(str(error), "problem")}
        note = notice(say("train.proposed", chain=self.services.settings.chain))
        filled = self._of_recipe(recipe, f"{EMBEDDED}/{stage}")
        return {self.box: gr.Accordion(open=True, visible=True), **filled, self.told: note}

    def fill_form(self, chosen: str | None) -> Painted:
        """Put a settings file into the form."""
        files = recipes(self.settings.configs)
        name = chosen if chosen in files else FIRST
        try:
            recipe = read_recipe(files[name])
        except LabError as error:
            return self._of_recipe(None, name) | {self.told: notice(str(error), "problem")}
        output = {"output": str(free_output(self.settings.runs[0], recipe.stage))}
        return self._of_recipe(replace(recipe, text=with_values(recipe.text, output)), name)

    def _of_recipe(self, recipe: Recipe | None, file: str) -> Painted:
        """Return the form with a recipe in it, if any, and the name of the settings file that it came from."""
        choice: Painted = {self.config: gr.Dropdown(choices=[*recipes(self.settings.configs)], value=file)}
        if recipe is None:
            return choice
        filled = {self.stage: recipe.stage, self.profile: recipe.profile, self.text: recipe.text}
        return {**choice, self.told: "", **filled}

    def on_check(self, stage: str, profile: str | None, text: str) -> Painted:
        """Show the exact line, what the run lacks here and what to know of it."""
        plan = preview(Recipe(stage, text, profile or ""), self.settings)
        gpus = gpus_here() if plan.launch.gpus_per_machine else 0
        known = (*advice(plan.settings), *unused_gpus(gpus, plan.launch.processes))
        notes = [*(notice(each, "problem") for each in plan.problems), *map(notice, known)]
        line = f'<pre class="train-line" tabindex="0">{as_html(plan.command)}</pre>'
        return {self.told: f"{''.join(notes)}{notice(estimate_of(plan))}<p>{as_html(say('train.line'))}</p>{line}"}

    def on_start(self, request: gr.Request, stage: str, profile: str | None, text: str) -> tuple[str, str | None]:
        """Start the run, for the person who is logged in."""
        try:
            recipe = Recipe(stage, text, profile or "")
            run = begin(recipe, self.settings, self.services.now(), request.username or "")
        except LabError as error:
            return notice(str(error), "problem"), None
        return notice(say("train.started", run=run), "good"), str(run)
