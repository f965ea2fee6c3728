"""Answers to mechanism questions that sound like an explanation: broken words, empty phrases, denials."""

import re

from evals.facts import load_hallmark
from evals.schema import Example
from evals.verifiers.matter import MATTERS
from tests.evals.attacks.attack import Attack, nothing
from tests.evals.attacks.constants import restated
from tests.evals.attacks.truths import gold

EMPTY = (
    "It stands for a signal that guides growth.",
    "It stands for the response of the pathway.",
    "It stands for genes best known from a process of the cell.",
    "It stands for a programme that controls the activity of tissues.",
    "This suggests that it plays a critical role in the development of the tissue.",
    "This suggests a complex and multi-step process with many molecular mechanisms.",
)
SEVERAL = (
    "It stands for making fat cells and building muscle.",
    "These genes concern inflammation, cell division, energy and blood vessels.",
)
STEM = 5


def broken(example: Example) -> str:
    """Return an explanation in words that begin like those of the set, and are none."""
    name = getattr(example.ground_truth, "pathway", "").removeprefix("HALLMARK_")
    listed = MATTERS[name].own.replace("+", "_").replace("_", " ").split() if name else []
    words = [f"{word.strip('*')[:STEM]}osity" for word in dict.fromkeys(listed) if len(word) > STEM]
    return restated(example, f"It stands for {' and '.join(words)}.")


def denied(example: Example) -> str:
    """Return the set's own description, denied."""
    row = load_hallmark().get(getattr(example.ground_truth, "pathway", ""))
    return restated(example, f"It does not stand for {row.about}." if row else "")


def joined(example: Example) -> str:
    """Return the set's own description, and at once that of a set that has nothing to do with it."""
    row = load_hallmark().get(getattr(example.ground_truth, "pathway", ""))
    other = "making sperm" if row and "sperm" not in row.about else "insulin"
    return restated(example, f"It stands for {row.about} and {other}." if row else "")


def misspelt(example: Example) -> str:
    """Return the question's own answer with every long word broken: "fattycell forming"."""
    if example.ground_truth.kind != "mechanism":
        return ""
    head, frame, rest = gold(example).partition(" for ")
    what, comma, after = rest.partition(",")
    return head + frame + re.sub(r"\w+", r"\g<0>ish", what) + comma + after


MEANINGS = (
    Attack("explains in broken words", broken, "no word of any language", nothing),
    Attack("the question's answer in broken words", misspelt, "no word of any language", nothing),
    Attack("denies what the set stands for", denied, "says what it is not", nothing),
    Attack("explains the set and another at once", joined, "half of it is false", nothing),
    *(
        Attack(f"explains all sets alike: {text[:40]!r}", lambda e, t=text: restated(e, t), why)
        for text in EMPTY
        for why in ("true of every set, and so of none",)
    ),
    Attack(
        "explains two sets, whatever was asked",
        lambda e: restated(e, SEVERAL[0]),
        "half of it is false for each",
    ),
    Attack(
        "explains many sets, whatever was asked",
        lambda e: restated(e, SEVERAL[1]),
        "lists what other sets stand for",
    ),
)
