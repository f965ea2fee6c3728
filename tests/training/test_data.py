"""Data set names and files become rows: which questions, conversations and preferences are trained on, what is left out."""

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas
import pytest
from transformers import PreTrainedTokenizerBase

from evals.errors import BadConfig, BadRow, LabError
from evals.preferences.rows import export_votes
from evals.questions import DATASETS, SYSTEM_PROMPT, kmp_test, pathway_heldout, pathway_training, system_prompt
from evals.questions.pairs import SampleOrigin
from evals.refine.bank import refiner_bank
from evals.schema import Example
from evals.schema.questions import Sampling
from evals.schema.votes import JudgedPair
from lab.shared.exports import write_export
from tests.examples import write_examples
from tests.lab.votes import NOON, answer, vote
from tests.models import tiny_base, tiny_chain, tiny_tokenizer
from tests.training.cases import cases, not_refused
from tests.training.runs import SFT, figures, ready, record, sampled_run, settings_file, train
from training.data.conversations import ChatRow, read_conversations
from training.data.preferences import ALONE, Draws, chain_samples, read_preferences, run_samples
from training.data.questions import grpo_data, grpo_row, sft_data, sft_row, watched_questions
from training.data.tokens import Rows, sequences_of
from training.launch.plan import plan_of
from training.launch.preview import preview
from training.models.chain import load_chain
from training.refiner import RefinerSettings
from training.run.folder import RunFolder
from training.sft import SftSettings, build_trainer

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


# ---- rows in the forms that other people publish, conversations and preferences -------------------


CASES, TEMPLATES = cases("rows"), cases("templates")
SYSTEM = "Answer in one sentence."


def turns(*pairs: tuple[str, str]) -> list[dict[str, str]]:
    return [{"role": role, "content": text} for role, text in pairs]


def pair(question: str = "Why?", **columns: object) -> dict[str, object]:
    said = {"chosen": turns(("assistant", "Because of A.")), "rejected": turns(("assistant", "Because of B."))}
    return {"prompt": turns(("user", question)), **said, **columns}


def file(folder: Path, *rows: Mapping[str, object], name: str = "rows.jsonl") -> str:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def test_a_conversation_without_a_system_message_is_given_the_one_of_the_chain(tmp_path: Path):
    own = turns(("system", "Be brief."), ("user", "How?"))
    data = read_preferences([file(tmp_path, pair(), pair(prompt=own))], SYSTEM)
    first, second = (each.row()["prompt"] for each in data.items)
    assert (first, second) == (turns(("system", SYSTEM), ("user", "Why?")), own)
    assert data.record() | {"sha256": ""} == {
        "sha256": "",
        "rows": 2,
        "rows of rows.jsonl": 2,
        "prompts given the system message of the chain": 1,
        "prompts with a system message of their own": 1,
    }


def test_what_the_lab_exports_trains_dpo_and_kto_as_it_is(tmp_path: Path):
    left, right = answer("l1", "base"), answer("r1", "sft")
    judged = JudgedPair(vote(left, right, "right"), left, right)
    for kind in ("dpo", "kto"):
        write_export(export_votes([judged], kind, NOON), tmp_path / kind)
    data = read_preferences([str(tmp_path / "dpo")], left.system_prompt)
    assert data.items[0].row() == {
        "prompt": turns(("system", left.system_prompt), ("user", left.question)),
        "chosen": turns(("assistant", right.text)),
        "rejected": turns(("assistant", left.text)),
    }
    assert data.facts == {}
    apart = read_preferences([str(tmp_path / "kto")], left.system_prompt, ALONE).items
    found = [(each.label, each.answers["completion"][0].content) for each in apart]
    assert found == [(True, right.text), (False, left.text)]


def test_a_prompt_inside_both_answers_is_taken_out_of_them_and_plain_text_stays_plain(tmp_path: Path):
    for chosen, rejected, prompt, what in CASES["parted"]:
        data = read_preferences([file(tmp_path, {"chosen": chosen, "rejected": rejected})], SYSTEM)
        row = data.items[0].row()
        assert (row["prompt"], prompt + row["chosen"], prompt + row["rejected"]) == (prompt, chosen, rejected)
        assert data.facts == {f"prompts taken from the {what} that both answers share": 1}
    plain = {"prompt": "Q: why? A:", "chosen": " because", "rejected": " never"}
    (found,) = read_preferences([file(tmp_path, plain)], SYSTEM).items
    assert found.row() == plain


