import re

import pytest
from typer.testing import CliRunner

from evals.errors import IncomparableReports, LabError
from evals.report import save_report
from lab.cli import app
from lab.commands.publish import _board
from lab.results.static_page import board_page, panels_of
from tests.lab.evaluations import scripted_report


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


def test_a_report_that_other_verifiers_judged_is_refused_with_the_reason(report, other):
    old = other.model_copy(update={"versions": {**other.versions, "verifiers": "verifiers-0"}})
    with pytest.raises(IncomparableReports, match=r"rival .* judged by .*verifiers-0.* rescore"):
        board_page([report, old])


def test_one_chain_twice_and_other_questions_of_one_name_are_refused(report, other):
    with pytest.raises(LabError, match="two reports measure"):
        board_page([report, report])
    with pytest.raises(LabError, match="other questions than another report"):
        board_page([report, other.model_copy(update={"data_sha256": "f" * 64})])


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (("a/kmp.json", "b/kmp.json", "c/kmp-2.json"), ("kmp.json", "kmp-2.json", "kmp-2-2.json")),
        (("c/kmp-2.json", "a/kmp.json", "b/kmp.json"), ("kmp-2.json", "kmp.json", "kmp-3.json")),
        (("a/x.json", "b/x.json", "c/x.json"), ("x.json", "x-2.json", "x-3.json")),
    ],
)
def test_every_report_is_published_whatever_its_file_is_called(tmp_path, report, given, names):
    files = [tmp_path / name for name in given]
    for number, file in enumerate(files):
        file.parent.mkdir(exist_ok=True)
        save_report(report.model_copy(update={"chain_name": f"chain {number}"}), file)
    page = _board(files)
    assert set(page) == {"index.html", *(f"reports/{name}" for name in names)}
    for file, name in zip(files, names, strict=True):
        assert page[f"reports/{name}"] == file.read_bytes()


def test_no_report_makes_no_page():
    with pytest.raises(LabError, match="--report"):
        board_page([])


def test_a_space_that_does_not_exist_is_answered_with_those_that_do():
    result = CliRunner().invoke(app, ["publish", "space", "nothing", "--repo", "org/x"])
    assert isinstance(result.exception, LabError)
    assert "arena, lab, leaderboard" in str(result.exception)


def test_help_shows_how_a_space_is_published():
    result = CliRunner().invoke(app, ["publish", "space", "--help"])
    assert "assay publish space arena --repo my-org/arena --dry-run" in " ".join(result.output.split())
