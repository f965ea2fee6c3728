"""`assay people`: who may enter the lab and what they may do there, and the log of what they did."""

import json
import os
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from evals.errors import LabError
from evals.io import write_whole
from lab.commands import Json
from lab.commands.terminal import emit, notes, table_of
from lab.roles import Person, Role, hashed, read_people, write_people
from lab.services import open_store
from lab.settings import from_environment
from lab.ui.text import say

app = typer.Typer(no_args_is_help=True, help="Say who may enter the lab, as what, and read what they did.")
File = Annotated[Path, typer.Option("--file", envvar="ASSAY_PEOPLE", help="Where the names stand.")]
PEOPLE = Path("people")
SHORTEST = 8


@app.command()
def add(
    name: Annotated[str, typer.Argument(help="Without a colon.")],
    role: Annotated[
        Role, typer.Option(help="reader looks and asks; rater judges as well; admin may do all.")
    ] = "rater",
    file: File = PEOPLE,
) -> None:
    """Let somebody in, or give them a new password or role. The password is asked for, or read from ASSAY_PASSWORD.

    The lab takes it up when it starts again: assay lab --host 0.0.0.0 --auth-file people

    Example: assay people add kim --role admin
    """
    people = read_people(file) if file.exists() else {}
    if ":" in name or not name.strip() or name.startswith("#") or "\n" in name:
        raise LabError(say("people.name", name=name))
    password = os.environ.get("ASSAY_PASSWORD") or typer.prompt(
        "Password", hide_input=True, confirmation_prompt=True, err=True
    )
    if len(password) < SHORTEST:
        raise LabError(say("people.short", least=SHORTEST))
    name = name.strip()
    write_people(file, people | {name: Person(name, role, hashed(password))})
    notes.print(say("people.added", name=name, role=role, file=file), soft_wrap=True)


@app.command()
def remove(name: Annotated[str, typer.Argument()], file: File = PEOPLE) -> None:
    """Take a name out; what they judged stays (`assay prefs forget NAME` deletes it).

    Example: assay people remove kim
    """
    people = read_people(file)
    if people.pop(name, None) is None:
        raise LabError(say("people.unknown", name=name, known=", ".join(people)))
    write_people(file, people)


@app.command("list")
def list_(file: File = PEOPLE, as_json: Json = False) -> None:
    """Show who may enter, and as what.

    Example: assay people list
    """
    rows = [(person.name, person.role) for person in read_people(file).values()]
    table = table_of(str(file), ("name", "role"), rows)
    emit([{"name": name, "role": role} for name, role in rows], as_json=as_json, table=table)


@app.command()
def log(newest: Annotated[int, typer.Option(min=1, help="How many lines.")] = 50, as_json: Json = False) -> None:
    """Show who logged in or failed to, and what admins did: training, exports, projects; the newest first.

    Example: assay people log --newest 20
    """
    with closing(open_store(from_environment().database_url)) as store:
        deeds = store.deeds(newest)
    rows = [(f"{deed.at:%Y-%m-%d %H:%M:%S}", deed.who, deed.what, deed.about) for deed in deeds]
    document = [{**deed._asdict(), "at": deed.at.isoformat()} for deed in deeds]
    emit(document, as_json=as_json, table=table_of("Log (UTC)", ("at", "who", "what", "about"), rows))


@app.command()
def export(
    name: Annotated[str, typer.Argument(help="The name, or the hash that exports show.")],
    out: Annotated[Path, typer.Option(help="A JSON file to write.")],
) -> None:
    """Write all there is of somebody, on their request: questions asked, votes, reviews, annotations, log lines.

    `assay prefs forget NAME` deletes it.

    Example: assay people export kim --out kim.json
    """
    with closing(open_store(from_environment().database_url)) as store:
        found = store.personal_data(name)
    write_whole(out, json.dumps(found, indent=1, ensure_ascii=False, default=str) + "\n")
    rows = [(table.replace("_", " "), len(each)) for table, each in found.items()]
    emit({}, as_json=False, table=table_of(str(out), ("of", "rows"), rows))
