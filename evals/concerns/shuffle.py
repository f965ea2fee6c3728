"""Articles paired with other articles of their source, so that what matches does so by chance."""

from collections.abc import Iterator, Sequence

import numpy as np

from evals.intervals import Whole


def partners(sources: Sequence[str], is_in: np.ndarray, rounds: int, seed: int) -> Iterator[Whole]:
    """Yield for each round the partner of each article, never itself; -1 for one left out.

    Within a source, articles are put in a random order and each gets the next. One that is alone in its
    source is paired with those alone in theirs, or, where it is the only such, with any other article.
    """
    generator = np.random.default_rng(seed)
    names = np.array([f"source {source}" for source in sources])
    for _ in range(rounds):
        partner = np.full(len(names), -1, dtype=np.intp)
        alone: list[int] = []
        for name in np.unique(names[is_in]):
            members = np.flatnonzero(is_in & (names == name))
            if len(members) == 1:
                alone.append(int(members[0]))
            else:
                _chain(partner, generator.permutation(members))
        if len(alone) > 1:
            _chain(partner, generator.permutation(np.array(alone)))
        elif alone:
            others = np.setdiff1d(np.flatnonzero(is_in), alone)
            if len(others):
                _insert(partner, alone[0], int(generator.choice(others)))
        yield partner


def _chain(partner: Whole, members: Whole) -> None:
    partner[members] = np.roll(members, -1)


def _insert(partner: Whole, article: int, after: int) -> None:
    """Put one article into the chain behind another, so that every list is still used once."""
    partner[article] = partner[after]
    partner[after] = article
