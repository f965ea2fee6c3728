"""Handlers: where large files go, by LFS or by xet."""

import hashlib
import os
import shutil
import struct
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import hf_xet
from starlette.responses import JSONResponse, Response

from hub.local.state import Call, Objects, Refusal

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
    shards = sorted((folder / CHUNKS / "shards").glob("*.mdb"))
    stored = next((found[sha256] for shard in shards if sha256 in (found := shard_files(shard.read_bytes()))), None)
    if stored is None or objects.has(sha256):
        return stored.name if stored else None
    unfinished = objects.unfinished()
    view = Path(tempfile.mkdtemp(dir=objects.folder.parent, prefix="view-"))
    try:
        # The client's process holds the lock on the store's database, so a copy is read.
        for file in (folder / CHUNKS).rglob("*"):
            if file.is_file():
                target = view / file.relative_to(folder)
                target.parent.mkdir(parents=True, exist_ok=True)
                (shutil.copy if file.suffix == ".redb" else os.link)(file, target)
        group = LIBRARY.XetSession().new_file_download_group(
            endpoint=f"local://{view}", token="local", token_expiry_unix_secs=int(time.time()) + HOUR
        )
        with group as running:
            running.start_download_file(LIBRARY.XetFileInfo(stored.name, stored.size), str(unfinished))
        if hashlib.sha256(unfinished.read_bytes()).hexdigest() != sha256:
            raise Refusal(400, f"the xet upload of {sha256} is not whole")
        unfinished.replace(objects.path(sha256))
    finally:
        unfinished.unlink(missing_ok=True)
        shutil.rmtree(view, ignore_errors=True)
    return stored.name


def _hexadecimal(digest: bytes) -> str:
    return "".join(f"{part:016x}" for part in struct.unpack("<4Q", digest))


def batch(call: Call) -> Response:
    """Say where each object goes; one that is here gets no address, so nobody sends it again."""
    wanted = call.document()
    call.repository("write" if wanted.get("operation") == "upload" and "ref" in wanted else "read")
    objects = []
    for each in wanted.get("objects", []):
        one = {"oid": each["oid"], "size": each["size"], "authenticated": True}
        if not call.hub.objects.has(each["oid"]):
            place = f"{call.base}/_lfs/{each['oid']}"
            one["actions"] = {"upload": {"href": place}, "verify": {"href": f"{place}/verify"}}
        objects.append(one)
    return JSONResponse({"transfer": "basic", "objects": objects})


async def receive(call: Call) -> Response:
    """Keep an object as it is sent, never whole in memory; 400 if it is not what was announced."""
    sha256, objects, digest = call.parts["sha256"], call.hub.objects, hashlib.sha256()
    unfinished = objects.unfinished()
    try:
        with unfinished.open("wb") as file:
            async for chunk in call.request.stream():
                digest.update(chunk)
                file.write(chunk)
        if digest.hexdigest() != sha256:
            raise Refusal(400, f"the content's sha256 is {digest.hexdigest()}, not {sha256}")
        unfinished.replace(objects.path(sha256))
    finally:
        unfinished.unlink(missing_ok=True)
    return Response(headers={"ETag": f'"{sha256}"'})


def verify(call: Call) -> Response:
    """Say whether an object is here, whole."""
    wanted = call.document()
    path = call.hub.objects.path(call.parts["sha256"])
    if not path.is_file() or path.stat().st_size != wanted.get("size"):
        raise Refusal(400, "the object is not here, or has another size")
    return JSONResponse({})


def read_token(call: Call) -> Response:
    """Give leave to read from the xet store."""
    call.repository("read")
    return _token(call)


def write_token(call: Call) -> Response:
    """Give leave to write to the xet store."""
    call.repository("read" if call.is_pull_request else "write")
    return _token(call)


def _token(call: Call) -> Response:
    folder = call.hub.options.xet
    if folder is None:
        raise Refusal(404, "this Hub offers no xet store; set HF_HUB_DISABLE_XET=1")
    place, expiry = f"local://{folder}", int(time.time()) + HOUR
    headers = {"X-Xet-Cas-Url": place, "X-Xet-Token-Expiration": str(expiry), "X-Xet-Access-Token": "local"}
    return JSONResponse({"casUrl": place, "exp": expiry, "accessToken": "local"}, headers=headers)
