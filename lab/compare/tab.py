"""Compare tab: two answers whose stages are hidden, one vote, then the names and the next pair.

Who wrote which answer is kept in `gr.State`, which never leaves the server; what goes to the
browser before the vote is the two texts and nothing else about them.
"""

import random
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import gradio as gr

from evals import questions
from evals.errors import LabError
from evals.model import Sampling
from evals.schema import Choice, Comparison
from lab.ask.session import Asking, Draft, Snapshot, answering, checked_question, stage_name, stop
from lab.services import Services
from lab.ui.components import ANSWERING, Card, card_of, cards, empty, lead, notice, question, reveal, waiting_line
from lab.ui.text import page, say
from lab.visitors import Door, Visitor, new_visitor


@dataclass(frozen=True)
class Pair:
    """Two complete, stored answers, left and right. Never sent to the browser as it is."""

    moment: Snapshot
    vote: Comparison | None = None

    @property
    def left(self) -> Draft:
        """The answer on the left."""
        return self.moment.drafts[0]

    @property
    def right(self) -> Draft:
        """The answer on the right."""
        return self.moment.drafts[1]


@dataclass(frozen=True)
class Desk:
    """What one page is comparing: the pair on the table, and the last one voted on.

    `place` counts the questions of the bank that were taken so far, in the order of `seed`. `remark`
    stands where the names of the last pair would: a vote was taken back.
    """

    pair: Pair | None = None
    last: Pair | None = None
    seed: int = 0
    place: int = 0
    remark: str = ""


def comparison(services: Services, visitor: Visitor, pair: Pair, choice: Choice) -> Comparison:
    """Return the record of one vote on a pair."""
    left, right = pair.moment.answers
    return Comparison(
        id=uuid.uuid4().hex,
        voted_at=services.now(),
        rater=visitor.rater,
        question=pair.moment.question,
        example_id=pair.moment.example.id if pair.moment.example else None,
        left_answer=left.id,
        right_answer=right.id,
        left_stage=left.stage,
        right_stage=right.stage,
        choice=choice,
    )


def bank_question(desk: Desk) -> str:
    """Return the question at the desk's place: all of the bank's training half, in drawn order.

    Votes become training data, so the questions that measure a model are not offered.
    """
    rows = [*questions.kmp_training(), *questions.pathway_training()]
    order = random.Random(desk.seed).sample(range(len(rows)), len(rows))
    return rows[order[(desk.place - 1) % len(rows)]].prompt


CHOICES: tuple[Choice, ...] = ("left", "tie", "both_bad", "right")


@dataclass(frozen=True)
class CompareView:
    """What the tab shows at one moment, as HTML, and whether one may vote or take a vote back."""

    notice: str
    question: str
    cards: str
    revealed: str
    may_vote: bool
    may_undo: bool


Step = tuple[Desk, CompareView]


def next_pair(services: Services, visitor: Visitor | None, desk: Desk | None, own: str | None = None) -> Iterator[Step]:
    """Yield the next pair as it is written: on the visitor's own question, or one of the bank."""
    desk = replace(desk or Desk(seed=services.random.getrandbits(32)), pair=None)
    try:
        if own is None:
            desk = replace(desk, place=desk.place + 1)
        asked = checked_question(own if own is not None else bank_question(desk))
        asking = Asking(visitor or new_visitor(), asked, Sampling(), "compare", _two(services.random))
        for moment in answering(services, asking):
            if moment.is_replaced:
                return
            desk = replace(desk, pair=Pair(moment) if moment.answers else None)
            yield desk, shown(desk, moment)
    except LabError as error:
        yield desk, _problem(desk, str(error))


def vote(services: Services, visitor: Visitor | None, desk: Desk | None, choice: Choice) -> Iterator[Step]:
    """Store the vote, yield the names behind the pair, and go on with the next pair.

    Yields nothing for a second vote on the same pair: the first one counts and is being shown.
    """
    desk, visitor = desk or Desk(), visitor or new_visitor()
    if desk.pair is None:
        yield desk, _problem(desk, say("compare.early"))
        return
    try:
        mine = comparison(services, visitor, desk.pair, choice)
        kept = services.store.add_comparison(mine)
    except LabError as error:
        yield desk, _problem(desk, str(error))
        return
    if kept.id != mine.id:
        return
    desk = replace(desk, pair=None, last=replace(desk.pair, vote=kept), remark="")
    yield from next_pair(services, visitor, desk)


def undo(services: Services, visitor: Visitor | None, desk: Desk | None) -> Iterator[Step]:
    """Take the last vote back and go on with another pair.

    The names behind the old pair have been shown, so a new vote on it would not be blind.
    """
    desk = desk or Desk()
    if visitor is None or desk.last is None or desk.last.vote is None:
        yield desk, _problem(desk, say("compare.nothing_to_undo"))
        return
    try:
        services.store.void_comparison(desk.last.vote.id, visitor.rater)
    except LabError as error:
        yield desk, _problem(desk, str(error))
        return
    stop(services, visitor, "compare", silently=True)
    desk = replace(desk, pair=None, last=None, remark=say("compare.taken_back"))
    yield from next_pair(services, visitor, desk)


def shown(desk: Desk, moment: Snapshot) -> CompareView:
    """Return the view of one moment: two texts, and of the last pair everything."""
    line = ""
    if moment.problem is not None:
        line = notice(moment.problem, "problem")
    elif moment.waiting is not None:
        line = notice(waiting_line(moment.waiting))
    elif desk.pair is not None and desk.pair.left.text == desk.pair.right.text:
        line = notice(say("compare.same"))
    elif desk.pair is not None:
        line = notice(say("compare.reading"))
    elif moment.drafts:
        line = notice(say("compare.writing"))
    return CompareView(
        notice=line,
        question=question(moment.question),
        cards=cards(_blind(moment.drafts)),
        revealed=revealed(desk.last) or (notice(desk.remark, "good") if desk.remark else ""),
        may_vote=desk.pair is not None,
        may_undo=desk.last is not None,
    )


