"""`assay lab`, `assay doctor`, and what every command prints."""

import json
import os
import socket
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from evals.errors import LabError
from lab import cli
from lab.commands import lab as commands
from lab.commands.lab import PORT, PORTS_TRIED, choose_port, read_people
from lab.commands.tables import table_of
from tests.lab.chains import manifest

ROOT = Path(__file__).resolve().parents[2]


def test_a_port_that_was_asked_for_and_is_taken_is_an_error_that_names_a_free_one():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        taken = listener.getsockname()[1]
        with pytest.raises(LabError, match=rf"port {taken} on 127.0.0.1 is taken; --port \d+ is free"):
            choose_port("127.0.0.1", taken)


def test_without_a_wish_the_next_free_port_is_used_and_said_plainly(monkeypatch, capsys):
    monkeypatch.setattr(commands, "is_free", lambda _, port: port >= PORT + 2)
    assert choose_port("127.0.0.1", None) == PORT + 2
    assert f"Port {PORT} is taken, so the lab uses {PORT + 2}." in capsys.readouterr().err

    monkeypatch.setattr(commands, "is_free", lambda *_: False)
    with pytest.raises(LabError, match=f"ports {PORT} to {PORT + PORTS_TRIED - 1}"):
        choose_port("127.0.0.1", None)


@pytest.mark.parametrize("host", ["not a host", "192.0.2.1"])
def test_a_host_that_is_not_this_machine_is_explained(network_guard, host):
    with pytest.raises(LabError, match="not an address of this machine"):
        commands.is_free(host, PORT)
    network_guard.attempts.clear()


PEOPLE = [
    ("# the lab\n\nkim:pass:word\n lee:x \n", [("kim", "pass:word"), ("lee", "x")]),
    ("kim\n", "line 1"),
    ("kim:a\n:b\n", "line 2"),
    ("kim:\n", "line 1"),
    (None, "one name:password per line"),
    ("", "one name:password per line"),
    ("# nobody\n", "one name:password per line"),
]


@pytest.mark.parametrize(("text", "result"), PEOPLE)
def test_names_and_passwords_are_read_one_per_line_and_never_repeated_in_an_error(tmp_path, text, result):
    path = tmp_path / "people"
    if text is not None:
        path.write_text(text)
    if isinstance(result, list):
        assert read_people(path) == result
        return
    with pytest.raises(LabError, match=result) as caught:
        read_people(path)
    assert "kim" not in str(caught.value)


def write_chain(folder, text=None):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "chain.json").write_text(text or manifest().model_dump_json())
    return str(folder)


def test_each_check_of_the_doctor_tells_what_is_well_from_what_is_not(tmp_path):
    installed = metadata.version("pydantic")
    (tmp_path / "file.db").write_text("something else, and long enough to be looked at " * 20)
    checks = [
        (commands.check_python((3, 10, 1)), "failure", "3.10.1", "make setup"),
        (commands.check_python((3, 11, 0)), "ok", "3.11.0", ""),
        (commands.check_packages([f"pydantic=={installed}"]), "ok", "1 at their pinned versions", ""),
        (commands.check_packages(["pydantic==0.1"]), "warning", f"pydantic {installed} instead of 0.1", "make setup"),
        (commands.check_packages(["no-such-package==1"]), "failure", "missing: no-such-package", "make setup"),
        (commands.check_base("embedded", "no_such_package"), "failure", "not installed", "make setup"),
        (commands.check_base("runs/mine", "no_such_package"), "warning", "not installed", "make setup"),
        (commands.check_chain(write_chain(tmp_path / "whole")), "ok", "scripted: base", ""),
        (commands.check_chain(write_chain(tmp_path / "broken", "{}")), "failure", "not a chain", "--chain NAME"),
        (commands.check_chain(str(tmp_path / "missing")), "failure", "no ", "--chain NAME"),
        (commands.check_chain("base:embedded"), "ok", "no adapters", ""),
        (commands.check_space(tmp_path / "not" / "yet", needed=1), "ok", "GB free", ""),
        (commands.check_space(tmp_path, needed=10**18), "warning", "GB free", "ASSAY_CACHE"),
        (commands.check_store(f"sqlite:///{tmp_path / 'file.db'}"), "failure", "", ""),
    ]
    wrong = [
        check
        for check, result, found, remedy in checks
        if check.result != result or found not in check.found or remedy not in check.remedy
    ]
    assert wrong == []
    assert all(bool(check.remedy) == (check.result != "ok") for check, *_ in checks)


def test_the_doctor_ends_with_1_if_something_needed_is_broken_and_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("ASSAY_DATABASE_URL", f"sqlite:///{tmp_path / 'a.db'}")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        monkeypatch.setenv("ASSAY_CHAIN", str(tmp_path / "none"))
        broken = CliRunner().invoke(cli.app, ["doctor", "--json", "--port", port])
        shown = CliRunner().invoke(cli.app, ["doctor"]).stdout
    monkeypatch.setenv("ASSAY_CHAIN", write_chain(tmp_path / "run"))
    whole = CliRunner().invoke(cli.app, ["doctor"])

    assert (broken.exit_code, whole.exit_code) == (1, 0), whole.output
    results = {check["name"]: check["result"] for check in json.loads(broken.stdout)}
    assert (results["Adapter chain"], results["Port"]) == ("failure", "warning")
    assert "Adapter chain" in shown
    assert "FAILURE" in shown


def test_assay_lab_serves_the_page_before_any_model_is_there(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = str(probe.getsockname()[1])
    places = {"ASSAY_CACHE": str(tmp_path / "cache"), "ASSAY_DATABASE_URL": f"sqlite:///{tmp_path / 'assay.db'}"}
    options = ["lab", "--port", port, "--chain", str(tmp_path / "none")]
    command = [sys.executable, "-c", "from lab.cli import main; main()", *options]
    with subprocess.Popen(command, cwd=ROOT, env=os.environ | places, stderr=subprocess.PIPE, text=True) as process:
        try:
            page = wait_for(f"http://127.0.0.1:{port}/", process)
            told = process.stderr.readline()
        finally:
            process.kill()

    assert "Assay" in page
    assert f"http://127.0.0.1:{port}" in told


def wait_for(url, process, seconds=60):
    limit = time.monotonic() + seconds
    while time.monotonic() < limit and process.poll() is None:
        try:
            return httpx.get(url).text
        except httpx.TransportError:
            time.sleep(0.1)
    raise AssertionError(f"no page; exit code {process.poll()}")


def test_brackets_in_an_error_and_in_a_table_are_no_style(monkeypatch, capsys):
    from rich.console import Console

    monkeypatch.setattr(sys, "argv", ["assay", "chain", "show", "foo[/b]"])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 1
    assert "foo[/b]" in capsys.readouterr().err

    Console(file=sys.stdout).print(table_of("[b]", ["a[i]"], [["kmp-train[abstain:16]"]]))
    printed = capsys.readouterr().out
    assert "kmp-train[abstain:16]" in printed
    assert "a[i]" in printed
