"""Corpora A and B: reviewed papers to training rows by fixed rules, with a count of everything left out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from evals.reviewing.budget import Budget, Counter
from evals.reviewing.rows import Made, rows_of
from evals.reviewing.selection import Rules, select
from evals.schema import ReviewExample, Split
from evals.schema.reviews import HumanConcern

Progress = Callable[[int, int], None]
"""Called with papers done and in all."""


@dataclass(frozen=True)
class Taught:
    """A kept paper, the concerns it is taught with, and its rows."""

    example: ReviewExample
    concerns: tuple[HumanConcern, ...]
    rows: tuple[Made, ...]


@dataclass
class Corpus:
    """One split of a corpus and what was left out of it, by reason."""

    rules: Rules
    split: Split
    read: int
    taught: list[Taught] = field(default_factory=list)
    articles_dropped: dict[str, int] = field(default_factory=dict)
    concerns_dropped: dict[str, int] = field(default_factory=dict)

    @property
    def rows(self) -> list[Made]:
        """All rows in order."""
        return [made for each in self.taught for made in each.rows]


@dataclass(frozen=True)
class Recipe:
    """How a corpus is made: which concerns, in how many tokens, counted by whom."""

    rules: Rules
    budget: Budget
    counter: Counter


def make_corpus(
    examples: Sequence[ReviewExample],
    split: Split,
    recipe: Recipe,
    progress: Progress | None = None,
) -> Corpus:
    """Return the rows of one split. Papers without text and with too few concerns are dropped and counted."""
    mine = [each for each in examples if each.split == split]
    corpus = Corpus(recipe.rules, split, len(mine))
    for done, example in enumerate(mine, start=1):
        selected = select(example.concerns, recipe.rules)
        if example.is_title_only:
            _count(corpus.articles_dropped, "title alone", 1)
        elif len(selected.kept) < recipe.rules.min_concerns:
            reason = f"fewer than {recipe.rules.min_concerns} usable concerns"
            _count(corpus.articles_dropped, reason, 1)
        else:
            rows = rows_of(example, selected.kept, recipe.budget, recipe.counter)
            corpus.taught.append(Taught(example, selected.kept, tuple(rows)))
            for reason, count in selected.dropped.items():
                _count(corpus.concerns_dropped, reason, count)
        if progress is not None:
            progress(done, len(mine))
    return corpus


def _count(counts: dict[str, int], reason: str, more: int) -> None:
    counts[reason] = counts.get(reason, 0) + more
