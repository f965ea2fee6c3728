"""`assay lab` and `assay doctor`: start the lab, or find out why it would not start."""

import gc
import os
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evals.errors import BadRow, LabError
from lab.commands.questions import know
from lab.console import emit, notes, table_of

if TYPE_CHECKING:
    from lab.settings import Settings

PORT = 7860
PORTS_TRIED = 40
Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]


def lab(
    host: Annotated[str, typer.Option(help="127.0.0.1 = this machine only.")] = "127.0.0.1",
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help=f"Default: {PORT}, or the next free one.")
    ] = None,
    chain: Annotated[
        str | None, typer.Option(help="embedded, a run folder or a chain.json.")
    ] = None,
    share: Annotated[bool, typer.Option("--share", help="Also a public link, for 3 days.")] = False,
    auth_file: Annotated[
        Path | None, typer.Option(help="Who may enter: a file with one name:password per line.")
    ] = None,
    questions: Annotated[
        str | None,
        typer.Option(
            help="Question sets of your own, with commas: their questions get a verdict in Ask."
        ),
    ] = None,
    open_browser: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page in a browser.")
    ] = False,
) -> None:
    """Start the lab and open it at http://127.0.0.1:7860.

    Example: assay lab --chain runs/my-grpo --port 7861
    """
    from lab.settings import comma_separated, from_environment, is_loopback

    people = read_people(auth_file) if auth_file else None
    chosen = choose_port(host, port)
    settings = from_environment()
    is_shared = people is None and (share or not is_loopback(host))
    training = replace(settings.training, is_shared=is_shared)
    settings = replace(settings, training=training, chain=chain or settings.chain)
    if questions is not None:
        settings = replace(settings, questions=comma_separated(questions))
    shown = "127.0.0.1" if host in {"0.0.0.0", "::"} else host
    open_lab(
        settings,
        ready=lambda: notes.print(f"Assay runs at http://{shown}:{chosen} (stop: Ctrl C)"),
        server_name=host,
        server_port=chosen,
        share=share,
        auth=people,
        inbrowser=open_browser,
        quiet=not share,
    )


def open_lab(
    settings: "Settings",
    ready: Callable[[], None] = lambda: None,
    *,
    tabs: Collection[str] | None = None,
    **options: Any,
) -> None:
    """Put the lab on the air and serve it until it is stopped. `options` go to `gr.Blocks.launch`.

    `tabs` names those to show, None = all; only a chain that they ask is loaded. `ready` is called once the
    page and the database are there. Raises LabError if the database cannot be opened.
    """
    know(settings.questions)
    # Read by gradio when it is imported.
    os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
    with collecting_nothing():
        from lab.app import build_app, put_on_air, run
        from lab.services import build_services

        services = build_services(settings)
        app = build_app(services, tabs)
        put_on_air(app, **options)
    run(app, services, ready, tabs)


@contextmanager
def collecting_nothing() -> Generator[None]:
    """Keep the garbage collector from going over what is imported and built, again and again.

    All of it stays for as long as the lab runs, so that finds nothing and takes a fifth of the start.
    Afterwards it looks at what is new only.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def doctor(
    port: Annotated[int, typer.Option(min=1, max=65535, help="The port to look at.")] = PORT,
    as_json: Json = False,
) -> None:
    """Check what the lab needs: packages, model, folders, database, port.

    Exit code 1 if something is broken that it cannot do without.

    Example: assay doctor
    """
    from lab.doctor import examine
    from lab.settings import from_environment

    checks = list(examine(from_environment(), port))
    signs = {"ok": "ok", "warning": "warning", "failure": "FAILURE"}
    rows = [(check.name, signs[check.result], check.found, check.remedy) for check in checks]
    table = table_of("assay doctor", ("check", "result", "found", "what to do"), rows)
    emit(checks, as_json=as_json, table=table)
    if any(check.result == "failure" for check in checks):
        raise typer.Exit(1)


def choose_port(host: str, wanted: int | None) -> int:
    """Return the port to listen on.

    A port that was asked for is taken or refused (LabError); without a wish, the first free one
    from 7860 on, and a note if that is another.
    """
    from lab.doctor import is_free

    if wanted is not None:
        if is_free(host, wanted):
            return wanted
        free = _first_free(host, wanted + 1, is_free)
        hint = f"--port {free} is free" if free else "choose another with --port"
        raise LabError(
            f"port {wanted} on {host} is taken; {hint}, or stop the program that uses it."
        )
    free = _first_free(host, PORT, is_free)
    if free is None:
        last = PORT + PORTS_TRIED - 1
        raise LabError(f"ports {PORT} to {last} on {host} are all taken; choose one with --port.")
    if free != PORT:
        notes.print(f"Port {PORT} is taken, so the lab uses {free}. Choose with --port N.")
    return free


def read_people(path: Path) -> list[tuple[str, str]]:
    """Return the names and passwords in a file; blank lines and lines with # are left out.

    Raises LabError if it cannot be read or names nobody, BadRow for a line without a colon.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise LabError(
            f"the file of names {path} cannot be read ({type(error).__name__}); "
            "write one name:password per line."
        ) from error
    people = []
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, colon, password = line.strip().partition(":")
        if not (name and colon and password):
            # The line is not repeated: it may be a password.
            raise BadRow(path, number, "name:password", "needs a name, a colon and a password")
        people.append((name, password))
    if not people:
        raise LabError(f"the file of names {path} names nobody; write one name:password per line.")
    return people


def _first_free(host: str, start: int, is_free: Callable[[str, int], bool]) -> int | None:
    ports = range(start, min(start + PORTS_TRIED, 65536))
    return next((port for port in ports if is_free(host, port)), None)
