"""Compare tab: two answers whose stages are hidden, one vote, then their names and the right answer, then the next pair.

Who wrote which answer is kept in `gr.State`, which never leaves the server; what goes to the
browser before the vote is the two texts and nothing else about them.
"""

import random
import re
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from typing import Any

import gradio as gr

from evals.errors import LabError
from evals.schema import Answer, Choice, Comparison
from evals.schema.questions import Sampling
from evals.schema.votes import REMARK_CHARACTERS, Strength, names_itself
from lab.page import Painted, choosing, event, name_field, stage_choice
from lab.services import Services
from lab.session import (
    BROWSER_SECRET,
    Answered,
    Cards,
    Door,
    Going,
    QuestionRequest,
    Visitor,
    answering,
    checked_question,
    meet_early,
    new_id,
    new_visitor,
    plain_text,
    session_of,
    stop,
    stored_moment,
)
from lab.ui import components as views
from lab.ui.text import page, say


@dataclass(frozen=True)
class Pair:
    """Two complete, stored answers, left and right, and the right one. Never sent to the browser as it is."""

    question: str
    moment: Answered
    vote: Comparison | None = None
    key: str = ""
    is_held_out: bool = False

    @property
    def answers(self) -> tuple[Answer, ...]:
        """Both as they are stored."""
        return self.moment.kept or ()

    @property
    def drafts(self) -> Cards:
        """Both as they are shown."""
        return self.moment.written or ()


def pair_of(services: Services, question: str, moment: Answered) -> Pair:
    """Return a pair with what is known of its question; nothing where answers were recorded."""
    if services.recorded:
        return Pair(question, moment)
    from evals import questions  # not in an arena
    from evals.verifiers.line import read_lines

    example = questions.find(question)
    key = (read_lines(example.answer).answer or "") if example else ""
    return Pair(question, moment, key=key, is_held_out=questions.is_held_out(question))


@dataclass(frozen=True)
class Comparing:
    """What one page is comparing: the pair on the table, and the last one voted on, shown until the next one.

    `place` counts the questions that were drawn so far, in the order of `seed`; `asked` is the one asked last.
    `ahead` is the pair after this one.
    """

    pair: Pair | None = None
    last: Pair | None = None
    seed: int = 0
    place: int = 0
    asked: str = ""
    ahead: "PairAhead | None" = None


def new_state(services: Services, pair: Pair | None = None) -> Comparing:
    """Return the state of a page that opens, with the pair that it still shows."""
    return Comparing(pair, seed=services.random.getrandbits(32))


def restore_pair(services: Services, visitor: Visitor, pair_ids: object) -> Comparing | None:
    """Return the pair whose ids the browser still shows after a new start; None if there is none of this visitor's.

    It is the last one where it was voted on: the browser may not have been told.
    """
    ids = [each for each in pair_ids if isinstance(each, str)] if isinstance(pair_ids, list) else []
    answers = services.store.answers_by_id(ids, session_of(services, visitor, "compare"))
    if len(answers) != 2:
        return None
    pair = pair_of(services, answers[0].question, stored_moment(answers))
    kept = services.store.vote_on(answers[0].id, answers[1].id, visitor.voter)
    return replace(new_state(services), last=replace(pair, vote=kept)) if kept else new_state(services, pair)


@cache
def bank() -> tuple[str, ...]:
    """Return the questions of Assay that pairs are drawn on: none that measures a model, because votes train."""
    from evals.questions import kmp_training, pathway_training

    return tuple(row.prompt for row in (*kmp_training(), *pathway_training()))


def offered_questions(services: Services, source: str | None) -> tuple[str, ...]:
    """Return what pairs are drawn on: the questions of a frozen set that may train, all of them where none may.

    None is the newest set, "" the bank, which stands in where there is no set.
    """
    if services.recorded:
        return services.recorded.questions
    if not (source := sets_to_compare(services)[0][1] if source is None else source):
        return bank()
    from evals.questions import is_held_out
    from lab.shared.sets import frozen_set

    asked = tuple(row.prompt for row in frozen_set(services, source).rows)
    return tuple(each for each in asked if not is_held_out(each)) or asked


def sets_to_compare(services: Services) -> list[tuple[str, str]]:
    """Return the frozen sets by what they are called, the newest first, then the bank."""
    sets = services.store.documents("question_set").titles("")
    return [*((f"{title} v{version}", name) for name, title, version in sets), (say("compare.bank"), "")]


