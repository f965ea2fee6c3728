"""All long work in one list: trainings, whoever started them, and the jobs of this lab."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from evals.errors import LabError
from lab.jobs import Job
from lab.services import Services
from lab.settings import EMBEDDED_RUNS
from lab.shared.rows import link
from lab.shared.runner import halt
from lab.shared.runs import Training, Watched, course, find, is_from_here, progress_of, read_metrics
from lab.ui.components import render
from lab.ui.text import lines, say
from lab.visitors import Visitor

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
