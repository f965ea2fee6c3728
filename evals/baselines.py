"""Answers that need no model. They stand in every report, so that nobody mistakes a trick for skill.

Each policy takes a question and returns a whole answer. All but the last look at nothing but the
question; "tissue majority" may look up the figures of the tissue, to show how far that alone goes.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType

from evals.facts import load_enrichment
from evals.schema import Example

Policy = Callable[[Example], str]

WORDS = {"UP": "upregulated", "DOWN": "downregulated"}


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
