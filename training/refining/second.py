"""A second judge that reads some of the answers too, at the same time: how far are the two apart?"""

import hashlib
from collections.abc import Iterable
from statistics import fmean

from evals.refiner.judging import Verdicts
from evals.refiner.score import Prepared, Settled, settle
from training.refining.noise import without

Look = tuple[Prepared, Settled, Prepared, Verdicts]
"""An answer as it was rewarded, with its reward; and as the second judge was asked, with its verdicts."""


def is_read_twice(case: Prepared, share: float) -> bool:
    """Whether an answer is in the share of the second judge: by its text, the same in every run."""
    text = f"{case.record.id}\n{case.completion}"
    place = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") / 2**64
    return place < share


def gap(looks: Iterable[Look], highest: float) -> float | None:
    """Return the mean distance of the two judges' rewards, 0..1 of the highest; None without a pair.

    Items that were left out of the reward are left out of the second judge's too.
    """
    gaps = []
    for rewarded, settled, asked, verdicts in looks:
        kept = {item.key for item in rewarded.items}
        left_out = frozenset(item.key for item in asked.items if item.key not in kept)
        other = settle(rewarded, without(asked, verdicts, left_out)[1]).reward
        if settled.reward is not None and other is not None:
            gaps.append(abs(settled.reward - other))
    return fmean(gaps) / highest if gaps else None
