"""The local Hub as an ASGI application on a port, with its routes and its faults on purpose."""

import inspect
import logging
import re
import socket
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import TracebackType
from urllib.parse import unquote

import uvicorn
from starlette.applications import Starlette
from starlette.convertors import StringConvertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from evals.errors import LabError
from hub.local import commits, files, repos, uploads
from hub.local.state import KINDS, Call, Hub, Logged, Options, Refusal

START_SECONDS = 30.0
REPO = "/api/{kind:repos}/{org}/{name}"
Handler = Callable[[Call], Response | Awaitable[Response]]
ROUTES: tuple[tuple[str, str, Handler], ...] = (
    ("GET", "/api/whoami-v2", repos.whoami),
    ("GET", "/api/agent-harnesses", repos.harnesses),
    ("POST", "/api/repos/create", repos.create),
    ("DELETE", "/api/repos/delete", repos.delete),
    ("POST", "/api/validate-yaml", commits.validate),
    ("POST", "/api/jobs/{org}", repos.submit_job),
    ("GET", REPO, repos.about),
    ("GET", REPO + "/revision/{revision}", repos.about),
    ("PUT", REPO + "/settings", repos.settings),
    ("GET", REPO + "/discussions", repos.discussions),
    ("POST", REPO + "/discussions/{number}/merge", commits.merge),
    ("GET", REPO + "/tree/{revision}", files.tree),
    ("GET", REPO + "/tree/{revision}/{rest:path}", files.tree),
    ("POST", REPO + "/paths-info/{revision}", files.paths),
    ("POST", REPO + "/preupload/{revision}", commits.preupload),
    ("POST", REPO + "/commit/{revision}", commits.commit),
    ("GET", REPO + "/commits/{revision}", commits.history),
    ("GET", REPO + "/refs", commits.references),
    ("POST", REPO + "/tag/{revision}", commits.make_tag),
    ("PUT", "/_lfs/{sha256}", uploads.receive),
    ("POST", "/_lfs/{sha256}/verify", uploads.verify),
    ("GET", "/_objects/{sha256}", files.content),
    ("POST", "/{kind:repos}/{org}/{name}/info/lfs/objects/batch", uploads.batch),
    ("POST", "/{org}/{name}/info/lfs/objects/batch", uploads.batch),
    ("GET", "/{kind:repos}/{org}/{name}/resolve/{revision}/{rest:path}", files.resolve),
    ("GET", "/{org}/{name}/resolve/{revision}/{rest:path}", files.resolve),
)


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

        fault = next(
            (f for f in hub.faults if f.times and re.fullmatch(f.method, method) and re.search(f.match, raw)), None
        )
        if fault is None:
            await inner(scope, receive, log_status)
        else:
            fault.times -= 1
            if fault.after:
                await inner(scope, receive, _ignore)
            else:
                await receive()  # the client has begun to send; what follows is never read
            if fault.drop:
                # An answer that is promised and never finished: the server then closes the connection.
                await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"1000")]})
            else:
                refusal = Refusal(fault.status or 500, f"a fault on purpose: {fault.status}")
                await (await _refused(Request(scope), refusal))(scope, receive, log_status)
        hub.log.append(Logged(method, raw, status))

    return app


def _endpoint(hub: Hub, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        parts = {key: str(value).replace("%2F", "/") for key, value in request.path_params.items()}
        body = b"" if handler is uploads.receive else await request.body()
        found = handler(Call(hub, request, parts, body))
        return await found if inspect.isawaitable(found) else found

    return endpoint


async def _refused(_request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    message = str(error)
    headers = {"X-Error-Message": message[:500].replace("\n", " ").encode("ascii", "replace").decode(), **error.headers}
    if error.code:
        headers["X-Error-Code"] = error.code
    return JSONResponse({"error": message}, error.status, headers=headers)


async def _ignore(_message: Message) -> None:
    """Drop an answer that the client shall not see."""


class LocalHub:
    """A Hub in a thread for as long as the block lasts.

    Clients read HF_ENDPOINT when they are imported: set it to `url` before a client's process starts.
    """

    def __init__(self, folder: Path, options: Options | None = None, port: int = 0) -> None:
        self.hub = Hub(folder, options)
        self._socket = _listen(port)
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._server = uvicorn.Server(_config(self.hub))
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True)

    def __enter__(self) -> "LocalHub":
        self._thread.start()
        end = time.monotonic() + START_SECONDS
        while not self._server.started:
            if time.monotonic() > end or not self._thread.is_alive():
                raise LabError("the local Hub did not start; look at the messages above.")
            time.sleep(0.01)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.should_exit = True
        self._thread.join(START_SECONDS)
        self._socket.close()


def serve(hub: Hub, port: int) -> None:
    """Serve until stopped; LabError if the port is taken."""
    with _listen(port) as listening:
        uvicorn.Server(_config(hub)).run(sockets=[listening])


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
    logging.getLogger("uvicorn.error").addFilter(
        lambda record: "ASGI callable returned without completing response" not in record.getMessage()
    )
    return uvicorn.Config(make_app(hub), log_level="warning", timeout_graceful_shutdown=1)