@lru_cache(maxsize=64)
def _order(seed: int, n: int) -> list[int]:
    return random.Random(seed).sample(range(n), n)


def drawn_question(state: Comparing, asked: Sequence[str]) -> str:
    """Return the question at the place reached, in drawn order: none comes twice before all came once."""
    return asked[_order(state.seed, len(asked))[(state.place - 1) % len(asked)]]


ATTEMPTS = 4
"""Questions of the bank that are tried in a row until two answers differ."""
CHOICES: tuple[Choice, ...] = ("left", "tie", "both_bad", "right")
STRENGTHS: tuple[Strength, ...] = ("slight", "clear")
REASONS = ("fact", "reasoning", "honest", "clearer", "complete", "safer")
CONFIDENCE = re.compile(r"(?im)^\W*confidence\b.*$")


@dataclass(frozen=True)
class CompareView:
    """What the tab shows at one moment, as HTML, and what a visitor may do; `is_revealed`: the names of the pair are shown."""

    notice: str
    question: str
    cards: str
    may_vote: bool = False
    may_undo: bool = False
    is_revealed: bool = False


Step = tuple[Comparing, CompareView]


class PairAhead(Going[Step]):
    """A pair that is written while the one before it is read; only the first reader gets it.

    `asked` are the stages and the set that it was drawn from: a reader who chose others since writes a new pair.
    """

    def __init__(self, asked: object, steps: Generator[Step]) -> None:
        self.asked, self._is_taken = asked, False
        super().__init__(steps)

    def __iter__(self) -> Iterator[Step]:
        """Yield the newest step, then each as it comes."""
        is_taken, self._is_taken = self._is_taken, True
        return iter(()) if is_taken else super().__iter__()


def next_pair(
    services: Services,
    visitor: Visitor | None,
    state: Comparing | None,
    own: str | None = None,
    chosen: Sequence[str] = (),
    source: str | None = None,
) -> Iterator[Step]:
    """Yield the next pair as it is written, and have the one after it written meanwhile.

    It is on the visitor's `own` question, or one of `source` (`offered_questions`), among the stages `chosen`, or all.
    """
    state, visitor = state or new_state(services), visitor or new_visitor()
    beside, wanted = replace(visitor, page=f"{visitor.page} ahead"), (tuple(chosen), source)
    steps: Iterable[Step] | None = state.ahead
    if own is not None or state.ahead is None or state.ahead.asked != wanted:
        stop(services, beside, "compare", silently=True)
        steps = write_pair(services, visitor, state, own, chosen, source)
    for now, view in steps or ():
        now = replace(now, last=state.last, ahead=None)
        if now.pair and not services.recorded:
            now = replace(now, ahead=PairAhead(wanted, write_pair(services, beside, now, None, chosen, source)))
        yield now, replace(view, may_undo=state.last is not None)


def write_pair(
    services: Services,
    visitor: Visitor,
    state: Comparing,
    own: str | None = None,
    chosen: Sequence[str] = (),
    source: str | None = None,
) -> Generator[Step]:
    """Yield a pair as it is written; of questions that are drawn, another one where both answers are the same."""
    state = replace(state, pair=None)

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
        drawn = offered_questions(services, source) if own is None else ()
        for attempt in range(ATTEMPTS):
            if own is None:
                state = replace(state, place=state.place + 1)
            asked = drawn_question(state, drawn) if own is None else checked_question(own)
            state = replace(state, asked=asked)
            pair = QuestionRequest(visitor, asked, Sampling(), "compare", pick)
            is_same, silent = False, ""
            for moment in (
                services.recorded.answering(services, pair) if services.recorded else answering(services, pair)
            ):
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
                state = replace(state, pair=pair_of(services, asked, moment) if moment.kept and not is_same else None)
                view = view_of(state, asked, moment)
                if attempt and moment.kept is None and not moment.problem:
                    view = replace(view, notice=views.notice(say("compare.same.next")))
                yield state, view
            if not silent and (own is not None or not is_same):
                return
    except LabError as error:
        yield state, _problem(state, str(error))


def vote(services: Services, visitor: Visitor | None, state: Comparing | None, choice: Choice) -> Step | None:
    """Store the vote and reveal the names behind the pair and the right answer; None for a second vote on the same pair."""
    state, visitor = state or Comparing(), visitor or new_visitor()
    if state.pair is None:
        return state, _problem(state, say("compare.early"))
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
        return state, _problem(state, str(error))
    if kept.id != mine.id:
        return None
    state = replace(state, pair=None, last=replace(state.pair, vote=kept))
    return state, reveal(state)


