"""One rater's lines taken out of a data set: votes that an arena pushes, rows that were exported; one commit on a known parent.

Earlier revisions keep what they held; only squashing the history takes it out of them.
"""

import hashlib
import io
import json
import re
import time
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi
from pydantic import ValidationError

from evals.schema.publishing import Removal
from evals.schema.votes import VoteEvent
from hub.cards.dataset import Row
from hub.client import TROUBLE, HubTrouble, check_repo, explained, wording
from hub.datasets import CARD, RATERS, ROWS, STATISTICS
from hub.publish import ATTEMPTS, PAUSE_SECONDS, Say, download, look
from hub.votes import FOLDER, PUSHED

TELLING = (CARD, STATISTICS)
"""What tells the checksum of exported rows."""
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
    exported = [path for path in there.files if path.endswith(ROWS) and path not in files]
    told = {path: download(api, repo, there.head, path, "dataset") for path in (*exported, *TELLING)}
    sums: dict[str, str] = {}
    for path in exported:
        content = file.read_bytes() if (file := told[path]) else b""
        left, gone = _rows_left(path, content, raters)
        if gone:
            kept[path], counts[path] = left, len(gone)
            theirs |= {str(row.get("vote_id") or number) for number, row in enumerate(gone)}
            sums[hashlib.sha256(content).hexdigest()] = hashlib.sha256(left).hexdigest()
    for path in TELLING if sums else ():
        if file := told[path]:
            text = re.sub("|".join(sums), lambda found: sums[found[0]], file.read_text(encoding="utf-8"))
            removed = f"{sum(counts.values())} rows were taken out; the counts above are those of before."
            more = f"\n## Removed at a rater's request\n\n{removed}\n" if path.endswith(".md") else ""
            kept[path] = (text + more).encode()
    found: dict[str, Any] = {"files": counts, "votes": len(theirs), "unreadable": events.count(None)}
    return Removal(endpoint=api.endpoint, repo=repo, parent=there.head, **found), kept


def _rows_left(path: str, content: bytes, raters: Collection[str]) -> tuple[bytes, list[Row]]:
    """Return a file of exported rows without those of these raters, every other byte as it was in JSONL, and theirs."""
    if path.endswith(".parquet"):
        table = pq.read_table(io.BytesIO(content))
        rows = table.to_pylist()
        mine = [_is_of(row, raters) for row in rows]
        pq.write_table(table.filter(pa.array([not each for each in mine])), left := io.BytesIO(), compression="zstd")
        return left.getvalue(), [row for row, each in zip(rows, mine, strict=True) if each]
    lines = content.splitlines(keepends=True)
    known = [json.loads(line) if line.lstrip().startswith(b"{") else {} for line in lines]
    pairs = [(line, row, _is_of(row, raters)) for line, row in zip(lines, known, strict=True)]
    return b"".join(line for line, _, each in pairs if not each), [row for _, row, each in pairs if each]


def _is_of(row: Row, raters: Collection[str]) -> bool:
    return any(str(row.get(key)) in raters for key in RATERS)


def _event(line: bytes) -> VoteEvent | None:
    """Return the vote in a line, None if this version can read none there."""
    try:
        return VoteEvent.model_validate_json(line)
    except ValidationError:
        return None
