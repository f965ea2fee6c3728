"""The local Hub's state: who may do what, the repositories, the objects, and what was asked of it."""

import hashlib
import json
import os
import shutil
import tempfile
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, Field
from starlette.requests import Request

from evals.io import write_whole
from evals.schema import Record


class Refusal(Exception):
    """An error for the client: status, the Hub's own error code (typed exceptions hang on it), words."""

    def __init__(self, status: int, message: str, code: str = "", headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.headers = status, code, dict(headers or {})


def stamp(moment: datetime) -> str:
    """Return a time as the Hub writes it."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.000Z")


@dataclass
class Fault:
    """Trouble for the next `times` requests whose path matches `match`.

    `status` answers with an error, `drop` breaks the connection. With `after` the request is carried out first.
    """

    method: str = "(POST|PUT)"
    match: str = ""
    status: int | None = None
    drop: bool = False
    after: bool = False
    times: int = 1


OLDER = ConfigDict(frozen=True, extra="ignore")
"""Folders of earlier versions hold more fields."""


class Entry(Record):
    """A file in a commit: its content's SHA-256, and the git number that the Hub names it by."""

    model_config = OLDER
    sha256: str
    size: int
    oid: str
    is_lfs: bool = False


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

    def large(self, sha256: str) -> Entry:
        """Return the entry of a content that was uploaded before."""
        size = self.path(sha256).stat().st_size
        oid = git_oid("blob", pointer(sha256, size))
        return Entry(sha256=sha256, size=size, oid=oid, is_lfs=True)

    def unfinished(self) -> Path:
        """Return a name for a content that is not whole yet."""
        handle, name = tempfile.mkstemp(dir=self.folder, suffix=".part")
        os.close(handle)
        return Path(name)


Kind = Literal["model", "dataset", "space"]
Right = Literal["see", "read", "write"]
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
    """A pull request, whose files are those of refs/pr/NUMBER."""

    model_config = OLDER
    number: int
    title: str
    author: str
    created_at: datetime
    status: Literal["open", "draft", "closed", "merged"] = "open"


class Repository(Record):
    """A repository's settings and where its references point; commits are kept apart."""

    model_config = OLDER
    kind: Kind
    id: str
    private: bool
    gated: Literal[False, "auto", "manual"] = False
    created_at: datetime
    changed_at: datetime
    refs: dict[str, str] = Field(default_factory=dict)
    discussions: tuple[Discussion, ...] = ()
    sdk: str | None = None

    @property
    def path(self) -> str:
        """The repository's place in an address: ORG/NAME, with a prefix unless it is a model."""
        return self.id if self.kind == "model" else f"{self.kind}s/{self.id}"


class Repositories:
    """All repositories under one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[tuple[Kind, str], Repository] = {}
        self._commits: dict[tuple[Kind, str], dict[str, Commit]] = {}
        for file in sorted(folder.glob("*/*/*/repository.json")):
            repository = Repository.model_validate_json(file.read_text(encoding="utf-8"))
            commits = [Commit.model_validate_json(each.read_text()) for each in file.parent.glob("commits/*.json")]
            self._known[_key(repository)] = repository
            self._commits[_key(repository)] = {commit.oid: commit for commit in commits}

    def find(self, kind: Kind, name: str) -> Repository | None:
        """Return a repository, None if there is none of that name."""
        return self._known.get((kind, name))

    def save(self, repository: Repository) -> Repository:
        """Write a repository's settings, and only then let them count."""
        write_whole(self._place(repository) / "repository.json", repository.model_dump_json(indent=1))
        self._known[_key(repository)] = repository
        self._commits.setdefault(_key(repository), {})
        return repository

    def remove(self, repository: Repository) -> None:
        """Forget a repository and remove its folder."""
        del self._known[_key(repository)], self._commits[_key(repository)]
        shutil.rmtree(self._place(repository))

    def add(
        self, repository: Repository, ref: str, title: str, author: str, tree: Tree, message: str = ""
    ) -> tuple[Repository, Commit]:
        """Append a commit and let its reference point to it."""
        date, parent = datetime.now(UTC), repository.refs.get(ref)
        files = [[path, entry.oid] for path, entry in sorted(tree.items())]
        number = len(self._commits.get(_key(repository), {}))
        identity = json.dumps([parent, title, message, date.isoformat(), number, *files])
        oid = hashlib.sha1(identity.encode()).hexdigest()
        commit = Commit(oid=oid, parent=parent, date=date, title=title, message=message, author=author, tree=tree)
        write_whole(self._place(repository) / "commits" / f"{oid}.json", commit.model_dump_json())
        refs = {**repository.refs, ref: oid}
        saved = self.save(repository.model_copy(update={"refs": refs, "changed_at": date}))
        self._commits[_key(saved)][oid] = commit
        return saved, commit

    def commit(self, repository: Repository, revision: str) -> Commit:
        """Return the commit that a branch, tag, reference or number stands for; Refusal if none."""
        commits = self._commits[_key(repository)]
        for ref in (revision, HEADS + revision, TAGS + revision):
            if ref in repository.refs:
                return commits[repository.refs[ref]]
        if revision in commits:
            return commits[revision]
        raise Refusal(404, f"Invalid rev id: {revision}", "RevisionNotFound")

    def history(self, repository: Repository, commit: Commit) -> Iterator[Commit]:
        """Yield a commit and those before it, newest first."""
        commits = self._commits[_key(repository)]
        found: Commit | None = commit
        while found is not None:
            yield found
            found = commits.get(found.parent or "")

    def _place(self, repository: Repository) -> Path:
        return self._folder / f"{repository.kind}s" / repository.id


def _key(repository: Repository) -> tuple[Kind, str]:
    return repository.kind, repository.id


@dataclass(frozen=True)
class Options:
    """How the Hub behaves.

    `tokens` name the users; `organisations` are the namespaces that every user may write to, None =
    all of them. `redirects` sends readers of large files to another host name, as the real Hub does.
    """

    tokens: Mapping[str, str] = field(default_factory=lambda: {"hf_local": "you"})
    organisations: tuple[str, ...] | None = None
    redirects: bool = False


@dataclass(frozen=True)
class Logged:
    """A line of the log: what was asked and how it was answered."""

    method: str
    path: str
    status: int


class Hub:
    """Everything that requests work on."""

    def __init__(self, folder: Path, options: Options | None = None) -> None:
        self.options = options or Options()
        self.objects = Objects(folder / "objects")
        self.repositories = Repositories(folder / "repos")
        self.log: deque[Logged] = deque(maxlen=20_000)
        self.faults: list[Fault] = []
        self.jobs: list[dict[str, Any]] = []

    def may_write(self, user: str | None, name: str) -> bool:
        """Whether a user may write to ORG/NAME."""
        namespace = name.split("/")[0]
        organisations = self.options.organisations
        return user is not None and (organisations is None or namespace == user or namespace in organisations)

    def find(self, kind: Kind, name: str, user: str | None, right: Right) -> Repository:
        """Return a repository if the user has this right to it; a private one of others is not there."""
        repository, is_owner = self.repositories.find(kind, name), self.may_write(user, name)
        if right == "write" and user is None:
            raise Refusal(401, "Invalid username or password.")
        if repository is None or (repository.private and not is_owner):
            raise Refusal(404 if user else 401, "Repository not found", "RepoNotFound")
        if right == "read" and repository.gated and not is_owner:
            raise Refusal(403 if user else 401, f"Access to {name} is restricted", "GatedRepo")
        if right == "write" and not is_owner:
            raise Refusal(403, f"Forbidden: {user} may not write to {name}")
        return repository


KINDS: dict[str, Kind] = {"models": "model", "datasets": "dataset", "spaces": "space"}


@dataclass(frozen=True)
class Call:
    """A request with its address taken apart; `body` is empty for uploads, which are streamed."""

    hub: Hub
    request: Request
    parts: dict[str, str]
    body: bytes = b""

    @property
    def base(self) -> str:
        """The address of this Hub, without a slash at the end."""
        return str(self.request.base_url).rstrip("/")

    @property
    def user(self) -> str | None:
        """Who asks, None without a token; Refusal for a token that is not known."""
        token = self.request.headers.get("authorization", "").removeprefix("Bearer ").strip()
        if token and token not in self.hub.options.tokens:
            raise Refusal(401, "Invalid credentials in Authorization header")
        return self.hub.options.tokens.get(token)

    @property
    def known_user(self) -> str:
        """Who asks; Refusal for nobody."""
        if self.user is None:
            raise Refusal(401, "Invalid username or password.")
        return self.user

    @property
    def is_pull_request(self) -> bool:
        """Whether what is asked shall become a pull request."""
        return self.request.query_params.get("create_pr") == "1"

    def document(self) -> dict[str, Any]:
        """Return the JSON object of the body."""
        return json.loads(self.body or b"{}")

    def repository(self, right: Right) -> Repository:
        """Return the repository of the address, if this user has this right to it."""
        name = f"{self.parts['org']}/{self.parts['name'].removesuffix('.git')}"
        return self.hub.find(KINDS[self.parts.get("kind", "models")], name, self.user, right)
