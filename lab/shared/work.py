"""Long work: all of it in one list, and a question set that is asked of stages of a chain.

The list has trainings, whoever started them, and the jobs of this lab. A set is asked as `assay eval run` asks it: graded,
kept as answers come, written as a report. Train has a finished run measured so, Data has a frozen set asked: each kind of
job is a `BatchOrder`.
"""

import hashlib
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evals.errors import LabError
from evals.io import write_whole
from evals.questions.sets import load_questions
from evals.schema import Completion, Example, Message
from evals.schema.questions import Sampling
from lab.engine import Waiting, WriteRequest
from lab.jobs import JSON, Job, OnStep
from lab.services import REPORTS, Services, reports_folder
from lab.session import Visitor, checked_sampling
from lab.settings import EMBEDDED_RUNS
from lab.shared.evaluations import TRAINING, about_run, command_line, training_rows
from lab.shared.rows import link
from lab.shared.runner import halt
from lab.shared.runs import Training, Watched, chain_of, course, duration, find, is_from_here, progress_of, read_metrics
from lab.ui.components import render, stage_name
from lab.ui.text import lines, say

if TYPE_CHECKING:
    from lab.shared.sets import OpenSet

draw = partial(render, "shared/work.html.jinja")
LISTED = 12
HASH = re.compile("[0-9a-f]{32}")
"""What the store knows a rater by."""
TABS = {"batch": "data", "evaluate": "train", "publish": "train", "review": "papers"}
"""The tab that shows what came of a job, by its kind."""
RUN = "run:"
"""Begins the id of a training; behind it stands the run's name."""


@dataclass(frozen=True)
class Work:
    """One piece of long work as it is listed; `id` names it, "" if it cannot be ended here; `share` is None if unknown."""

    kind: str
    title: str
    state: str
    begun: datetime
    href: str
    is_live: bool
    share: float | None = None
    told: str = ""
    who: str = ""
    id: str = ""
    is_mine: bool = False


def own_runs(services: Services) -> list[Training]:
    """Return the runs that did not come with Assay, the newest first."""
    found = find(services.settings.training.runs, services.now())
    return [each for each in found if not each.path.resolve().is_relative_to(EMBEDDED_RUNS)]


def works(services: Services, visitor: Visitor | None = None, *, is_admin: bool = False) -> list[Work]:
    """Return the work, but others' reviews to admins only; what is under way first, then the newest."""
    now, runs = services.now(), own_runs(services)
    names = {str(each.path): each.name for each in runs}
    mine = services.store.hash_rater(visitor.rater) if visitor else None
    signed_in = {services.store.hash_rater(name): name for name in services.people}
    jobs = [each for each in services.jobs.all() if is_admin or each.kind != "review" or each.who == mine]
    all_of_it = [*(_of_job(each, names, signed_in, mine) for each in jobs), *(_of_run(each, now) for each in runs)]
    listed = sorted(all_of_it, key=lambda each: (each.is_live, each.begun), reverse=True)
    return listed[: max(LISTED, sum(each.is_live for each in listed))]


def _of_run(run: Training, now: datetime) -> Work:
    share, told = None, ""
    if run.is_live:
        progress = progress_of(run, read_metrics(Watched(run.path)), now)
        share, told = progress.share if progress.steps else None, course(run, progress)
    who = run.launched.who if run.launched else ""
    href = link({"tab": "train", "run": run.name})
    id = f"{RUN}{run.name}" if run.is_live and run.launched and is_from_here(run.launched) else ""
    return Work("training", run.name, run.state, run.begun, href, run.is_live, share, told, who, id)


def end(services: Services, id: str, visitor: Visitor | None, *, is_admin: bool) -> None:
    """End a job, or ask a training to stop as the Train tab does; LabError if there is none, or it is somebody else's."""
    run = next((each for each in own_runs(services) if f"{RUN}{each.name}" == id), None)
    mine = visitor and services.store.hash_rater(visitor.rater)
    if not is_admin and (run or services.jobs.get(id).who != mine):
        raise LabError(say("job.not_yours"))
    if run is None:
        services.jobs.cancel(id)
    else:
        halt(run.path, services.settings.training, services.now())


def _of_job(job: Job, names: Mapping[str, str], signed_in: Mapping[str, str], mine: str | None) -> Work:
    share, is_live = min(1.0, job.done / job.total) if job.total else None, not job.is_over
    told, run = job.error or (job.line if is_live else ""), names.get(str(job.settings.get("run", "")), "")
    place = {"tab": TABS.get(job.kind, "home"), "run": run}
    if job.kind == "evaluate" and job.state == "done":
        place = {"tab": "results", "chain": run}
    if job.kind == "publish":
        place["publish"] = "1"
    if job.kind == "review" and (is_live or job.result):
        place["review"] = job.id
    typed = job.settings.get("name") if job.kind == "review" else ""
    who = typed or signed_in.get(job.who, "" if HASH.fullmatch(job.who) else job.who)
    what = (job.kind, job.title, job.state, job.started_at, link(place), is_live, share, told, who, job.id)
    return Work(*what, is_mine=job.who == mine)


