"""Train tab: watch a run, wherever it was started; start one, stop it, go on with it.

All that is shown comes from the run folder and the files beside it, so a page that is loaded anew, or
a lab that was started anew, shows the same.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import gradio as gr

from evals.errors import LabError
from lab.services import Services
from lab.settings import EMBEDDED_RUNS
from lab.train import form as train_form
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
from lab.ui.text import say
from training.run.folder import read_completions

LOOK_SECONDS = 2.0
"""How often a run that is being trained is looked at."""
NEWEST = 0
"""Instead of a step: the last one that there are answers of."""


@dataclass(frozen=True)
class View:
    """What one page is watching: a run by its name in the list, and the list as it was shown."""

    name: str
    watched: Watched
    listed: tuple[str, ...]


@dataclass(frozen=True)
class Desk:
    """The components of the part that watches."""

    view: gr.State
    runs: gr.Dropdown
    panel: gr.HTML
    facts: gr.HTML
    note: gr.HTML
    stop: gr.Button
    go_on: gr.Button
    plots: tuple[gr.Plot, ...]
    choices: gr.Row
    step: gr.Dropdown
    order: gr.Radio
    answers: gr.HTML
    more: gr.Button
    count: gr.State
    log_box: gr.Accordion
    log: gr.HTML
    timer: gr.Timer

    def outputs(self) -> list[Any]:
        """Return every component, as the outputs of an event."""
        named = vars(self)
        return [*(each for name, each in named.items() if name != "plots"), *self.plots]


def lay_out() -> Desk:
    """Lay out the part that watches."""
    with gr.Row(elem_classes="train-choose"):
        runs = gr.Dropdown([], label=say("train.runs"), elem_id="train-runs")
    page = gr.HTML(empty(say("train.empty")), elem_id="train-panel")
    told = gr.HTML(elem_id="train-facts")
    note = gr.HTML(elem_id="train-notice")
    with gr.Row(elem_classes="actions train-actions"):
        stop = gr.Button(say("train.stop"), visible=False, elem_id="train-stop")
        resume = gr.Button(say("train.resume"), visible=False, elem_id="train-resume")
    with gr.Row(elem_classes="train-charts"):
        plots = tuple(
            gr.Plot(
                show_label=False,
                visible=False,
                elem_id=f"train-{chart.name}",
                elem_classes="assay-plot",
            )
            for chart in CHARTS
        )
    with gr.Row(visible=False, elem_classes="assay-choices") as choices:
        step = gr.Dropdown([(say("train.newest"), NEWEST)], value=NEWEST, label=say("train.answers.step"))
        orders = [(say(f"train.order.{name}"), name) for name in ORDERS]
        order = gr.Radio(orders, value=ORDERS[0], label=say("train.answers.order"))
    answers = gr.HTML(elem_id="train-answers")
    with gr.Row(elem_classes="actions train-actions"):
        more = gr.Button(visible=False, elem_id="train-more")
    with gr.Accordion(say("train.log"), open=False, visible=False, elem_id="train-log") as log_box:
        log = gr.HTML()
    return Desk(
        view=gr.State(None),
        runs=runs,
        panel=page,
        facts=told,
        note=note,
        stop=stop,
        go_on=resume,
        plots=plots,
        choices=choices,
        step=step,
        order=order,
        answers=answers,
        more=more,
        count=gr.State(FIRST),
        log_box=log_box,
        log=log,
        timer=gr.Timer(LOOK_SECONDS, active=False),
    )


IDLE_SECONDS = 10.0
"""How often the list of runs is looked at where none is being trained."""
Painted = dict[Any, Any]
"""What changes on the page, by component."""
Asked = tuple[int | None, Order, int]
"""Which answers are shown: of which step, in which order, how many."""


def build(services: Services, tab: gr.Tab) -> None:
    """Lay out the tab inside the `gr.Blocks` that is currently open."""
    gr.HTML(lead("train"))
    refused = gr.HTML(elem_id="train-refused")
    form = train_form.build(services)
    desk = lay_out()
    outputs = [*desk.outputs(), refused, form.box]

    def on_open(chosen: str | None, started: str | None = None) -> Painted:
        reason = refusal(services.settings.training)
        page: Painted = {refused: notice(reason), form.box: gr.Accordion(visible=not reason)}
        return page | _opened(services, desk, started or chosen)

    def on_reopen(chosen: str | None) -> Painted:
        return on_open(chosen)

    tab.select(on_reopen, [desk.runs], outputs, api_name="train", **QUIET)
    form.begin.then(on_open, [desk.runs, form.started], outputs, api_visibility="private", **QUIET)
    _listen(services, desk)


def _listen(services: Services, desk: Desk) -> None:
    """Say what happens when something of the part that watches is used."""
    outputs = desk.outputs()

    def on_choose(chosen: str | None) -> Painted:
        return _opened(services, desk, chosen)

    def on_tick(view: View | None, step: int | None, order: Order, count: int) -> Painted:
        return _looked(services, desk, view, (step, order, count))

    def on_answers(view: View | None, step: int | None, order: Order) -> Painted:
        return _answers(desk, view.watched, (step, order, FIRST)) if view else {desk.count: FIRST}

    def on_more(view: View | None, step: int | None, order: Order, count: int) -> Painted:
        return _answers(desk, view.watched, (step, order, count + FIRST)) if view else {desk.count: FIRST}

    desk.runs.input(on_choose, [desk.runs], outputs, api_name="train_run", **QUIET)
    here = [desk.view, desk.step, desk.order]
    listed = [desk.answers, desk.more, desk.count]
    desk.timer.tick(on_tick, [*here, desk.count], outputs, api_name="train_look", **QUIET)
    for part, name in ((desk.step, "train_step"), (desk.order, "train_order")):
        part.input(on_answers, here, listed, api_name=name, **QUIET)
    desk.more.click(on_more, [*here, desk.count], listed, api_name="train_more", **QUIET)
    for button, act, name in (
        (desk.stop, _stopped, "train_stop"),
        (desk.go_on, _resumed, "train_resume"),
    ):
        handler = _acting(services, desk, act)
        button.click(handler, [desk.view], outputs, api_name=name, **QUIET)


def _acting(services: Services, desk: Desk, act: Callable[[Services, Path], str]) -> Callable[[View | None], Painted]:
    """Return the handler of a button that does something to the run that is watched."""

    def on_click(view: View | None) -> Painted:
        if view is None:
            return {desk.note: notice(say("train.empty"), "problem")}
        try:
            line = notice(act(services, view.watched.run))
        except LabError as error:
            line = notice(str(error), "problem")
        return _opened(services, desk, view.name) | {desk.note: line}

    return on_click


def _stopped(services: Services, run: Path) -> str:
    halt(run, services.settings.training, services.now())
    return say("train.stopping")


def _resumed(services: Services, run: Path) -> str:
    go_on(run, services.settings.training, services.now())
    return say("train.resumed")


# ---- what is painted -------------------------------------------------------------------------


def _opened(services: Services, desk: Desk, chosen: str | None) -> Painted:
    """Return the page of the run of that name or folder; of the first to show if there is none."""
    found = find(services.settings.training.runs, services.now())
    if not found:
        return {
            desk.runs: gr.Dropdown(choices=[], value=None),
            desk.timer: gr.Timer(IDLE_SECONDS, active=True),
        }
    called = [each for each in found if chosen in (each.name, str(each.path))]
    training = called[0] if called else first_to_show(found, EMBEDDED_RUNS)
    seen = follow(Watched(training.path), read_completions)
    return {
        desk.runs: gr.Dropdown(choices=_choices(found), value=training.name),
        desk.note: "",
        desk.facts: facts(training.record),
        desk.view: View(training.name, seen, tuple(map(label, found))),
        desk.step: _steps(seen),
        **_status(services, desk, training, seen),
        **_figures(desk, seen),
        **_answers(desk, seen, (NEWEST, ORDERS[0], FIRST), training),
        desk.order: ORDERS[0],
    }


def _looked(services: Services, desk: Desk, view: View | None, asked: Asked) -> Painted:
    """Return what has changed since the last look."""
    if view is None:
        return _opened(services, desk, None)
    seen = view.watched
    now = follow(seen, read_completions)
    training = replace(look(seen.run, services.now()), name=view.name)
    page = _status(services, desk, training, now)
    if not training.is_live or label(training) not in view.listed:
        page |= {desk.facts: facts(training.record)}
        found = find(services.settings.training.runs, services.now())
        listed = tuple(map(label, found))
        if listed != view.listed:
            view = replace(view, listed=listed)
            page |= {desk.runs: gr.Dropdown(choices=_choices(found), value=view.name)}
    page |= {desk.view: replace(view, watched=now)}
    if now is not seen:
        page |= _figures(desk, now)
    if now.batches != seen.batches:
        step, order, count = asked
        page |= {desk.step: _steps(now, step or NEWEST)}
        if not step:
            page |= _answers(desk, now, (NEWEST, order, count))
    return page


def _choices(found: Sequence[Training]) -> list[tuple[str, str]]:
    return [(label(each), each.name) for each in found]


def _status(services: Services, desk: Desk, training: Training, seen: Watched) -> Painted:
    """Return what may change at any moment: how the run stands, its log, and what can be done."""
    settings, now = services.settings.training, services.now()
    may_act = not refusal(settings)
    launched = training.launched
    is_ours = launched and is_from_here(launched) and (training.is_live or training.state == "stalled")
    is_asked = training.state == "stopping"
    log = last_lines(beside(training.path) / LOG) if may_act and launched else ""
    return {
        desk.panel: panel(training, seen, progress_of(training, seen, now), now),
        desk.stop: gr.Button(say("train.stop.now" if is_asked else "train.stop"), visible=may_act and bool(is_ours)),
        desk.go_on: gr.Button(visible=may_act and training.can_go_on),
        desk.log_box: gr.Accordion(visible=bool(log)),
        desk.log: f'<pre class="train-log" tabindex="0">{shown(log)}</pre>',
        desk.timer: gr.Timer(LOOK_SECONDS if training.is_live else IDLE_SECONDS, active=True),
    }


def _figures(desk: Desk, seen: Watched) -> Painted:
    drawn = [curve(chart, seen) for chart in CHARTS]
    page: Painted = {
        plot: gr.Plot(value=figure, visible=figure is not None) for plot, figure in zip(desk.plots, drawn, strict=True)
    }
    return page | {desk.choices: gr.Row(visible=bool(seen.batches))}


def _steps(seen: Watched, chosen: int = NEWEST) -> gr.Dropdown:
    """Return the choice of a step whose answers are shown, the newest on top."""
    steps = [batch.step for batch in reversed(seen.batches)]
    choices = [(say("train.newest"), NEWEST), *((say("train.step", step=n), n) for n in steps)]
    return gr.Dropdown(choices=choices, value=chosen if chosen in steps else NEWEST)


def _answers(desk: Desk, seen: Watched, asked: Asked, training: Training | None = None) -> Painted:
    """Return the first so many answers of a step, with the button for more; in words why there are none."""
    step, order, count = asked
    chosen = [batch for batch in seen.batches if batch.step == step] or list(seen.batches)
    answers = (read_completions(chosen[-1].file) or ()) if chosen else ()
    if answers:
        table: str = answers_table(answers, order, count)
    else:
        table = empty(say("train.answers.gone") if chosen else none_sampled(training))
    rest = min(FIRST, len(answers) - count)
    more = gr.Button(say("train.answers.more", n=rest), visible=rest > 0)
    return {desk.answers: table, desk.more: more, desk.count: count}
