"""Ask tab: one question, every stage's answer side by side as it is written, kept for replay."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

import gradio as gr

from evals import questions
from evals.errors import LabError
from evals.model import Sampling
from evals.schema import Answer, Example
from evals.schema.annotations import AnnotationItem
from lab.annotate.panel import build_rating, thumbs
from lab.annotate.session import RATED, Rater, item_of_answer
from lab.ask.session import Earlier, answering, compared, earlier, find_earlier, when
from lab.page import Painted, met, stops
from lab.results.rows import read_place
from lab.services import Services
from lab.session import Drafts, Moment, QuestionRequest, View, checked_question, checked_sampling
from lab.settings import EMBEDDED
from lab.train.chains import chain_of, choices_of_chains
from lab.ui import components as views
from lab.ui.text import say
from lab.ui.theme import clicks, script
from lab.visitors import Door, Visitor, new_visitor

PER_GROUP = 3


def ask(
    services: Services,
    visitor: Visitor | None,
    question: str,
    settings: tuple[object, object, object],
    chain: str | None = None,
) -> Iterator[View]:
    """Yield what to show until every stage has answered. `settings`: seed, length, temperature; `chain` as it is listed."""
    try:
        sampling = checked_sampling(*settings)
        asked = QuestionRequest(visitor or new_visitor(), checked_question(question), sampling, "ask")
        yield from _answers(services, replace(asked, chain=chain_of(services, chain)))
    except LabError as error:
        yield _problem(error)


def replay(services: Services, visitor: Visitor | None, chosen: str | None) -> Iterator[View]:
    """Ask an earlier question again, same stages, seed and settings, and say if the words agree."""
    try:
        entry = find_earlier(services, visitor, chosen)
        first, wanted = entry.first, [answer.stage for answer in entry.answers]

        def pick(stages: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(stage for stage in wanted if stage in stages) or stages

        sampling = Sampling(max_new_tokens=first.max_new_tokens, temperature=first.temperature, seed=first.seed)
        again = QuestionRequest(visitor or new_visitor(), first.question, sampling, "ask", pick)
        yield from _answers(services, again, entry)
    except LabError as error:
        yield _problem(error)


def _answers(services: Services, asked: QuestionRequest, before: Earlier | None = None) -> Iterator[View]:
    is_known = questions.find(asked.question) is not None
    for moment in answering(services, asked):
        if moment.is_replaced:
            return
        view = shown(moment, is_known=is_known)
        if before is not None and moment.kept:
            told = compared(before, moment.kept)
            same = [old.text for old in before.answers] == [new.text for new in moment.kept]
            view = replace(view, notice=views.notice(told, "good" if same else "info"))
        yield view


def shown(moment: Moment[Drafts, tuple[Answer, ...]], *, is_known: bool) -> View:
    """Return the view of one moment of an answer."""
    is_busy = not moment.is_done
    if not moment.written:
        line = views.waiting_line(moment.waiting) if moment.waiting else ""
        return View(views.notice(line), views.empty(say("ask.empty")), is_busy=is_busy)
    unknown = "" if is_busy or is_known else say("verdict.unknown")
    shown = [views.card_of(draft) for draft in moment.written]
    if moment.kept:
        rated = zip(shown, moment.kept, strict=True)
        shown = [replace(card, beneath=thumbs(answer.id)) for card, answer in rated]
    grid = views.cards(shown, unknown)
    answer = moment.kept[0].id if moment.kept else None
    return View(views.notice(moment.problem or "", "problem"), grid, answer, is_busy)


def show_earlier(services: Services, visitor: Visitor | None, chosen: str | None) -> View:
    """Return the stored answers to an earlier question, without asking the model."""
    try:
        entry = find_earlier(services, visitor, chosen)
        given = Rater(services, visitor).thumbs()
    except LabError as error:
        return _problem(error)
    line = say("ask.history.shown", when=when(entry.first))
    rated = [replace(views.card_of(row), beneath=thumbs(row.id, given.get(row.id))) for row in entry.answers]
    return View(views.notice(line), views.cards(rated), entry.first.id)


def _problem(error: LabError) -> View:
    return View(views.notice(str(error), "problem"), views.empty(say("ask.empty")))


def examples() -> dict[str, tuple[Example, ...]]:
    """Return a few questions of the bank by what they show; kinds differ within a group."""
    facts, pathways = questions.kmp_test(), questions.pathway_heldout()
    groups = {
        "examples.facts": [row for row in facts if row.ground_truth.kind in {"count", "label"}],
        "examples.pathways": pathways,
        "examples.limits": [row for row in facts if row.ground_truth.kind == "abstain"],
    }
    found = {}
    for name, rows in groups.items():
        firsts = list({row.kind: row for row in reversed(rows)}.values())[::-1]
        found[say(name)] = (*firsts, *(row for row in rows if row not in firsts))[:PER_GROUP]
    return found


# ---- layout ----------------------------------------------------------------------------------


def build(services: Services, door: Door, tab: gr.Tab) -> None:
    """Lay out the tab inside the `gr.Blocks` that is currently open."""
    gr.HTML(views.lead("ask"))
    if services.settings.chain == EMBEDDED:
        gr.HTML(views.notice(say("ask.demonstration")), elem_id="ask-demonstration")
    with gr.Row(elem_classes="composer"):
        with gr.Column(scale=3, min_width=320):
            hint = say("ask.placeholder")
            question = gr.Textbox(
                label=say("ask.question"), placeholder=hint, lines=3, max_lines=8, elem_id="ask-question"
            )
            with gr.Row(elem_classes="actions"):
                start = gr.Button(say("ask.ask"), variant="primary", elem_id="ask-button")
                stopping = gr.Button(say("ask.stop"), visible=False, elem_id="ask-stop")
        with gr.Column(scale=1, min_width=240, elem_classes="settings"):
            chain = gr.Dropdown([], label=say("ask.chain"), visible=False, elem_id="ask-chain")
            with gr.Accordion(say("ask.settings"), open=False, elem_id="ask-settings"):
                settings = views.sampling_fields(0, Sampling.max_new_tokens, Sampling.temperature)
    line = gr.HTML(elem_id="ask-notice")
    answers = gr.HTML(views.empty(say("ask.empty")), js_on_load=clicks("annotate"), elem_id="ask-answers")
    kept, linked = gr.State(None), gr.JSON(visible=False)

    def stored(visitor: Visitor | None, name: str) -> Sequence[AnnotationItem]:
        return [item_of_answer(each, RATED) for each in find_earlier(services, visitor, name).answers]

    build_rating(services, door, "ask", "rate", answers.click, kept, stored)
    with gr.Row(elem_classes="examples"):
        for group, rows in examples().items():
            with gr.Column(min_width=260):
                gr.HTML(views.heading(group))
                for row in rows:  # a click fills the box in the browser, without a round trip
                    gr.Button(row.prompt, size="sm").click(None, None, question, js=script("assayValue", row.prompt))
    with gr.Accordion(say("ask.history"), open=False, elem_id="ask-history") as history:
        chosen = gr.Dropdown(label=say("ask.history.pick"), choices=[], elem_id="ask-earlier")
        again = gr.Button(say("ask.history.again"), elem_id="ask-again", size="sm")

    def painted(view: View) -> Painted:
        buttons = {start: gr.Button(interactive=not view.is_busy), stopping: gr.Button(visible=view.is_busy)}
        place = f'<div data-kept="{view.kept}">{view.cards}</div>' if view.kept else view.cards
        return {line: view.notice, answers: place, kept: view.kept, **buttons}

    def on_ask(
        visitor: Visitor | None, question: str, seed: float, length: float, temperature: float, chain: str | None = None
    ) -> Iterator[Painted]:
        yield from map(painted, ask(services, visitor, question, (seed, length, temperature), chain))

    def on_tab(address: str) -> tuple[gr.Dropdown, str]:
        """Return the chains that can be asked, the one of the address chosen."""
        choices, wanted = choices_of_chains(services), read_place(address, "ask").get("chain", "")
        value = wanted if wanted in {name for _, name in choices} else ""
        return gr.Dropdown(choices=choices, value=value, visible=len(choices) > 1), value

    def on_chain(chosen: str | None) -> str:
        return chosen or ""

    def on_replay(visitor: Visitor | None, chosen: str | None) -> Iterator[Painted]:
        yield from map(painted, replay(services, visitor, chosen))

    def on_show(visitor: Visitor | None, chosen: str | None) -> Painted:
        if not chosen:  # a list that was left without a choice says so, too
            return {line: gr.skip()}
        page = painted(show_earlier(services, visitor, chosen))
        with suppress(LabError):
            first = find_earlier(services, visitor, chosen).first
            asked = (first.question, first.seed, first.max_new_tokens, first.temperature)
            page |= dict(zip(typed[1:], asked, strict=True))
        return page

    def on_open(visitor: Visitor | None, shown: str | None, request: gr.Request) -> Painted:
        page = on_show(visitor, None if shown else request.query_params.get("answer"))
        return page | {linked: [page.pop(field) for field in typed[1:] if field in page]}

    def on_history(visitor: Visitor | None) -> gr.Dropdown:
        try:
            found = [(entry.label, entry.first.id) for entry in earlier(services, visitor)]
        except LabError as error:
            return gr.Dropdown(choices=[], value=None, info=str(error))
        return gr.Dropdown(choices=found, value=None, info=None if found else say("ask.history.none"))

    visitor, outputs = door.known, [line, answers, kept, start, stopping]
    typed = [visitor, question, *settings]
    address = gr.Textbox(visible=False, label=say("report.address"))
    asked_of = gr.State("")
    tab.select(on_tab, address, [chain, asked_of], js="assayAddress", api_name="chains", **views.QUIET)
    chain.input(on_chain, chain, asked_of, js="assayPlaceChain", api_name="chain", **views.QUIET)
    asking = met(door, start.click, question.submit)
    asked = asking.then(on_ask, [*typed, asked_of], outputs, api_name="ask", **views.ANSWERING)
    replayed = again.click(on_replay, [visitor, chosen], outputs, api_name="replay", **views.ANSWERING)
    seen = [*outputs, *typed[1:]]
    opened = chosen.input(
        on_show, [visitor, chosen], seen, api_name="earlier", show_progress="hidden", trigger_mode="always_last"
    )
    found = [*outputs, linked]
    followed = visitor.change(on_open, [visitor, kept], found, api_visibility="private", show_progress="hidden")
    followed.then(None, [linked, *typed[1:]], typed[1:], js="assayTypedStays")
    for each in (asked, replayed, opened):
        each.then(None, None, None, js=script("assayShown", "answer", "#ask-answers [data-kept]"))
    stops(services, door, "ask", stopping, "stop")
    for follow in (asked.then, replayed.then, met(door, history.expand).then):
        follow(on_history, visitor, chosen, api_visibility="private", show_progress="hidden")
