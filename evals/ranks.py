"""Ranks as they are shown: one more than the entries that are shown to be better, marked where shared."""

from collections import Counter
from collections.abc import Sequence

READING = (
    "“=” marks a rank that several share. A rank counts who is shown to be better, not who stands above, so"
    " numbers can be left out: =1, =1, 3."
)


def shown_ranks(ranks: Sequence[int | None]) -> list[str]:
    """Return the ranks of a table as people read them; None, an entry that has none, as a dash.

    >>> shown_ranks([1, 1, 3, None])
    ['=1', '=1', '3', '–']
    """
    sharing = Counter(ranks)
    return [
        "–" if rank is None else f"={rank}" if sharing[rank] > 1 else str(rank) for rank in ranks
    ]
