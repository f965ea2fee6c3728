"""Xet in the local Hub: clients store into a folder, by hf_xet's own `local://` storage, and what they stored is read from there."""

import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import hf_xet

HEADER, RECORD = 48, 48
"""Bytes before a shard's first file, and of each of its records."""
HAS_VERIFICATION, HAS_SHA256 = 1 << 31, 1 << 30
SECONDS = 3600
"""How long a token is said to hold."""


class Stored(NamedTuple):
    """A file in Xet storage: Xet's hash and the SHA-256 of its content, its size in bytes."""

    xet: str
    sha256: str
    size: int


def _name(content: bytes) -> str:
    return "".join(f"{int.from_bytes(content[at : at + 8], 'little'):016x}" for at in range(0, 32, 8))


def stored(folder: Path) -> Iterator[Stored]:
    """Yield the files of a storage, as its shards list them."""
    for shard in folder.glob("xet/xorbs/shards/*.mdb"):
        data, at = shard.read_bytes(), HEADER
        while data[at : at + 32] != b"\xff" * 32:
            flags, count = (int.from_bytes(data[at + start : at + start + 4], "little") for start in (32, 36))
            sizes = (at + RECORD * number + 36 for number in range(1, count + 1))
            size = sum(int.from_bytes(data[start : start + 4], "little") for start in sizes)
            end = at + RECORD * (1 + count * (2 if flags & HAS_VERIFICATION else 1))
            yield Stored(_name(data[at : at + 32]), _name(data[end : end + 32]), size)
            at = end + RECORD * bool(flags & HAS_SHA256)


def connection(folder: Path) -> tuple[dict[str, object], dict[str, str]]:
    """Return what a client is told to reach the storage: the answer, as hf_xet reads it, and headers, as huggingface_hub does."""
    told = {"casUrl": f"local://{folder}", "accessToken": "local", "exp": int(time.time()) + SECONDS}
    names = ("X-Xet-Cas-Url", "X-Xet-Access-Token", "X-Xet-Token-Expiration")
    return told, dict(zip(names, map(str, told.values()), strict=True))


def fetch(folder: Path, file: Stored, target: Path) -> None:
    """Put a file of the storage at `target`; a copy of the storage is read, since a client's process may hold it open."""
    with tempfile.TemporaryDirectory() as place:
        shutil.copytree(folder / "xet", Path(place) / "xet")
        where = {"endpoint": f"local://{place}", "token": "local", "token_expiry_unix_secs": int(time.time()) + SECONDS}
        with hf_xet.XetSession().new_file_download_group(**where) as group:
            group.start_download_file(hf_xet.XetFileInfo(file.xet, file.size), str(target))
