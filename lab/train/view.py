"""How a run stands, as HTML: state, progress, alerts, what it was asked for and what came of it."""

import hashlib
import shlex
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from evals.schema import Grade, Message, RunRecord
from evals.schema.reports import GradedRow
from evals.schema.runs import RunProgress
from lab.services import REPORTS
from lab.shared.rows import Behind, link
from lab.shared.runner import has_gpu
from lab.shared.runs import Training, Watched, course, duration, is_asked
from lab.ui.components import Html, notice, render, sentence
from lab.ui.text import lines, say
from training.config import StageSettings
from training.grpo import SampledSettings
from training.models.manifest import FILE_NAME
from training.stages import STAGES

if TYPE_CHECKING:
    from training.launch.plan import Plan
    from training.run.folder import Sampled

draw = partial(render, "train/view.html.jinja")


def behind_step(answers: "Sequence[Sampled]", steps: Sequence[int]) -> Behind:
    """Return the answers that were sampled at a step as what the rows page shows, those to one question together."""
    groups: dict[str, list[GradedRow]] = defaultdict(list)
    for each in answers:
        group = groups[each.prompt]
        asked = hashlib.sha256(each.prompt.encode()).hexdigest()[:12]
        grade = Grade.model_construct(
            verdict=each.verdict, reward=each.reward, parts=each.parts, confidence=each.confidence, reason=each.why
        )
        row = GradedRow.model_construct(
            id=f"{asked}-{len(group)}",
            cluster=asked,
            stage=say("train.answer", n=len(group) + 1),
            prompt=(Message(role="user", content=each.prompt),),
            completion=each.completion,
            grade=grade,
        )
        group.append(row)
    options = [("", say("train.newest")), *((str(step), say("train.step", step=step)) for step in steps)]
    return Behind(
        title=say("train.answers.title", step=answers[0].step if answers else 0),
        rows=[row for group in groups.values() for row in group],
        beside={row.id: group for group in groups.values() for row in group},
        usual="best",
        choices={"step": options},
    )


def none_sampled(training: Training | None) -> str:
    """Return in words why a run has no answers to show."""
    record = training.record if training else None
    if record is not None and not issubclass(STAGES.get(record.stage, StageSettings), SampledSettings):
        return say("train.answers.never", stage=record.stage.upper())
    is_live = training is not None and training.is_live
    return say("train.answers.yet" if is_live else "train.answers.none")


OWN_TAB = {
    "review": (
        "ASSAY_REVIEWER",
        "assay review infer --chain {run} --papers CORPUS --split test --out {run}/predictions.jsonl",
    ),
    "refiner": ("ASSAY_REFINER", "assay refiner run --chain {run} --judge heuristic --out {run}/reports/refiner.json"),
}
"""Stages that Papers and answers with evidence take: the variable that names their chain, and how they are measured."""
SETTINGS = ("base", "chain", "data", "learning_rate", "lora_r", "num_generations", "beta", "seed")


def label(training: Training) -> str:
    """Return how a run is called in the list: its folder, and how it stands."""
    return say("train.run", name=training.name, state=say(f"train.state.{training.state}"))


def panel(training: Training, watched: Watched, progress: RunProgress) -> Html:
    """Return everything there is to say about a run in words and figures; alerts, the newest first."""
    record = training.record
    words = [course(training, progress)]
    if record is not None:
        words.append(say("train.begun", when=f"{record.started_at.astimezone():%Y-%m-%d %H:%M}"))
        if not training.is_live and record.ended_at:
            words.append(say("train.took", time=duration((record.ended_at - record.started_at).total_seconds())))
    broken = say("train.unreadable", n=watched.unreadable) if watched.unreadable else ""
    return draw(
        "panel",
        training=training,
        state=say(f"train.state.{training.state}"),
        stage=record.stage.upper() if record else "",
        share=f"{100 * progress.share:.1f}",
        course=" · ".join(words),
        trouble=Html(notice(_trouble(training), "problem") + notice(broken, "problem")),
        alerts=[
            (step, sentence(text), _answers_of(training, watched, step)) for step, text in reversed(watched.alerts)
        ],
        steps=_next_steps(training) if training.state == "finished" and record else (),
    )


def _answers_of(training: Training, watched: Watched, step: int) -> str:
    """Return the address of the answers that were sampled nearest to a step; "" if there are none."""
    steps = [batch.step for batch in watched.batches]
    if not steps:
        return ""
    return link({"tab": "train", "run": training.name, "step": str(min(steps, key=lambda each: abs(each - step)))})


def _next_steps(training: Training) -> list[tuple[str, str]]:
    """Return how a finished run is asked and measured in a terminal, where the buttons of the page do not do it."""
    stage = training.record.stage if training.record else ""
    if stage not in OWN_TAB:
        return []
    run, (variable, measure) = shlex.quote(str(training.path)), OWN_TAB[stage]
    commands = {"ask": f"{variable}={run} assay lab", "measure": measure.format(run=run)}
    return [(say(f"train.next.{name}"), command) for name, command in commands.items()]


MEASURED = ("sft", "dpo", "grpo", "kto")
"""Stages whose runs are measured on questions."""


def is_measured(training: Training) -> bool:
    """Whether a run can be measured on questions: it is finished, and its stage answers them."""
    is_over = training.state == "finished" and (training.path / FILE_NAME).is_file()
    return is_over and training.record is not None and training.record.stage in MEASURED


def estimate_of(plan: "Plan") -> str:
    """Return in words what a run will take: rows, steps, memory, and on a processor time; "" where the rows are not here."""
    from training.launch.plan import operations_a_second

    if plan.data is None:
        return ""
    words = [say("train.estimate.rows", n=plan.data.count)]
    if needs := plan.needs(plan.data.count):
        words += [say("train.estimate.steps", n=needs.steps)] if needs.steps else []
        words.append(say("train.estimate.memory", gb=f"{needs.total / 1e9:.1f}"))
    if plan.data.dev and plan.settings.eval_steps:
        words.append(say("train.estimate.looks", n=plan.data.dev.rows.count))
    if not has_gpu() and (seconds := plan.seconds(operations_a_second())):
        words.append(say("train.estimate.time", time=duration(seconds)))
    return " · ".join(words)


def onward(training: Training, *, may_publish: bool) -> str:
    """Return where a finished run goes from here, as links: asked, its reports, published; "" for another."""
    if training.state != "finished" or not (training.path / FILE_NAME).is_file():
        return ""
    places = {"ask": {"tab": "ask", "chain": training.name}} if is_asked(training) else {}
    if any((training.path / REPORTS).glob("*.json")):
        places["report"] = {"tab": "results", "chain": training.name}
    if may_publish:
        places["publish"] = {"tab": "train", "run": training.name, "publish": "1"}
    return draw("onward", places=[(say(f"train.onward.{name}"), link(place)) for name, place in places.items()])


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
