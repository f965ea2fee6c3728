"""Two reviewers of one paper, compared without names: read both, vote, then see who wrote which."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import gradio as gr

from evals.errors import LabError
from evals.schema import Article, Choice
from evals.schema.reviewruns import KeptReview
from lab.compare.tab import CHOICES, vote_buttons
from lab.review.reader import reader_named
from lab.review.session import LONGEST, SHORTEST, TypedSettings, asked_for, paper_of, reviewing, work
from lab.review.view import read_only
from lab.services import Services
from lab.session import checked_sampling, owner
from lab.ui.components import ANSWERING, Sampled, heading, notice
from lab.ui.layout import Painted, stops
from lab.ui.text import say
from lab.visitors import Door, Visitor


@dataclass(frozen=True)
class BlindPair:
    """Two kept reviews, left and right. Never sent to the browser as it is."""

    left: KeptReview
    right: KeptReview


@dataclass(frozen=True)
class BlindView:
    """What is shown: a line and both lists as HTML; `pair` once both are complete."""

    notice: str
    left: str
    right: str
    pair: BlindPair | None = None
    unnamed: tuple[str, ...] = ()
    """Ids of kept reviews whose reviewers are not to be named yet, anywhere on the page."""
    is_busy: bool = False


def both(
    services: Services,
    visitor: Visitor | None,
    given: tuple[Article | None, str | None],
    names: tuple[str | None, str | None],
    settings: TypedSettings,
) -> Iterator[BlindView]:
    """Yield what to show until both reviewers are done; who stands left is drawn.

    Nothing of either is shown before both are complete: the first to write would be known.
    """
    article, text = given
    try:
        if visitor is None or names[0] == names[1]:
            raise LabError(say("review.blind.same"))
        how = checked_sampling(*settings, SHORTEST, LONGEST)
        readers = [reader_named(services.readers(), name) for name in names]
        paper = paper_of(None, text) if (text or "").strip() or article is None else article
        services.random.shuffle(readers)
        kept: list[KeptReview] = []
        for number, reader in enumerate(readers, start=1):
            asked = asked_for(services, visitor, paper, reader.name, how)
            for moment in reviewing(services, owner("blind", visitor), asked):
                if moment.is_replaced:
                    return
                if moment.kept is not None:
                    kept.append(moment.kept)
                line = notice(say("review.blind.writing", number=number))
                yield BlindView(line, "", "", unnamed=tuple(each.id for each in kept), is_busy=True)
            if len(kept) < number or kept[-1].answer.finish_reason == "cancelled":
                raise LabError(say("review.blind.stopped"))
    except LabError as error:
        yield BlindView(notice(str(error), "problem"), "", "")
        return
    yield _asked(notice(say("review.blind.ready")), BlindPair(*kept))


def vote(services: Services, visitor: Visitor | None, pair: BlindPair | None, choice: Choice) -> BlindView:
    """Keep a vote and show who wrote which; both reviews are among the visitor's own then."""
    if visitor is None or pair is None:
        return BlindView(notice(say("review.blind.early"), "problem"), "", "")
    try:
        mine = work(services, visitor)
        mine.documents.vote(mine.session, pair.left.id, pair.right.id, choice)
    except LabError as error:
        return _asked(notice(str(error), "problem"), pair)
    left, right = pair.left.reviewer.name, pair.right.reviewer.name
    chosen = say(f"review.blind.{choice}").lower()
    line = say("review.blind.thanks", choice=chosen, left=left, right=right)
    return BlindView(notice(line, "good"), _list("left", left, pair.left), _list("right", right, pair.right))


def _asked(line: str, pair: BlindPair) -> BlindView:
    """Return both lists without names, to be voted on."""
    ids = (pair.left.id, pair.right.id)
    return BlindView(line, _list("left", "", pair.left), _list("right", "", pair.right), pair, ids)


def _list(side: str, name: str, kept: KeptReview) -> str:
    title = say(f"review.blind.side.{side}")
    return heading(f"{title}: {name}" if name else title) + read_only(kept.concerns)


def build(
    services: Services,
    door: Door,
    given: Sequence[gr.State | gr.Textbox],
    settings: Sampled,
    names: list[str],
    unnamed: gr.State,
) -> None:
    """Lay out the comparison below the review; `unnamed` holds which reviews are to have no name yet."""
    with gr.Accordion(say("review.blind"), open=False, elem_id="review-blind"):
        with gr.Row():
            first = gr.Dropdown(names, value=names[0] if names else None, label=say("review.blind.first"))
            second = gr.Dropdown(names, value=names[-1] if names else None, label=say("review.blind.second"))
        with gr.Row(elem_classes="actions"):
            start = gr.Button(say("review.blind.start"), interactive=len(names) > 1, elem_id="blind-start", size="sm")
            stopping = gr.Button(say("review.stop"), visible=False, elem_id="blind-stop", size="sm")
        line = gr.HTML(elem_id="blind-notice")
        with gr.Row(elem_classes="blind-lists"):
            left = gr.HTML(elem_id="blind-left")
            right = gr.HTML(elem_id="blind-right")
        votes = vote_buttons("review.blind", "blind-")
    pair = gr.State(None)

    def painted(view: BlindView) -> Painted:
        page = {pair: view.pair, unnamed: view.unnamed, line: view.notice, left: view.left, right: view.right}
        buttons = {start: gr.Button(interactive=not view.is_busy), stopping: gr.Button(visible=view.is_busy)}
        return {**page, **buttons, **{votes[each]: gr.Button(visible=view.pair is not None) for each in CHOICES}}

    def on_start(visitor: Visitor | None, article: Article | None, text: str, *asked: object) -> Iterator[Painted]:
        names = (str(asked[0]), str(asked[1]))
        yield from map(painted, both(services, visitor, (article, text), names, (asked[2], asked[3], asked[4])))

    def on_vote(choice: Choice, visitor: Visitor | None, pair: BlindPair | None) -> Painted:
        return painted(vote(services, visitor, pair, choice))

    outputs = [pair, unnamed, line, left, right, start, stopping, *votes.values()]
    stops(services, door, "blind", stopping, "stop_blind_review")
    start.click(on_start, [door.known, *given, first, second, *settings], outputs, api_name="review_blind", **ANSWERING)
    for choice, button in votes.items():
        button.click(
            partial(on_vote, choice), [door.known, pair], outputs, api_name=f"review_vote_{choice}", **ANSWERING
        )
