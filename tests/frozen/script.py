"""Runs a script of commands, one a line, in a folder of its own, and records what each printed or wrote.

    assay WORDS [| FIELD,FIELD]   the JSON document that a command prints, or those fields of it
    !assay WORDS                  the same for a command that must fail
    cat FILE [| FIELD,FIELD]      a file that a command wrote: text, JSON or JSONL
    ls FOLDER                     the files below a folder
    copy FROM TO                  a file of the repository, or a folder without its sampled completions
    restore DUMP DB, tables DB    a database from its SQL dump, and all its rows
    env NAME=VALUE                for the commands below
    space NAME FILE               a file of a Space as it would be published
    hub                           a Hub on this machine for the commands below
    run FILE                      a run.json as today's code understands it

`$ROOT` is the repository. Files of `tests/frozen/files` stand in the working folder.
"""

import contextlib
import json
import os
import re
import shlex
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

from typer.testing import CliRunner

from tests.frozen.table import rounded

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
MOMENT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z| UTC|[+-]\d\d:\d\d)?")
SDK = re.compile(r"(?m)^sdk_version: .*$")
MARK = re.compile(r"as Assay wrote it, sha256 [0-9a-f]{64}")  # over a text that holds the time
PORT = re.compile(r"127\.0\.0\.1:\d+")
VOLATILE = {"versions", "libraries", "code_revision", "host", "revision", "size", "upload_bytes"}
"""Fields whose value is of a day or a machine."""
FAILED = "FAILED"
WORKING = {"HF_HUB_DISABLE_PROGRESS_BARS": "1", "COLUMNS": "200", "OMP_NUM_THREADS": "1"}


def run_script(name: str) -> dict[str, Any]:
    """Return what every line of `scripts/NAME.txt` gave, by line."""
    lines = (HERE / "scripts" / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    rows: dict[str, Any] = {}
    with working_folder() as folder, contextlib.ExitStack() as stack:
        for line in lines:
            if line == "hub":
                stack.enter_context(_hub(folder))
            elif line.strip() and not line.startswith("#"):
                found = settled(_do(line), folder)
                if found is not None:
                    times = sum(key == line or key.startswith(f"{line} #") for key in rows)
                    rows[f"{line} #{times + 1}" if times else line] = found
    return rows


@contextlib.contextmanager
def working_folder() -> Iterator[Path]:
    """Give a folder with the input files as working directory, and the settings of a fresh user."""
    kept = dict(os.environ)
    with tempfile.TemporaryDirectory(prefix="frozen-") as name:
        folder = Path(name).resolve()
        shutil.copytree(HERE / "files", folder / "work")
        for key in [each for each in os.environ if each.startswith("ASSAY_")]:
            del os.environ[key]
        os.environ.update(WORKING, ASSAY_DATABASE_URL=f"sqlite:///{folder / 'work' / 'lab.db'}")
        os.environ["ASSAY_CACHE"] = str(folder / "cache")
        try:
            with contextlib.chdir(folder / "work"):
                yield folder
        finally:
            os.environ.clear()
            os.environ.update(kept)


def settled(value: Any, folder: Path, key: str = "") -> Any:
    """Return a value without what is of a day or a machine, with six digits in numbers."""
    if key in VOLATILE and value:
        return f"<{key}>"
    if isinstance(value, Mapping):
        return {str(name): settled(each, folder, str(name)) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [settled(each, folder) for each in value]
    if isinstance(value, str):
        for place, name in ((folder, "<folder>"), (ROOT, "<root>")):
            value = value.replace(str(place), name)
        return SDK.sub(
            "sdk_version: <>", PORT.sub("<address>", MOMENT.sub("<time>", MARK.sub("as Assay wrote it", value)))
        )
    return rounded(value)


def assay(words: list[str], *, fails: bool = False) -> Any:
    """Run `assay WORDS` in this process and return what it printed; {"FAILED": why} if it must not have."""
    from lab.cli import app

    done = CliRunner().invoke(app, words)
    found = _document(done.stdout)
    if (done.exit_code != 0) is not fails:
        return {FAILED: f"exit code {done.exit_code}: {done.exception!r}", "printed": found}
    return {"exit code": done.exit_code, "printed": found} if fails else found


def _do(line: str) -> Any:
    line, _, fields = line.partition(" | ")
    verb, *words = shlex.split(line.replace("$ROOT", str(ROOT)))
    try:
        found = VERBS[verb](*words)
    except OSError as error:  # a file that was to be there is not
        return {FAILED: repr(error)}
    if not fields or FAILED in found:
        return found
    return {name: found[name] for name in fields.split(",")}


def _document(text: Any) -> Any:
    if not isinstance(text, str) or not text:
        return text
    with contextlib.suppress(ValueError):
        return json.loads(text)
    with contextlib.suppress(ValueError):
        return [json.loads(each) for each in text.splitlines()]
    return text


@contextlib.contextmanager
def _hub(folder: Path) -> Iterator[None]:
    """Let the Hub's client, which reads its settings when it is imported, speak to a Hub of ours."""
    from huggingface_hub import constants

    from tests.hub.local import Hub, LocalHub

    token, names = "hf_frozen", {"HF_HUB_OFFLINE": False}
    with LocalHub(Hub(folder / "hub", {token: "tester"}, ("org",))) as hub:
        names["HUGGINGFACE_CO_URL_TEMPLATE"] = hub.url + "/{repo_id}/resolve/{revision}/{filename}"
        os.environ["HF_TOKEN"] = token
        with patch.multiple(constants, ENDPOINT=hub.url, **names):
            yield


def _copy(source: str, target: str) -> None:
    if (ROOT / source).is_file():
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / source, target)
        return
    shutil.copytree(ROOT / source, target, ignore=shutil.ignore_patterns("completions*"))


def _restore(dump: str, database: str) -> None:
    with contextlib.closing(sqlite3.connect(database)) as connection:
        connection.executescript(Path(dump).read_text(encoding="utf-8"))


def _tables(database: str) -> dict[str, Any]:
    with contextlib.closing(sqlite3.connect(database)) as connection:
        connection.row_factory = sqlite3.Row
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY 1")
        rows = {name: connection.execute(f"SELECT * FROM {name} ORDER BY 1").fetchall() for (name,) in names.fetchall()}
        return {name: [{key: _document(row[key]) for key in row.keys()} for row in each] for name, each in rows.items()}  # noqa: SIM118


def _run(file: str) -> dict[str, Any]:
    from evals.schema import RunRecord

    return RunRecord.model_validate_json(Path(file).read_bytes()).model_dump(mode="json")


def _space(name: str, file: str) -> str:
    from hub.spaces import bundle_folder, pack_space

    return pack_space(bundle_folder(name), f"org/{name}", {}).parts[file].read().decode()


VERBS: dict[str, Callable[..., Any]] = {
    "assay": lambda *words: assay(list(words)),
    "!assay": lambda *words: assay(list(words), fails=True),
    "cat": lambda file: _document(Path(file).read_text(encoding="utf-8")),
    "ls": lambda folder: sorted(each.relative_to(folder).as_posix() for each in Path(folder).rglob("*")),
    "copy": _copy,
    "restore": _restore,
    "tables": _tables,
    "env": lambda setting: os.environ.update([setting.split("=", 1)]),
    "space": _space,
    "run": _run,
}
