import hashlib
import json
from datetime import timedelta
from typing import get_args
from zipfile import ZipFile

import pytest

from evals.errors import LabError
from evals.questions import kmp_test, kmp_training, pathway_heldout, pathway_training
from evals.schema.votes import DpoRow, ExportFormat, ExportStatistics
from lab.compare.export import build_export, write_export, zip_export
from lab.compare.tab import Desk, bank_question
from lab.store.outcomes import JudgedPair
from tests.lab.votes import NOON, answer, vote

EXPORTED = NOON + timedelta(days=3)
FORMATS = get_args(ExportFormat)


def pair(number, choice, stages=("base", "sft"), **changes):
    left, right = (answer(f"{side}{number}", stage, **changes) for side, stage in zip("lr", stages, strict=True))
    return JudgedPair(vote(left, right, choice), left, right)


def rows_of(pairs, form="dpo"):
    lines = build_export(pairs, form, EXPORTED).lines.decode().splitlines()
    return [json.loads(line) for line in lines]


def test_a_vote_for_the_right_side_makes_the_right_answer_the_chosen_one():
    (row,) = rows_of([pair(1, "right")])
    assert row["prompt"] == [
        {"role": "system", "content": "Answer briefly."},
        {"role": "user", "content": "Is MYC up in liver?"},
    ]
    assert row["chosen"] == [{"role": "assistant", "content": "sft says yes.\nConfidence: 80%"}]
    assert row["rejected"] == [{"role": "assistant", "content": "base says yes.\nConfidence: 80%"}]
    assert (row["stage_chosen"], row["stage_rejected"], row["side_shown"]) == (
        "sft",
        "base",
        "right",
    )


def test_a_row_says_where_it_comes_from_and_how_to_ask_again():
    (row,) = rows_of([pair(1, "left", seed=11)])
    assert (row["pair_id"], row["vote_id"], row["choice"]) == ("l1+r1", "vote-l1-r1", "left")
    assert row["created_at"] == "2026-01-02T12:01:00Z"
    assert row["origin_chosen"] == {
        "answer_id": "l1",
        "asked_at": "2026-01-02T12:00:00Z",
        "chain": "embedded",
        "stage": "base",
        "stage_sha256": "sha-of-base",
        "seed": 11,
        "max_new_tokens": 96,
        "temperature": 0.0,
        "dtype": "bfloat16",
        "finish_reason": "stop",
    }
    assert row["origin_rejected"]["stage_sha256"] == "sha-of-sft"


def test_a_question_asked_without_a_system_prompt_has_none_in_the_row():
    (row,) = rows_of([pair(1, "left", system_prompt="")])
    assert [turn["role"] for turn in row["prompt"]] == ["user"]


@pytest.mark.parametrize("text", ["</s> \u2028 \x00 🧬", '"quotes" and \\ and \n\n lines', "نص"])
def test_odd_text_survives_the_export_one_row_to_a_line(text):
    (row,) = rows_of([pair(1, "left", question=text)])
    assert row["prompt"][-1]["content"] == text


VOTES = (
    pair(1, "left"),
    pair(2, "tie"),
    pair(3, "both_bad"),
    pair(4, "right", text="word for word"),
    pair(5, "both_bad", text="word for word"),
    pair(6, "right", stages=("sft", "grpo")),
)


@pytest.mark.parametrize(
    ("form", "rows", "left_out"),
    [
        ("dpo", 2, {"held_out": 0, "tie": 1, "both_bad": 2, "identical_texts": 1}),
        ("kto", 7, {"held_out": 0, "tie": 1, "identical_texts": 1}),
        ("sft", 2, {"held_out": 0, "tie": 1, "both_bad": 2, "identical_texts": 1}),
        ("arena", 6, {}),
    ],
)
def test_what_a_format_cannot_use_is_left_out_and_counted(form, rows, left_out):
    statistics = build_export(VOTES, form, EXPORTED).statistics
    assert statistics.rows == rows == len(rows_of(VOTES, form))
    assert statistics.left_out == left_out
    assert statistics.votes == 6


BETWEEN_HELD_OUT_TISSUES = next(
    row for row in pathway_training(held_out=()) if row.id not in {e.id for e in pathway_training()}
)


@pytest.mark.parametrize("form", ["dpo", "kto", "sft"])
@pytest.mark.parametrize("example", [kmp_test()[0], pathway_heldout()[0], BETWEEN_HELD_OUT_TISSUES], ids=lambda e: e.id)
def test_a_vote_on_a_held_out_question_never_becomes_training_data(form, example):
    typed = f"  {example.prompt.upper()} "
    pairs = [pair(1, "left"), pair(2, "right", question=typed), pair(3, "tie", question=typed)]
    export = build_export(pairs, form, EXPORTED)
    assert export.statistics.left_out["held_out"] == 2
    assert typed not in {row["prompt"][-1]["content"] for row in rows_of(pairs, form)}
    assert rows_of(pairs, form) == rows_of(pairs[:1], form)


def test_a_vote_on_a_held_out_row_is_left_out_by_its_id_too():
    held_out = kmp_test()[0]
    reworded = pair(1, "left", question="The same, reworded?", example_id=held_out.id)
    with pytest.raises(LabError, match=r"1 held out.*--format arena"):
        build_export([reworded], "dpo", EXPORTED)


def test_rankings_keep_votes_on_held_out_questions():
    pairs = [pair(1, "left", question=pathway_heldout()[0].prompt)]
    assert len(rows_of(pairs, "arena")) == 1


