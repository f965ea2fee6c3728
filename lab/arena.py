"""The arena: blind votes on recorded answers and nothing else, kept where the place it runs in has room that stays."""

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from evals.errors import BadConfig
from hub.client import connect
from hub.copies import VoteLog
from lab.app import build_app, put_on_air, run
from lab.compare.recorded import Recorded
from lab.services import Services, build_services
from lab.settings import from_environment
from lab.ui.text import say
from lab.visitors import can_sign_in

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


def open_arena(environment: Mapping[str, str], answers: Path, **options: Any) -> None:
    """Put the arena of these answers on the air and serve it until it is stopped. `options` go to `gr.Blocks.launch`.

    Raises LabError for a file without pairs, or if there is no place for the votes that were to be kept.
    """
    recorded = Recorded.read(answers)
    with tempfile.TemporaryDirectory(prefix="assay-arena-") as folder:
        place = place_of_votes(environment, Path(folder))
        settings = replace(from_environment(environment), database_url=place.url)
        if place.repo is None:
            _serve(replace(build_services(settings), recorded=recorded), place, environment, options)
            return
        votes = VoteLog(connect(), place.repo, Path(folder) / "votes")
        try:
            _serve(replace(build_services(settings, votes.write), recorded=recorded), place, environment, options)
        finally:
            votes.push()
            votes.stop()


def _serve(services: Services, place: Place, environment: Mapping[str, str], options: dict[str, Any]) -> None:
    note = say("arena.nowhere") if place.kind == "nowhere" else ""
    app = build_app(services, TABS, note=note, has_sign_in=can_sign_in(environment))
    put_on_air(app, services.settings.hosts, is_space=services.settings.training.is_space, **options)
    run(app, services, ready=lambda: None, tabs=TABS)
