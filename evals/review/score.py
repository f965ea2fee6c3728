"""A system's concerns scored against human ones, with the controls that say what the score is worth."""

from dataclasses import dataclass
from functools import partial

import numpy as np

from evals.errors import LabError
from evals.report import summarise
from evals.review import controls as made
from evals.review.controls import Index, Paper, Permuted
from evals.review.match import (
    CATEGORY_NAMES,
    FEW,
    MAJOR,
    SEVERITY_NAMES,
    UNATTRIBUTED,
    Encoder,
    Matching,
    Panel,
    Similarity,
    match,
)
from evals.review.page import span_of
from evals.review.rates import counts_of, label_accuracy, macro_of, rates_by, rates_of, soft_of
from evals.schema.reports import (
    ArticleScore,
    Control,
    Controls,
    GroupSpans,
    Headline,
    MatchedPair,
    Matcher,
    ReviewReport,
    ReviewScore,
)
from evals.schema.reviews import MadeBy
from evals.stats.intervals import Floats
from evals.task import task_class

DRAWS = 1000
SATURATED = 0.99
"""Share of best similarities above the threshold from which matching only counts."""


@dataclass(frozen=True)
class Library:
    """Papers for the BM25 control: the ones that are scored, and those whose concerns are borrowed."""

    scored: tuple[Paper, ...]
    searched: tuple[Paper, ...]


@dataclass(frozen=True)
class Measuring:
    """What a score is made with; `encoder` None means words, or similarities from a file.

    `n_by_chance` are the similarities behind a calibrated threshold.
    """

    similarity: Similarity
    encoder: Encoder | None
    matcher: Matcher
    n_by_chance: int = FEW
    has_controls: bool = True
    library: Library | None = None
    draws: int = DRAWS
    seed: int = 0

    def matched(self, panel: Panel) -> tuple[Matching, Permuted | None]:
        """Return who matches whom, here and, as the permuted control, on other papers."""
        found = match(panel, self.similarity, self.matcher.threshold, self.matcher.assignment)
        return found, made.permuted(panel, self.similarity, self.matcher, seed=self.seed) if self.has_controls else None


def score(system: str, panel: Panel, measuring: Measuring, made_by: MadeBy | None = None) -> ReviewReport:
    """Return everything that is known about how a system's concerns agree with human ones."""
    found, by_chance = measuring.matched(panel)
    counts = counts_of(panel, found)
    rows = articles_of(panel, found, by_chance, system)
    task = task_class("review")
    groups = task.groups(rows)
    summaries = summarise(rows, measuring.draws, measuring.seed, task=task)
    spans = {each.group: {name: span_of(metric) for name, metric in each.metrics.items()} for each in summaries}
    known = {name: spans["all"][name] if summaries else None for name in task.compared}
    if by_chance is None:
        del known["f1_above_permuted"]
    kinds = {kind: rates_by(kind, groups) for kind in ("source", "category", "severity")}
    controls = _controls(panel, counts, by_chance, measuring) if measuring.has_controls else None
    micro = rates_of(counts.sum(axis=0), len(panel.article_ids))
    below = None if by_chance is None else by_chance.control.f1
    best = found.best[~np.isnan(found.best)]
    passing = float((best >= np.float32(measuring.matcher.threshold)).mean()) if len(best) else None
    whole = ReviewScore(
        system=system,
        headline=Headline(
            f1_above_permuted=None if below is None else micro.f1 - below,
            interval=known.get("f1_above_permuted"),
            f1=micro.f1,
            f1_permuted=below,
        ),
        micro=micro,
        macro=macro_of(counts, kinds["category"]),
        soft=soft_of(counts),
        per_source=kinds["source"],
        per_category=kinds["category"],
        per_severity=kinds["severity"],
        intervals=known,
        group_intervals={
            kind: {
                name: GroupSpans(**{each: spans[f"{kind} {name}"][each] for each in GroupSpans.model_fields})
                for name in named
                if name != UNATTRIBUTED
            }
            for kind, named in kinds.items()
        },
        labels=label_accuracy(panel, found),
        controls=controls,
        matcher=measuring.matcher,
        coverage=panel.coverage,
        best_similarities_passing=passing,
        warnings=tuple(_warnings(panel, measuring, passing, by_chance)),
        reference_sha256=panel.reference_sha256,
        seed=measuring.seed,
        draws=measuring.draws,
        articles=rows,
        made_by=made_by,
    )
    return ReviewReport.of(whole, summaries)


