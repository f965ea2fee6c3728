"""Home tab: what there is, what is under way, and the next sensible step; all of it read anew when it is opened."""

from functools import partial

import gradio as gr

from lab.compare.preferences import for_training
from lab.home.overview import overview
from lab.home.work import draw, end, shown_works, works
from lab.page import show_errors
from lab.services import Services
from lab.ui.components import QUIET, empty, heading, lead, notice, tiles
from lab.ui.layout import Painted
from lab.ui.text import say
from lab.ui.theme import clicks
from lab.visitors import Door, Visitor

LOOK_SECONDS = 3.0
"""How often the list of work is looked at while something is under way."""


def build(services: Services, door: Door, tab: gr.Tab) -> None:
    """Lay out the tab inside the `gr.Blocks` that is currently open."""
    gr.HTML(lead("home"))
    step = gr.HTML(elem_id="home-step")
    train = gr.Button(say("home.train"), variant="primary", visible=False, elem_id="home-train")
    told = gr.HTML(elem_id="home-told")
    figures = gr.HTML(elem_id="home-figures")
    work = gr.HTML(elem_id="home-work", js_on_load=clicks("annotate"))
    parts = gr.HTML(elem_id="home-parts")
    address = gr.Textbox(visible=False, label=say("report.address"))
    timer = gr.Timer(LOOK_SECONDS, active=False)

    @show_errors(work)
    def on_look(visitor: Visitor | None, request: gr.Request) -> Painted:
        """Return the list of work as it is now."""
        is_admin = services.role_of(request.username) == "admin"
        listed = works(services, visitor, is_admin=is_admin)
        shown = shown_works(listed, is_admin=is_admin) or empty(say("home.work.none"))
        return {work: heading(say("home.work")) + shown, timer: gr.Timer(active=any(each.is_live for each in listed))}

    @show_errors(step)
    def on_open(visitor: Visitor | None, request: gr.Request) -> Painted:
        """Return the whole page."""
        seen = overview(services, visitor)
        role = services.role_of(request.username)
        listed = [(name, getattr(seen, name)) for name in ("chains", "sets", "results")]
        drawn = [
            draw("part", title=say(f"home.{name}"), rows=rows, nothing=say(f"home.{name}.none"))
            for name, rows in listed
        ]
        return {
            step: draw("step", step=seen.step),
            train: gr.Button(value=seen.step.what, visible=seen.step.is_training and role == "admin"),
            figures: tiles(seen.figures),
            parts: draw("signed_in", name=request.username, role=role)
            + f'<div class="home-parts">{"".join(drawn)}</div>',
            told: "",
            **on_look(visitor, request),
        }

    @show_errors(told)
    def on_cancel(visitor: Visitor | None, event: gr.EventData, request: gr.Request) -> Painted:
        """End a job or a training."""
        is_admin = services.role_of(request.username) == "admin"
        end(services, str(getattr(event, "id", "")), visitor, is_admin=is_admin)
        return on_look(visitor, request) | {told: notice(say("home.work.ended"))}

    seen = [step, train, told, figures, work, parts, timer]
    tab.select(on_open, door.known, seen, api_name="home", **QUIET)
    door.known.change(on_open, door.known, seen, api_visibility="private", show_progress="hidden")
    timer.tick(on_look, door.known, [work, timer], api_name="home_work", **QUIET)
    work.click(on_cancel, door.known, [work, timer, told], api_name="home_cancel", **QUIET)
    made = train.click(
        partial(for_training, services), None, [address, told], api_name="home_train", show_progress="hidden"
    )
    made.then(None, address, None, js="assayFollow")
