"""Repositories: their commits, branches, tags and settings, each change written before it counts.

repos/models/ORG/NAME/repository.json     settings and what each branch, tag and pull request points to
repos/models/ORG/NAME/commits/OID.json    one commit: its parent and all its files
"""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Literal

from pydantic import Field

from evals.schema import Record
from hub.local.objects import Entry
from hub.local.refusal import unknown_revision

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
