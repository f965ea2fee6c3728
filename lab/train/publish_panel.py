"""The end of Train: the card of a finished run as it will be, the plan, and publishing it, which goes on without the page."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gradio as gr

from evals.errors import LabError
from lab.page import Painted, event
from lab.publishing import Order, PublicationPreview, preview_upload, publish
from lab.services import Services
from lab.shared.rows import read_place
from lab.shared.runs import chain_of
from lab.shared.work import shown_works, works
from lab.ui.components import QUIET, Html, markdown, notice, render, sentence
from lab.ui.text import say
from training.models.manifest import EMBEDDED, FILE_NAME, read_chain

if TYPE_CHECKING:
    from hub.client import Receipt
    from lab.shared.runs import Training

draw = partial(render, "train/publish.html.jinja")
FRONT = re.compile(r"\A---\n(.*?)\n---\n", re.DOTALL)
IMAGE = re.compile(r"!\[[^\]]*\]\([^)]*\)")
"""Images of a card: those that lie beside it are shown above it, and none is fetched from elsewhere."""


def receipts_of(run: Path) -> "tuple[Receipt, ...]":
    """Return what was published of a run's chain, the newest first; a file that is no receipt is left out."""
    from pydantic import ValidationError

    from hub.client import Receipt

    found, folders = [], {run.resolve(): None}
    with suppress(LabError):  # receipts of earlier stages lie with the runs that made them
        stages = read_chain(run).manifest.stages
        folders |= {(run / stage.path).resolve().parent: None for stage in stages}
    for file in (file for folder in folders for file in (folder / "published").glob("*.json")):
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


def in_page_words(text: str) -> str:
    """Return a message that was written for `assay publish` as a sentence with the page's names of its options.

    >>> in_page_words("name a new one with --tag, or add --replace.")
    'Name a new one with “Version”, or add “assay publish adapter --replace”.'
    """

    def named(option: re.Match[str]) -> str:
        name = OPTIONS.get(option[0])
        return f"“{say(f'publish.{name}') if name else f'assay publish adapter {option[0]}'}”"

    return sentence(OPTION.sub(named, text))


def publish_in_page_words(*job: Any) -> list[dict[str, Any]]:
    """Publish as a job of the lab; what goes wrong is told with the page's names of its options."""
    try:
        return publish(*job)
    except LabError as error:
        raise LabError(in_page_words(str(error))) from error


def shown_plan(made: PublicationPreview) -> str:
    """Return the plans and what was found, with what to do about it."""
    if made.refused:
        n = len(made.refused)
        return notice(say("publish.refused", n=n), "problem") + draw(
            "findings", words=in_page_words, found=made.refused
        )
    if made.problem:
        return notice(in_page_words(made.problem), "problem")
    parts = [
        draw("plan", plan=each, findings=draw("findings", words=in_page_words, found=each.warnings))
        for each in made.plans
    ]
    if made.needs_token:
        top = notice(say("publish.no_token"), "problem")
    else:
        is_sent = any(each.upload_bytes for each in made.plans)
        top = notice(say("publish.ready" if is_sent else "publish.same"), "good")
    return top + "".join(parts)


def shown_card(made: PublicationPreview) -> tuple[str, str]:
    """Return what stands before the words of a card, and its words without images, as HTML."""
    front = FRONT.match(made.card)
    head = draw("card", front=front[1] if front else "") if made.card else Html()
    return head, markdown(IMAGE.sub("", made.card[front.end() :] if front else made.card))


LOOK_SECONDS = 0.5
"""How often a plan that is being made tells how far it is."""
OPTIONS = {
    "--tag": "tag",
    "--license": "licence",
    "--base": "base",
    "--with-base": "with_base",
    "--public": "is_public",
}
OPTION = re.compile(r"--[a-z-]+")
TYPED = ("repo", "tag", "licence", "base")


def shown_run(view: Any) -> Any:
    """Return which run is shown; LabError where there is none."""
    if view is None:
        raise LabError(say("train.empty"))
    return view


