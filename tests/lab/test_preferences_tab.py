import re
from pathlib import Path

import gradio as gr
import yaml

from evals.preferences.board import boards
from evals.questions import find, kmp_training
from evals.schema.votes import names_itself
from lab.compare import preferences
from lab.compare.preferences import board_html, overview
from lab.shared.exports import training_offers
from tests.lab.evaluations import plain
from tests.lab.served import caller
from tests.lab.votes import answer, cast


def test_the_page_shows_votes_exports_them_and_tells_what_is_wrong_with_the_store(services, tmp_path):
    with gr.Blocks() as page, gr.Tab("Preferences") as tab:
        preferences.build_board(services, tab)
    called = caller(page)

    def opened():
        return plain(called("preferences")[0])

    assert opened().startswith("No votes yet. Press Show the first pair")
    cast(services.store, 1, ("base", "sft"), "right")
    assert "1 Votes 1 Preference pairs" in opened()
    services.store.close()
    (tmp_path / "assay.db").unlink()
    (tmp_path / "assay.db").write_text("overwritten by something else\n" * 500)
    assert "The file is not a database" in opened()


def test_the_outcome_of_each_pair_of_stages_is_shown_with_its_counts_and_no_rater(services):
    votes = [
        cast(services.store, number, ("sft", "base"), choice)
        for number, choice in enumerate(("left", "left", "right", "tie", "both_bad"))
    ]
    page = overview(services.store.counts())
    assert "Base and SFT 1 1 1 2" in plain(page)
    assert "5 Votes 3 Preference pairs 1 Ties 1 Both bad 1 Raters 0 Withdrawn" in plain(page)
    assert votes[0].rater not in page
    offers = training_offers(preferences.view(services).offers, has_buttons=True)
    shown = plain(offers)
    assert "What these votes can train DPO: 3 preference pairs. (left out: 1 tied, 1 both bad) Train DPO" in shown
    assert re.findall(r'data-id="(\w+)"', offers) == ["dpo", "kto"], "what has no rows has no button"
    assert "KTO: 8 answers, 3 of them good." in shown and "A reward model: nothing yet" in shown


def test_the_board_rates_each_kind_of_question_and_drops_and_counts_votes_that_were_not_blind(services):
    known = kmp_training()[0].prompt
    for number in range(12):
        cast(services.store, number, ("sft", "base"), "left" if number % 4 else "tie", question=f"Is gene {number} up?")
        cast(services.store, 50 + number, ("sft", "grpo"), "right", question=known)
    cast(services.store, 100, ("base", "sft"), "left", text="the same")
    cast(services.store, 101, ("base", "sft"), "left", text="As the SFT model I say yes.")
    found = boards(services.store.preference_pairs())
    assert (found.votes, found.left_out) == (26, {"names_itself": 1, "identical_texts": 1})
    assert (found.boards[0].kind, found.boards[0].votes) == ("all", 24)
    assert {each.kind for each in found.boards} == {"all", "own", find(known).ground_truth.kind}
    assert [row.model for row in found.boards[0].rows] == ["grpo", "sft", "base"]
    page = plain(board_html(found))
    assert "1 between identical texts" in page and "1 on an answer that names its author" in page
    assert "Your own questions (12 votes, 12 questions" in page
    assert found.boards[0].against["sft"] == {"base": (10.5 / 12, 12), "grpo": (0.0, 12)}, "three ties are halves"
    assert "SFT 0.0 % n = 12 – 87.5 % n = 12" in page, "who wins against whom"


def test_the_board_says_what_speaks_against_it_and_how_the_ratings_settled(services):
    for number in range(40):
        stages = ("sft", "base") if number % 2 else ("base", "sft")
        cast(services.store, number, stages, "left", question=f"Is gene {number} up?")
    page, drawn, offers = preferences.view(services)
    assert "left won 40 of 40 decided votes (99 % interval 88 to 100 %): raters prefer the left side" in plain(page)
    assert "Ties: there are none." in plain(page)
    assert offers[0].rows == 40
    last = {line.name: (line.x[-1], round(line.y[-1])) for line in drawn.data}
    assert last == {"Base": (40, 1000), "SFT": (40, 1000)}
    assert len(drawn.data[0].error_y.array) == len(drawn.data[0].x) == 16, (
        "an interval at every point, to be saved with it"
    )


def test_a_stage_trained_anew_is_another_model_and_one_that_two_chains_share_is_the_same(services):
    cast(services.store, 1, ("base", "sft"), "right", stage_sha256="first")
    cast(services.store, 2, ("base", "sft"), "right", chain="next", stage_sha256="retrained")
    cast(services.store, 3, ("base", "sft@other"), "right", chain="other", stage_sha256="first")
    models = {(row.model, row.group) for row in boards(services.store.preference_pairs()).boards[0].rows}
    assert models == {("base@other", 1), ("sft@other", 1), ("base@next", 2), ("sft@next", 2)}


def test_answers_that_name_who_wrote_them_are_known_and_words_of_biology_are_not_mistaken_for_names():
    cases = yaml.safe_load((Path(__file__).parent / "tables" / "naming.yaml").read_text())
    other = answer("b", "base", chain="my-run2", text="It rises.")
    told = {
        each: names_itself(answer("a", "sft", chain="my-run2", text=each), other)
        for said in cases.values()
        for each in said
    }
    assert [each for each in cases["yes"] if not told[each]] + [each for each in cases["no"] if told[each]] == []
