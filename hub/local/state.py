"""The local Hub's state: who may do what, the repositories, the objects, and what was asked of it."""

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import Field
from starlette.requests import Request as RequestsRequest
from starlette.responses import JSONResponse

from evals.schema import Record


class Refusal(Exception):
    """An error for the client: status, the Hub's own error code (typed exceptions hang on it), words."""

    def __init__(
        self,
        status: int,
        message: str,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.headers = dict(headers or {})


def unknown_entry(path: str, commit: str) -> Refusal:
    """Return the refusal for a file that a commit does not hold; clients remember it by the commit."""
    return Refusal(404, f"there is no {path} in commit {commit}", "EntryNotFound", {"X-Repo-Commit": commit})


def unknown_revision(revision: str) -> Refusal:
    """Return the refusal for a branch, tag or commit that is not there."""
    return Refusal(404, f"Invalid rev id: {revision}", "RevisionNotFound")


@dataclass
class Fault:
    """One kind of trouble; `times` counts down, `skip` lets that many matching requests through first.

    `status` answers with an error, `drop` breaks the connection, `delay_seconds` waits first. With
    `after` the request is carried out before the trouble strikes.
    """

    method: str
    match: str
    status: int | None = None
    drop: bool = False
    delay_seconds: float = 0.0
    after: bool = False
    times: int = 1
    skip: int = 0


def strike(faults: list[Fault], method: str, path: str) -> Fault | None:
    """Return the fault that befalls a request, counted down; None if it goes well."""
    for fault in faults:
        if fault.times < 1 or fault.method not in ("*", method):
            continue
        if re.search(fault.match, path) is None:
            continue
        if fault.skip > 0:
            fault.skip -= 1
            continue
        fault.times -= 1
        return fault
    return None


class Entry(Record):
    """A file in a commit: its content's SHA-256, and the git number that the Hub names it by.

    `xet` is the content's name in the xet store; None for what was uploaded otherwise.
    """

    sha256: str
    size: int
    oid: str
    is_lfs: bool = False
    xet: str | None = None


def git_oid(kind: str, content: bytes) -> str:
    """Return the SHA-1 under which git knows an object."""
    return hashlib.sha1(f"{kind} {len(content)}\0".encode() + content).hexdigest()


def pointer(sha256: str, size: int) -> bytes:
    """Return the text that stands in git for a large file (LFS pointer, version 1)."""
    return f"version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {size}\n".encode()


class Objects:
    """A folder of contents. What is under its final name is whole."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def path(self, sha256: str) -> Path:
        """Return where a content lies or would lie."""
        return self.folder / sha256

    def has(self, sha256: str) -> bool:
        """Whether the content is here, whole."""
        return self.path(sha256).is_file()

    def read(self, sha256: str) -> bytes:
        """Return a content."""
        return self.path(sha256).read_bytes()

    def add(self, content: bytes) -> Entry:
        """Keep a small file and return its entry."""
        sha256 = hashlib.sha256(content).hexdigest()
        if not self.has(sha256):
            unfinished = self.unfinished()
            unfinished.write_bytes(content)
            unfinished.replace(self.path(sha256))
        return Entry(sha256=sha256, size=len(content), oid=git_oid("blob", content))

    def large(self, sha256: str, xet: str | None = None) -> Entry:
        """Return the entry of a content that was uploaded before."""
        size = self.path(sha256).stat().st_size
        oid = git_oid("blob", pointer(sha256, size))
        return Entry(sha256=sha256, size=size, oid=oid, is_lfs=True, xet=xet)

    async def receive(self, sha256: str, chunks: AsyncIterator[bytes]) -> None:
        """Keep what a client sends, never whole in memory; Refusal if it is not what was announced."""
        digest = hashlib.sha256()
        unfinished = self.unfinished()
        try:
            with unfinished.open("wb") as file:
                async for chunk in chunks:
                    digest.update(chunk)
                    file.write(chunk)
            if digest.hexdigest() != sha256:
                raise Refusal(400, f"the content's sha256 is {digest.hexdigest()}, not {sha256}")
            unfinished.replace(self.path(sha256))
        finally:
            unfinished.unlink(missing_ok=True)

    def unfinished(self) -> Path:
        """Return a name for a content that is not whole yet."""
        handle, name = tempfile.mkstemp(dir=self.folder, suffix=".part")
        os.close(handle)
        return Path(name)


Kind = Literal["model", "dataset", "space"]
Tree = dict[str, Entry]
HEADS, TAGS, PULLS = "refs/heads/", "refs/tags/", "refs/pr/"
MAIN = f"{HEADS}main"


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
    """A discussion or a pull request, whose files are those of refs/pr/NUMBER."""

    number: int
    title: str
    description: str
    author: str
    created_at: datetime
    is_pull_request: bool
    status: Literal["open", "draft", "closed", "merged"]
    merge_commit: str | None = None


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
    hardware: str | None = None
    variables: dict[str, str] = Field(default_factory=dict)
    secrets: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        """The repository's place in an address: ORG/NAME, with a prefix unless it is a model."""
        return self.id if self.kind == "model" else f"{self.kind}s/{self.id}"


class NewCommit(Record):
    """What a commit is made of, before it has a number and a date."""

    ref: str
    title: str
    message: str = ""
    author: str
    tree: Tree
    parent: str | None = None


class Repositories:
    """All repositories under one folder."""

    def __init__(self, folder: Path, now: Callable[[], datetime]) -> None:
        self._folder = folder
        self._now = now
        self._known: dict[tuple[Kind, str], Repository] = {}
        self._commits: dict[tuple[Kind, str], dict[str, Commit]] = {}
        for file in sorted(folder.glob("*/*/*/repository.json")):
            repository = Repository.model_validate_json(file.read_text(encoding="utf-8"))
            commits = (
                Commit.model_validate_json(each.read_text(encoding="utf-8"))
                for each in (file.parent / "commits").glob("*.json")
            )
            self._known[_key(repository)] = repository
            self._commits[_key(repository)] = {commit.oid: commit for commit in commits}

    def __iter__(self) -> Iterator[Repository]:
        return iter(tuple(self._known.values()))

    def find(self, kind: Kind, name: str) -> Repository | None:
        """Return a repository, None if there is none of that name."""
        return self._known.get((kind, name))

    def save(self, repository: Repository) -> Repository:
        """Write a repository's settings, and only then let them count."""
        _write(self._place(repository) / "repository.json", repository.model_dump_json(indent=1))
        self._known[_key(repository)] = repository
        self._commits.setdefault(_key(repository), {})
        return repository

    def remove(self, repository: Repository) -> None:
        """Forget a repository and remove its folder."""
        del self._known[_key(repository)], self._commits[_key(repository)]
        shutil.rmtree(self._place(repository))

    def move(self, repository: Repository, name: str) -> Repository:
        """Give a repository another name."""
        moved = repository.model_copy(update={"id": name})
        commits = self._commits[_key(repository)]
        for commit in commits.values():
            self._write_commit(moved, commit)
        self.save(moved)
        self._commits[_key(moved)] = commits
        self.remove(repository)
        return moved

    def add(self, repository: Repository, new: NewCommit) -> tuple[Repository, Commit]:
        """Append a commit and let its reference point to it."""
        date = self._now()
        parent = new.parent or repository.refs.get(new.ref)
        identity = json.dumps(
            [parent, new.title, new.message, date.isoformat(), len(self._commits_of(repository))]
            + [[path, entry.oid] for path, entry in sorted(new.tree.items())]
        )
        commit = Commit(
            oid=hashlib.sha1(identity.encode()).hexdigest(),
            parent=parent,
            date=date,
            title=new.title,
            message=new.message,
            author=new.author,
            tree=new.tree,
        )
        self._write_commit(repository, commit)
        refs = {**repository.refs, new.ref: commit.oid}
        saved = self.save(repository.model_copy(update={"refs": refs, "changed_at": date}))
        self._commits[_key(saved)][commit.oid] = commit
        return saved, commit

    def commit(self, repository: Repository, revision: str) -> Commit:
        """Return the commit that a branch, tag, reference or number stands for; Refusal if none."""
        commits = self._commits_of(repository)
        for ref in (revision, HEADS + revision, TAGS + revision):
            if ref in repository.refs:
                return commits[repository.refs[ref]]
        if revision in commits:
            return commits[revision]
        raise unknown_revision(revision)

    def history(self, repository: Repository, commit: Commit) -> Iterator[Commit]:
        """Yield a commit and those before it, newest first."""
        commits = self._commits_of(repository)
        found: Commit | None = commit
        while found is not None:
            yield found
            found = commits.get(found.parent or "")

    def _commits_of(self, repository: Repository) -> dict[str, Commit]:
        return self._commits.get(_key(repository), {})

    def _write_commit(self, repository: Repository, commit: Commit) -> None:
        file = self._place(repository) / "commits" / f"{commit.oid}.json"
        _write(file, commit.model_dump_json())

    def _place(self, repository: Repository) -> Path:
        return self._folder / f"{repository.kind}s" / repository.id


def _key(repository: Repository) -> tuple[Kind, str]:
    return repository.kind, repository.id


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    Path(name).replace(path)


REMEMBERED = 20_000
"""Requests that the log keeps."""


@dataclass(frozen=True)
class Options:
    """How the Hub behaves.

    `tokens` name the users; `organisations` are the namespaces that every user may write to, None =
    all of them. `xet` is the folder where xet uploads land, None = only LFS is offered. `redirects`
    sends readers of large files to another host name, as the real Hub does.
    """

    tokens: Mapping[str, str] = field(default_factory=lambda: {"hf_local": "you"})
    organisations: tuple[str, ...] | None = None
    xet: Path | None = None
    redirects: bool = False


@dataclass(frozen=True)
class Request:
    """A line of the log: what was asked and how it was answered."""

    method: str
    path: str
    status: int


class Hub:
    """Everything that requests work on."""

    def __init__(
        self,
        folder: Path,
        options: Options | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.options = options or Options()
        self.now = now
        self.objects = Objects(folder / "objects")
        self.repositories = Repositories(folder / "repos", now)
        self.log: deque[Request] = deque(maxlen=REMEMBERED)
        self.faults: list[Fault] = []
        self.jobs: list[dict[str, Any]] = []

    def user(self, token: str | None) -> str | None:
        """Return who shows a token, None without one; Refusal for one that is not known."""
        if token is None:
            return None
        if token not in self.options.tokens:
            raise Refusal(401, "Invalid credentials in Authorization header")
        return self.options.tokens[token]

    def may_write(self, user: str | None, name: str) -> bool:
        """Whether a user may write to ORG/NAME."""
        namespace = name.split("/")[0]
        organisations = self.options.organisations
        return user is not None and (organisations is None or namespace == user or namespace in organisations)

    def seen(self, kind: Kind, name: str, user: str | None) -> Repository:
        """Return a repository that the user may know of; a private one of others is not there."""
        repository = self.repositories.find(kind, name)
        if repository is None or (repository.private and not self.may_write(user, name)):
            raise Refusal(404 if user else 401, "Repository not found", "RepoNotFound")
        return repository

    def readable(self, kind: Kind, name: str, user: str | None) -> Repository:
        """Return a repository whose files the user may read."""
        repository = self.seen(kind, name, user)
        if repository.gated and not self.may_write(user, name):
            raise Refusal(403 if user else 401, f"Access to {name} is restricted", "GatedRepo")
        return repository

    def writable(self, kind: Kind, name: str, user: str | None) -> Repository:
        """Return a repository that the user may write to."""
        if user is None:
            raise Refusal(401, "Invalid username or password.")
        repository = self.seen(kind, name, user)
        if not self.may_write(user, name):
            raise Refusal(403, f"Forbidden: {user} may not write to {name}")
        return repository


KINDS: dict[str, Kind] = {"models": "model", "datasets": "dataset", "spaces": "space"}


@dataclass(frozen=True)
class Call:
    """A request with its address taken apart; `body` is empty for uploads, which are streamed."""

    hub: Hub
    request: RequestsRequest
    parts: dict[str, str]
    body: bytes = b""

    @property
    def base(self) -> str:
        """The address of this Hub, without a slash at the end."""
        return str(self.request.base_url).rstrip("/")

    @property
    def user(self) -> str | None:
        """Who asks; Refusal for an unknown token."""
        scheme, _, token = self.request.headers.get("authorization", "").partition(" ")
        return self.hub.user(token.strip() if scheme.lower() == "bearer" and token else None)

    @property
    def known_user(self) -> str:
        """Who asks; Refusal for nobody."""
        user = self.user
        if user is None:
            raise Refusal(401, "Invalid username or password.")
        return user

    @property
    def kind(self) -> Kind:
        """The kind of repository that the address names."""
        return KINDS[self.parts.get("kind", "models")]

    @property
    def name(self) -> str:
        """ORG/NAME of the address."""
        return f"{self.parts['org']}/{self.parts['name'].removesuffix('.git')}"

    @property
    def is_pull_request(self) -> bool:
        """Whether what is asked shall become a pull request."""
        return self.request.query_params.get("create_pr") == "1"

    def document(self) -> dict[str, Any]:
        """Return the JSON object of the body; Refusal if it is none."""
        try:
            found = json.loads(self.body or b"{}")
        except ValueError:
            raise Refusal(400, "the body is not JSON") from None
        if not isinstance(found, dict):
            raise Refusal(400, "the body is no JSON object")
        return found

    def seen(self) -> Repository:
        """Return the repository of the address, if this user may know of it."""
        return self.hub.seen(self.kind, self.name, self.user)

    def readable(self) -> Repository:
        """Return the repository of the address, if this user may read it."""
        return self.hub.readable(self.kind, self.name, self.user)

    def writable(self) -> Repository:
        """Return the repository of the address, if this user may write to it."""
        return self.hub.writable(self.kind, self.name, self.user)


def answer(document: object, status: int = 200, headers: dict[str, str] | None = None) -> JSONResponse:
    """Return a JSON answer."""
    return JSONResponse(document, status, headers=headers)
