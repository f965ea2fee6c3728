"""Every question we ask, by data set name and by wording."""

import unicodedata
from collections.abc import Callable, Iterable, Mapping
from functools import cache

from evals.questions.kmp import kmp_rewordings, kmp_test, kmp_training, kmp_wordings
from evals.questions.pathways import (
    lone_missions,
    lone_missions_parted,
    pathway_heldout,
    pathway_training,
    set_meanings,
)
from evals.questions.prompt import system_prompt
from evals.schema import Example

DATASETS: Mapping[str, Callable[[], tuple[Example, ...]]] = {
    "pathways-heldout": pathway_heldout,
    "kmp-test": kmp_test,
    "kmp-rewordings": kmp_rewordings,
    "kmp-train": kmp_training,
    "pathways-train": pathway_training,
    "hallmark-train": set_meanings,
    "missions-train": lone_missions,
    "missions-parted-train": lone_missions_parted,
}
"""Named data sets, as `assay eval run --data NAME` takes them, with the standard hold-out."""


def find(question: str) -> Example | None:
    """Return our question with this wording, or a registered one, or None; case and white space do not matter."""
    wording = normalised(question)
    return _by_wording().get(wording) or _REGISTERED.get(wording)


def register(examples: Iterable[Example]) -> None:
    """Let `find` know the questions of a set of one's own, for as long as the process runs."""
    _REGISTERED.update((normalised(row.prompt), row) for row in examples)


_REGISTERED: dict[str, Example] = {}


def system_prompt_for(template: str, question: str) -> str:
    """Return a chain's system prompt for a question, with its own options where it is one of ours."""
    known = find(question)
    return system_prompt(template, question, known.ground_truth if known else None)


def is_held_out(question: str, example_id: str | None = None) -> bool:
    """Return whether the standard hold-out keeps this wording, or the row of this id, from training.

    It holds the test questions of both families, and the comparisons that name a held-out tissue:
    these are in no test, but would give its directions away.
    """
    wordings, ids = _held_out()
    wording = normalised(question)
    own = _REGISTERED.get(wording)
    return wording in wordings or example_id in ids or (own is not None and own.split == "test")


def normalised(question: str) -> str:
    """Return a question as `find` compares it: NFKC, one blank between words, no case."""
    return " ".join(unicodedata.normalize("NFKC", question).casefold().split())


@cache
def _held_out() -> tuple[frozenset[str], frozenset[str]]:
    """Return the wordings and the ids of all rows that the standard hold-out keeps from training."""
    trained = {row.id for row in pathway_training()}
    whole = (row for row in pathway_training(held_out=()) if row.id not in trained)
    rows = (*kmp_test(), *pathway_heldout(), *whole)
    return frozenset(normalised(row.prompt) for row in rows), frozenset(row.id for row in rows)


@cache
def _by_wording() -> dict[str, Example]:
    """Return all questions by wording; comparisons over held-out tissues are among them."""
    rows = (
        *kmp_wordings(),
        *pathway_training(held_out=()),
        *pathway_training(),
        *pathway_heldout(),
        *set_meanings(),
        *lone_missions(),
        *lone_missions_parted(),
    )
    return {normalised(row.prompt): row for row in (*rows, *kmp_test())}
