"""Preference rows of all kinds become pairs for DPO, or are refused by name."""

import json
from collections.abc import Mapping
from pathlib import Path

import pandas
import pytest

from evals.errors import BadConfig, BadRow, LabError
from evals.questions import kmp_test, pathway_heldout
from lab.compare.export import build_export, write_export
from lab.store.outcomes import JudgedPair
from tests.lab.votes import NOON, answer, vote
from training.data.preferences import read_preferences

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
    write_export(build_export([judged], "dpo", NOON), tmp_path / "export")
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
