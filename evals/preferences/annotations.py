"""What people say of answers: whose turn it is, what all of them say together, and how far they agree.

An item is annotated by as many raters as its project asks for; discarded annotations and drafts are nobody's word yet.
"""

import hashlib
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from importlib.resources import files
from itertools import pairwise
from statistics import fmean, median
from typing import Any, NamedTuple, TypeVar

from evals.errors import LabError
from evals.io import group_by
from evals.schema import Record
from evals.schema.reports import Metric
from evals.schema.votes import Annotation, AnnotationItem, AnnotationProject, Dimension, Guidelines, Thumb, VerdictLabel
from evals.stats.agreement import Rating, rater_agreement
from evals.stats.intervals import wilson

Word = TypeVar("Word", Thumb, VerdictLabel)
WHOLE = ("thumb", "verdict")
"""What is said of an answer as a whole, beside the ratings by dimension."""
DRAFT_HOLDS = timedelta(days=1)
"""How long a draft keeps its rater's place; who comes back later goes on all the same."""
FAR_APART = 0.5
"""Share of a dimension's range from which two ratings disagree: 2 steps of 1 to 5."""


RUBRICS = ("general", "spaceflight")


def rubric_text(name: str) -> str:
    """Return the guidelines of one of `RUBRICS`, as TOML."""
    return files("evals.preferences").joinpath(f"rubric-{name}.toml").read_text("utf-8")


@cache
def usual_guidelines() -> Guidelines:
    """Return the guidelines that a project begins with."""
    return Guidelines.model_validate(tomllib.loads(rubric_text(RUBRICS[0])))


def bad_rating(guidelines: Guidelines, ratings: Mapping[str, float]) -> tuple[str, str] | None:
    """Return the first rating that does not fit guidelines, and why."""
    dimensions = {each.name: each for each in guidelines.dimensions}
    for name, value in ratings.items():
        each = dimensions.get(name)
        if each is None:
            return name, f"the project rates {', '.join(dimensions) or 'nothing'}"
        if not each.low <= value <= each.high:
            return name, f"{value} is not within {each.low} to {each.high}"
    return None


# ---- known labels and repeats -------------------------------------------------------------------

AGAIN = ":again"
"""Ends the id of an answer that is asked a second time."""
PAUSE = timedelta(minutes=10)
"""Between two submissions: a longer time was a pause."""


def is_repeat(item: str) -> bool:
    """Whether an answer, by its id, is asked a second time."""
    return item.endswith(AGAIN)


def with_checks(items: Sequence[AnnotationItem], gold: float, again: float) -> list[AnnotationItem]:
    """Return items of which a share has the label that their verdict gives, with a share of them a second time at the end.

    The choice is the same every time; LabError where shares are asked for and no item has a verdict.
    """

    def chosen(among: Sequence[AnnotationItem], share: float, salt: str) -> set[str]:
        order = sorted(among, key=lambda each: hashlib.sha256(f"{salt} {each.id}".encode()).hexdigest())
        return {each.id for each in order[: round(share * len(items))]}

    judged = [each for each in items if each.verdict is not None and each.verdict.reward is not None]
    if gold and not judged:
        raise LabError(
            "no answer here has a verdict by its answer key; ask questions that have one, or set the share to 0."
        )
    known, twice = chosen(judged, gold, "gold"), chosen(items, again, "again")
    held = [
        each.model_copy(update={"gold": each.verdict.verdict}) if each.id in known and each.verdict else each
        for each in items
    ]
    return held + [
        each.model_copy(update={"id": f"{each.id}{AGAIN}", "gold": None}) for each in items if each.id in twice
    ]


class RaterCheck(Record):
    """How a rater did: shares with intervals over answers with a known label, and over those asked twice; seconds an answer took.

    `seconds` is the median time from one submission to the next, pauses of more than ten minutes left out.
    """

    rater: str
    submitted: int
    gold: Metric
    itself: Metric
    seconds: float | None


