import re

import pytest
from typer.testing import CliRunner

from evals.facts import load_kmp
from evals.questions import is_held_out, kmp_test, pathway_heldout
from evals.questions.kmp import contrast_name, degs
from evals.questions.sets import normalise_question
from evals.refine.bank import ids_for_testing, refiner_bank
from evals.refine.cases import read_records, records_jsonl
from evals.refine.grammar import evidence_of, is_negated
from evals.refine.judge import compare_words
from evals.refine.score import final_figures, prepare
from evals.refine.task import SYSTEM_PROMPT, messages, shorten
from evals.schema.refiner import RewardConfig
from lab.cli import app
from tests.evals.refiner.answers import record

BANK = refiner_bank()
EVERY = (*BANK.train, *BANK.test)


def test_there_are_as_many_records_as_promised():
    assert len(BANK.train) >= 120 and sum(not each.answerable for each in EVERY) >= 20
    assert all(each.positive_rubrics and each.negative_rubrics and each.origin for each in EVERY)
    assert len({each.id for each in EVERY}) == len(EVERY)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_nothing_of_the_held_out_tissues_of_the_kmp_test_or_of_a_study_in_testing_is_in_training(seed):
    """Neither questions of the KMP test nor, in one record, all the figures that an answer rests on."""
    bank, tests = refiner_bank(seed), kmp_test()
    wordings = {normalise_question(row.prompt) for row in tests}
    supports = [set(row.support) for row in tests if row.support]
    for each in bank.train:
        assert not re.search(r"\b(eye|thymus|retina|ocular|thymic)", records_jsonl([each]).lower())
        assert not is_held_out(each.asked) and normalise_question(each.asked) not in wordings
        if each.group != "kmp":
            continue
        stated = {
            figure.id
            for figure in load_kmp().counts
            for text in evidence_of(each.tool_output).values()
            if f"mouse {figure.tissue}, {contrast_name(figure.contrast)[1]}: {degs(figure.genes)} " in text
        }
        assert len(stated) == len(each.sources) and not any(support <= stated for support in supports)
    documents = [{d for each in part for d in each.sources.values()} for part in (bank.train, bank.test)]
    assert not documents[0] & documents[1]
    assert not {each.group for each in bank.train} & {each.group for each in bank.test}


def test_records_for_testing_are_known_by_their_id_and_by_what_they_ask():
    known = {normalise_question(row.prompt) for row in pathway_heldout()}
    assert {normalise_question(each.asked) for each in BANK.test} & known
    renamed = BANK.test[0].model_copy(update={"id": "renamed", "prompt": pathway_heldout()[0].prompt})
    assert ids_for_testing([*BANK.train, *BANK.test]) == [each.id for each in BANK.test]
    assert ids_for_testing([renamed]) == ["renamed"]


def test_references_keep_to_the_grammar_and_are_paid_well_and_silence_and_a_wrong_answer_less():
    poor, lesser = [], 0
    for each in EVERY:
        wrong = str(each.reference).replace(" up ", " DOWN ").replace(" down ", " up ").replace("DOWN", "down")
        wrong = re.sub(r"\d+(?= (?:%|DEG|days|minutes|hours))", "777", wrong)
        cases = [prepare(each, text, RewardConfig()) for text in (each.reference, wrong, "<answer></answer>")]
        good, other, silent = (final_figures(case, compare_words(case.inquiry())).reward for case in cases)
        # words say nothing of what is denied
        is_paid = good >= 8 or is_negated(f"{each.reference} {each.tool_output}")
        poor += [] if all(cases[0].checks.values()) and is_paid and silent == 0 else [(each.id, good, silent)]
        lesser += wrong != each.reference and other < good - 1
    assert not poor and lesser > 60


def test_the_command_writes_records_and_their_card(tmp_path):
    assert CliRunner().invoke(app, ["data", "refiner", "--out", str(tmp_path)]).exit_code == 0
    assert read_records(tmp_path / "train.jsonl")[0].model_dump() == BANK.train[0].model_dump()
    card = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "license: apache-2.0" in card and f"| records | {len(BANK.train)} | {len(BANK.test)} |" in card


def test_the_policy_reads_question_reasoning_and_tool_output_between_fences():
    system, user = messages(record(agent_reasoning="<snippet id=S9>I looked it up.</snippet>"))
    parts = re.findall(r"<(question|reasoning|tool_output)>\n(.*?)\n</\1>", user.content, re.DOTALL)
    assert system.content == SYSTEM_PROMPT
    assert [name for name, _ in parts] == ["question", "reasoning", "tool_output"]
    assert parts[1][1] == "<snippet id=S9>I looked it up.</snippet>"


def words(each) -> int:
    return sum(len(turn.content.split()) for turn in messages(each))


def test_a_long_record_loses_whole_passages_from_the_end_none_that_is_needed_or_is_left_out_and_told():
    blocks = [f"<snippet id=S{n}>{'word ' * 20}{'down' if n == 3 else ''}</snippet>" for n in range(1, 7)]
    long = record(id="long", tool_output="\n".join(blocks), sources={f"S{n}": "d" for n in range(1, 7)})
    needed = long.model_copy(update={"reference": "<answer><snippet id=S5>a</snippet></answer>"})
    budget = words(needed) - 50
    kept, taken = shorten(needed, budget, words)
    assert taken == ("S6", "S4", "S2") and shorten(record(), budget, words) == (record(), ())
    assert list(evidence_of(kept.tool_output)) == ["S1", "S3", "S5"] == sorted(kept.sources)
    assert words(kept) <= budget
    assert shorten(long, 60, words) == (long, ())
