"""Handlers: where large files go, by LFS or by xet."""

import hashlib
import json
import os
import shutil
import struct
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import hf_xet
from starlette.responses import Response

from hub.local.state import Call, Objects, Refusal, answer

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
        sizes = (struct.unpack_from("<I", shard, at + RECORD * each + 36)[0] for each in range(segments))
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


def batch(call: Call) -> Response:
    """Say where each object goes; one that is here gets no address, so nobody sends it again."""
    wanted = call.document()
    if wanted.get("operation") == "upload":
        call.writable()
    else:
        call.readable()
    objects = []
    for each in wanted.get("objects", []):
        one = {"oid": each["oid"], "size": each["size"], "authenticated": True}
        if not call.hub.objects.has(each["oid"]):
            place = f"{call.base}/_lfs/{each['oid']}"
            one["actions"] = {
                "upload": {"href": place, "header": {}},
                "verify": {"href": f"{place}/verify", "header": {}},
            }
        objects.append(one)
    return answer({"transfer": "basic", "objects": objects})


async def receive(call: Call) -> Response:
    """Keep an object as it is sent."""
    await call.hub.objects.receive(call.parts["sha256"], call.request.stream())
    return Response(headers={"ETag": f'"{call.parts["sha256"]}"'})


async def verify(call: Call) -> Response:
    """Say whether an object is here, whole."""
    wanted = json.loads(await call.request.body())
    path = call.hub.objects.path(call.parts["sha256"])
    if not path.is_file() or path.stat().st_size != wanted.get("size"):
        raise Refusal(400, "the object is not here, or has another size")
    return answer({})


def read_token(call: Call) -> Response:
    """Give leave to read from the xet store."""
    call.readable()
    return _token(call)


def write_token(call: Call) -> Response:
    """Give leave to write to the xet store."""
    if call.is_pull_request:
        call.readable()
    else:
        call.writable()
    return _token(call)


def _token(call: Call) -> Response:
    folder = call.hub.options.xet
    if folder is None:
        raise Refusal(404, "this Hub offers no xet store; set HF_HUB_DISABLE_XET=1")
    place, expiry = scheme(folder), int(time.time()) + HOUR
    headers = {
        "X-Xet-Cas-Url": place,
        "X-Xet-Token-Expiration": str(expiry),
        "X-Xet-Access-Token": "local",
    }
    return answer({"casUrl": place, "exp": expiry, "accessToken": "local"}, headers=headers)
