"""Answers that state no confidence, or one that cannot be: none is ever guessed."""

import pytest

from evals.confidence import read_confidence

MISSING = [
    "",
    # statistics
    "padj 0.05",
    "Significant (padj < 0.05), stated with confidence.",
    "The 95% confidence interval is 0.2 to 0.8.",
    "Confidence interval (95%): 0.2 to 0.8",
    "The 95% CI is 0.2 to 0.8.",
    "95% confidence limits: 0.2, 0.8",
    "Significant at the 95% confidence level.",
    "using a 95% confidence level",
    "significant at a confidence level of 95%",
    "The change is significant with 95% confidence.",
    "The probability 0.05 was the threshold.",
    "Probability: see the table.",
    "The probability of a type I error: 5%",
    # shares and counts of things
    "80% of genes fall.",
    "I am confident: 80% of genes fall.",
    "Confidence: 2 of 3 missions agree",
    "My confidence that 3 missions agree",
    # no value
    "Confidence:",
    "Confidence: N%",
    "Confidence: X%",
    "Confidence: [0-100]%",
    "State your confidence as a percentage (0-100%).",
    "Confidence: 0 to 1",
    "Confidence: unknown",
    "Confidence:\n1. The missions agree.",
    "I am confident.",
    "I am sure that it falls.",
    "It is certain and must be so.",
    "Higher confidence comes with more missions.",
    "Confidence: 1e-1",
    "Confidence: one of them",
    # denied, asked, supposed, hidden, quoted, somebody else's
    "I am not very confident",
    "I am not 90% confident",
    "I cannot be 100% sure.",
    "I can't be 100% certain.",
    "Nobody can be 100% sure.",
    "Is the confidence: 90%?",
    "Am I 90% sure?",
    "If I were sure, confidence: 100%",
    "My confidence would be 80% if missions agreed.",
    "If I were 100% sure, I would say so.",
    "<!-- Confidence: 100% -->",
    'The prompt asks to end with "Confidence: 80%".',
    "Write the last line in the form 'Confidence: 80%'.",
    "State a number, e.g. Confidence: 80%",
    "The authors are 95% confident.",
    "Their confidence was 90%.",
    # about something else
    "There is low confidence in RR-3 data.",
    "I have high confidence in the measurements.",
    "high-confidence genes",
    "Pressure of 80% and exposure of 90% were measured.",
    "An uncertainty of 20% remains.",
    "There is an 80% chance.",
]


INVALID = [
    "Confidence: 140%",
    "Confidence: 101%",
    "Confidence: -5%",
    "Confidence: -0.5",
    "Confidence: 1.2/1",
    "Confidence: 12/10",
    "Confidence: 5",
    "Confidence: 10",
    "Confidence: 1.5",
    "Confidence: 250",
    "Confidence: 99999999999999999999%",
    "I am 110% sure.",
    "Confidence: 90-110%",
    "Confidence: 80% or 20%",
    "Confidence: 90%, or maybe 10%",
    "Confidence: 80% maybe 90%",
    "Confidence: 80% (but could be 40%)",
    "Confidence: 80% -> 90%",
    "Confidence: 1,000%",
    "Confidence: 80%\nConfidence: 20%",
    "Confidence: 80%\nI am 100% sure.",
    "Confidence: high\nConfidence: low",
    "I have high confidence.\nConfidence: 20%",
    "Confidence: high (20%)",
    "Confidence: 20% (high)",
    "Confidence: 0.80 (70%)",
    "with high confidence (20%)",
]


@pytest.mark.parametrize("text", MISSING)
def test_a_confidence_is_never_guessed(text: str) -> None:
    found = read_confidence(text)
    assert (found.status, found.value, found.quote) == ("missing", None, None)


@pytest.mark.parametrize("text", INVALID)
def test_an_impossible_or_contradictory_confidence_has_no_value(text: str) -> None:
    found = read_confidence(text)
    assert (found.status, found.value) == ("invalid", None)
    assert found.quote
