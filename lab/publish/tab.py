"""Publish tab: the card of a run as it will be, the plan, and publishing it, which goes on without the page."""

import re
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gradio as gr

from evals.errors import LabError
from lab.home.work import shown_works, works
from lab.page import Painted, show_errors
from lab.publish.adapter import Order, Preview, preview, publish
from lab.results.rows import read_place
from lab.services import Services
from lab.train.runs import chains_of_runs
from lab.ui.components import CHOSEN, QUIET, Html, empty, lead, markdown, notice, render
from lab.ui.text import say
from training.models.manifest import EMBEDDED, read_chain

if TYPE_CHECKING:
    from evals.schema.runs import Receipt

draw = partial(render, "publish/view.html.jinja")
FRONT = re.compile(r"\A---\n(.*?)\n---\n", re.DOTALL)
IMAGE = re.compile(r"!\[[^\]]*\]\([^)]*\)")
"""Images of a card: those that lie beside it are shown above it, and none is fetched from elsewhere."""


def receipts_of(run: Path) -> "tuple[Receipt, ...]":
    """Return what was published from a run folder, the newest first; a file that is no receipt is left out."""
    from pydantic import ValidationError

    from evals.schema.runs import Receipt

    found = []
    for file in (run / "published").glob("*.json"):
        try:
            found.append(Receipt.model_validate_json(file.read_bytes()))
        except (OSError, ValidationError):
            continue
    return tuple(sorted(found, key=lambda each: each.finished_at, reverse=True))


def shown_receipts(run: Path | None) -> str:
    """Return the receipts of a run as a table; "" where nothing was published from it."""
    found = receipts_of(run) if run else ()
    return draw("receipts", found=found, addresses=[f"{each.endpoint}/{each.repo}" for each in found]) if found else ""


def base_of(run: Path) -> str:
    """Return what the base of a run is called here where no Hub holds it; "" for one of the Hub."""
    try:
        base = read_chain(run).manifest.base
    except LabError:
        return ""
    return "" if base.hub_id and base.source != EMBEDDED else base.source


def shown_plan(made: Preview) -> str:
    """Return the plans and what was found, with what to do about it."""
    if made.refused:
        n = len(made.refused)
        return notice(say("publish.refused", n=n), "problem") + draw("findings", found=made.refused)
    if made.problem:
        return notice(made.problem, "problem")
    parts = [draw("plan", plan=each, findings=draw("findings", found=each.warnings)) for each in made.plans]
    top = notice(say("publish.no_token"), "problem") if made.needs_token else notice(say("publish.ready"), "good")
    return top + "".join(parts)


def shown_card(made: Preview) -> tuple[str, str]:
    """Return what stands before the words of a card, and its words without images, as HTML."""
    front = FRONT.match(made.card)
    head = draw("card", front=front[1] if front else "") if made.card else Html()
    return head, markdown(IMAGE.sub("", made.card[front.end() :] if front else made.card))


