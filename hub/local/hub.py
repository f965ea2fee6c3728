"""The local Hub's state: who may do what, the repositories, the objects, and what was asked of it."""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hub.local.faults import Fault
from hub.local.objects import Objects
from hub.local.refusal import Refusal
from hub.local.repositories import Kind, Repositories, Repository

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
        return user is not None and (
            organisations is None or namespace == user or namespace in organisations
        )

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