def check_raters(
    project: AnnotationProject, items: Sequence[AnnotationItem], annotations: Iterable[Annotation]
) -> list[RaterCheck]:
    """Return how each rater did, those with most answers first."""
    gold = {each.id: each.gold for each in items if each.gold}
    by_rater: dict[str, dict[str, Annotation]] = {}
    for each in annotations:
        if each.state == "submitted" and not each.is_adjudication:
            by_rater.setdefault(each.rater, {})[each.item] = each
    found = []
    for rater, said in by_rater.items():
        right = [said[name].verdict == label for name, label in gold.items() if name in said and said[name].verdict]
        twice = [
            (said[name.removesuffix(AGAIN)], one) for name, one in said.items() if name.removesuffix(AGAIN) in said
        ]
        same = [not differences(project, pair) for pair in twice if is_repeat(pair[1].item)]
        times = sorted(each.updated_at for each in said.values())
        gaps = [after - before for before, after in pairwise(times) if timedelta(0) < after - before <= PAUSE]
        seconds = median(gap.total_seconds() for gap in gaps) if gaps else None
        checked = RaterCheck(rater=rater, submitted=len(said), gold=_share(right), itself=_share(same), seconds=seconds)
        found.append(checked)
    return sorted(found, key=lambda each: (-each.submitted, each.rater))


def _share(agreed: Sequence[bool]) -> Metric:
    low, high = wilson(sum(agreed), len(agreed)) or (None, None)
    return Metric(value=fmean(agreed) if agreed else None, n=len(agreed), low=low, high=high)


# ---- the queue --------------------------------------------------------------------------------


def queue(
    project: AnnotationProject,
    items: Sequence[AnnotationItem],
    annotations: Sequence[Annotation],
    rater: str,
    now: datetime,
) -> list[AnnotationItem]:
    """Return what a rater has still to do, in order: drafts first, then what others have begun, then the rest.

    Left out is what is assigned to others alone, and what has as many raters as the project asks for; a draft of
    somebody else counts among them for `DRAFT_HOLDS`.
    """
    mine = {each.item: each.state for each in annotations if each.rater == rater and not each.is_adjudication}
    others = Counter(
        each.item
        for each in annotations
        if each.rater != rater
        and not each.is_adjudication
        and (each.state == "submitted" or (each.state == "draft" and now - each.updated_at < DRAFT_HOLDS))
    )

    def is_open(item: AnnotationItem) -> bool:
        if item.id in mine:
            return mine[item.id] == "draft"
        is_asked = not item.assigned or rater in item.assigned
        return is_asked and (rater in item.assigned or others[item.id] < project.raters_per_item)

    waiting = [item for item in items if is_open(item)]
    return sorted(waiting, key=lambda item: (item.id not in mine, rater not in item.assigned, not others[item.id]))


class AnnotationProgress(NamedTuple):
    """How far a project is: items by state, and annotations still wanted."""

    items: int
    complete: int
    begun: int
    discarded: int
    submitted: int
    wanted: int


def progress(
    project: AnnotationProject, items: Sequence[AnnotationItem], annotations: Sequence[Annotation]
) -> AnnotationProgress:
    """Count the items of a project; complete = submitted by as many raters as were asked for."""
    own = [each for each in annotations if not each.is_adjudication]
    submitted = Counter(each.item for each in own if each.state == "submitted")
    touched = {each.item for each in own if each.state in ("draft", "submitted")}
    discarded = {each.item for each in annotations if each.state == "discarded"} - touched
    asked = {item.id: len(item.assigned) or project.raters_per_item for item in items}
    complete = sum(submitted[item] >= n for item, n in asked.items())
    return AnnotationProgress(
        items=len(items),
        complete=complete,
        begun=len(touched & asked.keys()) - complete,
        discarded=len(discarded & asked.keys()),
        submitted=sum(submitted[item] for item in asked),
        wanted=sum(asked.values()),
    )


# ---- what several people say together -----------------------------------------------------------


