"""Data set names become rows: which questions a stage may train on, and what is left out of them."""

import json
from pathlib import Path

import pytest

from evals.errors import BadConfig
from evals.questions import DATASETS, SYSTEM_PROMPT, kmp_test, pathway_heldout, pathway_training, system_prompt
from evals.refine.bank import refiner_bank
from evals.schema import Example
from tests.examples import write_examples
from tests.training.cases import cases, not_refused
from training.data.questions import grpo_data, grpo_row, sft_data, sft_row, watched_questions
from training.data.tokens import Rows
from training.refiner import RefinerSettings
from training.sft import SftSettings

KMP = DATASETS["kmp-train"]()


def test_the_halves_of_the_pathway_questions_and_the_parts_of_kmp_share_nothing_and_make_up_the_whole():
    for name, parts in (
        ("pathways-train", ("pathways-sft-half", "pathways-grpo-half")),
        ("kmp-train", ("kmp-sft-part", "kmp-grpo-part")),
    ):
        one, other = (sft_data([part], 0).items for part in parts)
        assert not {each.id for each in one} & {each.id for each in other}
        assert {each.id for each in (*one, *other)} == {each.id for each in DATASETS[name]()}
    assert not {each.cluster for each in one} & {each.cluster for each in other}
    assert {each.cluster for each in watched_questions(["kmp-dev"], 999, 0)} <= {each.cluster for each in one}


def test_a_data_set_can_be_narrowed_to_a_kind_and_a_count_that_depends_only_on_the_seed():
    first, again, other = (sft_data(["kmp-train[abstain:5]"], seed).items for seed in (3, 3, 4))
    assert first == again != other
    assert [example.ground_truth.kind for example in first] == ["abstain"] * 5


def test_rows_named_twice_are_used_once_and_what_no_verifier_scores_is_left_out_and_counted():
    data = sft_data(["kmp-train", "kmp-train[count]"], 0)
    counts = sum(each.ground_truth.kind == "count" for each in KMP)
    assert (data.count, data.record()["left out, the same row again"]) == (len(KMP), counts)
    scored = grpo_data(["kmp-train"], 0)
    free = sum(each.ground_truth.kind == "facts" for each in KMP)
    assert (scored.left_out, scored.count) == ({"no verifier scores them": free}, len(KMP) - free)


def test_rows_are_the_question_after_the_system_prompt_with_its_answer_or_the_whole_example():
    example = KMP[0]
    asked = [
        {"role": "system", "content": system_prompt(SYSTEM_PROMPT, example.prompt)},
        {"role": "user", "content": example.prompt},
    ]
    assert sft_row(example) == {"prompt": asked, "completion": [{"role": "assistant", "content": example.answer}]}
    for each in (*KMP, *DATASETS["pathways-train"]()):
        assert Example.model_validate_json(str(grpo_row(each)["example"])) == each


def test_a_source_that_cannot_be_trained_on_is_refused_with_what_there_is():
    assert not_refused(cases("sources")["refused"], lambda source: sft_data([source], 0)) == []
    with pytest.raises(BadConfig, match=r"no row of kmp-train.* can be scored"):
        grpo_data(["kmp-train[facts]"], 0)


REWORDED = {"prompt": "Another wording of it?"}
PATHWAY = pathway_heldout()[0]
SNEAKED = [  # a held-out row and how it hides among training rows
    (PATHWAY, {}),
    (PATHWAY, {"id": "renamed"}),
    (PATHWAY, {"id": "renamed", "prompt": f" {PATHWAY.prompt.upper()}"}),
    (PATHWAY, REWORDED),
    (kmp_test()[0], {"id": "renamed"}),
    (kmp_test()[0], REWORDED),
]


