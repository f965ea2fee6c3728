"""What the command adds to publishing: where it finds the base, the page of a leaderboard, and its help."""

import pytest

from evals.errors import IncomparableReports, LabError, MissingModel
from evals.questions import is_held_out
from evals.report import save_report
from hub.adapters import Publication
from hub.spaces import bundle_folder
from lab.commands.publish import _board, _recorded_answers
from lab.publishing import with_copy
from lab.session import Recorded
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
    with pytest.raises(MissingModel) as stopped:
        with_copy(run, Publication("org/mine", base="org/x"), None, lambda *_: None, cache)
    message = str(stopped.value)
    assert "what --base org/x names cannot be compared" in message
    assert "--no-base in place of --base org/x" in message
    assert "`pip install --no-deps no-such-package==1`" in message


@pytest.fixture(scope="module")
def report():
    return scripted_report("kmp-test")


def board_of(folder, *reports):
    """Return what `assay publish space leaderboard` makes of these reports."""
    files = [folder / f"{number}.json" for number in range(len(reports))]
    for report, file in zip(reports, files, strict=True):
        save_report(report, file)
    return _board(files)


def test_the_page_of_a_leaderboard_has_all_chains_side_by_side_and_asks_no_other_machine(report, tmp_path):
    page = board_of(tmp_path, report, report.model_copy(update={"chain_name": "rival"}))["index.html"].decode()
    for chain in ("scripted", "rival"):
        assert f"<td>grpo of {chain}</td>" in page
    assert page.count("<td>tissue majority, 80% (baseline)</td>") <= 1, "a baseline stands there once"
    assert "http://" not in page and "https://" not in page


def test_reports_that_cannot_stand_side_by_side_are_refused_with_the_reason(report, tmp_path):
    old = report.model_copy(update={"chain_name": "rival", "versions": {**report.versions, "verifiers": "verifiers-0"}})
    with pytest.raises(IncomparableReports, match=r"verifiers-0(.|\n)*rescore"):
        board_of(tmp_path, report, old)
    with pytest.raises(LabError, match="two reports measure"):
        board_of(tmp_path, report, report)


def test_every_report_is_published_whatever_its_file_is_called(tmp_path, report):
    files = [tmp_path / name for name in ("a/kmp.json", "b/kmp.json", "c/kmp-2.json")]
    for chain, file in enumerate(files):
        file.parent.mkdir()
        save_report(report.model_copy(update={"chain_name": f"chain {chain}"}), file)
    page = _board(files)
    names = ["kmp.json", "kmp-2.json", "kmp-2-2.json"]
    assert [page.pop(f"reports/{name}") for name in names] == [file.read_bytes() for file in files]
    assert set(page) == {"index.html"}


def test_an_arena_shows_the_answers_of_the_reports_that_are_named_and_says_which_train_nothing(
    tmp_path, report, capsys
):
    save_report(report, tmp_path / "kmp.json")
    page = _recorded_answers([str(tmp_path / "kmp.json")])
    (tmp_path / "answers.jsonl").write_bytes(page["answers.jsonl"])
    again = Recorded.read(tmp_path / "answers.jsonl")
    assert {each.stage for each in again.answers} == set(report.stage_checksums), "no baseline answers here"
    assert len(again.questions) == len({row.example.prompt for row in report.rows})
    assert _recorded_answers([str(tmp_path / "answers.jsonl")]) == page
    assert "held out" in capsys.readouterr().err
    shipped = Recorded.read(bundle_folder("arena") / "answers.jsonl")
    assert len(shipped.questions) >= 24
    assert not any(map(is_held_out, shipped.questions)), "votes on these train"
