"""How a run stands, as HTML: state, progress, alerts, what it was asked for and what came of it."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from evals.schema import RunRecord
from lab.grid import Html, shown, tiles
from lab.trainings import Progress, Training
from lab.views import notice, sentence
from lab.watching import Watched
from lab.wording import lines, say

ENERGY = ("energy", "kwh", "co2", "cost")
"""Parts of the names under which a run keeps what it used and cost, where that was measured."""
SETTINGS = ("base", "chain", "data", "learning_rate", "lora_r", "num_generations", "beta", "seed")


def label(training: Training) -> str:
    """Return how a run is called in the list: its folder, and how it stands."""
    return say("train.run", name=training.name, state=say(f"train.state.{training.state}"))


def panel(training: Training, watched: Watched, progress: Progress, now: datetime) -> Html:
    """Return everything there is to say about a run in words and figures."""
    record = training.record
    parts = [_heading(training), _bar(progress), _course(training, progress, now)]
    parts.append(notice(_trouble(training), "problem"))
    if watched.unreadable:
        parts.append(notice(say("train.unreadable", n=watched.unreadable), "problem"))
    parts.append(alerts(watched.alerts))
    if record is not None:
        parts.append(_used(record))
    return Html(f'<section class="train-panel">{"".join(parts)}</section>')


def alerts(said: Sequence[tuple[int, str]]) -> Html:
    """Return what the run found wrong with itself, the newest first; nothing if nothing."""
    items = "".join(
        f"<li><b>{shown(say('train.step', step=step))}</b> {shown(sentence(text))}</li>"
        for step, text in reversed(said)
    )
    title = shown(say("train.alerts", n=len(said)))
    return Html(
        f'<div class="train-alerts" role="status"><h3>{title}</h3><ul>{items}</ul></div>'
        if said
        else ""
    )


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
    return (
        f"<header><h2>{shown(training.path.name)}</h2>{pill}<small>{shown(stage)}</small></header>"
    )


def _bar(progress: Progress) -> str:
    share = f"{100 * progress.share:.1f}"
    return (
        f'<div class="train-bar" role="progressbar" aria-label="{shown(say("train.progress"))}"'
        f' aria-valuemin="0" aria-valuemax="100" aria-valuenow="{share}">'
        f'<i style="width:{share}%"></i></div>'
    )


def _course(training: Training, progress: Progress, now: datetime) -> str:
    """Return how far the run is, how long it takes and took, in one line."""
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
            words.append(
                say("train.took", time=duration((end - record.started_at).total_seconds()))
            )
    return f'<p class="train-course">{shown(" · ".join(words))}</p>'


def _trouble(training: Training) -> str:
    """Return what to know and do about a run that stands badly; "" if it does not."""
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
    """Return energy and cost where the run has measured them, "" where it has not."""
    known = {**_flat(record.model_dump(exclude={"config", "result"})), **record.result}
    used = [
        (_named(name), _value(value))
        for name, value in known.items()
        if value is not None and any(part in name.lower() for part in ENERGY)
    ]
    return tiles(used) if used else ""


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
    command = (
        f"<dt>{shown(say('train.fact.command'))}</dt><dd><code>{shown(record.command)}</code></dd>"
    )
    return (
        f'<details class="train-facts"><summary>{shown(say("train.facts"))}</summary>'
        f"<dl>{told}<div>{command}</div></dl></details>"
    )


def _flat(values: Mapping[str, object]) -> dict[str, object]:
    """Return nested figures under names of their own."""
    found: dict[str, object] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            found |= {f"{name}, {key}": each for key, each in value.items()}
        else:
            found[name] = value
    return found


def _named(name: str) -> str:
    return lines().get(f"train.fact.{name}", name.replace("_", " "))


def _value(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)
