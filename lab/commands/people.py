"""`assay people`: who may enter the lab and what they may do there, and the log of what they did."""

import os
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from evals.errors import LabError
from lab.commands import CommandSettings, JsonSettings, command
from lab.commands.terminal import emit, end_progress, notes
from lab.services import open_store
from lab.settings import Person, Role, from_environment, hash_password, read_people, write_people
from lab.ui.text import say

app = typer.Typer(no_args_is_help=True, help="Say who may enter the lab, as what, and read what they did.")
SHORTEST = 8


class PersonSettings(CommandSettings):
    """Settings of a command about one person."""

    name: str
    """The name, without a colon."""
    file: Annotated[Path, typer.Option(envvar="ASSAY_PEOPLE")] = Path("people")
    """Where the names stand, one a line."""


class AddSettings(PersonSettings):
    """Settings of `assay people add`."""

    role: Role = "rater"
    """reader looks and asks; rater judges as well; admin may do all."""


class LogSettings(JsonSettings):
    """Settings of `assay people log`."""

    newest: Annotated[int, typer.Option(min=1)] = 50
    """How many lines."""


@command(app)
def add(settings: AddSettings) -> None:
    """Let somebody in, or give them a new password or role. The password is asked for, or read from ASSAY_PASSWORD.

    The lab takes it up when it starts again: assay lab --host 0.0.0.0 --auth-file people

    Example: assay people add kim --role admin
    """
    file, name = settings.file, settings.name
    people = read_people(file) if file.exists() else {}
    if ":" in name or not name.strip() or name.startswith("#") or "\n" in name:
        raise LabError(say("people.name", name=name))
    end_progress()
    password = os.environ.get("ASSAY_PASSWORD") or typer.prompt(
        "Password", hide_input=True, confirmation_prompt=True, err=True
    )
    if len(password) < SHORTEST:
        raise LabError(say("people.short", least=SHORTEST))
    name = name.strip()
    write_people(file, people | {name: Person(name, settings.role, hash_password(password))})
    notes.print(say("people.added", name=name, role=settings.role, file=file), soft_wrap=True)


@command(app)
def remove(settings: PersonSettings) -> None:
    """Take a name out; what they judged stays (`assay prefs forget NAME` deletes it).

    Example: assay people remove kim
    """
    people = read_people(settings.file)
    if people.pop(settings.name, None) is None:
        raise LabError(say("people.unknown", name=settings.name, known=", ".join(people)))
    write_people(settings.file, people)


@command(app)
def log(settings: LogSettings) -> None:
    """Show who logged in or failed to, and what admins did: training, exports, projects; the newest first.

    Example: assay people log --newest 20
    """
    with closing(open_store(from_environment().database_url)) as store:
        deeds = store.deeds(settings.newest)
    document = [{**deed._asdict(), "at": deed.at.isoformat()} for deed in deeds]
    emit(document, as_json=settings.as_json, table="Log")
