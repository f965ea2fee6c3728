"""Votes of an arena, brought to a private data set of the Hub while it runs."""

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from huggingface_hub import CommitInfo, CommitOperationAdd, CommitScheduler, HfApi

from hub.client import TROUBLE, check_repo, explain

FOLDER, OPEN, PUSHED = "votes", ".open", ".jsonl"
TITLE = "Add votes"
"""Title of each commit; its description names the files, so that a file is known after it was removed."""


class VoteLog:
    """Files of lines, and the scheduler that brings them to the Hub.

    Two copies of an arena never write to the same file. The one that is written to has a name that is not pushed; a
    push gives it another, and from then on it never changes: lines removed on the Hub stay away. A push that fails is
    made again; where only its answer was lost, the data set and its commits tell which files arrived.
    """

    def __init__(self, api: HfApi, repo: str, folder: Path, minutes: float = 5.0) -> None:
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
                path_in_repo=FOLDER,
                every=minutes,
                hf_api=api,
            )
        except TROUBLE as error:
            raise explain(error, f"cannot keep votes in {repo}") from error

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
            raise explain(error, f"cannot push votes to {self._scheduler.repo_id}") from error

    def stop(self) -> None:
        """Push no more; what was not pushed stays in the folder."""
        self._scheduler.stop()


class _Scheduler(CommitScheduler):
    """A scheduler that has something done, under its lock, before each push, and pushes no file twice."""

    def __init__(self, before: Callable[[], None], **named: Any) -> None:
        self._before = before  # first: the scheduler's thread starts in the last line
        self._pushed: set[str] = set()
        self._unsure: set[str] = set()  # pushed without an answer
        super().__init__(**named)

    def push_to_hub(self) -> CommitInfo | None:
        """Push the files that have not arrived yet; the log goes on in another one."""
        with self.lock:
            self._before()
        if self._unsure:
            named: dict[str, Any] = {"repo_id": self.repo_id, "repo_type": self.repo_type}
            lines = (line for each in self.api.list_repo_commits(**named) for line in each.message.splitlines())
            # what the data set holds, or held until its lines were removed
            self._pushed |= self._unsure & {*self.api.list_repo_files(**named), *lines}
        files = {f"{self.path_in_repo}/{file.name}": file for file in self.folder_path.iterdir()}
        left = sorted(path for path in files if path.endswith(PUSHED) and path not in self._pushed)
        if not left:
            return None
        self._unsure = set(left)
        done = self.api.create_commit(
            self.repo_id,
            [CommitOperationAdd(path, files[path]) for path in left],
            commit_message=TITLE,
            commit_description="\n".join(left),
            repo_type=self.repo_type,
        )
        self._pushed |= self._unsure
        self._unsure = set()
        return done
