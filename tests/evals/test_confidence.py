"""The confidence that an answer states, in the forms people and models write it."""

import pytest

from evals.confidence import WORDS, read_confidence

STATED = [
    ("Confidence: 80%", 0.80),
    ("It is down.\nConfidence: 80 %", 0.80),
    ("Confidence: 0.8", 0.80),
    ("confidence = .8", 0.80),
    ("Confidence: 95.5%", 0.955),
    ("I'm 95,5 % sure", 0.955),
    ("I am 80% confident that it falls.", 0.80),
    ("I am between 70% and 80% sure", 0.75),
    ("My confidence in this answer is 75%.", 0.75),
    ("**Confidence:** 80%", 0.80),
    ("**Confidence: 80%**", 0.80),
    ("| Confidence | 80% |", 0.80),
    ("Confidence: <80%>", 0.80),
    ("Confidence: ~80%", 0.80),
    ("Confidence: about 80 percent", 0.80),
    ("Confidence:\n80%", 0.80),
    ("Confidence: 70–80 %", 0.75),
    ("Confidence: 8/10", 0.80),
    ("Confidence: 85 out of 100", 0.85),
    ("Confidence (padj 0.05): 80%", 0.80),
    ("Confidence: 80", 0.80),
    ("Confidence: 1", 1.0),
    ("Confidence: 1%", 0.01),
    ("Confidence: 0%", 0.0),
    ("Confidence: 100%", 1.0),
    ("Certainty: 60%", 0.60),
    ("Confidence: 80%\nConfidence: 80%", 0.80),
    ("Ｃonfidence: ８０％", 0.80),
    ("Confi\u200bdence: 8\u200b0%", 0.80),
    ("Confidence: high", WORDS["high"]),
    ("Confidence level: **high**", WORDS["high"]),
    ("with very low confidence", WORDS["very low"]),
    ("I am moderately confident", WORDS["medium"]),
    ("Confidence: high (90%)", 0.90),
    ("I have high confidence.\nConfidence: 90%", 0.90),
    ("The 95% confidence interval is wide.\nConfidence: 60%", 0.60),
]
MISSING = [
    "",
    "padj 0.05",
    "Significant (padj < 0.05), stated with confidence.",
    "The 95% confidence interval is 0.2 to 0.8.",
    "Significant at the 95% confidence level.",
    "The probability 0.05 was the threshold.",
    "80% of genes fall.",
    "Confidence: N%",
    "Confidence:",
    "My confidence that 3 missions agree",
    "I am not very confident",
    "It is certain and must be so.",
]
INVALID = [
    "Confidence: 140%",
    "Confidence: -5%",
    "Confidence: 5",
    "Confidence: 80% or 20%",
    "Confidence: 80%\nConfidence: 20%",
    "Confidence: 80%\nI am 100% sure.",
    "I have high confidence.\nConfidence: 20%",
    "Confidence: 99999999999999999999%",
    "Confidence: 12/10",
]


@pytest.mark.parametrize(("text", "value"), STATED)
def test_a_stated_confidence_is_read_in_any_usual_form(text: str, value: float) -> None:
    found = read_confidence(text)
    assert (found.status, found.value) == ("stated", pytest.approx(value))


@pytest.mark.parametrize("text", MISSING)
def test_a_confidence_is_never_guessed(text: str) -> None:
    found = read_confidence(text)
    assert (found.status, found.value, found.quote) == ("missing", None, None)


@pytest.mark.parametrize("text", INVALID)
def test_an_impossible_or_contradictory_confidence_has_no_value(text: str) -> None:
    found = read_confidence(text)
    assert (found.status, found.value) == ("invalid", None)
    assert found.quote


def test_the_quote_is_what_the_answer_says() -> None:
    assert read_confidence("Down. Confidence: 80%, I think.").quote == "Confidence: 80%"
