import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from evals.facts import load_kmp
from evals.questions import is_held_out, kmp_test, pathway_heldout
from evals.questions.bank import normalised
from evals.questions.kmp import degs, long
from evals.refine.bank import kept_for_testing, refiner_bank
from evals.refine.grammar import evidence_of
from evals.refine.judge import compare_words
from evals.refine.prompt import SYSTEM_PROMPT, messages, within_budget
from evals.refine.records import as_jsonl, read_records
from evals.refine.score import prepare, settle
from evals.schema.refiner import RewardConfig
from tests.evals.refiner.answers import record

ASSAY = Path(sys.executable).with_name("assay")
BANK = refiner_bank()
EVERY = (*BANK.train, *BANK.test)
DRAWN = pytest.mark.parametrize("seed", [0, 1, 2])


def text_of(each) -> str:
    return as_jsonl([each]).lower()


def test_there_are_as_many_records_as_promised():
    assert len(BANK.train) >= 120
    assert sum(not each.answerable for each in EVERY) >= 20
    assert all(each.positive_rubrics and each.negative_rubrics for each in EVERY)
    assert len({each.id for each in EVERY}) == len(EVERY)
    assert all(each.origin for each in EVERY)


@DRAWN
def test_nothing_of_the_held_out_tissues_is_in_training(seed: int):
    for each in refiner_bank(seed).train:
        assert not re.search(r"\b(eye|thymus|retina|ocular|thymic)", text_of(each))
        assert not is_held_out(each.asked)
    asked = {normalised(row.prompt) for row in pathway_heldout()}
    assert {normalised(each.asked) for each in BANK.test} & asked


def test_records_for_testing_are_known_by_their_id_and_by_what_they_ask():
    renamed = BANK.test[0].model_copy(update={"id": "renamed", "prompt": pathway_heldout()[0].prompt})
    assert kept_for_testing([*BANK.train, *BANK.test]) == [each.id for each in BANK.test]
    assert kept_for_testing([renamed]) == ["renamed"]


@DRAWN
def test_no_fact_of_the_kmp_test_is_in_training(seed: int):
    """Neither its questions nor, in one record, all the figures that an answer rests on."""
    tests = kmp_test()
    wordings = {normalised(row.prompt) for row in tests}
    supports = [set(row.support) for row in tests if row.support]
    for each in refiner_bank(seed).train:
        assert normalised(each.asked) not in wordings
        if each.group != "kmp":
            continue
        stated = {
            figure.id
            for figure in load_kmp().counts
            for text in evidence_of(each.tool_output).values()
            if f"mouse {figure.tissue}, {long(figure.contrast)}: {degs(figure.genes)} " in text
        }
        assert len(stated) == len(each.sources)
        assert not any(support <= stated for support in supports)


@DRAWN
def test_no_study_is_on_both_sides_of_the_split(seed: int):
    bank = refiner_bank(seed)
    documents = [{d for each in part for d in each.sources.values()} for part in (bank.train, bank.test)]
    assert not documents[0] & documents[1]
    assert not {each.group for each in bank.train} & {each.group for each in bank.test}


@pytest.mark.parametrize("each", EVERY, ids=[each.id for each in EVERY])
def test_every_reference_keeps_to_the_grammar_and_is_well_paid(each):
    case = prepare(each, each.reference, RewardConfig())
    assert all(case.checks.values())
    reward = settle(case, compare_words(case.inquiry())).reward
    assert reward is not None
    assert reward >= 8


def test_silence_and_a_wrong_answer_are_paid_less_than_the_reference():
    lesser = 0
    for each in EVERY:
        wrong = str(each.reference).replace(" up ", " DOWN ").replace(" down ", " up ").replace("DOWN", "down")
        wrong = re.sub(r"\d+(?= (?:%|DEG|days|minutes|hours))", "777", wrong)
        cases = [prepare(each, text, RewardConfig()) for text in (each.reference, wrong, "<answer></answer>")]
        good, other, silent = (settle(case, compare_words(case.inquiry())).reward for case in cases)
        assert silent == 0
        lesser += wrong != each.reference and other < good - 1
    assert lesser > 60


def test_the_command_writes_the_same_bytes_again(tmp_path: Path):
    command = [str(ASSAY), "data", "refiner", "--json", "--out"]
    for name in ("one", "two"):
        subprocess.run([*command, str(tmp_path / name)], check=True, capture_output=True)
    for name in ("train.jsonl", "test.jsonl", "README.md", "statistics.json"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    assert read_records(tmp_path / "one" / "train.jsonl")[0].model_dump() == BANK.train[0].model_dump()
    statistics = json.loads((tmp_path / "one" / "statistics.json").read_text(encoding="utf-8"))
    assert (statistics["label_source"], statistics["licence"]) == ("synthetic", "apache-2.0")
    assert statistics["splits"]["train"]["records"] == len(BANK.train)
    card = (tmp_path / "one" / "README.md").read_text(encoding="utf-8")
    assert "license: apache-2.0" in card
    assert f"| records | {len(BANK.train)} | {len(BANK.test)} |" in card


def test_the_policy_reads_question_reasoning_and_tool_output_between_fences():
    system, user = messages(record(agent_reasoning="I looked it up."))
    assert system.content == SYSTEM_PROMPT
    parts = re.findall(r"<(question|reasoning|tool_output)>\n(.*?)\n</\1>", user.content, re.DOTALL)
    assert [name for name, _ in parts] == ["question", "reasoning", "tool_output"]
    assert parts[1][1] == "I looked it up."


def words(each) -> int:
    return sum(len(turn.content.split()) for turn in messages(each))


def long_record(**changes: object):
    blocks = [f"<snippet id=S{n}>{'word ' * 20}{'down' if n == 3 else ''}</snippet>" for n in range(1, 7)]
    return record(id="long", tool_output="\n".join(blocks), sources={f"S{n}": "d" for n in range(1, 7)}, **changes)


def test_a_long_record_loses_whole_passages_from_the_end_and_none_that_is_needed():
    needed = long_record(reference="<answer><snippet id=S5>a</snippet></answer>")
    budget = words(needed) - 50
    fitted = within_budget([record(), needed], budget, words)
    assert fitted.trimmed == {"long": ("S6", "S4", "S2")}
    (kept,) = [each for each in fitted.records if each.id == "long"]
    assert list(evidence_of(kept.tool_output)) == ["S1", "S3", "S5"]
    assert set(kept.sources) == {"S1", "S3", "S5"}
    assert words(kept) <= budget
    assert fitted.report() == {
        "records": 2,
        "records trimmed": 1,
        "passages taken away": 3,
        "records over the budget": 0,
    }


def test_what_does_not_fit_at_all_is_left_out_and_told():
    fitted = within_budget([record(), long_record()], 60, words)
    assert "long" in fitted.dropped
    assert fitted.report()["records over the budget"] == len(fitted.dropped)
