"""Votes of an arena on their way into a private data set: one line each, pushed every few minutes."""

import uuid
from pathlib import Path

from huggingface_hub import CommitScheduler, HfApi

from hub.client import check_repo, explained
from hub.publish import TROUBLE

MINUTES = 5.0


class VoteLog:
    """A file of lines that only grows, and the scheduler that brings it to the Hub.

    Each start has a file of its own, so two copies of an arena never write to the same one. A push that
    fails is made again at the next turn, with all lines since.
    """

    def __init__(self, api: HfApi, repo: str, folder: Path, minutes: float = MINUTES) -> None:
        """Make the data set if it is not there, private; HubTrouble if that may not be."""
        self._file = folder / f"votes-{uuid.uuid4().hex}.jsonl"
        try:
            self._scheduler = CommitScheduler(
                repo_id=check_repo(repo),
                repo_type="dataset",
                private=True,
                folder_path=folder,
                path_in_repo="votes",
                allow_patterns="*.jsonl",
                every=minutes,
                hf_api=api,
            )
        except TROUBLE as error:
            raise explained(error, f"cannot keep votes in {repo}") from error

    def write(self, line: str) -> None:
        """Add a line; it is on disk when this returns, and on the Hub a few minutes later."""
        with self._scheduler.lock, self._file.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")

    def push(self) -> None:
        """Bring all lines to the Hub now; HubTrouble if it does not take them."""
        try:
            self._scheduler.trigger().result()
        except TROUBLE as error:
            raise explained(error, f"cannot push votes to {self._scheduler.repo_id}") from error

    def stop(self) -> None:
        """Push no more; what was not pushed stays in the folder."""
        self._scheduler.stop()
