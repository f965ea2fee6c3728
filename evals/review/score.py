"""A system's concerns scored against human ones, with the controls that say what the score is worth."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from evals.errors import LabError
from evals.review import controls as made
from evals.review.controls import Index, Paper, Permuted, Rule, permuted
from evals.review.match import Encoder, Lists, Matching, Panel, Similarity, Threshold, match
from evals.review.rates import (
    DRAWS,
    Counts,
    counts_of,
    group_intervals_of,
    intervals_of,
    label_accuracy,
    macro_of,
    per_category,
    per_severity,
    per_source,
    rates_of,
    soft_of,
)
from evals.schema.reports import (
    ArticleScore,
    Assignment,
    Control,
    Controls,
    CurvePoint,
    Curves,
    Headline,
    MatchedPair,
    Matcher,
    ReviewScore,
)

THRESHOLDS = 9
LENGTHS = (1, 3, 5, 8, 10, 12, 15, 20, 30)
ROUNDS = 2
"""Rounds of permuting at each point."""


class Shortened:
    """Similarities of the first concerns of each list."""

    def __init__(self, whole: Similarity, length: int) -> None:
        self._whole = whole
        self._length = length
        self.is_crossing = whole.is_crossing

    def block(self, predicted: int, human: int) -> np.ndarray:
        """Return the first rows of a block."""
        return self._whole.block(predicted, human)[: self._length]


def curves_of(panel: Panel, similarity: Similarity, rule: Rule, found: Matching, seed: int) -> Curves:
    """Return the score over thresholds around those that matter, and over caps on list length."""
    return Curves(
        thresholds=tuple(
            _point(panel, similarity, Rule(each, rule.assignment), each, seed)
            for each in thresholds_of(found, rule.threshold)
        ),
        lengths=tuple(_point(first(panel, n), Shortened(similarity, n), rule, n, seed) for n in lengths_of(panel)),
    )


def thresholds_of(found: Matching, used: float) -> list[float]:
    """Return thresholds at which between all and few best similarities pass, and the one in use."""
    best = found.best[~np.isnan(found.best)]
    shares = np.linspace(0.0, 0.95, THRESHOLDS - 1)
    spread = [round(float(each), 4) for each in np.quantile(best, shares)] if len(best) else []
    return sorted({*spread, round(used, 4)})


def lengths_of(panel: Panel) -> list[int]:
    """Return the caps that change something, and the length of the longest list."""
    longest = int(panel.predicted.sizes.max(initial=0))
    return [n for n in LENGTHS if n < longest] + ([longest] if longest else [])


def first(panel: Panel, length: int) -> Panel:
    """Return a panel with only the first concerns of each predicted list."""
    lists = panel.predicted
    place = np.arange(len(lists.texts)) - np.repeat(lists.start[:-1], lists.sizes)
    kept = np.flatnonzero(place < length)
    shorter = Lists(
        texts=tuple(lists.texts[i] for i in kept.tolist()),
        start=np.concatenate([[0], np.cumsum(np.minimum(lists.sizes, length))]).astype(np.intp),
        category=lists.category[kept],
        severity=lists.severity[kept],
        place=lists.place[kept],
    )
    return replace(panel, predicted=shorter)


def _point(panel: Panel, similarity: Similarity, rule: Rule, at: float, seed: int) -> CurvePoint:
    found = match(panel, similarity, rule.threshold, rule.assignment)
    rates = rates_of(counts_of(panel, found).table.sum(axis=0), len(panel.article_ids))
    by_chance = permuted(panel, similarity, rule, ROUNDS, seed)
    return CurvePoint(
        at=at,
        precision=rates.precision,
        recall=rates.recall,
        f1=rates.f1,
        f1_permuted=None if by_chance is None else by_chance.control.f1,
        n_predicted=round(rates.n_predicted),
    )


def best_length(points: Sequence[CurvePoint]) -> CurvePoint | None:
    """Return the point with the greatest F1 above its permuted control, None where there is none."""
    known = [point for point in points if point.f1_permuted is not None]
    return max(known, key=lambda point: point.f1 - (point.f1_permuted or 0.0), default=None)


SATURATED = 0.99
"""Share of best similarities above the threshold from which matching only counts."""


@dataclass(frozen=True)
class Library:
    """Papers for the BM25 control: the ones that are scored, and those whose concerns are borrowed."""

    scored: tuple[Paper, ...]
    searched: tuple[Paper, ...]


@dataclass(frozen=True)
class Measuring:
    """What a score is made with; `encoder` None means words, or similarities from a file."""

    similarity: Similarity
    encoder: Encoder | None
    threshold: Threshold
    matcher: Matcher
    has_controls: bool = True
    has_articles: bool = False
    library: Library | None = None
    draws: int = DRAWS
    seed: int = 0
    is_lexical: bool = False
    notes: tuple[str, ...] = field(default=())

    @property
    def rule(self) -> Rule:
        """The threshold and the way pairs are assigned."""
        return Rule(self.threshold.value, self.assignment)

    @property
    def assignment(self) -> Assignment:
        """How pairs are assigned."""
        return self.matcher.assignment


def score(system: str, panel: Panel, measuring: Measuring) -> ReviewScore:
    """Return everything that is known about how a system's concerns agree with human ones."""
    found = match(panel, measuring.similarity, measuring.threshold.value, measuring.assignment)
    counts = counts_of(panel, found)
    by_chance = None
    if measuring.has_controls:
        by_chance = made.permuted(panel, measuring.similarity, measuring.rule, seed=measuring.seed)
    micro = rates_of(counts.table.sum(axis=0), len(panel.article_ids))
    spans = intervals_of(
        counts.table, None if by_chance is None else by_chance.matched, measuring.draws, measuring.seed
    )
    categories = per_category(panel, found)
    passing = passing_share(found, measuring.threshold.value)
    return ReviewScore(
        system=system,
        headline=_headline(micro.f1, by_chance, spans),
        micro=micro,
        macro=macro_of(counts, categories),
        soft=soft_of(counts),
        per_source=per_source(panel, counts),
        per_category=categories,
        per_severity=per_severity(panel, found),
        intervals=spans,
        group_intervals=group_intervals_of(panel, found, measuring.draws, measuring.seed),
        labels=label_accuracy(panel, found),
        controls=_controls(panel, counts, by_chance, measuring),
        curves=_curves(panel, found, measuring),
        matcher=measuring.matcher,
        coverage=panel.coverage,
        best_similarities_passing=passing,
        warnings=(*measuring.notes, *_warnings(panel, measuring, passing, by_chance)),
        reference_sha256=panel.reference_sha256,
        seed=measuring.seed,
        draws=measuring.draws,
        articles=articles_of(panel, found, counts, by_chance) if measuring.has_articles else None,
    )