def test_pairs_that_say_nothing_are_left_out_and_counted(tmp_path: Path):
    same = pair("How?", rejected=turns(("assistant", "Because of A.")))
    data = read_preferences([file(tmp_path, pair(), same, pair())], SYSTEM)
    assert data.count == 1
    assert data.left_out == {"both answers are the same": 1, "the same pair again": 1}


KMP_TEST = kmp_test()[0]
HELD_OUT = [
    pair(KMP_TEST.prompt),
    pair(PATHWAY.prompt.upper()),
    pair("reworded", example_id=KMP_TEST.id),
    {"prompt": f"### Question:\n{KMP_TEST.prompt}\n### Answer:\n", "chosen": "A", "rejected": "B"},
    {"chosen": f"Human: {KMP_TEST.prompt}\n\nAssistant: A", "rejected": f"Human: {KMP_TEST.prompt}\n\nAssistant: B"},
    {key: turns(("user", KMP_TEST.prompt), ("assistant", key)) for key in ("chosen", "rejected")},
]


def test_a_pair_about_a_held_out_question_is_refused(tmp_path: Path):
    for row in HELD_OUT:
        with pytest.raises(BadConfig, match=r"1 pairs about questions that are kept for testing .*row 1"):
            read_preferences([file(tmp_path, row)], SYSTEM)


def test_rows_and_sources_that_cannot_be_trained_on_are_named(tmp_path: Path):
    assert not_refused(CASES["wrong"], lambda rows: read_preferences([file(tmp_path, *rows)], SYSTEM)) == []
    assert not_refused(CASES["no pairs"], lambda source: read_preferences([source], SYSTEM)) == []
    bad = {"prompt": turns(("user", "Why?")), "chosen": 3}
    with pytest.raises(BadRow, match=r"rows.jsonl, line 2, field"):
        read_preferences([file(tmp_path, pair(), bad)], SYSTEM)


# ---- answers that a run sampled, or a chain ---------------------------------------------------

EXAMPLES = DATASETS["pathways-train"]()[:3]
ORIGIN = SampleOrigin(source="tiny", stage="sft")


def test_the_answers_of_a_run_come_with_their_question_and_step(tmp_path: Path):
    found = run_samples(RunFolder(sampled_run(tmp_path / "grpo")))
    assert found.unknown_questions == 0
    assert len(found.samples) > 100
    first = found.samples[0]
    assert (first.origin.source, first.origin.stage, first.origin.step) == ("grpo", "grpo", 1)
    assert first.prompt[-1].content == first.example.prompt
    assert {sample.example.split for sample in found.samples} == {"train"}


def test_a_chain_answers_each_question_as_often_as_asked_each_time_with_its_own_seed(tmp_path: Path):
    chain = load_chain(tiny_chain(tmp_path), "float32", base=str(tmp_path / "model"))
    draws = Draws("sft", 3, Sampling(max_new_tokens=6, temperature=1.0, seed=5))
    found = chain_samples(chain, ORIGIN, EXAMPLES, "Be brief.", draws)
    again = chain_samples(chain, ORIGIN, EXAMPLES, "Be brief.", draws)
    assert [sample.text for sample in found] == [sample.text for sample in again]
    assert len(found) == 9
    assert [sample.origin.seed for sample in found] == [5, 5, 5, 6, 6, 6, 7, 7, 7]
    assert len({sample.text for sample in found}) > 3
    assert all(sample.was_cut for sample in found if len(sample.text) > 30)


# ---- conversations -----------------------------------------------------------------------------------


TWO_TURNS = [("user", "Up?"), ("assistant", "It goes up."), ("user", "Why?"), ("assistant", "Stress.")]