class Publishing:
    """The fold in which the run that is shown is published; `outputs` are what it paints, `view` says which run that is."""

    def __init__(self, services: Services, view: gr.State) -> None:
        """Lay it out inside the `gr.Blocks` that is currently open, and wire it."""
        self.services = services
        services.jobs.register("publish", publish_in_page_words)
        with gr.Accordion(say("publish"), open=False, visible=False, elem_id="publish") as self.fold:
            self.where = gr.HTML(elem_id="publish-where")
            with gr.Column(elem_id="publish-form") as self.form:
                with gr.Row(elem_classes="train-form"):
                    typed = [
                        gr.Textbox(
                            value={"tag": Order.tag}.get(name, ""),
                            label=say(f"publish.{name}"),
                            info=say(f"publish.{name}.info"),
                            max_length=120,
                            elem_id=f"publish-{name}",
                        )
                        for name in TYPED
                    ]
                self.with_base, is_public = (
                    gr.Checkbox(label=say(f"publish.{name}"), elem_id=f"publish-{name.replace('_', '-')}")
                    for name in ("with_base", "is_public")
                )
                with gr.Row(elem_classes="actions"):
                    look = gr.Button(say("publish.look"), elem_id="publish-look")
                    self.go = gr.Button(say("publish.go"), variant="primary", visible=False, elem_id="publish-go")
            self.line = gr.HTML(elem_id="publish-line")
            self.plan = gr.HTML(elem_id="publish-plan")
            with gr.Column(visible=False, elem_id="publish-card", elem_classes="assay-panel") as self.card:
                self.head = gr.HTML()
                self.words = gr.HTML()
            self.work = gr.HTML(elem_id="publish-work")
            self.done = gr.HTML(elem_id="publish-receipts")
        self.planned = gr.State(None)
        self.timer = gr.Timer(2.0, active=False)
        planned = [self.line, self.plan, self.card, self.head, self.words, self.go, self.planned]
        going_on = [self.line, self.work, self.timer, self.done]
        self.outputs, self.of_run = [self.where, self.form, *going_on], [self.fold, self.with_base, *planned]
        fields = [view, *typed, self.with_base, is_public]
        event(self.fold.expand, self.on_open, [view], self.outputs, "publish", shows=self.line, **QUIET)
        event(look.click, self.on_look, fields, planned, "publish_plan", shows=self.line, trigger_mode="once")
        sent = [*going_on, *planned[1:]]
        event(self.go.click, self.on_go, [self.planned, *fields], sent, "publish_start", shows=self.line, **QUIET)
        event(self.timer.tick, self.looked, [view], going_on, "publish_look", shows=self.work, **QUIET)

    def folded(self, training: "Training", *, is_new: bool, **changed: Any) -> Painted:
        """Show the fold where a run can be published; it stays as it is unless it is told, or the run `is_new` in it."""
        is_there = training.state == "finished" and (training.path / FILE_NAME).is_file()
        page: Painted = {self.fold: gr.Accordion(visible=is_there, **changed)}
        return page | ({self.with_base: bool(base_of(training.path)), **self.nothing()} if is_new else {})

    def on_linked(self, request: gr.Request, view: Any, address: str) -> Painted:
        """Return what stands in the fold where the address opens it."""
        return self.on_open(request, view) if read_place(address, "train").get("publish") else {self.line: gr.skip()}

    def on_open(self, request: gr.Request, view: Any) -> Painted:
        """Show where a run would be published, and what was published from it."""
        if self.services.role_of(request.username) != "admin":
            return {self.where: notice(say("publish.denied")), self.form: gr.Column(visible=False)}
        from hub.client import connect

        return {self.where: notice(say("publish.where", endpoint=connect().endpoint)), **self.looked(view)}

    def nothing(self) -> Painted:
        return {
            self.plan: "",
            self.card: gr.Column(visible=False),
            self.go: gr.Button(visible=False),
            self.planned: None,
        }

    def order(self, view: Any, *typed: Any) -> Order:
        """Return what was asked for; LabError if the run is not there any more."""
        *texts, with_base, is_public = typed
        known = dict(zip(TYPED, (str(each).strip() for each in texts), strict=True))
        return Order(chain_of(self.services, shown_run(view).name), **known, with_base=with_base, is_public=is_public)

    def on_look(self, *asked: Any) -> Iterator[Painted]:
        """Show the card of the run as it will be, and what would be sent; nothing is."""
        yield {self.line: notice(say("publish.looking")), **self.nothing()}
        wanted, lines = self.order(*asked), [""]
        with ThreadPoolExecutor(1) as pool:
            found = pool.submit(preview_upload, wanted, lines.append)
            while not wait([found], LOOK_SECONDS).done:
                yield {self.line: notice(f"{say('publish.looking')} {lines[-1]}")}
        try:
            made = found.result()
        except LabError as error:
            made = PublicationPreview((), "", problem=str(error))
        before, text = shown_card(made)
        may_send = bool(made.plans) and not made.needs_token
        yield {
            self.line: "",
            self.plan: shown_plan(made),
            self.card: gr.Column(visible=bool(made.card)),
            self.head: before,
            self.words: text,
            self.go: gr.Button(visible=may_send),
            self.planned: wanted if may_send else None,
        }

    def on_go(self, request: gr.Request, kept: Order | None, view: Any, *asked: Any) -> Painted:
        """Publish what was planned, as a job."""
        wanted = self.order(view, *asked)
        if wanted != kept:
            raise LabError(say("publish.changed"))
        title = say("publish.job", run=view.name, repo=wanted.repo)
        self.services.jobs.start("publish", title, asdict(wanted), request.username or "")
        started = {self.line: notice(say("publish.started", repo=wanted.repo), "good")}
        return started | self.nothing() | self.looked(view)

    def looked(self, view: Any) -> Painted:
        """Return how far publishing is, or how it ended last, and what was published; while it lasts, this is repeated."""
        listed = [each for each in works(self.services, is_admin=True) if each.kind == "publish"]
        live = [each for each in listed if each.is_live]
        return {
            self.work: shown_works(live or listed[:1], is_admin=True),
            self.timer: gr.Timer(active=bool(live)),
            self.done: shown_receipts(shown_run(view).watched.run),
            **({} if live else {self.line: ""}),
        }
