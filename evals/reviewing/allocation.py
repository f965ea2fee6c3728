"""Room shared out among sections: what matters first is kept whole, short ones leave the rest their surplus."""

from collections.abc import Sequence

from evals.articles.roles import Role

RANKS: dict[Role, int] = {
    "methods": 0,
    "results": 1,
    "statement": 2,
    "introduction": 3,
    "discussion": 3,
    "conclusion": 3,
    "abstract": 3,
    "other": 4,
    "supplement": 5,
    "references": 6,
}
"""In this order sections are kept whole; statements (ethics, data) are short and often what is missing."""
FLOOR = 128
"""Tokens that every section is given if there is room, so that none vanishes."""


def allot(sizes: Sequence[int], ranks: Sequence[int], room: int) -> list[int]:
    """Return how much of `room` each section is given: all of it or as much as there is need for.

    Every section gets a floor; then the sections of each rank, lowest first, are filled: whole if they
    fit, else evenly, with what short ones do not need going to the others of the rank.

    >>> allot([5, 900, 900], [0, 0, 1], 1000)
    [5, 867, 128]
    """
    if sum(sizes) <= room:
        return list(sizes)
    floor = min(FLOOR, max(1, room // (2 * len(sizes)))) if sizes else 0
    given = level([min(size, floor) for size in sizes], room)
    for rank in sorted(set(ranks)):
        left = room - sum(given)
        members = [at for at, each in enumerate(ranks) if each == rank]
        more = level([sizes[at] - given[at] for at in members], left)
        for at, extra in zip(members, more, strict=True):
            given[at] += extra
    return given


def level(wants: Sequence[int], room: int) -> list[int]:
    """Return `room` shared evenly among wants, none given more than it wants; the sum is exact.

    >>> level([1, 10, 10], 12)
    [1, 6, 5]
    """
    given = [0] * len(wants)
    left = min(room, sum(wants))
    order = sorted(range(len(wants)), key=lambda at: wants[at])
    for place, at in enumerate(order):
        share = left // (len(order) - place)
        given[at] = min(wants[at], share)
        left -= given[at]
    for at in range(len(wants)):
        extra = min(left, wants[at] - given[at])
        given[at] += extra
        left -= extra
    return given
