"""Handlers: where large files go, by LFS or by xet."""

import json
import time

from starlette.responses import Response

from hub.local import xet
from hub.local.call import Call, answer
from hub.local.refusal import Refusal

HOUR = 3600


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
    place, expiry = xet.scheme(folder), int(time.time()) + HOUR
    headers = {
        "X-Xet-Cas-Url": place,
        "X-Xet-Token-Expiration": str(expiry),
        "X-Xet-Access-Token": "local",
    }
    return answer({"casUrl": place, "exp": expiry, "accessToken": "local"}, headers=headers)
