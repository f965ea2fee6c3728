"""Runs `assay` in this process as a table of cases says: tests/lab/cases/*.yaml, one table a subject.

A case has a sentence (`case`), `files` to begin with, perhaps `env` and the behaviour of a judge's `server`,
and steps to `run`, in a folder of its own:

    assay: WORDS        the command; $ROOT, $HERE (its folder), $SERVER, $CHAIN and $RUNS (tiny) stand for places
    put: FILES          files written before it: text, JSONL from a list, {report: changes}, {json: …}, {yaml: …}, {sql: DUMP}
    fails: ERROR        the command must end with this error (else with `exit`, 0), and then may write nothing
    says, shows         texts in what is told (standard error or the error); in standard output; `hides`: in neither
    json, has           path -> value in the document that is printed; path -> keys that are there
    files               file -> texts in it, or path -> value where it is JSON; what a JSON file holds
    writes, lacks       every file that is new or another afterwards; texts that are in none of them

A path is dotted: a key, a place in a list, `*` for each, `#` for how many, `a=x&b=y` for the row with these. A value {holds: TEXT} is a part of a text.
"""

import contextlib
import json
import os
import shlex
import sqlite3
import string
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

import yaml
from typer.testing import CliRunner

from evals.errors import LabError
from evals.report import save_report
from lab.cli import app
from tests.evals.reports import small_report
from tests.training.judge_server import KNOWN, Behaviour, JudgeServer, reads, says

CASES = Path(__file__).parent / "cases"
ROOT = Path(__file__).resolve().parents[2]
REPORT = small_report(16, "always down", "tissue majority")
CONCERN = '[{"text": "There is no control arm.", "category": "design_flaw", "severity": "major"}]'
REVIEW = {
    "model": "vendor-4o-2026-08-06",  # as vendors do: under a dated name
    "choices": [{"message": {"role": "assistant", "content": CONCERN}, "finish_reason": "stop"}],
}
SERVERS: dict[str, Behaviour] = {
    "reads": reads,
    "reads nothing": lambda asked: says({"answer": "none", "confidence": None}),
    "reviews": lambda asked: (500, b"no") if "M2x0" in asked.text else (200, json.dumps(REVIEW).encode()),
    "says up": lambda asked: says("Answer: up"),
    "reads known answers only": lambda asked: reads(asked) if asked.parts["ANSWER"] in KNOWN else says("no"),
}


