"""What the tests of publishing do in the client's process: our code with the real huggingface_hub."""

import os
from pathlib import Path
from typing import Any

from evals.errors import LabError


def publish_run(
    folder: Path, repo: str, *, is_public: bool = False, create_pr: bool = False, **wishes: Any
) -> Any:
    """Publish a run with its chain; return the receipts, or the message of the error."""
    from hub.adapters import Wishes
    from hub.chains import Publication, publish_chain
    from hub.client import connect

    publication = Publication(Wishes(repo, **wishes), is_public, create_pr)
    try:
        return publish_chain(connect(), folder, publication, lambda words: None)
    except LabError as error:
        return str(error)


def plan_run(folder: Path, repo: str, **wishes: Any) -> Any:
    """Return the plans of a dry run, or the message of the error."""
    from hub.adapters import Wishes
    from hub.chains import Publication, plan_chain
    from hub.client import connect

    try:
        return plan_chain(connect(), folder, Publication(Wishes(repo, **wishes)))
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


def die_at_commit(folder: Path, repo: str) -> None:
    """Publish, and be killed at the moment of the commit."""
    from huggingface_hub import HfApi

    HfApi.create_commit = lambda *words, **named: os._exit(9)
    publish_run(folder, repo)


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