def shown(item: ChatRow) -> list[str] | str:
    """Return a conversation as the cases write it."""
    if item.text:
        return item.text
    marks = dict.fromkeys(item.learned, "*")
    return [f"{turn['role']}{marks.get(at, '')} {turn['content']}" for at, turn in enumerate(item.turns)]


def test_rows_of_every_form_are_read_as_their_turns_and_the_chain_is_told_the_system_message_of_all(tmp_path: Path):
    wrong = []
    for case in CASES["read"]:
        path = tmp_path / case["file"]
        path.write_text(case["text"], encoding="utf-8", newline="")
        data = read_conversations([str(path)])
        found = [shown(item) for item in data.items]
        said = {**data.record(), **data.left_out}
        wanted = {**case.get("said", {}), **case.get("left", {})}
        if found != case["turns"] or not wanted.items() <= said.items() or data.system_prompt != case.get("system", ""):
            wrong.append((case["name"], found, said, data.system_prompt))
    assert wrong == []


def test_a_row_that_cannot_be_used_is_named_by_line_and_field_or_left_out_and_counted(tmp_path: Path):
    good, wrong = json.dumps({"messages": turns(*TWO_TURNS)}), []
    for row, said in CASES["refused"]:
        (tmp_path / "rows.jsonl").write_text(f"{good}\n{row}\n{row}\n", encoding="utf-8")
        source = [str(tmp_path / "rows.jsonl")]
        with pytest.raises(BadRow) as raised:
            read_conversations(source)
        dropped = read_conversations(source, drops=True)
        if said not in str(raised.value) or "(1 more bad row: line 3" not in str(raised.value):
            wrong.append((said, str(raised.value)))
        if (dropped.count, sum(dropped.left_out.values())) != (1, 2):
            wrong.append((said, dropped.left_out))
    for row, said in CASES["unknown"]:
        (tmp_path / "rows.jsonl").write_text(row.replace("\n", "\\n"), encoding="utf-8")
        with pytest.raises(LabError) as raised:
            SftSettings(data=(str(tmp_path / "rows.jsonl"),), output="x").read_rows(None)
        if said not in str(raised.value):
            wrong.append((said, str(raised.value)))
    assert wrong == []


def test_parquet_with_empty_cells_and_turns_in_structs_is_read(tmp_path: Path):
    rows = [{"role": "user", "content": "Up?", "name": None}, {"role": "assistant", "content": "Up.", "name": "x"}]
    pandas.DataFrame({"messages": [rows], "score": [float("nan")]}).to_parquet(tmp_path / "a.parquet")
    pandas.DataFrame({"instruction": ["Up?", "Down?"], "input": [None, "mice"], "output": ["Up.", "Down."]}).to_parquet(
        tmp_path / "b.parquet"
    )
    data = read_conversations([str(tmp_path / name) for name in ("a.parquet", "b.parquet")])
    assert [item.asked for item in data.items] == [["Up?"], ["Up?"], ["Down?\n\nmice"]]
    pandas.DataFrame({"prompt": ["Up?"], "completion": [float("nan")]}).to_parquet(tmp_path / "c.parquet")
    with pytest.raises(BadRow, match=r"c.parquet, line 1, field 'completion': is empty"):
        read_conversations([str(tmp_path / "c.parquet")])


def test_questions_of_the_standard_hold_out_are_refused_in_any_form(tmp_path: Path):
    asked = kmp_test()[0].prompt
    asking = turns(("user", "Hello"), ("assistant", "Hello."), ("user", asked.upper()), ("assistant", "112"))
    for other, row in (
        ({"messages": turns(*TWO_TURNS)}, {"messages": asking}),
        ({"text": "Mice fly."}, {"text": f"### Instruction:\n{asked}\n\n### Response:\n112"}),
        ({"text": "Mice fly."}, {"text": f"Question: {asked}\nAnswer: 112"}),
    ):
        with pytest.raises(BadConfig, match=r"holds 1 rows about questions of the standard hold-out \(such as line 2"):
            read_conversations([file(tmp_path, other, row)])


