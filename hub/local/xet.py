"""Xet uploads: the client's own library stores chunks in a folder (`local://`); here they become files.

The folder's shards say which xet name belongs to which SHA-256. A shard is read as it is laid out in
hf-xet 1.8: records of 48 bytes; a hash is four little-endian 64-bit numbers; a file's header carries
flags and the number of its segments; bit 31 announces verification records, bit 30 a record with the
SHA-256.
"""

import hashlib
import os
import shutil
import struct
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import hf_xet

from hub.local.objects import Objects
from hub.local.refusal import Refusal

RECORD = 48
LAST = b"\xff" * 32
VERIFIED, HASHED = 1 << 31, 1 << 30
CHUNKS = "xet/xorbs"
HOUR = 3600
LIBRARY: Any = hf_xet
"""It is compiled and carries no types."""


class Stored(NamedTuple):
    """A file in the xet store: its name there and its size in bytes."""

    name: str
    size: int


def scheme(folder: Path) -> str:
    """Return the address that makes the client's xet library work on a folder."""
    return f"local://{folder}"


def find(folder: Path, sha256: str) -> Stored | None:
    """Return the xet file with this SHA-256, None if no shard names it."""
    for shard in sorted((folder / CHUNKS / "shards").glob("*.mdb")):
        found = shard_files(shard.read_bytes()).get(sha256)
        if found is not None:
            return found
    return None


def shard_files(shard: bytes) -> dict[str, Stored]:
    """Return the files that a shard describes, by their SHA-256."""
    found: dict[str, Stored] = {}
    at = RECORD
    while at + RECORD <= len(shard) and shard[at : at + 32] != LAST:
        name = _hexadecimal(shard[at : at + 32])
        flags, segments = struct.unpack("<II", shard[at + 32 : at + 40])
        at += RECORD
        sizes = (
            struct.unpack_from("<I", shard, at + RECORD * each + 36)[0] for each in range(segments)
        )
        size = sum(sizes)
        at += RECORD * segments * (2 if flags & VERIFIED else 1)
        if flags & HASHED:
            found[_hexadecimal(shard[at : at + 32])] = Stored(name, size)
            at += RECORD
    return found


def bring(folder: Path, sha256: str, objects: Objects) -> str | None:
    """Make a xet upload an object of the Hub and return its xet name; None if it is not there."""
    stored = find(folder, sha256)
    if stored is None or objects.has(sha256):
        return stored.name if stored else None
    unfinished = objects.unfinished()
    view = Path(tempfile.mkdtemp(dir=objects.folder.parent, prefix="view-"))
    try:
        _copy_view(folder, view)
        _download(view, stored, unfinished)
        if hashlib.sha256(unfinished.read_bytes()).hexdigest() != sha256:
            raise Refusal(400, f"the xet upload of {sha256} is not whole")
        unfinished.replace(objects.path(sha256))
    finally:
        unfinished.unlink(missing_ok=True)
        shutil.rmtree(view, ignore_errors=True)
    return stored.name


def _copy_view(folder: Path, view: Path) -> None:
    """Make the store readable beside the client, whose process holds the lock on its database."""
    for file in (folder / CHUNKS).rglob("*"):
        if file.is_file():
            target = view / file.relative_to(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            if file.suffix == ".redb":
                shutil.copy(file, target)
            else:
                os.link(file, target)


def _download(view: Path, stored: Stored, target: Path) -> None:
    expiry = int(time.time()) + HOUR
    group = LIBRARY.XetSession().new_file_download_group(
        endpoint=scheme(view), token="local", token_expiry_unix_secs=expiry
    )
    with group as running:
        running.start_download_file(LIBRARY.XetFileInfo(stored.name, stored.size), str(target))


def _hexadecimal(digest: bytes) -> str:
    return "".join(f"{part:016x}" for part in struct.unpack("<4Q", digest))
