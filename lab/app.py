"""The page: header, one line per tab, and how it is put on the air."""

from collections.abc import Callable
from contextlib import closing
from typing import Any

import gradio as gr
from starlette.middleware import Middleware
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from lab import views
from lab.events import AT_ONCE, QUIET
from lab.frontpage import KeptFrontPage
from lab.services import Services
from lab.tabs import ask, calibration, compare, leaderboard, preferences, train
from lab.theme import ASSETS, ROUTE, Theme
from lab.visitors import door, meet
from lab.wording import say

STATUS_SECONDS = 1.0
WITH_VISITOR = {"Ask": ask.build, "Compare": compare.build}
WITH_TAB = {
    "Preferences": preferences.build,
    "Leaderboard": leaderboard.build,
    "Calibration": calibration.build,
    "Train": train.build,
}


def build_app(services: Services) -> gr.Blocks:
    """Return the lab, ready to launch or to test. Loads no model."""
    with gr.Blocks(title=say("title"), analytics_enabled=False, fill_width=True) as app:
        visitor = door()
        _header(services, app)
        with gr.Tabs(elem_id="tabs"):
            for name, build in WITH_VISITOR.items():
                with gr.Tab(name, id=name.lower()):
                    build(services, visitor)
            for name, build in WITH_TAB.items():
                with gr.Tab(name, id=name.lower()) as tab:
                    build(services, tab)
        gr.HTML(views.keys())
        known = [visitor.known, visitor.remembered]
        app.load(meet, visitor.remembered, known, api_visibility="private", queue=False)
    return app


def run(app: gr.Blocks, services: Services, ready: Callable[[], None]) -> None:
    """Open the store, say that all is ready, and load the model behind a page that is on the air.

    Return when the page is closed. Raises LabError if the store cannot be opened.
    """
    try:
        with closing(services.store):
            ready()
            services.engine.start()
            app.block_thread()
    finally:
        app.close(verbose=False)


def put_on_air(app: gr.Blocks, **options: Any) -> None:
    """Start serving and return at once. `options` go to `gr.Blocks.launch`."""
    is_for_all = not (options.get("auth") or options.get("share"))
    app.launch(
        theme=Theme(),
        head=(ASSETS / "head.html").read_text(encoding="utf-8"),
        favicon_path=ASSETS / "favicon.svg",
        footer_links=[],
        ssr_mode=False,
        max_threads=2 * AT_ONCE,
        prevent_thread_lock=True,
        app_kwargs={
            "routes": [Mount(f"/{ROUTE}", StaticFiles(directory=ASSETS))],
            "middleware": [Middleware(KeptFrontPage)] if is_for_all else [],
        },
        **options,
    )


def _header(services: Services, app: gr.Blocks) -> None:
    with gr.Row(elem_id="header"):
        gr.HTML(views.header())
        pill = gr.HTML(views.model_pill(services.engine.status), elem_id="model-status")
        gr.Button("Light / dark", elem_id="theme-toggle", size="sm")
        gr.Button("Keys", elem_id="keys-button", size="sm")
    trouble = gr.HTML(elem_id="model-problem")
    retry = gr.Button(say("model.retry"), visible=False, elem_id="model-retry", size="sm")
    timer = gr.Timer(STATUS_SECONDS)

    def look() -> tuple[str, str, gr.Button, gr.Timer]:
        status = services.engine.status
        return (
            views.model_pill(status),
            views.model_problem(status),
            gr.Button(visible=status.state == "failed"),
            gr.Timer(active=status.state in {"idle", "loading"}),
        )

    def on_retry() -> tuple[str, str, gr.Button, gr.Timer]:
        services.engine.start()
        return look()

    shown = [pill, trouble, retry, timer]
    gr.on([timer.tick, app.load], look, None, shown, api_name="model", **QUIET)
    retry.click(on_retry, None, shown, api_name="reload_model", **QUIET)