@pytest.mark.parametrize("data", [sft_data, grpo_data])
def test_held_out_rows_that_call_themselves_training_rows_are_refused(data, tmp_path: Path):
    file = tmp_path / "mine.jsonl"
    for held_out, changes in SNEAKED:
        row = held_out.model_copy(update={"split": "train", **changes})
        write_examples(file, [*KMP[:2], row])
        with pytest.raises(BadConfig, match=rf"mine\.jsonl holds 1 rows .*standard hold-out.*{row.id}"):
            data([str(file)], 0)
    write_examples(file, [*KMP[:2], PATHWAY])
    with pytest.raises(BadConfig, match="holds 1 rows that are kept for testing"):
        data([str(file)], 0)
    write_examples(file, pathway_training(held_out=("eye",)))
    with pytest.raises(BadConfig, match=r"standard hold-out \(such as .*eye and thymus"):
        data([str(file)], 0)


def test_data_sets_are_mixed_by_their_weights_the_same_by_one_seed_and_no_row_twice(tmp_path: Path):
    write_examples(tmp_path / "a.jsonl", KMP[:40])
    write_examples(tmp_path / "b.jsonl", KMP[30:60])
    a, b = (str(tmp_path / name) for name in ("a.jsonl", "b.jsonl"))

    def mixed(seed: int, *data: str, **told: object) -> Rows:
        return SftSettings(data=data, output="x", seed=seed, **told).read_rows(None)

    data = mixed(0, f"{a}:0.7", f"{b}:0.3")
    first = {row.id for row in KMP[:40]}
    assert (data.count, sum(name in first for name in data.named)) == (57, 40)  # 40 of a, of b's other 20 rows 17
    record = data.record()
    assert (record["rows of a.jsonl (70%)"], record["rows of b.jsonl (30%)"]) == (40, 17)
    assert record["left out, more than their share of the mix"] == 3
    assert [*data.named] == [*mixed(0, f"{a}:7", f"{b}:3").named] != [*mixed(1, f"{a}:7", f"{b}:3").named]
    assert mixed(0, f"{a}:1", "pathways-sft-half[direct:20]:1").count == 40
    with pytest.raises(BadConfig, match="leaves no row of one of them"):
        mixed(0, f"{a}:0.99", f"{b}:0.01")
    records = RefinerSettings(
        data=("refiner-train:1",), output="x", chain="c", judge="heuristic", eval_steps=5, best_metric="reward"
    ).read_rows(None)
    assert records.count + records.dev.rows.count == len(refiner_bank().train)


def test_two_rows_with_one_id_are_refused(tmp_path: Path):
    write_examples(tmp_path / "a.jsonl", [KMP[0]])
    write_examples(tmp_path / "b.jsonl", [KMP[1].model_copy(update={"id": KMP[0].id})])
    with pytest.raises(BadConfig, match="two different rows have the id"):
        sft_data([str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl")], 0)


TRUTH = {"kind": "choice", "value": "up", "options": ["up", "down"]}


def own_set(folder: Path, *changes: dict[str, object]) -> str:
    own = {"truth": TRUTH, "group": "g", "split": "train"}
    rows = [{**own, "id": f"r{at}", "prompt": f"Which way goes {at}?", **change} for at, change in enumerate(changes)]
    (folder / "own.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(folder / "own.jsonl")


def test_of_a_question_set_the_training_rows_are_taken_and_no_test_row_ever(tmp_path: Path):
    source = own_set(tmp_path, {}, {"split": "dev"}, {"split": "test"}, {"explanation": "So it is."})
    data = sft_data([source], 0)
    line = "Answer: up\nConfidence: 95%"
    assert [row.answer for row in data.items] == [line, f"So it is.\n{line}"]
    assert data.record()["rows of own.jsonl"] == 2
    assert [row.id for row in watched_questions([f"{source}[dev]"], 9, 0)] == ["r1"]
    for wanted in (f"{source}[test]", own_set(tmp_path, {"split": "test"})):
        with pytest.raises(BadConfig, match="kept for testing"):
            sft_data([wanted], 0)


def test_rubrics_have_no_reward_and_without_an_explanation_nothing_to_teach(tmp_path: Path):
    rubric = {"truth": {"kind": "rubric", "items": ["says why"]}}
    source = own_set(tmp_path, {}, rubric, {**rubric, "explanation": "Because."})
    assert grpo_data([source], 0).left_out == {"no verifier scores them": 2}
    data = sft_data([source], 0)
    assert data.left_out == {"no answer to teach": 1}
    assert data.items[1].answer == "Because.\nConfidence: 95%"
