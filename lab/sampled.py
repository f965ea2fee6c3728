"""The answers that a run sampled at one step, as a table: the best or the worst first."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, get_args

from lab.grid import Html, grid, shown
from lab.views import BADGES
from lab.wording import say

if TYPE_CHECKING:
    from training.completions import Sampled

Order = Literal["reward-best", "reward-worst", "advantage-best", "advantage-worst"]
ORDERS: tuple[Order, ...] = get_args(Order)
MOST = 16
"""Answers shown at most; a step may have sampled hundreds."""


def ordered(answers: "Sequence[Sampled]", order: Order) -> "list[Sampled]":
    """Return the answers by reward or advantage; those without one stand last, either way."""
    figure, _, first = order.partition("-")
    sign = -1.0 if first == "best" else 1.0

    def place(answer: "Sampled") -> tuple[bool, float]:
        value = answer.reward if figure == "reward" else answer.advantage
        return value is None, sign * (value or 0.0)

    return sorted(answers, key=place)


def answers_table(answers: "Sequence[Sampled]", order: Order) -> Html:
    """Return one row per answer: what it earned, what was judged, what was asked and said."""
    rows = [
        (
            _reward(answer.reward),
            _number(answer.advantage, plus=True),
            _verdict(answer.verdict),
            _confidence(answer.confidence),
            Html(f'<span class="train-asked">{shown(answer.prompt)}</span>'),
            Html(f'<span class="train-said">{shown(answer.completion)}</span>'),
        )
        for answer in ordered(answers, order)[:MOST]
    ]
    step = answers[0].step if answers else 0
    caption = say("train.answers.caption", step=step, n=len(answers), shown=len(rows))
    names = ("reward", "advantage", "verdict", "confidence", "question", "answer")
    table = grid(caption, [say(f"train.column.{name}") for name in names], rows)
    return Html(f'<div class="train-answers">{table}</div>')


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
