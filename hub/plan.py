"""What publishing would change: the parcel beside what the repository holds now. Nothing is written."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from httpx2 import HTTPError
from huggingface_hub import HfApi
from huggingface_hub.errors import HfHubHTTPError, RepositoryNotFoundError
from huggingface_hub.hf_api import RepoFile

from evals.errors import LabError
from evals.schema.publishing import Change, Finding, PlannedFile, PublicationKind, PublishPlan
from hub.client import HubTrouble, explained

PIECE = 1 << 20
REPO_TYPES: dict[PublicationKind, str] = {
    "adapter": "model",
    "model": "model",
    "dataset": "dataset",
    "space": "space",
}


@dataclass(frozen=True)
class Part:
    """One file: its bytes, or where they lie."""

    content: bytes | Path
    sha256: str
    size: int

    def read(self) -> bytes:
        """Return the bytes."""
        return self.content.read_bytes() if isinstance(self.content, Path) else self.content

    def git_oid(self) -> str:
        """Return the SHA-1 by which git, and the Hub for small files, know the content."""
        return hashlib.sha1(f"blob {self.size}\0".encode() + self.read()).hexdigest()


def part_of(content: bytes | Path) -> Part:
    """Return a file with its checksum; a large one is read piece by piece."""
    if isinstance(content, bytes):
        return Part(content, hashlib.sha256(content).hexdigest(), len(content))
    with content.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
    return Part(content, digest.hexdigest(), content.stat().st_size)


@dataclass(frozen=True)
class Parcel:
    """Everything that one publication puts into one repository.

    `findings` are what was noticed while it was packed.
    """

    kind: PublicationKind
    title: str
    parts: dict[str, Part]
    findings: tuple[Finding, ...] = ()

    @property
    def repo_type(self) -> str:
        """What the Hub calls this kind of repository."""
        return REPO_TYPES[self.kind]

    def texts(self, limit: int) -> Iterator[tuple[str, str]]:
        """Yield the files that are UTF-8 text of at most `limit` bytes, with their places."""
        for path, part in self.parts.items():
            if part.size <= limit:
                content = part.read()
                if b"\0" not in content[:PIECE]:
                    yield path, content.decode("utf-8", "replace")


NOT_OURS = frozenset((".gitattributes",))
"""Files that the Hub itself puts into a repository."""


@dataclass(frozen=True)
class Target:
    """Where to publish and how. `tag` None = none is set."""

    repo: str
    tag: str | None
    is_public: bool = False
    is_pull_request: bool = False


@dataclass(frozen=True)
class Remote:
    """A repository as it is: `head` None = it is not there, or not for this user."""

    head: str | None = None
    is_private: bool = True
    files: dict[str, RepoFile] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)

    def compare(self, path: str, part: Part) -> Literal["add", "change", "same"]:
        """Return what publishing this file would do."""
        known = self.files.get(path)
        if known is None:
            return "add"
        if known.lfs is not None:
            return "same" if known.lfs.sha256 == part.sha256 else "change"
        if known.size != part.size:
            return "change"
        return "same" if known.blob_id == part.git_oid() else "change"

    def holds(self, parcel: Parcel) -> bool:
        """Whether every file of the parcel is there as it is."""
        return self.head is not None and all(self.compare(path, part) == "same" for path, part in parcel.parts.items())


def look(api: HfApi, repo: str, repo_type: str, revision: str | None = None) -> Remote:
    """Return a repository as it is at a revision, main if none is named; HubTrouble if it fails."""
    try:
        info = api.repo_info(repo, repo_type=repo_type, revision=revision)
        entries = api.list_repo_tree(repo, repo_type=repo_type, revision=info.sha, recursive=True)
        files = {each.path: each for each in entries if isinstance(each, RepoFile)}
        refs = api.list_repo_refs(repo, repo_type=repo_type)
    except RepositoryNotFoundError:
        return Remote()
    except (HfHubHTTPError, HTTPError, OSError, RuntimeError, ValueError) as error:
        raise explained(error, f"cannot look at {repo}") from error
    tags = {each.name: each.target_commit for each in refs.tags}
    return Remote(info.sha, bool(info.private), files, tags)


def plan_of(
    parcel: Parcel, target: Target, remote: Remote, endpoint: str, warnings: tuple[Finding, ...]
) -> PublishPlan:
    """Return what would be done; LabError where the target itself speaks against it."""
    _check_target(parcel, target, remote)
    changes: dict[str, tuple[Change, int]] = {
        path: (remote.compare(path, part), part.size) for path, part in parcel.parts.items()
    }
    for path, file in remote.files.items():
        if path not in changes and path not in NOT_OURS:
            changes[path] = ("remote_only", file.size)
    files = [PlannedFile(path=path, change=change, size=size) for path, (change, size) in sorted(changes.items())]
    return PublishPlan(
        kind=parcel.kind,
        endpoint=endpoint,
        repo=target.repo,
        tag=target.tag,
        is_new=remote.head is None,
        is_pull_request=target.is_pull_request,
        visibility="public" if _will_be_public(target, remote) else "private",
        parent=remote.head,
        files=tuple(files),
        upload_bytes=sum(each.size for each in files if each.change in ("add", "change")),
        warnings=warnings,
    )


def _will_be_public(target: Target, remote: Remote) -> bool:
    is_public_now = remote.head is not None and not remote.is_private
    return is_public_now or (target.is_public and not target.is_pull_request)


def _check_target(parcel: Parcel, target: Target, remote: Remote) -> None:
    if target.is_pull_request:
        if remote.head is None:
            raise HubTrouble(
                f"there is no {parcel.repo_type} {target.repo} to open a pull request on, or your token may not see it."
            )
        return
    if remote.head is not None and not remote.is_private and not target.is_public:
        raise LabError(
            f"{target.repo} is there already, and everybody can see it; what you publish would be public at"
            " once. Add --public if that is what you want, or name another repository."
        )
    tagged = remote.tags.get(target.tag or "")
    if tagged is not None and not (tagged == remote.head and remote.holds(parcel)):
        raise LabError(
            f"{target.repo} has a version {target.tag} already (commit {tagged[:12]}), and a version never"
            " changes. Name a new one with --tag."
        )