def test_every_question_that_compare_offers_can_be_exported():
    bank = len(kmp_training()) + len(pathway_training())
    offered = {bank_question(Desk(seed=3, place=place)) for place in range(1, bank + 1)}
    pairs = [pair(n, "left", question=question) for n, question in enumerate(sorted(offered))]
    assert len(rows_of(pairs)) == len(offered) > 600


def test_the_card_says_how_many_votes_fell_on_held_out_questions(tmp_path):
    pairs = [pair(1, "left"), pair(2, "left", question=kmp_test()[0].prompt)]
    write_export(build_export(pairs, "dpo", EXPORTED), tmp_path / "out")
    card = (tmp_path / "out/README.md").read_text()
    assert "| left out: a question that is held out to measure models | 1 |" in card


def test_kto_rows_are_a_thumb_up_and_a_thumb_down_and_both_bad_is_two_down():
    labels = [(row["stage"], row["label"]) for row in rows_of([pair(1, "right")], "kto")]
    assert labels == [("sft", True), ("base", False)]
    labels = [(row["stage"], row["label"]) for row in rows_of([pair(1, "both_bad")], "kto")]
    assert labels == [("base", False), ("sft", False)]


@pytest.mark.parametrize(
    ("choice", "winner"),
    [("left", "model_a"), ("right", "model_b"), ("tie", "tie"), ("both_bad", "both_bad")],
)
def test_arena_rows_keep_every_outcome(choice, winner):
    (row,) = rows_of([pair(1, choice)], "arena")
    assert (row["model_a"], row["model_b"], row["winner"]) == ("base", "sft", winner)
    assert row["conversation_b"][-1]["content"].startswith("sft says")


def test_statistics_describe_the_rows_they_stand_beside(tmp_path):
    export = build_export(VOTES, "dpo", EXPORTED, licence="cc-by-4.0")
    write_export(export, tmp_path / "out")
    read = ExportStatistics.model_validate_json((tmp_path / "out/statistics.json").read_bytes())
    assert read == export.statistics
    written = (tmp_path / "out" / read.rows_file).read_bytes()
    assert read.rows_sha256 == hashlib.sha256(written).hexdigest()
    assert (read.raters, read.questions, read.chains) == (1, 1, ("embedded",))
    assert read.votes == read.rows + sum(read.left_out.values())


@pytest.mark.parametrize("form", FORMATS)
def test_without_votes_there_is_nothing_to_export(form):
    with pytest.raises(LabError, match="Vote in the Compare tab first"):
        build_export([], form, EXPORTED)


def test_only_ties_are_no_preferences_and_the_message_says_what_keeps_them():
    with pytest.raises(LabError, match=r"none of the 1 votes.*1 tie.*--format arena"):
        build_export([pair(1, "tie")], "dpo", EXPORTED)


def test_an_earlier_export_is_replaced(tmp_path):
    write_export(build_export(VOTES, "arena", EXPORTED), tmp_path)
    write_export(build_export(VOTES, "dpo", EXPORTED), tmp_path)
    assert len((tmp_path / "train.jsonl").read_text().splitlines()) == 2
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "GUIDELINES.md",
        "README.md",
        "statistics.json",
        "train.jsonl",
    ]


def test_a_folder_with_other_files_is_refused_and_left_alone(tmp_path):
    (tmp_path / "README.md").write_text("mine")
    with pytest.raises(LabError, match="holds other files"):
        write_export(build_export(VOTES, "dpo", EXPORTED), tmp_path)
    assert [file.read_text() for file in tmp_path.iterdir()] == ["mine"]


def test_a_file_in_place_of_the_folder_is_said_to_be_in_the_way(tmp_path):
    (tmp_path / "out").write_text("a file")
    with pytest.raises(LabError, match="cannot be written"):
        write_export(build_export(VOTES, "dpo", EXPORTED), tmp_path / "out")


def test_the_zip_holds_the_same_files_as_the_folder(tmp_path):
    export = build_export(VOTES, "dpo", EXPORTED)
    write_export(export, tmp_path / "out")
    with ZipFile(zip_export(export, tmp_path / "zip")) as archive:
        inside = {name: archive.read(name) for name in archive.namelist()}
    assert inside == {f"preferences-dpo/{file.name}": file.read_bytes() for file in (tmp_path / "out").iterdir()}


def test_the_exported_folder_loads_by_its_card_with_the_rows_only(tmp_path):
    from datasets import load_dataset

    write_export(build_export(VOTES, "dpo", EXPORTED), tmp_path / "out")
    loaded = load_dataset(str(tmp_path / "out"), cache_dir=str(tmp_path / "cache"), split="train")
    assert loaded.num_rows == 2
    assert set(loaded.column_names) == set(DpoRow.model_fields)


def test_trl_takes_one_dpo_step_on_the_exported_rows(tmp_path):
    from datasets import load_dataset
    from transformers import AutoModelForCausalLM
    from trl import DPOConfig, DPOTrainer
    from trl.data_utils import is_conversational

    from tests.models import tiny_base, tiny_tokenizer

    write_export(build_export(VOTES, "dpo", EXPORTED), tmp_path / "out")
    rows = load_dataset(
        "json",
        data_files=str(tmp_path / "out/train.jsonl"),
        cache_dir=str(tmp_path / "cache"),
        split="train",
    )
    assert is_conversational(rows[0])
    trainer = DPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(tiny_base(tmp_path / "base")),
        args=DPOConfig(
            output_dir=str(tmp_path / "run"),
            max_steps=1,
            per_device_train_batch_size=2,
            report_to="none",
            use_cpu=True,
            disable_tqdm=True,
        ),
        train_dataset=rows,
        processing_class=tiny_tokenizer(),
    )
    assert trainer.train().training_loss == pytest.approx(0.6931, abs=1e-3)
