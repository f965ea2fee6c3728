"""Compare tab: two answers whose stages are hidden, one vote, then the names and the next pair.

Who wrote which answer is kept in `gr.State`, which never leaves the server; what goes to the
browser before the vote is the two texts and nothing else about them.
"""

import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial, reduce
from typing import TYPE_CHECKING, Any

import gradio as gr

from evals.errors import LabError
from evals.schema import Answer, Choice, Comparison
from evals.schema.questions import Sampling
from evals.schema.votes import REMARK_CHARACTERS, Strength, names_itself
from lab.page import Painted, event, name_field
from lab.services import Services
from lab.session import (
    Answered,
    Cards,
    QuestionRequest,
    answering,
    checked_question,
    new_id,
    plain_text,
    session_of,
    stop,
    stored_moment,
)
from lab.ui import components as views
from lab.ui.components import clicks
from lab.ui.text import page, say
from lab.visitors import BROWSER_SECRET, Door, Visitor, meet, new_visitor

if TYPE_CHECKING:
    from evals.schema.votes import AnnotationItem


@dataclass(frozen=True)
class Pair:
    """Two complete, stored answers, left and right. Never sent to the browser as it is."""

    question: str
    moment: Answered
    vote: Comparison | None = None

    @property
    def answers(self) -> tuple[Answer, ...]:
        """Both as they are stored."""
        return self.moment.kept or ()

    @property
    def drafts(self) -> Cards:
        """Both as they are shown."""
        return self.moment.written or ()


@dataclass(frozen=True)
class Comparing:
    """What one page is comparing: the pair on the table, and the last one voted on.

    `place` counts the questions of the bank that were taken so far, in the order of `seed`; `asked` is the one asked
    last. `remark` stands where the names of the last pair would: a vote was taken back. `is_rated`: what was voted on
    can be rated here.
    """

    pair: Pair | None = None
    last: Pair | None = None
    seed: int = 0
    place: int = 0
    asked: str = ""
    remark: str = ""
    is_rated: bool = True


def begun(services: Services, pair: Pair | None = None) -> Comparing:
    """Return the state of a page that opens, with the pair that it still shows."""
    return Comparing(pair, seed=services.random.getrandbits(32), is_rated=services.recorded is None)


def restored(services: Services, visitor: Visitor, table: object) -> Comparing | None:
    """Return the pair whose ids (`table`) the browser still shows after a new start; None if there is none of this visitor's.

    It is the last one where it was voted on meanwhile: the browser was not told.
    """
    ids = [each for each in table if isinstance(each, str)] if isinstance(table, list) else []
    answers = services.store.stored(ids, session_of(services, visitor, "compare"))
    if len(answers) != 2:
        return None
    pair = Pair(answers[0].question, stored_moment(answers))
    kept = services.store.vote_on(answers[0].id, answers[1].id, visitor.voter)
    return replace(begun(services), last=replace(pair, vote=kept)) if kept else begun(services, pair)


@cache
def bank() -> tuple[str, ...]:
    """Return the questions that pairs are drawn on: votes train, so none that measures a model."""
    from evals.questions import kmp_training, pathway_training

    return tuple(row.prompt for row in (*kmp_training(), *pathway_training()))


@lru_cache(maxsize=64)
def _order(seed: int, n: int) -> list[int]:
    return random.Random(seed).sample(range(n), n)


def drawn_question(state: Comparing, asked: Sequence[str]) -> str:
    """Return the question at the place reached, in drawn order: none comes twice before all came once."""
    return asked[_order(state.seed, len(asked))[(state.place - 1) % len(asked)]]


def answers_to(services: Services, asked: QuestionRequest) -> Iterator[Answered]:
    """Yield moments until both answers are stored: those that were recorded, else new ones of the lab's own chain."""
    return services.recorded.answering(services, asked) if services.recorded else answering(services, asked)


ATTEMPTS = 4
"""Questions of the bank that are tried in a row until two answers differ."""
CHOICES: tuple[Choice, ...] = ("left", "tie", "both_bad", "right")
STRENGTHS: tuple[Strength, ...] = ("slight", "clear")
REASONS = ("fact", "reasoning", "honest", "clearer", "complete", "safer")
CONFIDENCE = re.compile(r"(?im)^\W*confidence\b.*$")


