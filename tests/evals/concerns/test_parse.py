"""What a model wrote about a paper is read as a person would read it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.review.parse import parse
from tests.evals.concerns.mutations import lost, mutated

A = '{"text": "The sample is too small.", "category": "design_flaw", "severity": "major"}'
B = '{"text": "No correction for tests.", "category": "interpretation", "severity": "minor"}'
C = '{"text": "The claim is not new.", "category": "prior_art_novelty", "severity": "optional"}'
TEXTS = ["The sample is too small.", "No correction for tests.", "The claim is not new."]
ODD = '{"text": "The "control" arm, which is odd.", "category": "other", "severity": "minor"}'
OPEN = '{"text": "The closing quote is lost, "category": "other", "severity": "minor"}'

READ = {
    "clean": (f"[{A}, {B}]", 2),
    "fenced": (f"```json\n[{A}, {B}]\n```", 2),
    "fence left open": (f"```json\n[{A}, {B}]", 2),
    "prose around": (f"Here [sic] you are:\n[{A}, {B}]\nHope it helps [1].", 2),
    "trailing comma": (f"[{A}, {B},]", 2),
    "comma left out": (f"[{A} {B}]", 2),
    "JSON lines": (f"{A}\n{B}", 2),
    "no brackets": (f"{A}, {B}", 2),
    "closed but not opened": (f"{A}, {B}]", 2),
    "wrapper": (f'{{"concerns": [{A}, {B}]}}', 2),
    "byte order mark": (f"\ufeff[{A}, {B}]", 2),
    "note after it": (f"[{A}, {B}] [end of review]", 2),
    "reasoning with brackets": (f'<think>the [n] {{x}} ["a b c"]</think>[{A}, {B}]', 2),
    "reasoning only closed": (f"perhaps [{C}]\n</think>\n[{A}, {B}]", 2),
    "citations before it": (f"As in [12] and [3, 4]:\n[{A}, {B}]", 2),
    "single quotes": (f"[{A}, {B}]".replace('"', "'"), 2),
    "curly quotes": (f"[{A}, {B}]".replace('"text"', "“text”"), 2),
    "nested arrays": (f"[[{A}], [{B}]]", 2),
    "unquoted keys": (f"[{A}, {B}]".replace('"text"', "text"), 2),
    "comments": (f"[{A}, // first\n /* second */ {B}]", 2),
    "JSON in a string": (json.dumps(f"[{A}, {B}]"), 2),
    "two lists": (f"Major:\n[{A}]\nMinor:\n[{B}]", 2),
    "a draft before the answer": (f"Draft: [{A}, {C}]\nFinal answer: [{A}, {B}]", 2),
    "brace lost": (f"[{A}, {B[1:]}, {C}]", 3),
    "closing brace lost": (f"[{A[:-1]}, {B}, {C}]", 3),
    "both braces lost": (f"[{A[:-1]}, {B[1:]}, {C}]", 3),
    "numbered prose": (f"I see:\n1. {TEXTS[0]}\n2. {TEXTS[1]}\n\nBest wishes", 2),
    "bullets with labels": (
        f"## Major\n- **Design flaw:** {TEXTS[0]}\n## Minor\n* {TEXTS[1]} [interpretation]",
        2,
    ),
    "table": (f"| text | severity |\n|---|---|\n| {TEXTS[0]} | major |\n| {TEXTS[1]} | minor |", 2),
    "keys in bullets": (f"- text: {TEXTS[0]}\n  severity: major\n- text: {TEXTS[1]}\n", 2),
    "strings": (json.dumps(TEXTS), 3),
    "labels as keys": (
        json.dumps({"major": [TEXTS[0]], "minor": [TEXTS[1]], "summary": "x y z"}),
        2,
    ),
    "strings with labels": (f'[["{TEXTS[0]}", "design_flaw"], ["{TEXTS[1]}", "minor"]]', 2),
}


@pytest.mark.parametrize("case", READ)
def test_every_concern_is_found_word_for_word(case: str) -> None:
    raw, n = READ[case]
    found = parse("a", raw)
    assert [concern.text for concern in found.concerns] == TEXTS[:n]
    assert found.status == "ok"


MIDDLE = {
    "bare quotes": (f"[{A}, {ODD}, {B}]", 'The "control" arm, which is odd.'),
    "closing quote lost": (f"[{A}, {OPEN}, {B}]", "The closing quote is lost"),
    "raw newline": (f"[{A}, {C}, {B}]".replace("claim is", "claim\nis"), "The claim\nis not new."),
    "colon lost": (f"[{A}, {C}, {B}]".replace('"text": "The c', '"text" "The c'), TEXTS[2]),
    "key misspelt": (f"[{A}, {C}, {B}]".replace('"text": "The c', '"tekst": "The c'), TEXTS[2]),
}


@pytest.mark.parametrize("case", MIDDLE)
def test_a_bad_item_in_the_middle_costs_neither_itself_nor_what_follows(case: str) -> None:
    raw, middle = MIDDLE[case]
    assert [each.text for each in parse("a", raw).concerns] == [TEXTS[0], middle, TEXTS[1]]


STATUS = {
    "an empty array": ("[]", "empty"),
    "an empty fence": ("```json\n[]\n```", "empty"),
    "an empty wrapper": ('{"concerns": []}', "empty"),
    "a sentence": ("No concerns.", "empty"),
    "nothing": ("", "failed"),
    "only blanks": (" \n", "failed"),
    "no output": (None, "failed"),
    "a refusal": ("I am sorry, I cannot review this paper.", "failed"),
    "only a null text": ('[{"text": null, "severity": "minor"}]', "failed"),
    "a null text among others": (f'[{{"text": null, "severity": "minor"}}, {A}]', "partial"),
    "cut in the second": (f"[{A}, {B[:20]}", "partial"),
    "cut after the second": (f"[{A}, {B}", "partial"),
    "reasoning that never ends": (f"<think>perhaps [{A}]", "partial"),
}


@pytest.mark.parametrize("case", STATUS)
def test_the_status_tells_none_from_some_from_unreadable(case: str) -> None:
    raw, status = STATUS[case]
    assert parse("a", raw).status == status


def test_a_text_of_null_is_no_concern_that_reads_none() -> None:
    found = parse("a", f'[{{"text": null, "severity": "minor"}}, {{"text": "None"}}, {A}]')
    assert [concern.text for concern in found.concerns] == TEXTS[:1]
    assert found.problems == ("concern 1 has no text", "concern 2 has no text")


def test_labels_are_repaired_by_the_table_and_unknown_ones_are_marked() -> None:
    found = parse(
        "a",
        '[{"text": "One is here.", "category": "Statoretical methodology", "severity": "CRITICAL"},'
        ' {"text": "Two is here.", "category": "ethics", "severity": "minor"}]',
    )
    first, second = found.concerns
    assert (first.category, first.severity) == ("statistical_methodology", "major")
    assert (second.category, second.severity) == ("unknown", "minor")
    assert found.problems == ("concern 2: unknown category 'ethics'",)


def test_a_long_text_that_the_output_ends_in_is_kept_and_named() -> None:
    found = parse("a", f'[{A}, {{"text": "The mice were all male and nobody')
    assert found.concerns[1].text == "The mice were all male and nobody"
    assert "concern 2 is cut off" in found.problems


SAID = st.text(min_size=3, max_size=60).filter(lambda text: sum(map(str.isalpha, text)) > 2)


@given(st.lists(SAID, min_size=1, max_size=6, unique_by=lambda text: text.strip()))
def test_valid_json_is_read_exactly(texts: list[str]) -> None:
    raw = json.dumps([{"text": text, "category": "other", "severity": "minor"} for text in texts])
    wanted = [text.strip() for text in texts if text.strip().lower() not in ("none", "null", "nan")]
    assert [concern.text for concern in parse("a", raw).concerns] == wanted


@given(st.text(alphabet="[]{}\",:'`\\ntexcagory1 \n<>/", max_size=300))
def test_no_output_raises(raw: str) -> None:
    assert parse("a", raw).status in ("ok", "empty", "partial", "failed")


DEEP = [each * 5_000 for each in ("[", '["', '{"text": ', "<think>", "[1,", '{"text": "a b c" ')]


@pytest.mark.parametrize("raw", DEEP, ids=lambda raw: raw[:9])
def test_hostile_outputs_are_answered_in_bounded_time(raw: str) -> None:
    import time

    started = time.process_time()
    parse("a", raw)
    assert time.process_time() - started < 5


def test_five_hundred_damaged_outputs_lose_nothing_that_a_person_would_find() -> None:
    gone = {seed: missing for seed in range(500) if (missing := lost(mutated(seed)))}
    assert gone == {}