def passing_share(found: Matching, threshold: float) -> float | None:
    """Return the share of predicted concerns whose best similarity passes, None without any."""
    best = found.best[~np.isnan(found.best)]
    return float((best >= np.float32(threshold)).mean()) if len(best) else None


def articles_of(
    panel: Panel, found: Matching, counts: Counts, by_chance: Permuted | None = None
) -> tuple[ArticleScore, ...]:
    """Return the counts and matches of each article, places as in the files."""
    pairs: list[list[MatchedPair]] = [[] for _ in panel.article_ids]
    article = panel.predicted.article
    for place in np.flatnonzero(found.is_matched).tolist():
        pair = MatchedPair(
            predicted=int(panel.predicted.place[place]),
            human=int(panel.human.place[found.human[place]]),
            similarity=float(found.similarity[place]),
        )
        pairs[article[place]].append(pair)
    rows = counts.table
    scored = []
    for index, name in enumerate(panel.article_ids):
        rates = rates_of(rows[index], 1)
        scored.append(
            ArticleScore(
                article_id=name,
                source=panel.sources[index],
                n_human=rates.n_human,
                n_predicted=round(rates.n_predicted),
                n_matched=round(rates.n_matched),
                n_major=round(rows[index][5]),
                n_major_matched=round(rows[index][4]),
                soft=float(rows[index][3]),
                precision=rates.precision,
                recall=rates.recall,
                f1=rates.f1,
                is_answered=bool(panel.is_answered[index]),
                pairs=tuple(pairs[index]),
                n_matched_permuted=None if by_chance is None else float(by_chance.matched[index]),
            )
        )
    return tuple(scored)