def explain(
    services: Services,
    visitor: Visitor | None,
    state: Comparing | None,
    strength: Strength | None,
    reasons: list[str],
    remark: str,
) -> str:
    """Store how much better the chosen answer is and why; return a line that confirms it.

    LabError unless the last vote is this visitor's and stands.
    """
    vote = state.last.vote.id if state and state.last and state.last.vote else ""
    said = {"strength": strength, "reasons": tuple(reasons or ()), "remark": plain_text(remark)[:REMARK_CHARACTERS]}
    services.store.explain_comparison(vote, (visitor or new_visitor()).voter, **said)
    return views.notice(say("compare.why.kept"))


def undo(
    services: Services,
    visitor: Visitor | None,
    state: Comparing | None,
    chosen: Sequence[str] = (),
    source: str | None = None,
) -> Iterator[Step]:
    """Take the last vote back; where its names are shown, go on with another pair."""
    state = state or Comparing()
    if visitor is None or state.last is None or state.last.vote is None:
        yield state, _problem(state, say("compare.nothing_to_undo"))
        return
    try:
        services.store.void_comparison(state.last.vote.id, state.last.vote.rater)  # who may be named otherwise by now
    except LabError as error:
        yield state, _problem(state, str(error))
        return
    state, line = replace(state, last=None), views.notice(say("compare.taken_back"), "good")
    if state.pair is not None:
        yield state, replace(view_of(state, state.pair.question, state.pair.moment), notice=line)
        return
    for now, view in next_pair(services, visitor, state, chosen=chosen, source=source):
        yield now, replace(view, notice=line) if now.pair else view


def view_of(state: Comparing, asked: str, moment: Answered) -> CompareView:
    """Return the view of a pair before the vote: two texts and nothing about who wrote them (`is_blind`)."""
    line = say("compare.same") if moment.kept else say("compare.writing") if moment.written else ""
    if moment.waiting is not None:
        line = views.waiting_line(moment.waiting)
    elif state.pair is not None:
        kept = {CONFIDENCE.sub("", draft.text).strip() for draft in state.pair.drafts}
        line = say("compare.reading" if len(kept) == 2 else "compare.confidence")
        line += f" {say('compare.held_out')}" if state.pair.is_held_out else ""
    # Both end together: which one finished first would tell something about who wrote it.
    done = bool(moment.written) and all(draft.finish_reason for draft in moment.written)
    drafts = moment.written or (views.Card(""), views.Card(""))
    blind = [
        views.Card(
            say(f"compare.title.{side}"),
            each.text,
            state="done" if done else "writing" if each.text else "waiting",
            waits=each.waits,
            is_blind=True,
        )
        for side, each in zip(("left", "right"), drafts, strict=True)
    ]
    return CompareView(
        notice=views.notice(line) if moment.problem is None else views.notice(moment.problem, "problem"),
        question=views.question(asked),
        cards=views.cards(blind),
        may_vote=state.pair is not None,
        may_undo=state.last is not None,
    )


def reveal(state: Comparing) -> CompareView:
    """Return the view of the pair that was voted on last, in its place: names, verdicts, the right answer."""
    pair = state.last
    if pair is None or pair.vote is None:
        return CompareView("", "", views.empty(say("compare.empty")))
    left, right = (draft.title for draft in pair.drafts)
    line = say("compare.thanks", choice=say(f"compare.{pair.vote.choice}").lower(), left=left, right=right)
    line += f" {say('compare.key', answer=pair.key.rstrip('.'))}" if pair.key else ""
    line += f" {say('compare.named')}" if names_itself(*pair.answers) else ""
    known = [
        replace(draft, expected=pair.key, meaning="", n_tokens=None, seconds=None, waited=None) for draft in pair.drafts
    ]
    asked = views.question(pair.question)
    return CompareView(views.notice(line, "good"), asked, views.cards(known), may_undo=True, is_revealed=True)


def _problem(state: Comparing, text: str) -> CompareView:
    """Return the view with what went wrong; a pair on the table stays there."""
    view = view_of(state, state.pair.question, state.pair.moment) if state.pair else reveal(state)
    return replace(view, notice=views.notice(text, "problem"))


