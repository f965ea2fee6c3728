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

from lab.page import Painted, event
from lab.results.batch import register, sets_to_measure, start_run
from lab.results.rows import Place, read_place, rows_page, said_of
from lab.services import Services
from lab.settings import EMBEDDED_RUNS
from lab.train.form import TrainForm
from lab.train.runner import go_on, halt, refusal
from lab.train.runs import (
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
from lab.train.view import behind_step, facts, is_measured, label, none_sampled, onward, panel
from lab.ui.charts import CHARTS, curve
from lab.ui.components import CHOSEN, QUIET, clicks, empty, lead, notice, shown
from lab.ui.text import say
from training.run.folder import read_completions

"""Has the address name the run that is shown."""
LOOK_SECONDS, IDLE_SECONDS = 2.0, 10.0
"""How often a run that is being trained is looked at, and the list of runs where none is."""


@dataclass(frozen=True)
class TrainView:
    """What one page is watching: a run by its name in the list, and the list as it was shown."""

    name: str
    watched: Watched
    listed: tuple[str, ...]


def build(services: Services, tab: gr.Tab) -> None:
    """Lay out the tab inside the `gr.Blocks` that is currently open."""
    register(services, "evaluate")
    gr.HTML(lead("train"))
    refused = gr.HTML(elem_id="train-refused")
    form = TrainForm(services)
    page = TrainPage(services)
    outputs = [*page.outputs, refused, *form.outputs]

    def on_open(address: str, started: str | None = None) -> Painted:
        reason, place = refusal(services.settings.training), read_place(address, "train")
        run = page.opened(started) if started else page.opened(place.get("run"), place)
        told: Painted = {refused: notice(reason), form.box: gr.Accordion(visible=not reason)} | run
        data = "" if started or reason else place.get("data")
        return told | form.propose(place.get("stage", "dpo"), data) if data else told

    page.linked(tab.select(on_open, page.address, outputs, js="assayAddress", api_name="train", **QUIET))
    given: dict[str, Any] = {"js": "assayAddressAnd", "api_visibility": "private"}
    begun = form.begin.then(on_open, [page.address, form.started], outputs, **given, **QUIET)
    begun.then(None, page.runs, None, js="assayOpenRun")


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
            from lab.train.publish import Publishing  # not in a bundle

            self.publishing = Publishing(services, self.view)
        with gr.Row(elem_classes="train-charts"):
            self.plots = [
                gr.Plot(show_label=False, visible=False, elem_id=f"train-{chart.name}", elem_classes="assay-plot")
                for chart in CHARTS
            ]
        self.answers = gr.HTML(elem_id="train-answers", js_on_load=clicks("rows"))
        with gr.Accordion(say("train.log"), open=False, visible=False, elem_id="train-log") as self.log_box:
            self.log = gr.HTML()
        self.timer = gr.Timer(LOOK_SECONDS, active=False)
        self.outputs: list[Any] = [self.view, self.runs, self.panel, self.facts, self.note, self.stop, self.resume]
        self.outputs += [self.onward, self.measuring, self.data, self.answers, self.log_box, self.log]
        self.outputs += [self.timer, *self.plots, *([self.publishing.fold] if self.publishing else [])]
        here = [self.view, self.address]
        chosen = self.runs.input(self.opened, [self.runs], self.outputs, api_name="train_run", **CHOSEN)
        chosen.then(None, self.runs, None, js="assayOpenRun")
        self.timer.tick(self.looked, here, self.outputs, js="assayWithAddress", api_name="train_look", **QUIET)
        asked: dict[str, Any] = {"js": "assayWithAddress", "api_name": "train_answers", "trigger_mode": "always_last"}
        self.linked(self.answers.click(self.on_place, here, self.outputs, **asked, **QUIET))
        shows: dict[str, Any] = {"shows": self.note, **QUIET}
        event(measure.click, self.on_measure, [self.view, self.data], [self.note], "train_measure", **shows)
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
        return self.opened(view.name) | {self.note: notice(say(said))}

    def on_measure(self, view: TrainView | None, data: str | None, request: gr.Request) -> Painted:
        """Put the measuring of the run that is shown in line."""
        run = view.name if view else ""
        data = start_run(self.services, run, data, request.username or "")
        return {self.note: notice(say("train.measured", run=run, data=data), "good")}

    def on_place(self, view: TrainView | None, address: str) -> Painted:
        """Show what the address asks for: another run, or other answers of this one."""
        place = read_place(address, "train")
        if view is None or place.get("run", view.name) != view.name or place.get("publish"):
            return self.opened(place.get("run"), place)
        return self.listed(view, place)

    def opened(self, chosen: str | None, place: Place | None = None) -> Painted:
        """Return the page of the run of that name or folder; of the first to show if there is none."""
        found = find(self.services.settings.training.runs, self.services.now())
        if not found:
            nothing, later = gr.Dropdown(choices=[], value=None), gr.Timer(IDLE_SECONDS, active=True)
            return {self.runs: nothing, self.panel: empty(say("train.empty")), self.timer: later}
        called = [each for each in found if chosen in (each.name, str(each.path))]
        training = called[0] if called else first_to_show(found, EMBEDDED_RUNS)
        seen = follow(Watched(training.path))
        view = TrainView(training.name, seen, tuple(map(label, found)))
        sets = sets_to_measure(self.services)
        return {
            self.data: gr.Dropdown(choices=sets, value=sets[0][1]),
            self.runs: gr.Dropdown(choices=_choices(found), value=training.name),
            self.note: "",
            self.facts: facts(training.record),
            self.view: view,
            **self._status(training, seen),
            **(self.publishing.folded(training, is_open=bool((place or {}).get("publish"))) if self.publishing else {}),
            **self._figures(seen),
            **self.listed(view, place or {}, training),
        }

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
                page |= self.publishing.folded(training)
            if listed != view.listed:
                view = replace(view, listed=listed)
                page |= {self.runs: gr.Dropdown(choices=_choices(found), value=view.name)}
        view, place = replace(view, watched=now), read_place(address, "train")
        page |= {self.view: view}
        if now is not seen:
            page |= self._figures(now)
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
        return {self.answers: rows_page(behind, here, partial(said_of, self.services))}

    def _status(self, training: Training, seen: Watched) -> Painted:
        now, may_act = self.services.now(), not refusal(self.services.settings.training)
        launched = training.launched
        is_ours = launched and is_from_here(launched) and (training.is_live or training.state == "stalled")
        word = "train.stop.now" if training.state == "stopping" else "train.stop"
        log = last_lines(beside(training.path) / LOG) if may_act and launched else ""
        return {
            self.panel: panel(training, seen, progress_of(training, seen, now), now),
            self.onward: onward(training, may_publish=may_act),
            self.measuring: gr.Row(visible=may_act and is_measured(training)),
            self.stop: gr.Button(say(word), visible=may_act and bool(is_ours)),
            self.resume: gr.Button(visible=may_act and training.can_go_on),
            self.log_box: gr.Accordion(visible=bool(log)),
            self.log: f'<pre class="train-log" tabindex="0">{shown(log)}</pre>',
            self.timer: gr.Timer(LOOK_SECONDS if training.is_live else IDLE_SECONDS, active=True),
        }

    def _figures(self, seen: Watched) -> Painted:
        drawn = [curve(chart, seen) for chart in CHARTS]
        pairs = zip(self.plots, drawn, strict=True)
        return {plot: gr.Plot(value=figure, visible=figure is not None) for plot, figure in pairs}


def _choices(found: Sequence[Training]) -> list[tuple[str, str]]:
    return [(label(each), each.name) for each in found]
