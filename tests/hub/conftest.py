"""A local Hub, and the real client in a process of its own, for as long as the tests of a worker last."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hub.local import Hub, LocalHub, Options
from tests.hub.client import OTHER, TOKEN, Client


@dataclass
class Stand:
    """A Hub with its client. `hub.log` says what was asked, `hub.faults` what shall go wrong."""

    hub: Hub
    url: str
    client: Client

    def run(self, function: Any, *words: Any, **named: Any) -> Any:
        """Run a function in the client's process."""
        return self.client.run(function, *words, **named)

    def asked(self, method: str, part: str) -> int:
        """How many requests of this kind were made since the test began."""
        return sum(each.method == method and part in each.path for each in self.hub.log)


def _stand(folder: Path, *, is_xet: bool) -> Iterator[Stand]:
    options = Options(
        tokens={TOKEN: "tester", OTHER: "stranger"},
        organisations=("org",),
        xet=folder / "cas" if is_xet else None,
        redirects=not is_xet,
    )
    (folder / "cas").mkdir()
    with LocalHub(folder / "hub", options) as local:
        client = Client(local.url, folder / "home", is_xet=is_xet)
        yield Stand(local.hub, local.url, client)
        client.close()


@pytest.fixture(scope="session")
def lfs_stand(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    yield from _stand(tmp_path_factory.mktemp("lfs"), is_xet=False)


@pytest.fixture(scope="session")
def xet_stand(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    yield from _stand(tmp_path_factory.mktemp("xet"), is_xet=True)


@pytest.fixture
def stand(lfs_stand: Stand) -> Iterator[Stand]:
    """The Hub that offers LFS, nothing asked yet and nothing going wrong."""
    lfs_stand.hub.log.clear()
    lfs_stand.hub.faults.clear()
    yield lfs_stand
    lfs_stand.hub.faults.clear()


@pytest.fixture
def with_xet(xet_stand: Stand) -> Iterator[Stand]:
    """The Hub that offers xet."""
    xet_stand.hub.log.clear()
    xet_stand.hub.faults.clear()
    yield xet_stand
    xet_stand.hub.faults.clear()
