"""A Hub on this machine for as long as the tests of a worker last, and the real client, told in this process to speak to it."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import CommitOperationAdd, HfApi, constants

from evals.errors import LabError
from hub import publish
from hub.adapters import Publication
from hub.chains import fetch_chain, plan_chain, publish_chain
from tests.hub.local import Hub, LocalHub

TOKEN, OTHER = "hf_test", "hf_other"


@dataclass
class Stand:
    """A Hub with its client. `hub.log` says what was asked, `hub.faults` what shall go wrong."""

    hub: Hub
    url: str

    def api(self, token: str | bool = TOKEN) -> HfApi:
        return HfApi(endpoint=self.url, token=token)

    def asked(self, method: str, part: str) -> int:
        """How many requests of this kind were made since the test began."""
        return sum(each.method == method and part in each.path for each in self.hub.log)

    def only_read(self) -> bool:
        return {each.method for each in self.hub.log} <= {"GET", "HEAD"}

    def tree(self, name: str, kind: Any = "model") -> dict[str, Any] | None:
        """Return the files of main with their entries, None if there is no such repository."""
        repository = self.hub.find(kind, name)
        return None if repository is None else self.hub.commit(repository, "main").tree

    def on_main(self, name: str, kind: str = "model") -> set[str] | None:
        """Return the names of the files of main, None if there is no such repository."""
        tree = self.tree(name, kind)
        return None if tree is None else set(tree) - {".gitattributes"}

    def read(self, name: str, path: str, kind: str = "model") -> bytes:
        tree = self.tree(name, kind)
        assert tree is not None
        return (self.hub.contents / tree[path].sha256).read_bytes()

    def create(self, name: str, kind: str = "model", **named: Any) -> None:
        self.api().create_repo(name, repo_type=kind, exist_ok=True, **named)

    def commit(self, name: str, files: dict[str, bytes], kind: str = "model", token: str = TOKEN, **named: Any) -> Any:
        operations = [CommitOperationAdd(path, content) for path, content in files.items()]
        return self.api(token).create_commit(name, operations, commit_message="a change", repo_type=kind, **named)

    def publish(self, folder: Path, repo: str, **wanted: Any) -> Any:
        """Publish a run with its chain; return the receipts, or the message of the error."""
        publication = Publication(repo, **wanted)
        return self.attempt(lambda: publish_chain(self.api(), folder, publication, lambda words: None))

    def plan(self, folder: Path, repo: str, **wanted: Any) -> Any:
        """Return the plans of a dry run, or the message of the error."""
        return self.attempt(lambda: plan_chain(self.api(), folder, Publication(repo, **wanted)))

    def add_chain(self, source: str, folder: Path) -> Any:
        """Bring a published chain here; return its stages, or the message of the error."""
        manifest = self.attempt(lambda: fetch_chain(self.api(), source, folder, lambda words: None))
        return manifest if isinstance(manifest, str) else [stage.name for stage in manifest.stages]

    def attempt(self, work: Any) -> Any:
        try:
            return work()
        except LabError as error:
            return str(error)


def before(monkeypatch: pytest.MonkeyPatch, method: str, slip_in: Callable[[], object]) -> None:
    """Do something right before the client's next call of a method, and nothing before those after it."""
    original = getattr(HfApi, method)

    def slower(self: HfApi, *words: Any, **named: Any) -> Any:
        monkeypatch.setattr(HfApi, method, original)
        slip_in()
        return original(self, *words, **named)

    monkeypatch.setattr(HfApi, method, slower)


@pytest.fixture(scope="session")
def local_hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalHub]:
    users = {TOKEN: "tester", OTHER: "stranger"}
    with LocalHub(Hub(tmp_path_factory.mktemp("hub"), users, ("org",), redirects=True)) as running:
        yield running


@pytest.fixture
def stand(
    local_hub: LocalHub, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Stand]:
    """The Hub, nothing asked yet and nothing going wrong; the client reads its settings when it is imported."""
    settings = {
        "ENDPOINT": local_hub.url,
        "HUGGINGFACE_CO_URL_TEMPLATE": local_hub.url + "/{repo_id}/resolve/{revision}/{filename}",
        "HF_HUB_OFFLINE": False,
        "HF_HUB_DISABLE_XET": True,
        "HF_HUB_CACHE": str(tmp_path_factory.mktemp("cache")),
    }
    for name, value in settings.items():
        monkeypatch.setattr(constants, name, value)
    monkeypatch.setattr(publish, "PAUSE_SECONDS", 0.01)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    local_hub.hub.log.clear()
    local_hub.hub.faults.clear()
    yield Stand(local_hub.hub, local_hub.url)
    local_hub.hub.faults.clear()


def client_settings(url: str, home: Path) -> dict[str, str]:
    """Return what a process of its own needs to see to speak to this Hub."""
    offline = {f"HF_{name}_OFFLINE": "0" for name in ("HUB", "DATASETS", "EVALUATE")}
    return {**offline, "HF_ENDPOINT": url, "HF_HOME": str(home), "HF_TOKEN": TOKEN, "HF_HUB_DISABLE_XET": "1"}


def as_another_person(url: str, home: Path, code: str, *words: str) -> list[str]:
    """Run Python code in a process of its own with a fresh cache; return the lines that it prints."""
    command, settings = [sys.executable, "-c", code, *words], os.environ | client_settings(url, home)
    done = subprocess.run(command, env=settings, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()