def articles_of(
    panel: Panel, found: Matching, by_chance: Permuted | None = None, system: str = ""
) -> tuple[ArticleScore, ...]:
    """Return the counts and matches of each article, places as in the files."""
    pairs: list[list[MatchedPair]] = [[] for _ in panel.article_ids]
    groups: list[dict[str, list[int]]] = [{} for _ in panel.article_ids]
    human, near = panel.human, np.where(found.is_matched, found.human, found.nearest)
    named = [
        (f"category {CATEGORY_NAMES[category]}", f"severity {SEVERITY_NAMES[severity]}")
        for category, severity in zip(human.category.tolist(), human.severity.tolist(), strict=True)
    ]
    named.append((f"category {UNATTRIBUTED}", f"severity {UNATTRIBUTED}"))  # at -1, near no human concern
    is_major = (human.severity == MAJOR).tolist()

    def count(article: int, at: int, *more: int) -> None:
        for name in named[at]:
            before = groups[article].get(name, (0, 0, 0, 0, 0))
            groups[article][name] = [one + two for one, two in zip(before, more, strict=True)]

    for at, article in enumerate(human.article.tolist()):
        count(article, at, 0, 1, 0, 0, is_major[at])
    for place, (article, at) in enumerate(zip(panel.predicted.article.tolist(), near.tolist(), strict=True)):
        is_matched = bool(found.human[place] >= 0)
        count(article, at, is_matched, 0, 1, is_matched and is_major[at], 0)
        if is_matched:
            where = {"predicted": int(panel.predicted.place[place]), "human": int(human.place[at])}
            pairs[article].append(MatchedPair(**where, similarity=float(found.similarity[place])))
    scored = []
    for index, row in enumerate(counts_of(panel, found)):
        rates = rates_of(row, 1)
        scored.append(
            ArticleScore(
                article_id=panel.article_ids[index],
                stage=system,
                source=panel.sources[index],
                n_predicted=round(rates.n_predicted),
                n_matched=round(rates.n_matched),
                n_major=round(row[5]),
                n_major_matched=round(row[4]),
                soft=float(row[3]),
                **rates.model_dump(include={"n_human", "precision", "recall", "f1"}),
                is_answered=bool(panel.is_answered[index]),
                pairs=tuple(pairs[index]),
                n_matched_permuted=None if by_chance is None else float(by_chance.matched[index]),
                groups={name: tuple(each) for name, each in groups[index].items()},
            )
        )
    return tuple(scored)


def _controls(panel: Panel, counts: Floats, by_chance: Permuted | None, measuring: Measuring) -> Controls:
    """Return the controls that can be made, with the reasons for the others as notes."""
    notes: dict[str, str] = {}
    if by_chance is None:
        notes["permuted"] = (
            "needs an encoder and two articles with predictions: similarities from a file say nothing"
            " about other papers"
        )
    makers = {"generic": lambda: made.generic(panel, measuring.encoder, measuring.matcher)}
    if measuring.library is None:
        notes["bm25"] = "needs the texts of the papers: --papers and --retrieve-from"
    else:
        makers["bm25"] = partial(_bm25, panel, measuring, measuring.library, notes)
    found: dict[str, Control] = {}
    for name, make in makers.items():
        if not measuring.similarity.is_crossing:
            notes[name] = "needs an encoder: similarities from a file say nothing about other texts"
            continue
        try:
            found[name] = make()
        except LabError as error:
            notes[name] = str(error)
    permuted = None if by_chance is None else by_chance.control
    return Controls(permuted=permuted, count_bound=made.count_bound(panel, counts), notes=notes, **found)


def _bm25(panel: Panel, measuring: Measuring, library: Library, notes: dict[str, str]) -> Control:
    """Return the retrieval control: lists as long as the predicted ones, from other papers."""
    index = Index(library.searched)
    by_id = {paper.id: paper for paper in library.scored}
    asked = [by_id.get(name, Paper(name, "")) for name in panel.article_ids]
    lists = [
        index.concerns(neighbours, n)
        for neighbours, n in zip(index.nearest(asked), panel.predicted.sizes.tolist(), strict=True)
    ]
    note = f"human concerns on the {len(library.searched)} papers most alike in words, as many as were predicted"
    if n_unread := sum(1 for paper in asked if not paper.text):
        notes["bm25"] = f"{n_unread} articles have no text in --papers and got no list"
    return made.listed(panel, lists, measuring.encoder, measuring.matcher, note)


def _warnings(panel: Panel, measuring: Measuring, passing: float | None, by_chance: Permuted | None) -> list[str]:
    found = []
    if passing is not None and passing > SATURATED:
        found.append(
            f"{100 * passing:.1f} % of best similarities pass the threshold"
            f" {measuring.matcher.threshold:.3f}: matching only counts list lengths here; use"
            " --threshold auto or another encoder"
        )
    if measuring.n_by_chance < FEW:
        found.append(f"the threshold rests on {measuring.n_by_chance} similarities only; it is rough")
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
