"""What the Review tab shows beside a review: papers, what is no paper, servers, scores of reviewers."""

import json

import pytest

from evals.errors import LabError, UnreadableArticle
from lab.review.board import board_view
from lab.review.papers import demonstration_paper, paper_of
from lab.review.session import read
from lab.settings import from_environment
from lab.ui.components import notice
from tests.evals.concerns.test_report import scored
from tests.lab.reviewers import PAPER


def test_a_paper_is_shown_as_it_was_read_and_a_script_in_it_shows_as_text():
    article, view = read(None, PAPER)
    assert article is not None and [each.name for each in article.sections] == [
        "Methods",
        "Results",
    ]
    assert "Diet and lifespan of mice" in view.paper
    assert "<script>" not in view.paper


BAD = [
    (None, "", "give a paper first"),
    (None, "Too short to be a paper.", "at least 200"),
    ("nowhere.pdf", None, "no file"),
]


@pytest.mark.parametrize(("file", "text", "words"), BAD)
def test_what_is_no_paper_is_said_with_what_to_do(file, text, words):
    with pytest.raises(UnreadableArticle, match=words):
        paper_of(file, text)
    assert words in read(file, text)[1].notice.replace("Give", "give")


def test_a_file_keeps_its_name_at_the_head_of_a_line():
    assert ">long.pdf has 500 pages" in notice("long.pdf has 500 pages", "problem")
    assert ">The disk is full" in notice("the disk is full", "problem")


def test_a_demonstration_paper_is_there_to_try():
    assert demonstration_paper().sections


def test_a_server_is_named_by_whoever_starts_the_lab():
    settings = from_environment({"ASSAY_REVIEW_SERVER": "http://127.0.0.1:1/v1", "ASSAY_REVIEW_SERVER_MODEL": "m"})
    assert settings.review_server is not None and settings.review_server.model == "m"
    with pytest.raises(LabError, match="ASSAY_REVIEW_SERVER_CONTEXT"):
        from_environment({"ASSAY_REVIEW_SERVER": "http://x", "ASSAY_REVIEW_SERVER_CONTEXT": "few"})


def test_scores_beside_the_reviewer_are_ranked_on_the_page(tmp_path):
    assert "assay review score" in board_view(tmp_path)
    good = scored("good", 4)
    for system, found in (("good", good), ("weak", scored("weak", 1, 3))):
        (tmp_path / f"{system}.json").write_text(found.model_dump_json(), encoding="utf-8")
    (tmp_path / "other.json").write_text("{}", encoding="utf-8")
    page = board_view(tmp_path)
    assert page.index("good") < page.index("weak")
    assert "other.json is no score" in page
    assert str(tmp_path) not in page
    assert "BM25" in page


def test_what_commands_write_beside_scores_is_passed_over_on_the_page(tmp_path):
    (tmp_path / "good.json").write_text(scored("good", 4).model_dump_json(), encoding="utf-8")
    for name, key in (("good.run", "fingerprint"), ("report", "against"), ("steps", "steps")):
        (tmp_path / f"{name}.json").write_text(json.dumps({key: []}), encoding="utf-8")
    page = board_view(tmp_path)
    assert "good" in page and "problem" not in page
