"""Answers that need no model. They stand in every report, so that nobody mistakes a trick for skill.

Each policy takes a question and returns a whole answer. All but the last look at nothing but the
question; "tissue majority" may look up the figures of the tissue, to show how far that alone goes.
"restate the finding" copies the direction that a question names itself and adds what the gene set
stands for: why such questions are left out of every accuracy of directions.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType

from evals.facts import load_enrichment, load_hallmark
from evals.schema import Example

Policy = Callable[[Example], str]

WORDS = {"UP": "upregulated", "DOWN": "downregulated"}
NAMED = {
    "UP": re.compile(r"\b(?:upregulated|activated|raise|higher|up)\b"),
    "DOWN": re.compile(r"\b(?:downregulated|suppressed|lower|down)\b"),
}
"""How the questions name a direction."""


def _always(answer: str, percent: int) -> Policy:
    text = f"{answer}\nConfidence: {percent}%"
    return lambda example: text


def _echo(example: Example) -> str:
    return f"{example.prompt}\nConfidence: 62%"


def _echo_as_statement(example: Example) -> str:
    return f"The statement is that {example.prompt.rstrip(' ?.!')}.\nConfidence: 62%"


def _empty(example: Example) -> str:
    return ""


def _tissue_majority(example: Example) -> str:
    majority = tissue_majorities().get(example.tissue or "")
    if majority is None:
        return ""
    return f"The gene set is {WORDS[majority]} in mouse {example.tissue}.\nConfidence: 80%"


def _first_option(example: Example) -> str:
    """Return the direction that the question names first; nothing where it names none."""
    named = _named(example)
    return f"It is {WORDS[named[0]]}.\nConfidence: 60%" if named else ""


def _restate(example: Example) -> str:
    """Return the finding that a question holds, with what the gene set stands for."""
    row = load_hallmark().get(getattr(example.ground_truth, "pathway", ""))
    named = _named(example)
    if row is None or len(named) != 1:
        return ""
    return (
        f"The {row.name} gene set is {WORDS[named[0]]} in mouse {example.tissue}. It stands for"
        f" {row.about}.\nConfidence: 80%"
    )


def _named(example: Example) -> list[str]:
    """Return the directions that the question names, first one first, not counting names of sets."""
    row = load_hallmark().get(getattr(example.ground_truth, "pathway", ""))
    question = example.prompt.replace(row.name, "") if row else example.prompt
    places = {way: found.start() for way, word in NAMED.items() if (found := word.search(question))}
    return sorted(places, key=lambda way: places[way])


BASELINES: Mapping[str, Policy] = MappingProxyType(
    {
        "always down, 60%": _always("It is downregulated.", 60),
        "always up, 60%": _always("It is upregulated.", 60),
        "always disagreement, 60%": _always(
            "Missions disagree, so there is no single direction.", 60
        ),
        "always abstain, 60%": _always("The data cannot answer this.", 60),
        "echo the question, 62%": _echo,
        "echo as a statement, 62%": _echo_as_statement,
        "both directions, 60%": _always("It is upregulated. It is downregulated.", 60),
        "first option of the question, 60%": _first_option,
        "restate the finding, 80%": _restate,
        "only a confidence, 50%": lambda example: "Confidence: 50%",
        "empty answer": _empty,
        "tissue majority, 80%": _tissue_majority,
    }
)


@cache
def tissue_majorities() -> dict[str, str]:
    """Return, by tissue, the direction that most significant gene-set scores have; ties are left out."""
    votes: dict[str, Counter[str]] = {}
    for row in load_enrichment():
        if row.direction is not None:
            votes.setdefault(row.tissue, Counter())[row.direction] += 1
    return {
        tissue: count.most_common(1)[0][0]
        for tissue, count in votes.items()
        if count["UP"] != count["DOWN"]
    }