def shown_works(listed: Sequence[Work], *, is_admin: bool) -> str:
    """Return the list as HTML; an admin sees who began it, and may cancel a job."""
    rows = [
        (
            each,
            lines().get(f"home.kind.{each.kind}", each.kind),
            say(f"home.state.{each.state}"),
            each.who if is_admin else "",
        )
        for each in listed
    ]
    return draw("works", rows=rows, may_cancel=is_admin)


# ---- question sets that are asked --------------------------------------------------------------------

KIND = "batch"
TOGETHER = 8
"""Questions of one batch of the model, as in `assay eval run`: the same batches give the same texts."""


@dataclass(frozen=True)
class BatchOrder:
    """What is asked of whom: `chain` as the engine calls it, `stages` none = all; `known` is what a command says of both."""

    name: str
    chain: str
    stages: Sequence[str]
    examples: Sequence[Example]
    train: Sequence[Example]
    sampling: Sampling
    out: Path
    known: Mapping[str, str]


def sets_to_ask(services: Services) -> list[tuple[str, str]]:
    """Return the question sets that are known here by name, by what they are called."""
    return [(lines().get(f"data.{name}", name), name) for name in (*TRAINING, *services.settings.questions)]


def sets_to_measure(services: Services) -> list[tuple[str, str]]:
    """Return what a run can be measured on: the sets known by name, and frozen versions by their ids."""
    versions = services.store.documents("question_set").titles("")
    return sets_to_ask(services) + [(f"{title} v{number}", name) for name, title, number in versions]


def start_run(services: Services, run: str, data: str | None, who: str) -> str:
    """Put the measuring of a finished run in line and return what it is called; LabError for a run or a set not here, or under way."""
    called = next((called for called, name in sets_to_measure(services) if name == data), None)
    if called is None:
        raise LabError(say("evaluate.no_data", data=data))
    chain, title = chain_of(services, run), say("evaluate.title", run=run, data=called)
    settings: dict[str, JSON] = {"run": chain, "data": data}
    if data not in {name for _, name in sets_to_ask(services)}:
        settings = {"run": chain, "chain": chain, "set": data, "name": called, "split": "test", "stages": []}
    if any(job.kind == "evaluate" and job.settings == settings and not job.is_over for job in services.jobs.all()):
        raise LabError(say("evaluate.running", run=run, data=called))
    services.jobs.start("evaluate", title, settings, who)
    return called


def start_batch(
    services: Services, known: "OpenSet", split: str, stages: Sequence[str], sampled: tuple[Any, Any, Any], who: str
) -> str:
    """Put a batch in line and return its id; LabError for a draft, no stages, no questions or settings out of range.

    Its name says what it was asked with, and which run it is where a report has that name: none is written over.
    The same batch of the same person that is under way is not asked twice.
    """
    if known.version is None:
        raise LabError(say("batch.draft"))
    if not stages:
        raise LabError(say("batch.no_stage"))
    sampling = checked_sampling(*sampled)
    examples = known.examples(split)
    if not examples:
        raise LabError(say("batch.no_rows", split=split))
    told = known.name if split == "test" else f"{known.name}[{split}]"
    told += f", {sampling.max_new_tokens} tokens" if sampling.max_new_tokens != Sampling.max_new_tokens else ""
    told += f", seed {sampling.seed} at {sampling.temperature:g}" if sampling.temperature else ""
    asked = {name: getattr(sampling, name) for name in ("max_new_tokens", "temperature", "seed")}
    chain = services.settings.chain
    folder = reports_folder(chain, services.settings.reports)
    settings: dict[str, JSON] = {
        "set": known.id,
        "split": split,
        "stages": list(stages),
        "chain": chain,
        "sampling": asked,
    }
    running = [job for job in services.jobs.all() if job.kind == KIND and not job.is_over]
    going = [job for job in running if not (doing := services.jobs.doing.get(job.id)) or not doing.stop.is_set()]
    for job in going:  # pressed twice
        if job.who == who and job.settings == settings | {"name": job.settings["name"]}:
            return job.id
    taken = {job.settings["name"] for job in running}
    names = (told if n == 1 else f"{told}, run {n}" for n in count(1))
    name = next(each for each in names if each not in taken and not (folder / f"{file_name(each)}.json").exists())
    title = say("batch.title", name=name, n=len(examples), stages=", ".join(map(stage_name, stages)))
    return services.jobs.start(KIND, title, settings | {"name": name}, who)


def _order_of_run(services: Services, settings: Mapping[str, JSON]) -> BatchOrder:
    from training.data.tables import from_hub

    if "set" in settings:
        return _order_of_set(services, settings)
    run, data = Path(settings["run"]), str(settings["data"])
    examples, known = load_questions(data, from_hub, part="test"), {"chain": str(run), "data": data}
    out = run / REPORTS / f"{file_name(Path(data).stem)}.json"
    return BatchOrder(data, str(run), (), examples, training_rows(data), Sampling(), out, known)


