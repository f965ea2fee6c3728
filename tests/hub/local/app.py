"""The local Hub as an ASGI application on a port, with its routes and its faults on purpose."""

import inspect
import logging
import re
import socket
import threading
import time
from collections.abc import Awaitable, Callable
from urllib.parse import unquote

import uvicorn
from starlette.applications import Starlette
from starlette.convertors import StringConvertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from evals.errors import LabError
from tests.hub.local import handlers
from tests.hub.local.handlers import KINDS, Call
from tests.hub.local.state import Hub, Logged, Refusal

START_SECONDS = 30.0
REPO = "/api/{kind:repos}/{org}/{name}"
Handler = Callable[[Call], Response | Awaitable[Response]]
ROUTES: tuple[tuple[str, str, Handler], ...] = (
    ("GET", "/api/whoami-v2", handlers.whoami),
    ("GET", "/api/agent-harnesses", lambda call: JSONResponse({"harnesses": []})),  # the client asks once a day
    ("POST", "/api/repos/create", handlers.create),
    ("DELETE", "/api/repos/delete", handlers.delete),
    ("POST", "/api/repos/move", handlers.move),
    ("POST", "/api/validate-yaml", handlers.validate),
    ("POST", "/api/collections", handlers.make_collection),
    ("GET", "/api/collections/{org}/{name}", handlers.collection),
    ("POST", "/api/collections/{org}/{name}/items", handlers.collection),
    ("GET", REPO, handlers.about),
    ("GET", REPO + "/revision/{revision}", handlers.about),
    ("GET", REPO + "/auth-check", handlers.check_access),
    ("GET", REPO + "/auth-check/{right}", handlers.check_access),
    ("PUT", REPO + "/settings", handlers.settings),
    ("GET", REPO + "/discussions", handlers.discussions),
    ("POST", REPO + "/discussions/{number}/merge", handlers.merge),
    ("GET", REPO + "/tree/{revision}", handlers.tree),
    ("GET", REPO + "/tree/{revision}/{rest:path}", handlers.tree),
    ("POST", REPO + "/paths-info/{revision}", handlers.paths),
    ("POST", REPO + "/preupload/{revision}", handlers.preupload),
    ("POST", REPO + "/commit/{revision}", handlers.commit),
    ("GET", REPO + "/commits/{revision}", handlers.history),
    ("GET", REPO + "/refs", handlers.references),
    ("POST", REPO + "/tag/{revision}", handlers.make_tag),
    ("GET", REPO + "/xet-{right}-token/{revision}", handlers.xet_token),
    ("POST", REPO + "/super-squash/{revision}", handlers.squash),
    ("POST", REPO + "/{what}", handlers.set_up),
    ("PUT", REPO + "/{what}", handlers.set_up),
    ("PUT", "/_lfs/{sha256}", handlers.receive),
    ("GET", "/_objects/{sha256}", handlers.content),
    ("POST", "/{kind:repos}/{org}/{name}/info/lfs/objects/batch", handlers.batch),
    ("POST", "/{org}/{name}/info/lfs/objects/batch", handlers.batch),
    ("GET", "/{kind:repos}/{org}/{name}/resolve/{revision}/{rest:path}", handlers.resolve),
    ("GET", "/{org}/{name}/resolve/{revision}/{rest:path}", handlers.resolve),
)
READING = (handlers.validate, handlers.paths, handlers.batch)
"""What a token that only reads may post; `batch` asks for the right itself."""


class _Kind(StringConvertor):
    regex = "|".join(KINDS)


register_url_convertor("repos", _Kind())


def make_app(hub: Hub) -> ASGIApp:
    """Return the application that serves `hub`."""
    routes = [Route(path, _endpoint(hub, handler), methods=[method]) for method, path, handler in ROUTES]
    inner = Starlette(routes=routes, exception_handlers={Refusal: _refused})

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await inner(scope, receive, send)
            return
        method, raw = scope["method"], scope["raw_path"].decode().split("?")[0]
        scope["path"] = unquote(raw.replace("%2F", "%252F"))  # a revision such as refs/pr/1 stays one part
        status = 0

        async def log_status(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        async def ignore(_message: Message) -> None:
            """Drop an answer that the client shall not see."""

        meant = (f for f in hub.faults if f.times and re.fullmatch(f.method, method) and re.search(f.match, raw))
        fault = next(meant, None)
        if fault is None:
            await inner(scope, receive, log_status)
        else:
            fault.times -= 1
            if fault.after:
                await inner(scope, receive, ignore)
            else:
                await receive()  # the client has begun to send; what follows is never read
            if fault.drop:
                # An answer that is promised and never finished: the server then closes the connection.
                await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"1000")]})
            else:
                window = {"RateLimit": f'"api";r=0;t={fault.wait}', "Retry-After": str(fault.wait)}
                told = fault.status or 500, fault.words or f"a fault on purpose: {fault.status}"
                refusal = Refusal(*told, headers=window if fault.status == 429 else {})
                await (await _refused(Request(scope), refusal))(scope, receive, log_status)
        hub.log.append(Logged(method, raw, status))

    return app


def _endpoint(hub: Hub, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        parts = {key: str(value).replace("%2F", "/") for key, value in request.path_params.items()}
        body = b"" if handler is handlers.receive else await request.body()
        call = Call(hub, request, parts, body)
        if request.method not in ("GET", "HEAD") and handler not in READING:
            call.check_token()
        found = handler(call)
        return await found if inspect.isawaitable(found) else found

    return endpoint


async def _refused(_request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    told = str(error)[:500].replace("\n", " ").encode("ascii", "replace").decode()
    headers = {"X-Error-Message": told, **error.headers} | ({"X-Error-Code": error.code} if error.code else {})
    return JSONResponse({"error": str(error)}, error.status, headers=headers)


class LocalHub:
    """A Hub in a thread while the block lasts; set HF_ENDPOINT to its `url` before a client's process starts."""

    def __init__(self, hub: Hub, port: int = 0) -> None:
        self.hub = hub
        try:
            self._socket = socket.create_server(("127.0.0.1", port))
        except OSError:
            raise LabError(f"port {port} is taken; choose another with --port, or stop its program.") from None
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        logging.getLogger("uvicorn.error").addFilter(
            lambda record: "ASGI callable returned without completing response" not in record.getMessage()
        )
        self._server = uvicorn.Server(uvicorn.Config(make_app(hub), log_level="warning", timeout_graceful_shutdown=1))
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True)

    def __enter__(self) -> "LocalHub":
        self._thread.start()
        end = time.monotonic() + START_SECONDS
        while not self._server.started:
            if time.monotonic() > end or not self._thread.is_alive():
                raise LabError("the local Hub did not start; look at the messages above.")
            time.sleep(0.01)
        return self

    def __exit__(self, *_error: object) -> None:
        self._server.should_exit = True
        self._thread.join(START_SECONDS)
        self._socket.close()
