"""`assay train … --hf-job`: the same training on a machine of the Hub."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from evals.errors import LabError
from lab.console import emit, notes, table_of

if TYPE_CHECKING:
    from hub.parcel import Part
    from training.plan import Plan

WHOEVER = "YOU"
"""Stands in a dry run for the user, who is asked for only when the job is started."""


def hub_job(plan: "Plan", options: tuple[str, ...], *, dry_run: bool, as_json: bool) -> None:
    """Show the job that would be started, or start it."""
    from hub.client import connect
    from hub.jobs import Work, job_options, plan_job, submit, user_of

    chosen = job_options(options)
    api = None if dry_run else connect()
    user = WHOEVER if api is None or chosen.repo else user_of(api)
    output = _inside(plan.output)
    work = Work(plan.output.name, plan.line, output, _files(plan))
    job, parcel = plan_job(work, chosen, user)
    number = None if api is None else submit(api, job, parcel, _say)
    shown = {name: value for name, value in job.model_dump().items() if name != "script"}
    emit(
        {"job": number, **job.model_dump(), "line": plan.command},
        as_json=as_json,
        table=table_of(
            "job on the Hub", ("what", "value"), [("job", number or "–"), *shown.items()]
        ),
    )
    notes.print(job.script if number is None else f"started as job {number}", soft_wrap=True)
    if number is None:
        notes.print("This was a dry run: nothing was sent.")
    else:
        notes.print(f"follow it: hf jobs logs {number}")
    notes.print(
        f"bring the run here: hf download {job.run_repo} --local-dir {output}", soft_wrap=True
    )


def _say(words: str) -> None:
    notes.print(words, soft_wrap=True)


def _files(plan: "Plan") -> "Mapping[str, Part]":
    """Return the settings, rows and earlier stages that lie here and not in our packages."""
    from hub.parcel import part_of

    words = list(plan.words)
    named = [words[words.index("--config") + 1]] if "--config" in words else []
    named += [str(name) for name in plan.document().get("data") or () if Path(str(name)).is_file()]
    files = {_inside(Path(name)): part_of(Path(name)) for name in named}
    if plan.settings.chain.strip():
        files |= {path: part_of(file) for path, file in _chain_files(plan.settings.chain)}
    return files


def _chain_files(chain: str) -> Iterator[tuple[str, Path]]:
    """Yield the files of a chain's stages; the embedded one travels with our packages."""
    from hub.bundles import ROOT
    from hub.runs import CHAIN, CONFIG, RECORD, WEIGHTS
    from training.manifest import read_chain

    found = read_chain(chain)
    for stage in found.manifest.stages:
        adapter = found.adapter_folder(stage)
        if adapter.is_relative_to(ROOT / "training"):
            continue
        _inside(Path(chain))
        files = (
            adapter / WEIGHTS,
            adapter / CONFIG,
            adapter.parent / RECORD,
            adapter.parent / CHAIN,
        )
        for file in (file for file in files if file.is_file()):
            yield _inside(Path(os.path.relpath(file))), file


def _inside(path: Path) -> str:
    """Return a path as the job's machine knows it too; LabError for one that leads out of here."""
    if path.is_absolute() or ".." in path.parts:
        raise LabError(
            f"{path} lies outside of the folder you are in, or is named from the root, and a job has only what"
            " lies inside; start from the folder that holds it, and name it from there."
        )
    return path.as_posix()
