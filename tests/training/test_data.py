import json
from collections.abc import Callable
from pathlib import Path

import pytest

from evals.errors import BadConfig
from evals.questions import (
    DATASETS,
    SYSTEM_PROMPT,
    data_sha256,
    kmp_test,
    pathway_heldout,
    pathway_training,
    system_prompt,
    write_examples,
)
from evals.schema import Example
from training.data.questions import grpo_data, grpo_row, sft_data, sft_row, watched_questions


def test_the_two_halves_of_the_pathway_questions_share_no_row_and_make_up_the_whole():
    sft, grpo = sft_data(["pathways-sft-half"], 0), sft_data(["pathways-grpo-half"], 0)
    ids = [{example.id for example in half.examples} for half in (sft, grpo)]
    assert not ids[0] & ids[1]
    assert ids[0] | ids[1] == {example.id for example in DATASETS["pathways-train"]()}


def test_a_tissue_of_the_pathway_questions_can_be_kept_for_one_stage():
    liver, skin = (sft_data([f"pathways-train/{tissue}"], 0).examples for tissue in ("liver", "skin"))
    assert {example.tissue for example in liver} == {"liver"}
    assert len(sft_data(["pathways-train/liver[direct]"], 0).examples) == 25
    assert not {example.facts for example in liver} & {example.facts for example in skin}


def test_the_two_parts_of_the_kmp_questions_share_no_fact_and_make_up_the_whole():
    sft, grpo = (sft_data([part], 0).examples for part in ("kmp-sft-part", "kmp-grpo-part"))
    assert not {each.cluster for each in sft} & {each.cluster for each in grpo}
    assert {each.id for each in (*sft, *grpo)} == {each.id for each in DATASETS["kmp-train"]()}
    watched = {each.cluster for each in watched_questions(["kmp-dev"], 999, 0)}
    assert watched <= {each.cluster for each in sft}


@pytest.mark.parametrize("tissue", ["eye", "thymus", "multi/liver", "", "brain"])
def test_a_tissue_that_training_does_not_have_is_refused_with_those_it_has(tissue: str):
    with pytest.raises(BadConfig, match=r"its tissues are gastrocnemius, kidney, liver, .*skin"):
        sft_data([f"pathways-train/{tissue}"], 0)


def test_a_data_set_can_be_narrowed_to_a_kind_and_a_count_that_depends_only_on_the_seed():
    first, again = (sft_data(["kmp-train[abstain:5]"], 3).examples for _ in range(2))
    assert first == again
    assert {example.ground_truth.kind for example in first} == {"abstain"}
    assert len(first) == 5
    assert first != sft_data(["kmp-train[abstain:5]"], 4).examples


def test_rows_named_twice_are_used_once_and_counted():
    data = sft_data(["kmp-train", "kmp-train[count]"], 0)
    counts = sum(each.ground_truth.kind == "count" for each in DATASETS["kmp-train"]())
    assert len(data.examples) == len(DATASETS["kmp-train"]())
    assert data.record()["left out, the same row again"] == counts


def test_grpo_leaves_out_what_no_verifier_scores_and_says_how_much():
    data = grpo_data(["kmp-train"], 0)
    free = sum(each.ground_truth.kind == "facts" for each in DATASETS["kmp-train"]())
    assert free > 0
    assert data.left_out == {"no verifier scores them": free}
    assert len(data.examples) == len(DATASETS["kmp-train"]()) - free


def test_the_record_of_the_data_names_rows_and_checksum_but_no_folder(tmp_path: Path):
    file = tmp_path / "mine.jsonl"
    write_examples(file, DATASETS["kmp-train"]()[:3])
    data = sft_data([str(file)], 0)
    expected = {"sha256": data_sha256(data.examples), "rows": 3, "rows of mine.jsonl": 3}
    assert data.record() == expected


@pytest.mark.parametrize("name", ["kmp-test", "pathways-heldout", "kmp-test[abstain]"])
def test_questions_kept_for_testing_cannot_be_trained_on(name: str):
    with pytest.raises(BadConfig, match="kept for testing"):
        sft_data([name], 0)


def test_a_file_of_test_questions_cannot_be_trained_on_either(tmp_path: Path):
    file = tmp_path / "sneaky.jsonl"
    write_examples(file, [*DATASETS["kmp-train"]()[:2], pathway_heldout()[0]])
    with pytest.raises(BadConfig, match="holds 1 rows that are kept for testing"):
        sft_data([str(file)], 0)


REWORDED = {"prompt": "Another wording of it?"}


