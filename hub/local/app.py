"""Which request goes to which handler, with faults and refusals on the way.

Addresses are split before they are decoded: a revision such as refs%2Fpr%2F1 is one part of them.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from urllib.parse import unquote

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from hub.local import accounts, commits, discussions, files, machines, uploads
from hub.local.call import KINDS, Call
from hub.local.faults import Fault, strike
from hub.local.hub import Hub
from hub.local.hub import Request as Logged
from hub.local.refusal import Refusal

Handler = Callable[[Call], Response | Awaitable[Response]]
METHODS = ["GET", "HEAD", "POST", "PUT", "DELETE"]
REPO = "api/{kind}/{org}/{name}"
ROUTES: tuple[tuple[str, str, Handler], ...] = (
    ("GET", "api/whoami-v2", accounts.whoami),
    ("GET", "api/agent-harnesses", accounts.harnesses),
    ("POST", "api/repos/create", accounts.create),
    ("DELETE", "api/repos/delete", accounts.delete),
    ("POST", "api/repos/move", accounts.move),
    ("POST", "api/validate-yaml", commits.validate),
    ("POST", "api/jobs/{org}", machines.submit_job),
    ("GET", "api/jobs/{org}", machines.list_jobs),
    ("GET", "api/{kind}", accounts.listing),
    ("GET", REPO, accounts.about),
    ("GET", f"{REPO}/revision/{{revision}}", accounts.about),
    ("GET", f"{REPO}/auth-check", accounts.check_access),
    ("GET", f"{REPO}/auth-check/{{rest}}", accounts.check_access),
    ("PUT", f"{REPO}/settings", accounts.settings),
    ("GET", f"{REPO}/tree/{{revision}}", files.tree),
    ("GET", f"{REPO}/tree/{{revision}}/{{rest}}", files.tree),
    ("POST", f"{REPO}/paths-info/{{revision}}", files.paths),
    ("POST", f"{REPO}/preupload/{{revision}}", commits.preupload),
    ("POST", f"{REPO}/commit/{{revision}}", commits.commit),
    ("GET", f"{REPO}/commits/{{revision}}", commits.history),
    ("GET", f"{REPO}/refs", commits.references),
    ("POST", f"{REPO}/branch/{{revision}}", commits.make_branch),
    ("DELETE", f"{REPO}/branch/{{revision}}", commits.delete_branch),
    ("POST", f"{REPO}/tag/{{revision}}", commits.make_tag),
    ("DELETE", f"{REPO}/tag/{{revision}}", commits.delete_tag),
    ("GET", f"{REPO}/discussions", discussions.listing),
    ("POST", f"{REPO}/discussions", discussions.start),
    ("GET", f"{REPO}/discussions/{{number}}", discussions.show),
    ("POST", f"{REPO}/discussions/{{number}}/merge", discussions.merge),
    ("POST", f"{REPO}/discussions/{{number}}/status", discussions.change_status),
    ("GET", f"{REPO}/xet-read-token/{{revision}}", uploads.read_token),
    ("GET", f"{REPO}/xet-write-token/{{revision}}", uploads.write_token),
    ("GET", f"{REPO}/runtime", machines.runtime),
    ("POST", f"{REPO}/hardware", machines.set_hardware),
    ("POST", f"{REPO}/variables", machines.set_variable),
    ("POST", f"{REPO}/secrets", machines.set_secret),
    ("GET", f"{REPO}/variables", machines.variables),
    ("GET", f"{REPO}/secrets", machines.secrets),
    ("PUT", "_lfs/{sha256}", uploads.receive),
    ("POST", "_lfs/{sha256}/verify", uploads.verify),
    ("GET", "_objects/{sha256}", files.content),
    ("POST", "{kind}/{org}/{name}/info/lfs/objects/batch", uploads.batch),
    ("POST", "{org}/{name}/info/lfs/objects/batch", uploads.batch),
    ("GET", "{kind}/{org}/{name}/resolve/{revision}/{rest}", files.resolve),
    ("GET", "{org}/{name}/resolve/{revision}/{rest}", files.resolve),
    ("GET", "{kind}/{org}/{name}/raw/{revision}/{rest}", files.resolve),
    ("GET", "{org}/{name}/raw/{revision}/{rest}", files.resolve),
)


class Broken(Exception):
    """The connection shall break without an answer."""


def make_app(hub: Hub) -> Starlette:
    """Return the application that serves `hub`."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            response = await _answer(hub, request)
        except Broken:
            await _break(send)
            return
        await response(scope, receive, send)

    class Endpoint:
        """An ASGI application: a plain function would be taken for a request handler."""

        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            await serve(scope, receive, send)

    return Starlette(routes=[Route("/{path:path}", Endpoint(), methods=METHODS)])