@dataclass(frozen=True)
class CompareView:
    """What the tab shows at one moment, as HTML, and whether one may vote or take a vote back."""

    notice: str
    question: str
    cards: str
    revealed: str
    may_vote: bool
    may_undo: bool


Step = tuple[Comparing, CompareView]


def next_pair(
    services: Services,
    visitor: Visitor | None,
    state: Comparing | None,
    own: str | None = None,
    chosen: Sequence[str] = (),
) -> Iterator[Step]:
    """Yield the next pair as it is written: on the visitor's own question, or one of the bank; among those `chosen`, or all."""
    state, visitor = replace(state or begun(services), pair=None), visitor or new_visitor()
    drawn = services.recorded.questions if services.recorded else bank()

    def pick(stages: tuple[str, ...]) -> tuple[str, ...]:
        if chosen and len(stages := tuple(each for each in stages if each in chosen)) < 2:
            raise LabError(say("compare.few_chosen"))
        hosted = {} if services.recorded else services.engine.chain().hosted or {}
        stages = tuple(each for each in stages if each not in hosted or not hosted[each].is_silent)
        if len(stages) < 2:
            raise LabError(say("compare.few_stages", n=len(stages)))
        from evals.stats.ranking import next_match

        return next_match(stages, *services.store.matches(visitor.voter), services.random)

    try:
        for attempt in range(ATTEMPTS):
            if own is None:
                state = replace(state, place=state.place + 1)
            asked = drawn_question(state, drawn) if own is None else checked_question(own)
            state = replace(state, asked=asked)
            pair = QuestionRequest(visitor, asked, Sampling(), "compare", pick)
            is_same, silent = False, ""
            for moment in answers_to(services, pair):
                if moment.is_replaced:
                    return
                for failed in moment.written or ():
                    if failed.figures and failed.finish_reason == "cancelled":
                        silent = failed.figures[0]
                if silent and attempt + 1 < ATTEMPTS:
                    break  # a server; among the others the next two are found
                if silent:
                    raise LabError(silent)
                is_same = not moment.problem and len({draft.text for draft in moment.written or ()}) == 1
                state = replace(state, pair=Pair(asked, moment) if moment.kept and not is_same else None)
                view = shown(state, asked, moment)
                if attempt and moment.kept is None and not moment.problem:
                    view = replace(view, notice=views.notice(say("compare.same.next")))
                yield state, view
            if not silent and (own is not None or not is_same):
                return
    except LabError as error:
        yield state, _problem(state, str(error))


def vote(
    services: Services, visitor: Visitor | None, state: Comparing | None, choice: Choice, chosen: Sequence[str] = ()
) -> Iterator[Step]:
    """Store the vote, yield the names behind the pair, and go on; nothing for a second vote on the same pair."""
    state, visitor = state or Comparing(), visitor or new_visitor()
    if state.pair is None:
        yield state, _problem(state, say("compare.early"))
        return
    try:
        left, right = state.pair.answers
        mine = Comparison(
            id=new_id(),
            voted_at=services.now(),
            rater=visitor.voter,
            is_anonymous=not visitor.name,
            question=left.question,
            example_id=left.example_id,
            left_answer=left.id,
            right_answer=right.id,
            left_stage=left.stage,
            right_stage=right.stage,
            choice=choice,
        )
        kept = services.store.add_comparison(mine)
    except LabError as error:
        yield state, _problem(state, str(error))
        return
    if kept.id != mine.id:
        return
    state = replace(state, pair=None, last=replace(state.pair, vote=kept), remark="")
    yield from next_pair(services, visitor, state, chosen=chosen)


def explain(
    services: Services, visitor: Visitor | None, vote: str, strength: Strength | None, reasons: list[str], remark: str
) -> str:
    """Keep how much better the chosen answer is and why, and return a line that says so.

    LabError unless the vote is this visitor's and stands.
    """
    said = {"strength": strength, "reasons": tuple(reasons or ()), "remark": plain_text(remark)[:REMARK_CHARACTERS]}
    services.store.explain_comparison(vote, (visitor or new_visitor()).voter, **said)
    return views.notice(say("compare.why.kept"))


