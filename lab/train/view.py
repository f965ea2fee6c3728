"""How a run stands, as HTML: state, progress, alerts, what it was asked for and what came of it."""

import re
import shlex
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Literal, get_args

from evals.schema import RunRecord
from lab.train.runs import Progress, Training, Watched
from lab.ui.components import BADGES, Html, grid, notice, sentence, shown, tiles
from lab.ui.templates import render
from lab.ui.text import lines, say
from training.config import STAGES, SampledSettings, StageSettings

if TYPE_CHECKING:
    from training.run.folder import Sampled

Order = Literal["reward-best", "reward-worst", "advantage-best", "advantage-worst"]
ORDERS: tuple[Order, ...] = get_args(Order)
FIRST = 10
"""Answers shown at first, and added by each wish for more; a step may have sampled hundreds."""
draw = partial(render, "train/view.html.jinja")
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
    none, rows = say("train.none"), []
    for answer in ordered(answers, order)[:count]:
        reward, advantage, confidence = answer.reward, answer.advantage, answer.confidence
        verdict: object = none
        if answer.verdict is not None:
            tone = BADGES.get(answer.verdict, "quiet")
            verdict = Html(f'<span class="badge {tone}">{shown(say(f"verdict.{answer.verdict}"))}</span>')
        rows.append(
            (
                draw("reward", value=none if reward is None else f"{reward:.3f}".replace("-", "−")),
                none if advantage is None else f"{advantage:+.2f}".replace("-", "−"),
                verdict,
                none if confidence is None else f"{100 * confidence:.0f} %",
                _text("train-asked", answer.prompt, TAG.sub(" ", answer.prompt), 320, 200),
                _text("train-said", answer.completion, answer.completion, 900, 500),
            )
        )
    step = answers[0].step if answers else 0
    caption = say("train.answers.caption", step=step, n=len(answers), shown=len(rows))
    names = ("reward", "advantage", "verdict", "confidence", "question", "answer")
    table = grid(caption, [say(f"train.column.{name}") for name in names], rows)
    return Html(f'<div class="train-answers">{table}</div>')


def _text(kind: str, text: str, plain: str, longest: int, head: int) -> Html:
    """Return a text; one of more than `longest` characters folded, its first words shown: prompts hold whole passages."""
    short = text if len(text) <= longest else " ".join(plain.split())[:head].rsplit(" ", 1)[0]
    return draw("text", kind=kind, head=short, whole=text)


def none_sampled(training: Training | None) -> str:
    """Return in words why a run has no answers to show."""
    record = training.record if training else None
    if record is not None and not issubclass(STAGES.get(record.stage, StageSettings), SampledSettings):
        return say("train.answers.never", stage=record.stage.upper())
    is_live = training is not None and training.is_live
    return say("train.answers.yet" if is_live else "train.answers.none")


OWN_TAB = {
    "review": "assay review infer --chain {run} --papers CORPUS --split test --out {run}/predictions.jsonl",
    "refiner": "assay refiner run --chain {run} --judge heuristic --out {run}/reports/refiner.json",
}
"""Stages that a tab of their own asks, and how they are measured."""
ENERGY = ("energy", "kwh", "co2", "cost")
"""Parts of the names under which a run keeps what it used and cost, where that was measured."""
SETTINGS = ("base", "chain", "data", "learning_rate", "lora_r", "num_generations", "beta", "seed")


def label(training: Training) -> str:
    """Return how a run is called in the list: its folder, and how it stands."""
    return say("train.run", name=training.name, state=say(f"train.state.{training.state}"))


def panel(training: Training, watched: Watched, progress: Progress, now: datetime) -> Html:
    """Return everything there is to say about a run in words and figures; alerts, the newest first."""
    record, used = training.record, []
    if training.is_live and not progress.step:
        words = [say("train.loading")]
    elif progress.steps:
        words = [say("train.steps", step=progress.step, steps=progress.steps)]
    else:
        words = [say("train.step", step=progress.step)]
    if progress.seconds_left is not None:
        words.append(say("train.left", time=duration(progress.seconds_left)))
    if record is not None:
        words.append(say("train.begun", when=f"{record.started_at.astimezone():%Y-%m-%d %H:%M}"))
        if not training.is_live and record.ended_at:
            words.append(say("train.took", time=duration((record.ended_at - record.started_at).total_seconds())))
        used = [_fact(*each) for each in record.result.items() if any(part in each[0] for part in ENERGY)]
    broken = say("train.unreadable", n=watched.unreadable) if watched.unreadable else ""
    return draw(
        "panel",
        training=training,
        state=say(f"train.state.{training.state}"),
        stage=record.stage.upper() if record else "",
        share=f"{100 * progress.share:.1f}",
        course=" · ".join(words),
        trouble=Html(notice(_trouble(training), "problem") + notice(broken, "problem")),
        alerts=[(step, sentence(text)) for step, text in reversed(watched.alerts)],
        used=tiles(used) if used else "",
        steps=_next_steps(training) if training.state == "finished" and record else (),
    )


def _next_steps(training: Training) -> list[tuple[str, str]]:
    """Return what can be done with a finished run, each with its command."""
    run = shlex.quote(str(training.path))
    stage = training.record.stage if training.record else ""
    variable = {"review": "ASSAY_REVIEWER", "refiner": "ASSAY_REFINER"}.get(stage)
    ask = f"{variable}={run} assay lab" if variable else f"assay lab --chain {run}"
    measure = OWN_TAB.get(stage, "assay eval run --chain {run} --data kmp-test --out {run}/reports/kmp-test.json")
    card = f"assay publish card {run} --repo ORG/NAME"
    commands = {"ask": ask, "measure": measure.format(run=run), "card": card}
    return [(say(f"train.next.{name}"), command) for name, command in commands.items()]


def duration(seconds: float) -> str:
    """Return a time as people say it.

    >>> duration(42), duration(200), duration(9000)
    ('42 s', '3 min', '2 h 30 min')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


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


def facts(record: RunRecord | None) -> str:
    """Return settings and results, and the command that trains this again; "" without a record.

    Apart from the panel, so that it stays open while that one changes.
    """
    if record is None:
        return ""
    asked = {name: record.config[name] for name in SETTINGS if record.config.get(name)}
    told = [_fact(*each) for each in {**asked, **record.result}.items()]
    return draw("facts", told=told, command=record.command)


def _fact(name: str, value: object) -> tuple[str, str]:
    if isinstance(value, list | tuple):
        text = ", ".join(map(str, value))
    else:
        text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return lines().get(f"train.fact.{name}", name.replace("_", " ")), text
