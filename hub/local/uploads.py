"""Handlers: where large files go, by LFS."""

import hashlib

from starlette.responses import JSONResponse, Response

from hub.local.state import Call, Refusal


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
