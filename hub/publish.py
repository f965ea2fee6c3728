"""Publishing, one way for adapters, data sets and Spaces.

checks -> plan -> private repository -> one commit on a known parent -> verified by download -> tag ->
public if wanted -> receipt. A failure at any step leaves main as it was or complete, never half; the
same command run again goes on, and says "already there" where nothing is left to do.
"""

import hashlib
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from httpx2 import HTTPError
from huggingface_hub import CommitInfo, CommitOperationAdd, HfApi, hf_hub_download, snapshot_download
from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError
from pydantic import ValidationError

from evals.errors import LabError
from evals.schema.publishing import PublishPlan, Receipt, Removal
from hub.checks import Limits, check_parcel
from hub.client import HubTrouble, check_repo, explained
from hub.plan import Parcel, Remote, Target, look, plan_of
from hub.spaces import sdk_of

FOLDER = "published"


def write_receipt(receipt: Receipt, folder: Path) -> Path:
    """Keep a receipt in `folder`/published, named after its repository, and return its file."""
    return _write(receipt, folder / FOLDER / f"{_named(receipt.repo)}.json")


def write_removal(removal: Removal, folder: Path) -> Path:
    """Keep the receipt of a removal in `folder`, named after repository and commit, and return its file."""
    return _write(removal, folder / f"{_named(removal.repo)}-{str(removal.revision)[:12]}.json")


def read_receipt(folder: Path, repo: str) -> Receipt | None:
    """Return the receipt of what was published from `folder` to a repository, None if there is none."""
    file = folder / FOLDER / f"{_named(repo)}.json"
    if not file.is_file():
        return None
    try:
        return Receipt.model_validate_json(file.read_text(encoding="utf-8"))
    except ValidationError:
        raise LabError(
            f"{file} is no receipt that this version can read; remove it and publish again: what is there"
            " already is not uploaded twice."
        ) from None


def _named(repo: str) -> str:
    return repo.replace("/", "--")


def _write(record: Receipt | Removal, file: Path) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_suffix(".part")
    unfinished.write_text(record.model_dump_json(indent=1) + "\n", encoding="utf-8")
    return unfinished.replace(file)


ATTEMPTS = 4
PAUSE_SECONDS = 1.0
TROUBLE = (HfHubHTTPError, HTTPError, OSError, RuntimeError, ValueError, KeyError)
"""What the client raises when a request fails: ValueError for a card that the Hub refuses, KeyError for
an answer that lacks what it should hold."""
Answer = TypeVar("Answer")
Say = Callable[[str], None]
Proof = Callable[[Path], None]
"""Takes the folder that was downloaded again and raises if it is not what was published."""


@dataclass(frozen=True)
class Steps:
    """What publishing tells and asks on its way, and how long it waits between attempts."""

    say: Say = lambda words: None
    prove: Proof | None = None
    pause_seconds: float = PAUSE_SECONDS


def plan(api: HfApi, parcel: Parcel, target: Target, limits: Limits | None = None) -> PublishPlan:
    """Return what publishing would do, every check passed. Refused or LabError if it would fail.

    Only reads: this is all that a dry run does.
    """
    check_repo(target.repo)
    warnings = check_parcel(parcel, limits or Limits())
    return plan_of(parcel, target, look(api, target.repo, parcel.repo_type), api.endpoint, warnings)


def publish(
    api: HfApi,
    parcel: Parcel,
    target: Target,
    limits: Limits | None = None,
    steps: Steps | None = None,
) -> Receipt:
    """Publish and return the receipt; LabError, with main whole, if something is in the way."""
    running = _Publication(api, parcel, target, steps or Steps())
    planned = plan(api, parcel, target, limits)
    if target.is_pull_request:
        return running.propose(planned)
    return running.publish(planned)