def revealed(pair: Pair | None) -> str:
    """Return the names and verdicts behind the pair that was voted on last."""
    if pair is None or pair.vote is None:
        return ""
    line = say(
        "compare.thanks",
        choice=say(f"compare.{pair.vote.choice}").lower(),
        left=stage_name(pair.left.stage),
        right=stage_name(pair.right.stage),
    )
    return reveal(line, pair.moment.question, [card_of(pair.left), card_of(pair.right)])


def _blind(drafts: tuple[Draft, ...]) -> list[Card]:
    """Return two cards that hold a text and a side.

    Both end together: which one finished first would tell something about who wrote it.
    """
    titles = (say("compare.title.left"), say("compare.title.right"))
    done = bool(drafts) and all(draft.finish_reason for draft in drafts)
    texts = [draft.text for draft in drafts] or ["", ""]
    return [
        Card(
            title=title,
            text=text,
            state="done" if done else "writing" if text else "waiting",
            is_blind=True,
        )
        for title, text in zip(titles, texts, strict=True)
    ]


def _two(draw: random.Random) -> Callable[[tuple[str, ...]], tuple[str, ...]]:
    def pick(stages: tuple[str, ...]) -> tuple[str, ...]:
        if len(stages) < 2:
            raise LabError(say("compare.few_stages", n=len(stages)))
        return tuple(draw.sample(stages, 2))

    return pick


def _problem(desk: Desk, text: str) -> CompareView:
    """Return the view with what went wrong; a pair on the table stays there."""
    line = notice(text, "problem")
    if desk.pair is not None:
        return replace(shown(desk, desk.pair.moment), notice=line)
    is_undoable = desk.last is not None
    return CompareView(line, "", empty(say("compare.empty")), revealed(desk.last), False, is_undoable)


# ---- layout ----------------------------------------------------------------------------------


Painted = tuple[Desk, str, str, str, str, *tuple[gr.Button, ...]]


def build(services: Services, door: Door) -> None:
    """Lay out the tab inside the `gr.Blocks` that is currently open."""
    desk = gr.State(None)
    gr.HTML(lead("compare"))
    with gr.Accordion(say("compare.guidelines"), open=False, elem_id="compare-guidelines"):
        gr.Markdown(page("guidelines"))
    last = gr.HTML(elem_id="compare-revealed")
    asked = gr.HTML(elem_id="compare-question")
    answers = gr.HTML(empty(say("compare.empty")), elem_id="compare-answers")
    line = gr.HTML(elem_id="compare-notice")
    with gr.Row(elem_classes="votes"):
        votes = {
            choice: gr.Button(
                say(f"compare.{choice}"),
                visible=False,
                elem_id=f"vote-{choice.replace('_', '-')}",
                elem_classes=f"vote-{choice.replace('_', '-')}",
            )
            for choice in CHOICES
        }
    with gr.Row(elem_classes="actions"):
        start = gr.Button(say("compare.start"), variant="primary", elem_id="compare-start")
        skip = gr.Button(say("compare.skip"), visible=False, elem_id="compare-skip", size="sm")
        back = gr.Button(say("compare.undo"), visible=False, elem_id="compare-undo", size="sm")
    with gr.Accordion(say("compare.own"), open=False, elem_id="compare-own"):
        own = gr.Textbox(label=say("compare.own.question"), lines=2, elem_id="compare-own-question")
        own_button = gr.Button(say("compare.own.ask"), elem_id="compare-own-button", size="sm")
    outputs = [desk, line, asked, answers, last, *votes.values(), start, skip, back]

    def on_next(visitor: Visitor | None, desk: Desk | None) -> Iterator[Painted]:
        yield from map(_painted, next_pair(services, visitor, desk))

    def on_own(visitor: Visitor | None, desk: Desk | None, question: str) -> Iterator[Painted]:
        yield from map(_painted, next_pair(services, visitor, desk, question))

    def on_undo(visitor: Visitor | None, desk: Desk | None) -> Iterator[Painted]:
        yield from map(_painted, undo(services, visitor, desk))

    here = [door.known, desk]
    start.click(on_next, here, outputs, api_name="pair", **ANSWERING)
    skip.click(on_next, here, outputs, api_name="skip", **ANSWERING)
    gr.on(
        [own_button.click, own.submit],
        on_own,
        [*here, own],
        outputs,
        api_name="pair_on",
        **ANSWERING,
    )
    back.click(on_undo, here, outputs, api_name="undo", **ANSWERING)
    for choice, button in votes.items():
        handler = _voting(services, choice)
        button.click(handler, here, outputs, api_name=f"vote_{choice}", **ANSWERING)


def _voting(services: Services, choice: Choice) -> Callable[[Visitor | None, Desk | None], Iterator[Painted]]:
    def on_vote(visitor: Visitor | None, desk: Desk | None) -> Iterator[Painted]:
        yield from map(_painted, vote(services, visitor, desk, choice))

    return on_vote


def _painted(step: Step) -> Painted:
    desk, view = step
    is_begun = bool(view.question)
    return (
        desk,
        view.notice,
        view.question,
        view.cards,
        view.revealed,
        *(gr.Button(visible=is_begun, interactive=view.may_vote) for _ in CHOICES),
        gr.Button(visible=not is_begun),
        gr.Button(visible=is_begun),
        gr.Button(visible=view.may_undo),
    )
