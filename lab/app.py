"""The page: header, one line per tab, and how it is put on the air, whole or as an arena."""

import os
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import gradio as gr
from starlette.middleware import Middleware
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from evals.errors import BadConfig
from lab.guard import GuardedBlocks
from lab.middleware import FrontPage, LogoutByPost, Once, OwnPages, PasswordThrottle, Refusals, UploadLimit
from lab.services import Services, build_services
from lab.session import can_sign_in, door, meet, meet_signed_in
from lab.settings import MOST_WRONG, WAIT_SECONDS, from_environment
from lab.ui import components as views
from lab.ui.components import ASSETS, AT_ONCE, QUIET, ROUTE, Theme
from lab.ui.text import DOCS, lines, say
from training.serve import OwnHosts

STATUS_SECONDS = 1.0
LARGEST_UPLOAD = "50mb"
HUB_PAGES = "https://huggingface.co https://*.hf.space"
FILES_KEPT = (3600, 86_400)
"""Every so many seconds what was uploaded or made for download is deleted that is older than so many seconds."""


TABS = ("Home", "Ask", "Compare", "Annotate", "Papers", "Data", "Results", "Train")
LOCAL = frozenset(("Data",))
"""Tabs that a Space does not show: it keeps no sets, and gives its visitors no exports."""
ANSWERED = frozenset(("Ask", "Compare"))
"""Tabs that the lab's own chain answers in."""


def _tab(name: str) -> Any:
    """Return the file of a tab, imported when it is built: a Space holds only those that it shows (`spaces/bundles.toml`)."""
    return import_module(f"lab.{name.lower()}.tab")


def build_app(
    services: Services, tabs: Collection[str] | None = None, *, note: str = "", has_sign_in: bool = False
) -> GuardedBlocks:
    """Return the lab with all tabs, or those named, no model loaded; `has_sign_in` works on a Space with OAuth."""
    wanted = set(TABS if tabs is None else tabs) - (set() if services.is_local else LOCAL)
    page: dict[str, Any] = {
        "title": say("title"),
        "analytics_enabled": False,
        "fill_width": True,
        "delete_cache": FILES_KEPT,
    }
    with GuardedBlocks(services.role_of, services.log, lambda action: services.store.is_done(action), **page) as app:
        visitor = door()
        _header(services, app, has_model=needs_chain(services, wanted))
        if has_sign_in:
            gr.LoginButton(size="sm", elem_id="sign-in")
        if note:
            gr.HTML(views.notice(note), elem_id="note")
        with gr.Tabs(elem_id="tabs"):
            for name in (name for name in TABS if name in wanted):
                with gr.Tab(name, id=name.lower()) as tab:
                    _tab(name).build(services, visitor, tab)
        gr.HTML(views.keys())
        known = [visitor.known, visitor.remembered]
        met = meet_signed_in if has_sign_in else meet
        # In the queue: only then is what hangs on the change of a state told of it.
        app.load(met, visitor.remembered, known, api_visibility="private", concurrency_limit=None)
    told = {key.removeprefix("api."): line for key, line in lines().items() if key.startswith("api.")}
    for event in app.fns.values():
        _describe(event, told)
    if "Home" in wanted:
        app.first_values = partial(_tab("Home").first_values, services)
    return app


def _describe(event: Any, told: Mapping[str, str]) -> None:
    """Tell what a public event does, by its name or a pattern of it, and name what it takes after the page's fields."""
    if event.api_visibility != "public" or not isinstance(event.api_name, str):
        return
    known = (
        line
        for name, line in told.items()
        if name == event.api_name or ("*" in name and fnmatchcase(event.api_name, name))
    )
    event.api_description = next(known, event.api_description)
    fields = [(each.elem_id or each.label or "").replace("-", "_").replace(" ", "_").lower() for each in event.inputs]
    names = zip(event.input_parameter_names, fields, strict=True)
    event.input_parameter_names = [name or field or None for name, field in names]


def needs_chain(services: Services, tabs: Collection[str] | None = None) -> bool:
    """Whether any of these tabs (None = all) asks the lab's own chain, so that it must be loaded."""
    wanted = set(TABS if tabs is None else tabs) - ({"Compare"} if services.recorded else set())
    return bool(wanted & ANSWERED)


def run(app: gr.Blocks, services: Services, ready: Callable[[], None], tabs: Collection[str] | None = None) -> None:
    """Open the store, say that all is ready, load the model behind a page that is on the air, and do long work.

    `tabs` are those that the page shows, None = all; a model that none of them asks is not loaded. Return
    when the page is closed. Raises LabError if the store cannot be opened.
    """
    try:
        with closing(services.store), closing(services.engine):
            ready()
            if needs_chain(services, tabs):
                services.engine.start()
            with services.jobs.working(lambda: services.engine.status.state == "loading"):
                app.block_thread()
    finally:
        app.close(verbose=False)