def undo(
    services: Services, visitor: Visitor | None, state: Comparing | None, chosen: Sequence[str] = ()
) -> Iterator[Step]:
    """Take the last vote back and go on with another pair: this one's names were shown."""
    state = state or Comparing()
    if visitor is None or state.last is None or state.last.vote is None:
        yield state, _problem(state, say("compare.nothing_to_undo"))
        return
    try:
        services.store.void_comparison(state.last.vote.id, state.last.vote.rater)  # who may be named otherwise by now
    except LabError as error:
        yield state, _problem(state, str(error))
        return
    stop(services, visitor, "compare", silently=True)
    state = replace(state, pair=None, last=None, remark=say("compare.taken_back"))
    yield from next_pair(services, visitor, state, chosen=chosen)


def shown(state: Comparing, asked: str, moment: Answered) -> CompareView:
    """Return the view of one moment: two texts, and of the last pair everything."""
    line = say("compare.same") if moment.kept else say("compare.writing") if moment.written else ""
    if moment.waiting is not None:
        line = views.waiting_line(moment.waiting)
    elif state.pair is not None:
        kept = {CONFIDENCE.sub("", draft.text).strip() for draft in state.pair.drafts}
        line = say("compare.reading" if len(kept) == 2 else "compare.confidence")
    # Both end together: which one finished first would tell something about who wrote it.
    done = bool(moment.written) and all(draft.finish_reason for draft in moment.written)
    texts = [draft.text for draft in moment.written or ()] or ["", ""]
    blind = [
        views.Card(title, text, state="done" if done else "writing" if text else "waiting", is_blind=True)
        for title, text in zip((say("compare.title.left"), say("compare.title.right")), texts, strict=True)
    ]
    return CompareView(
        notice=views.notice(line) if moment.problem is None else views.notice(moment.problem, "problem"),
        question=views.question(asked),
        cards=views.cards(blind),
        revealed=revealed(state) or (views.notice(state.remark, "good") if state.remark else ""),
        may_vote=state.pair is not None,
        may_undo=state.last is not None,
    )


def revealed(state: Comparing) -> str:
    """Return the names and verdicts behind the pair that was voted on last, with thumbs where answers are rated."""
    pair = state.last
    if pair is None or pair.vote is None:
        return ""
    left, right = (draft.title for draft in pair.drafts)
    line = say("compare.thanks", choice=say(f"compare.{pair.vote.choice}").lower(), left=left, right=right)
    if names_itself(*pair.answers):
        line = f"{line} {say('compare.named')}"
    shown = list(pair.drafts)
    if state.is_rated:
        from lab.ui.components import thumbs

        shown = [replace(card, beneath=thumbs(each.id)) for card, each in zip(shown, pair.answers, strict=True)]
    return views.reveal(line, pair.question, shown)


def _problem(state: Comparing, text: str) -> CompareView:
    """Return the view with what went wrong; a pair on the table stays there."""
    line = views.notice(text, "problem")
    if state.pair is not None:
        return replace(shown(state, state.pair.question, state.pair.moment), notice=line)
    return CompareView(line, "", views.empty(say("compare.empty")), revealed(state), False, state.last is not None)


# ---- layout ----------------------------------------------------------------------------------


