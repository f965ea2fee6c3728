"""How a run stands, as HTML: state, progress, alerts, what it was asked for and what came of it."""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Literal, get_args

from evals.schema import RunRecord
from lab.train.runs import Progress, Training, Watched
from lab.ui.components import BADGES, Html, grid, notice, sentence, shown, tiles
from lab.ui.text import lines, say
from training.config import STAGES, SampledSettings, StageSettings

if TYPE_CHECKING:
    from training.run.folder import Sampled

Order = Literal["reward-best", "reward-worst", "advantage-best", "advantage-worst"]
ORDERS: tuple[Order, ...] = get_args(Order)
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


def none_sampled(training: Training | None) -> str:
    """Return in words why a run has no answers to show."""
    record = training.record if training else None
    if record is not None and not issubclass(STAGES.get(record.stage, StageSettings), SampledSettings):
        return say("train.answers.never", stage=record.stage.upper())
    is_live = training is not None and training.is_live
    return say("train.answers.yet" if is_live else "train.answers.none")


def _text(text: str, part: Literal["question", "answer"]) -> Html:
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


ENERGY = ("energy", "kwh", "co2", "cost")
"""Parts of the names under which a run keeps what it used and cost, where that was measured."""
SETTINGS = ("base", "chain", "data", "learning_rate", "lora_r", "num_generations", "beta", "seed")


def label(training: Training) -> str:
    """Return how a run is called in the list: its folder, and how it stands."""
    return say("train.run", name=training.name, state=say(f"train.state.{training.state}"))


def panel(training: Training, watched: Watched, progress: Progress, now: datetime) -> Html:
    """Return everything there is to say about a run in words and figures."""
    broken = say("train.unreadable", n=watched.unreadable) if watched.unreadable else ""
    parts = [_heading(training), _bar(progress), _course(training, progress, now)]
    parts += [notice(_trouble(training), "problem"), notice(broken, "problem"), alerts(watched.alerts)]
    parts.append(_used(training.record) if training.record else "")
    return Html(f'<section class="train-panel">{"".join(parts)}</section>')


def alerts(said: Sequence[tuple[int, str]]) -> Html:
    """Return what the run found wrong with itself, the newest first; nothing if nothing."""
    items = "".join(
        f"<li><b>{shown(say('train.step', step=step))}</b> {shown(sentence(text))}</li>"
        for step, text in reversed(said)
    )
    title = shown(say("train.alerts", n=len(said)))
    return Html(f'<div class="train-alerts" role="status"><h3>{title}</h3><ul>{items}</ul></div>' if said else "")


def duration(seconds: float) -> str:
    """Return a time as people say it.

    >>> duration(42), duration(200), duration(9000)
    ('42 s', '3 min', '2 h 30 min')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def _heading(training: Training) -> str:
    state = training.state
    pill = f'<span class="train-state {state}">{shown(say(f"train.state.{state}"))}</span>'
    stage = training.record.stage.upper() if training.record else ""
    return f"<header><h2>{shown(training.path.name)}</h2>{pill}<small>{shown(stage)}</small></header>"


def _bar(progress: Progress) -> str:
    share = f"{100 * progress.share:.1f}"
    return (
        f'<div class="train-bar" role="progressbar" aria-label="{shown(say("train.progress"))}"'
        f' aria-valuemin="0" aria-valuemax="100" aria-valuenow="{share}">'
        f'<i style="width:{share}%"></i></div>'
    )


def _course(training: Training, progress: Progress, now: datetime) -> str:
    if training.is_live and not progress.step:
        words = [say("train.loading")]
    elif progress.steps:
        words = [say("train.steps", step=progress.step, steps=progress.steps)]
    else:
        words = [say("train.step", step=progress.step)]
    if progress.seconds_left is not None:
        words.append(say("train.left", time=duration(progress.seconds_left)))
    record = training.record
    if record is not None:
        begun = f"{record.started_at.astimezone():%Y-%m-%d %H:%M}"
        words.append(say("train.begun", when=begun))
        end = record.ended_at if not training.is_live and record.ended_at else None
        if end is not None:
            words.append(say("train.took", time=duration((end - record.started_at).total_seconds())))
    return f'<p class="train-course">{shown(" · ".join(words))}</p>'


def _trouble(training: Training) -> str:
    if training.problem:
        return training.problem
    if training.state == "failed" and training.record is not None:
        error = training.record.result.get("error")
        return say("train.failed.error", error=error) if error else say("train.failed.silently")
    if training.state == "failed":
        return say("train.failed.early")
    if training.stopped_because:
        return say("train.stopped.itself", reason=training.stopped_because)
    return say("train.stalled") if training.state == "stalled" else ""


def _used(record: RunRecord) -> str:
    kept = [(name, value) for name, value in record.result.items() if any(part in name for part in ENERGY)]
    return tiles([(_named(name), _value(value)) for name, value in kept]) if kept else ""


def facts(record: RunRecord | None) -> str:
    """Return settings and results, and the command that trains this again; "" without a record.

    Apart from the panel, so that it stays open while that one changes.
    """
    if record is None:
        return ""
    asked = {name: record.config[name] for name in SETTINGS if record.config.get(name)}
    told = "".join(
        f"<div><dt>{shown(_named(name))}</dt><dd>{shown(_value(value))}</dd></div>"
        for name, value in {**asked, **record.result}.items()
    )
    command = f"<dt>{shown(say('train.fact.command'))}</dt><dd><code>{shown(record.command)}</code></dd>"
    return (
        f'<details class="train-facts"><summary>{shown(say("train.facts"))}</summary>'
        f"<dl>{told}<div>{command}</div></dl></details>"
    )


def _named(name: str) -> str:
    return lines().get(f"train.fact.{name}", name.replace("_", " "))


def _value(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)
