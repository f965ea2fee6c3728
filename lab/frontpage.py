"""The first page, rendered once for each address it is asked at.

Gradio copies the whole page and writes it anew for every visitor, which takes fifteen times as long as sending
it packed from memory. It is the same for all of them: who is there is asked by the page itself, later.
"""

from starlette.datastructures import Headers
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

ADDRESS = ("host", "x-forwarded-host", "x-forwarded-proto", "x-gradio-server")
"""What Gradio reads of a request to say in the page where it lies."""
PAGES_KEPT = 16
"""A page asked for at more addresses than that, as by somebody who makes them up, pushes out the oldest."""


class KeptFrontPage:
    """Middleware that answers `GET /` from memory; anything else goes through as it is.

    Not for an app behind a login or with a public link, whose page says who reads it, or changes.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app, self._packing = app, GZipMiddleware(app)
        self._kept: dict[tuple[str, ...], list[Message]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http" or (scope["method"], scope["path"], scope.get("query_string")) != ("GET", "/", b""):
            await self._app(scope, receive, send)
            return
        asked = Headers(scope=scope)
        told = [asked.get(name, "") for name in ADDRESS]
        packed = str("gzip" in asked.get("accept-encoding", ""))
        key = (scope.get("scheme", ""), scope.get("root_path", ""), packed, *told)
        reply = self._kept.get(key)
        if reply is None:
            reply = []

            async def take(message: Message) -> None:
                reply.append(message)

            await self._packing(scope, receive, take)
            if reply[0]["status"] == 200:
                while len(self._kept) >= PAGES_KEPT:
                    del self._kept[next(iter(self._kept))]
                self._kept[key] = reply
        for message in reply:
            await send(dict(message))
