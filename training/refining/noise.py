"""Items on which a judge does not agree with itself, left out of the reward of a whole group of answers.

Needs several votes (`training.judging.votes`). An item is left out where its votes lie further apart than
a limit, on average over the answers to a record that one process grades, so that all of these are graded
by the same items; `training.estimate.check_batches` refuses batches that would split a group of answers
over processes. An answer whose every item is left out has no reward.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from statistics import fmean

from evals.refiner.judging import Verdicts
from evals.refiner.score import Prepared

Judged = tuple[Prepared, Verdicts]
Noisy = Mapping[str, frozenset[str]]
"""Keys of items by record id."""


def noisy_items(judged: Iterable[Judged], limit: float) -> Noisy:
    """Return the items whose votes lie further apart than `limit`, a share 0..1 of the scale.

    An answer without votes, such as one that was judged too late, says nothing about any item.
    """
    seen: dict[str, dict[str, list[float]]] = {}
    for prepared, verdicts in judged:
        rows = seen.setdefault(prepared.record.id, {})
        if not verdicts.apart:
            continue
        for item, apart in zip(prepared.items, verdicts.apart, strict=True):
            rows.setdefault(item.key, []).append(apart)
    return {
        record_id: frozenset(key for key, values in rows.items() if fmean(values) > limit)
        for record_id, rows in seen.items()
    }


def without(prepared: Prepared, verdicts: Verdicts, keys: frozenset[str]) -> Judged:
    """Return an answer and its verdicts without some items; all verdicts missing if none is left."""
    left = [place for place, item in enumerate(prepared.items) if item.key not in keys]
    if not left:
        problem = "the judge does not agree with itself on any item"
        raws = (None,) * len(prepared.items)
        return prepared, replace(verdicts, raws=raws, problems=(*verdicts.problems, problem))
    return (
        replace(prepared, items=tuple(prepared.items[place] for place in left)),
        replace(
            verdicts,
            raws=tuple(verdicts.raws[place] for place in left),
            quotes=tuple(verdicts.quotes[place] for place in left),
            apart=tuple(verdicts.apart[place] for place in left) if verdicts.apart else (),
        ),
    )