def build(services: Services, door: Door, tab: gr.Tab, *, is_rated: bool = True) -> None:
    """Lay out the tab inside the `gr.Blocks` that is currently open; `is_rated`: what was voted on can be annotated."""
    state, table = gr.State(None), gr.BrowserState(None, storage_key="assay-pair", secret=BROWSER_SECRET)
    has_own = services.recorded is None
    gr.HTML(views.lead("compare"))
    with gr.Accordion(say("compare.guidelines"), open=False, elem_id="compare-guidelines"):
        gr.Markdown(page("guidelines"))
    last = gr.HTML(js_on_load=clicks("annotate") if is_rated else None, elem_id="compare-revealed")
    voted = gr.State(None)
    with gr.Column(visible=False, elem_id="compare-why") as why:
        about = gr.Textbox(visible=False)  # the vote, as the page knows it: its next one may be on the way
        chips = [(say(f"compare.why.{each}", number=k), each) for k, each in enumerate((*STRENGTHS, *REASONS), 1)]
        strength = gr.Radio(chips[: len(STRENGTHS)], label=say("compare.why.strength"))
        reasons = gr.CheckboxGroup(chips[len(STRENGTHS) :], label=say("compare.why.reasons"))
        remark = gr.Textbox(label=say("compare.why.remark"), max_length=REMARK_CHARACTERS, elem_id="compare-remark")
        said = gr.HTML(elem_id="compare-why-kept")
    if is_rated:
        _rating(services, door, last, voted)
    asked = gr.HTML(elem_id="compare-question")
    answers = gr.HTML(views.empty(say("compare.empty")), elem_id="compare-answers")
    line = gr.HTML(elem_id="compare-notice")
    votes = vote_buttons()
    with gr.Row(elem_classes="actions"):
        start = gr.Button(say("compare.start"), variant="primary", elem_id="compare-start")
        skip = gr.Button(say("compare.skip"), visible=False, elem_id="compare-skip", size="sm")
        back = gr.Button(say("compare.undo"), visible=False, elem_id="compare-undo", size="sm")
    with gr.Accordion(say("compare.own"), open=False, visible=has_own, elem_id="compare-own"):
        own = gr.Textbox(label=say("compare.own.question"), lines=2, elem_id="compare-own-question")
        own_button = gr.Button(say("compare.own.ask"), elem_id="compare-own-button", size="sm")

    chosen = gr.State(())
    if has_own:
        _stages(services, chosen)
    name_field(door, "compare")
    if has_own:
        from lab.compare.preferences import build_board  # an arena shows no board

        build_board(services, tab)

    def painted(step: Step) -> Painted:
        now, view = step
        is_begun = bool(view.question)
        return {
            state: now,
            table: [each.id for each in now.pair.answers] if now.pair else now.asked or None,
            line: view.notice,
            asked: view.question,
            answers: view.cards,
            last: view.revealed,
            voted: " ".join(each.id for each in now.last.answers) if now.last else None,
            **{button: gr.Button(visible=is_begun, interactive=view.may_vote) for button in votes.values()},
            start: gr.Button(visible=not is_begun),
            skip: gr.Button(visible=is_begun),
            back: gr.Button(visible=view.may_undo),
        }

    def painted_why(steps: Iterator[Step], before: Pair | None) -> Iterator[Painted]:
        """Ask why anew as soon as there is another last vote, and never again for the same one."""
        for step in steps:
            page, now = painted(step), step[0].last
            if now is not before:
                chosen = now.vote if now and now.vote and now.vote.choice in {"left", "right"} else None
                page |= {why: gr.Column(visible=chosen is not None), about: chosen.id if chosen else "", said: ""}
                page |= {strength: None, reasons: [], remark: ""}
                before = now
            yield page

    def on_next(visitor: Visitor | None, state: Comparing | None, chosen: Sequence[str], question: Any = None) -> Any:
        yield from map(painted, next_pair(services, visitor, state, question, chosen))

    def on_undo(visitor: Visitor | None, state: Comparing | None, chosen: Sequence[str]) -> Iterator[Painted]:
        yield from painted_why(undo(services, visitor, state, chosen), state.last if state else None)

    def on_vote(
        choice: Choice, visitor: Visitor | None, state: Comparing | None, chosen: Sequence[str]
    ) -> Iterator[Painted]:
        yield {line: gr.skip()}  # a second vote on a pair gives nothing, which Gradio would paint as empty buttons
        yield from painted_why(vote(services, visitor, state, choice, chosen), state.last if state else None)

    def paced(act: Callable[..., Iterator[Painted]]) -> Callable[..., Any]:
        """Return an event that is painted as it goes on; in one piece where answers were recorded: nobody waits for them."""
        return (lambda *given: reduce(dict.__or__, act(*given))) if services.recorded else act

    def on_return(
        visitor: Visitor | None, remembered: object, now: Comparing | None, left: object, request: gr.Request
    ) -> tuple[Visitor, object, Comparing | None]:
        if visitor is None:
            visitor, remembered = meet(remembered, request)
        return visitor, remembered, now or restored(services, visitor, left)

    def on_open(visitor: Visitor, now: Comparing | None, left: object) -> Iterator[Painted]:
        found = None if now else restored(services, visitor, left)
        if found and found.pair:
            yield painted((found, shown(found, found.pair.question, found.pair.moment)))
        elif found:
            yield from map(painted, next_pair(services, visitor, found))
        elif not now and isinstance(left, str):  # the page was left while its pair was being written
            yield from on_next(visitor, None, (), left)
        else:
            yield {line: gr.skip()}

    here = [door.known, state, chosen]
    outputs = [state, table, line, asked, answers, last, voted, *votes.values(), start, skip, back]
    start.click(paced(on_next), here, outputs, api_name="pair", **views.ANSWERING)
    skip.click(paced(on_next), here, outputs, api_name="skip", **views.ANSWERING)
    gr.on([own_button.click, own.submit], on_next, [*here, own], outputs, api_name="pair_on", **views.ANSWERING)
    asked_why = [why, about, strength, reasons, remark, said]
    given, saying = [about, strength, reasons, remark], [strength.input, reasons.input, remark.submit, remark.blur]
    event(saying, partial(explain, services), given, [said], "vote_why", door=door, shows=said, **views.CHOSEN)
    back.click(paced(on_undo), here, [*outputs, *asked_why], api_name="undo", **views.ANSWERING)
    for choice, button in votes.items():
        known = [door.known, door.remembered, state]
        returned = button.click(on_return, [*known, table], known, api_visibility="private", **views.QUIET)
        returned.then(
            paced(partial(on_vote, choice)), here, [*outputs, *asked_why], api_name=f"vote_{choice}", **views.ANSWERING
        )
    door.known.change(on_open, [door.known, state, table], outputs, api_visibility="private", **views.ANSWERING)


