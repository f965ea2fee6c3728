"""The real page on a real port, asked over HTTP as a browser asks it."""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import gradio as gr
import httpx
import pytest
from fastapi.testclient import TestClient
from gradio.routes import App

from lab.app import build_app, put_on_air
from lab.services import Services

ON_AIR = pytest.mark.filterwarnings("ignore::pandas.errors.Pandas4Warning")
"""For tests that serve the page: Gradio's queue counts its events with options that pandas retires."""


def caller(page: gr.Blocks) -> Callable[..., list[Any]]:
    """Return what runs an event of a page, as one browser does over HTTP, and gives what comes back for its outputs."""
    browser = TestClient(App.create_app(page))

    def called(name: str, *data: object) -> list[Any]:
        reply = browser.post(f"/gradio_api/run/{name}", json={"data": data, "session_hash": "one"})
        assert reply.status_code == 200, reply.text
        return reply.json()["data"]

    return called


class Browser:
    """One open page, of somebody who logged in where `web` is theirs. `call` returns all that came over the wire, as it came."""

    def __init__(self, app: gr.Blocks, web: Any = httpx) -> None:
        self._url, self._web = app.local_url.rstrip("/"), web
        self._session = uuid4().hex
        config = app.get_config_file()
        self._events = {entry["api_name"]: entry for entry in config["dependencies"]}
        self._states = {entry["id"] for entry in config["components"] if entry["type"] == "state"}

    def call(self, name: str, *values: object) -> str:
        """Run the event `name`; `values` are those of its inputs that are not kept on the server."""
        given = iter(values)
        entry = self._events[name]
        data = [None if part in self._states else next(given) for part in entry["inputs"]]
        joined = self._web.post(
            f"{self._url}/gradio_api/queue/join",
            json={"data": data, "fn_index": entry["id"], "session_hash": self._session},
            timeout=60,
        )
        joined.raise_for_status()
        return "".join(self._stream(joined.json()["event_id"]))

    def _stream(self, event: str) -> Iterator[str]:
        url = f"{self._url}/gradio_api/queue/data?session_hash={self._session}"
        with self._web.stream("GET", url, timeout=60) as reply:
            for line in reply.iter_lines():
                yield line
                if "process_completed" in line and event in line:
                    return


PASSWORD = "a long password"
"""Of everybody who may enter the guarded lab."""


@contextmanager
def entered(url: str, name: str, password: str = PASSWORD) -> Iterator[httpx.Client]:
    """Log in to a lab as somebody."""
    with httpx.Client(base_url=url, timeout=60) as browser:
        browser.post("/login", data={"username": name, "password": password})
        yield browser


@contextmanager
def on_air(services: Services, tabs: Collection[str] | None = None, **options: Any) -> Iterator[gr.Blocks]:
    """Serve the lab, or a few of its tabs, on a free port while the block runs; `app.local_url` is where."""
    app = build_app(services, tabs)
    put_on_air(app, server_name="127.0.0.1", quiet=True, **options)
    services.engine.start()
    try:
        yield app
    finally:
        app.close(verbose=False)
        services.store.close()
