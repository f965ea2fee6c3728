"""The local Hub on a port: in a thread beside a program, or in the foreground."""

import logging
import socket
import threading
import time
from pathlib import Path
from types import TracebackType

import uvicorn

from evals.errors import LabError
from hub.local.app import make_app
from hub.local.hub import Hub, Options

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
        raise LabError(
            f"port {port} is taken; choose another with --port, or stop the program that uses it."
        ) from None
    return listening


def _config(hub: Hub) -> uvicorn.Config:
    logging.getLogger("uvicorn.error").addFilter(_is_no_fault)
    return uvicorn.Config(make_app(hub), log_level="warning", timeout_graceful_shutdown=1)


def _is_no_fault(record: logging.LogRecord) -> bool:
    """Whether a message is worth showing: an answer that was broken off on purpose is not."""
    return "ASGI callable returned without completing response" not in record.getMessage()
