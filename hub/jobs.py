"""Training as a job on the Hub: code and data go there in one private commit, the run folder comes back.

What is sent is checked and verified like any publication. A job that ends before training does leaves the run
folder on the Hub with its checkpoints; submitted again, it goes on from there.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from importlib import metadata
from typing import Any

from huggingface_hub import HfApi, get_token

from evals.errors import BadConfig, LabError
from evals.schema.publishing import JobPlan
from hub.cards import render
from hub.checks import Part, Upload, part_of
from hub.client import check_repo, explained, wording
from hub.publish import TROUBLE, Say, publish
from hub.spaces import package_parts

SECRET = "HF_TOKEN"


@dataclass(frozen=True)
class JobOptions:
    """What the machine shall be, and where the run folder goes; `repo` None = USER/NAME-run."""

    repo: str | None = None
    flavor: str = "a10g-small"
    timeout: str = "8h"
    image: str = "python:3.11"


def job_options(words: Sequence[str]) -> JobOptions:
    """Return the options of `key=value` words; BadConfig for one that is not understood."""
    known = {field.name for field in fields(JobOptions)}
    chosen: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or key not in known or not value:
            raise BadConfig(wording("hf option", word=word, known=", ".join(sorted(known))))
        chosen[key] = value
    return JobOptions(**chosen)


def plan_job(
    name: str, line: Sequence[str], output: str, files: Mapping[str, Part], options: JobOptions, user: str
) -> tuple[JobPlan, Upload]:
    """Return what would be submitted for a launch line, and the code and data that go with it. Asks no Hub."""
    repo = check_repo(options.repo or f"{user}/{name}-run")
    script = render("job.sh.jinja", output=shlex.quote(output), repo=shlex.quote(repo), line=shlex.join(line))
    own = {"README.md": render("job.md"), "job.sh": script}
    parts = {**package_parts(), **files, **{path: part_of(text.encode()) for path, text in own.items()}}
    upload = Upload("dataset", check_repo(f"{repo}-code"), parts)
    size = {"files": len(parts), "upload_bytes": sum(part.size for part in parts.values())}
    machine: dict[str, Any] = {
        "image": options.image,
        "flavor": options.flavor,
        "timeout": options.timeout,
        "secrets": (SECRET,),
    }
    return JobPlan(code_repo=upload.repo, run_repo=repo, script=script, **machine, **size), upload


def user_of(api: HfApi) -> str:
    """Return who is logged in; HubTrouble if nobody is."""
    try:
        return str(api.whoami()["name"])
    except TROUBLE as error:
        raise explained(error, "cannot find out who is logged in") from error


def command_of(plan: JobPlan, revision: str) -> list[str]:
    """Return what the machine is started with, the code pinned to its commit."""
    client = f"pip install --quiet huggingface_hub=={metadata.version('huggingface_hub')}"
    fetch = f"hf download {plan.code_repo} --repo-type dataset --revision {revision} --local-dir assay"
    return ["bash", "-c", f"{client} && {fetch} && cd assay && bash job.sh"]


def submit(api: HfApi, plan: JobPlan, upload: Upload, say: Say) -> str:
    """Send code and data, start the job, and return its number. LabError if something is in the way."""
    token = api.token if isinstance(api.token, str) else get_token()
    if not token:
        raise LabError(wording("no token"))
    receipt = publish(api, upload, say)
    try:
        job = api.run_job(
            image=plan.image,
            command=command_of(plan, receipt.revision),
            secrets={SECRET: token},
            flavor=plan.flavor,
            timeout=plan.timeout,
            namespace=plan.code_repo.split("/")[0],
            labels={"app": "assay"},
        )
    except TROUBLE as error:
        raise explained(error, "cannot start the job") from error
    return str(job.id)
