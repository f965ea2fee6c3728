"""The local Hub's state: contents in a folder, repositories in memory, who may do what, and what was asked of it."""

import hashlib
import os
import tempfile
import uuid
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import Field

from evals.schema import Record
from tests.hub.local import xet

Kind = Literal["model", "dataset", "space"]
Right = Literal["see", "read", "write"]
HEADS, TAGS, PULLS = "refs/heads/", "refs/tags/", "refs/pr/"
MAIN = f"{HEADS}main"


class Refusal(Exception):
    """An error for the client: status, the Hub's own error code (typed exceptions hang on it), words."""

    def __init__(self, status: int, message: str, code: str = "", headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.headers = status, code, dict(headers or {})


@dataclass
class InjectedFault:
    """Trouble for the next `times` requests that match: an error `status` or a `drop`, `after` they are done.

    A 429 says by RateLimit and Retry-After that `wait` seconds are to be waited.
    """

    method: str = "(POST|PUT)"
    match: str = ""
    status: int | None = None
    drop: bool = False
    after: bool = False
    times: int = 1
    wait: int = 1
    words: str = ""


class Logged(NamedTuple):
    """A line of the log: what was asked and how it was answered."""

    method: str
    path: str
    status: int


class Entry(Record):
    """A file in a commit: its content's SHA-256, and the git number that the Hub names it by."""

    sha256: str
    size: int
    oid: str
    is_lfs: bool = False


Tree = dict[str, Entry]


class Commit(Record):
    """A commit: all the files of the repository at one moment."""

    oid: str
    parent: str | None
    title: str
    message: str
    author: str
    date: datetime
    tree: Tree


class Discussion(Record):
    """A pull request, whose files are those of refs/pr/NUMBER."""

    number: int
    title: str
    author: str
    created_at: datetime
    status: Literal["open", "draft", "closed", "merged"] = "open"


class Repository(Record):
    """A repository's settings and where its references point; commits are kept apart."""

    kind: Kind
    id: str
    private: bool
    gated: Literal[False, "auto", "manual"] = False
    created_at: datetime
    changed_at: datetime
    refs: dict[str, str] = Field(default_factory=dict)
    discussions: tuple[Discussion, ...] = ()
    sdk: str | None = None
    former: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[Kind, str]:
        """What the repository is found by: names differ by more than their case."""
        return self.kind, self.id.lower()

    @property
    def path(self) -> str:
        """The repository's place in an address: ORG/NAME, with a prefix unless it is a model."""
        return self.id if self.kind == "model" else f"{self.kind}s/{self.id}"


def git_oid(kind: str, content: bytes) -> str:
    """Return the SHA-1 under which git knows an object."""
    return hashlib.sha1(f"{kind} {len(content)}\0".encode() + content).hexdigest()


def pointer(sha256: str, size: int) -> bytes:
    """Return the text that stands in git for a large file (LFS pointer, version 1)."""
    return f"version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {size}\n".encode()


class Hub:
    """What requests work on, the contents of files in a folder; `organisations` are namespaces that all may write to, None = any.

    `readers` are the tokens that may only read, `scopes` what fine-grained ones may, as whoami tells it; `grouped`
    organisations want a resource group for what is made there.
    """

    def __init__(
        self,
        folder: Path,
        tokens: Mapping[str, str],
        organisations: tuple[str, ...] | None = None,
        *,
        redirects: bool = False,
    ) -> None:
        self.readers: frozenset[str] = frozenset()
        self.scopes: dict[str, dict[str, Any]] = {}
        self.grouped: set[str] = set()
        self.tokens = tokens
        self.organisations, self.redirects = organisations, redirects
        self.log: deque[Logged] = deque(maxlen=20_000)
        self.faults: list[InjectedFault] = []
        self.collections: dict[str, dict[str, Any]] = {}
        self.spaces: dict[str, dict[str, Any]] = {}
        self.xet = folder / "xet-storage"
        self.contents = folder / "objects"
        self.contents.mkdir(parents=True, exist_ok=True)
        self._known: dict[tuple[Kind, str], Repository] = {}
        self._commits: dict[tuple[Kind, str], dict[str, Commit]] = {}

    def content(self, sha256: str) -> Path | None:
        """Return where a content lies, None if it is not here; what is under its final name is whole."""
        if not (path := self.contents / sha256).is_file() and (found := self.in_xet(sha256)):
            xet.fetch(self.xet, found, unfinished := self.unfinished())
            unfinished.replace(path)
        return path if path.is_file() else None

    def in_xet(self, sha256: str) -> xet.Stored | None:
        """Return what Xet storage knows a content by, None where it came another way."""
        return next((each for each in xet.stored(self.xet) if each.sha256 == sha256), None)

    def unfinished(self) -> Path:
        """Return a name for a content that is not whole yet."""
        handle, name = tempfile.mkstemp(dir=self.contents, suffix=".part")
        os.close(handle)
        return Path(name)

    def keep(self, content: bytes) -> Entry:
        """Keep a small file and return its entry."""
        unfinished, sha256 = self.unfinished(), hashlib.sha256(content).hexdigest()
        unfinished.write_bytes(content)
        unfinished.replace(self.contents / sha256)
        return Entry(sha256=sha256, size=len(content), oid=git_oid("blob", content))

    def find(self, kind: Kind, name: str) -> Repository | None:
        """Return the repository that has or had this name, whatever its case; None if there is none."""
        olds = (each for each in self._known.values() if each.kind == kind and name.lower() in each.former)
        return self._known.get((kind, name.lower())) or next(olds, None)

    def move(self, repository: Repository, name: str) -> None:
        """Give a repository another name; its former ones lead there."""
        moved = repository.model_copy(update={"id": name, "former": (*repository.former, repository.id.lower())})
        del self._known[repository.key]
        self._commits[moved.key] = self._commits.pop(repository.key)
        self.save(moved)

    def save(self, repository: Repository) -> Repository:
        """Keep a repository's settings."""
        self._known[repository.key] = repository
        self._commits.setdefault(repository.key, {})
        return repository

    def remove(self, repository: Repository) -> None:
        """Forget a repository."""
        del self._known[repository.key], self._commits[repository.key]

    def add(
        self, repository: Repository, ref: str, title: str, author: str, tree: Tree, message: str = ""
    ) -> tuple[Repository, Commit]:
        """Append a commit and let its reference point to it."""
        date, oid = datetime.now(UTC), uuid.uuid4().hex + uuid.uuid4().hex[:8]
        told = {"parent": repository.refs.get(ref), "title": title, "message": message, "author": author}
        commit = Commit.model_validate({"oid": oid, "date": date, "tree": tree, **told})
        refs = {**repository.refs, ref: oid}
        saved = self.save(repository.model_copy(update={"refs": refs, "changed_at": date}))
        self._commits[saved.key][oid] = commit
        return saved, commit

    def commit(self, repository: Repository, revision: str) -> Commit:
        """Return the commit that a branch, tag, reference or number stands for; Refusal if none."""
        commits = self._commits[repository.key]
        named = (repository.refs.get(ref) for ref in (revision, HEADS + revision, TAGS + revision))
        found = commits.get(next(filter(None, named), revision))
        if found is None:
            raise Refusal(404, f"Invalid rev id: {revision}", "RevisionNotFound")
        return found

    def squash(self, repository: Repository, title: str, author: str) -> None:
        """Make one commit without a parent of all that main holds; tags keep what they named."""
        head = self.commit(repository, "main")
        without = {ref: oid for ref, oid in repository.refs.items() if ref != MAIN}
        self.add(repository.model_copy(update={"refs": without}), MAIN, title, author, head.tree)

    def history(self, repository: Repository, revision: str = "main") -> Iterator[Commit]:
        """Yield the commit of a revision and those before it, newest first."""
        found: Commit | None = self.commit(repository, revision)
        while found is not None:
            yield found
            found = self._commits[repository.key].get(found.parent or "")

    def may_write(self, user: str | None, name: str) -> bool:
        """Whether a user may write to ORG/NAME."""
        namespace = name.split("/")[0]
        return user is not None and (self.organisations is None or namespace == user or namespace in self.organisations)

    def allowed(self, kind: Kind, name: str, user: str | None, right: Right) -> Repository:
        """Return a repository if the user has this right to it; a private one of others is not there."""
        repository, is_owner = self.find(kind, name), self.may_write(user, name)
        if right == "write" and user is None:
            raise Refusal(401, "Invalid username or password.")
        if repository is None or (repository.private and not is_owner):
            raise Refusal(404 if user else 401, "Repository not found", "RepoNotFound")
        if right == "read" and repository.gated and not is_owner:
            raise Refusal(403 if user else 401, f"Access to {name} is restricted", "GatedRepo")
        if right == "write" and not is_owner:
            raise Refusal(403, f"Forbidden: {user} may not write to {name}")
        return repository
