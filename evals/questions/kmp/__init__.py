"""Questions about the kaempferol (KMP) study: what is trained on, and twenty that are not.

The split is by fact and by wording. An arbitrary count cannot be known without having been read,
so the figures are trained on, each in several wordings; the test asks what follows from them.
No training row asks for a tested fact, puts all of its figures together, or states it, and no
wording of the test stands in training. Topics that the data cannot answer are split the same way.
"""

import random
from collections.abc import Iterator
from functools import cache

from evals.errors import BadConfig
from evals.questions.kmp import corrections, heldout, limits, orders, primary, steps
from evals.questions.kmp.draft import Draft
from evals.schema import Example

LARGEST_DRILL = 20


def kmp_training(seed: int = 0, drill: int = 1) -> tuple[Example, ...]:
    """Return the training examples in random order, the same ones for the same seed.

    The seed chooses wordings and order; the facts are always all there. With `drill` above 1
    every row is there that many times, repeats with ids of their own ("…/drill-2").
    """
    if not 1 <= drill <= LARGEST_DRILL:
        raise BadConfig(f"drill is {drill}; it takes 1 (no repeats) to {LARGEST_DRILL}")
    random_source = random.Random(seed)
    rows = [example for draft in _training_drafts() for example in draft.examples(draft.chosen(random_source))]
    rows += [
        row.model_copy(update={"id": f"{row.id}/drill-{number}"}) for number in range(2, drill + 1) for row in rows
    ]
    random_source.shuffle(rows)
    return tuple(rows)


@cache
def kmp_test() -> tuple[Example, ...]:
    """Return the twenty test questions in order: 10 factual, 5 reasoning, 5 unanswerable."""
    return tuple(
        example.model_copy(update={"split": "test", "id": f"kmp/test/{draft.slug}"})
        for draft in heldout.drafts()
        for example in draft.examples(range(len(draft.prompts)))
    )


@cache
def kmp_wordings() -> tuple[Example, ...]:
    """Return every wording that any seed could choose, each once."""
    return tuple(example for draft in _training_drafts() for example in draft.examples(range(len(draft.prompts))))


@cache
def kmp_rewordings() -> tuple[Example, ...]:
    """Return one question per fact of `kmp_training()`, in a wording that stands in no row of it.

    What a stage learned of the figures, apart from the sentences it learned them in: for measuring whether
    a later stage forgets. Facts that only a judge can grade are left out.
    """
    trained = {row.prompt for row in kmp_training()}
    unseen: dict[str, Example] = {}
    for row in kmp_wordings():
        if row.prompt not in trained and row.ground_truth.kind != "facts":
            unseen.setdefault(row.cluster, row.model_copy(update={"split": "test"}))
    return tuple(unseen.values())


@cache
def _training_drafts() -> tuple[Draft, ...]:
    def each() -> Iterator[Draft]:
        for module in (primary, steps, orders, corrections, limits):
            yield from module.drafts()

    return tuple(each())