# ---- layout ----------------------------------------------------------------------------------


def build(services: Services, door: Door, tab: gr.Tab) -> None:
    """Lay out the tab inside the `gr.Blocks` that is currently open."""
    state, pair_ids = gr.State(None), gr.BrowserState(None, storage_key="assay-pair", secret=BROWSER_SECRET)
    has_own, chosen, is_restored = services.recorded is None, gr.State(()), gr.State(True)
    gr.HTML(views.lead("compare"))
    with gr.Row(visible=has_own, elem_classes="composer"):
        source = gr.Dropdown([], value=None, label=say("compare.from"), elem_id="compare-from", min_width=300)
        if has_own:
            stage_choice(services, chosen, "compare")
    asked = gr.HTML(elem_id="compare-question")
    answers = gr.HTML(views.empty(say("compare.empty")), elem_id="compare-answers")
    with gr.Column(elem_id="compare-bar"):
        line = gr.HTML(elem_id="compare-notice")
        votes = vote_buttons()
        chips = [(say(f"compare.why.{each}", number=k), each) for k, each in enumerate((*STRENGTHS, *REASONS), 1)]
        with gr.Row(visible=False, elem_id="compare-why") as why:
            strength = gr.Radio(chips[: len(STRENGTHS)], label=say("compare.why.strength"), scale=2, min_width=240)
            reasons = gr.CheckboxGroup(chips[len(STRENGTHS) :], label=say("compare.why.reasons"), scale=7)
        with gr.Row(elem_classes="actions"):
            onward = gr.Button(say("compare.start"), variant="primary", elem_id="compare-next")
            back = gr.Button(say("compare.undo"), visible=False, elem_id="compare-undo")
            remark = gr.Textbox(
                label=say("compare.why.remark"),
                placeholder=say("compare.why.remark"),
                container=False,
                visible=False,
                max_length=REMARK_CHARACTERS,
                elem_id="compare-remark",
            )
        said = gr.HTML(elem_id="compare-why-kept")
    with gr.Accordion(say("compare.guidelines"), open=False, elem_id="compare-guidelines"):
        gr.Markdown(page("guidelines"))
    with gr.Accordion(say("compare.own"), open=False, visible=has_own, elem_id="compare-own"):
        own = gr.Textbox(label=say("compare.own.question"), lines=2, elem_id="compare-own-question")
        own_button = gr.Button(say("compare.own.ask"), elem_id="compare-own-button", size="sm")
    name_field(door, "compare")
    if has_own:
        from lab.compare.preferences import build_board  # an arena shows no board

        build_board(services, tab)

    def paint(step: Step, *, is_writing: bool = False) -> Painted:
        """Return what the outputs show; while a pair is written no vote is taken, not even once both answers stand there.

        Gradio paints the last step of a generator twice, and would paint the second time over a vote cast in between.
        """
        now, view = step
        on_table = now.pair or (now.last if view.is_revealed else None)
        can_explain = bool(
            view.is_revealed and now.last and now.last.vote and now.last.vote.choice in ("left", "right")
        )
        is_voting = bool(view.question) and not view.is_revealed
        label = "next" if view.is_revealed else "skip" if is_voting else "start"
        may_vote = view.may_vote and not is_writing
        buttons = {each: gr.Button(visible=is_voting, interactive=may_vote) for each in votes.values()}
        return {
            state: now,
            pair_ids: [each.id for each in on_table.answers] if on_table else now.asked or None,
            line: view.notice,
            asked: view.question,
            answers: view.cards,
            **buttons,
            onward: gr.Button(say(f"compare.{label}"), variant="secondary" if is_voting else "primary"),
            back: gr.Button(visible=view.may_undo),
            why: gr.Row(visible=can_explain),
            remark: gr.Textbox("", visible=can_explain),
            **{strength: None, reasons: [], said: ""},
        }

    def written(steps: Iterable[Step]) -> Iterator[Painted]:
        return (paint(step, is_writing=True) for step in steps)

    def on_written(state: Comparing | None, is_written: bool = True) -> Painted:
        """Take votes on the pair; `is_written` is False after an event that wrote none, beside which one may be written."""
        if not is_written:
            return {each: gr.skip() for each in votes.values()}
        return {each: gr.Button(interactive=bool(state and state.pair)) for each in votes.values()}

    def on_next(
        visitor: Visitor | None,
        state: Comparing | None,
        chosen: Sequence[str],
        source: str | None,
        question: Any = None,
    ) -> Iterator[Painted]:
        yield from written(next_pair(services, visitor, state, question, chosen, source))

    def on_source(
        visitor: Visitor | None, state: Comparing | None, chosen: Sequence[str], source: str | None
    ) -> Iterator[Painted]:
        is_begun = state is not None and state.asked
        yield from on_next(visitor, state, chosen, source) if is_begun else iter([{line: gr.skip()}])

    def on_undo(
        visitor: Visitor | None, state: Comparing | None, chosen: Sequence[str], source: str | None
    ) -> Iterator[Painted]:
        yield from written(undo(services, visitor, state, chosen, source))

    def on_vote(choice: Choice, visitor: Visitor | None, state: Comparing | None) -> Painted:
        step = vote(services, visitor, state, choice)
        return paint(step) if step else {line: gr.skip()}

    def on_return(
        visitor: Visitor | None, remembered: object, now: Comparing | None, left: object, request: gr.Request
    ) -> tuple[Visitor, object, Comparing | None]:
        visitor, remembered = meet_early(visitor, remembered, request)
        return visitor, remembered, now or restore_pair(services, visitor, left)

    def on_open(visitor: Visitor, now: Comparing | None, left: object) -> Iterator[Painted]:
        found, steps = None if now else restore_pair(services, visitor, left), None
        if found:
            view = view_of(found, found.pair.question, found.pair.moment) if found.pair else reveal(found)
            steps = written([(found, view)])
        elif not now and isinstance(left, str):  # the page was left while its pair was being written
            steps = on_next(visitor, None, (), None, left)
        yield {is_restored: steps is not None}
        yield from steps or ()

    def on_tab(source: str | None) -> gr.Dropdown:
        """List the frozen sets; the newest is chosen until somebody chooses."""
        known = sets_to_compare(services)
        return gr.Dropdown(choices=known, value=known[0][1] if source is None else source)

    here = [door.known, state, chosen, source]
    outputs = [
        state,
        pair_ids,
        line,
        asked,
        answers,
        *votes.values(),
        onward,
        back,
        why,
        strength,
        reasons,
        remark,
        said,
    ]
    vote_buttons_only: dict[str, Any] = {"outputs": [*votes.values()], "api_visibility": "private", **views.QUIET}
    writing = []
    if has_own:
        tab.select(on_tab, source, source, api_name="compare_sets", **views.QUIET)
        writing += [choosing(source)(on_source, here, outputs, api_name="compare_set", **views.ANSWERING)]
    replacing: dict[str, Any] = {
        **views.ANSWERING,
        "trigger_mode": "multiple",
    }  # what is being written gives way to what is asked for now
    asking = [own_button.click, own.submit]
    writing += [
        onward.click(on_next, here, outputs, api_name="pair", **replacing),
        gr.on(asking, on_next, [*here, own], outputs, api_name="pair_on", **views.ANSWERING),
        back.click(on_undo, here, outputs, api_name="undo", **replacing),
    ]
    opened = door.known.change(
        on_open, [door.known, state, pair_ids], [*outputs, is_restored], api_visibility="private", **views.ANSWERING
    )
    for each in writing:
        each.then(on_written, state, **vote_buttons_only)
    opened.then(on_written, [state, is_restored], **vote_buttons_only)
    why_fields, why_changes = (
        [state, strength, reasons, remark],
        [strength.input, reasons.input, remark.submit, remark.blur],
    )
    event(
        why_changes, partial(explain, services), why_fields, [said], "vote_why", door=door, shows=said, **views.CHOSEN
    )
    for choice, button in votes.items():
        known = [door.known, door.remembered, state]
        returned = button.click(on_return, [*known, pair_ids], known, api_visibility="private", **views.QUIET)
        returned.then(partial(on_vote, choice), [door.known, state], outputs, api_name=f"vote_{choice}", **views.QUIET)


def vote_buttons() -> dict[Choice, gr.Button]:
    """Lay out a button for each choice between two sides, hidden at first."""
    names = {choice: f"vote-{choice.replace('_', '-')}" for choice in CHOICES}
    with gr.Row(elem_classes="votes"):
        return {
            choice: gr.Button(say(f"compare.{choice}"), visible=False, elem_id=name, elem_classes=name)
            for choice, name in names.items()
        }
