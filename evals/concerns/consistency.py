"""Statements of a table of results that cannot all be true: counts and rates are held against each other."""

from collections.abc import Iterator, Mapping

from evals.schema.reviewreports import PublishedGroup, PublishedResult
from evals.schema.reviewscores import Rates, ReviewScore

EXACT = 1e-6
"""Difference between rates of a file that gives many digits."""
ROUNDED = 10
"""A value with fewer digits than this was rounded when it was published."""


def faults_of(result: PublishedResult) -> tuple[str, ...]:
    """Return what in a published result cannot be, each in one sentence with the figures."""
    return (*_rates(result), *_counts(result), *_spans(result), *_groups(result))


def faults_of_score(score: ReviewScore) -> tuple[str, ...]:
    """Return what in a score of ours cannot be: files can be edited, and bugs can be ours."""
    micro = score.micro
    sources = {name: _group(rates) for name, rates in score.per_source.items()}
    result = PublishedResult(
        system=score.system,
        file="",
        sha256="",
        form="result record",
        precision=micro.precision,
        recall=micro.recall,
        f1=micro.f1,
        soft_precision=score.soft.precision,
        soft_recall=score.soft.recall,
        n_articles=micro.n_articles,
        n_human=micro.n_human,
        n_predicted=round(micro.n_predicted),
        n_matched=round(micro.n_matched),
        interval_recall=score.intervals.get("recall"),
        interval_precision=score.intervals.get("precision"),
        groups=sources,
    )
    categories = {
        name: _group(rates).model_copy(update={"n_articles": None})
        for name, rates in score.per_category.items()
    }
    by_category = result.model_copy(update={"groups": categories})
    return tuple(dict.fromkeys([*faults_of(result), *_groups(by_category)]))


def share_of(value: float, n: int) -> int | None:
    """Return the whole number k with k / n equal to a value as far as its digits go; None without one.

    share_of(0.625, 40)  ->  25; share_of(0.625, 39)  ->  None: no k of 39 is 0.625
    """
    if n <= 0:
        return 0 if value == 0 else None
    k = round(value * n)
    return k if abs(k / n - value) <= _slack(value) else None


def _rates(result: PublishedResult) -> Iterator[str]:
    named = (
        ("recall", result.recall),
        ("precision", result.precision),
        ("F1", result.f1),
        ("major recall", result.recall_major),
    )
    for name, value in named:
        if value is not None and not 0 <= value <= 1:
            yield f"{name} is {value:g}; a share lies from 0 to 1"
    if not _agrees(result.f1, result.precision, result.recall):
        mean = _harmonic(result.precision, result.recall)
        yield f"F1 is {result.f1:g}, but precision and recall make {mean:.4f}"
    for name, soft, hard in (
        ("recall", result.soft_recall, result.recall),
        ("precision", result.soft_precision, result.precision),
    ):
        if soft is not None and soft > hard + _slack(soft) + _slack(hard):
            yield (
                f"soft {name} {soft:.4f} is above {name} {hard:.4f}: a match counts for 1 at most, so the two"
                " were averaged in different ways"
            )


def _counts(result: PublishedResult) -> Iterator[str]:
    found: dict[str, int] = {}
    if result.n_matched is not None:
        found["stated"] = result.n_matched
    for name, value, n in (
        ("recall", result.recall, result.n_human),
        ("precision", result.precision, result.n_predicted),
    ):
        if n is None:
            continue
        k = share_of(value, n)
        if k is None:
            yield f"{name} {value:g} is no whole number of {n:,} concerns"
        elif n * _slack(value) < 0.5:
            found[f"by {name}"] = k
    if len(set(found.values())) > 1:
        listed = ", ".join(f"{n:,} {how}" for how, n in found.items())
        yield f"the matched concerns are {listed}: they should be the same"
    limit = min((n for n in (result.n_human, result.n_predicted) if n is not None), default=None)
    if limit is not None and found and max(found.values()) > limit:
        yield f"{max(found.values()):,} concerns are matched one to one, but a list has only {limit:,}"
    if result.n_articles is not None:
        settled = (result.n_none or 0) + (result.n_all or 0)
        if settled > result.n_articles:
            yield f"{settled} articles are found wholly or not at all, but there are {result.n_articles}"


def _spans(result: PublishedResult) -> Iterator[str]:
    for name, value, span in (
        ("recall", result.recall, result.interval_recall),
        ("precision", result.precision, result.interval_precision),
    ):
        if span is not None and not span[0] - EXACT <= value <= span[1] + EXACT:
            yield f"{name} {value:.4f} lies outside its interval {span[0]:.4f} to {span[1]:.4f}"


def _groups(result: PublishedResult) -> Iterator[str]:
    groups = result.groups
    for name, group in groups.items():
        yield from _group_faults(name, group)
    yield from _sums(result, groups)


def _group_faults(name: str, group: PublishedGroup) -> Iterator[str]:
    if group.n_human is not None and share_of(group.recall, group.n_human) is None:
        yield f"recall {group.recall:g} of {name} is no whole number of {group.n_human:,} concerns"
    if (
        group.f1 is not None
        and group.precision is not None
        and not _agrees(group.f1, group.precision, group.recall)
    ):
        yield f"F1 {group.f1:g} of {name} does not follow from its precision and recall"
    if group.n_predicted == 0 and group.n_articles and group.n_human:
        yield f"{name} has {group.n_articles} articles and not one predicted concern: counted as misses"


def _sums(result: PublishedResult, groups: Mapping[str, PublishedGroup]) -> Iterator[str]:
    if not groups or any(each.n_human is None for each in groups.values()):
        return
    total = sum(each.n_human or 0 for each in groups.values())
    if result.n_human is not None and total != result.n_human:
        yield f"the groups have {total:,} human concerns together, the whole {result.n_human:,}"
        return
    matched = sum(
        each.n_matched if each.n_matched is not None else each.recall * (each.n_human or 0)
        for each in groups.values()
    )
    slack = sum(
        0.5 + (each.n_human or 0) * _slack(each.recall)
        for each in groups.values()
        if each.n_matched is None
    )
    stated = result.recall * (result.n_human or total)
    if abs(matched - stated) > 1 + slack:
        yield (
            f"the groups' recalls make {matched:,.0f} matched concerns, the whole {stated:,.0f}: one of the"
            " two is not of pooled counts"
        )


def _agrees(f1: float, precision: float, recall: float) -> bool:
    slack = _slack(f1) + _slack(precision) + _slack(recall)
    return abs(f1 - _harmonic(precision, recall)) <= slack


def _harmonic(precision: float, recall: float) -> float:
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def _slack(value: float) -> float:
    """Return how far a value may be from the true one: half of its last digit, if it was rounded."""
    digits = len(repr(value).partition(".")[2])
    return 0.5 * 10**-digits + EXACT if digits < ROUNDED else EXACT


def _group(rates: Rates) -> PublishedGroup:
    return PublishedGroup(
        precision=rates.precision,
        recall=rates.recall,
        f1=rates.f1,
        n_articles=rates.n_articles,
        n_human=rates.n_human,
        n_predicted=round(rates.n_predicted),
        n_matched=round(rates.n_matched),
    )
