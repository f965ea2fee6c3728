"""A system's concerns scored against human ones, with the controls that say what the score is worth."""

from dataclasses import dataclass, field

import numpy as np

from evals.concerns import controls as made
from evals.concerns.controls import Permuted, Rule
from evals.concerns.counts import (
    Counts,
    counts_of,
    label_accuracy,
    macro_of,
    per_category,
    per_severity,
    per_source,
    rates_of,
    soft_of,
)
from evals.concerns.curves import curves_of
from evals.concerns.encoder import Encoder
from evals.concerns.groups import group_intervals_of
from evals.concerns.match import Matching, match
from evals.concerns.panel import Panel
from evals.concerns.retrieval import Index, Paper
from evals.concerns.similarity import Similarity
from evals.concerns.threshold import Threshold
from evals.concerns.uncertainty import DRAWS, intervals_of
from evals.errors import LabError
from evals.schema.reviewscores import (
    ArticleScore,
    Assignment,
    Control,
    Controls,
    Curves,
    Headline,
    MatchedPair,
    Matcher,
    ReviewScore,
)

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
        counts.table,
        None if by_chance is None else by_chance.matched,
        measuring.draws,
        measuring.seed,
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


def _headline(
    f1: float, by_chance: Permuted | None, spans: dict[str, tuple[float, float] | None]
) -> Headline:
    below = None if by_chance is None else by_chance.control.f1
    return Headline(
        f1_above_permuted=None if below is None else f1 - below,
        interval=spans.get("f1_above_permuted"),
        f1=f1,
        f1_permuted=below,
    )


def _controls(
    panel: Panel, counts: Counts, by_chance: Permuted | None, measuring: Measuring
) -> Controls | None:
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
        notes["generic"] = (
            "needs an encoder: similarities from a file say nothing about other texts"
        )
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
    note = (
        f"human concerns on the {len(library.searched)} papers most alike in words, as many as were"
        " predicted"
    )
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


def _warnings(
    panel: Panel, measuring: Measuring, passing: float | None, by_chance: Permuted | None
) -> list[str]:
    found = []
    if passing is not None and passing > SATURATED:
        found.append(
            f"{100 * passing:.1f} % of best similarities pass the threshold"
            f" {measuring.threshold.value:.3f}: matching only counts list lengths here; use"
            " --threshold auto or another encoder"
        )
    if measuring.threshold.is_rough:
        found.append(
            f"the threshold rests on {measuring.threshold.n} similarities only; it is rough"
        )
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
