"""The arena: blind votes and nothing else, kept where the place it runs in has room that stays."""

import os
import tempfile
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from evals.errors import BadConfig
from hub.client import connect
from hub.votes import VoteLog
from lab.app import build_app, put_on_air, run
from lab.kept import ToldStore
from lab.migrate import upgrade
from lab.services import Services, build_services, once
from lab.settings import Settings, from_environment
from lab.signin import can_sign_in
from lab.wording import say

TABS = ("Compare",)
VOLUME = Path("/data")
"""Where a Space's persistent storage is mounted."""


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
        raise BadConfig(
            f"ASSAY_VOTES_REPO names {repo}, and there is no HF_TOKEN to write there; add one with write access"
            " to the secrets of the Space."
        )
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
        with closing(_Log(VoteLog(connect(), place.repo, Path(folder) / "votes"))) as log:
            _serve(_told(settings, log), place, environment, options)


class _Log:
    """A vote log that pushes a last time when it is closed."""

    def __init__(self, log: VoteLog) -> None:
        self.write = log.write
        self._log = log

    def close(self) -> None:
        self._log.push()
        self._log.stop()


def _told(settings: Settings, log: _Log) -> Services:
    def opened() -> ToldStore:
        upgrade(settings.database_url)
        return ToldStore(settings.database_url, log.write)

    return replace(build_services(settings), opened=once(opened))


def _serve(
    services: Services, place: Place, environment: Mapping[str, str], options: dict[str, Any]
) -> None:
    note = say("arena.nowhere") if place.kind == "nowhere" else ""
    app = build_app(services, TABS, note=note, has_sign_in=can_sign_in(environment))
    put_on_air(app, **options)
    run(app, services, ready=lambda: None, tabs=TABS)
