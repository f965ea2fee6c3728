"""A lab for every test of the page that wants one, two that are served to all, and an end to every store."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import gradio as gr
import pytest
from typer.testing import CliRunner

from lab.cli import app as assay
from lab.services import Services
from lab.settings import Person, password_check, read_people
from tests.lab.chains import lab_with
from tests.lab.served import PASSWORD, on_air
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


@pytest.fixture(scope="session")
def open_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[gr.Blocks]:
    """A lab on the air that no test changes for another, where a proxy is set that nothing answers at."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
        patch.setenv("no_proxy", "")
        with on_air(lab_with(tmp_path_factory.mktemp("open"))) as app:
            patch.undo()
            yield app


@pytest.fixture(scope="session")
def file_of_people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Who may come into the guarded lab, as the command writes it down."""
    path = tmp_path_factory.mktemp("people") / "people"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASSAY_PASSWORD", PASSWORD)
        for name, role in (("ada", "admin"), ("rob", "rater"), ("kim", "rater"), ("rea", "reader")):
            done = CliRunner().invoke(assay, ["people", "add", name, "--role", role, "--file", str(path)])
            assert done.exit_code == 0, done.output
    return path


@pytest.fixture(scope="session")
def people(file_of_people: Path) -> Mapping[str, Person]:
    return read_people(file_of_people)


@pytest.fixture(scope="session")
def guarded(
    people: Mapping[str, Person], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[gr.Blocks, Services]]:
    """A lab on the air that these people may enter, and its services."""
    room = replace(lab_with(tmp_path_factory.mktemp("guarded")), people=people)
    with on_air(room, auth=password_check(people, room.log)) as app:
        yield app, room
