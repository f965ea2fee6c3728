"""The answers that a run sampled at one step, as a table: the best or the worst first."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, get_args

from lab.grid import Html, grid, shown
from lab.views import BADGES
from lab.wording import say

if TYPE_CHECKING:
    from lab.trainings import Training
    from training.completions import Sampled

Order = Literal["reward-best", "reward-worst", "advantage-best", "advantage-worst"]
ORDERS: tuple[Order, ...] = get_args(Order)
SAMPLING = ("grpo", "refiner")
"""Stages that learn from answers of their own; the others learn from answers that are given."""
FIRST = 10
"""Answers shown at first, and added by each wish for more; a step may have sampled hundreds."""
LONGEST = {"question": 320, "answer": 900}
"""Characters from which a question or an answer is folded: prompts of a refiner hold whole passages."""
HEAD = {"question": 200, "answer": 500}
"""Characters that a folded one shows."""
TAG = re.compile(r"</?[a-z_]+(?: [^<>]*)?>")


def ordered(answers: "Sequence[Sampled]", order: Order) -> "list[Sampled]":
    """Return the answers by reward or advantage; those without one stand last, either way."""
    figure, _, first = order.partition("-")
    sign = -1.0 if first == "best" else 1.0

    def place(answer: "Sampled") -> tuple[bool, float]:
        value = answer.reward if figure == "reward" else answer.advantage
        return value is None, sign * (value or 0.0)

    return sorted(answers, key=place)


def answers_table(answers: "Sequence[Sampled]", order: Order, count: int = FIRST) -> Html:
    """Return a row for each of the first `count` answers: what it earned, how it was judged, both texts.

    Long texts are folded; a click shows them whole.
    """
    rows = [
        (
            _reward(answer.reward),
            _number(answer.advantage, plus=True),
            _verdict(answer.verdict),
            _confidence(answer.confidence),
            _text(answer.prompt, "question"),
            _text(answer.completion, "answer"),
        )
        for answer in ordered(answers, order)[:count]
    ]
    step = answers[0].step if answers else 0
    caption = say("train.answers.caption", step=step, n=len(answers), shown=len(rows))
    names = ("reward", "advantage", "verdict", "confidence", "question", "answer")
    table = grid(caption, [say(f"train.column.{name}") for name in names], rows)
    return Html(f'<div class="train-answers">{table}</div>')


def none_sampled(training: "Training | None") -> str:
    """Return in words why a run has no answers to show."""
    record = training.record if training else None
    if record is not None and record.stage not in SAMPLING:
        return say("train.answers.never", stage=record.stage.upper())
    is_live = training is not None and training.is_live
    return say("train.answers.yet" if is_live else "train.answers.none")


def _text(text: str, part: Literal["question", "answer"]) -> Html:
    """Return a text as it is, a long one behind its beginning; marks of a prompt are left out of that."""
    kind = "train-asked" if part == "question" else "train-said"
    if len(text) <= LONGEST[part]:
        return Html(f'<span class="{kind}">{shown(text)}</span>')
    words = " ".join((TAG.sub(" ", text) if part == "question" else text).split())
    head = words[: HEAD[part]].rsplit(" ", 1)[0]
    told = say("train.fold", n=len(text))
    return Html(
        f'<details class="train-fold"><summary><span class="{kind}">{shown(head)} …</span>'
        f'<small>{shown(told)}</small></summary><span class="{kind}" tabindex="0">{shown(text)}</span></details>'
    )


def _reward(value: float | None) -> Html:
    """Return the reward; its name stands beside it where the heading of the column is not shown."""
    name = shown(say("train.column.reward"))
    return Html(f'<small class="train-narrow">{name} </small><b>{_number(value)}</b>')


def _number(value: float | None, *, plus: bool = False) -> str:
    if value is None:
        return say("train.none")
    text = f"{value:+.2f}" if plus else f"{value:.3f}"
    return text.replace("-", "−")


def _verdict(verdict: str | None) -> Html:
    if verdict is None:
        return shown(say("train.none"))
    tone = BADGES.get(verdict, "quiet")
    return Html(f'<span class="badge {tone}">{shown(say(f"verdict.{verdict}"))}</span>')


def _confidence(value: float | None) -> str:
    return say("train.none") if value is None else f"{100 * value:.0f} %"
