"""The page: header, one line per tab, and how it is put on the air."""

import time
from collections.abc import Callable, Collection
from contextlib import closing
from fnmatch import fnmatchcase
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import gradio as gr
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import PlainTextResponse
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lab.guard import GuardedBlocks
from lab.services import Services
from lab.ui import components as views
from lab.ui.components import AT_ONCE, QUIET
from lab.ui.text import lines, say
from lab.ui.theme import ASSETS, ROUTE, Theme
from lab.visitors import Door, door, meet, meet_signed_in

STATUS_SECONDS = 1.0
ADDRESS = ("host", "x-forwarded-host", "x-forwarded-proto", "x-gradio-server")
"""What Gradio reads of a request to say in the page where it lies."""
LARGEST_UPLOAD = "50mb"
PAGES_KEPT = 16
"""A page asked for at more addresses than that, as by somebody who makes them up, pushes out the oldest."""


def _tab(module: str) -> Any:
    """Return a tab, imported when it is built: a Space holds only those that it shows (`spaces/bundles.toml`)."""
    return import_module(f"lab.{module}")


TABS: dict[str, Callable[[Services, Door, gr.Tab, Collection[str]], None]] = {
    "Home": lambda services, visitor, tab, _: _tab("home.tab").build(services, visitor, tab),
    "Ask": lambda services, visitor, tab, _: _tab("ask.tab").build(services, visitor, tab),
    "Compare": lambda services, visitor, _, tabs: _tab("compare.tab").build(
        services, visitor, is_rated="Annotate" in tabs
    ),
    "Annotate": lambda services, visitor, tab, _: _tab("annotate.tab").build(services, visitor, tab),
    "Questions": lambda services, visitor, tab, _: _tab("questions.tab").build(services, visitor, tab),
    "Review": lambda services, visitor, *_: _tab("review.tab").build(services, visitor),
    "Refine": lambda services, visitor, *_: _tab("refine.tab").build(services, visitor),
    "Preferences": lambda services, _, tab, __: _tab("compare.preferences").build(services, tab),
    "Leaderboard": lambda services, visitor, tab, _: _tab("results.leaderboard").build(services, visitor, tab),
    "Calibration": lambda services, visitor, tab, _: _tab("results.calibration").build(services, visitor, tab),
    "Train": lambda services, _, tab, __: _tab("train.tab").build(services, tab),
    "Publish": lambda services, _, tab, __: _tab("publish.tab").build(services, tab),
}
LOCAL = frozenset(("Publish", "Questions"))
"""Tabs that a Space does not show: it holds nobody's token, and keeps no sets."""
ANSWERED = frozenset(("Ask", "Compare"))
"""Tabs that the lab's own chain answers in; so it does in Refine, where no other chain is named."""


def build_app(
    services: Services, tabs: Collection[str] | None = None, *, note: str = "", has_sign_in: bool = False
) -> gr.Blocks:
    """Return the lab with all tabs, or those named, no model loaded; `has_sign_in` works on a Space with OAuth."""
    is_bundle = services.settings.training.is_space or find_spec("lab.publish") is None
    wanted = set(TABS if tabs is None else tabs) - (LOCAL if is_bundle else set())
    page: dict[str, Any] = {"title": say("title"), "analytics_enabled": False, "fill_width": True}
    with GuardedBlocks(services.role_of, services.log, **page) as app:
        visitor = door()
        _header(services, app, has_model=needs_chain(services, wanted))
        if has_sign_in:
            gr.LoginButton(size="sm", elem_id="sign-in")
        if note:
            gr.HTML(views.notice(note), elem_id="note")
        with gr.Tabs(elem_id="tabs"):
            for name in (name for name in TABS if name in wanted):
                with gr.Tab(name, id=name.lower()) as tab:
                    TABS[name](services, visitor, tab, wanted)
        gr.HTML(views.keys())
        known = [visitor.known, visitor.remembered]
        met = meet_signed_in if has_sign_in else meet
        # In the queue: only then is what hangs on the change of a state told of it.
        app.load(met, visitor.remembered, known, api_visibility="private", concurrency_limit=None)
    for event in app.fns.values():
        _describe(event)
    return app


def _describe(event: Any) -> None:
    """Tell what a public event does (lab/ui/text/lines.json), and name what it takes after the page's fields."""
    if event.api_visibility != "public" or not isinstance(event.api_name, str):
        return
    known = (told for key, told in lines().items() if fnmatchcase(f"api.{event.api_name}", key))
    event.api_description = next(known, event.api_description)
    fields = [(each.elem_id or each.label or "").replace("-", "_").replace(" ", "_").lower() for each in event.inputs]
    names = zip(event.input_parameter_names, fields, strict=True)
    event.input_parameter_names = [name or field or None for name, field in names]


def needs_chain(services: Services, tabs: Collection[str] | None = None) -> bool:
    """Whether any of these tabs (None = all) asks the lab's own chain, so that it must be loaded."""
    wanted = set(TABS if tabs is None else tabs) - ({"Compare"} if services.recorded else set())
    return bool(wanted & ANSWERED) or ("Refine" in wanted and not services.refiner)


