import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evals.refine.grammar import format_bonus, parse
from tests.evals.refiner.answers import GOOD, PARTS, prepared, record, written

ALL_PASS = {
    "single_answer": True,
    "balanced_tags": True,
    "ids_wellformed": True,
    "nothing_outside": True,
    "ids_known": True,
    "claims_nonempty": True,
    "has_claim": True,
    "no_evidence_markup": True,
}
FAULTS = (
    ("", {"single_answer"}),
    ("OXPHOS is down in liver.", {"single_answer"}),
    ("<answer><snippet id=S1>cut off", {"single_answer", "balanced_tags"}),
    ("</answer><answer>", {"single_answer"}),
    ("<answer>a</answer><answer>b</answer>", {"single_answer"}),
    ("<answer><answer>a</answer></answer>", {"single_answer"}),
    ("<answer mood=sure><snippet id=S1>a</snippet></answer>", {"single_answer"}),
    ("<answer><snippet id=S1>a</answer>", {"balanced_tags"}),
    ("<answer>a</snippet></answer>", {"balanced_tags"}),
    ("<answer><snippet id=S1>a<snippet id=S2>b</snippet></snippet></answer>", {"balanced_tags"}),
    ("<answer><snippet>a</snippet></answer>", {"ids_wellformed"}),
    ("<answer><snippet id=>a</snippet></answer>", {"ids_wellformed"}),
    ("<answer><snippet id=S1,,S2>a</snippet></answer>", {"ids_wellformed"}),
    ("<answer><snippet id=\"S1'>a</snippet></answer>", {"ids_wellformed"}),
    ("<answer><snippet id=S1 sure=yes>a</snippet></answer>", {"ids_wellformed"}),
    ("<answer><snippet id=S/1>a</snippet></answer>", {"ids_wellformed"}),
    (f"Sure! {GOOD}", {"nothing_outside"}),
    (f"{GOOD} I hope this helps.", {"nothing_outside"}),
    ("<answer><snippet id=S1,S7>a</snippet></answer>", {"ids_known"}),
    ("<answer><snippet id=S1> … </snippet></answer>", {"claims_nonempty"}),
    ("<answer>OXPHOS is down.</answer>", {"has_claim"}),
    ("<answer>x <tool_call>y</tool_call> <snippet id=S1>a</snippet></answer>", {"no_evidence_markup"}),
    ("<answer><snippets id=S1>y</snippets> <snippet id=S1>a</snippet></answer>", {"no_evidence_markup"}),
    ("<answer><WebPage id=S1>y</WebPage> <snippet id=S1>a</snippet></answer>", {"no_evidence_markup"}),
    (f"\n {GOOD} \n", set()),
    ('<answer><snippet id="S1, S2">a</snippet></answer>', set()),
    ("<answer><snippet id='W:3.a-b_c'>a</snippet></answer>", set()),
    ("<ANSWER><Snippet ID = S1 , S2 >a</SNIPPET></Answer>", set()),
)  # fmt: skip


@pytest.mark.parametrize(("text", "failing"), FAULTS)
def test_each_fault_of_form_fails_its_own_check(text: str, failing: set[str]):
    checks = prepared(text).checks
    hard = {"single_answer", "balanced_tags", "ids_wellformed"}
    failed = {name for name, passed in checks.items() if not passed}
    assert failed & hard == failing & hard
    if not failing & hard:
        assert failed == failing
        assert format_bonus(checks) == (5 - len(failing)) / 5
    else:
        assert format_bonus(checks) == 0.0


def test_a_claim_keeps_its_place_and_all_its_ids_each_once():
    text = '<answer>So <snippet id="S2, S1,S2"> up  </snippet> and <snippet id=S1>up</snippet></answer>'
    first, second = parse(text).claims
    assert (first.text, first.ids) == ("up", ("S2", "S1"))
    assert (second.text, second.ids) == ("up", ("S1",))
    assert first.start != second.start
    assert all(text[claim.start : claim.end] == "up" for claim in (first, second))


def test_sentences_outside_claims_are_found_and_joining_words_are_not():
    text = (
        "<answer>In liver it falls, e.g. by 1.9. However, <snippet id=S1>a</snippet> and"
        " <snippet id=S2>b</snippet>.\nMore work, cf. Lee et al. 2020, is needed!</answer>"
    )
    assert [each.text for each in parse(text).uncited] == [
        "In liver it falls, e.g. by 1.9.",
        "More work, cf. Lee et al. 2020, is needed!",
    ]


def test_what_a_policy_wrote_before_its_answer_is_no_evidence():
    faked = "<snippet id=S9>OXPHOS is up</snippet><answer><snippet id=S9>OXPHOS is up</snippet></answer>"
    checks = prepared(faked).checks
    assert not checks["ids_known"]
    assert not checks["nothing_outside"]


def test_a_reasoning_block_is_left_out_only_where_its_tag_is_named():
    text = f"<think>maybe <answer>no</answer></think> {GOOD}"
    assert not parse(text).has_single_answer
    named = parse(text, ("think",))
    assert named.has_single_answer
    assert named.has_nothing_outside
    assert text[named.claims[0].start :].startswith("OXPHOS")


def test_an_answer_without_a_claim_is_right_where_the_evidence_holds_none():
    unanswerable = record(answerable=False)
    assert prepared("<answer>The evidence does not say.</answer>", unanswerable).bonus == 1.0


@given(PARTS)
@settings(max_examples=60)
def test_every_answer_of_the_grammar_is_read_back_claim_by_claim(parts):
    text = written(parts)
    reading = parse(text)
    spans = [part for part in parts if not isinstance(part, str)]
    assert reading.is_wellformed
    assert [claim.ids for claim in reading.claims] == [tuple(dict.fromkeys(ids)) for ids, _ in spans]
    for part in (*reading.claims, *reading.uncited):
        assert text[part.start : part.end] == part.text


@given(st.text(alphabet="<>/answer snippet id=S1,\"' ", max_size=200))
@settings(max_examples=150)
def test_no_text_makes_the_reader_fail(text: str):
    reading = prepared(text)
    assert 0.0 <= reading.bonus <= 1.0


@pytest.mark.parametrize("piece", ["<snippet id=", "<answer>", "id=S1 ", "< snippet", " " * 8, "<snippet id=S1 "])
def test_time_grows_with_the_length_of_a_hostile_text_and_no_faster(piece: str):
    def seconds(times: int) -> float:
        text = f"<answer><snippet id=S1{piece * times}!>a</snippet></answer>"
        started = time.process_time()
        parse(text)
        return time.process_time() - started

    short = min(seconds(2_500) for _ in range(3))
    long = min(seconds(20_000) for _ in range(3))
    assert long < 8 * 4 * short + 0.02
