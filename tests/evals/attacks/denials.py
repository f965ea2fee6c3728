"""The truth in sight, but not asserted: denied, taken back, put in other mouths, asked, supposed.

`{S}` is the truth as a clause, `{C}` the same with a capital, `{F}` and `{CF}` its opposite. Whoever
reads such an answer learns that the truth is false, or learns nothing, so it is right about no row.
"""

from collections.abc import Callable

from evals.schema import Example
from tests.evals.attacks.attack import Attack
from tests.evals.attacks.truths import (
    CONFIDENCE,
    OTHER_SET,
    OTHER_TISSUE,
    capital,
    clause,
    explanation,
    falsehood,
    set_name,
)

DENIED = (
    "It is not true that {S}.",
    "It is false that {S}.",
    "It is wrong to say that {S}.",
    "I deny that {S}.",
    "There is no evidence that {S}.",
    "Nobody has ever shown that {S}.",
    "By no means can it be said that {S}.",
    "It is far from true that {S}.",
    "It was never found that {S}.",
    "It is a myth that {S}.",
    "It would be a mistake to think that {S}.",
    "The claim that {S} is false.",
    "That {S} is untrue.",
    "It is not the case that {S}.",
    "The idea that {S} was disproved.",
    "The hypothesis that {S} was rejected.",
    "We reject that {S}.",
    "It is a lie that {S}.",
    "The data refute that {S}.",
    "It is impossible that {S}.",
    "Contrary to the belief that {S}, nothing of the kind was found.",
    "It cannot be said that {S}.",
    "I would not say that {S}.",
    "It is not, as many think, the case that {S}.",
)
TAKEN_BACK = (
    "{C}. That is false.",
    "{C}. This is wrong.",
    "{C}. Not true.",
    "{C}. Just kidding.",
    "{C}. I take that back.",
    "{C}. The opposite is true.",
    "{C}. No, that is not so.",
    "{C}, which is false.",
    "{C}; that is a mistake.",
    "{C} (this is wrong).",
    "Wrong answer: {S}.",
    "False: {S}.",
    "The following is false. {C}.",
    "The next sentence is a lie. {C}.",
)
IN_OTHER_MOUTHS = (
    "My colleague says that {S}. He is wrong.",
    "It has been claimed that {S}, but the data refute this.",
    "Some say that {S}; they are mistaken.",
    'A blog wrote: "{C}." This is false.',
    "One might think that {S}, but it is not so.",
    "Reviewer 2 believes that {S}. I disagree.",
    'Critics say "{S}". The critics are wrong.',
    "An older paper reported that {S}; this was later retracted.",
)
ASKED = (
    "Is it so that {S}?",
    "{C}?",
    "Who says that {S}?",
    "Could it be that {S}?",
    "I wonder whether {S}.",
    "I do not know whether {S}.",
    "The question is whether {S}.",
    "You ask if {S}.",
    "It must be tested whether {S}.",
)
SUPPOSED = (
    "If pigs could fly, {S}.",
    "Suppose that {S}.",
    "Let us assume that {S}.",
    "Imagine that {S}.",
    "{C} if the Moon is made of cheese.",
    "Had the flight been longer, one would say that {S}.",
    "In a parallel universe, {S}.",
    "{C}, or it is not so.",
    "Either {S} or {F}.",
    "{C} or {F}.",
    "Perhaps {S}, perhaps {F}.",
    "Maybe, possibly, perhaps {S}, who knows.",
    "It may or may not be that {S}.",
)
CONTRADICTED = (
    "{C}. {CF}.",
    "{CF}. {C}.",
    "{C}, and {F}.",
    "{C}, but {F}.",
    "{C}\n\n{CF}",
    "- {C}\n- {CF}",
    "At first {S}, later {F}.",
    "{C}. On the other hand, {F}.",
    "Option A: {S}. Option B: {F}.",
    "{CF}. {C}. {CF}. {C}.",
)


def filled(template: str) -> Callable[[Example], str]:
    """Return the policy that writes a template out for each question."""

    def answer(example: Example) -> str:
        true, false = clause(example), falsehood(example)
        said = template.format(S=true, C=capital(true), F=false, CF=capital(false))
        return f"{said} {explanation(example)}".rstrip() + CONFIDENCE

    return answer


def elsewhere(example: Example) -> str:
    """Return the truth told of another tissue; nothing where the question names none."""
    tissue = getattr(example.ground_truth, "tissue", None)
    if tissue is None:
        return ""
    said = clause(example).replace(tissue, OTHER_TISSUE)
    return f"{capital(said)}. {explanation(example)}".rstrip() + CONFIDENCE


def about_another_set(example: Example) -> str:
    """Return the truth told of another gene set; nothing where the question names none."""
    name = set_name(example)
    if not name:
        return ""
    return f"{capital(clause(example).replace(name, OTHER_SET))}." + CONFIDENCE


def another_quantity(example: Example) -> str:
    """Return the right number or name, said of something that was not asked about."""
    truth = example.ground_truth
    if truth.kind == "count":
        return f"The study used {truth.value} mice, and page {truth.value} lists them." + CONFIDENCE
    if truth.kind == "label" and truth.value not in ("yes", "no"):
        return f"In the spleen, another study named {truth.value}." + CONFIDENCE
    return ""


FAMILIES = {
    "denied": (DENIED, "says that the truth is false"),
    "taken back": (TAKEN_BACK, "says the truth and takes it back"),
    "in other mouths": (IN_OTHER_MOUTHS, "somebody says the truth, the answer rejects it"),
    "asked": (ASKED, "a question asserts nothing"),
    "supposed": (SUPPOSED, "a supposition or an alternative asserts nothing"),
    "contradicted": (CONTRADICTED, "says the truth and its opposite"),
}

DENIALS = (
    *(
        Attack(f"{family}: {template!r}", filled(template), why)
        for family, (templates, why) in FAMILIES.items()
        for template in templates
    ),
    Attack("elsewhere: the truth of another tissue", elsewhere, "another tissue was asked about"),
    Attack("elsewhere: the truth of another set", about_another_set, "another set was asked about"),
    Attack("elsewhere: the right number on the wrong thing", another_quantity, "another quantity"),
)
