"""A lab for every test of the page that wants one, and an end to every store."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.services import Services
from tests.lab.chains import lab_with
from tests.lab.votes import OPENED, services_in


@pytest.fixture(autouse=True)
def stores_are_closed() -> Iterator[None]:
    """Close what a test has opened; a store that is asked again opens itself."""
    yield
    while OPENED:
        OPENED.pop().close()


@pytest.fixture
def services(tmp_path: Path) -> Services:
    """A lab around a new store, without a model."""
    return services_in(tmp_path)


@pytest.fixture
def room(tmp_path: Path) -> Services:
    """A lab with a scripted chain."""
    return lab_with(tmp_path)
