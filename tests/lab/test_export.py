"""Votes as training data: what is left out, held-out questions, the folder; votes on the page. Rows of each format: the frozen table `commands`."""

import hashlib
import json
import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import get_args
from zipfile import ZipFile

import gradio as gr
import pytest
import yaml

from evals.errors import LabError
from evals.preferences.board import boards
from evals.preferences.rows import export_votes, trainable
from evals.questions import find, kmp_test, kmp_training, pathway_heldout, pathway_training
from evals.schema.votes import ExportFormat, ExportStatistics, JudgedPair, names_itself
from lab.compare import preferences
from lab.compare.preferences import board_html, overview
from lab.shared.exports import files_of, training_offers, write_export, zip_files
from tests.lab.evaluations import plain
from tests.lab.served import caller
from tests.lab.votes import NOON, answer, cast, vote

EXPORTED = NOON + timedelta(days=3)


def pair(number, choice, stages=("base", "sft"), **changes):
    left, right = (answer(f"{side}{number}", stage, **changes) for side, stage in zip("lr", stages, strict=True))
    return JudgedPair(vote(left, right, choice), left, right)


def rows_of(pairs, form="dpo"):
    return [json.loads(line) for line in export_votes(pairs, form, EXPORTED).lines.decode().splitlines()]


VOTES = (
    pair(1, "left"),
    pair(2, "tie"),
    pair(3, "both_bad"),
    pair(4, "right", text="word for word"),
    pair(5, "both_bad", text="word for word"),
    pair(6, "right", stages=("sft", "grpo")),
)


def test_what_votes_can_train_is_counted_as_it_is_exported():
    found = {each.stage: each for each in trainable(VOTES)}
    thumbs = rows_of(VOTES, "kto")
    assert (found["dpo"].rows, found["dpo"].left_out) == (
        len(rows_of(VOTES)),
        {"tie": 1, "both_bad": 2, "identical_texts": 1},
    )
    assert (found["kto"].rows, found["kto"].good) == (len(thumbs), sum(row["label"] for row in thumbs))
    assert found["reward"].rows == 0, "nobody said how much better an answer is"
    clear = replace(VOTES[0], vote=VOTES[0].vote.model_copy(update={"strength": "clear"}))
    assert [(each.rows, each.graded) for each in trainable([clear, *VOTES[1:]]) if each.stage == "reward"] == [(2, 1)]
    assert [each.rows for each in trainable([pair(1, "both_bad")])] == [0, 0, 0], "all are called bad"


def test_the_same_question_and_texts_are_one_pair_whichever_side_they_stood_on_and_whenever_written():
    there, back, other = (pair(1, "left"), pair(2, "left", stages=("sft", "base")), pair(3, "left", question="Why?"))
    ids = [row["pair_id"] for form in ("dpo", "kto", "arena") for row in rows_of([there, back, other], form)]
    assert [ids.count(each) for each in dict.fromkeys(ids)] == [8, 4]
    (row,) = rows_of([pair(1, "left", text="word for word")], "arena")
    assert (row["winner"], row["choice"]) == ("tie", "left"), "between equal texts nobody wins"


def test_an_answer_that_names_who_wrote_it_is_in_no_format():
    named = pair(9, "left", text="I am the SFT model. Yes.")
    for form in get_args(ExportFormat):
        statistics = export_votes([*VOTES, named], form, EXPORTED).statistics
        assert (statistics.left_out["names_itself"], statistics.votes) == (1, 7)


def test_odd_text_survives_the_export_one_row_to_a_line_and_an_empty_system_prompt_is_none():
    for text in ("</s> \u2028 \x00 🧬", '"quotes" and \\ and \n\n lines', "نص"):
        (row,) = rows_of([pair(1, "left", question=text, system_prompt="")])
        assert [turn["role"] for turn in row["prompt"]] == ["user"]
        assert row["prompt"][-1]["content"] == text


@pytest.mark.parametrize(
    ("form", "rows", "left_out"),
    [
        ("dpo", 2, {"held_out": 0, "names_itself": 0, "tie": 1, "both_bad": 2, "identical_texts": 1}),
        ("kto", 7, {"held_out": 0, "names_itself": 0, "tie": 1, "identical_texts": 1}),
        ("sft", 2, {"held_out": 0, "names_itself": 0, "tie": 1, "both_bad": 2, "identical_texts": 1}),
        ("arena", 6, {"names_itself": 0}),
    ],
)
def test_what_a_format_cannot_use_is_left_out_and_counted(form, rows, left_out):
    statistics = export_votes(VOTES, form, EXPORTED).statistics
    assert statistics.rows == rows == len(rows_of(VOTES, form))
    assert (statistics.left_out, statistics.votes) == (left_out, 6)