@pytest.mark.parametrize("data", [sft_data, grpo_data])
@pytest.mark.parametrize(
    ("held_out", "changes"),
    [
        (pathway_heldout()[0], {}),
        (pathway_heldout()[0], {"id": "renamed"}),
        (
            pathway_heldout()[0],
            {"id": "renamed", "prompt": f" {pathway_heldout()[0].prompt.upper()}"},
        ),
        (pathway_heldout()[0], REWORDED),
        (kmp_test()[0], {"id": "renamed"}),
        (kmp_test()[0], REWORDED),
    ],
)
def test_held_out_rows_that_call_themselves_training_rows_are_refused(
    data: Callable[[list[str], int], object],
    held_out: Example,
    changes: dict[str, str],
    tmp_path: Path,
):
    file = tmp_path / "mine.jsonl"
    row = held_out.model_copy(update={"split": "train", **changes})
    write_examples(file, [*DATASETS["kmp-train"]()[:2], row])
    with pytest.raises(BadConfig, match=rf"mine\.jsonl holds 1 rows .*standard hold-out.*{row.id}"):
        data([str(file)], 0)


def test_pathways_written_with_another_hold_out_are_refused_where_they_meet_the_standard_one(
    tmp_path: Path,
):
    file = tmp_path / "eye-only.jsonl"
    write_examples(file, pathway_training(held_out=("eye",)))
    with pytest.raises(BadConfig, match=r"standard hold-out \(such as .*eye and thymus"):
        sft_data([str(file)], 0)


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("kmp", "is not a data set"),
        ("", "is not a data set"),
        ("kmp-train[", "is not a data set"),
        ("kmp-train[abstain:]", "is not a data set"),
        ("kmp-train[poem]", "has no rows of kind 'poem'; its kinds are"),
        ("kmp-train[abstain:0]", "asks for 0 rows; there are"),
        ("kmp-train[abstain:9999]", "asks for 9999 rows; there are"),
    ],
)
def test_a_source_that_cannot_be_had_is_refused_with_what_there_is(source: str, problem: str):
    with pytest.raises(BadConfig, match=problem.replace("[", r"\[")):
        sft_data([source], 0)


def test_two_rows_with_one_id_are_refused(tmp_path: Path):
    first, second = DATASETS["kmp-train"]()[:2]
    write_examples(tmp_path / "a.jsonl", [first])
    write_examples(tmp_path / "b.jsonl", [second.model_copy(update={"id": first.id})])
    with pytest.raises(BadConfig, match="two different rows have the id"):
        sft_data([str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl")], 0)


def test_data_without_a_row_that_can_be_scored_gives_grpo_nothing_to_learn_from():
    with pytest.raises(BadConfig, match=r"no row of kmp-train.* can be scored"):
        grpo_data(["kmp-train[facts]"], 0)


def test_an_sft_row_is_the_question_after_the_system_prompt_and_its_own_answer():
    example = DATASETS["kmp-train"]()[0]
    assert sft_row(example) == {
        "prompt": [
            {"role": "system", "content": system_prompt(SYSTEM_PROMPT, example.prompt)},
            {"role": "user", "content": example.prompt},
        ],
        "completion": [{"role": "assistant", "content": example.answer}],
    }


@pytest.mark.parametrize("name", ["kmp-train", "pathways-train"])
def test_the_example_of_a_grpo_row_comes_back_unchanged(name: str):
    for example in DATASETS[name]():
        assert Example.model_validate_json(str(grpo_row(example)["example"])) == example


OWN = {
    "id": "a",
    "prompt": "Which way?",
    "truth": {"kind": "choice", "value": "up", "options": ["up", "down"]},
    "group": "g",
    "split": "train",
}


def own_set(folder: Path, *changes: dict[str, object]) -> str:
    file = folder / "own.jsonl"
    rows = [{**OWN, "id": f"r{at}", "prompt": f"Which way goes {at}?", **change} for at, change in enumerate(changes)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(file)


def test_of_a_question_set_the_training_rows_are_taken_and_no_test_row_ever(tmp_path: Path):
    source = own_set(tmp_path, {}, {"split": "dev"}, {"split": "test"}, {"explanation": "So it is."})
    data = sft_data([source], 0)
    assert [row.answer for row in data.examples] == [
        "Answer: up\nConfidence: 95%",
        "So it is.\nAnswer: up\nConfidence: 95%",
    ]
    assert data.record()["rows of own.jsonl"] == 2
    assert [row.id for row in watched_questions([f"{source}[dev]"], 9, 0)] == ["r1"]
    with pytest.raises(BadConfig, match="kept for testing"):
        sft_data([f"{source}[test]"], 0)
    with pytest.raises(BadConfig, match="kept for testing"):
        sft_data([own_set(tmp_path, {"split": "test"})], 0)


def test_rubrics_have_no_reward_and_without_an_explanation_nothing_to_teach(tmp_path: Path):
    rubric = {"truth": {"kind": "rubric", "items": ["says why"]}}
    source = own_set(tmp_path, {}, rubric, {**rubric, "explanation": "Because."})
    assert grpo_data([source], 0).left_out == {"no verifier scores them": 2}
    data = sft_data([source], 0)
    assert data.left_out == {"no answer to teach": 1}
    assert data.examples[1].answer == "Because.\nConfidence: 95%"


def test_a_set_that_comes_with_assay_can_be_trained_on_by_its_name_and_narrowed():
    assert sft_data(["codons-and-enzymes"], 0).count == 36
    assert {row.ground_truth.kind for row in grpo_data(["codons-and-enzymes[choice:5]"], 0).examples} == {"choice"}
