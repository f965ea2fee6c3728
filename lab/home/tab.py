"""Home tab: what there is and what is under way, read again when it is opened."""

from contextlib import suppress

import gradio as gr

from evals.errors import LabError
from evals.preferences.rows import trainable
from lab.page import Painted, event
from lab.services import Services
from lab.session import Door, Visitor
from lab.shared.exports import NEWEST_VOTES, hear_offers, may_train, training_offers
from lab.shared.work import draw, end, own_runs, shown_works, works
from lab.ui.components import QUIET, clicks, empty, heading, lead, notice, tiles
from lab.ui.text import say

LOOK_SECONDS = 3.0
"""How often the list of work is looked at while something is under way."""


def figures_of(services: Services) -> list[tuple[str, int]]:
    """Return how much of everything there is; LabError where the database cannot be read."""
    counts = services.store.counts()
    figures = {"answers": counts.answers, "votes": counts.votes, "usable": counts.usable}
    figures |= {"ratings": services.store.annotations.count(), "runs": len(own_runs(services))}
    return [(say(f"home.figure.{name}"), n) for name, n in figures.items()]


def first_values(services: Services, name: str) -> dict[str, str]:
    """Return what Home says to somebody who signed in by a name, "" for nobody, before their browser says who it is.

    Nothing as long as the database is not open: then it is said once the page has come.
    """
    figures = work = signed_in = ""
    with suppress(LabError):
        if services.is_open:
            figures = tiles(figures_of(services))
            work, signed_in = work_list(services, None, name)[0], name_line(services, name)
    return {"home-figures": figures, "home-work": work, "home-signed-in": signed_in}


def name_line(services: Services, name: str | None) -> str:
    return draw("signed_in", name=name, role=services.role_of(name))


def work_list(services: Services, visitor: Visitor | None, name: str | None) -> tuple[str, bool]:
    """Return the list of work as it is now, and whether anything of it is under way."""
    is_admin = services.role_of(name) == "admin"
    found = works(services, visitor, is_admin=is_admin)
    shown = shown_works(found, is_admin=is_admin) or empty(say("home.work.none"))
    return heading(say("home.work")) + shown, any(each.is_live for each in found)


def build(services: Services, door: Door, tab: gr.Tab) -> None:
    """Lay out the tab inside the `gr.Blocks` that is currently open."""
    gr.HTML(lead("home"))
    told = gr.HTML(elem_id="home-told")
    figures = gr.HTML(elem_id="home-figures")
    work = gr.HTML(elem_id="home-work", js_on_load=clicks("annotate"))
    offers = gr.HTML(elem_id="home-offers", js_on_load=clicks("annotate"))
    hear_offers(services, offers, "home_train")
    signed_in = gr.HTML(elem_id="home-signed-in")
    timer = gr.Timer(LOOK_SECONDS, active=False)

    def on_look(visitor: Visitor | None, request: gr.Request) -> Painted:
        """Return the list of work as it is now."""
        shown, is_live = work_list(services, visitor, request.username)
        return {work: shown, timer: gr.Timer(active=is_live)}

    def on_open(visitor: Visitor | None, request: gr.Request) -> Painted:
        """Return the whole page."""
        votes = services.store.preference_pairs(NEWEST_VOTES)
        page = {figures: tiles(figures_of(services)), signed_in: name_line(services, request.username), told: ""}
        has_buttons = may_train(services, request.username)
        page[offers] = training_offers(trainable(votes), has_buttons=has_buttons) if votes else ""
        return {**page, **on_look(visitor, request)}

    def on_cancel(visitor: Visitor | None, happened: gr.EventData, request: gr.Request) -> Painted:
        """End a job or a training."""
        is_admin = services.role_of(request.username) == "admin"
        end(services, str(getattr(happened, "id", "")), visitor, is_admin=is_admin)
        return on_look(visitor, request) | {told: notice(say("home.work.ended"))}

    seen = [told, figures, work, offers, signed_in, timer]
    event(tab.select, on_open, [], seen, "home", door=door, shows=told, **QUIET)
    event(door.known.change, on_open, [], seen, door=door, shows=told)
    event(timer.tick, on_look, [], [work, timer], "home_work", door=door, shows=work, **QUIET)
    event(work.click, on_cancel, [], [work, timer, told], "home_cancel", door=door, shows=told, **QUIET)
