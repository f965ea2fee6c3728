"""The local Hub on a port: in a thread beside a program, or in the foreground."""

import asyncio
import inspect
import logging
import socket
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import TracebackType
from urllib.parse import unquote

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from evals.errors import LabError
from hub.local import commits, files, uploads
from hub.local import commits as discussions
from hub.local import repos as accounts
from hub.local import repos as machines
from hub.local.state import KINDS, Call, Fault, Hub, Options, Refusal, strike
from hub.local.state import Request as Logged

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


START_SECONDS = 30.0


class LocalHub:
    """A Hub in a thread for as long as the block lasts.

    Clients read HF_ENDPOINT when they are imported: set it to `url` before a client's process starts.
    """

    def __init__(self, folder: Path, options: Options | None = None, port: int = 0) -> None:
        self.hub = Hub(folder, options)
        self._socket = _listen(port)
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._server = uvicorn.Server(_config(self.hub))
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "LocalHub":
        self._thread.start()
        end = time.monotonic() + START_SECONDS
        while not self._server.started:
            if time.monotonic() > end or not self._thread.is_alive():
                raise LabError("the local Hub did not start; look at the messages above.")
            time.sleep(0.01)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.should_exit = True
        self._thread.join(START_SECONDS)
        self._socket.close()

    def _run(self) -> None:
        self._server.run(sockets=[self._socket])


def serve(hub: Hub, port: int) -> None:
    """Serve until stopped; LabError if the port is taken."""
    listening = _listen(port)
    try:
        uvicorn.Server(_config(hub)).run(sockets=[listening])
    finally:
        listening.close()


def _listen(port: int) -> socket.socket:
    listening = socket.socket()
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", port))
    except OSError:
        listening.close()
        raise LabError(f"port {port} is taken; choose another with --port, or stop the program that uses it.") from None
    return listening


def _config(hub: Hub) -> uvicorn.Config:
    logging.getLogger("uvicorn.error").addFilter(_is_no_fault)
    return uvicorn.Config(make_app(hub), log_level="warning", timeout_graceful_shutdown=1)


def _is_no_fault(record: logging.LogRecord) -> bool:
    """Whether a message is worth showing: an answer that was broken off on purpose is not."""
    return "ASGI callable returned without completing response" not in record.getMessage()
