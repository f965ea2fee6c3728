"""The first page, rendered once for each address it is asked at.

Gradio copies the whole page and writes it anew for every visitor, and sends it uncompressed. It is the
same for all of them: who is there is asked by the page itself, later, so nothing in it is anybody's own.
"""

import gzip
from collections.abc import Mapping
from dataclasses import dataclass, field

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

ADDRESS = ("host", "x-forwarded-host", "x-forwarded-proto", "x-gradio-server")
"""What Gradio reads of a request to say in the page where it lies."""
ADDRESSES_KEPT = 16
"""A page asked for at more addresses than that, as by somebody who makes them up, pushes out the oldest."""
Key = tuple[str, ...]


@dataclass(frozen=True)
class _Page:
    """A page as it goes over the wire, plain and compressed."""

    headers: Mapping[str, str]
    plain: bytes
    packed: bytes


@dataclass
class _Reply:
    """What the app answers, gathered before it is sent."""

    status: int = 0
    headers: Headers = field(default_factory=Headers)
    body: bytearray = field(default_factory=bytearray)

    async def take(self, message: Message) -> None:
        """Add one message of the app to the reply."""
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], Headers(raw=message["headers"])
        elif message["type"] == "http.response.body":
            self.body += message.get("body", b"")


class KeptFrontPage:
    """Middleware that answers `GET /` from memory; anything else goes through as it is.

    Not for an app behind a login or with a public link, whose page says who reads it, or changes.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._pages: dict[Key, _Page] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http" or not _is_front_page(scope):
            await self._app(scope, receive, send)
            return
        asked = Headers(scope=scope)
        key = _address(scope, asked)
        page = self._pages.get(key)
        if page is None:
            reply = _Reply()
            await self._app(scope, receive, reply.take)
            page = _Page(dict(reply.headers), bytes(reply.body), gzip.compress(reply.body))
            if reply.status == 200:
                self._keep(key, page)
            await _send(send, reply.status, page, asked)
            return
        await _send(send, 200, page, asked)

    def _keep(self, key: Key, page: _Page) -> None:
        while len(self._pages) >= ADDRESSES_KEPT:
            del self._pages[next(iter(self._pages))]
        self._pages[key] = page


def _is_front_page(scope: Scope) -> bool:
    is_bare = not scope.get("query_string")
    return bool(scope["method"] == "GET" and scope["path"] == "/" and is_bare)


def _address(scope: Scope, asked: Headers) -> Key:
    """Return everything of a request that the page depends on."""
    told = (asked.get(name, "") for name in ADDRESS)
    return (scope.get("scheme", ""), scope.get("root_path", ""), *told)


async def _send(send: Send, status: int, page: _Page, asked: Headers) -> None:
    is_packed = "gzip" in asked.get("accept-encoding", "")
    body = page.packed if is_packed else page.plain
    headers = MutableHeaders(page.headers)
    headers["content-length"] = str(len(body))
    headers.add_vary_header("Accept-Encoding")
    if is_packed:
        headers["content-encoding"] = "gzip"
    await send({"type": "http.response.start", "status": status, "headers": headers.raw})
    await send({"type": "http.response.body", "body": body})
