"""What is read: records, those of the bank, their evidence, the claims of an answer and its form: `cases/refiner.yaml`."""

import json
import re
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from evals.errors import BadConfig, BadRow
from evals.facts import load_kmp
from evals.questions import is_held_out, kmp_test, pathway_heldout
from evals.questions.kmp import contrast_name, degs
from evals.questions.sets import normalise_question
from evals.refine.bank import ids_for_testing, refiner_bank
from evals.refine.cases import read_records, records_jsonl, records_sha256, split_by_group
from evals.refine.grammar import evidence_of, format_bonus, is_negated, parse_answer
from evals.refine.judge import compare_words
from evals.refine.score import final_figures, prepare
from evals.refine.task import SYSTEM_PROMPT, messages, shorten
from evals.schema.refiner import RewardConfig
from lab.cli import app
from tests.bench._measure import seconds
from tests.evals.refiner.answers import CASES, GOOD, PARTS, prepared, record, written

BASE = {"id": "r1", "prompt": "Which way?", "tool_output": "<snippet id=S1>up</snippet>"}
HARD = {"single_answer", "balanced_tags", "ids_wellformed"}


# ---- records and evidence ---------------------------------------------------------------------


def test_a_bad_record_is_named_by_line_and_field(tmp_path):
    wrong, rows = [], tmp_path / "rows.jsonl"
    for change, field, problem in CASES["records"]:
        rows.write_text(f"{json.dumps(BASE | {'id': 'r0'})}\n\n{json.dumps(BASE | change)}\n", encoding="utf-8")
        with pytest.raises(BadRow) as caught:
            read_records(rows)
        told = caught.value
        if (told.line, told.field) != (3, field) or problem not in str(told):
            wrong.append((change, str(told)))
    assert not wrong
    rows.write_text(json.dumps(BASE | {"tool_output": "", "answerable": False}), encoding="utf-8")
    assert read_records(rows)[0].tool_output == ""  # fine where there is no answer


def test_evidence_is_read_from_both_kinds_of_block_and_ends_at_its_tag_whatever_letters_stand_in_it():
    text = "<snippet id=\"a.1\">A</snippet><webpage url=x id='b:2'>B</webpage><snippet\nid=c-3 n = '2' >C</snippet>"
    assert dict(evidence_of(text)) == {"a.1": "A", "b:2": "B", "c-3": "C"} == dict(evidence_of(f"{text}{text}"))
    text = f"<snippet id=S1>{'İ' * 12} is down</SNIPPET>\n<Snippet id=S2>b</snippet><ſnippet id=S3>"
    assert dict(evidence_of(text)) == {"S1": f"{'İ' * 12} is down", "S2": "b"}


def test_a_conversation_asks_its_last_question_unless_the_question_is_told():
    turns = [{"role": "user", "content": "Hello"}, {"role": "user", "content": "Which way?"}]
    asked = [record(prompt=turns, **more).asked for more in ({}, {"question": "Up or down?"})]
    assert asked == ["Which way?", "Up or down?"]


def test_records_are_written_and_read_back_the_same(tmp_path):
    records = (record(), record(id="r2", sources={"S1": "p"}, answerable=False))
    file = tmp_path / "rows.jsonl"
    file.write_text(records_jsonl(records), encoding="utf-8")
    read = read_records(file)
    assert records_jsonl(read) == records_jsonl(records)
    assert records_sha256(reversed(read)) == records_sha256(records)


def test_a_group_is_never_on_both_sides_of_a_split():
    records = [record(id=f"r{n}", split_group=f"g{n % 7}") for n in range(30)]
    first, second = split_by_group(records, 0.3, seed=4)
    groups = [{each.group for each in side} for side in (first, second)]
    assert len(first) + len(second) == 30 and not groups[0] & groups[1] and len(groups[1]) == 2
    with pytest.raises(BadConfig, match="groups"):
        split_by_group(records[:1], 0.5)


# ---- answers ----------------------------------------------------------------------------------


def test_each_fault_of_form_fails_its_own_check_and_a_hard_one_leaves_no_bonus():
    wrong = []
    for text, failing in CASES["form"]:
        checks = prepared(text.replace("GOOD", GOOD)).checks
        failed, is_hard = {name for name, passed in checks.items() if not passed}, bool(HARD & set(failing))
        same = failed & HARD == HARD & set(failing) if is_hard else failed == set(failing)
        bonus = 0.0 if is_hard else (5 - len(failing)) / 5
        wrong += [] if same and format_bonus(checks) == bonus else [(text, failed)]
    assert not wrong


def test_claims_keep_their_place_and_ids_and_sentences_outside_them_are_found_but_no_joining_words():
    text = '<answer>So <snippet id="S2, S1,S2"> up  </snippet> and <snippet id=S1>up</snippet></answer>'
    first, second = claims = parse_answer(text).claims
    assert [(each.text, each.ids) for each in claims] == [("up", ("S2", "S1")), ("up", ("S1",))]
    assert first.start != second.start and all(text[each.start : each.end] == "up" for each in claims)
    text = (
        "<answer>In liver it falls, e.g. by 1.9. However, <snippet id=S1>a</snippet> and"
        " <snippet id=S2>b</snippet>.\nMore work, cf. Lee et al. 2020, is needed!</answer>"
    )
    outside = ["In liver it falls, e.g. by 1.9.", "More work, cf. Lee et al. 2020, is needed!"]
    assert [each.text for each in parse_answer(text).uncited] == outside


def test_a_reasoning_block_is_left_out_only_where_its_tag_is_named():
    text = f"<think>maybe <answer>no</answer></think> {GOOD}"
    assert not parse_answer(text).has_single_answer
    named = parse_answer(text, ("think",))
    assert named.has_single_answer and named.has_nothing_outside
    assert text[named.claims[0].start :].startswith("OXPHOS")


def test_an_answer_without_a_claim_is_right_where_the_evidence_holds_none():
    unanswerable = record(answerable=False)
    assert prepared("<answer>The evidence does not say.</answer>", unanswerable).bonus == 1.0


@given(PARTS)
@settings(max_examples=60)
def test_every_answer_of_the_grammar_is_read_back_claim_by_claim(parts):
    text = written(parts)
    reading = parse_answer(text)
    spans = [part for part in parts if not isinstance(part, str)]
    assert reading.is_wellformed
    assert [claim.ids for claim in reading.claims] == [tuple(dict.fromkeys(ids)) for ids, _ in spans]
    assert all(text[part.start : part.end] == part.text for part in (*reading.claims, *reading.uncited))


@given(st.text(alphabet="<>/answer snippet id=S1,\"' ", max_size=200))
@settings(max_examples=150)
def test_no_text_makes_the_reader_fail(text):
    assert 0.0 <= prepared(text).bonus <= 1.0


def test_time_grows_with_the_length_of_a_hostile_text_and_no_faster():
    slow = []
    for piece in ("<snippet id=", "<answer>", "id=S1 ", "< snippet", " " * 8, "<snippet id=S1 "):
        texts = [f"<answer><snippet id=S1{piece * times}!>a</snippet></answer>" for times in (2_500, 20_000)]
        short, long = (min(seconds(partial(parse_answer, text)) for _ in range(3)) for text in texts)
        slow += [] if long < 8 * 4 * short + 0.02 else [(piece, short, long)]
    assert not slow


# ---- questions and records of the bank ------------------------------------------------------------


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
