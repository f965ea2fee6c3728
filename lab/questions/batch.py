"""A question set asked of several stages as long work: graded, kept as answers come, written as `assay eval run` does."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from evals.annotations import usual_guidelines
from evals.errors import LabError
from evals.io import write_whole
from evals.model import Sampling
from evals.questions.task import Questions
from evals.report import build_report, load_report, save_report
from evals.run import RunSettings, baseline_rows, run_task
from evals.schema import Completion, EvalReport, Message
from evals.schema.annotations import AnnotationProject
from lab.annotate.session import as_typed, items_of_report, new_project
from lab.engine import Waiting, WriteRequest
from lab.jobs import JSON, Job, Told
from lab.questions.session import OpenSet, as_jsonl, frozen_set
from lab.results.evaluations import about_run
from lab.services import Services, reports_folder
from lab.session import checked_sampling
from lab.ui.text import say

KIND = "batch"
TOGETHER = 8
"""Questions of one batch of the model, as in `assay eval run`: the same batches give the same texts."""


class _Stoppable:
    """A chain that gives up in the middle of a batch once it is told to."""

    def __init__(self, chain: Any, check: Callable[[], None]) -> None:
        self._chain, self._check, self.stages = chain, check, chain.stages

    def generate(
        self, prompts: Sequence[Sequence[Message]], stages: Sequence[str], sampling: Sampling
    ) -> list[list[Completion]]:
        return self._chain.generate(prompts, stages, sampling, told=lambda _: self._check())


def start(
    services: Services, known: OpenSet, split: str, stages: Sequence[str], sampled: tuple[Any, Any, Any], who: str
) -> str:
    """Put a batch in line and return its id; LabError for a draft, no stages, no questions or settings out of range."""
    if known.version is None:
        raise LabError(say("batch.draft"))
    if not stages:
        raise LabError(say("batch.no_stage"))
    sampling = checked_sampling(*sampled)
    examples = known.examples(split)
    if not examples:
        raise LabError(say("batch.no_rows", split=split))
    part = "" if split == "test" else f"[{split}]"
    drawn = f", seed {sampling.seed} at {sampling.temperature:g}" if sampling.temperature else ""
    settings = {
        "set": known.id,
        "split": split,
        "stages": list(stages),
        "chain": services.settings.chain,
        "sampling": {
            "max_new_tokens": sampling.max_new_tokens,
            "temperature": sampling.temperature,
            "seed": sampling.seed,
        },
        "name": f"{known.name}{part}{drawn}",
    }
    return services.jobs.start(KIND, say("batch.title", name=settings["name"], n=len(examples)), settings, who)


def run(
    services: Services, settings: Mapping[str, JSON], told: Told, is_cancelled: Callable[[], bool], resume: JSON
) -> JSON:
    """Do a batch, or go on with it: answers that were kept are not asked for again. Returns where the report is."""
    known, chain = frozen_set(services, settings["set"]), str(settings["chain"])
    examples, sampling = known.examples(settings["split"]), Sampling(**settings["sampling"])
    folder = reports_folder(chain, services.settings.reports)
    out, data = folder / f"{file_name(settings['name'])}.json", folder / "sets" / f"{file_name(known.name)}.jsonl"
    write_whole(data, as_jsonl(known.rows))

    partial_file = out.with_name(f"{out.name}.partial.jsonl")

    def check() -> None:
        if is_cancelled():
            raise LabError(say("batch.cancelled"))

    def write(loaded: Any, _: object) -> Any:
        def progress(share: float, line: str) -> None:
            told(round(share * len(examples)), len(examples), line)
            check()

        asked = RunSettings(sampling, TOGETHER, loaded.stage_checksums, loaded.dtype, partial=partial_file)
        task = Questions((), loaded.manifest.system_prompt)
        rows = run_task(task, _Stoppable(loaded, check), examples, settings["stages"], asked, progress)
        train = tuple(each for each in known.examples() if each.split == "train")
        baselines = baseline_rows(task, examples, train)
        about = about_run(
            loaded, settings["stages"], sampling, batch_size=TOGETHER, dtype=loaded.dtype, limit=None, read="auto"
        )
        command = "" if sampling.temperature else _command(settings, data, out, sampling, loaded.dtype)
        save_report(
            build_report(examples, (*rows, *baselines), data_name=settings["name"], command=command, **about), out
        )
        partial_file.unlink(missing_ok=True)
        yield len(rows)

    own = "" if chain == services.settings.chain else chain
    owner = f"batch {json.dumps(dict(settings), sort_keys=True)}"
    ticket = services.engine.ask(WriteRequest(owner, write, own))
    n = 0
    for update in services.engine.updates(ticket):
        check()
        if isinstance(update, Waiting):
            told(0, len(examples), say("batch.waiting"))
        else:
            (n,) = update
    return {"report": str(out), "name": settings["name"], "answers": n}


def file_name(called: str) -> str:
    """Return what a set or report is called as the name of a file.

    >>> file_name("Codons & enzymes v2[all]")
    'Codons-enzymes-v2-all'
    """
    return re.sub(r"[^\w.-]+", "-", called).strip("-.") or "questions"


def _command(settings: Mapping[str, JSON], data: Path, out: Path, sampling: Sampling, dtype: str) -> str:
    from lab.commands.eval import command_line

    asked = {"data": f"{data.name}[{settings['split']}]", "out": out.name, "max_new_tokens": sampling.max_new_tokens}
    stages = ",".join(settings["stages"])
    return command_line(chain=settings["chain"], stage=stages, **asked, batch_size=TOGETHER, dtype=dtype)


def register(services: Services) -> None:
    """Let the lab do batches."""
    services.jobs.register(KIND, partial(run, services))


def report_of(job: Job) -> EvalReport:
    """Return the report of a batch; LabError for one that has none yet, or not any more."""
    if not job.result:
        raise LabError(say("batch.no_report"))
    return load_report(Path(job.result["report"]))


def annotate(services: Services, job: Job, raters: float | None) -> tuple[AnnotationProject, int]:
    """Put the answers of a batch into an annotation project of its own, once; return it and how many they are."""
    report = report_of(job)
    usual = as_typed(usual_guidelines())
    project = new_project(services, str(report.data_name), raters, *usual)
    project = project.model_copy(update={"id": f"batch-{job.id[:12]}"})
    store = services.store.annotations
    if any(each.id == project.id for each in store.projects()):
        raise LabError(say("batch.annotated", title=project.title))
    items = items_of_report(report, project, job.settings["stages"], len(report.rows))
    store.keep_project(project)
    store.add_items(items)
    return project, len(items)
