"""Preference rows of all kinds become pairs for DPO, or are refused by name."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import pandas
import pytest

from evals.errors import BadConfig, BadRow, LabError
from evals.preferences.rows import export_votes
from evals.questions import DATASETS, SYSTEM_PROMPT, kmp_test, pathway_heldout
from evals.questions.pairs import SampleOrigin, make_pairs
from evals.schema.questions import Sampling
from evals.schema.votes import JudgedPair
from lab.exports import write_export
from tests.lab.votes import NOON, answer, vote
from tests.models import tiny_chain
from tests.training.runs import sampled_run
from training.data.preferences import Draws, chain_samples, read_preferences, run_samples
from training.models.chain import load_chain
from training.run.folder import RunFolder

SYSTEM = "Answer in one sentence."


def turns(*pairs: tuple[str, str]) -> list[dict[str, str]]:
    return [{"role": role, "content": text} for role, text in pairs]


def pair(question: str = "Why?", **columns: object) -> dict[str, object]:
    said = {"chosen": turns(("assistant", "Because of A.")), "rejected": turns(("assistant", "Because of B."))}
    return {"prompt": turns(("user", question)), **said, **columns}


def file(folder: Path, *rows: Mapping[str, object], name: str = "votes.jsonl") -> str:
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
        "rows of votes.jsonl": 2,
        "prompts given the system message of the chain": 1,
        "prompts with a system message of their own": 1,
    }


def test_a_folder_is_read_as_an_export_and_its_provenance_is_not_trained_on(tmp_path: Path):
    row = pair(vote_id="v1", stage_chosen="sft", origin_chosen={"seed": 3}, example_id=None)
    file(tmp_path / "votes", row, name="train.jsonl")
    data = read_preferences([str(tmp_path / "votes")], SYSTEM)
    assert (list(data.counts), data.questions) == (["votes/train.jsonl"], {"Why?"})
    assert set(data.items[0].row()) == {"prompt", "chosen", "rejected"}


def test_what_the_lab_exports_is_trained_on_as_it_is(tmp_path: Path):
    left, right = answer("l1", "base"), answer("r1", "sft")
    judged = JudgedPair(vote(left, right, "right"), left, right)
    write_export(export_votes([judged], "dpo", NOON), tmp_path / "export")
    data = read_preferences([str(tmp_path / "export")], left.system_prompt)
    assert data.items[0].row() == {
        "prompt": turns(("system", left.system_prompt), ("user", left.question)),
        "chosen": turns(("assistant", right.text)),
        "rejected": turns(("assistant", left.text)),
    }
    assert data.facts == {}


SHARED = turns(("system", SYSTEM), ("user", "Why?"))
PARTED = [  # chosen and rejected as they stand, the prompt that is taken out of them, what is noted
    ([*SHARED, *turns(("assistant", "A."))], [*SHARED, *turns(("assistant", "B."))], SHARED, "turns"),
    ("Human: Why?\n\nAssistant: Because.", "Human: Why?\n\nAssistant: Never.", "Human: Why?\n\nAssistant:", "words"),
    ("Q: up? A: upwards", "Q: up? A: upstairs", "Q: up? A:", "words"),
    ("Why? Yes.", "Why? Yes. Or no.", "Why?", "words"),
]


def test_a_prompt_inside_both_answers_is_taken_out_of_them_and_plain_text_stays_plain(tmp_path: Path):
    for chosen, rejected, prompt, what in PARTED:
        data = read_preferences([file(tmp_path, {"chosen": chosen, "rejected": rejected})], SYSTEM)
        row = data.items[0].row()
        assert (row["prompt"], prompt + row["chosen"], prompt + row["rejected"]) == (prompt, chosen, rejected)
        assert data.facts == {f"prompts taken from the {what} that both answers share": 1}
    plain = {"prompt": "Q: why? A:", "chosen": " because", "rejected": " never"}
    (found,) = read_preferences([file(tmp_path, plain)], SYSTEM).items
    assert found.row() == plain


def test_a_parquet_file_holds_the_same_rows_as_a_jsonl_file_and_a_count_takes_the_first_of_them(tmp_path: Path):
    rows = [pair("1?"), pair("2?"), pair("3?")]
    pandas.DataFrame(rows).to_parquet(tmp_path / "votes.parquet")
    source = file(tmp_path, *rows)
    jsonl, parquet = (read_preferences([each], SYSTEM) for each in (source, str(tmp_path / "votes.parquet")))
    assert parquet.record()["sha256"] == jsonl.record()["sha256"]
    assert read_preferences([f"{source}[:2]"], SYSTEM).questions == {"1?", "2?"}
    with pytest.raises(BadConfig, match=r"asks for 9 rows; votes.jsonl has 3"):
        read_preferences([f"{source}[:9]"], SYSTEM)


def test_pairs_that_say_nothing_are_left_out_and_counted(tmp_path: Path):
    same = pair("How?", rejected=turns(("assistant", "Because of A.")))
    data = read_preferences([file(tmp_path, pair(), same, pair())], SYSTEM)
    assert data.count == 1
    assert data.left_out == {"both answers are the same": 1, "the same pair again": 1}


KMP, PATHWAY = kmp_test()[0], pathway_heldout()[0]
HELD_OUT = [
    pair(KMP.prompt),
    pair(PATHWAY.prompt.upper()),
    pair("reworded", example_id=KMP.id),
    {"prompt": f"### Question:\n{KMP.prompt}\n### Answer:\n", "chosen": "A", "rejected": "B"},
    {"chosen": f"Human: {KMP.prompt}\n\nAssistant: A", "rejected": f"Human: {KMP.prompt}\n\nAssistant: B"},
    {key: turns(("user", KMP.prompt), ("assistant", key)) for key in ("chosen", "rejected")},
]


def test_a_pair_about_a_held_out_question_is_refused(tmp_path: Path):
    for row in HELD_OUT:
        with pytest.raises(BadConfig, match=r"1 pairs about questions that are kept for testing .*row 1"):
            read_preferences([file(tmp_path, row)], SYSTEM)


WRONG = [
    ([{"chosen": "A", "rejected": "B"}], "do not begin with the same words"),
    ([{"chosen": "Why? A", "rejected": turns(("assistant", "B"))}], "mixes plain text and messages"),
    ([pair(prompt="Why?")], "mixes plain text and messages"),
    ([pair(prompt=[])], "has no question"),
    ([pair(prompt=turns(("assistant", "Hello.")))], "has no question"),
    ([pair(chosen=[])], "empty answer"),
    ([pair(rejected=turns(("assistant", "Because of A.")))], "says anything"),
    ([pair(), {"prompt": "Q:", "chosen": "A", "rejected": "B"}], "1 of 2 pairs are plain text"),
]
NOWHERE = [
    ("nowhere.jsonl", "no file nowhere.jsonl"),
    ("nowhere.parquet", "cannot be read as parquet"),
    ("kmp-train", "is no preference data set"),
    ("org/name", "could not be fetched from the Hub"),
]


def test_rows_and_sources_that_cannot_be_trained_on_are_named(tmp_path: Path):
    for rows, said in WRONG:
        with pytest.raises(BadConfig) as raised:
            read_preferences([file(tmp_path, *rows)], SYSTEM)
        assert said in str(raised.value)
    for source, said in NOWHERE:
        with pytest.raises(LabError, match=said):
            read_preferences([source], SYSTEM)
    bad = {"prompt": turns(("user", "Why?")), "chosen": 3}
    with pytest.raises(BadRow, match=r"votes.jsonl, line 2, field"):
        read_preferences([file(tmp_path, pair(), bad)], SYSTEM)


def test_rows_that_are_no_pairs_are_named_with_the_stage_that_takes_them(tmp_path: Path):
    asked = turns(("user", "Up?"), ("assistant", "Up."))
    for row, said in (
        (
            {"messages": asked, "label": True},
            r"field 'chosen': is missing.*\(KTO\).*`assay train sft`, with bad_rows drop",
        ),
        ({"messages": asked}, "rows with one answer are no pairs: give them to `assay train sft`"),
    ):
        with pytest.raises(BadRow, match=said):
            read_preferences([file(tmp_path, row)], SYSTEM)


# ---- answers that a run sampled, or a chain ---------------------------------------------------

EMBEDDED = Path(__file__).parents[2] / "training" / "embedded" / "grpo"
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


def test_pairs_from_a_run_are_rows_that_dpo_trains_on(tmp_path: Path):
    made = make_pairs(run_samples(RunFolder(sampled_run(tmp_path / "grpo"))).samples, 0.2, 2)
    file = tmp_path / "train.jsonl"
    file.write_text("".join(row.model_dump_json() + "\n" for row in made.rows), encoding="utf-8")
    read = read_preferences([str(tmp_path)], SYSTEM_PROMPT)
    assert len(read.items) == len(made.rows)
    assert read.facts == {}


def test_a_folder_without_sampled_answers_says_where_to_find_some(tmp_path: Path):
    with pytest.raises(LabError, match="run folder of a GRPO stage"):
        run_samples(RunFolder(tmp_path))


def test_a_damaged_table_is_named(tmp_path: Path):
    shutil.copy(EMBEDDED / "run.json", tmp_path)
    (tmp_path / "completions").mkdir()
    (tmp_path / "completions" / "completions_00001.parquet").write_bytes(b"PAR1 cut off")
    with pytest.raises(LabError, match=r"completions_00001.parquet is no table"):
        run_samples(RunFolder(tmp_path))


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


def test_answers_that_cannot_differ_are_not_drawn():
    for count, temperature in ((1, 1.0), (4, 0.0)):
        with pytest.raises(BadConfig, match="no two different ones"):
            chain_samples(None, ORIGIN, EXAMPLES, "Be brief.", Draws("sft", count, Sampling(temperature=temperature)))  # ty: ignore
