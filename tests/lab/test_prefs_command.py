import json

import pytest
from typer.testing import CliRunner

from evals.errors import LabError
from evals.schema import Choice
from evals.schema.reviewruns import KeptReview, ReviewAnswer
from lab.cli import app
from lab.review.papers import paper_of
from lab.review.session import ReviewSettings
from tests.lab.reviewers import PAPER, ScriptedReader
from tests.lab.test_refine_views import kept
from tests.lab.votes import NOON, answer, cast, new_store, url_in, vote


@pytest.fixture
def assay(tmp_path, monkeypatch):
    monkeypatch.setenv("ASSAY_DATABASE_URL", url_in(tmp_path))
    return lambda *words: CliRunner().invoke(app, ["prefs", *words], catch_exceptions=True)


@pytest.fixture
def votes(tmp_path):
    store = new_store(tmp_path)
    cast(store, 1, ("base", "sft"), "right")
    cast(store, 2, ("base", "sft"), "both_bad")
    store.close()


def test_counting_an_empty_store_answers_zero(assay):
    result = assay("count", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["votes"] == 0


@pytest.mark.usefixtures("votes")
def test_count_prints_one_json_document(assay):
    document = json.loads(assay("count", "--json").stdout)
    assert (document["votes"], document["usable"]) == (2, 1)
    assert document["by_stages"][0]["second_chosen"] == 1


@pytest.mark.usefixtures("votes")
def test_count_prints_a_table_for_people(assay):
    assert "2 votes by 1 rater" in " ".join(assay("count").stdout.split())


@pytest.mark.usefixtures("votes")
@pytest.mark.parametrize(("form", "rows"), [("dpo", 1), ("kto", 4), ("sft", 1), ("arena", 2)])
def test_export_writes_the_format_that_was_asked_for(assay, tmp_path, form, rows):
    result = assay("export", "--format", form, "--out", str(tmp_path / "out"), "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["rows"] == rows
    assert len((tmp_path / "out/train.jsonl").read_text().splitlines()) == rows


@pytest.mark.usefixtures("votes")
def test_a_named_licence_stands_on_the_card_and_a_missing_one_is_mentioned(assay, tmp_path):
    named = assay("export", "--out", str(tmp_path / "out"), "--license", "cc-by-4.0")
    assert "license: cc-by-4.0" in (tmp_path / "out/README.md").read_text()
    assert "--license" not in named.stderr
    assert "--license" in assay("export", "--out", str(tmp_path / "out")).stderr


def test_an_export_without_votes_writes_nothing_and_says_why(assay, tmp_path):
    result = assay("export", "--out", str(tmp_path / "out"))
    assert isinstance(result.exception, LabError)
    assert "Vote in the Compare tab first" in str(result.exception)
    assert not (tmp_path / "out").exists()


def test_an_unknown_format_is_wrong_usage_and_names_the_known_ones(assay, tmp_path):
    result = assay("export", "--format", "csv", "--out", str(tmp_path / "out"))
    assert result.exit_code == 2
    assert "arena" in result.stderr


@pytest.mark.parametrize("how", ["identifier", "hash"])
def test_a_rater_who_asks_for_it_is_forgotten_and_nobody_else(assay, tmp_path, how):
    store = new_store(tmp_path)
    for number, rater in enumerate(("ann", "bob")):
        sides = [answer(f"{side}{number}", side) for side in ("base", "sft")]
        store.add_answers(sides)
        store.add_comparison(vote(*sides, "right", rater=rater))
    name = "ann" if how == "identifier" else store.hash_rater("ann")
    store.close()
    assert json.loads(assay("forget", name, "--yes", "--json").stdout)["deleted"] == 1
    assert json.loads(assay("count", "--json").stdout)["votes"] == 1


@pytest.mark.usefixtures("votes")
def test_a_dry_run_of_forgetting_counts_and_deletes_nothing(assay, tmp_path):
    store = new_store(tmp_path)
    rater = store.preference_pairs()[0].vote.rater
    store.close()
    assert json.loads(assay("forget", rater, "--dry-run", "--json").stdout)["deleted"] == 2
    assert json.loads(assay("count", "--json").stdout)["votes"] == 2


def review_on(desk: str, name: str) -> KeptReview:
    return KeptReview(
        id=name,
        made_at=NOON,
        session=desk,
        article=paper_of(None, PAPER),
        reviewer=ScriptedReader().reviewer(ReviewSettings()),
        answer=ReviewAnswer(requests=(), raw="", status="empty", finish_reason="stop", seconds=1),
        concerns=(),
    )


def test_what_a_dry_run_counts_is_what_forgetting_deletes_of_every_kind(assay, tmp_path):
    store = new_store(tmp_path)
    taken_back = cast(store, 1, ("base", "sft"), "right")
    store.void_comparison(taken_back.id, "kim")
    cast(store, 2, ("base", "sft"), "left")
    desk = store.hash_rater("kim")
    for name in ("first", "second"):
        store.shelf.add(review_on(desk, name))
    store.shelf.vote(desk, "first", "second", "left")
    store.workbench.add(kept("It rose.").model_copy(update={"session": desk}))
    store.close()

    planned = json.loads(assay("forget", "kim", "--dry-run", "--json").stdout)
    done = json.loads(assay("forget", "kim", "--yes", "--json").stdout)

    assert planned == done
    assert done["kinds"] == {"votes": 2, "review_votes": 1, "reviews": 2, "graded_answers": 1}
    assert done["deleted"] == 6
    assert "there is nothing of a rater" in str(assay("forget", "kim", "--dry-run").exception)


def test_someone_who_only_has_reviews_is_forgotten_without_an_error(assay, tmp_path):
    store = new_store(tmp_path)
    store.shelf.add(review_on(store.hash_rater("ann"), "only"))
    store.close()
    result = assay("forget", "ann", "--yes", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["kinds"]["reviews"] == 1


@pytest.mark.usefixtures("votes")
def test_forgetting_asks_first_and_says_so_when_there_is_nobody(assay):
    assert assay("forget", "nobody").exit_code == 1, "nobody confirmed"
    assert "there is nothing of a rater" in str(assay("forget", "nobody", "--yes").exception)
    assert json.loads(assay("count", "--json").stdout)["votes"] == 2


def test_agreement_counts_raters_who_were_given_the_same_two_texts(assay, tmp_path):
    store = new_store(tmp_path)
    said: tuple[tuple[str, Choice], ...] = (("ann", "right"), ("bob", "right"), ("cy", "left"))
    for number, (rater, choice) in enumerate(said):
        sides = [answer(f"{side}{number}", side) for side in ("base", "sft")]
        store.add_answers(sides)
        store.add_comparison(vote(*sides, choice, rater=rater))
    store.close()
    found = json.loads(assay("agreement", "--json").stdout)
    assert (found["raters"], found["units"]) == (3, 1)
    assert found["percent_agreement"]["value"] == pytest.approx(1 / 3)
    assert found["percent_agreement"]["n"] == 1
    shown = " ".join(assay("agreement").stdout.split())
    assert "3 raters, 1 pair of answers" in shown
    assert "Krippendorff's alpha" in shown


def test_agreement_does_not_depend_on_which_side_an_answer_stood(assay, tmp_path):
    store = new_store(tmp_path)
    base, sft = answer("b1", "base"), answer("s1", "sft")
    again = [answer("b2", "base"), answer("s2", "sft")]
    store.add_answers([base, sft, *again])
    store.add_comparison(vote(base, sft, "right", rater="ann"))
    store.add_comparison(vote(again[1], again[0], "left", rater="bob"))
    store.close()
    assert json.loads(assay("agreement", "--json").stdout)["percent_agreement"]["value"] == 1


def test_without_votes_there_is_no_agreement_and_no_error(assay):
    result = assay("agreement", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["krippendorff_alpha"]["note"]