def build(services: Services, tab: gr.Tab) -> None:
    """Lay out the tab inside the `gr.Blocks` that is currently open."""
    services.jobs.register("publish", publish)
    gr.HTML(lead("publish"))
    refused = gr.HTML(elem_id="publish-refused")
    with gr.Column(visible=False, elem_classes="assay-panel", elem_id="publish-form") as form:
        run = gr.Dropdown([], label=say("publish.run"), info=say("publish.run.info"), elem_id="publish-run")
        where = gr.HTML(elem_id="publish-where")
        with gr.Row(elem_classes="train-form"):
            typed = [
                gr.Textbox(
                    value={"tag": Order.tag}.get(name, ""),
                    label=say(f"publish.{name}"),
                    info=say(f"publish.{name}.info"),
                    max_length=120,
                    elem_id=f"publish-{name}",
                )
                for name in ("repo", "tag", "licence", "base")
            ]
        chosen = [
            gr.Checkbox(label=say(f"publish.{name}"), elem_id=f"publish-{name.replace('_', '-')}")
            for name in ("with_base", "is_public")
        ]
        with gr.Row(elem_classes="actions"):
            look = gr.Button(say("publish.look"), elem_id="publish-look")
            go = gr.Button(say("publish.go"), variant="primary", visible=False, elem_id="publish-go")
    line = gr.HTML(elem_id="publish-line")
    work = gr.HTML(elem_id="publish-work")
    done = gr.HTML(elem_id="publish-receipts")
    plan = gr.HTML(elem_id="publish-plan")
    with gr.Column(visible=False, elem_id="publish-card", elem_classes="assay-panel") as card:
        head = gr.HTML()
        words = gr.HTML()
    planned = gr.State(None)
    address = gr.Textbox(visible=False, label=say("report.address"))
    timer = gr.Timer(2.0, active=False)
    fields = [run, *typed, *chosen]

    def order(run: str | None, repo: str, tag: str, licence: str, base: str, with_base: bool, is_public: bool) -> Order:
        """Return what was asked for; LabError without a run."""
        if not run:
            raise LabError(say("publish.no_run"))
        if (folder := chains_of_runs(services).get(run)) is None:
            raise LabError(say("publish.gone", run=run))
        texts = map(str.strip, (repo, tag, licence, base))
        known = dict(zip(("repo", "tag", "licence", "base"), texts, strict=True))
        return Order(str(folder), **known, with_base=with_base, is_public=is_public)

    def on_open(asked: str, request: gr.Request) -> Painted:
        if services.role_of(request.username) != "admin":
            return {refused: notice(say("publish.denied")), form: gr.Column(visible=False)}
        from hub.client import connect

        found, wanted = chains_of_runs(services), read_place(asked, "publish").get("run")
        if not found:
            return {refused: empty(say("publish.none")), form: gr.Column(visible=False)}
        name = wanted if wanted in found else next(iter(found))
        return {
            refused: "",
            form: gr.Column(visible=True),
            run: gr.Dropdown(choices=[*found], value=name),
            where: notice(say("publish.where", endpoint=connect().endpoint)),
            **on_run(name),
            **looked(),
        }

    def on_run(name: str | None) -> Painted:
        folder = chains_of_runs(services).get(name or "")
        is_local = folder is not None and base_of(folder) not in ("", EMBEDDED)
        return {done: shown_receipts(folder), line: "", chosen[0]: is_local, **nothing()}

    def nothing() -> Painted:
        return {plan: "", card: gr.Column(visible=False), go: gr.Button(visible=False), planned: None}

    @show_errors(line)
    def on_look(*asked: Any) -> Iterator[Painted]:
        yield {line: notice(say("publish.looking")), **nothing()}
        wanted = order(*asked)
        made = preview(wanted)
        before, text = shown_card(made)
        may_send = bool(made.plans) and not made.needs_token
        yield {
            line: "",
            plan: shown_plan(made),
            card: gr.Column(visible=bool(made.card)),
            head: before,
            words: text,
            go: gr.Button(visible=may_send),
            planned: wanted if may_send else None,
        }

    @show_errors(line)
    def on_go(request: gr.Request, kept: Order | None, *asked: Any) -> Painted:
        wanted = order(*asked)
        if wanted != kept:
            raise LabError(say("publish.changed"))
        title = say("publish.job", run=asked[0], repo=wanted.repo)
        services.jobs.start("publish", title, asdict(wanted), request.username or "")
        return {line: notice(say("publish.started", repo=wanted.repo), "good"), **looked(), **nothing()}

    @show_errors(work)
    def looked(name: str | None = None) -> Painted:
        """Return how far publishing is; while it lasts, this is looked at again and again."""
        listed = [each for each in works(services, is_admin=True) if each.kind == "publish"]
        page = {work: shown_works(listed, is_admin=True), timer: gr.Timer(active=any(each.is_live for each in listed))}
        return page | ({done: shown_receipts(chains_of_runs(services).get(name))} if name else {})

    seen = [refused, form, run, where, chosen[0], done, line, plan, card, go, planned, work, timer]
    tab.select(on_open, address, seen, js="assayAddress", api_name="publish", **QUIET)
    run.input(on_run, run, [chosen[0], done, line, plan, card, go, planned], api_name="publish_run", **CHOSEN)
    shows = [line, plan, card, head, words, go, planned]
    look.click(on_look, fields, shows, api_name="publish_plan", show_progress="hidden", trigger_mode="once")
    go.click(on_go, [planned, *fields], [line, work, timer, *shows[1:]], api_name="publish_start", **QUIET)
    timer.tick(looked, run, [work, timer, done], api_name="publish_look", **QUIET)