BETWEEN_HELD_OUT_TISSUES = next(
    row for row in pathway_training(held_out=()) if row.id not in {e.id for e in pathway_training()}
)


@pytest.mark.parametrize("example", [kmp_test()[0], pathway_heldout()[0], BETWEEN_HELD_OUT_TISSUES], ids=lambda e: e.id)
def test_a_vote_on_a_held_out_question_never_becomes_training_data_but_counts_in_rankings(example, tmp_path):
    typed = f"  {example.prompt.upper()} "
    pairs = [pair(1, "left"), pair(2, "right", question=typed), pair(3, "tie", question=typed)]
    for form in ("dpo", "kto", "sft"):
        assert export_votes(pairs, form, EXPORTED).statistics.left_out["held_out"] == 2
        assert rows_of(pairs, form) == rows_of(pairs[:1], form)
    assert len(rows_of(pairs, "arena")) == 3
    write_export(export_votes(pairs, "dpo", EXPORTED), tmp_path / "out")
    card = (tmp_path / "out/README.md").read_text()
    assert "| left out: a question that is held out to measure models | 2 |" in card


REFUSED = [
    ([pair(1, "left", question="Reworded?", example_id=kmp_test()[0].id)], "dpo", r"1 held out.*--format arena"),
    ([pair(1, "tie")], "dpo", r"none of the 1 votes.*1 tie.*--format arena"),
    *(([], form, "Vote in the Compare tab first") for form in get_args(ExportFormat)),
]


@pytest.mark.parametrize(("pairs", "form", "told"), REFUSED)
def test_where_no_vote_gives_a_row_the_reason_and_the_remedy_are_told(pairs, form, told):
    with pytest.raises(LabError, match=told):
        export_votes(pairs, form, EXPORTED)


def test_statistics_describe_the_rows_they_stand_beside_and_a_second_export_replaces_the_first(tmp_path):
    write_export(export_votes(VOTES, "arena", EXPORTED), tmp_path)
    export = export_votes(VOTES, "dpo", EXPORTED, licence="cc-by-4.0")
    write_export(export, tmp_path)
    read = ExportStatistics.model_validate_json((tmp_path / "statistics.json").read_bytes())
    assert read == export.statistics
    assert read.rows_sha256 == hashlib.sha256((tmp_path / read.rows_file).read_bytes()).hexdigest()
    assert (read.raters, read.questions, read.chains) == (1, 1, ("embedded",))
    assert read.votes == read.rows + sum(read.left_out.values())
    names = sorted(file.name for file in tmp_path.iterdir())
    assert names == ["GUIDELINES.md", "README.md", "statistics.json", "train.jsonl"]
    with ZipFile(zip_files("preferences-dpo", files_of(export), tmp_path.parent / "zip")) as archive:
        inside = {name: archive.read(name) for name in archive.namelist()}
    assert inside == {f"preferences-dpo/{file.name}": file.read_bytes() for file in tmp_path.iterdir()}


def test_a_folder_with_other_files_or_a_file_in_its_place_is_refused_and_left_alone(tmp_path):
    (tmp_path / "README.md").write_text("mine")
    for place, told in ((tmp_path, "holds other files"), (tmp_path / "README.md", "cannot write")):
        with pytest.raises(LabError, match=told):
            write_export(export_votes(VOTES, "dpo", EXPORTED), place)
    assert [file.read_text() for file in tmp_path.iterdir()] == ["mine"]


@pytest.mark.slow
@pytest.mark.parametrize("form", ["dpo", "kto", "sft"])
def test_trl_takes_a_step_on_the_exported_folder_loaded_by_its_card(form, tmp_path):
    from datasets import load_dataset
    from transformers import AutoModelForCausalLM
    from trl import DPOConfig, DPOTrainer, KTOConfig, KTOTrainer, SFTConfig, SFTTrainer

    from tests.models import tiny_base, tiny_tokenizer

    write_export(export_votes(VOTES, form, EXPORTED), tmp_path / "out")
    rows = load_dataset(str(tmp_path / "out"), cache_dir=str(tmp_path / "cache"), split="train")
    trainers = {"dpo": (DPOTrainer, DPOConfig), "kto": (KTOTrainer, KTOConfig), "sft": (SFTTrainer, SFTConfig)}
    trainer, config = trainers[form]
    args = {"max_steps": 1, "per_device_train_batch_size": 2, "report_to": "none", "use_cpu": True}
    taught = trainer(
        model=AutoModelForCausalLM.from_pretrained(tiny_base(tmp_path / "base")),
        args=config(output_dir=str(tmp_path / "run"), disable_tqdm=True, **args),
        train_dataset=rows,
        processing_class=tiny_tokenizer(),
    )
    assert taught.train().training_loss > 0


# ---- votes on the page ----------------------------------------------------------------------------


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
