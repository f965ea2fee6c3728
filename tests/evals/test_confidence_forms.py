"""Any share in any form, any text at all, and the time it takes."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evals.confidence import read_confidence, statements

FORMS = (
    "Confidence: {n}%",
    "Confidence: {n} %",
    "Confidence: {n} percent",
    "Confidence: {share}",
    "Confidence: {n}/100",
    "Confidence: {n} out of 100",
    "**Confidence:** {n}%.",
    "| Confidence | {n}% |",
    "I am {n}% confident that it falls.",
    "I am {n} % sure.",
    "with {n}% certainty",
    "with a confidence of {share}",
    "Confidence: {n}-{n}%",
)


@pytest.mark.parametrize("form", FORMS)
def test_every_share_is_read_the_same_in_every_form(form: str) -> None:
    for n in range(101):
        text = form.format(n=n, share=f"{n / 100:.2f}")
        assert read_confidence(text).value == pytest.approx(n / 100), text


PIECES = (
    *("confidence", "confident", "certainty", "sure", "certain", "probability", "high", "very low"),
    *("medium-high", "fairly", "not", "if", "80%", "0.8", "80", "-5%", "8/10", "out of", "ten"),
    *(
        "eighty",
        "percent",
        "50/50",
        "between",
        "and",
        "or",
        "to",
        "-",
        ":",
        "=",
        "|",
        "\n",
        "(",
        ")",
    ),
    *(
        "[",
        "]",
        '"',
        "'",
        "?",
        ".",
        ",",
        "<!--",
        "-->",
        "is",
        "of",
        "in RR-3 data",
        "interval",
        "±",
    ),
    *("½", "²", "①", "🧬", "ΐ", "ﬃ", "９", "9" * 30, ".5", "1.5.2", "twenty-", "\x00"),
)


@settings(max_examples=500, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=14), st.sampled_from(("", " ")))
def test_any_text_has_a_confidence_in_range_or_none(pieces: list[str], blank: str) -> None:
    text = blank.join(pieces)
    found = read_confidence(text)
    assert (found.value is not None) == (found.status == "stated")
    assert found.value is None or 0.0 <= found.value <= 1.0
    assert (found.quote is not None and found.quote in text) == (found.status != "missing")


@pytest.mark.parametrize(
    "piece",
    [
        "confidence: 80% ",
        "confidence ",
        "confidence\n",
        "| confidence ",
        "sure sure ",
        "<!-- confidence: 1 --> ",
        "<!-- confidence ",
        "not 9 sure ",
        "between 1 and ",
        "confidence of a ",
        "high confidence (",
        "confidence (",
        "1-",
        "\n",
        "certain? ",
    ],
)
def test_the_time_to_look_for_a_confidence_grows_with_the_length_only(piece: str) -> None:
    def seconds(n: int) -> float:
        page = piece * (n // len(piece))
        begin = time.process_time()
        statements(page)
        return time.process_time() - begin

    seconds(8_000)
    short = min(seconds(16_000) for _ in range(3))
    long = min(seconds(128_000) for _ in range(3))
    assert long < 8 * 3 * short + 0.01


IN_WORDS = (
    ("Confidence: low-to-moderate", 0.45),
    ("Confidence: low to moderate", 0.45),
    ("Confidence: low-to-medium.", 0.45),
    ("Confidence: moderate-to-high", 0.70),
    ("Confidence: medium-to-high", 0.70),
    ("Confidence: medium to high", 0.70),
    ("Confidence: very-high", 0.95),
    ("I answer with low-to-moderate confidence.", 0.45),
    ("Confidence: half", 0.5),
    ("Confidence: about half.", 0.5),
    ("Confidence: one half", 0.5),
    ("Confidence: three quarters", 0.75),
    ("Confidence: three-quarters", 0.75),
    ("Confidence: **three quarters**", 0.75),
    ("My confidence is two thirds.", 2 / 3),
    ("Confidence: a quarter", 0.25),
    ("Confidence: one third", 1 / 3),
    ("I am three quarters sure.", 0.75),
    ("I am two-thirds confident.", 2 / 3),
)
NO_FRACTIONS = (
    "Confidence: half of the missions agree",
    "Confidence: half the missions agree",
    "Confidence: half right",
    "Confidence: three quarters of the genes",
    "Confidence: a third mission disagrees",
    "Confidence in half of it.",
    "I am not half sure.",
)


@pytest.mark.parametrize(("text", "value"), IN_WORDS)
def test_a_share_in_words_is_read_with_blanks_or_hyphens(text: str, value: float) -> None:
    assert read_confidence(text).value == pytest.approx(value)


@pytest.mark.parametrize("text", NO_FRACTIONS)
def test_a_fraction_of_things_is_no_confidence(text: str) -> None:
    assert read_confidence(text).status != "stated"