class _Publication:
    """One parcel on its way into one repository."""

    def __init__(self, api: HfApi, parcel: Parcel, target: Target, steps: Steps) -> None:
        self._api, self._parcel, self._target, self._steps = api, parcel, target, steps
        self._where: dict[str, Any] = {"repo_id": target.repo, "repo_type": parcel.repo_type}

    def publish(self, planned: PublishPlan) -> Receipt:
        """Commit to main, verify, tag, and make public at last."""
        remote = self._made(planned)
        is_there = remote.holds(self._parcel)
        if not is_there:
            self._steps.say(f"uploading {planned.upload_bytes:,} bytes to {self._target.repo}")
            remote = self._committed(remote)
        revision = str(remote.head)
        self._verify(revision)
        if self._target.tag:
            self._tag(remote, revision)
        if self._target.is_public and remote.is_private:
            self._steps.say("making it public")
            self._attempt(
                "cannot make it public",
                lambda: self._api.update_repo_settings(**self._where, visibility="public"),
            )
        return self._receipt(revision, planned, is_there=is_there)

    def propose(self, planned: PublishPlan) -> Receipt:
        """Open a pull request with one commit, unless one with the same files is open."""
        number = self._open_request()
        is_there = number is not None
        if number is None:
            self._steps.say(f"proposing {planned.upload_bytes:,} bytes to {self._target.repo}")
            doing = f"cannot open a pull request on {self._target.repo}"
            try:
                made = self._commit(planned.parent, is_pull_request=True)
                number = made.pr_num
            except TROUBLE as error:
                number = self._open_request()  # the answer may have been lost, not the request
                if number is None:
                    raise explained(error, doing) from error
        revision = f"refs/pr/{number}"
        self._verify(revision)
        return self._receipt(revision, planned, is_there=is_there, pull_request=number)

    def _made(self, planned: PublishPlan) -> Remote:
        """Return the repository, made private if it was not there; the visibility of one that was stays."""
        if planned.is_new:
            self._steps.say(f"creating {self._target.repo}, private")
            sdk = {"space_sdk": sdk_of(self._parcel)} if self._parcel.kind == "space" else {}
            self._attempt(
                f"cannot create {self._target.repo}",
                lambda: self._api.create_repo(**self._where, private=True, exist_ok=True, **sdk),
            )
        remote = self._look()
        if remote.head is None:
            raise HubTrouble(
                f"{self._target.repo} was created but cannot be seen; run the same command again.",
                is_transient=True,
            )
        return remote

    def _committed(self, before: Remote) -> Remote:
        """Return the repository after one commit on top of what was planned on.

        A failed answer does not say that the commit failed: the repository is looked at first.
        """
        doing = f"cannot commit to {self._target.repo}"
        for attempt in range(1, ATTEMPTS + 1):
            trouble: HubTrouble | None = None
            try:
                self._commit(before.head)
            except TROUBLE as error:
                trouble = explained(error, doing)
            now = self._look()
            if now.holds(self._parcel):
                return now
            if now.head != before.head:
                raise HubTrouble(
                    f"{doing}: somebody committed meanwhile ({now.head}). Nothing of yours was changed;"
                    " run the command again to see the new plan."
                )
            if trouble is not None and (not trouble.is_transient or attempt == ATTEMPTS):
                raise trouble
            self._steps.say(f"trying again ({attempt} of {ATTEMPTS - 1}): {trouble}")
            time.sleep(self._steps.pause_seconds * attempt)
        raise HubTrouble(f"{doing}: the files are not there after the commit; run it again.")

    def _commit(self, parent: str | None, *, is_pull_request: bool = False) -> CommitInfo:
        operations = [
            CommitOperationAdd(path, part.content if isinstance(part.content, bytes) else str(part.content))
            for path, part in self._parcel.parts.items()
        ]
        return self._api.create_commit(
            **self._where,
            operations=operations,
            commit_message=self._title(),
            parent_commit=parent,
            create_pr=is_pull_request,
        )

    def _title(self) -> str:
        version = f" {self._target.tag}" if self._target.tag else ""
        return f"Publish {self._parcel.title}{version} with Assay"

    def _verify(self, revision: str) -> None:
        """Download everything again into a fresh folder and compare; then the caller's own proof."""
        self._steps.say("verifying by download")
        with tempfile.TemporaryDirectory(prefix="assay-verify-") as place:
            doing = f"cannot download {self._target.repo} to verify it"
            folder = Path(
                self._attempt(
                    doing,
                    lambda: snapshot_download(
                        **self._where,
                        revision=revision,
                        local_dir=Path(place) / "files",
                        cache_dir=Path(place) / "cache",
                        allow_patterns=list(self._parcel.parts),
                        endpoint=self._api.endpoint,
                    ),
                )
            )
            different = [path for path, part in self._parcel.parts.items() if not _is_same(folder / path, part.sha256)]
            if different:
                raise LabError(
                    f"{self._target.repo} gave back other bytes than were published: {', '.join(different[:5])}."
                    " Do not use it; run the same command again, and tell the Hub if it happens twice."
                )
            if self._steps.prove:
                self._steps.say("loading it and comparing the stored probe")
                self._steps.prove(folder)

    def _tag(self, remote: Remote, revision: str) -> None:
        if remote.tags.get(str(self._target.tag)) == revision:
            return
        tag = str(self._target.tag)
        self._steps.say(f"tagging {tag}")
        self._attempt(
            f"cannot tag {tag}",
            lambda: self._api.create_tag(**self._where, tag=tag, revision=revision, exist_ok=True),
        )
        tagged = self._look().tags.get(tag)
        if tagged != revision:
            raise LabError(
                f"{self._target.repo} has another version {tag} since a moment ago (commit {tagged}); name a"
                " new one with --tag."
            )

    def _open_request(self) -> int | None:
        """Return the number of an open pull request with exactly these files, None if there is none."""
        try:
            found = list(self._api.get_repo_discussions(**self._where, discussion_type="pull_request"))
        except TROUBLE as error:
            raise explained(error, f"cannot list the pull requests of {self._target.repo}") from error
        for each in found:
            if each.status in ("open", "draft") and each.title == self._title():
                there = look(self._api, self._target.repo, self._parcel.repo_type, f"refs/pr/{each.num}")
                if there.holds(self._parcel):
                    return each.num
        return None

    def _look(self) -> Remote:
        return self._attempt(
            f"cannot look at {self._target.repo}",
            lambda: look(self._api, self._target.repo, self._parcel.repo_type),
        )

    def _attempt(self, doing: str, request: Callable[[], Answer]) -> Answer:
        """Return what a request returns, tried again where that can help."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return request()
            except HubTrouble as error:
                trouble = error
            except TROUBLE as error:
                trouble = explained(error, doing)
            if not trouble.is_transient or attempt == ATTEMPTS:
                raise trouble
            time.sleep(self._steps.pause_seconds * attempt)
        raise AssertionError("not reached")

    def _receipt(
        self,
        revision: str,
        planned: PublishPlan,
        *,
        is_there: bool,
        pull_request: int | None = None,
    ) -> Receipt:
        return Receipt(
            kind=self._parcel.kind,
            endpoint=self._api.endpoint,
            repo=self._target.repo,
            revision=revision,
            tag=None if pull_request else self._target.tag,
            pull_request=pull_request,
            visibility=planned.visibility,
            outcome="already there" if is_there else "published",
            files={path: part.sha256 for path, part in self._parcel.parts.items()},
            finished_at=datetime.now(UTC),
        )


def _is_same(file: Path, sha256: str) -> bool:
    if not file.is_file():
        return False
    with file.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest() == sha256


def download(api: HfApi, repo: str, revision: str, name: str, repo_type: str = "model") -> Path | None:
    """Return where a file lies once it is here; None if the commit holds none of that name.

    HubTrouble if it cannot be had.
    """
    try:
        return Path(hf_hub_download(repo, name, repo_type=repo_type, revision=revision, endpoint=api.endpoint))
    except EntryNotFoundError:
        return None
    except TROUBLE as error:
        raise explained(error, f"cannot download {name} of {repo}") from error
