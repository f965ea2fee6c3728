"""What is read: records and their evidence, the claims of an answer and its form; tables in `cases/refiner.yaml`."""

import json
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evals.errors import BadConfig, BadRow
from evals.refine.cases import read_records, records_jsonl, records_sha256, split_by_group
from evals.refine.grammar import evidence_of, format_bonus, parse_answer
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