def printed_by(*words: object) -> dict:
    """Return what a command prints with --json."""
    done = CliRunner().invoke(app, [*map(str, words), "--json"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def run_here(line, _, env=None) -> int:
    """Run a line of ours in this process, which has torch already: a command, or the stage that accelerate would start.

    It stands in for `lab.commands.train.run_to_end` in tests that train several stages.
    """
    from training.run.session import run_command
    from training.stages import STAGES

    if "-m" not in line:
        return CliRunner().invoke(app, line[3:], catch_exceptions=False).exit_code
    module, *words = line[line.index("-m") + 1 :]
    stage = module.rpartition(".")[2]
    with patch.dict(os.environ, env), contextlib.redirect_stdout(sys.stderr):
        run_command(stage, STAGES[stage], import_module(module).train, words)
    return 0


def listed(value: Any) -> list[Any]:
    return [] if value is None else value if isinstance(value, list) else [value]


def problems_of(table: str, folder: Path, places: Mapping[str, object]) -> list[str]:
    """Return what is not as the table says, a line each."""
    cases = yaml.safe_load((CASES / f"{table}.yaml").read_text(encoding="utf-8"))
    found = []
    for number, case in enumerate(each for each in cases if "case" in each):
        with _place(folder / str(number), case) as server:
            names = {"ROOT": ROOT, "HERE": folder / str(number), "SERVER": server, **places}
            _put(_filled(case.get("files", {}), names))
            for step in _filled(case["run"], names):
                try:
                    problems = list(_problems(step))
                except (LookupError, ValueError, OSError, StopIteration) as error:  # no such field or file, no JSON
                    problems = [repr(error)]
                found += [f"{case['case']}: {step['assay']}: {each}" for each in problems]
    return found


@contextlib.contextmanager
def _place(folder: Path, case: Mapping[str, Any]) -> Iterator[str]:
    folder.mkdir()
    before = dict(os.environ)
    cache = {"ASSAY_CACHE": str(folder.with_name(f"{folder.name}-cache")), "COLUMNS": "200"}
    os.environ.update(cache, ASSAY_DATABASE_URL=f"sqlite:///{folder.with_name(folder.name + '.db')}")
    os.environ.update(case.get("env", {}))
    try:
        with contextlib.chdir(folder), contextlib.ExitStack() as stack:
            has_server = "server" in case
            yield stack.enter_context(JudgeServer(SERVERS[case["server"]])).url if has_server else ""
    finally:
        os.environ.clear()
        os.environ.update(before)


def _put(files: Mapping[str, Any]) -> None:
    for name, given in files.items():
        file = Path(name)
        file.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(given, Mapping) and "report" in given:
            changes = {
                key: getattr(REPORT, key) | value if isinstance(value, dict) else value
                for key, value in (given["report"] or {}).items()
            }
            save_report(REPORT.model_copy(update=changes), file)
            continue
        if isinstance(given, Mapping) and "sql" in given:
            with contextlib.closing(sqlite3.connect(file)) as database:
                database.executescript(Path(given["sql"]).read_text(encoding="utf-8"))
            continue
        if isinstance(given, list):
            given = "".join(f"{each if isinstance(each, str) else json.dumps(each)}\n" for each in given)
        elif isinstance(given, Mapping):
            given = json.dumps(given["json"]) if "json" in given else yaml.safe_dump(given["yaml"], sort_keys=False)
        file.write_text(given, encoding="utf-8")


def _filled(value: Any, names: Mapping[str, object]) -> Any:
    """Return a value of a table with the places in its texts."""
    if isinstance(value, str):
        return string.Template(value).safe_substitute(names)
    if isinstance(value, Mapping):
        return {_filled(key, names): _filled(each, names) for key, each in value.items()}
    return [_filled(each, names) for each in value] if isinstance(value, list) else value


def _written() -> dict[str, bytes]:
    return {str(each): each.read_bytes() for each in sorted(Path().rglob("*")) if each.is_file()}


def _problems(step: Mapping[str, Any]) -> Iterator[str]:
    _put(step.get("put", {}))
    before = _written()
    done = CliRunner().invoke(app, shlex.split(step["assay"]))
    error, after = done.exception, _written()
    is_bug = error is not None and not isinstance(error, LabError | SystemExit)
    told = " ".join(f"{done.stderr} {error if isinstance(error, LabError) else ''}".split())
    ended = type(error).__name__ if isinstance(error, LabError) else done.exit_code
    if is_bug or ended != (wanted := step.get("fails", step.get("exit", 0))):
        yield f"ended with {error!r} {ended}" if is_bug else f"ended with {ended} instead of {wanted}: {told}"
        return
    shown = " ".join(done.stdout.split())
    yield from (f"{each!r} is not told, but {told!r}" for each in listed(step.get("says")) if each not in told)
    yield from (f"{each!r} is not shown, but {shown!r}" for each in listed(step.get("shows")) if each not in shown)
    yield from (f"{each!r} is there" for each in listed(step.get("hides")) if each in told + shown)
    written = sorted({name for name, _ in after.items() ^ before.items()})
    if written != sorted(step.get("writes", [] if "fails" in step else written)):
        yield f"it wrote {written}"
    for each in listed(step.get("lacks")):
        yield from (f"{each!r} is in {name}" for name in written if each.encode() in after[name])
    if "json" in step or "has" in step:
        yield from _unlike(json.loads(done.stdout), step.get("json", {}), step.get("has", {}))
    for name, wanted in step.get("files", {}).items():
        text = Path(name).read_text(encoding="utf-8")
        if isinstance(wanted, Mapping):
            rows = name.endswith(".jsonl")
            document = [json.loads(each) for each in text.splitlines()] if rows else json.loads(text)
            yield from (f"{name}: {each}" for each in _unlike(document, wanted, {}))
        else:
            yield from (f"{each!r} is not in {name}: {text}" for each in listed(wanted) if each not in text)


def _unlike(document: Any, values: Mapping[str, Any], keys: Mapping[str, Any]) -> Iterator[str]:
    for path, wanted in values.items():
        if not _same(found := _at(document, str(path)), wanted):
            yield f"{path} is {found!r}, not {wanted!r}"
    for path, wanted in keys.items():
        for each in listed(_at(document, path)):
            if missing := set(wanted) - set(each or ()):
                yield f"{path or 'it'} has no {sorted(missing)}"


def _at(found: Any, path: str) -> Any:
    for place, key in enumerate(parts := path.split(".") if path else []):
        if key == "*":
            rest = ".".join(parts[place + 1 :])
            return [_at(each, rest) for each in (found.values() if isinstance(found, dict) else found)]
        if key == "#":
            found = len(found)
        elif "=" in key:
            wanted = [each.partition("=")[::2] for each in key.split("&")]
            found = next(row for row in found if all(str(row[name]) == value for name, value in wanted))
        else:
            found = found[key if isinstance(found, dict) else int(key)]
    return found


def _same(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping) and wanted.keys() == {"holds"}:
        return all(each in str(found) for each in listed(wanted["holds"]))
    if isinstance(wanted, Mapping):
        return (
            isinstance(found, dict)
            and found.keys() == wanted.keys()
            and all(_same(found[k], wanted[k]) for k in wanted)
        )
    if isinstance(wanted, Sequence) and not isinstance(wanted, str):
        return isinstance(found, list) and len(found) == len(wanted) and all(map(_same, found, wanted))
    if isinstance(wanted, float) and isinstance(found, int | float):
        return abs(found - wanted) <= 1e-6 * max(1.0, abs(wanted))
    return found == wanted and isinstance(found, bool) == isinstance(wanted, bool)
