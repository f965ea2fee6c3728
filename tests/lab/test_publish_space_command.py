import pytest
from typer.testing import CliRunner

from evals.errors import LabError
from lab.board import board_page, panels_of
from lab.cli import app
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


def test_two_reports_on_the_same_questions_are_refused(report):
    with pytest.raises(LabError, match="two reports are about the questions 'kmp-test'"):
        board_page([report, report])


def test_no_report_makes_no_page():
    with pytest.raises(LabError, match="--report"):
        board_page([])


def test_a_space_that_does_not_exist_is_answered_with_those_that_do():
    result = CliRunner().invoke(app, ["publish", "space", "nothing", "--repo", "org/x"])
    assert isinstance(result.exception, LabError)
    assert "arena, lab, leaderboard" in str(result.exception)


def test_help_shows_how_a_space_is_published():
    result = CliRunner().invoke(app, ["publish", "space", "--help"])
    assert "assay publish space arena --repo my-org/arena --dry-run" in " ".join(
        result.output.split()
    )
