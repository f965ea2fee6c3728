"""The confidence that an answer states, in the forms people and models write it."""

import pytest

from evals.confidence import LEVELS, read_confidence

VERY_HIGH, HIGH, RATHER_HIGH, MEDIUM, RATHER_LOW, LOW, VERY_LOW = (level.value for level in LEVELS)

STATED = [
    # numbers after a label
    ("Confidence: 80%", 0.80),
    ("It is down.\nConfidence: 80 %", 0.80),
    ("Confidence: 80 percent", 0.80),
    ("Confidence: 80 per cent.", 0.80),
    ("Confidence: 80\\%", 0.80),
    ("Confidence: 0.8", 0.80),
    ("Confidence: 0.8.", 0.80),
    ("confidence = .8", 0.80),
    ("confidence=0.8", 0.80),
    ("Confidence: 0,8", 0.80),
    ("Confidence: 95.5%", 0.955),
    ("Confidence: 95,5 %", 0.955),
    ("Confidence: 80", 0.80),
    ("Confidence: 1", 1.0),
    ("Confidence: 1.0", 1.0),
    ("Confidence: 1%", 0.01),
    ("Confidence: 0.5%", 0.005),
    ("Confidence: 0%", 0.0),
    ("Confidence: 0", 0.0),
    ("Confidence: 100%", 1.0),
    ("Confidence 80%", 0.80),
    ("CONFIDENCE: 80%!", 0.80),
    ("Confidence — 85%", 0.85),
    ("Confidence – 85%", 0.85),
    ("Confidence - 85%", 0.85),
    ("Confidence -> 85%", 0.85),
    ("Confidence → 85%", 0.85),
    ("Confidence:\n80%", 0.80),
    ("### Confidence\n\n80%", 0.80),
    ("Confidence:\n- 80%", 0.80),
    ("Overall confidence: 80%", 0.80),
    ("Confidence level: 80%", 0.80),
    ("Confidence score: 0.85", 0.85),
    ("Confidence rating: 8/10", 0.80),
    ("Final answer: down. Confidence: 80%, I think.", 0.80),
    ("Certainty: 60%", 0.60),
    ("Probability that this is correct: 70%", 0.70),
    # labels with marks around them
    ("**Confidence:** 80%", 0.80),
    ("**Confidence: 80%**", 0.80),
    ("**Confidence**: **80%**", 0.80),
    ("Confidence: **5**%", 0.05),
    ("__Confidence__: 80%", 0.80),
    ("_Confidence_: 80%", 0.80),
    ("`Confidence: 80%`", 0.80),
    ("- Confidence: 80%", 0.80),
    ("> Confidence: 80%", 0.80),
    ("(Confidence: 80%)", 0.80),
    ("[Confidence: 80%]", 0.80),
    ('{"direction": "DOWN", "confidence": 0.8}', 0.80),
    ("<confidence>80</confidence>", 0.80),
    ("Confidence: <80%>", 0.80),
    ("Confidence: [80%]", 0.80),
    ("$\\text{Confidence: } 80\\%$", 0.80),
    ("| Confidence | 80% |", 0.80),
    ("| **Confidence** | **80 %** |", 0.80),
    ("| Direction | Confidence |\n|---|---|\n| down | 80% |", 0.80),
    ("| Confidence | Direction |\n| :-- | --: |\n| high | down |", HIGH),
    # what stands beside the number
    ("Confidence: ~80%", 0.80),
    ("Confidence: ≈80%", 0.80),
    ("Confidence: about 80 percent", 0.80),
    ("Confidence: approximately 80%", 0.80),
    ("Confidence: >90%", 0.90),
    ("Confidence: at least 90%", 0.90),
    ("Confidence: ≥ 90%", 0.90),
    ("Confidence: 80% ± 5%", 0.80),
    ("Confidence: 80% (2 of 3 missions)", 0.80),
    ("Confidence: 80% and 2 missions agree", 0.80),
    ("Confidence: 0.8 - 3 missions agree", 0.80),
    ("Confidence (padj 0.05): 80%", 0.80),
    ("confidence (0-1): 0.9", 0.90),
    ("Confidence (0-100): 9", 0.09),
    ("Confidence (0-10): 9", 0.90),
    ("Confidence (%): 5", 0.05),
    ("Confidence (1 to 5): 4", 0.80),
    ("Confidence: 0.80 (80%)", 0.80),
    # sentences
    ("I am 80% confident that it falls.", 0.80),
    ("I'm 95,5 % sure", 0.955),
    ("~90% sure", 0.90),
    ("I am about 90% certain of this.", 0.90),
    ("I am 0.9 confident", 0.90),
    ("I am eighty percent confident.", 0.80),
    ("I am ninety-five percent sure.", 0.95),
    ("I am one hundred percent certain.", 1.0),
    ("Eight out of ten sure.", 0.80),
    ("with 80% confidence", 0.80),
    ("with a confidence of 80%", 0.80),
    ("with a confidence of around 0.8", 0.80),
    ("with an 80% degree of certainty", 0.80),
    ("My confidence in this answer is 75%.", 0.75),
    ("My confidence is 0.75.", 0.75),
    ("My confidence that it is down would be 75%", 0.75),
    ("I would estimate my confidence to be 70%.", 0.70),
    ("I'd put my confidence at 70%.", 0.70),
    ("Confidence in the direction: 70%", 0.70),
    ("I am fairly confident (80%).", 0.80),
    ("I am confident: 85%.", 0.85),
    # ranges count as their middle
    ("Confidence: 70–80 %", 0.75),
    ("Confidence: 70-80%", 0.75),
    ("Confidence: 70% - 80%", 0.75),
    ("Confidence: 70% to 80%", 0.75),
    ("Confidence: 70-80", 0.75),
    ("Confidence: 0.7-0.8", 0.75),
    ("Confidence: 0.7 to 0.8", 0.75),
    ("Confidence: between 70 and 80%", 0.75),
    ("I am between 70% and 80% sure", 0.75),
    ("I am 70-80% sure.", 0.75),
    # other scales, and numbers in words
    ("Confidence: 8/10", 0.80),
    ("Confidence: 8 / 10", 0.80),
    ("Confidence: 8.5/10", 0.85),
    ("Confidence: 4/5", 0.80),
    ("Confidence: 85/100", 0.85),
    ("Confidence: 85 out of 100", 0.85),
    ("Confidence: four out of five", 0.80),
    ("Confidence: nine in ten", 0.90),
    ("Confidence: eighty percent", 0.80),
    ("Confidence: 50/50", 0.50),
    ("Confidence: fifty-fifty", 0.50),
    ("Confidence: 8 (out of 10)", 0.80),
    ("Confidence: 8 on a scale of 1 to 10", 0.80),
    ("On a scale of 1-10, my confidence is 8.", 0.80),
    ("Confidence: 80%/100%", 0.80),
    ("Confidence: ninety", 0.90),
    ("Confidence: $80\\%$", 0.80),
    ("Confidence: 80~90%", 0.85),
    ("Confidence: somewhere between 70 and 80 percent", 0.75),
    ("Confidence: 0,800", 0.80),
    ("I am very confident in this answer (95%).", 0.95),
    ("Certain: 90%", 0.90),
    # words
    ("Confidence low.", LOW),
    ("Confidence: high", HIGH),
    ("Confidence: **high**", HIGH),
    ("Confidence level: **high**", HIGH),
    ("Confidence Level - High", HIGH),
    ("Confidence is high.", HIGH),
    ("My confidence in this answer is very high", VERY_HIGH),
    ("Confidence: medium", MEDIUM),
    ("Confidence: Moderate.", MEDIUM),
    ("Confidence: medium-high", RATHER_HIGH),
    ("Confidence: moderate to high", RATHER_HIGH),
    ("Confidence: fairly low", RATHER_LOW),
    ("with low confidence", LOW),
    ("with very low confidence", VERY_LOW),
    ("with a high degree of confidence", HIGH),
    ("I am highly confident", HIGH),
    ("I am moderately confident", MEDIUM),
    ("I am fairly sure", RATHER_HIGH),
    ("I am absolutely certain.", VERY_HIGH),
    ("Confidence: high (90%)", 0.90),
    ("Confidence: High, 85%", 0.85),
    ("Confidence: 85% (high)", 0.85),
    ("Confidence: high (0.85)", 0.85),
    # repeated, and written in odd characters
    ("Confidence: 80%\nConfidence: 80%", 0.80),
    ("I am 80% sure.\nConfidence: 0.8", 0.80),
    ("I have high confidence.\nConfidence: 90%", 0.90),
    ("Ｃonfidence： ８０％", 0.80),
    ("Confi\u200bdence: 8\u200b0%", 0.80),
    ("Conﬁdence: 80%", 0.80),
    ("Confidence:\u00a080\u202f%", 0.80),
    # beside what is none
    ("The 95% confidence interval is wide.\nConfidence: 60%", 0.60),
    ("padj 0.05 was the threshold.\nConfidence: 60%", 0.60),
    ("I cannot be 100% sure.\nConfidence: 60%", 0.60),
    ("The RR-3 data are of low confidence.\nConfidence: 60%", 0.60),
]


@pytest.mark.parametrize(("text", "value"), STATED)
def test_a_stated_confidence_is_read_in_any_usual_form(text: str, value: float) -> None:
    found = read_confidence(text)
    assert (found.status, found.value) == ("stated", pytest.approx(value))


def test_the_quote_is_what_the_answer_says() -> None:
    assert read_confidence("Down. **Confidence:** 80%, I think.").quote == "Confidence:** 80%"
    assert read_confidence("Confidence: **5**%").quote == "Confidence: **5**%"


@pytest.mark.parametrize(("text", "value"), STATED)
def test_a_statement_is_read_the_same_within_a_longer_answer(text: str, value: float) -> None:
    whole = f"Adipogenesis falls in 3 of 3 missions (NES -2.1, padj 0.01).\n\n{text}\n\nThat is all."
    assert read_confidence(whole).value == pytest.approx(value)


def test_each_level_lies_in_its_own_band_and_no_word_has_two() -> None:
    words = [word for level in LEVELS for word in (*level.adjectives, *level.adverbs)]
    assert len(words) == len(set(words))
    assert all(level.lowest <= level.value <= level.highest for level in LEVELS)
    assert [level.value for level in LEVELS] == sorted((each.value for each in LEVELS), reverse=True)
