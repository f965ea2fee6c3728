"""Ask tab: one question, every stage's answer side by side as it is written, kept for replay."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace

import gradio as gr

from evals import questions
from evals.errors import LabError
from evals.model import Sampling
from evals.schema import Answer, Example
from lab.ask.session import Earlier, answering, asking_again, checked_question, compared, earlier, find_earlier, when
from lab.services import Services
from lab.session import Drafts, Moment, QuestionRequest, View, checked_sampling, stop
from lab.ui.components import (
    ANSWERING,
    QUIET,
    Sampled,
    card_of,
    card_of_stored,
    cards,
    empty,
    heading,
    lead,
    notice,
    sampling_fields,
    waiting_line,
)
from lab.ui.text import say
from lab.visitors import Door, Visitor, meet, new_visitor

PER_GROUP = 3


Painted = tuple[str, str, gr.Button, gr.Button]


def ask(
    services: Services, visitor: Visitor | None, question: str, settings: tuple[object, object, object]
) -> Iterator[View]:
    """Yield what to show until every stage has answered. `settings`: seed, length, temperature."""
    try:
        sampling = checked_sampling(*settings)
        yield from _answers(
            services, QuestionRequest(visitor or new_visitor(), checked_question(question), sampling, "ask")
        )
    except LabError as error:
        yield _problem(error)


def replay(services: Services, visitor: Visitor | None, chosen: str | None) -> Iterator[View]:
    """Ask an earlier question again, same stages, seed and settings, and say if the words agree."""
    try:
        entry = find_earlier(services, visitor, chosen)
        yield from _answers(services, asking_again(visitor or new_visitor(), entry), entry)
    except LabError as error:
        yield _problem(error)


def _answers(services: Services, asked: QuestionRequest, before: Earlier | None = None) -> Iterator[View]:
    is_known = questions.find(asked.question) is not None
    for moment in answering(services, asked):
        if moment.is_replaced:
            return
        view = shown(moment, is_known=is_known)
        if before is not None and moment.kept:
            view = replace(view, notice=notice(compared(before, moment.kept), "good"))
        yield view


def shown(moment: Moment[Drafts, tuple[Answer, ...]], *, is_known: bool) -> View:
    """Return the view of one moment of an answer."""
    is_busy = not moment.is_done
    if not moment.written:
        line = waiting_line(moment.waiting) if moment.waiting else ""
        return View(notice(line), empty(say("ask.empty")), is_busy=is_busy)
    unknown = "" if is_busy or is_known else say("verdict.unknown")
    grid = cards([card_of(draft) for draft in moment.written], unknown)
    return View(notice(moment.problem or "", "problem"), grid, is_busy=is_busy)


def show_earlier(services: Services, visitor: Visitor | None, chosen: str | None) -> View:
    """Return the stored answers to an earlier question, without asking the model."""
    try:
        entry = find_earlier(services, visitor, chosen)
    except LabError as error:
        return _problem(error)
    line = say("ask.history.shown", when=when(entry.first))
    return View(notice(line), cards([card_of_stored(row) for row in entry.answers]))


def _problem(error: LabError) -> View:
    return View(notice(str(error), "problem"), empty(say("ask.empty")))


def examples() -> dict[str, tuple[Example, ...]]:
    """Return a few questions of the bank by what they show; kinds differ within a group."""
    facts, pathways = questions.kmp_test(), questions.pathway_heldout()
    limits = [example for example in facts if example.ground_truth.kind == "abstain"]
    known = [example for example in facts if example.ground_truth.kind in {"count", "label"}]
    return {
        say("examples.facts"): _varied(known),
        say("examples.pathways"): _varied(pathways),
        say("examples.limits"): _varied(limits),
    }


def _varied(rows: list[Example] | tuple[Example, ...]) -> tuple[Example, ...]:
    """Return one question per kind first, then more, up to PER_GROUP."""
    firsts = list({row.kind: row for row in reversed(rows)}.values())[::-1]
    rest = [row for row in rows if row not in firsts]
    return tuple([*firsts, *rest][:PER_GROUP])


# ---- layout ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Composer:
    """The widgets of a question and its settings."""

    question: gr.Textbox
    ask: gr.Button
    stop: gr.Button
    settings: Sampled


def build(services: Services, door: Door) -> None:
    """Lay out the tab inside the `gr.Blocks` that is currently open."""
    gr.HTML(lead("ask"))
    composer = _composer()
    line = gr.HTML(elem_id="ask-notice")
    answers = gr.HTML(empty(say("ask.empty")), elem_id="ask-answers")
    _examples(composer.question)
    with gr.Accordion(say("ask.history"), open=False, elem_id="ask-history") as history:
        chosen = gr.Dropdown(label=say("ask.history.pick"), choices=[], elem_id="ask-earlier")
        again = gr.Button(say("ask.history.again"), elem_id="ask-again", size="sm")
    outputs = [line, answers, composer.ask, composer.stop]

    def on_ask(
        visitor: Visitor | None, question: str, seed: float, length: float, temperature: float
    ) -> Iterator[Painted]:
        yield from map(_painted, ask(services, visitor, question, (seed, length, temperature)))

    def on_replay(visitor: Visitor | None, chosen: str | None) -> Iterator[Painted]:
        yield from map(_painted, replay(services, visitor, chosen))

    def on_show(visitor: Visitor | None, chosen: str | None) -> Painted:
        return _painted(show_earlier(services, visitor, chosen))

    def on_history(visitor: Visitor | None) -> gr.Dropdown:
        try:
            return _choices(earlier(services, visitor))
        except LabError as error:
            return gr.Dropdown(choices=[], value=None, info=str(error))

    def on_stop(visitor: Visitor | None) -> None:
        stop(services, visitor, "ask")

    visitor, known = door.known, [door.known, door.remembered]
    typed = [visitor, composer.question, *composer.settings]
    starts = [composer.ask.click, composer.question.submit]
    # A question may be asked before the page that just opened has said who its visitor is.
    met = gr.on(starts, meet, door.remembered, known, api_visibility="private", **QUIET)
    asked = met.then(on_ask, typed, outputs, api_name="ask", **ANSWERING)
    replayed = again.click(on_replay, [visitor, chosen], outputs, api_name="replay", **ANSWERING)
    chosen.input(on_show, [visitor, chosen], outputs, api_name="earlier", show_progress="hidden")
    composer.stop.click(on_stop, visitor, None, api_name="stop", **QUIET)
    for follow in (asked.then, replayed.then, history.expand, visitor.change):
        follow(on_history, visitor, chosen, api_visibility="private", show_progress="hidden")


def _composer() -> Composer:
    with gr.Row(elem_classes="composer"):
        with gr.Column(scale=3, min_width=320):
            question = gr.Textbox(
                label=say("ask.question"),
                placeholder=say("ask.placeholder"),
                lines=3,
                max_lines=8,
                elem_id="ask-question",
            )
            with gr.Row(elem_classes="actions"):
                ask_button = gr.Button(say("ask.ask"), variant="primary", elem_id="ask-button")
                stop_button = gr.Button(say("ask.stop"), visible=False, elem_id="ask-stop")
        with gr.Column(scale=1, min_width=240, elem_classes="settings"):
            settings = _settings()
    return Composer(question, ask_button, stop_button, settings)


def _settings() -> Sampled:
    with gr.Accordion(say("ask.settings"), open=False, elem_id="ask-settings"):
        return sampling_fields(0, Sampling.max_new_tokens, Sampling.temperature)


def _examples(question: gr.Textbox) -> None:
    """Offer questions to click; a click fills the box in the browser, without a round trip."""
    with gr.Row(elem_classes="examples"):
        for group, rows in examples().items():
            with gr.Column(min_width=260):
                gr.HTML(heading(group))
                for row in rows:
                    gr.Button(row.prompt, size="sm").click(None, None, question, js=f"() => {json.dumps(row.prompt)}")


def _choices(entries: tuple[Earlier, ...]) -> gr.Dropdown:
    choices = [(entry.label, entry.first.id) for entry in entries]
    info = None if choices else say("ask.history.none")
    return gr.Dropdown(choices=choices, value=None, info=info)


def _painted(view: View) -> Painted:
    return (view.notice, view.cards, gr.Button(interactive=not view.is_busy), gr.Button(visible=view.is_busy))
