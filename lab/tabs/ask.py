"""Ask tab: one question, every stage's answer side by side as it is written, kept for replay."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

import gradio as gr

from evals import questions
from evals.errors import LabError
from evals.model import Sampling
from evals.schema import Answer, Example
from lab.answers import (
    HIGHEST_TEMPERATURE,
    LONGEST_ANSWER,
    SHORTEST_ANSWER,
    Asking,
    Snapshot,
    Visitor,
    answering,
    checked_question,
    checked_sampling,
    new_visitor,
    session_of,
    stop,
)
from lab.services import Services
from lab.views import card_of, card_of_stored, cards, empty, lead, notice, waiting_line
from lab.wording import say

PER_GROUP = 3
HISTORY_ANSWERS = 90


@dataclass(frozen=True)
class AskView:
    """What the tab shows at one moment. `notice` and `cards` are HTML."""

    notice: str
    cards: str
    is_busy: bool


@dataclass(frozen=True)
class Earlier:
    """A question asked before, with the stored answer of each stage."""

    answers: tuple[Answer, ...]

    @property
    def first(self) -> Answer:
        """Any of them: question, time and settings are the same in all."""
        return self.answers[0]

    @property
    def label(self) -> str:
        """One line to choose it by."""
        first = self.first
        short = first.question if len(first.question) <= 80 else first.question[:79] + "…"
        return f"{when(first)} · {short} · seed {first.seed}, temperature {first.temperature:g}"


def ask(
    services: Services,
    visitor: Visitor | None,
    question: str,
    settings: tuple[object, object, object],
) -> Iterator[AskView]:
    """Yield what to show until every stage has answered. `settings`: seed, length, temperature."""
    try:
        sampling = checked_sampling(*settings)
        asking = Asking(visitor or new_visitor(), checked_question(question), sampling, "ask")
        yield AskView("", empty(say("ask.empty")), True)
        for moment in answering(services, asking):
            if moment.is_replaced:
                return
            yield shown(moment)
    except LabError as error:
        yield AskView(notice(str(error), "problem"), empty(say("ask.empty")), False)


def shown(moment: Snapshot) -> AskView:
    """Return the view of one moment of an answer."""
    is_busy = not moment.answers and moment.problem is None
    if moment.waiting is not None:
        return AskView(notice(waiting_line(moment.waiting)), empty(say("ask.empty")), True)
    if not moment.drafts:
        return AskView("", empty(say("ask.empty")), False)
    unknown = "" if is_busy or moment.example else say("verdict.unknown")
    grid = cards([card_of(draft) for draft in moment.drafts], unknown)
    return AskView(notice(moment.problem or "", "problem"), grid, is_busy)


def earlier(services: Services, visitor: Visitor | None) -> tuple[Earlier, ...]:
    """Return what this browser asked in this tab before, newest first."""
    if visitor is None:
        return ()
    session = session_of(services, visitor, "ask")
    stored = services.store.answers(session, HISTORY_ANSWERS)
    groups = (
        tuple(group) for _, group in groupby(stored, lambda row: (row.asked_at, row.question))
    )
    order = _stage_order(services)
    return tuple(
        Earlier(tuple(sorted(group, key=lambda row: order.get(row.stage, len(order)))))
        for group in groups
    )


def find_earlier(services: Services, visitor: Visitor | None, chosen: str | None) -> Earlier | None:
    """Return the earlier question whose first answer has the id `chosen`."""
    found = (entry for entry in earlier(services, visitor) if entry.first.id == chosen)
    return next(found, None)


def show_earlier(services: Services, visitor: Visitor | None, chosen: str | None) -> AskView:
    """Return the stored answers to an earlier question, without asking the model."""
    try:
        entry = find_earlier(services, visitor, chosen)
    except LabError as error:
        return AskView(notice(str(error), "problem"), empty(say("ask.empty")), False)
    if entry is None:
        return AskView(notice(say("ask.history.gone"), "problem"), empty(say("ask.empty")), False)
    line = say("ask.history.shown", when=when(entry.first))
    return AskView(notice(line), cards([card_of_stored(row) for row in entry.answers]), False)


def replay(services: Services, visitor: Visitor | None, chosen: str | None) -> Iterator[AskView]:
    """Ask an earlier question again, same stages, seed and settings, and say if the words agree."""
    try:
        entry = find_earlier(services, visitor, chosen)
        if visitor is None or entry is None:
            raise LabError(say("ask.history.gone"))
        yield AskView("", empty(say("ask.empty")), True)
        for moment in answering(services, _again(visitor, entry)):
            if moment.is_replaced:
                return
            view = shown(moment)
            line = notice(compared(entry, moment), "good") if moment.answers else view.notice
            yield AskView(line, view.cards, view.is_busy)
    except LabError as error:
        yield AskView(notice(str(error), "problem"), empty(say("ask.empty")), False)


def compared(before: Earlier, now: Snapshot) -> str:
    """Return whether a replay gave the same words, and if not, what could be why."""
    old = {answer.stage: answer for answer in before.answers}
    same = sum(old[answer.stage].text == answer.text for answer in now.answers)
    facts = {"n": len(now.answers), "when": when(before.first)}
    if same == len(now.answers):
        return say("ask.replay.same", **facts)
    is_other = any(old[answer.stage].stage_sha256 != answer.stage_sha256 for answer in now.answers)
    why = say("ask.replay.chain" if is_other else "ask.replay.numbers")
    return say("ask.replay.different", same=same, why=why, **facts)


def when(answer: Answer) -> str:
    """Return when an answer was asked for, as people read it (UTC)."""
    return f"{answer.asked_at:%d %b %H:%M} UTC"


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


def _again(visitor: Visitor, entry: Earlier) -> Asking:
    first = entry.first
    wanted = tuple(answer.stage for answer in entry.answers)

    def pick(stages: tuple[str, ...]) -> tuple[str, ...]:
        kept = tuple(stage for stage in wanted if stage in stages)
        return kept or stages

    sampling = Sampling(
        max_new_tokens=first.max_new_tokens, temperature=first.temperature, seed=first.seed
    )
    return Asking(visitor, first.question, sampling, "ask", pick)


def _stage_order(services: Services) -> dict[str, int]:
    if services.engine.status.state != "ready":
        return {stage: place for place, stage in enumerate(("base", "sft", "dpo", "grpo"))}
    return {stage: place for place, stage in enumerate(services.engine.chain.stages)}


# ---- layout ----------------------------------------------------------------------------------


def build(services: Services, visitor: gr.State) -> None:
    """Lay out the tab inside the `gr.Blocks` that is currently open."""
    gr.HTML(lead("ask"))
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
    line = gr.HTML(elem_id="ask-notice")
    answers = gr.HTML(empty(say("ask.empty")), elem_id="ask-answers")
    outputs = [line, answers, ask_button, stop_button]
    _examples(question)
    with gr.Accordion(say("ask.history"), open=False, elem_id="ask-history"):
        chosen = gr.Dropdown(label=say("ask.history.pick"), choices=[], elem_id="ask-earlier")
        again = gr.Button(say("ask.history.again"), elem_id="ask-again", size="sm")

    def on_ask(
        visitor: Visitor | None, question: str, seed: float, length: float, temperature: float
    ) -> Iterator[tuple[str, str, gr.Button, gr.Button]]:
        for view in ask(services, visitor, question, (seed, length, temperature)):
            yield _painted(view)

    def on_replay(
        visitor: Visitor | None, chosen: str | None
    ) -> Iterator[tuple[str, str, gr.Button, gr.Button]]:
        for view in replay(services, visitor, chosen):
            yield _painted(view)

    def on_show(
        visitor: Visitor | None, chosen: str | None
    ) -> tuple[str, str, gr.Button, gr.Button]:
        return _painted(show_earlier(services, visitor, chosen))

    def on_history(visitor: Visitor | None) -> gr.Dropdown:
        return _choices(earlier(services, visitor))

    def on_stop(visitor: Visitor | None) -> None:
        stop(services, visitor, "ask")

    asked = gr.on(
        [ask_button.click, question.submit],
        on_ask,
        [visitor, question, *settings],
        outputs,
        api_name="ask",
        show_progress="hidden",
        trigger_mode="once",
    )
    replayed = again.click(
        on_replay,
        [visitor, chosen],
        outputs,
        api_name="replay",
        show_progress="hidden",
        trigger_mode="once",
    )
    chosen.input(on_show, [visitor, chosen], outputs, api_name="earlier", show_progress="hidden")
    stop_button.click(on_stop, visitor, None, api_name="stop", queue=False)
    for done in (asked, replayed, visitor):
        follow = done.change if isinstance(done, gr.State) else done.then
        follow(on_history, visitor, chosen, api_visibility="private", show_progress="hidden")


def _settings() -> tuple[gr.Number, gr.Slider, gr.Slider]:
    with gr.Accordion(say("ask.settings"), open=False, elem_id="ask-settings"):
        seed = gr.Number(
            0, label=say("ask.seed"), info=say("ask.seed.info"), precision=0, minimum=0
        )
        length = gr.Slider(
            SHORTEST_ANSWER,
            LONGEST_ANSWER,
            Sampling.max_new_tokens,
            step=8,
            label=say("ask.length"),
            info=say("ask.length.info"),
        )
        temperature = gr.Slider(
            0,
            HIGHEST_TEMPERATURE,
            Sampling.temperature,
            step=0.1,
            label=say("ask.temperature"),
            info=say("ask.temperature.info"),
        )
    return seed, length, temperature


def _examples(question: gr.Textbox) -> None:
    with gr.Row(elem_classes="examples"):
        for group, rows in examples().items():
            with gr.Column(min_width=260):
                offered = gr.Dataset(
                    components=[gr.Textbox(visible=False)],
                    samples=[[row.prompt] for row in rows],
                    sample_labels=[row.prompt for row in rows],
                    label=group,
                    type="values",
                )
                offered.click(_first, offered, question, api_visibility="private", queue=False)


def _first(row: list[str]) -> str:
    return row[0]


def _choices(entries: tuple[Earlier, ...]) -> gr.Dropdown:
    choices = [(entry.label, entry.first.id) for entry in entries]
    info = None if choices else say("ask.history.none")
    return gr.Dropdown(choices=choices, value=None, info=info)


def _painted(view: AskView) -> tuple[str, str, gr.Button, gr.Button]:
    return (
        view.notice,
        view.cards,
        gr.Button(interactive=not view.is_busy),
        gr.Button(visible=view.is_busy),
    )
