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
    return {
        "prompt": turns(("user", question)),
        "chosen": turns(("assistant", "Because of A.")),
        "rejected": turns(("assistant", "Because of B.")),
        **columns,
    }


def file(folder: Path, *rows: Mapping[str, object], name: str = "votes.jsonl") -> str:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def test_a_conversation_without_a_system_message_is_given_the_one_of_the_chain(tmp_path: Path):
    own = [*turns(("system", "Be brief.")), *turns(("user", "How?"))]
    data = read_preferences([file(tmp_path, pair(), pair(prompt=own))], SYSTEM)
    first, second = (each.row()["prompt"] for each in data.pairs)
    assert first == turns(("system", SYSTEM), ("user", "Why?"))
    assert second == turns(("system", "Be brief."), ("user", "How?"))
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
    assert list(data.counts) == ["votes/train.jsonl"]
    assert set(data.pairs[0].row()) == {"prompt", "chosen", "rejected"}
    assert data.questions == {"Why?"}


def test_what_the_lab_exports_is_trained_on_as_it_is(tmp_path: Path):
    left, right = answer("l1", "base"), answer("r1", "sft")
    judged = JudgedPair(vote(left, right, "right"), left, right)
    write_export(build_export([judged], "dpo", NOON), tmp_path / "export")
    data = read_preferences([str(tmp_path / "export")], left.system_prompt)
    assert data.pairs[0].row() == {
        "prompt": turns(("system", left.system_prompt), ("user", left.question)),
        "chosen": turns(("assistant", right.text)),
        "rejected": turns(("assistant", left.text)),
    }
    assert data.notes == {}


def test_plain_text_stays_plain_text(tmp_path: Path):
    row = {"prompt": "Q: why? A:", "chosen": " because", "rejected": " never"}
    data = read_preferences([file(tmp_path, row)], SYSTEM)
    assert data.pairs[0].is_plain
    assert data.pairs[0].row() == row


def test_a_prompt_inside_both_answers_is_taken_out_of_them(tmp_path: Path):
    shared = turns(("system", SYSTEM), ("user", "Why?"))
    row = {
        "chosen": [*shared, *turns(("assistant", "A."))],
        "rejected": [*shared, *turns(("assistant", "B."))],
    }
    data = read_preferences([file(tmp_path, row)], SYSTEM)
    assert data.pairs[0].row() == {
        "prompt": shared,
        "chosen": turns(("assistant", "A.")),
        "rejected": turns(("assistant", "B.")),
    }
    assert data.notes == {"prompts taken from the turns that both answers share": 1}


SHARING = [
    (
        "Human: Why?\n\nAssistant: Because.",
        "Human: Why?\n\nAssistant: Never.",
        "Human: Why?\n\nAssistant:",
    ),
    ("Q: up? A: upwards", "Q: up? A: upstairs", "Q: up? A:"),
    ("Why? Yes.", "Why? Yes. Or no.", "Why?"),
]


@pytest.mark.parametrize(("chosen", "rejected", "prompt"), SHARING)
def test_of_plain_text_the_whole_words_that_both_answers_begin_with_are_the_prompt(
    chosen: str, rejected: str, prompt: str, tmp_path: Path
):
    data = read_preferences([file(tmp_path, {"chosen": chosen, "rejected": rejected})], SYSTEM)
    row = data.pairs[0].row()
    assert row["prompt"] == prompt
    assert (prompt + row["chosen"], prompt + row["rejected"]) == (chosen, rejected)
    assert data.notes == {"prompts taken from the words that both answers share": 1}


def test_a_parquet_file_holds_the_same_rows_as_a_jsonl_file(tmp_path: Path):
    rows = [pair("Why?"), pair("How?")]
    pandas.DataFrame(rows).to_parquet(tmp_path / "votes.parquet")
    jsonl = read_preferences([file(tmp_path, *rows)], SYSTEM)
    parquet = read_preferences([str(tmp_path / "votes.parquet")], SYSTEM)
    assert [each.row() for each in parquet.pairs] == [each.row() for each in jsonl.pairs]
    assert parquet.record()["sha256"] == jsonl.record()["sha256"]


