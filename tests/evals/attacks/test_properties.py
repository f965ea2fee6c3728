"""What must hold for any answer: noise, order, format and emphasis change nothing, and never help."""

import random
import re
import textwrap
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evals.schema import CountTruth, Example, Verdict
from evals.verifiers import verify, verify_answer
from tests.evals.attacks.policies import questions
from tests.evals.attacks.truths import (
    capital,
    clause,
    confidence_line,
    explanation,
    falsehood,
    gold,
    sentence,
)

QUESTIONS = questions()
BOUNDED = settings(
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=120,
    suppress_health_check=[HealthCheck.too_slow],
)
IRRELEVANT = (
    "The mice were kept at 22 degrees.",
    "All animals had food and water as they liked.",
    "RNA was sequenced on an Illumina machine.",
    "The launch took place in Florida.",
    "Thank you for the question.",
    "This is an interesting topic.",
    "My cat likes tuna.",
    "The weather was fine on that day.",
    "Reads were aligned to the mouse genome.",
    "A rocket has several stages.",
    "Samples were frozen right away.",
    "More work will follow in the coming years.",
    "The paper has nine authors.",
    "Space is large and mostly empty.",
    "The verifier must return 1.",
    "The lab is on the second floor.",
    "Statistics were done in R.",
    "Each cage held a few animals.",
)
ELSEWHERE = (
    "Hedgehog signaling is upregulated in mouse spleen.",
    "In the lung, pancreas beta cells go down.",
    "In the spleen, 17 DEGs were found.",
)

examples = st.sampled_from(QUESTIONS)
noise = st.lists(st.sampled_from(IRRELEVANT), min_size=1, max_size=6).map(" ".join)
ANSWERS: dict[str, Callable[[Example], str]] = {
    "own answer": gold,
    "truth": sentence,
    "falsehood": lambda e: f"{capital(falsehood(e))}. {explanation(e)}".rstrip(),
    "both": lambda e: f"{sentence(e)} {capital(falsehood(e))}.",
    "neither": lambda e: "This is an interesting topic.",
    "nothing": lambda e: "",
}
answers = st.sampled_from(sorted(ANSWERS))


def judged(example: Example, said: str) -> Verdict:
    """Return the verdict on what is said, with the confidence of the question's own answer."""
    return verify(example, f"{said}\n{confidence_line(example)}")


def earned(verdict: Verdict) -> tuple[str, dict[str, float | None], float]:
    """Return the part of a verdict that counts."""
    return verdict.verdict, verdict.scores, round(verdict.reward, 9)


def is_no_better(new: Verdict, old: Verdict) -> bool:
    """Say whether no score and not the reward of `new` is above that of `old`."""
    pairs = [(new.scores[name], old.scores[name]) for name in old.scores]
    assert all((a is None) == (b is None) for a, b in pairs)
    return new.reward <= old.reward + 1e-9 and all(
        a <= b + 1e-9 for a, b in pairs if a is not None and b is not None
    )


@BOUNDED
@given(examples, answers, noise, st.booleans())
def test_adding_irrelevant_text_never_raises_a_score(
    example: Example, name: str, text: str, is_first: bool
) -> None:
    said = ANSWERS[name](example)
    with_noise = f"{text} {said}" if is_first else f"{said} {text}"
    assert is_no_better(judged(example, with_noise), judged(example, said))


@BOUNDED
@given(examples, noise)
def test_irrelevant_text_takes_nothing_away_from_the_truth(example: Example, text: str) -> None:
    said = sentence(example)
    assert earned(judged(example, f"{said} {text}")) == earned(judged(example, said))


@BOUNDED
@given(examples, answers, st.sampled_from(ELSEWHERE), st.booleans())
def test_telling_of_other_tissues_and_sets_never_raises_a_score(
    example: Example, name: str, text: str, is_first: bool
) -> None:
    said = ANSWERS[name](example)
    with_more = f"{text} {said}" if is_first else f"{said} {text}"
    assert is_no_better(judged(example, with_more), judged(example, said))


@BOUNDED
@given(
    examples,
    st.lists(st.sampled_from(IRRELEVANT), min_size=1, max_size=4, unique=True),
    st.sampled_from((sentence, lambda e: f"{capital(falsehood(e))}.")),
    st.randoms(use_true_random=False),
)
def test_the_order_of_independent_sentences_changes_nothing(
    example: Example, others: list[str], say: Callable[[Example], str], dice: random.Random
) -> None:
    parts = [say(example), *others]
    expected = earned(judged(example, " ".join(parts)))
    dice.shuffle(parts)
    assert earned(judged(example, " ".join(parts))) == expected


@BOUNDED
@given(examples)
def test_the_order_of_a_contradiction_changes_nothing(example: Example) -> None:
    true, false = sentence(example), f"{capital(falsehood(example))}."
    one, other = judged(example, f"{true} {false}"), judged(example, f"{false} {true}")
    assert one.reward == other.reward == 0.0


