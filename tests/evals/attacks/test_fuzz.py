"""Any text gives a verdict: of any characters, in a time that grows with its length and no faster."""

import gc
import random
import statistics
import time
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evals.schema import Example, Verdict
from evals.verifiers import verify
from tests.evals.attacks.disguises import BOMBS, FILL
from tests.evals.attacks.policies import questions
from tests.evals.attacks.truths import capital, clause, falsehood, sentence

QUESTIONS = questions()
BY_KIND = {example.ground_truth.kind: example for example in QUESTIONS}
BOUNDED = settings(
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=250,
    suppress_health_check=[HealthCheck.too_slow],
)
SNIPPETS = (
    *("NES", "= ", "-1.9", "up", "down", "not ", "no ", "is ", "in thymus", "liver", "missions "),
    *("RR-6", "agree", "disagree", "Confidence:", "90%", "8,484", "8.5k", "DEGs", "type A", "yes"),
    *(". ", ", ", "; ", ": ", "\n", "? ", "(", ")", "[", "]", '"', "'", "-", "|", "*", "~", "`"),
    *("if ", "either ", "or ", "and ", "but ", "than ", "only ", "%", "<", ">", "±", "→", "…"),
    *("<!--", "-->", "\u200b", "\u202e", "\u0301", "\x00", "\ud800", "\U0001f600", "ﬁ", "İ", "ß"),
    *("adipogenesis ", "It ", "that is false", "one might think", "r = 0.6", "e.g. ", "p < 0.05"),
)
any_text = st.text(st.characters(exclude_categories=()), max_size=200)
crafted = st.lists(st.sampled_from(SNIPPETS), max_size=40).map("".join)
examples = st.sampled_from(QUESTIONS)
GROWTH_BOMBS = {
    **BOMBS,
    "sentences": FILL,
    "denied truths": "It is not true that it is up. ",
    "directions": "It is up in liver and down in thymus, and eye. ",
    "scores": "NES = -1.9, padj 0.01; ",
    "missions": "up in RR-6, down in RR-9, ",
    "numbers with blanks": "123 ",
    "figures": "1.",
    "thousands": "1,234 DEGs, ",
    "brackets": "[(",
    "comments": "<!-- ",
    "strikes": "~~",
    "quoted words": '"up" ',
    "long word": "x",
    "hyphenated words": "a-",
    "underscores": "a_",
    "marked confidences": "Confidence: (about ",
    "retractions": "That is false. ",
    "conditions": "if it is up, ",
    "other speakers": "He says that it is up, but ",
    "gene sets": "hypoxia and adipogenesis and ",
    "lone surrogates": "\ud800",
    "yes and no": "Yes. No. ",
    "table cells": "| up ",
    "than": "higher than ",
    "apostrophes": "isn't ",
}
SHORT, FACTOR = 6_000, 4


def is_sound(example: Example, text: str) -> Verdict:
    """Return the verdict, after checking that it is whole and that its claims quote the text."""
    verdict = verify(example, text)
    assert 0.0 <= verdict.reward <= 1.0
    for claim in verdict.claims:
        assert 0 <= claim.start < claim.end <= len(text)
        assert text[claim.start : claim.end].strip()
    assert verdict.confidence.quote is None or verdict.confidence.quote in text
    return verdict


@pytest.mark.parametrize("kind", BY_KIND)
@BOUNDED
@given(any_text)
def test_any_characters_give_a_verdict(kind: str, text: str) -> None:
    is_sound(BY_KIND[kind], text)


@pytest.mark.parametrize("kind", BY_KIND)
@BOUNDED
@given(crafted)
def test_any_heap_of_words_that_mean_something_gives_a_verdict(kind: str, text: str) -> None:
    is_sound(BY_KIND[kind], text)


@BOUNDED
@given(examples, st.integers(0, 3), st.randoms(use_true_random=False))
def test_a_damaged_answer_gives_a_verdict(example: Example, way: int, dice: random.Random) -> None:
    text = example.answer
    for _ in range(dice.randint(1, 6)):
        at, to = sorted((dice.randint(0, len(text)), dice.randint(0, len(text))))
        match way:
            case 0:
                text = text[:at] + text[min(to, at + 8) :]
            case 1:
                text = text[:to] + text[at:to] + text[to:]
            case 2:
                text = text[to:] + text[at:to] + text[:at]
            case _:
                text = text[:at] + dice.choice(SNIPPETS) + text[at:]
    is_sound(example, text)


@BOUNDED
@given(examples, st.lists(st.one_of(crafted, any_text), min_size=2, max_size=5))
def test_a_verdict_does_not_depend_on_what_was_judged_before(
    example: Example, texts: list[str]
) -> None:
    forwards = [verify(example, text) for text in texts]
    backwards = [verify(example, text) for text in reversed(texts)]
    assert forwards == backwards[::-1]


@BOUNDED
@given(
    examples,
    st.sampled_from(("\u200b", "\u00ad", "\u2060", "\ufeff", "\u200d", "\u200e")),
    st.data(),
)
def test_invisible_characters_change_nothing(
    example: Example, mark: str, data: st.DataObject
) -> None:
    for said in (sentence(example), f"It is not true that {clause(example)}."):
        places = data.draw(st.sets(st.integers(0, len(said)), max_size=8))
        hidden = "".join(mark * (at in places) + letter for at, letter in enumerate(said))
        shown, plain = verify(example, hidden), verify(example, said)
        assert (shown.verdict, shown.scores) == (plain.verdict, plain.scores)


@pytest.fixture(scope="module")
def frozen() -> Iterator[None]:
    """What earlier tests left is set aside, so that collecting rubbish does not walk through it."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def seconds(example: Example, text: str) -> float:
    """Return the processor time of one verdict, the median of three; rubbish is collected before."""
    taken = []
    gc.collect()
    gc.disable()
    try:
        for _ in range(3):
            start = time.process_time()
            verify(example, text)
            taken.append(time.process_time() - start)
    finally:
        gc.enable()
    return statistics.median(taken)


@pytest.mark.usefixtures("frozen")
@pytest.mark.parametrize("name", GROWTH_BOMBS)
def test_the_time_for_a_verdict_grows_with_the_length_of_the_text(name: str) -> None:
    """Four times the text takes about four times as long; sixteen times would be quadratic."""
    unit = GROWTH_BOMBS[name]
    short = unit * (SHORT // len(unit))
    for kind, example in BY_KIND.items():
        once, four = seconds(example, short), seconds(example, short * FACTOR)
        assert four < 2 * FACTOR * once + 0.01, (kind, once, four)


def test_a_megabyte_of_sentences_is_judged_for_what_it_says() -> None:
    example = BY_KIND["direct"]
    filler = FILL * (500_000 // len(FILL))
    for said, verdict in (
        (sentence(example), "correct"),
        (f"{capital(falsehood(example))}.", "incorrect"),
    ):
        assert is_sound(example, f"{filler}\n{said}\n{filler}").verdict == verdict
