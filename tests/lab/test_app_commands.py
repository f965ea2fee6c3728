import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from evals.errors import BadRow, LabError
from lab.commands import lab as doctor
from lab.commands import lab as serve
from lab.commands.lab import PORT, PORTS_TRIED, choose_port, read_people
from tests.lab.chains import manifest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def taken():
    """A port that another program listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_a_port_that_was_asked_for_and_is_taken_is_an_error_that_names_a_free_one(taken):
    with pytest.raises(LabError, match=rf"port {taken} on 127.0.0.1 is taken; --port \d+ is free"):
        choose_port("127.0.0.1", taken)


def test_without_a_wish_the_next_free_port_is_used_and_said_plainly(monkeypatch, capsys):
    monkeypatch.setattr(doctor, "is_free", lambda _, port: port >= PORT + 2)

    assert choose_port("127.0.0.1", None) == PORT + 2
    assert f"Port {PORT} is taken, so the lab uses {PORT + 2}." in capsys.readouterr().err


def test_when_every_port_is_taken_the_range_is_named(monkeypatch):
    monkeypatch.setattr(doctor, "is_free", lambda *_: False)

    with pytest.raises(LabError, match=f"ports {PORT} to {PORT + PORTS_TRIED - 1}"):
        choose_port("127.0.0.1", None)


@pytest.mark.parametrize("host", ["not a host", "192.0.2.1"])
def test_a_host_that_is_not_this_machine_is_explained(network_guard, host):
    with pytest.raises(LabError, match="not an address of this machine"):
        doctor.is_free(host, 7860)
    network_guard.attempts.clear()


def test_names_and_passwords_are_read_one_per_line(tmp_path):
    path = tmp_path / "people"
    path.write_text("# the lab\n\nkim:pass:word\n lee:x \n")

    assert read_people(path) == [("kim", "pass:word"), ("lee", "x")]


BAD = [("kim\n", 1), ("kim:a\n:b\n", 2), ("kim:\n", 1)]


@pytest.mark.parametrize(("text", "line"), BAD)
def test_a_line_without_name_or_password_is_named_but_not_repeated(tmp_path, text, line):
    path = tmp_path / "people"
    path.write_text(text)

    with pytest.raises(BadRow, match=f"line {line}") as caught:
        read_people(path)
    assert "kim" not in str(caught.value)


@pytest.mark.parametrize("text", [None, "", "# nobody\n"])
def test_a_file_of_names_that_names_nobody_is_refused(tmp_path, text):
    path = tmp_path / "people"
    if text is not None:
        path.write_text(text)

    with pytest.raises(LabError, match="one name:password per line"):
        read_people(path)


# ---- doctor --------------------------------------------------------------------------------


def write_chain(folder, text=None):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "chain.json").write_text(text or manifest().model_dump_json())
    return str(folder)


def test_a_whole_chain_is_ok_and_a_missing_or_broken_one_has_a_remedy(tmp_path):
    whole = doctor.check_chain(write_chain(tmp_path / "whole"))
    broken = doctor.check_chain(write_chain(tmp_path / "broken", "{}"))
    missing = doctor.check_chain(str(tmp_path / "missing"))
    bare = doctor.check_chain("base:embedded")

    assert [check.result for check in (whole, broken, missing, bare)] == [
        *("ok", "failure", "failure", "ok"),
    ]
    assert whole.found == "scripted: base"
    assert "assay lab --chain NAME" in broken.remedy
    assert "assay lab --chain NAME" in missing.remedy


def test_packages_are_compared_with_their_pins():
    installed = doctor._installed("pydantic")

    assert doctor.check_packages([f"pydantic=={installed}"]).result == "ok"
    other = doctor.check_packages(["pydantic==0.1"])
    assert (other.result, other.found) == ("warning", f"pydantic {installed} instead of 0.1")
    missing = doctor.check_packages(["no-such-package==1"])
    assert (missing.result, missing.found) == ("failure", "missing: no-such-package")
    assert "make setup" in missing.remedy


def test_an_old_python_is_a_failure():
    assert doctor.check_python((3, 10, 1)).result == "failure"
    assert doctor.check_python((3, 11, 0)).result == "ok"


def test_a_missing_base_model_is_a_failure_only_where_it_is_needed():
    assert doctor.check_base("embedded", "no_such_package").result == "failure"
    assert doctor.check_base("runs/mine", "no_such_package").result == "warning"


def test_a_full_disk_is_a_warning_with_a_way_out(tmp_path):
    assert doctor.check_space(tmp_path / "not" / "yet", needed=1).result == "ok"
    full = doctor.check_space(tmp_path, needed=10**18)
    assert (full.result, "ASSAY_CACHE" in full.remedy) == ("warning", True)


def test_a_database_that_cannot_be_opened_is_a_failure(tmp_path):
    (tmp_path / "file.db").write_text("something else, and long enough to be looked at " * 20)

    check = doctor.check_store(f"sqlite:///{tmp_path / 'file.db'}")

    assert check.result == "failure"
    assert check.remedy


def test_a_taken_port_is_a_warning(taken):
    assert doctor.check_port(taken).result == "warning"


def run_doctor(monkeypatch, tmp_path, chain, *options):
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("ASSAY_DATABASE_URL", f"sqlite:///{tmp_path / 'a.db'}")
    monkeypatch.setenv("ASSAY_CHAIN", chain)
    app = __import__("typer").Typer()
    app.command()(serve.doctor)
    return CliRunner().invoke(app, [*options])


def test_doctor_ends_with_1_if_something_needed_is_broken_and_with_0_if_not(monkeypatch, tmp_path):
    broken = run_doctor(monkeypatch, tmp_path, str(tmp_path / "none"), "--json")
    whole = run_doctor(monkeypatch, tmp_path, write_chain(tmp_path / "run"), "--json")

    assert broken.exit_code == 1
    results = {check["name"]: check["result"] for check in json.loads(broken.stdout)}
    assert results["Adapter chain"] == "failure"
    assert whole.exit_code == 0, whole.output


def test_doctor_shows_a_table_with_what_to_do(monkeypatch, tmp_path):
    shown = run_doctor(monkeypatch, tmp_path, str(tmp_path / "none")).stdout

    assert "Adapter chain" in shown
    assert "FAILURE" in shown


# ---- assay lab -----------------------------------------------------------------------------


def test_assay_lab_serves_the_page_before_any_model_is_there(tmp_path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    code = "from lab.commands import lab; import typer; typer.run(lab.lab)"
    environment = os.environ | {
        "ASSAY_CACHE": str(tmp_path / "cache"),
        "ASSAY_DATABASE_URL": f"sqlite:///{tmp_path / 'assay.db'}",
    }
    command = [sys.executable, "-c", code, "--port", str(port), "--chain", str(tmp_path / "none")]
    with subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True) as process:
        try:
            page = wait_for(f"http://127.0.0.1:{port}/", process)
            told = process.stderr.readline() if process.stderr else ""
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