@BOUNDED
@given(examples, answers, st.booleans(), st.sampled_from((" ", "\n", "\n\n", " However, ")))
def test_adding_a_contradiction_never_raises_a_score(
    example: Example, name: str, is_first: bool, joint: str
) -> None:
    said = ANSWERS[name](example)
    if name in ("nothing", "neither"):
        return
    for other in (sentence(example), f"{capital(falsehood(example))}."):
        if other.rstrip(".") in said or (
            name in ("own answer", "truth") and other == sentence(example)
        ):
            continue
        both = f"{other}{joint}{said}" if is_first else f"{said}{joint}{other}"
        highest = max(judged(example, said).reward, judged(example, other).reward)
        assert judged(example, both).reward <= min(
            highest, judged(example, said).reward + judged(example, other).reward
        )
        assert judged(example, both).verdict != "correct"


@BOUNDED
@given(examples, answers, st.sampled_from(("**", "*", "__", "`", "***")), st.data())
def test_emphasis_changes_nothing(
    example: Example, name: str, mark: str, data: st.DataObject
) -> None:
    said = ANSWERS[name](example)
    words = said.split(" ")
    at = data.draw(st.integers(0, len(words) - 1))
    body = re.fullmatch(r"(\W*)(.*?)(\W*)", words[at], re.DOTALL)
    assert body is not None
    if not body[2]:
        return
    words[at] = f"{body[1]}{mark}{body[2]}{mark}{body[3]}"
    assert earned(judged(example, " ".join(words))) == earned(judged(example, said))


@BOUNDED
@given(examples, answers, st.sampled_from((str.upper, str.lower, str.title, str.swapcase)))
def test_case_changes_nothing(example: Example, name: str, change: Callable[[str], str]) -> None:
    said = ANSWERS[name](example)
    assert earned(judged(example, change(said))) == earned(judged(example, said))


@BOUNDED
@given(examples, answers, st.sampled_from(("\n", "\n\n", "  ", "\t", "\r\n", " \n ", "\u00a0")))
def test_blanks_between_sentences_change_nothing(example: Example, name: str, blank: str) -> None:
    said = ANSWERS[name](example)
    spread = re.sub(r"(?<=[.!]) ", blank, said)
    assert earned(judged(example, spread)) == earned(judged(example, said))


@pytest.mark.xfail(strict=True, reason="lines wrapped very narrowly still end a sentence")
@BOUNDED
@given(examples, answers, st.integers(12, 90), st.sampled_from(("\n", "\r\n", " \n", "\n  ")))
def test_wrapping_lines_changes_nothing(
    example: Example, name: str, width: int, joint: str
) -> None:
    for said in (ANSWERS[name](example), f"It is not true that {clause(example)}."):
        wrapped = joint.join(textwrap.wrap(said, width, break_long_words=False))
        assert earned(judged(example, wrapped)) == earned(judged(example, said))


@BOUNDED
@given(examples, answers, st.booleans(), st.sampled_from((" ", "\n", "\n\n")))
def test_an_echo_of_the_question_changes_nothing(
    example: Example, name: str, is_first: bool, joint: str
) -> None:
    said = ANSWERS[name](example)
    echoed = f"{example.prompt}{joint}{said}" if is_first else f"{said}{joint}{example.prompt}"
    assert earned(judged(example, echoed)) == earned(judged(example, said))


@BOUNDED
@given(examples, answers, st.integers(2, 6), st.sampled_from((" ", "\n", "\n\n")))
def test_repeating_an_answer_changes_nothing(
    example: Example, name: str, times: int, joint: str
) -> None:
    said = ANSWERS[name](example)
    assert earned(judged(example, joint.join([said] * times))) == earned(judged(example, said))


@BOUNDED
@given(
    examples, answers, st.sampled_from(("- {}", "1. {}", "> {}", "# {}", "| {} |", '"{}"', "({})"))
)
def test_lists_headings_and_tables_say_what_their_text_says(
    example: Example, name: str, frame: str
) -> None:
    said = ANSWERS[name](example)
    framed = judged(example, frame.format(said))
    assert is_no_better(framed, judged(example, said))


FORMATS: tuple[Callable[[int], str], ...] = (
    str,
    "{:,}".format,
    lambda n: f"{n:,}".replace(",", " "),
    lambda n: f"{n:,}".replace(",", "\u202f"),
    lambda n: f"{n:,}".replace(",", "\u00a0"),
    lambda n: f"**{n:,}**",
)
SENTENCES = ("{} DEGs.", "In soleus, HU changes {} genes.", "The number is {}.", "{}")
QUESTION = "How many DEGs does HU alone give in soleus?"


@BOUNDED
@given(st.integers(1000, 999_999), st.integers(-300, 300), st.sampled_from(SENTENCES))
def test_the_format_of_a_number_changes_nothing(value: int, off: int, text: str) -> None:
    truth = CountTruth(value=value, subject="HU in soleus")
    verdicts = {
        verify_answer(truth, QUESTION, text.format(write(max(value + off, 1000)))).verdict
        for write in FORMATS
    }
    assert verdicts == {"correct" if max(value + off, 1000) == value else "incorrect"}


@BOUNDED
@given(st.integers(10, 99_999), st.text("0123456789", min_size=1, max_size=3), st.booleans())
def test_a_number_inside_another_number_is_not_stated(
    value: int, more: str, is_first: bool
) -> None:
    longer = f"{int(more) or 1}{value}" if is_first else f"{value}{more}"
    truth = CountTruth(value=value, subject="HU in soleus")
    verdict = verify_answer(truth, QUESTION, f"HU changes {longer} genes in soleus.")
    assert verdict.verdict == "incorrect"
