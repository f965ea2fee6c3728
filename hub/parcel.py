"""What shall be published: files by their place in the repository, each read and hashed once."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from evals.schema.publishing import Finding, PublicationKind

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
