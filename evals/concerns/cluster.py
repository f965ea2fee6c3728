"""Concerns of several tools on one paper that say the same, put together.

Complete linkage joins two groups only if every pair across them is alike enough and no tool is in both, so a
group holds at most one concern of each tool. Single linkage joins whatever a chain of alike concerns of
different tools connects, however far its ends are apart; it is what published figures were made with.
"""

from collections.abc import Sequence

import numpy as np

from evals.concerns.similarity import Block
from evals.schema.reviews import Linkage


def clusters_of(
    alike: Block, tools: Sequence[int], threshold: float, linkage: Linkage
) -> list[list[int]]:
    """Return groups of concerns by their places, each in order; every concern is in one group.

    `alike` (concerns, concerns) are similarities, `tools` (concerns,) says whose each concern is.
    """
    n = len(tools)
    pairs = [
        (float(alike[i, j]), i, j)
        for i in range(n)
        for j in range(i + 1, n)
        if tools[i] != tools[j] and alike[i, j] >= alike.dtype.type(threshold)
    ]
    pairs.sort(key=lambda pair: (-pair[0], pair[1], pair[2]))
    group = list(range(n))
    members = {i: [i] for i in range(n)}
    for _, i, j in pairs:
        first, second = group[i], group[j]
        if first == second:
            continue
        together = (members[first], members[second])
        if linkage == "single" or _is_complete(alike, tools, *together, threshold):
            for place in members[second]:
                group[place] = first
            members[first] += members.pop(second)
    return sorted(sorted(each) for each in members.values())


def medoid(alike: Block, members: Sequence[int]) -> int:
    """Return the member nearest to all others; of two equally near, the one that stands first."""
    block = np.asarray(alike)[np.ix_(members, members)].sum(axis=1)
    return members[int(np.argmax(np.round(block, 6)))]


def _is_complete(
    alike: Block, tools: Sequence[int], first: list[int], second: list[int], threshold: float
) -> bool:
    if {tools[i] for i in first} & {tools[j] for j in second}:
        return False
    return bool((alike[np.ix_(first, second)] >= alike.dtype.type(threshold)).all())
