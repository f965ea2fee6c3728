"""The part of the Train tab that watches a run: its components, laid out, and what one page has in view."""

from dataclasses import dataclass
from typing import Any

import gradio as gr

from lab.curves import CHARTS
from lab.sampled import FIRST, ORDERS
from lab.views import empty
from lab.watching import Watched
from lab.wording import say

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
        step = gr.Dropdown(
            [(say("train.newest"), NEWEST)], value=NEWEST, label=say("train.answers.step")
        )
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
