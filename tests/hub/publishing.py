"""What the tests of publishing do in the client's process: our code with the real huggingface_hub."""

import os
from pathlib import Path
from typing import Any

from evals.errors import LabError


def publish_run(
    folder: Path,
    repo: str,
    *,
    is_public: bool = False,
    create_pr: bool = False,
    copy: Any = None,
    with_base: bool = False,
    **wishes: Any,
) -> Any:
    """Publish a run with its chain; return the receipts, or the message of the error."""
    from hub.adapters import Wishes
    from hub.chains import Publication, publish_chain
    from hub.client import connect

    publication = Publication(Wishes(repo, **wishes), is_public, create_pr, copy, with_base)
    try:
        return publish_chain(connect(), folder, publication, lambda words: None)
    except LabError as error:
        return str(error)


def plan_run(folder: Path, repo: str, *, copy: Any = None, with_base: bool = False, **wishes: Any) -> Any:
    """Return the plans of a dry run, or the message of the error."""
    from hub.adapters import Wishes
    from hub.chains import Publication, plan_chain
    from hub.client import connect

    try:
        publication = Publication(Wishes(repo, **wishes), copy=copy, with_base=with_base)
        return plan_chain(connect(), folder, publication)
    except LabError as error:
        return str(error)


def add_chain(source: str, folder: Path) -> Any:
    """Bring a published chain here; return its stages, or the message of the error."""
    from hub.chains import fetch_chain
    from hub.client import connect

    try:
        manifest = fetch_chain(connect(), source, folder, lambda words: None)
    except LabError as error:
        return str(error)
    return [stage.name for stage in manifest.stages]


def killed_at(method: str, folder: Path, repo: str, *, is_after: bool) -> int:
    """Publish in a copy of this process that is killed at a step; return how it ended (9 = killed there)."""
    copy = os.fork()
    if copy == 0:
        try:
            _die_at(method, is_after=is_after)
            publish_run(folder, repo)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1])


def _die_at(method: str, *, is_after: bool) -> None:
    from huggingface_hub import HfApi

    original = getattr(HfApi, method)

    def dying(self: Any, *words: Any, **named: Any) -> None:
        if is_after:
            original(self, *words, **named)
        os._exit(9)

    setattr(HfApi, method, dying)


def tags(repo: str) -> dict[str, str]:
    """Return a repository's tags and their commits."""
    from hub.client import connect

    return {each.name: each.target_commit for each in connect().list_repo_refs(repo).tags}


def publish_dataset(folder: Path, repo: str, licence: str | None = None) -> Any:
    """Publish a data set; return the receipt, or the message of the error."""
    from hub.checks import Limits
    from hub.client import connect
    from hub.datasets import pack_dataset
    from hub.plan import Target
    from hub.publish import publish

    try:
        parcel = pack_dataset(folder, repo, licence, Limits())
        return publish(connect(), parcel, Target(repo, "v1.0"))
    except LabError as error:
        return str(error)


def load_rows(repo: str) -> list[dict[str, Any]]:
    """Return the rows as the datasets library reads them from the Hub."""
    from datasets import load_dataset

    return list(load_dataset(repo, split="train"))


def load_question_set(source: str) -> Any:
    """Return a question set of the Hub as commands read it."""
    from evals.questions import load_questions
    from training.data.questions import from_hub

    return load_questions(source, from_hub)


def publish_space(name: str, repo: str, *, is_public: bool = False) -> Any:
    """Publish a Space; return the receipt, or the message of the error."""
    from hub.checks import Limits
    from hub.client import connect
    from hub.plan import Target
    from hub.publish import publish
    from hub.spaces import bundle_folder, pack_space

    try:
        parcel = pack_space(bundle_folder(name), repo, {}, Limits())
        return publish(connect(), parcel, Target(repo, None, is_public))
    except LabError as error:
        return str(error)


def compute_metric(repo: str, predictions: list[float], references: list[float]) -> Any:
    """Load a metric from the Hub as its users do, and compute it."""
    import evaluate

    return evaluate.load(repo).compute(predictions=predictions, references=references)


def log_votes(repo: str, folder: Path, lines: list[str]) -> None:
    """Keep lines in a data set; the first push may fail."""
    from hub.client import HubTrouble, connect
    from hub.votes import VoteLog

    log = VoteLog(connect(), repo, folder / "log", minutes=60)
    for line in lines:
        log.write(line)
    try:
        log.push()
    except HubTrouble:
        log.push()
    log.stop()


