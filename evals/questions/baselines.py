"""Answers that need no model. They stand in every report, so that nobody mistakes a trick for skill.

Each policy takes a question and what can be had without understanding it, and returns a whole answer, or
None where it has nothing to say. It is told the options that the system prompt lists. "tissue majority" may
look up the figures of the tissue, "most frequent in training" the training rows, and "system prompt only"
what is right most often in the other clusters of the set, wherever the system prompt reads so: what can
be had without a look at the question. A baseline that has nothing to say to any question of a set is left out.
"""

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import TypeVar

from evals.facts import load_enrichment, load_hallmark
from evals.questions.prompt import answer_form, with_answer, with_confidence_line
from evals.schema import CANNOT_BE_TOLD, ChoiceTruth, Example
from evals.verifiers.expected import DIRECTIONS, expected_answer, normalise
from evals.verifiers.line import options_in, read_lines
from evals.verifiers.numbers import numbers_in


@dataclass(frozen=True)
class Known:
    """What is known of a set: its options, and how often each answer is right, by what the prompt asks for.

    `by_cluster` counts the answers of one cluster alone, by form and cluster.
    """

    options: frozenset[str]
    in_training: Mapping[str, Counter[str]]
    asked: Mapping[str, Counter[str]]
    by_cluster: Mapping[tuple[str, str], Counter[str]]


Policy = Callable[[Example, Known], str | None]
K = TypeVar("K", bound=Hashable)

NAMED = {
    "up": re.compile(r"\b(?:upregulated|activated|raise|higher|up)\b"),
    "down": re.compile(r"\b(?:downregulated|suppressed|lower|down)\b"),
}
"""How the questions name a direction."""


def options(example: Example) -> tuple[str, ...]:
    """Return the options that the system prompt lists for a question; none where the form is open."""
    if isinstance(example.ground_truth, ChoiceTruth):
        return *example.ground_truth.options, CANNOT_BE_TOLD
    listed = tuple(_form(example).split(" / "))
    return listed if len(listed) > 1 else ()


def _form(example: Example) -> str:
    return answer_form(example.prompt, example.ground_truth)


def _line(answer: str | None, percent: int = 60) -> str | None:
    return with_answer("", answer, percent) if answer else None


def _always(answer: str) -> Policy:
    return lambda example, known: _line(answer) if answer in known.options else None


def _system_prompt_only(example: Example, known: Known) -> str | None:
    form = _form(example)
    return _most_frequent(known.asked.get(form, Counter()) - known.by_cluster.get((form, example.cluster), Counter()))


def _most_frequent(count: Counter[str] | None) -> str | None:
    return _line(min(count, key=lambda each: (-count[each], each))) if count else None


def _echo_as_statement(example: Example, _: Known) -> str:
    said = f"The statement is that {' '.join(example.prompt.split()).rstrip(' ?.!')}."
    return with_answer(said, said, 62)


def _copy_option(example: Example, _: Known) -> str | None:
    """Copy into the line what the question itself holds: its first option, number or all of its names."""
    asked, question = expected_answer(example.ground_truth), _without_set_name(example)
    if asked.kind == "number":
        number = next(numbers_in(question), None)
        return _line(f"{number.value:.10g}") if number else None
    named = [each for part in options_in(normalise(question), asked.by_wording) for each in part]
    if not named or asked.kind == "term":
        return None
    return _line(", ".join(named) if asked.kind == "set" else named[0])


def _restate(example: Example, _: Known, *, explained: bool = False) -> str | None:
    """Return the finding that a question holds; None where it names no direction, or both, names of sets aside.

    `explained`: with what the gene set stands for, which only the answer line may say.
    """
    row = load_hallmark().get(getattr(example.ground_truth, "pathway", ""))
    named = [way for way, word in NAMED.items() if word.search(_without_set_name(example))]
    if row is None or len(named) != 1:
        return None
    about = f"The {row.name} gene set stands for {row.about}." if explained else ""
    return with_answer(about, f"{row.name} is {named[0]}", 80)


def _without_set_name(example: Example) -> str:
    row = load_hallmark().get(getattr(example.ground_truth, "pathway", ""))
    return example.prompt.replace(row.name, "") if row else example.prompt


def _tissue_majority(example: Example, known: Known) -> str | None:
    majority = tissue_majorities().get(example.tissue or "")
    return _line(majority, 80) if majority in known.options else None


BASELINES: Mapping[str, Policy] = {
    "always down, 60%": _always("down"),
    "always up, 60%": _always("up"),
    "always disagreement, 60%": _always(DIRECTIONS[2]),
    "always abstain, 60%": _always(CANNOT_BE_TOLD),
    "first option listed, 60%": lambda example, _: _line(next(iter(options(example)), None)),
    "all options listed, 60%": lambda example, _: _line(" / ".join(options(example))),
    "most frequent in training, 60%": lambda example, known: _most_frequent(known.in_training.get(_form(example))),
    "system prompt only, 60%": _system_prompt_only,
    "echo the question, 62%": lambda example, _: with_answer(example.prompt, " ".join(example.prompt.split()), 62),
    "echo as a statement, 62%": _echo_as_statement,
    "copy an option of the question, 60%": _copy_option,
    "restate the finding, 80%": _restate,
    "restate and explain, 80%": partial(_restate, explained=True),
    "only a confidence, 50%": lambda example, _: with_confidence_line("", 50).lstrip(),
    "empty answer": lambda example, _: "",
    "tissue majority, 80%": _tissue_majority,
}


def baseline_answers(examples: Sequence[Example], train: Iterable[Example] = ()) -> dict[str, list[str]]:
    """Return the answers of every baseline that has something to say to any of the questions.

    `train` are the training rows of the same set, as far as they are known.
    """
    listed = frozenset((CANNOT_BE_TOLD, *(option for example in examples for option in options(example))))
    train = tuple(train)
    every = {example.id: example for example in (*train, *examples)}.values()
    known = Known(
        listed,
        _counts_by(train, _form),
        _counts_by(every, _form),
        _counts_by(every, lambda example: (_form(example), example.cluster)),
    )
    said = {name: [policy(example, known) for example in examples] for name, policy in BASELINES.items()}
    return {
        name: [answer or "" for answer in answers]
        for name, answers in said.items()
        if any(answer is not None for answer in answers)
    }


def _counts_by(examples: Iterable[Example], by: Callable[[Example], K]) -> dict[K, Counter[str]]:
    counts: dict[K, Counter[str]] = {}
    for example in examples:
        taught = read_lines(example.answer).answer
        if taught:
            counts.setdefault(by(example), Counter())[taught] += 1
    return counts


@cache
def tissue_majorities() -> dict[str, str]:
    """Return, by tissue, the direction that most significant gene-set scores have; ties are left out."""
    votes: dict[str, Counter[str]] = {}
    for row in load_enrichment():
        if row.direction is not None:
            votes.setdefault(row.tissue, Counter())[row.direction.lower()] += 1
    return {tissue: count.most_common(1)[0][0] for tissue, count in votes.items() if count["up"] != count["down"]}