def match(method: str, parts: list[str]) -> tuple[Handler, dict[str, str]]:
    """Return the handler of an address and the parts it names; Refusal if nobody handles it."""
    wanted = "GET" if method == "HEAD" else method
    for known, pattern, handler in ROUTES:
        named = _named(pattern.split("/"), parts) if known == wanted else None
        if named is not None:
            return handler, named
    raise Refusal(404, f"the local Hub does not know {method} /{'/'.join(parts)}")


def _named(pattern: list[str], parts: list[str]) -> dict[str, str] | None:
    is_open = pattern[-1] == "{rest}"
    if len(parts) < len(pattern) or (len(parts) > len(pattern) and not is_open):
        return None
    if is_open:
        last = len(pattern) - 1
        parts = [*parts[:last], "/".join(parts[last:])]
    named = {}
    for wanted, part in zip(pattern, parts, strict=True):
        if wanted.startswith("{"):
            named[wanted.strip("{}")] = part
        elif wanted != part:
            return None
    if "kind" in named and named["kind"] not in KINDS:
        return None
    return named


async def _answer(hub: Hub, request: Request) -> Response:
    path = request.scope["raw_path"].decode().split("?")[0]
    parts = [unquote(part) for part in path.strip("/").split("/")]
    fault = strike(hub.faults, request.method, path)
    try:
        if fault:
            await _before(fault, request)
        handler, named = match(request.method, parts)
        body = b"" if parts[0] == "_lfs" else await request.body()
        found = handler(Call(hub, request, named, body))
        response = await found if inspect.isawaitable(found) else found
        if fault and fault.after:
            _trouble(fault)
    except Refusal as refusal:
        response = _refused(refusal, request.method)
    except Broken:
        hub.log.append(Logged(request.method, path, 0))
        raise
    hub.log.append(Logged(request.method, path, response.status_code))
    return response


async def _before(fault: Fault, request: Request) -> None:
    if fault.delay_seconds:
        await asyncio.sleep(fault.delay_seconds)
    if fault.after:
        return
    if fault.drop:
        async for _ in request.stream():
            break  # torn: what follows is never read
    _trouble(fault)


def _trouble(fault: Fault) -> None:
    if fault.drop:
        raise Broken
    if fault.status is not None:
        raise Refusal(fault.status, f"a fault on purpose: {fault.status}")


def _refused(refusal: Refusal, method: str) -> Response:
    message = str(refusal)
    headers = {
        "X-Request-Id": "local",
        "X-Error-Message": message[:500].replace("\n", " ").encode("ascii", "replace").decode(),
        **({"X-Error-Code": refusal.code} if refusal.code else {}),
        **refusal.headers,
    }
    if method == "HEAD":
        return Response(status_code=refusal.status, headers=headers)
    return JSONResponse({"error": message}, refusal.status, headers=headers)


async def _break(send: Send) -> None:
    """Promise an answer and never finish it: the server then closes the connection."""
    headers = [(b"content-length", b"1000"), (b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
