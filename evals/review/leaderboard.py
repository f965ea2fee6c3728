"""Scores of several systems: read back, held to one instrument and reference, tested in pairs, ranked."""

import json
from collections import defaultdict
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
from pydantic import ValidationError

from evals.errors import IncomparableReports, LabError
from evals.leaderboard import READING
from evals.review.rates import DRAWS, Paired, PairedTest
from evals.schema.reports import ArticleScore, Board, BoardRow, PairedRow, ReviewScore
from evals.stats.intervals import Floats
from evals.stats.paired import ALPHA, holm

ABOVE = "f1_above_permuted"
METRICS = (ABOVE, "f1", "recall", "precision", "recall_major")
BESIDE = ("fingerprint", "against", "boards", "steps")
"""Keys that only a run's record, a report, a leaderboard and a comparison of checkpoints have."""
RULE = (
    "Rank = 1 + the number of systems shown to be better: the permutation p of the paired difference,"
    " corrected by Holm for all pairs in the table, is below 0.05. No system of rank 1 is shown to be worse"
    f" than another. {READING} Scores of different matchers or references never share a table."
)


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
    has_permuted = all(each.n_matched_permuted is not None for score in scores for each in score.articles or ())
    asked = [name for name in metrics if name != ABOVE or has_permuted]
    tables = [_table(score.articles or (), has_permuted=has_permuted) for score in scores]
    found: list[tuple[str, str, PairedTest]] = []
    for one, two in combinations(range(len(scores)), 2):
        paired = Paired(tables[one], tables[two])
        names = (scores[one].system, scores[two].system)
        found += [(*names, paired.test(metric, draws, seed)) for metric in asked]
    corrected = holm([test.p_permutation for *_, test in found])
    return tuple(
        PairedRow(
            first=first,
            second=second,
            metric=test.metric,
            difference=test.difference,
            interval=test.interval,
            p=test.p_permutation,
            p_holm=p,
            is_exact=test.is_exact,
            n_informative=test.n_informative,
            n_articles=test.n_articles,
        )
        for (first, second, test), p in zip(found, corrected, strict=True)
    )


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
    tests = paired_tests(ordered, [order])
    first = ordered[0]
    return Board(
        matcher=first.matcher,
        reference_sha256=first.reference_sha256,
        n_human=first.micro.n_human,
        order=order,
        rows=tuple(_row(score, tests, is_tested=_is_tested(ordered, order)) for score in ordered),
        tests=tests,
    )


def _is_tested(scores: Sequence[ReviewScore], order: str) -> bool:
    if any(each.articles is None for each in scores):
        return False
    return order != ABOVE or all(each.headline.f1_permuted is not None for each in scores)


def _row(score: ReviewScore, tests: Sequence[PairedRow], *, is_tested: bool) -> BoardRow:
    # A difference is second minus first: below zero the first is better, above zero the second.
    n_better = sum(
        test.p_holm < ALPHA
        and (
            (test.second == score.system and test.difference < 0)
            or (test.first == score.system and test.difference > 0)
        )
        for test in tests
    )
    controls = score.controls
    return BoardRow(
        rank=1 + n_better if is_tested else None,
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


def _table(articles: Sequence[ArticleScore], *, has_permuted: bool) -> Floats:
    rows = [
        (
            each.n_matched,
            each.n_human,
            each.n_predicted,
            each.soft,
            each.n_major_matched,
            each.n_major,
            *((each.n_matched_permuted or 0.0,) if has_permuted else ()),
        )
        for each in sorted(articles, key=lambda each: each.article_id)
    ]
    return np.array(rows, dtype=float)
