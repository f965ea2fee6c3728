"""What the command adds to publishing: where it finds the base, the page of a leaderboard, and its help."""

import re

import pytest
from typer.testing import CliRunner

from evals.errors import IncomparableReports, LabError, MissingModel
from evals.questions import is_held_out
from evals.report import save_report
from hub.adapters import Publication
from hub.spaces import bundle_folder
from lab.cli import app
from lab.commands.publish import _board, _recorded, _with_copy
from lab.compare.recorded import Recorded
from lab.results import leaderboard
from lab.results.leaderboard import board_page, panels_of
from tests.hub.runs import write_packed_run
from tests.lab.evaluations import scripted_report
from training.models import base as gguf


def test_without_the_package_a_named_base_is_not_asked_for_again(tmp_path, monkeypatch):
    run, cache = write_packed_run(tmp_path / "runs"), tmp_path / "cache"
    (cache / gguf.FOLDER_NAME).mkdir(parents=True)
    note = gguf.Unpacked(source_sha256=gguf.GGUF_SHA256, transformers="5", files={})
    (cache / gguf.FOLDER_NAME / gguf.MARKER).write_text(note.model_dump_json())
    monkeypatch.setattr(gguf, "PACKAGE_PIN", "no-such-package==1")
    monkeypatch.setattr(gguf, "PACKAGE", "no_such_package")
    monkeypatch.setenv("ASSAY_CACHE", str(cache))
    with pytest.raises(MissingModel) as stopped:
        _with_copy(run, Publication("org/mine", base="org/x"), None)
    message = str(stopped.value)
    assert "what --base org/x names cannot be compared" in message
    assert "--no-base in place of --base org/x" in message
    assert "`pip install --no-deps no-such-package==1`" in message


@pytest.fixture(scope="module")
def report():
    return scripted_report("kmp-test")


def test_the_page_of_a_leaderboard_holds_every_choice_and_asks_no_other_machine(report):
    panels = list(panels_of([report]))
    page = board_page([report])
    assert {each.order for each in panels} == {"accuracy", "reward", "brier"}
    assert page.count("<section data-of=") == len(panels)
    assert "http://" not in page
    assert "https://" not in page


@pytest.fixture(scope="module")
def other(report):
    """Another chain on the same questions: the same answers, so none is shown to be better."""
    return report.model_copy(update={"chain_name": "rival"})


def test_chains_on_the_same_questions_stand_side_by_side_and_no_rank_is_claimed(report, other):
    panel = next(each for each in panels_of([report, other]) if each.order == "accuracy")
    text = re.sub(r"<[^>]+>", " ", panel.page)
    for chain in ("scripted", "rival"):
        assert len(re.findall(rf"GRPO\s+of {chain}", text)) >= 1
        assert f"Within the chain {chain}" in text
    assert text.count("tissue majority") <= text.count("GRPO") * 2, "a baseline stands there once"
    assert "is the only entry" not in text, "equal answers are not told apart"


def test_reports_that_cannot_stand_side_by_side_are_refused_with_the_reason(report, other):
    old = other.model_copy(update={"versions": {**other.versions, "verifiers": "verifiers-0"}})
    with pytest.raises(IncomparableReports, match=r"rival .* judged by .*verifiers-0.* rescore"):
        board_page([report, old])
    with pytest.raises(LabError, match="two reports measure"):
        board_page([report, report])
    with pytest.raises(LabError, match="other questions than another report"):
        board_page([report, other.model_copy(update={"data_sha256": "f" * 64})])
    with pytest.raises(LabError, match="--report"):
        board_page([])


def test_every_report_is_published_whatever_its_file_is_called(tmp_path, report, monkeypatch):
    monkeypatch.setattr(leaderboard, "board_page", lambda reports: f"{len(reports)} reports")
    for number, (given, names) in enumerate(
        [
            (("a/kmp.json", "b/kmp.json", "c/kmp-2.json"), ("kmp.json", "kmp-2.json", "kmp-2-2.json")),
            (("c/kmp-2.json", "a/kmp.json", "b/kmp.json"), ("kmp-2.json", "kmp.json", "kmp-3.json")),
        ]
    ):
        files = [tmp_path / str(number) / name for name in given]
        for chain, file in enumerate(files):
            file.parent.mkdir(parents=True, exist_ok=True)
            save_report(report.model_copy(update={"chain_name": f"chain {chain}"}), file)
        page = _board(files)
        assert set(page) == {"index.html", *(f"reports/{name}" for name in names)}
        for file, name in zip(files, names, strict=True):
            assert page[f"reports/{name}"] == file.read_bytes()


def test_an_arena_shows_the_answers_of_the_reports_that_are_named_and_says_which_train_nothing(
    tmp_path, report, capsys
):
    save_report(report, tmp_path / "kmp.json")
    page = _recorded([str(tmp_path / "kmp.json")])
    (tmp_path / "answers.jsonl").write_bytes(page["answers.jsonl"])
    again = Recorded.read(tmp_path / "answers.jsonl")
    assert {each.stage for each in again.answers} == set(report.stage_checksums), "no baseline answers here"
    assert len(again.questions) == len({row.example.prompt for row in report.rows})
    assert _recorded([str(tmp_path / "answers.jsonl")]) == page
    assert "held out" in capsys.readouterr().err
    shipped = Recorded.read(bundle_folder("arena") / "answers.jsonl")
    assert len(shipped.questions) >= 24
    assert not any(map(is_held_out, shipped.questions)), "votes on these train"


def test_a_space_that_does_not_exist_is_answered_with_those_that_do():
    result = CliRunner().invoke(app, ["publish", "space", "nothing", "--repo", "org/x"])
    assert isinstance(result.exception, LabError)
    assert "arena, lab, leaderboard" in str(result.exception)


@pytest.mark.parametrize(
    ("wish", "told"),
    [
        (("--secret", "ASSAY_NOT_SET"), "no environment variable"),
        (("--variable", "ASSAY_VOTES_REPO"), "NAME=VALUE"),
        (("--hardware", "zero-a10g", "--create-pr"), "who owns the Space"),
        (("--report", "kmp.json"), "--report is what the leaderboard shows"),
    ],
)
def test_a_space_s_settings_that_make_no_sense_are_refused_before_anything_is_sent(wish, told):
    result = CliRunner().invoke(app, ["publish", "space", "arena", "--repo", "org/x", *wish])
    assert isinstance(result.exception, LabError)
    assert told in str(result.exception)