def test_only_the_first_rows_are_taken_where_a_count_is_given(tmp_path: Path):
    source = file(tmp_path, pair("1?"), pair("2?"), pair("3?"))
    assert read_preferences([f"{source}[:2]"], SYSTEM).questions == {"1?", "2?"}
    with pytest.raises(BadConfig, match=r"asks for 9 rows; votes.jsonl has 3"):
        read_preferences([f"{source}[:9]"], SYSTEM)


def test_pairs_that_say_nothing_are_left_out_and_counted(tmp_path: Path):
    same = pair("How?", rejected=turns(("assistant", "Because of A.")))
    data = read_preferences([file(tmp_path, pair(), same, pair())], SYSTEM)
    assert len(data.pairs) == 1
    assert data.notes["left out, both answers are the same"] == 1
    assert data.notes["left out, the same pair again"] == 1


def test_plain_texts_that_are_the_same_throughout_are_left_out_too(tmp_path: Path):
    texts = [{"chosen": f"Why? {word}", "rejected": "Why? No."} for word in ("Yes.", "No.")]
    data = read_preferences([file(tmp_path, *texts)], SYSTEM)
    assert [each.row() for each in data.pairs] == [{"prompt": "Why?", "chosen": " Yes.", "rejected": " No."}]
    assert data.notes["left out, both answers are the same"] == 1


KMP = kmp_test()[0]
PATHWAY = pathway_heldout()[0]


@pytest.mark.parametrize(
    "row",
    [
        pair(KMP.prompt),
        pair(PATHWAY.prompt.upper()),
        pair("reworded", example_id=KMP.id),
        {"prompt": f"### Question:\n{KMP.prompt}\n### Answer:\n", "chosen": "A", "rejected": "B"},
        {
            "chosen": f"Human: {KMP.prompt}\n\nAssistant: A",
            "rejected": f"Human: {KMP.prompt}\n\nAssistant: B",
        },
        {
            "chosen": turns(("user", KMP.prompt), ("assistant", "A")),
            "rejected": turns(("user", KMP.prompt), ("assistant", "B")),
        },
    ],
    ids=["question", "other case", "id", "inside a template", "after a name", "implicit prompt"],
)
def test_a_pair_about_a_held_out_question_is_refused(row: dict[str, object], tmp_path: Path):
    with pytest.raises(BadConfig, match=r"1 pairs about questions that are kept for testing .*row 1"):
        read_preferences([file(tmp_path, row)], SYSTEM)


WRONG = [
    ({"chosen": "A", "rejected": "B"}, "do not begin with the same words"),
    ({"chosen": "Why? A", "rejected": turns(("assistant", "B"))}, "mixes plain text and messages"),
    (pair(prompt="Why?"), "mixes plain text and messages"),
    (pair(prompt=[]), "has no question"),
    (pair(prompt=turns(("assistant", "Hello."))), "has no question"),
    (pair(chosen=[]), "empty answer"),
    (pair(rejected=turns(("assistant", "Because of A."))), "says anything"),
]


@pytest.mark.parametrize(("row", "said"), WRONG)
def test_a_row_that_cannot_be_trained_on_is_named(row: dict[str, object], said: str, tmp_path: Path):
    with pytest.raises(BadConfig, match=said):
        read_preferences([file(tmp_path, row)], SYSTEM)


def test_a_bad_line_is_named_with_its_field(tmp_path: Path):
    source = file(tmp_path, pair(), {"prompt": turns(("user", "Why?")), "chosen": 3})
    with pytest.raises(BadRow, match=r"votes.jsonl, line 2, field"):
        read_preferences([source], SYSTEM)


def test_plain_and_conversational_rows_do_not_train_one_run(tmp_path: Path):
    plain = {"prompt": "Q:", "chosen": "A", "rejected": "B"}
    with pytest.raises(BadConfig, match="1 of 2 pairs are plain text"):
        read_preferences([file(tmp_path, pair(), plain)], SYSTEM)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("nowhere.jsonl", "no file nowhere.jsonl"),
        ("nowhere.parquet", "cannot be read as parquet"),
        ("kmp-train", "is no preference data set"),
        ("org/name", "could not be fetched from the Hub"),
    ],
)
def test_a_source_that_is_not_here_says_what_is_accepted(source: str, said: str):
    with pytest.raises(LabError, match=said):
        read_preferences([source], SYSTEM)
