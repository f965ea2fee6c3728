"""Two reviewers of one paper, compared without names: read both, vote, then see who wrote which."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import gradio as gr

from evals.errors import LabError
from evals.schema import Article, Choice
from evals.schema.reviewruns import KeptReview
from lab.compare.tab import CHOICES, vote_buttons
from lab.review.session import checked_settings, paper_of, reader_named, reviewing, work
from lab.review.view import read_only
from lab.services import Services
from lab.session import stop
from lab.ui.components import ANSWERING, QUIET, Sampled, heading, notice
from lab.ui.text import say
from lab.visitors import Door, Visitor

STOPPED = "cancelled"


@dataclass(frozen=True)
class BlindPair:
    """Two kept reviews, left and right. Never sent to the browser as it is."""

    left: KeptReview
    right: KeptReview

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of both."""
        return (self.left.id, self.right.id)


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
    settings: tuple[object, object, object],
) -> Iterator[BlindView]:
    """Yield what to show until both reviewers are done; who stands left is drawn.

    Nothing of either is shown before both are complete: the first to write would be known.
    `settings` are seed, length and temperature, the same for both.
    """
    article, text = given
    try:
        if visitor is None or names[0] == names[1]:
            raise LabError(say("review.blind.same"))
        how = checked_settings(settings)
        readers = [reader_named(services.readers(), name) for name in names]
        paper = paper_of(None, text) if (text or "").strip() or article is None else article
        services.random.shuffle(readers)
        kept: list[KeptReview] = []
        for number, reader in enumerate(readers, start=1):
            for moment in reviewing(services, visitor, paper, reader, how, "blind"):
                if moment.is_replaced:
                    return
                if moment.kept is not None:
                    kept.append(moment.kept)
                line = say("review.blind.writing", number=number)
                unnamed = tuple(each.id for each in kept)
                yield BlindView(notice(line), "", "", unnamed=unnamed, is_busy=True)
            if len(kept) < number or kept[-1].answer.finish_reason == STOPPED:
                raise LabError(say("review.blind.stopped"))
    except LabError as error:
        yield BlindView(notice(str(error), "problem"), "", "")
        return
    pair = BlindPair(*kept)
    yield BlindView(notice(say("review.blind.ready")), *_lists(pair, "", ""), pair, pair.ids)


def vote(services: Services, visitor: Visitor | None, pair: BlindPair | None, choice: Choice) -> BlindView:
    """Keep a vote and show who wrote which; both reviews are among the visitor's own then."""
    if visitor is None or pair is None:
        return BlindView(notice(say("review.blind.early"), "problem"), "", "")
    try:
        session = work(services, visitor).session
        services.store.documents("review").vote(session, pair.left.id, pair.right.id, choice)
    except LabError as error:
        return BlindView(notice(str(error), "problem"), *_lists(pair, "", ""), pair, pair.ids)
    left, right = pair.left.reviewer.name, pair.right.reviewer.name
    chosen = say(f"review.blind.{choice}").lower()
    line = say("review.blind.thanks", choice=chosen, left=left, right=right)
    return BlindView(notice(line, "good"), *_lists(pair, left, right))


def _lists(pair: BlindPair, left: str, right: str) -> tuple[str, str]:
    """Return both lists under their sides and, after the vote, who wrote them."""
    return _list("left", left, pair.left), _list("right", right, pair.right)


def _list(side: str, name: str, kept: KeptReview) -> str:
    title = say(f"review.blind.side.{side}")
    return heading(f"{title}: {name}" if name else title) + read_only(kept.concerns)


Painted = tuple[object, ...]


def build(
    services: Services, door: Door, given: list[gr.State | gr.Textbox], settings: Sampled, names: list[str]
) -> gr.State:
    """Lay out the comparison below the review; return where it keeps which reviews have no name yet."""
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
    unnamed = gr.State(())
    outputs = [pair, unnamed, line, left, right, start, stopping, *votes.values()]

    def on_start(visitor: Visitor | None, article: Article | None, text: str, *asked: object) -> Iterator[Painted]:
        names = (str(asked[0]), str(asked[1]))
        for view in both(services, visitor, (article, text), names, (asked[2], asked[3], asked[4])):
            yield _painted(view)

    def on_stop(visitor: Visitor | None) -> None:
        stop(services, visitor, "blind")

    asked = [door.known, *given, first, second, *settings]
    stopping.click(on_stop, door.known, None, api_name="stop_blind_review", **QUIET)
    start.click(on_start, asked, outputs, api_name="review_blind", **ANSWERING)
    for choice, button in votes.items():
        button.click(
            _voting(services, choice), [door.known, pair], outputs, api_name=f"review_vote_{choice}", **ANSWERING
        )
    return unnamed


def _voting(services: Services, choice: Choice) -> Callable[[Visitor | None, BlindPair | None], Painted]:
    def on_vote(visitor: Visitor | None, pair: BlindPair | None) -> Painted:
        return _painted(vote(services, visitor, pair, choice))

    return on_vote


def _painted(view: BlindView) -> Painted:
    may_vote = view.pair is not None
    return (
        view.pair,
        view.unnamed,
        view.notice,
        view.left,
        view.right,
        gr.Button(interactive=not view.is_busy),
        gr.Button(visible=view.is_busy),
        *(gr.Button(visible=may_vote) for _ in CHOICES),
    )
