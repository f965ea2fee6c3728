"""What every request passes on its way to the page: from its own pages, done once, not too much, no guessing."""

import asyncio
import json
import logging
import re
import time
from collections.abc import Callable, Mapping
from urllib.parse import parse_qs, urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse, PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lab.settings import MOST_WRONG, WAIT_SECONDS
from lab.ui.text import say
from training.serve import OwnHosts

KEY, AGAIN = "x-assay-key", "x-assay-again"
"""Headers that the page's script gives what it sends (`lab/ui/assets/lab.js`)."""
REFUSED = "assay.refused"  # in the scope of a request: what `lab.guard` refused of it
UNUSED = re.compile(
    r"/gradio_api/(process_recording|component_server|deep_link|stream/|proxy=|file=\s*https?:|(undo-)?vibe-)|/monitoring",
    re.IGNORECASE,
)
"""Ways in of Gradio that no page of the lab takes: some read files past the limits, some ask other machines."""
ASKS = re.compile(r"/gradio_api/(queue/join|run/[^/]+|call/[^/]+|api/[^/]+)/?")
"""What is kept to be sent again: the reply to an event of the page, never a stream or a file (`ASKS` of the page's script)."""
REPLIES_KEPT, BYTES_KEPT, LARGEST_KEPT = 512, 2**26, 2**23
"""Replies to what may be sent again, and their bytes, together and each; it is within seconds, or with a person's click."""
log = logging.getLogger(__name__)