def _stages(services: Services, chosen: gr.State) -> None:
    """Lay out which stages take part on this page, kept in `chosen`; none named = all."""
    with gr.Accordion(say("compare.stages"), open=False, elem_id="compare-stages") as fold:
        box = gr.CheckboxGroup(label=say("compare.stages.chosen"), info=say("compare.stages.info"))

    def on_expand(chosen: Sequence[str]) -> gr.CheckboxGroup:
        try:
            stages = services.engine.chain().stages
        except LabError as error:
            return gr.CheckboxGroup(choices=[], value=[], info=str(error))
        kept = [each for each in stages if each in chosen] or list(stages)
        choices = [(views.stage_name(each), each) for each in stages]
        return gr.CheckboxGroup(choices=choices, value=kept, info=say("compare.stages.info"))

    fold.expand(on_expand, chosen, box, api_name="compare_stages", **views.QUIET)
    box.input(tuple, box, chosen, api_visibility="private", **views.CHOSEN)


def _rating(services: Services, door: Door, last: gr.HTML, voted: gr.State) -> None:
    """Lay out where the answers that were voted on last are rated."""
    from lab.shared.rater import RATED, item_of_answer
    from lab.shared.rating import build_rating

    def stored(visitor: Visitor | None, names: str) -> "list[AnnotationItem]":
        own = session_of(services, visitor, "compare") if visitor else ""
        return [item_of_answer(each, RATED) for each in services.store.stored(names.split(), own)]

    build_rating(services, door, "compare", "pair", last.click, voted, stored)


def vote_buttons() -> dict[Choice, gr.Button]:
    """Lay out a button for each choice between two sides, hidden at first."""
    names = {choice: f"vote-{choice.replace('_', '-')}" for choice in CHOICES}
    with gr.Row(elem_classes="votes"):
        return {
            choice: gr.Button(say(f"compare.{choice}"), visible=False, elem_id=name, elem_classes=name)
            for choice, name in names.items()
        }
