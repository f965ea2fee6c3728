"""Contents of files, kept once each under their SHA-256."""

import hashlib
import os
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from evals.schema import Record
from hub.local.refusal import Refusal


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
    return (
        f"version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {size}\n".encode()
    )


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