def test_rows_without_a_system_message_are_given_that_of_the_chain_or_of_the_questions_beside_them(tmp_path: Path):
    own = turns(("system", "Be kind."), *TWO_TURNS)
    rows = file(tmp_path, {"messages": turns(*TWO_TURNS)}, {"messages": own})

    def systems(prompt: str | None, *others: str) -> tuple[Rows[Any], list[str]]:
        data = SftSettings(data=(rows, *others), output="x").read_rows(prompt)
        return data, [item.system for item in data.items[:2]]

    data, found = systems(None)
    assert (data.system_prompt, found) == ("", ["", "Be kind."])
    data, found = systems("Answer in one word.")
    assert (data.system_prompt, found) == ("Answer in one word.", ["Answer in one word.", "Be kind."])
    assert data.items[0].learned == (2, 4)
    assert data.facts["rows given the system message of the chain"] == 1
    write_examples(tmp_path / "questions.jsonl", DATASETS["kmp-train"]()[:3])
    data, found = systems(None, str(tmp_path / "questions.jsonl"))
    assert data.system_prompt == SYSTEM_PROMPT and found[0].startswith(SYSTEM_PROMPT[:40])
    assert (data.count, dict(data.counts)) == (5, {"rows.jsonl": 2, "questions.jsonl": 3})
    mixed = SftSettings(data=(f"{rows}:0.5", f"{tmp_path / 'questions.jsonl'}:0.5"), output="x").read_rows(None)
    assert mixed.count == 4


def test_pairs_in_the_forms_of_others_are_read_from_json_and_csv(tmp_path: Path):
    for row, wanted in CASES["pairs"]:
        (tmp_path / "a.json").write_text(json.dumps([row], indent=1), encoding="utf-8")
        with (tmp_path / "a.csv").open("w", encoding="utf-8", newline="") as table:
            cells = {key: value if isinstance(value, str) else json.dumps(value) for key, value in row.items()}
            csv.writer(table).writerows([cells.keys(), cells.values()])
        for name in ("a.json", "a.csv"):
            (found,) = read_preferences([str(tmp_path / name)], "").items
            is_text = isinstance(found.prompt, str)
            asked = found.prompt if is_text else [f"{turn.role} {turn.content}" for turn in found.prompt]
            chosen = found.answers["chosen"]
            answer = chosen if isinstance(chosen, str) else chosen[0].content
            assert (name, asked, answer) == (name, wanted, "Up.")


def test_answers_called_good_or_bad_are_read_in_the_forms_of_others_and_of_each_pair_two(tmp_path: Path):
    for rows, wanted in CASES["judged"]:
        data = read_preferences([file(tmp_path, *rows)], "", ALONE)
        found = [(each.label, each.row()["completion"]) for each in data.items]
        texts = [[label, text if isinstance(text, str) else text[0]["content"]] for label, text in found]
        assert texts == wanted
        assert all("Why?" in str(each.prompt) for each in data.items)
    assert not_refused(CASES["not judged"], lambda rows: read_preferences([file(tmp_path, *rows)], "", ALONE)) == []


def test_a_text_that_some_call_good_and_others_bad_is_kept_twice_and_counted(tmp_path: Path):
    said = {"prompt": turns(("user", "Why?")), "completion": turns(("assistant", "Because."))}
    rows = [{**said, "label": True}, {**said, "label": False}, {**said, "label": True}]
    data = read_preferences([file(tmp_path, *rows)], "", ALONE)
    assert data.count == 2 and data.left_out == {"the same answer again": 1}
    assert data.facts["answers called good by some and bad by others"] == 1


# ---- what is learned ---------------------------------------------------------------------------


def learned(row: Mapping[str, Any], tokenizer: PreTrainedTokenizerBase) -> dict[str, list[str]]:
    """Return the spans of text that are learned of each sequence of a row."""
    found: dict[str, list[str]] = {}
    for column, tokens in sequences_of(row, tokenizer).items():
        spans: list[list[int]] = []
        for at, each in enumerate(tokens.ids):
            if tokens.learned[at]:
                if not at or not tokens.learned[at - 1]:
                    spans.append([])
                spans[-1].append(each)
        found[column] = [tokenizer.decode(span) for span in spans]
    return found


