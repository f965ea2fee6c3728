"""One rater's lines taken out of a data set that an arena pushes votes to: one commit on a known parent.

Earlier revisions keep what they held; only squashing the history takes it out of them.
"""

import time
import uuid
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from huggingface_hub import CommitInfo, CommitOperationAdd, CommitOperationDelete, CommitScheduler, HfApi
from pydantic import ValidationError

from evals.schema.publishing import Removal
from evals.schema.votes import VoteEvent
from hub.client import HubTrouble, check_repo, explained, wording
from hub.publish import ATTEMPTS, PAUSE_SECONDS, TROUBLE, Say, download, look

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


SQUASH = (
    'python -c "from huggingface_hub import HfApi;'
    " HfApi().super_squash_history(repo_id='{repo}', repo_type='dataset')\""
)
"""What makes one revision of all, so that the removed lines are in none."""


def plan_removal(api: HfApi, repo: str, raters: Collection[str]) -> Removal:
    """Return what removing the lines of these raters, by their hashes, would do. Only reads."""
    return _cut(api, check_repo(repo), raters)[0]


def remove(api: HfApi, repo: str, raters: Collection[str], say: Say, pause_seconds: float = PAUSE_SECONDS) -> Removal:
    """Remove the lines of these raters in one commit, also those pushed meanwhile; HubTrouble leaves all whole."""
    planned, kept = _cut(api, check_repo(repo), raters)
    trouble = None
    for attempt in range(1, ATTEMPTS + 1):
        if not kept:
            return planned
        say(f"removing {planned.votes} votes from {repo}")
        trouble = _commit(api, planned, kept)
        now, kept = _cut(api, repo, raters)
        if not kept:  # also where the answer was lost and the commit was not
            return planned.model_copy(update={"revision": now.parent, "finished_at": datetime.now(UTC)})
        if trouble and not trouble.is_transient and now.parent == planned.parent:
            raise trouble
        if attempt < ATTEMPTS:
            time.sleep(pause_seconds * attempt)
        planned = now
    raise trouble or HubTrouble(wording("written meanwhile", repo=repo), is_transient=True)


def _commit(api: HfApi, planned: Removal, kept: dict[str, bytes]) -> HubTrouble | None:
    """Make the one commit; return what went wrong, None if nothing did."""
    operations: list[CommitOperationAdd | CommitOperationDelete] = [
        CommitOperationAdd(path, text) if text else CommitOperationDelete(path) for path, text in kept.items()
    ]
    try:
        api.create_commit(
            planned.repo,
            operations,
            commit_message="Remove the votes of a rater at their request",
            repo_type="dataset",
            parent_commit=planned.parent,
        )
    except TROUBLE as error:
        return explained(error, f"cannot remove votes from {planned.repo}")
    return None


def _cut(api: HfApi, repo: str, raters: Collection[str]) -> tuple[Removal, dict[str, bytes]]:
    """Return what removing would do, and each file that would change as it would be then."""
    there = look(api, repo, "dataset")
    if there.head is None:
        raise HubTrouble(wording("no data set", repo=repo))
    files: dict[str, list[tuple[bytes, VoteEvent | None]]] = {}
    for path in sorted(there.files):
        if path.startswith(f"{FOLDER}/") and path.endswith(PUSHED):
            file = download(api, repo, there.head, path, "dataset")
            lines = file.read_bytes().splitlines(keepends=True) if file else []
            files[path] = [(line, _event(line)) for line in lines]
    events = [event for lines in files.values() for _, event in lines]
    theirs = {event.vote_id for event in events if event and event.vote and event.vote.rater in raters}
    kept, counts = {}, {}
    for path, lines in files.items():
        left = [line for line, event in lines if event is None or event.vote_id not in theirs]
        if len(left) < len(lines):
            kept[path], counts[path] = b"".join(left), len(lines) - len(left)
    found: dict[str, Any] = {"files": counts, "votes": len(theirs), "unreadable": events.count(None)}
    return Removal(endpoint=api.endpoint, repo=repo, parent=there.head, **found), kept


def _event(line: bytes) -> VoteEvent | None:
    """Return the vote in a line, None if this version can read none there."""
    try:
        return VoteEvent.model_validate_json(line)
    except ValidationError:
        return None