def run(app: gr.Blocks, services: Services, ready: Callable[[], None], tabs: Collection[str] | None = None) -> None:
    """Open the store, say that all is ready, load the model behind a page that is on the air, and do long work.

    `tabs` are those that the page shows, None = all; a model that none of them asks is not loaded. Return
    when the page is closed. Raises LabError if the store cannot be opened.
    """
    try:
        with closing(services.store), services.jobs.working():
            ready()
            if needs_chain(services, tabs):
                services.engine.start()
            app.block_thread()
    finally:
        app.close(verbose=False)


def put_on_air(app: gr.Blocks, **options: Any) -> None:
    """Start serving and return at once. `options` go to `gr.Blocks.launch`."""
    is_for_all = not (options.get("auth") or options.get("share"))
    middleware = [Middleware(KeptFrontPage)] if is_for_all else []
    if options.get("auth"):
        middleware.append(Middleware(PasswordThrottle))
    # Gradio adds the head when it runs: a script still to be fetched then would miss keys pressed meanwhile.
    head, script = ((ASSETS / name).read_text(encoding="utf-8") for name in ("head.html", "lab.js"))
    app.launch(
        theme=Theme(),
        head=f"{head}<script>\n{script}</script>\n",
        favicon_path=ASSETS / "favicon.svg",
        footer_links=[],
        ssr_mode=False,
        max_threads=2 * AT_ONCE,
        prevent_thread_lock=True,
        app_kwargs={"routes": [Mount(f"/{ROUTE}", StaticFiles(directory=ASSETS))], "middleware": middleware},
        max_file_size=LARGEST_UPLOAD,
        auth_message=say("login.wait", most=PasswordThrottle.MOST, seconds=PasswordThrottle.SECONDS),
        **options,
    )


def _header(services: Services, app: gr.Blocks, *, has_model: bool) -> None:
    """Lay out name, model and buttons; keep the pill up to date while the model loads, and offer to try again."""
    with gr.Row(elem_id="header"):
        gr.HTML(views.header())
        pill = gr.HTML(views.model_pill(services.engine.status), elem_id="model-status") if has_model else None
        gr.Button("Light / dark", elem_id="theme-toggle", size="sm")
        gr.Button("Keys", elem_id="keys-button", size="sm")
    if pill is None:
        return
    trouble = gr.HTML(elem_id="model-problem")
    retry = gr.Button(say("model.retry"), visible=False, elem_id="model-retry", size="sm")
    timer = gr.Timer(STATUS_SECONDS)

    def look() -> tuple[str, str, gr.Button, gr.Timer]:
        status = services.engine.status
        failed, is_coming = status.state == "failed", status.state in {"idle", "loading"}
        timer = gr.Timer(active=is_coming)
        return views.model_pill(status), views.model_problem(status), gr.Button(visible=failed), timer

    def on_retry() -> tuple[str, str, gr.Button, gr.Timer]:
        services.engine.start()
        return look()

    shown = [pill, trouble, retry, timer]
    gr.on([timer.tick, app.load], look, None, shown, api_name="model", **QUIET)
    retry.click(on_retry, None, shown, api_name="reload_model", **QUIET)


class PasswordThrottle:
    """Middleware that has an address wait `SECONDS` after `MOST` wrong passwords in a row."""

    MOST, SECONDS = 5, 60

    def __init__(self, app: ASGIApp, now: Callable[[], float] = time.monotonic) -> None:
        self._app, self._now = app, now
        self._wrong: dict[str, list[float]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http" or scope["method"] != "POST" or scope["path"].rstrip("/")[-6:] != "/login":
            await self._app(scope, receive, send)
            return
        now = self._now()
        self._wrong = {who: times for who, times in self._wrong.items() if times and now - times[-1] < self.SECONDS}
        wrong = self._wrong.setdefault((scope.get("client") or ("",))[0], [])
        if len(wrong) >= self.MOST:
            told = say("login.wait", most=self.MOST, seconds=self.SECONDS)
            await PlainTextResponse(told, 429, {"retry-after": str(self.SECONDS)})(scope, receive, send)
            return
        wrong.append(now)

        async def heard(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == 200:
                wrong.clear()
            await send(message)

        await self._app(scope, receive, heard)


class KeptFrontPage:
    """Middleware that answers `GET /` from memory, rendered once for each address; the rest goes through as it is.

    Gradio writes the whole page anew for every visitor, fifteen times as slow as sending it packed from memory. It is
    the same for all, except behind a login or with a public link: the page itself asks, later, who is there.
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
        reply = self._kept.get(key, [])
        if not reply:

            async def take(message: Message) -> None:
                reply.append(message)

            await self._packing(scope, receive, take)
            if reply[0]["status"] == 200:
                while len(self._kept) >= PAGES_KEPT:
                    del self._kept[next(iter(self._kept))]
                self._kept[key] = reply
        for message in reply:
            await send(dict(message))
