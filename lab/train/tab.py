"""Train tab: watch a run, wherever it was started; start one, stop it, go on with it.

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
from lab.train.view import FIRST, ORDERS, Order, answers_table, facts, label, none_sampled, panel
from lab.ui.charts import CHARTS, curve
from lab.ui.components import QUIET, empty, lead, notice, shown
from lab.ui.layout import Painted
from lab.ui.text import say
from training.run.folder import read_completions

LOOK_SECONDS, IDLE_SECONDS = 2.0, 10.0
"""How often a run that is being trained is looked at, and the list of runs where none is."""
NEWEST = 0
"""Instead of a step: the last one that there are answers of."""


@dataclass(frozen=True)
class View:
    """What one page is watching: a run by its name in the list, and the list as it was shown."""

    name: str
    watched: Watched
    listed: tuple[str, ...]


def build(services: Services, tab: gr.Tab) -> None:
    """Lay out the tab inside the `gr.Blocks` that is currently open."""
    gr.HTML(lead("train"))
    refused = gr.HTML(elem_id="train-refused")
    form = TrainForm(services)
    page = TrainPage(services)
    outputs = [*page.outputs, refused, form.box]

    def on_open(chosen: str | None, *started: str | None) -> Painted:
        reason, name = refusal(services.settings.training), next(filter(None, started), chosen)
        return {refused: notice(reason), form.box: gr.Accordion(visible=not reason)} | page.opened(name)

    tab.select(on_open, [page.runs], outputs, api_name="train", **QUIET)
    form.begin.then(on_open, [page.runs, form.started], outputs, api_visibility="private", **QUIET)


class TrainPage:
    """The part of the tab that watches: its components, and what is painted on them."""

    def __init__(self, services: Services) -> None:
        self.services = services
        with gr.Row(elem_classes="train-choose"):
            self.runs = gr.Dropdown([], label=say("train.runs"), elem_id="train-runs")
        self.panel = gr.HTML(empty(say("train.empty")), elem_id="train-panel")
        self.facts = gr.HTML(elem_id="train-facts")
        self.note = gr.HTML(elem_id="train-notice")
        with gr.Row(elem_classes="actions train-actions"):
            self.stop = gr.Button(say("train.stop"), visible=False, elem_id="train-stop")
            self.resume = gr.Button(say("train.resume"), visible=False, elem_id="train-resume")
        with gr.Row(elem_classes="train-charts"):
            self.plots = [
                gr.Plot(show_label=False, visible=False, elem_id=f"train-{chart.name}", elem_classes="assay-plot")
                for chart in CHARTS
            ]
        with gr.Row(visible=False, elem_classes="assay-choices") as self.choices:
            self.step = gr.Dropdown([(say("train.newest"), NEWEST)], value=NEWEST, label=say("train.answers.step"))
            orders = [(say(f"train.order.{name}"), name) for name in ORDERS]
            self.order = gr.Radio(orders, value=ORDERS[0], label=say("train.answers.order"))
        self.answers = gr.HTML(elem_id="train-answers")
        with gr.Row(elem_classes="actions train-actions"):
            self.more = gr.Button(visible=False, elem_id="train-more")
        with gr.Accordion(say("train.log"), open=False, visible=False, elem_id="train-log") as self.log_box:
            self.log = gr.HTML()
        self.view, self.count = gr.State(None), gr.State(FIRST)
        self.timer = gr.Timer(LOOK_SECONDS, active=False)
        self.outputs: list[Any] = [self.view, self.runs, self.panel, self.facts, self.note, self.stop, self.resume]
        self.outputs += [self.choices, self.step, self.order, self.answers, self.more, self.count, self.log_box]
        self.outputs += [self.log, self.timer, *self.plots]
        here, listed = [self.view, self.step, self.order], [self.answers, self.more, self.count]
        self.runs.input(self.opened, [self.runs], self.outputs, api_name="train_run", **QUIET)
        self.timer.tick(self.looked, [*here, self.count], self.outputs, api_name="train_look", **QUIET)
        for part, name in ((self.step, "train_step"), (self.order, "train_order")):
            part.input(self.on_answers, here, listed, api_name=name, **QUIET)
        self.more.click(self.on_more, [*here, self.count], listed, api_name="train_more", **QUIET)
        for button, act, said, name in (
            (self.stop, halt, "train.stopping", "train_stop"),
            (self.resume, go_on, "train.resumed", "train_resume"),
        ):
            button.click(partial(self._act, act, said), [self.view], self.outputs, api_name=name, **QUIET)

    def _act(self, act: Callable[[Path, Any, Any], None], said: str, view: View | None) -> Painted:
        """Stop the run or go on with it, and show how it stands then."""
        if view is None:
            return {self.note: notice(say("train.empty"), "problem")}
        try:
            act(view.watched.run, self.services.settings.training, self.services.now())
            line = notice(say(said))
        except LabError as error:
            line = notice(str(error), "problem")
        return self.opened(view.name) | {self.note: line}

    def on_answers(self, view: View | None, step: int | None, order: Order) -> Painted:
        """Show the answers of another step or in another order, the first of them."""
        return self.listed(view.watched, step, order, FIRST) if view else {self.count: FIRST}

    def on_more(self, view: View | None, step: int | None, order: Order, count: int) -> Painted:
        return self.listed(view.watched, step, order, count + FIRST) if view else {self.count: FIRST}

    def opened(self, chosen: str | None) -> Painted:
        """Return the page of the run of that name or folder; of the first to show if there is none."""
        found = find(self.services.settings.training.runs, self.services.now())
        if not found:
            return {self.runs: gr.Dropdown(choices=[], value=None), self.timer: gr.Timer(IDLE_SECONDS, active=True)}
        called = [each for each in found if chosen in (each.name, str(each.path))]
        training = called[0] if called else first_to_show(found, EMBEDDED_RUNS)
        seen = follow(Watched(training.path), read_completions)
        return {
            self.runs: gr.Dropdown(choices=_choices(found), value=training.name),
            self.note: "",
            self.facts: facts(training.record),
            self.view: View(training.name, seen, tuple(map(label, found))),
            self.step: _steps(seen),
            **self._status(training, seen),
            **self._figures(seen),
            **self.listed(seen, NEWEST, ORDERS[0], FIRST, training),
            self.order: ORDERS[0],
        }

    def looked(self, view: View | None, step: int | None, order: Order, count: int) -> Painted:
        """Return what has changed since the last look."""
        if view is None:
            return self.opened(None)
        seen = view.watched
        now = follow(seen, read_completions)
        training = replace(look(seen.run, self.services.now()), name=view.name)
        page = self._status(training, now)
        if not training.is_live or label(training) not in view.listed:
            page |= {self.facts: facts(training.record)}
            found = find(self.services.settings.training.runs, self.services.now())
            listed = tuple(map(label, found))
            if listed != view.listed:
                view = replace(view, listed=listed)
                page |= {self.runs: gr.Dropdown(choices=_choices(found), value=view.name)}
        page |= {self.view: replace(view, watched=now)}
        if now is not seen:
            page |= self._figures(now)
        if now.batches != seen.batches:
            page |= {self.step: _steps(now, step or NEWEST)}
            if not step:
                page |= self.listed(now, NEWEST, order, count)
        return page

    def listed(
        self, seen: Watched, step: int | None, order: Order, count: int, training: Training | None = None
    ) -> Painted:
        """Return the first so many answers of a step, with the button for more; in words why there are none."""
        chosen = [batch for batch in seen.batches if batch.step == step] or list(seen.batches)
        answers = (read_completions(chosen[-1].file) or ()) if chosen else ()
        if answers:
            table: str = answers_table(answers, order, count)
        else:
            table = empty(say("train.answers.gone") if chosen else none_sampled(training))
        rest = min(FIRST, len(answers) - count)
        more = gr.Button(say("train.answers.more", n=rest), visible=rest > 0)
        return {self.answers: table, self.more: more, self.count: count}

    def _status(self, training: Training, seen: Watched) -> Painted:
        now, may_act = self.services.now(), not refusal(self.services.settings.training)
        launched = training.launched
        is_ours = launched and is_from_here(launched) and (training.is_live or training.state == "stalled")
        word = "train.stop.now" if training.state == "stopping" else "train.stop"
        log = last_lines(beside(training.path) / LOG) if may_act and launched else ""
        return {
            self.panel: panel(training, seen, progress_of(training, seen, now), now),
            self.stop: gr.Button(say(word), visible=may_act and bool(is_ours)),
            self.resume: gr.Button(visible=may_act and training.can_go_on),
            self.log_box: gr.Accordion(visible=bool(log)),
            self.log: f'<pre class="train-log" tabindex="0">{shown(log)}</pre>',
            self.timer: gr.Timer(LOOK_SECONDS if training.is_live else IDLE_SECONDS, active=True),
        }

    def _figures(self, seen: Watched) -> Painted:
        drawn = [curve(chart, seen) for chart in CHARTS]
        pairs = zip(self.plots, drawn, strict=True)
        page: Painted = {plot: gr.Plot(value=figure, visible=figure is not None) for plot, figure in pairs}
        return page | {self.choices: gr.Row(visible=bool(seen.batches))}


def _choices(found: Sequence[Training]) -> list[tuple[str, str]]:
    return [(label(each), each.name) for each in found]


def _steps(seen: Watched, chosen: int = NEWEST) -> gr.Dropdown:
    steps = [batch.step for batch in reversed(seen.batches)]
    choices = [(say("train.newest"), NEWEST), *((say("train.step", step=n), n) for n in steps)]
    return gr.Dropdown(choices=choices, value=chosen if chosen in steps else NEWEST)