class Once:
    """Middleware that has what a page asks under one key (`KEY`) done once, however often its browser sends it.

    It sends again, marked `AGAIN`, where no answer came: then it gets the first one, also while that is being made; or
    status 409 where that is gone with the process that made it and `is_done` finds that its work was kept.
    """

    def __init__(self, app: ASGIApp, is_done: Callable[[str], bool]) -> None:
        self._app, self._is_done = app, is_done
        self._replies: dict[tuple[str, ...], asyncio.Future[list[Message]]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        asked = Headers(scope=scope) if scope["type"] == "http" else Headers()
        key, is_again = asked.get(KEY, ""), AGAIN in asked
        if not key or not (is_again or scope["method"] == "POST"):
            await self._app(scope, receive, send)
            return
        if scope["method"] != "POST" or not ASKS.fullmatch(scope["path"]):
            await (await self._answer(key, is_again))(scope, receive, send)
            return
        known = (key, scope["path"], asked.get("cookie", ""))
        if known not in self._replies:  # nothing is waited for until it is there
            self._replies[known] = asyncio.ensure_future(self._reply(scope, receive, key, is_again))
        try:
            reply = await asyncio.shield(self._replies[known])
        except Exception:
            self._replies.pop(known, None)
            raise
        self._forget(known)
        for message in reply:
            await send(dict(message))

    async def _answer(self, key: str, is_again: bool) -> ASGIApp:
        is_kept = is_again and await run_in_threadpool(self._is_done, key)
        return PlainTextResponse(say("people.kept"), 409) if is_kept else self._app

    async def _reply(self, scope: Scope, receive: Receive, key: str, is_again: bool) -> list[Message]:
        reply: list[Message] = []

        async def take(message: Message) -> None:
            reply.append(message)

        await (await self._answer(key, is_again))(scope, receive, take)
        return reply

    def _forget(self, newest: tuple[str, ...]) -> None:
        """Drop the oldest replies above `REPLIES_KEPT` or `BYTES_KEPT`, and the newest where it alone is too large."""
        sizes = {known: _size(reply.result()) for known, reply in self._replies.items() if _is_whole(reply)}
        if sizes.get(newest, 0) > LARGEST_KEPT:
            del self._replies[newest], sizes[newest]
        total = sum(sizes.values())
        for known in list(sizes):
            if len(self._replies) <= REPLIES_KEPT and total <= BYTES_KEPT:
                break
            total -= sizes[known]
            self._replies.pop(known, None)


def _is_whole(reply: asyncio.Future[list[Message]]) -> bool:
    return reply.done() and not reply.cancelled() and reply.exception() is None


def _size(reply: list[Message]) -> int:
    return sum(len(message.get("body", b"")) for message in reply)


class Refusals:
    """Middleware that answers what the lab refuses, or Gradio cannot read, in words and with status 400, no fault of the lab."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http" or "/gradio_api/" not in scope["path"]:
            await self._app(scope, receive, send)
            return
        refused, sent = list[Exception](), list[Message]()

        async def answer(message: Message) -> None:
            sent[:] = [message]
            await send({**message, "status": 400} if refused and message.get("status") == 500 else message)

        try:
            await self._app({**scope, REFUSED: refused}, receive, answer)
        except Exception as error:  # not of an event, whose errors Gradio answers: of its own reading
            if sent and "/call/" not in scope["path"]:
                raise
            log.warning("%s: %s", scope["path"], f"{error!r:.200}")
            if sent:  # of a call that nobody made, which Gradio finds out when it has begun to answer
                await send({"type": "http.response.body", "body": b"event: error\ndata: null\n\n"})
            else:
                await PlainTextResponse(say("people.unclear"), 400)(scope, receive, send)


class OwnPages:
    """Middleware that answers under the lab's own `hosts` alone, and refuses what a page of another site asks.

    Programs name no origin and pass. `hosts` is None where everybody gives a name: a page of another host has no cookie
    of theirs. What is sent says what a browser may do with it (`framed_by`: other sites that may show the page).
    """

    def __init__(self, app: ASGIApp, hosts: OwnHosts | None, framed_by: str = "") -> None:
        self._app, self._hosts = app, hosts
        # On a Space the page also holds scripts of the Hub's: only who may frame it is said there.
        own = "" if framed_by else "default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:; "
        policy = f"{own}object-src 'none'; base-uri 'self'; frame-ancestors 'self' {framed_by}".rstrip()
        told = {
            "content-security-policy": policy,
            "x-content-type-options": "nosniff",
            "referrer-policy": "same-origin",
        }
        self._headers = [(name.encode(), value.encode()) for name, value in told.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        asked = Headers(scope=scope)
        origin = asked.get("origin")  # another site's page can send every other name of a host
        is_own = asked.get("sec-fetch-site") == "same-origin" or urlsplit(origin or "").netloc == asked.get("host")
        answer = self._app
        if (host := self._hosts and self._hosts.rejected_host(asked)) is not None:
            answer = PlainTextResponse(say("people.host", host=host), 421)
        elif origin is not None and not is_own:  # to read, too: Gradio lets any site where the lab is not local
            answer = PlainTextResponse(say("people.origin", origin=origin[:80]), 403)

        async def protect(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *self._headers]}
            await send(message)

        await answer(scope, receive, protect)


class LogoutByPost:
    """Middleware that logs out whom their own page sends (POST); a GET, which any site can have a browser make, does nothing."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        is_logout = scope["type"] == "http" and scope["path"].rstrip("/").endswith("/logout")
        if is_logout and scope["method"] != "POST":
            await PlainTextResponse(say("login.out"), 405, {"allow": "POST"})(scope, receive, send)
        else:
            await self._app({**scope, "method": "GET"} if is_logout else scope, receive, send)


def name_of(scope: Scope) -> str:
    """Return the name that who asks has signed in with, "" for none."""
    tokens = getattr(scope.get("app"), "tokens", {})
    return next(filter(None, (tokens.get(each) for each in HTTPConnection(scope).cookies.values())), "")


CONFIG, API, END = "window.gradio_config = ", "window.gradio_api_info = ", ";</script>"


def in_script(value: object) -> str:
    """Return a value as JSON that no HTML parser takes for markup."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for mark in "<>&'":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    return text


class FrontPage:
    """Middleware that has Gradio make its page once for each address of the lab, and puts in what a visitor is to see first.

    Gradio makes all of it anew for each request. `values` gives what fields of the page hold, by their ids, for who signed
    in by a name, "" for nobody; it is asked again after `SECONDS`. What was put in for one name is sent to no other. Not
    sent: code in which programs would call the page, which no page of the lab shows.
    """

    KEPT, SECONDS = 16, 1.0
    ADDRESS = ("host", "x-forwarded-host", "x-forwarded-proto", "x-gradio-server")

    def __init__(
        self, app: ASGIApp, values: Callable[[str], Mapping[str, str]], now: Callable[[], float] = time.monotonic
    ) -> None:
        self._app, self._values, self._now = app, values, now
        self._pages: dict[tuple[str, ...], list[str]] = {}
        self._known: dict[str, tuple[float, Mapping[str, str]]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        is_page = scope["type"] == "http" and (scope["method"], scope["path"]) == ("GET", "/")
        name = name_of(scope) if is_page else ""
        is_known = bool(name) or getattr(scope.get("app"), "auth", None) is None
        if (
            not is_page
            or not is_known
            or {"page", "deep_link"} & parse_qs(scope["query_string"].decode("latin-1")).keys()
        ):
            await self._app(scope, receive, send)
            return
        asked = Headers(scope=scope)
        address = (scope["scheme"], scope.get("root_path", ""), *(asked.get(each, "") for each in self.ADDRESS))
        if address not in self._pages:
            sent: list[Message] = []

            async def take(message: Message) -> None:
                sent.append(message)

            await self._app(scope, receive, take)
            if sent[0]["status"] != 200:
                for message in sent:
                    await send(message)
                return
            page = b"".join(each.get("body", b"") for each in sent[1:]).decode()
            if len(self._pages) >= self.KEPT:
                self._pages.pop(next(iter(self._pages)))
            self._pages[address] = await run_in_threadpool(self._parts, page)
        if name not in self._known or self._now() - self._known[name][0] >= self.SECONDS:
            self._known = {each: kept for each, kept in self._known.items() if self._now() - kept[0] < self.SECONDS}
            self._known[name] = (self._now(), await run_in_threadpool(self._values, name))
        known = {"username": name or None, **self._known[name][1]}
        filled = (in_script(known[part]) if at % 2 else part for at, part in enumerate(self._pages[address]))
        await HTMLResponse("".join(filled))(scope, receive, send)

    def _parts(self, page: str) -> list[str]:
        """Return a page in parts, of which each second is the id of a field whose value stands there, or `username`."""
        before, _, rest = page.partition(CONFIG)
        config, _, rest = rest.partition(END)
        between, _, rest = rest.partition(API)
        info, _, after = rest.partition(END)
        config, info, fields = json.loads(config), json.loads(info), {"username", *self._values("")}
        for endpoint in info["named_endpoints"].values():
            endpoint.pop("code_snippets", None)
        config["username"] = "<username>"
        for each in config["components"]:
            if (name := each["props"].get("elem_id")) in fields:
                each["props"]["value"] = f"<{name}>"
        whole = f"{before}{CONFIG}{in_script(config)}{END}{between}{API}{in_script(info)}{END}{after}"
        return re.split(rf'"\\u003c({"|".join(map(re.escape, fields))})\\u003e"', whole)


class UploadLimit:
    """Middleware that takes `MOST` uploads, or `MOST_BYTES` together, in an hour: of a name, or of an address without one.

    What is `UNUSED` is not there (404), and who has no name yet has no heartbeat (401). Any other request is read up to `MOST_BODY` bytes, `MOST_UNKNOWN` of those who have
    not said yet who they are where the lab asks for it: as JSON it may take thirty times its size (413).
    """

    MOST, MOST_BYTES, SECONDS = 300, 2**30, 3600
    MOST_BODY, MOST_UNKNOWN = 2**22, 2**16

    def __init__(self, app: ASGIApp, now: Callable[[], float] = time.monotonic) -> None:
        self._app, self._now = app, now
        self._sent: dict[str, list[tuple[float, int]]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if UNUSED.search(scope.get("path", "")):
            await PlainTextResponse(say("people.unclear"), 404)(scope, receive, send)
            return
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        told, name = Headers(scope=scope).get("content-length", ""), name_of(scope)
        is_known = bool(name) or getattr(scope.get("app"), "auth", None) is None
        if not is_known and "/heartbeat/" in scope["path"]:  # a stream without end, for which Gradio asks no name
            await PlainTextResponse(say("people.unclear"), 401)(scope, receive, send)
            return
        if scope.get("method") != "POST" or not scope["path"].rstrip("/").endswith("/upload"):
            most = self.MOST_BODY if is_known else self.MOST_UNKNOWN
            is_long = int(told) > most if told.isdecimal() else "transfer-encoding" in Headers(scope=scope)
            large = PlainTextResponse(say("people.large", size=f"{most // 1024:,} KB"), 413)
            await (large if is_long else self._app)(scope, receive, send)
            return
        now, who = self._now(), name or (scope.get("client") or ("",))[0]
        self._sent = {
            name: kept
            for name, sent in self._sent.items()
            if (kept := [each for each in sent if now - each[0] < self.SECONDS])
        }
        sent = self._sent.setdefault(who, [])
        size = int(told) if told.isdecimal() else self.MOST_BYTES // 10  # a stream does not say
        if len(sent) >= self.MOST or sum(each[1] for each in sent) + size > self.MOST_BYTES:
            problem = say("people.uploads", most=self.MOST, size=f"{self.MOST_BYTES / 2**30:.0f} GB")
            await PlainTextResponse(problem, 429)(scope, receive, send)
            return
        sent.append((now, size))
        await self._app(scope, receive, send)


class PasswordThrottle:
    """Middleware that has an address wait `WAIT_SECONDS` after `MOST_WRONG` wrong passwords in a row.

    A right one clears the count of its address; that of a name is kept apart (`lab.settings.password_check`).
    """

    def __init__(self, app: ASGIApp, now: Callable[[], float] = time.monotonic) -> None:
        self._app, self._now, self._wrong = app, now, dict[str, list[float]]()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http" or scope["method"] != "POST" or scope["path"].rstrip("/")[-6:] != "/login":
            await self._app(scope, receive, send)
            return
        now = self._now()
        for who in [who for who, times in self._wrong.items() if not times or now - times[-1] >= WAIT_SECONDS]:
            del self._wrong[who]
        wrong = self._wrong.setdefault((scope.get("client") or ("",))[0], [])
        if len(wrong) >= MOST_WRONG:
            told = say("login.wait", most=MOST_WRONG, seconds=WAIT_SECONDS)
            await PlainTextResponse(told, 429, {"retry-after": str(WAIT_SECONDS)})(scope, receive, send)
            return
        wrong.append(now)

        async def heard(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == 200:
                wrong.clear()
            await send(message)

        await self._app(scope, receive, heard)
