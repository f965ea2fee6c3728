"""Votes of an arena on their way into a private data set: one line each, pushed every few minutes."""

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from huggingface_hub import CommitInfo, CommitScheduler, HfApi

from hub.client import check_repo, explained
from hub.publish import TROUBLE

MINUTES = 5.0
OPEN, PUSHED = ".open", ".jsonl"


class VoteLog:
    """Files of lines, and the scheduler that brings them to the Hub.

    Each start has files of its own, so two copies of an arena never write to the same one, and a new one
    at each push. The one that is written to has a name that is not pushed; a push gives it another, and
    from then on it never changes: no line is pushed twice, so those removed on the Hub stay away. A push
    that fails is made again at the next turn, with all lines since.
    """

    def __init__(self, api: HfApi, repo: str, folder: Path, minutes: float = MINUTES) -> None:
        """Make the data set if it is not there, private; HubTrouble if that may not be."""
        self._folder = folder
        self._file = self._fresh()
        try:
            self._scheduler = _Scheduler(
                self._close_file,
                repo_id=check_repo(repo),
                repo_type="dataset",
                private=True,
                folder_path=folder,
                path_in_repo="votes",
                allow_patterns=f"*{PUSHED}",
                every=minutes,
                hf_api=api,
            )
        except TROUBLE as error:
            raise explained(error, f"cannot keep votes in {repo}") from error

    def write(self, line: str) -> None:
        """Add a line; it is on disk when this returns, and on the Hub a few minutes later."""
        with self._scheduler.lock, self._file.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")

    def _fresh(self) -> Path:
        return self._folder / f"votes-{uuid.uuid4().hex}{OPEN}"

    def _close_file(self) -> None:
        if self._file.is_file():
            self._file.rename(self._file.with_suffix(PUSHED))
            self._file = self._fresh()

    def push(self) -> None:
        """Bring all lines to the Hub now; HubTrouble if it does not take them."""
        try:
            self._scheduler.trigger().result()
        except TROUBLE as error:
            raise explained(error, f"cannot push votes to {self._scheduler.repo_id}") from error

    def stop(self) -> None:
        """Push no more; what was not pushed stays in the folder."""
        self._scheduler.stop()


class _Scheduler(CommitScheduler):
    """A scheduler that has something done, under its lock, before each push."""

    def __init__(self, before: Callable[[], None], **named: Any) -> None:
        self._before = before  # first: the scheduler's thread starts in the next line
        super().__init__(**named)

    def push_to_hub(self) -> CommitInfo | None:
        """Push what changed; the log goes on in another file."""
        with self.lock:
            self._before()
        # the lock is free for a moment here, and taken again to list the files
        return super().push_to_hub()