def submit_job(repo: str, files: dict[str, bytes]) -> str:
    """Submit a training as a job without our packages, which other tests send; return its number."""
    from hub import jobs
    from hub.client import connect
    from hub.plan import Parcel, part_of

    line = ("accelerate", "launch", "-m", "training.sft", "--config", "my.yaml")
    work = jobs.Work("mine", line, "runs/mine", {path: part_of(content) for path, content in files.items()})
    plan, parcel = jobs.plan_job(work, jobs.job_options([f"repo={repo}"]), "tester")
    kept = {path: part for path, part in parcel.parts.items() if "/" not in path}
    small = Parcel(parcel.kind, parcel.title, kept)
    return jobs.submit(connect(), plan, small, lambda words: None)


def removal(repo: str, raters: list[str], *, is_dry: bool = False) -> Any:
    """Take raters' lines out of a data set of votes; return what was done, or the error's message."""
    from hub.client import connect
    from hub.votes import plan_removal, remove

    try:
        if is_dry:
            return plan_removal(connect(), repo, raters)
        return remove(connect(), repo, raters, lambda words: None, pause_seconds=0.01)
    except LabError as error:
        return str(error)


def removal_while_an_arena_pushes(repo: str, raters: list[str], line: str) -> Any:
    """Take lines out with a push slipped in before our commit."""
    from huggingface_hub import HfApi

    from tests.hub import calls

    original = HfApi.create_commit

    def slower(self: Any, *words: Any, **named: Any) -> Any:
        HfApi.create_commit = original
        calls.commit(repo, {"votes/new.jsonl": line.encode()}, "dataset")
        return original(self, *words, **named)

    HfApi.create_commit = slower
    try:
        return removal(repo, raters)
    finally:
        HfApi.create_commit = original


def forget(words: list[str], database: str, said: str | None = None) -> tuple[int, str, str]:
    """Run `assay prefs forget` on this Hub; `said` is what a person answers when asked."""
    from typer.testing import CliRunner

    from lab.cli import app

    environment = {"ASSAY_DATABASE_URL": database}
    result = CliRunner().invoke(app, ["prefs", "forget", *words], said, environment)
    return result.exit_code, result.stdout, result.stderr


def log_twice(repo: str, folder: Path, lines: list[str]) -> None:
    """Keep lines in a data set, each pushed alone, by one log."""
    from hub.client import connect
    from hub.votes import VoteLog

    log = VoteLog(connect(), repo, folder / "log", minutes=60)
    for line in lines:
        log.write(line)
        log.push()
    log.stop()


def log_while_pushing(repo: str, folder: Path, lines: tuple[str, str, str]) -> list[str]:
    """Push the first line, with the second written during the push, then the third; return what came first."""
    from huggingface_hub import HfApi

    from hub.client import connect
    from hub.votes import VoteLog

    log = VoteLog(connect(), repo, folder / "log", minutes=60)
    log.push()  # the scheduler's own first turn is over
    original = HfApi.create_commit

    def slower(self: Any, *words: Any, **named: Any) -> Any:
        HfApi.create_commit = original
        log.write(lines[1])
        return original(self, *words, **named)

    log.write(lines[0])
    HfApi.create_commit = slower
    try:
        log.push()
    finally:
        HfApi.create_commit = original
    pushed = [path for path in connect().list_repo_files(repo, repo_type="dataset") if "votes" in path]
    log.write(lines[2])
    log.push()
    log.stop()
    return pushed


def log_with_an_answer_lost(repo: str, folder: Path, lines: list[str], raters: list[str], more: list[str]) -> str:
    """Push lines without getting the answer, take raters out, push more; return what the first push said."""
    from hub.client import HubTrouble, connect
    from hub.votes import VoteLog

    log, said = VoteLog(connect(), repo, folder / "log", minutes=60), ""
    log.push()  # the scheduler's own first turn is over
    for line in lines:
        log.write(line)
    try:
        log.push()
    except HubTrouble as error:
        said = str(error)
    removal(repo, raters)
    for line in more:
        log.write(line)
    log.push()
    log.stop()
    return said
