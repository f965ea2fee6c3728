"""One rater's lines taken out of a data set that an arena pushes votes to: one commit on a known parent.

Earlier revisions keep what they held; only squashing the history takes it out of them.
"""

import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi
from pydantic import ValidationError

from evals.schema.publishing import Removal
from evals.schema.votes import VoteEvent
from hub.client import HubTrouble, check_repo, explained
from hub.download import download
from hub.plan import look
from hub.publish import ATTEMPTS, PAUSE_SECONDS, TROUBLE, Say

FOLDER, SUFFIX = "votes/", ".jsonl"
SQUASH = (
    'python -c "from huggingface_hub import HfApi;'
    " HfApi().super_squash_history(repo_id='{repo}', repo_type='dataset')\""
)
"""What makes one revision of all, so that the removed lines are in none."""


@dataclass(frozen=True)
class Line:
    """One line of a file of votes; `event` None = it is no vote that this version can read."""

    text: bytes
    event: VoteEvent | None


@dataclass(frozen=True)
class Cut:
    """What removing would do: the removal as it is told, and each changed file as it would be."""

    removal: Removal
    kept: dict[str, bytes]


def plan_removal(api: HfApi, repo: str, raters: Collection[str]) -> Removal:
    """Return what removing the lines of these raters, by their hashes, would do. Only reads."""
    return _cut(api, check_repo(repo), raters).removal


def remove(
    api: HfApi,
    repo: str,
    raters: Collection[str],
    say: Say,
    pause_seconds: float = PAUSE_SECONDS,
) -> Removal:
    """Remove the lines of these raters in one commit, look that none is left, and return the receipt.

    Where an arena pushes meanwhile, the lines are looked for again in what is there then. HubTrouble, with
    the data set whole, if it cannot be done; a second call goes on.
    """
    cut = _cut(api, check_repo(repo), raters)
    if not cut.kept:
        return cut.removal
    for attempt in range(1, ATTEMPTS + 1):
        say(f"removing {cut.removal.votes} votes from {repo}")
        trouble = _commit(api, cut)
        now = _cut(api, repo, raters)
        if not now.kept:  # also where the answer was lost and the commit was not
            done = {"revision": now.removal.parent, "finished_at": datetime.now(UTC)}
            return cut.removal.model_copy(update=done)
        moved = now.removal.parent != cut.removal.parent
        if trouble and not trouble.is_transient and not moved:
            raise trouble
        if attempt < ATTEMPTS:
            time.sleep(pause_seconds * attempt)
        cut = now
    raise trouble or HubTrouble(
        f"{repo} was written to at each attempt; pause the arena, and run the same command again.",
        is_transient=True,
    )


def _commit(api: HfApi, cut: Cut) -> HubTrouble | None:
    """Make the one commit; return what went wrong, None if nothing did."""
    operations: list[CommitOperationAdd | CommitOperationDelete] = [
        CommitOperationAdd(path, text) if text else CommitOperationDelete(path)
        for path, text in cut.kept.items()
    ]
    repo = cut.removal.repo
    try:
        api.create_commit(
            repo,
            operations,
            commit_message="Remove the votes of a rater at their request",
            repo_type="dataset",
            parent_commit=cut.removal.parent,
        )
    except TROUBLE as error:
        return explained(error, f"cannot remove votes from {repo}")
    return None


def _cut(api: HfApi, repo: str, raters: Collection[str]) -> Cut:
    there = look(api, repo, "dataset")
    if there.head is None:
        raise HubTrouble(
            f"there is no data set {repo}, or your token may not see it. Name the one that the arena pushes"
            " its votes to (ASSAY_VOTES_REPO)."
        )
    names = [path for path in there.files if path.startswith(FOLDER) and path.endswith(SUFFIX)]
    files = {path: list(_lines(api, repo, there.head, path)) for path in sorted(names)}
    theirs = {
        line.event.vote_id
        for lines in files.values()
        for line in lines
        if line.event and line.event.vote and line.event.vote.rater in raters
    }
    kept, counts = {}, {}
    for path, lines in files.items():
        left = [line for line in lines if line.event is None or line.event.vote_id not in theirs]
        if len(left) < len(lines):
            kept[path] = b"".join(line.text for line in left)
            counts[path] = len(lines) - len(left)
    removal = Removal(
        endpoint=api.endpoint,
        repo=repo,
        parent=there.head,
        files=counts,
        votes=len(theirs),
        unreadable=sum(line.event is None for lines in files.values() for line in lines),
    )
    return Cut(removal, kept)


def _lines(api: HfApi, repo: str, revision: str, path: str) -> Iterator[Line]:
    """Yield the lines of a file at a commit, each as it stands there with its end."""
    file = download(api, repo, revision, path, "dataset")
    for text in file.read_bytes().splitlines(keepends=True) if file else ():
        try:
            event = VoteEvent.model_validate_json(text)
        except ValidationError:
            event = None
        yield Line(text, event)
