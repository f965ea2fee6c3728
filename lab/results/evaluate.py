"""A finished run measured as long work: what `assay eval run` does, by the model that the lab has in memory."""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from evals.errors import LabError
from evals.model import Sampling
from evals.questions import DATASETS
from evals.questions.sets import load_questions
from evals.schema import Example
from lab.engine import Waiting, WriteRequest
from lab.results.evaluations import about_run
from lab.services import REPORTS, Services
from lab.train.chains import chain_of
from lab.ui.text import lines, say

TRAINING = {"pathways-heldout": "pathways-train", "kmp-test": "kmp-train"}
"""The training rows that belong to a set of test questions."""
PART = re.compile(r"\[(?:train|dev|test|all)\]\s*$")
KIND = "evaluate"
TOGETHER = 8
"""Questions answered at a time, as `assay eval run` does unless told otherwise."""


def training_rows(data: str) -> tuple[Example, ...]:
    """Return the training rows that belong to a set, none where they are not known."""
    from training.data.questions import from_hub

    if data in DATASETS:
        return DATASETS[TRAINING[data]]() if data in TRAINING else ()
    return tuple(row for row in load_questions(f"{PART.sub('', data)}[all]", from_hub) if row.split == "train")


def sets_to_ask(services: Services) -> list[tuple[str, str]]:
    """Return the question sets that a run can be measured on, by what they are called."""
    return [(lines().get(f"data.{name}", name), name) for name in (*TRAINING, *services.settings.questions)]


def start(services: Services, run: str, data: str | None, who: str) -> str:
    """Put the measuring of a finished run in line and return the job; LabError for a run or a set that is not here."""
    if data not in {name for _, name in sets_to_ask(services)}:
        raise LabError(say("evaluate.no_data", data=data))
    settings = {"run": chain_of(services, run), "data": data}
    return services.jobs.start(KIND, say("evaluate.title", run=run, data=data), settings, who)


def register(services: Services) -> None:
    """Let the lab measure runs."""
    services.jobs.register(KIND, partial(evaluate, services))


def evaluate(
    services: Services,
    settings: Mapping[str, Any],
    told: Callable[[int, int, str], None],
    is_cancelled: Callable[[], bool],
    resume: Any,
) -> Any:
    """Ask all stages, or go on with that, write the report beside the run, and return where it is."""
    from evals.questions.task import Questions
    from evals.report import build_report, save_report
    from evals.run import RunSettings, baseline_rows, run_task
    from training.data.questions import from_hub

    run, data = Path(settings["run"]), str(settings["data"])
    out = run / REPORTS / f"{re.sub(r'[^A-Za-z0-9_.-]+', '-', Path(data).stem)}.json"
    out.parent.mkdir(exist_ok=True)
    examples, sampling = load_questions(data, from_hub, part="test"), Sampling()

    def progress(share: float, line: str) -> None:
        if is_cancelled():
            raise LabError(say("evaluate.cancelled"))
        told(round(share * len(examples)), len(examples), line)

    def write(chain: Any, _: object) -> Iterator[int]:
        partial_file = out.with_name(f"{out.name}.partial.jsonl")
        asked = RunSettings(sampling, TOGETHER, chain.stage_checksums, chain.dtype, partial=partial_file)
        task = Questions((), chain.manifest.system_prompt)
        rows = run_task(task, chain, examples, chain.stages, asked, progress)
        baselines = baseline_rows(task, examples, training_rows(data))
        options = {"batch_size": TOGETHER, "dtype": chain.dtype, "limit": None, "read": "auto"}
        told_of_run = about_run(chain, chain.stages, sampling, **options)
        words = ["assay", "eval", "run", "--chain", run.name, "--data", Path(data).name, "--out", out.name]
        command = shlex.join([*words, "--dtype", chain.dtype])
        save_report(build_report(examples, (*rows, *baselines), data_name=data, command=command, **told_of_run), out)
        partial_file.unlink(missing_ok=True)
        yield len(rows)

    for update in services.engine.updates(services.engine.ask(WriteRequest(f"evaluate {out}", write, str(run)))):
        if isinstance(update, Waiting):
            progress(0.0, say("evaluate.waiting"))
    return {"report": str(out)}
