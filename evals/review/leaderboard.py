"""Scores of several systems: read back, held to one instrument and reference, tested in pairs, ranked."""

import json
from collections import defaultdict
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

from pydantic import ValidationError

from evals.compare import Difference, Pairing, paired_differences
from evals.errors import IncomparableReports, LabError
from evals.leaderboard import RULE as RANKS
from evals.leaderboard import pairwise_differences, ranks_from
from evals.review.rates import DRAWS
from evals.review.task import Review
from evals.schema.reports import ArticleScore, Board, BoardRow, PairedRow, ReviewScore
from evals.stats.intervals import DRAWS as SWAPS
from evals.stats.paired import holm

ABOVE = "f1_above_permuted"
METRICS = tuple(Review.metrics)
BESIDE = ("fingerprint", "against", "boards", "steps")
"""Keys that only a run's record, a report, a leaderboard and a comparison of checkpoints have."""
RULE = f"{RANKS} Scores of different matchers or references never share a table."


def read_score(path: Path) -> ReviewScore:
    """Return a score that `assay review score --out` wrote; LabError if the file is none."""
    try:
        return ReviewScore.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise LabError(f"there is no file {path}; write one with `assay review score --out SCORE.json`.") from None
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "(whole file)"
        raise LabError(
            f"{path} is no score of `assay review score --out`: field {field!r}, {first['msg']}. Published"
            " results of other projects are read by `assay review import`."
        ) from None


def is_beside_scores(path: Path) -> bool:
    """Return whether a file is one that commands write beside scores, and none that could be ranked."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return False
    return isinstance(document, dict) and any(key in document for key in BESIDE)


def check_comparable(scores: Sequence[ReviewScore]) -> None:
    """Raise IncomparableReports unless all scores were made alike; the message names what differs."""
    first = scores[0]
    for other in scores[1:]:
        for what, one, two in (
            ("matcher", first.matcher.instrument, other.matcher.instrument),
            ("reference", first.reference_sha256[:12], other.reference_sha256[:12]),
        ):
            if one != two:
                raise IncomparableReports(
                    f"{first.system} and {other.system} were scored with another {what}: {one} and {two}."
                    " Score both again with the same options on the same reference."
                )
    names = [each.system for each in scores]
    if len(set(names)) < len(names):
        raise IncomparableReports(
            f"systems have the same name: {', '.join(names)}; give each its own with `assay review score --name`."
        )


def paired_tests(
    scores: Sequence[ReviewScore], metrics: Sequence[str], draws: int = DRAWS, seed: int = 0
) -> tuple[PairedRow, ...]:
    """Return every pair's difference in each metric, p corrected for all; none without articles."""
    if any(each.articles is None for each in scores):
        return ()
    asked = {name: Review.metrics[name] for name in metrics if name != ABOVE or _has_permuted(scores)}
    found: list[tuple[ReviewScore, ReviewScore, Difference]] = []
    for one, two in combinations(scores, 2):
        sides = one.articles or (), two.articles or ()
        differences, _ = paired_differences(sides, asked, Pairing(draws=max(draws, SWAPS), seed=seed))
        found += [(one, two, each) for each in differences]
    # Systems without any difference, or nothing to compare, differ by chance alone.
    ps = [1.0 if each.p_permutation is None else each.p_permutation for *_, each in found]
    return tuple(
        PairedRow(
            first=one.system,
            second=two.system,
            metric=each.metric,
            difference=each.value or 0.0,
            interval=None if each.low is None or each.high is None else (each.low, each.high),
            p=p,
            p_holm=corrected,
            is_exact=each.is_exact,
            n_informative=sum(
                a.grade.counts != b.grade.counts or a.n_matched_permuted != b.n_matched_permuted
                for a, b in zip(_by_id(one), _by_id(two), strict=True)
            ),
            n_articles=len(one.articles or ()),
        )
        for (one, two, each), p, corrected in zip(found, ps, holm(ps), strict=True)
    )


def _by_id(score: ReviewScore) -> list[ArticleScore]:
    return sorted(score.articles or (), key=lambda each: each.article_id)


def _has_permuted(scores: Sequence[ReviewScore]) -> bool:
    return all(each.n_matched_permuted is not None for score in scores for each in score.articles or ())


def boards_of(scores: Sequence[ReviewScore], order: str = ABOVE) -> tuple[Board, ...]:
    """Return a leaderboard for each instrument and reference, most systems first."""
    together: dict[tuple[object, ...], list[ReviewScore]] = defaultdict(list)
    for score in scores:
        together[(score.matcher.instrument, score.reference_sha256)].append(score)
    found = [_board(group, order) for group in together.values()]
    return tuple(sorted(found, key=lambda board: -len(board.rows)))


def place_of(score: ReviewScore, order: str) -> float:
    """Return what a system is ordered by; systems without a permuted control come last."""
    if order == ABOVE:
        above = score.headline.f1_above_permuted
        return -1.0 if above is None else above
    return float(getattr(score.micro, order))


def _board(scores: Sequence[ReviewScore], order: str) -> Board:
    check_comparable(scores)
    ordered = sorted(scores, key=lambda score: (-place_of(score, order), score.system))
    is_tested = all(each.articles is not None for each in ordered) and (order != ABOVE or _has_permuted(ordered))
    ranks: Sequence[int | None] = [None] * len(ordered)
    if is_tested:
        sides = [each.articles or () for each in ordered]
        ranks = ranks_from(pairwise_differences(sides, order, Review.metrics[order]), len(ordered))
    first = ordered[0]
    return Board(
        matcher=first.matcher,
        reference_sha256=first.reference_sha256,
        n_human=first.micro.n_human,
        order=order,
        rows=tuple(_row(score, rank) for score, rank in zip(ordered, ranks, strict=True)),
        tests=paired_tests(ordered, [order]),
    )


def _row(score: ReviewScore, rank: int | None) -> BoardRow:
    controls = score.controls
    return BoardRow(
        rank=rank,
        system=score.system,
        f1_above_permuted=score.headline.f1_above_permuted,
        interval_above=score.headline.interval,
        intervals=score.intervals,
        micro=score.micro,
        controls={}
        if controls is None
        else {
            name: control.f1
            for name in ("permuted", "generic", "bm25", "count_bound")
            if (control := getattr(controls, name)) is not None
        },
        coverage=score.coverage,
        made_by=score.made_by,
    )