def _headline(f1: float, by_chance: Permuted | None, spans: dict[str, tuple[float, float] | None]) -> Headline:
    below = None if by_chance is None else by_chance.control.f1
    return Headline(
        f1_above_permuted=None if below is None else f1 - below,
        interval=spans.get("f1_above_permuted"),
        f1=f1,
        f1_permuted=below,
    )


def _controls(panel: Panel, counts: Counts, by_chance: Permuted | None, measuring: Measuring) -> Controls | None:
    if not measuring.has_controls:
        return None
    notes: dict[str, str] = {}
    if by_chance is None:
        notes["permuted"] = (
            "needs an encoder and two articles with predictions: similarities from a file say nothing"
            " about other papers"
        )
    return Controls(
        permuted=None if by_chance is None else by_chance.control,
        count_bound=made.count_bound(panel, counts),
        generic=_generic(panel, measuring, notes),
        bm25=_bm25(panel, measuring, notes),
        notes=notes,
    )


def _generic(panel: Panel, measuring: Measuring, notes: dict[str, str]) -> Control | None:
    if measuring.encoder is None and not measuring.is_lexical:
        notes["generic"] = "needs an encoder: similarities from a file say nothing about other texts"
        return None
    try:
        return made.generic(panel, measuring.encoder, measuring.rule)
    except LabError as error:
        notes["generic"] = str(error)
        return None


def _bm25(panel: Panel, measuring: Measuring, notes: dict[str, str]) -> Control | None:
    """Return the retrieval control: lists as long as the predicted ones, from other papers."""
    library = measuring.library
    if library is None:
        notes["bm25"] = "needs the texts of the papers: --papers and --retrieve-from"
        return None
    if measuring.encoder is None and not measuring.is_lexical:
        notes["bm25"] = "needs an encoder: similarities from a file say nothing about other texts"
        return None
    index = Index(library.searched)
    by_id = {paper.id: paper for paper in library.scored}
    asked = [by_id.get(name, Paper(name, "")) for name in panel.article_ids]
    lists = [
        index.concerns(neighbours, n)
        for neighbours, n in zip(index.nearest(asked), panel.predicted.sizes.tolist(), strict=True)
    ]
    note = f"human concerns on the {len(library.searched)} papers most alike in words, as many as were predicted"
    n_unread = sum(1 for paper in asked if not paper.text)
    if n_unread:
        notes["bm25"] = f"{n_unread} articles have no text in --papers and got no list"
    try:
        return made.listed(panel, lists, measuring.encoder, measuring.rule, note)
    except LabError as error:
        notes["bm25"] = str(error)
        return None


def _curves(panel: Panel, found: Matching, measuring: Measuring) -> Curves | None:
    if not measuring.has_controls:
        return None
    return curves_of(panel, measuring.similarity, measuring.rule, found, measuring.seed)


def _warnings(panel: Panel, measuring: Measuring, passing: float | None, by_chance: Permuted | None) -> list[str]:
    found = []
    if passing is not None and passing > SATURATED:
        found.append(
            f"{100 * passing:.1f} % of best similarities pass the threshold"
            f" {measuring.threshold.value:.3f}: matching only counts list lengths here; use"
            " --threshold auto or another encoder"
        )
    if measuring.threshold.is_rough:
        found.append(f"the threshold rests on {measuring.threshold.n} similarities only; it is rough")
    if by_chance is not None and len(set(panel.sources)) > 1:
        alone = [name for name in set(panel.sources) if panel.sources.count(name) == 1]
        if alone:
            found.append(f"{len(alone)} sources have one article; it was permuted across sources")
    missing = panel.coverage.n_articles - panel.coverage.n_answered
    if missing:
        found.append(f"{missing} of {panel.coverage.n_articles} articles have no answer: recall 0")
    if panel.coverage.unknown:
        shown = ", ".join(panel.coverage.unknown[:3])
        found.append(f"predictions on articles that are not in the reference, left out: {shown}")
    return found
