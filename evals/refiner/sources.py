"""The rubric score split by who wrote the items: does a gain on the items of training hold on others?

An answer's score by a writer is the weighted mean of what that writer's items earn, 0 where the answer is
not well formed, None where it has no such item or a verdict is missing. "above" is the difference of two
writers on the same answer; its paired difference between stages is the gain that others do not see.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from evals.refiner.checks import HARD
from evals.refiner.rubric import weighted
from evals.schema.refinerreports import RefinerRow
from evals.schema.refining import STATIC, JudgedItem, ScoredAnswer

Measure = Callable[[RefinerRow], float | None]
PREFIX = "rubric by "


def by_writer(rows: Iterable[RefinerRow]) -> Mapping[str, Measure]:
    """Return a measure for each writer of items in the rows, by its name in reports."""
    own: dict[str, None] = {}
    others: dict[str, None] = {}
    for row in rows:
        own.update(dict.fromkeys(each.writer for each in row.scored.items))
        others.update(dict.fromkeys(each.writer for each in row.other_items))
    ordered = sorted(own, key=lambda writer: writer == STATIC)
    found: dict[str, Measure] = {name_of(writer): _score(writer) for writer in ordered}
    found |= {name_of(writer): _score(writer, is_own=False) for writer in others}
    for one in ordered:
        if one != STATIC:
            found |= {f"{name_of(one)} above {other}": _above(one, other) for other in others}
    return found


def name_of(writer: str) -> str:
    """Return what the score by a writer's items is called.

    >>> name_of("static")
    'rubric by static'
    """
    return f"{PREFIX}{writer}"


def scores_by_writer(scored: ScoredAnswer) -> dict[str, float | None]:
    """Return the score of one answer by each writer of its items."""
    writers = dict.fromkeys(each.writer for each in scored.items)
    return {writer: _mean(scored, scored.items, writer) for writer in writers}


def _score(writer: str, *, is_own: bool = True) -> Measure:
    return lambda row: _mean(row.scored, row.scored.items if is_own else row.other_items, writer)


def _above(one: str, other: str) -> Measure:
    mine, theirs = _score(one), _score(other, is_own=False)

    def difference(row: RefinerRow) -> float | None:
        first, second = mine(row), theirs(row)
        return None if first is None or second is None else first - second

    return difference


def _mean(scored: ScoredAnswer, items: Sequence[JudgedItem], writer: str) -> float | None:
    chosen = [each for each in items if each.writer == writer]
    if not chosen:
        return None
    if not all(scored.format_checks[name] for name in HARD):
        return 0.0
    return weighted([each.weight for each in chosen], [each.value for each in chosen])
