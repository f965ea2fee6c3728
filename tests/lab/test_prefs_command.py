import json

import pytest
from typer.testing import CliRunner

from evals.errors import LabError
from evals.schema.reviewruns import KeptReview, ReviewAnswer, Reviewer
from lab.cli import app
from lab.review.session import paper_of
from tests.lab.reviewers import PAPER
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


def read(result):
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_an_empty_store_counts_zero_has_no_agreement_and_exports_nothing(assay, tmp_path):
    assert read(assay("count", "--json"))["votes"] == 0
    assert read(assay("agreement", "--json"))["krippendorff_alpha"]["note"]
    result = assay("export", "--out", str(tmp_path / "out"))
    assert isinstance(result.exception, LabError)
    assert "Vote in the Compare tab first" in str(result.exception)
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("votes")
def test_count_prints_one_json_document_or_a_table_for_people(assay):
    document = read(assay("count", "--json"))
    assert (document["votes"], document["usable"]) == (2, 1)
    assert document["by_stages"][0]["second_chosen"] == 1
    assert "2 votes by 1 rater" in " ".join(assay("count").stdout.split())


@pytest.mark.usefixtures("votes")
def test_export_writes_the_format_that_was_asked_for(assay, tmp_path):
    for form, rows in {"dpo": 1, "kto": 4, "sft": 1, "arena": 2}.items():
        assert read(assay("export", "--format", form, "--out", str(tmp_path / "out"), "--json"))["rows"] == rows
        assert len((tmp_path / "out/train.jsonl").read_text().splitlines()) == rows
    unknown = assay("export", "--format", "csv", "--out", str(tmp_path / "out"))
    assert unknown.exit_code == 2
    assert "arena" in unknown.stderr


@pytest.mark.usefixtures("votes")
def test_a_named_licence_stands_on_the_card_and_a_missing_one_is_mentioned(assay, tmp_path):
    named = assay("export", "--out", str(tmp_path / "out"), "--license", "cc-by-4.0")
    assert "license: cc-by-4.0" in (tmp_path / "out/README.md").read_text()
    assert "--license" not in named.stderr
    assert "--license" in assay("export", "--out", str(tmp_path / "out")).stderr


def review_on(owner: str, name: str) -> KeptReview:
    return KeptReview(
        id=name,
        made_at=NOON,
        session=owner,
        article=paper_of(None, PAPER),
        reviewer=Reviewer(name="Scripted", kind="chain", system_prompt="", seed=0, max_new_tokens=256, temperature=0.1),
        answer=ReviewAnswer(requests=(), raw="", status="empty", finish_reason="stop", seconds=1),
        concerns=(),
    )


@pytest.mark.parametrize("how", ["identifier", "hash"])
def test_what_a_dry_run_counts_is_what_forgetting_deletes_of_every_kind_and_of_nobody_else(assay, tmp_path, how):
    store = new_store(tmp_path)
    taken_back = cast(store, 1, ("base", "sft"), "right")
    store.void_comparison(taken_back.id, "kim")
    cast(store, 2, ("base", "sft"), "left")
    sides = [answer(f"{side}3", side) for side in ("base", "sft")]
    store.add_answers(sides)
    store.add_comparison(vote(*sides, "right", rater="bob"))
    owner = store.hash_rater("kim")
    for name in ("first", "second"):
        store.documents("review").add(review_on(owner, name))
    store.documents("review").vote(owner, "first", "second", "left")
    store.documents("refine").add(kept("It rose.").model_copy(update={"session": owner}))
    store.documents("review").add(review_on(store.hash_rater("ann"), "only"))
    store.close()
    name = "kim" if how == "identifier" else owner

    assert assay("forget", name).exit_code == 1, "nobody confirmed"
    planned = read(assay("forget", name, "--dry-run", "--json"))
    done = read(assay("forget", name, "--yes", "--json"))

    assert planned == done
    assert done["kinds"] == {"votes": 2, "review_votes": 1, "reviews": 2, "graded_answers": 1}
    assert done["deleted"] == 6
    assert "there is nothing of a rater" in str(assay("forget", name, "--yes").exception)
    assert read(assay("count", "--json"))["votes"] == 1
    assert read(assay("forget", "ann", "--yes", "--json"))["kinds"]["reviews"] == 1


def test_agreement_counts_raters_who_were_given_the_same_two_texts_on_whichever_side(assay, tmp_path):
    store = new_store(tmp_path)
    said = (("ann", "right", "base"), ("bob", "left", "sft"), ("cy", "left", "base"))
    for number, (rater, choice, left) in enumerate(said):
        sides = [answer(f"{side}{number}", side) for side in ("base", "sft")]
        store.add_answers(sides)
        store.add_comparison(vote(*(sides if left == "base" else sides[::-1]), choice, rater=rater))
    store.close()
    found = read(assay("agreement", "--json"))
    assert (found["raters"], found["units"]) == (3, 1)
    assert found["percent_agreement"]["value"] == pytest.approx(1 / 3)
    shown = " ".join(assay("agreement").stdout.split())
    assert "3 raters, 1 pair of answers" in shown
    assert "Krippendorff's alpha" in shown
