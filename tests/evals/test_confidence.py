"""The confidence that an answer states: `cases/confidence.yaml`, any share in any form, any text at all."""

import time
from itertools import product
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from evals.confidence import LEVELS, read_confidence, statements

CASES = yaml.safe_load((Path(__file__).parent / "cases" / "confidence.yaml").read_text(encoding="utf-8"))
STATED = [(text, value) for value, texts in CASES["stated"].items() for text in texts]
FORMS = (
    *("Confidence: {n}%", "Confidence: {n} %", "Confidence: {n} percent", "Confidence: {share}"),
    *("Confidence: {n}/100", "Confidence: {n} out of 100", "**Confidence:** {n}%.", "| Confidence | {n}% |"),
    *("I am {n}% confident that it falls.", "I am {n} % sure.", "with {n}% certainty"),
    *("with a confidence of {share}", "Confidence: {n}-{n}%"),
)
PIECES = (
    *("confidence", "confident", "certainty", "sure", "certain", "probability", "high", "very low", "medium-high"),
    *("fairly", "not", "if", "80%", "0.8", "80", "-5%", "8/10", "out of", "ten", "eighty", "percent", "50/50"),
    *("between", "and", "or", "to", "is", "of", "in RR-3 data", "interval", "<!--", "-->", *"-:=|\n()[]\"'?.,±"),
    *("½", "²", "①", "🧬", "ΐ", "ﬃ", "９", "9" * 30, ".5", "1.5.2", "twenty-", "\x00"),
)
LONG = (
    *("confidence: 80% ", "confidence ", "confidence\n", "| confidence ", "sure sure ", "<!-- confidence: 1 --> "),
    *("<!-- confidence ", "not 9 sure ", "between 1 and ", "confidence of a ", "high confidence (", "confidence ("),
    *("1-", "\n", "certain? "),
)


def test_every_stated_confidence_is_read_alone_and_within_a_longer_answer() -> None:
    around = "Adipogenesis falls in 3 of 3 missions (NES -2.1, padj 0.01).\n\n{}\n\nThat is all."
    forms = [(form.format(n=n, share=f"{n / 100:.2f}"), n / 100) for form, n in product(FORMS, range(101))]
    asked = [*STATED, *((around.format(text), value) for text, value in STATED), *forms]
    found = [(text, value, read_confidence(text)) for text, value in asked]
    wrong = [row for row in found if (row[2].status, row[2].value) != ("stated", pytest.approx(row[1], abs=1e-4))]
    assert not wrong, "\n".join(map(str, wrong))


def test_a_confidence_is_never_guessed_and_an_impossible_or_contradictory_one_has_no_value() -> None:
    found = {name: [(text, read_confidence(text)) for text in CASES[name]] for name in CASES if name != "stated"}
    wrong = [
        row for row in found["missing"] if row[1].model_dump() != {"status": "missing", "value": None, "quote": None}
    ]
    wrong += [(text, it) for text, it in found["invalid"] if (it.status, it.value) != ("invalid", None) or not it.quote]
    wrong += [row for row in found["not_stated"] if row[1].status == "stated"]
    assert not wrong, "\n".join(map(str, wrong))


def test_the_quote_is_what_the_answer_says() -> None:
    assert read_confidence("Down. **Confidence:** 80%, I think.").quote == "Confidence:** 80%"
    assert read_confidence("Confidence: **5**%").quote == "Confidence: **5**%"


def test_each_level_lies_in_its_own_band_and_no_word_has_two() -> None:
    words = [word for level in LEVELS for word in (*level.adjectives, *level.adverbs)]
    assert len(words) == len(set(words))
    assert all(level.lowest <= level.value <= level.highest for level in LEVELS)
    assert [level.value for level in LEVELS] == sorted((each.value for each in LEVELS), reverse=True)


@settings(max_examples=100)
@given(st.lists(st.sampled_from(PIECES), max_size=14), st.sampled_from(("", " ")))
def test_any_text_has_a_confidence_in_range_or_none(pieces: list[str], blank: str) -> None:
    text = blank.join(pieces)
    found = read_confidence(text)
    assert (found.value is not None) == (found.status == "stated")
    assert found.value is None or 0.0 <= found.value <= 1.0
    assert (found.quote is not None and found.quote in text) == (found.status != "missing")


def test_the_time_to_look_for_a_confidence_grows_with_the_length_only() -> None:
    def seconds(piece: str, n: int) -> float:
        page = piece * (n // len(piece))
        begin = time.process_time()
        statements(page)
        return time.process_time() - begin

    slow = []
    for piece in LONG:
        seconds(piece, 1_000)
        short, long = (min(seconds(piece, n) for _ in range(2)) for n in (2_000, 16_000))
        slow += [] if long < 8 * 3 * short + 0.01 else [(piece, short, long)]
    assert not slow