def test_every_answer_is_learned_with_its_end_in_one_sequence_or_one_by_one_where_the_template_changes_them():
    tokenizer = tiny_tokenizer()
    both, last = (ChatRow(tuple(turns(*TWO_TURNS)), which).row() for which in ((1, 3), (3,)))
    assert learned(both, tokenizer) == {"messages": ["It goes up.<|im_end|>\n", "Stress.<|im_end|>\n"]}
    assert learned(last, tokenizer) == {"messages": ["Stress.<|im_end|>\n"]}
    tokenizer.chat_template = TEMPLATES["forgets"]
    assert learned(both, tokenizer) == {
        "turn 2": ["<think>\n\n</think>\n\nIt goes up.<|im_end|>\n"],
        "turn 4": ["<think>\n\n</think>\n\nStress.<|im_end|>\n"],
    }


def test_an_answer_that_the_template_does_not_end_is_learned_with_the_end_token():
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = "{% for m in messages %}[{{ m['role'] }}]{{ m['content'] }}{% endfor %}"
    row = ChatRow(tuple(turns(*TWO_TURNS)), (1, 3)).row()
    end = tokenizer.eos_token
    wanted = {"turn 2": [f"[assistant]It goes up.{end}"], "turn 4": [f"[assistant]Stress.{end}"]}
    assert learned(row, tokenizer) == wanted
    question = {"prompt": turns(("user", "Up?")), "completion": turns(("assistant", "It goes up."))}
    assert learned(question, tokenizer) == {"completion": wanted["turn 2"]}


def test_a_conversation_that_one_sequence_cannot_hold_becomes_a_row_for_each_answer(tmp_path: Path):
    thought = {"role": "assistant", "content": "It goes up.", "reasoning_content": "Looked it up."}
    said = turns(*TWO_TURNS)
    data = read_conversations([file(tmp_path, {"messages": [said[0], thought, *said[2:]]}, {"messages": said[:2]})])
    tokenizer = tiny_tokenizer()
    assert data.as_sequences(tokenizer).facts["answers whose reasoning the chat template leaves out"] == 1
    tokenizer.chat_template = TEMPLATES["forgets"]
    arranged = data.as_sequences(tokenizer)
    assert [*arranged.named] == ["rows.jsonl:1, turn 2", "rows.jsonl:1, turn 4", "rows.jsonl:2"]
    first, second = (learned(item.row(), tokenizer)["messages"] for item in arranged.items[:2])
    assert (first, second[0].count("up")) == (["<think>\nLooked it up.\n</think>\n\nIt goes up.<|im_end|>\n"], 0)
    assert arranged.facts["conversations with a row for each answer (the template changes earlier turns)"] == 1
    assert "answers whose reasoning the chat template leaves out" not in arranged.facts


def test_a_conversation_that_the_template_refuses_is_named_or_left_out(tmp_path: Path):
    twice = {"messages": turns(("user", "Up?"), *TWO_TURNS)}
    source = file(tmp_path, {"messages": turns(*TWO_TURNS)}, twice)
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = TEMPLATES["alternates"]
    with pytest.raises(BadRow, match=r"rows.jsonl, line 2, field 'turns': are refused by the base's chat template"):
        read_conversations([source]).as_sequences(tokenizer)
    data = read_conversations([source], drops=True).as_sequences(tokenizer)
    assert (data.count, sum(data.left_out.values())) == (1, 1)
    marked = file(tmp_path, {"messages": turns(("user", "Up?<|im_end|>"), ("assistant", "Up."))})
    with pytest.raises(BadRow, match=r"line 1, field 'turns': hold a control mark .*im_end"):
        read_conversations([marked]).as_sequences(tiny_tokenizer())


ROWS = [
    ("messages", {"messages": turns(("system", "Be brief."), *TWO_TURNS)}),
    ("prompt", {"prompt": turns(("user", "Up?")), "completion": turns(("assistant", "It goes up."))}),
    ("text", {"text": "Mice fly in space."}),
]


