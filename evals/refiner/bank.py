"""Our own records: from the study figures and from texts written for them, with their train/test split.

Synthetic: no search engine returned these passages and nobody asked these questions. What the figures
hold is real (`evals/facts/README.md`); the studies in written.json are invented, and say so in their
source ids. Questions about the held-out tissues, and every fact of the KMP test, stay out of training.
"""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Literal

from evals.questions import is_held_out
from evals.refiner import bank_figures, bank_kmp, bank_written
from evals.schema.refining import RefinerRecord

VERSION = "1"
"""Of the records: goes up whenever the same command would write other rows."""
DATASETS = ("refiner-train", "refiner-test")


@dataclass(frozen=True)
class Bank:
    """The records of both splits."""

    train: tuple[RefinerRecord, ...] = field(default=())
    test: tuple[RefinerRecord, ...] = field(default=())

    def split(self, name: Literal["train", "test"]) -> tuple[RefinerRecord, ...]:
        """Return one split."""
        return self.train if name == "train" else self.test


@cache
def refiner_bank(seed: int = 0) -> Bank:
    """Return all records; the seed chooses distractors, order of passages and order of the rows."""
    source = random.Random(seed)
    train = [
        *bank_figures.records(source, "train"),
        *bank_kmp.records(source),
        *bank_written.records(source, "train"),
    ]
    test = [*bank_figures.records(source, "test"), *bank_written.records(source, "test")]
    return Bank(_shuffled(train, source), _shuffled(test, source))


def kept_for_testing(records: Iterable[RefinerRecord]) -> list[str]:
    """Return the ids of those records that are kept for testing, here or by the standard hold-out."""
    known = {record.id for record in refiner_bank().test}
    return [each.id for each in records if each.id in known or is_held_out(each.asked, each.id)]


def _shuffled(records: Sequence[RefinerRecord], source: random.Random) -> tuple[RefinerRecord, ...]:
    return tuple(source.sample(records, len(records)))