def put_on_air(app: GuardedBlocks, hosts: Sequence[str] = (), *, is_space: bool = False, **options: Any) -> None:
    """Start serving and return at once. `options` go to `gr.Blocks.launch`.

    Without names it answers under its own host names and `hosts` alone (`OwnHosts`). On a Space the Hub says who comes
    in, and shows the page in its own.
    """
    more = ("*",) if is_space else (*hosts, "*.gradio.live") if options.get("share") else hosts
    own = (
        None
        if options.get("auth")
        else OwnHosts(options.get("server_name") or os.getenv("GRADIO_SERVER_NAME", "127.0.0.1"), more)
    )
    os.environ.setdefault(
        "FORWARDED_ALLOW_IPS", ""
    )  # uvicorn believes X-Forwarded-For of this machine unless told not to
    middleware = [
        Middleware(Refusals),
        Middleware(OwnPages, own, HUB_PAGES if is_space else ""),
        Middleware(UploadLimit),
    ]
    middleware += [Middleware(Once, app.is_done)]
    middleware += [Middleware(LogoutByPost), Middleware(PasswordThrottle)] if options.get("auth") else []
    middleware += [Middleware(FrontPage, app.first_values)]
    host = options.get("server_name", "")
    # Gradio adds the head when it runs: a script still to be fetched then would miss keys pressed meanwhile.
    head, script = ((ASSETS / name).read_text(encoding="utf-8") for name in ("head.html", "lab.js"))
    wait = say("login.wait", most=MOST_WRONG, seconds=WAIT_SECONDS)
    # Gradio asks its own page, for which no proxy is meant; a busy machine takes longer than it waits (`_frontend`).
    os.environ["no_proxy"] = ",".join((os.getenv("no_proxy", os.getenv("NO_PROXY", "")), "localhost,127.0.0.1", host))
    routes: list[Mount | Route] = [Mount(f"/{ROUTE}", StaticFiles(directory=ASSETS))]
    if DOCS.is_dir():  # a Space has none
        from lab.reference import document

        routes += [Mount("/docs/screenshots", StaticFiles(directory=DOCS / "screenshots"))]
        routes += [Route("/docs/{path:path}.md", document)]
    app.launch(
        theme=Theme(),
        head=f"{head}<script>\n{script}</script>\n",
        favicon_path=ASSETS / "favicon.svg",
        footer_links=[],
        ssr_mode=False,
        mcp_server=False,  # Gradio's asks nobody for a name, and its tools are all 170 events of the page
        run_history=False,  # it keeps all that is said, in the browser or with this machine's token on the Hub
        max_threads=2 * AT_ONCE,
        _frontend=False,
        prevent_thread_lock=True,
        app_kwargs={
            "routes": routes,
            "middleware": middleware,
            "openapi_url": None,  # FastAPI's own, which asks nobody for a name; Gradio's does
        },
        max_file_size=LARGEST_UPLOAD,
        auth_message=f"<title>{say('title')}</title>{head}{views.header()}<p>{wait}</p>",
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


# ---- the arena: blind votes on recorded answers and nothing else ---------------------------------


ARENA = ("Compare",)
VOLUME = Path("/data")
"""Where a Space's volume is mounted, if it has one."""


@dataclass(frozen=True)
class VotesPlace:
    """Where votes are kept: a database at `url`, with a copy in the data set `repo` if it is named."""

    kind: Literal["database", "volume", "dataset", "nowhere"]
    url: str
    repo: str | None = None


def place_of_votes(environment: Mapping[str, str], folder: Path, volume: Path = VOLUME) -> VotesPlace:
    """Return where votes shall be kept; `folder` is for what may be lost. BadConfig for half a wish."""
    passing = f"sqlite:///{folder / 'assay.db'}"
    url, repo = environment.get("ASSAY_DATABASE_URL"), environment.get("ASSAY_VOTES_REPO")
    if url:
        return VotesPlace("database", url)
    if repo and not environment.get("HF_TOKEN"):
        raise BadConfig(say("arena.no_token", repo=repo))
    if repo:
        return VotesPlace("dataset", passing, repo)
    if os.access(volume, os.W_OK):
        return VotesPlace("volume", f"sqlite:///{volume / 'assay.db'}")
    return VotesPlace("nowhere", passing)


def open_arena(environment: Mapping[str, str], answers: Path, **options: Any) -> None:
    """Put the arena of these answers on the air and serve it until it is stopped. `options` go to `gr.Blocks.launch`.

    Raises LabError for a file without pairs, or if there is no place for the votes that were to be kept.
    """
    from hub.client import connect
    from hub.votes import VoteLog
    from lab.session import Recorded

    recorded = Recorded.read(answers)
    with tempfile.TemporaryDirectory(prefix="assay-arena-") as folder:
        place = place_of_votes(environment, Path(folder))
        settings = replace(from_environment(environment), database_url=place.url)
        votes = VoteLog(connect(), place.repo, Path(folder) / "votes") if place.repo else None
        services = replace(build_services(settings, votes.write if votes else None), recorded=recorded)
        note = say("arena.nowhere") if place.kind == "nowhere" else ""
        try:
            app = build_app(services, ARENA, note=note, has_sign_in=can_sign_in(environment))
            put_on_air(app, settings.hosts, is_space=settings.training.is_space, **options)
            run(app, services, ready=lambda: None, tabs=ARENA)
        finally:
            if votes is not None:
                votes.push()
                votes.stop()