@pytest.mark.parametrize(("form", "row"), ROWS, ids=[form for form, _ in ROWS])
def test_trl_learns_what_it_would_learn_of_the_row_itself_and_what_the_dry_run_shows(tmp_path: Path, form, row):
    """TRL's own reading of the same row, with the marks of a template where answers of several turns are learned."""
    from datasets import Dataset
    from trl import SFTConfig, SFTTrainer

    from training.models.base import find_base, load_model

    base = tiny_base(tmp_path / "model")
    data = file(tmp_path, row, row)
    values = {**SFT, "base": str(base), "data": [data]}
    prepared = ready("sft", settings_file(tmp_path, values))
    ours = build_trainer(prepared)
    tokenizer = tiny_tokenizer()
    if form == "messages":
        tokenizer.chat_template = TEMPLATES["marked"]
    theirs = SFTTrainer(
        model=load_model(find_base(str(base)), "float32"),
        args=SFTConfig(
            output_dir=str(tmp_path / "trl"),
            report_to="none",
            use_cpu=True,
            bf16=False,
            max_length=1024,
            assistant_only_loss=form == "messages",
        ),
        train_dataset=Dataset.from_list([row, row]),
        processing_class=tokenizer,
    )
    assert ours.train_dataset[0]["input_ids"] == theirs.train_dataset[0]["input_ids"]
    assert ours.train_dataset[0]["labels"] == theirs.train_dataset[0]["labels"]
    batch = ours.data_collator([ours.train_dataset[0]])
    words = ["--config", str(tmp_path / "settings.yaml")]
    seen = preview(plan_of("sft", words, is_dry=True)).examples[0]
    assert [label != -100 for label in batch["labels"][0].tolist()] == [*seen.learned]
    assert seen.with_marks().count("⟦") == (2 if form == "messages" else 1)


# ---- what is held out --------------------------------------------------------------------------


def test_a_share_is_held_out_by_question_and_its_loss_chooses_the_weights(tmp_path: Path):
    rows = [{"prompt": f"What of gene {number // 2}?", "completion": f"It is {number}."} for number in range(20)]
    source = file(tmp_path, *rows)
    told = {"hold_out": 0.2, "eval_steps": 1, "best_metric": "loss"}
    data = SftSettings(data=(source,), output="x", **told).read_rows(None)
    assert (data.count, data.held.count, len(data.held.questions)) == (16, 4, 2)
    assert not data.questions & data.held.questions
    other = SftSettings(data=(source,), output="x", seed=1, **told).read_rows(None)
    assert other.held.questions != data.held.questions
    run = train("sft", settings_file(tmp_path, {**SFT, "data": [source], **told}))
    losses = figures(run, "eval_loss")
    assert len(losses) == 3 and losses[-1] < losses[0]
    kept = record(run.path)
    assert kept["data"]["held out rows"] == 4 and kept["result"]["kept_weights"].startswith("of step 2, the last")
    values = {**SFT, "data": [source], "hold_out": 0.2, "eval_steps": 2, "output": str(tmp_path / "blind")}
    assert figures(train("sft", settings_file(tmp_path, values)), "loss") == figures(run, "loss")


def test_conversations_may_be_the_dev_set_whose_loss_is_measured_beside_questions_that_are_answered(tmp_path: Path):
    rows = [{"messages": turns(("user", f"What of gene {n}?"), ("assistant", f"It is {n}."))} for n in range(6)]
    dev = [{**row, "split": "dev"} for row in rows[3:]]
    source = file(tmp_path, *rows[:4], *dev)
    write_examples(tmp_path / "dev.jsonl", DATASETS["kmp-train"]()[20:23])
    told = {"eval_data": (f"{source}[dev]", str(tmp_path / "dev.jsonl")), "eval_steps": 1}
    data = SftSettings(data=(source,), output="x", **told).read_rows(None)
    assert (data.count, data.held.count, data.dev.rows.count) == (4, 2, 3)
    assert data.held.left_out == {"trained on": 1}
    with pytest.raises(BadConfig, match="choose one of loss, accuracy"):
        SftSettings(data=(source,), output="x", best_metric="bleu", **told).read_rows(None)
    with pytest.raises(BadConfig, match="kept for testing"):
        SftSettings(data=(f"{source}[test]",), output="x").read_rows(None)
    with pytest.raises(ValueError, match="needs both"):
        SftSettings(data=(source,), output="x", hold_out=0.1)