def _order_of_set(services: Services, settings: Mapping[str, JSON]) -> BatchOrder:
    from lab.shared.sets import as_jsonl, frozen_set

    known, chain, name = frozen_set(services, settings["set"]), str(settings["chain"]), settings["name"]
    folder = reports_folder(chain, services.settings.reports)
    data = folder / "sets" / f"{file_name(known.name)}.jsonl"
    write_whole(data, as_jsonl(known))
    asked = {"chain": chain, "data": f"{data.name}[{settings['split']}]"}
    asked |= {"stage": ",".join(settings["stages"])} if settings["stages"] else {}
    if not (examples := known.examples(settings["split"])):
        raise LabError(say("batch.no_rows", split=settings["split"]))
    train = tuple(each for each in known.examples() if each.split == "train")
    own = "" if chain == services.settings.chain else chain
    sampling, out = Sampling(**settings.get("sampling", {})), folder / f"{file_name(name)}.json"
    return BatchOrder(name, own, settings["stages"], examples, train, sampling, out, asked)


KINDS: Mapping[str, Callable[[Services, Mapping[str, JSON]], BatchOrder]] = {
    "evaluate": _order_of_run,
    KIND: _order_of_set,
}


class _Asked:
    """A chain that is asked `n` questions by stage; tells how far it is and how long the rest takes, and gives up once it is to."""

    def __init__(self, chain: Any, n: int, stages: Sequence[str], told: OnStep, check: Callable[[], None]) -> None:
        self.stages, self._chain, self._told, self._check = chain.stages, chain, told, check
        self._n, self._n_stages, self._done = n, len(stages), 0.0
        self._answers, self._seconds = 0, 0.0  # of those that were written here

    def generate(
        self, prompts: Sequence[Sequence[Message]], stages: Sequence[str], sampling: Sampling
    ) -> list[list[Completion]]:
        begun = time.monotonic()
        answers = self._chain.generate(prompts, stages, sampling, told=lambda _: self._check())
        self._answers, self._seconds = self._answers + len(prompts), self._seconds + time.monotonic() - begun
        self.progress((self._done + len(prompts) / self._n_stages) / self._n)
        return answers

    def progress(self, share: float, line: str = "") -> None:
        self._done = share * self._n
        line = say("batch.answered", n=round(self._done), total=self._n)
        if self._answers:
            left = self._seconds / self._answers * self._n_stages * (self._n - self._done)
            line += f", {say('train.left', time=duration(left))}"
        self._told(round(self._done), self._n, line)
        self._check()


def run_batch(
    kind: str,
    services: Services,
    settings: Mapping[str, JSON],
    told: OnStep,
    is_cancelled: Callable[[], bool],
    resume: JSON,
) -> JSON:
    """Do a job of a kind, or go on with it: answers that were kept are not asked for again. Returns where the report is."""
    from evals.questions.task import Questions
    from evals.report import build_report, save_report
    from evals.run import RunSettings, baseline_rows, run_task

    order = KINDS[kind](services, settings)
    examples, sampling, out = order.examples, order.sampling, order.out

    def check() -> None:
        if is_cancelled():
            raise LabError(say("batch.cancelled"))

    def write(chain: Any, _: object) -> Iterator[int]:
        stages = order.stages or chain.stages
        model = _Asked(chain, len(examples), stages, told, check)
        model.progress(0.0)  # that it has begun: the first answers may take minutes
        asked_of = repr((list(stages), sampling, chain.stage_checksums, chain.dtype)).encode()
        kept = out.with_name(f"{out.name}.{hashlib.sha256(asked_of).hexdigest()[:12]}.partial.jsonl")
        asked = RunSettings(sampling, TOGETHER, chain.stage_checksums, chain.dtype, partial=kept)
        task = Questions(chain.manifest.system_prompt)
        rows = run_task(task, model, examples, stages, asked, model.progress)
        options = {"batch_size": TOGETHER, "dtype": chain.dtype}
        about = about_run(chain, stages, sampling, **options, limit=None, read="auto")
        how = {**order.known, "out": out.name, "max_new_tokens": sampling.max_new_tokens, **options}
        about["command"] = "" if sampling.temperature else command_line(**how)
        answered = (*rows, *baseline_rows(task, examples, order.train))
        save_report(build_report(examples, answered, data_name=order.name, **about), out)
        kept.unlink(missing_ok=True)
        yield len(rows)

    n = 0
    ticket = services.engine.ask(WriteRequest(f"{kind} {out} {sorted(asdict(sampling).items())}", write, order.chain))
    for update in services.engine.updates(ticket):
        check()
        if isinstance(update, Waiting):
            told(0, len(examples), say("batch.waiting"))
        else:
            (n,) = update
    return {"report": str(out), "name": order.name, "answers": n}


def register_batches(services: Services, kind: str = KIND) -> None:
    """Let the lab do jobs of a kind."""
    services.jobs.register(kind, partial(run_batch, kind, services))


def file_name(called: str) -> str:
    """Return what a set or report is called as the name of a file.

    >>> file_name("Codons & enzymes v2[all]")
    'Codons-enzymes-v2-all'
    """
    return re.sub(r"[^\w.-]+", "-", called).strip("-.") or "questions"