class Settled(NamedTuple):
    """What the raters of one item say together; `raters` of them submitted. `by` is who settled a disagreement.

    `ratings` are means by dimension; `thumb` and `verdict` what more than half say, None where nobody has a majority.
    """

    item: AnnotationItem
    raters: int
    ratings: dict[str, float]
    thumb: Thumb | None
    verdict: VerdictLabel | None
    corrected: str | None
    annotations: tuple[Annotation, ...]
    by: str | None = None

    def quality(self, dimensions: Sequence[Dimension]) -> float | None:
        """Return the mean rating on a scale of 0 to 1, None where nothing was rated."""
        rated = (each for each in dimensions if each.name in self.ratings)
        shares = [(self.ratings[each.name] - each.low) / (each.high - each.low) for each in rated]
        return fmean(shares) if shares else None

    def worth(self, dimensions: Sequence[Dimension]) -> float | None:
        """Return the mean rating on a scale of 0 to 1, else what the thumbs say, None where neither was given."""
        quality = self.quality(dimensions)
        return quality if quality is not None or self.thumb is None else float(self.thumb == "up")

    def is_good(self, dimensions: Sequence[Dimension]) -> bool | None:
        """Return whether people call the answer good: their thumbs, else ratings in the upper or lower quarter."""
        if self.thumb is not None:
            return self.thumb == "up"
        quality = self.quality(dimensions)
        return None if quality is None or 0.25 < quality < 0.75 else quality >= 0.75


def settle_annotations(items: Iterable[AnnotationItem], annotations: Iterable[Annotation]) -> list[Settled]:
    """Return what is said of each item that somebody submitted, in order; an adjudication counts alone."""
    by_item = group_by((each for each in annotations if each.state == "submitted"), lambda each: each.item)
    found = []
    for item in items:
        said = sorted(by_item.get(item.id, ()), key=lambda each: each.updated_at)
        if not said or is_repeat(item.id):  # what is said a second time says something of the rater alone
            continue
        ruling = next((each for each in reversed(said) if each.is_adjudication), None)
        counted = [ruling] if ruling else said
        names = dict.fromkeys(name for each in counted for name in each.ratings)
        found.append(
            Settled(
                item=item,
                raters=len({each.rater for each in said if not each.is_adjudication}),
                ratings={name: fmean(each.ratings[name] for each in counted if name in each.ratings) for name in names},
                thumb=_majority(each.thumb for each in counted),
                verdict=_majority(each.verdict for each in counted),
                corrected=next((each.corrected for each in reversed(counted) if each.corrected), None),
                annotations=tuple(said),
                by=ruling.rater if ruling else None,
            )
        )
    return found


def _majority(values: Iterable[Word | None]) -> Word | None:
    given = [value for value in values if value is not None]
    winner, n = Counter(given).most_common(1)[0] if given else (None, 0)
    return winner if 2 * n > len(given) else None


def disagreements(project: AnnotationProject, settled: Settled) -> list[str]:
    """Return where the raters of an item disagree, as names of dimensions, "thumb" or "verdict"; [] once it is settled."""
    said = [each for each in settled.annotations if not each.is_adjudication]
    return [] if settled.by is not None or len(said) < 2 else differences(project, said)


def differences(project: AnnotationProject, said: Sequence[Annotation]) -> list[str]:
    """Return in what several annotations of one answer disagree, as `disagreements` names it."""
    found = [name for name in WHOLE if len({getattr(each, name) for each in said} - {None}) > 1]
    for each in project.guidelines.dimensions:
        rated = [one.ratings[each.name] for one in said if each.name in one.ratings]
        if rated and (max(rated) - min(rated)) / (each.high - each.low) >= FAR_APART:
            found.append(each.name)
    return found


def agreements(
    project: AnnotationProject, annotations: Iterable[Annotation], **sampling: Any
) -> dict[str, Mapping[str, Metric]]:
    """Return the figures of agreement by dimension, and for thumbs and verdicts; what nobody gave is left out.

    Ratings are numbers, so a miss by one step is nearly agreement (`evals.stats.agreement.WEIGHTED_NAMES`).
    """
    said = [each for each in annotations if each.state == "submitted" and not each.is_adjudication]
    said = [each for each in said if not is_repeat(each.item)]
    found: dict[str, Mapping[str, Metric]] = {}
    for each in project.guidelines.dimensions:
        rated = [Rating(one.item, one.rater, str(one.ratings[each.name])) for one in said if each.name in one.ratings]
        steps = map(str, range(each.low, each.high + 1))
        if rated:
            found[each.name] = rater_agreement(rated, steps, are_numbers=True, **sampling)
    for name in WHOLE:
        given = [Rating(one.item, one.rater, str(value)) for one in said if (value := getattr(one, name))]
        if given:
            found[name] = rater_agreement(given, ("up", "down") if name == "thumb" else (), **sampling)
    return found
