"""A system's concerns scored against human ones, with the controls that say what the score is worth."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from evals.compare import FEW as FEW_PAPERS
from evals.compare import Pairing, paired_differences
from evals.errors import LabError
from evals.report import summarise
from evals.review import controls as made
from evals.review.controls import Index, Listed, Paper
from evals.review.match import (
    CATEGORY_NAMES,
    FEW,
    MAJOR,
    SEVERITY_NAMES,
    UNATTRIBUTED,
    Encoder,
    Matching,
    Panel,
    ReadyVectors,
    Similarity,
    match,
    partners,
)
from evals.review.page import span_of
from evals.review.rates import counts_of, label_accuracy, macro_of, rates_by, rates_of, soft_of
from evals.schema import Metric
from evals.schema.reports import (
    ArticleScore,
    Controls,
    GroupSpans,
    Headline,
    MatchedPair,
    Matcher,
    ReviewReport,
    ReviewScore,
    ThresholdRates,
)
from evals.schema.reviews import MadeBy
from evals.stats.intervals import DRAWS as SWAPS
from evals.task import task_class
from evals.validity.labelled import agreement

DRAWS = 1000
STEP = 0.05
"""Between the thresholds at which a score is shown."""
NEEDS = {
    "permuted": "needs two articles with predictions",
    "bm25": "needs the texts of the papers: --papers and --retrieve-from",
    "echo": "needs the texts of the papers: --papers",
}
"""Why a control cannot be made."""
SILENT = "there is no concern, so no list to hold it against"
SATURATED = 0.99
"""Share of best similarities above the threshold from which matching only counts."""


@dataclass(frozen=True)
class Library:
    """Papers for the controls: the ones that are scored, and those whose concerns BM25 borrows."""

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

    def matched(self, panel: Panel) -> tuple[Matching, dict[str, Listed], dict[str, str]]:
        """Return who matches whom, the controls by name, and why others cannot be made."""
        found = match(panel, self.similarity, self.matcher.threshold, self.matcher.assignment)
        return found, *_listed(panel, self)


def score(system: str, panel: Panel, measuring: Measuring, made_by: MadeBy | None = None) -> ReviewReport:
    """Return everything that is known about how a system's concerns agree with human ones."""
    found, listed, notes = measuring.matched(panel)
    counts = counts_of(panel, found)
    rows = articles_of(panel, found, listed, system)
    task = task_class("review")
    groups = task.groups(rows)
    summaries = summarise(rows, measuring.draws, measuring.seed, task=task)
    spans = {each.group: {name: span_of(metric) for name, metric in each.metrics.items()} for each in summaries}
    known = {name: spans["all"][name] if summaries else None for name in task.compared}
    known = {name: span for name, span in known.items() if listed or "above" not in name}
    if "permuted" not in listed:
        known.pop("f1_above_permuted", None)
    kinds = {kind: rates_by(kind, groups) for kind in ("source", "category", "severity")}
    controls = None
    if measuring.has_controls:
        lists = {name: each.control for name, each in listed.items()}
        controls = Controls(count_bound=made.count_bound(panel, counts), notes=notes, **lists)
    micro = rates_of(counts.sum(axis=0), len(panel.article_ids))
    below = listed["permuted"].control.f1 if "permuted" in listed else None
    best = found.best[~np.isnan(found.best)]
    passing = float((best >= np.float32(measuring.matcher.threshold)).mean()) if len(best) else None
    whole = ReviewScore(
        system=system,
        headline=Headline(
            **_against_strongest(rows, listed, measuring),
            interval_above_strongest=known.get("f1_above_strongest"),
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
        thresholds=over_thresholds(panel, measuring, found),
        restatements=restatements_seen(measuring),
        coverage=panel.coverage,
        best_similarities_passing=passing,
        warnings=tuple(_warnings(panel, measuring, passing, listed, notes)),
        reference_sha256=panel.reference_sha256,
        seed=measuring.seed,
        draws=measuring.draws,
        articles=rows,
        made_by=made_by,
    )
    return ReviewReport.of(whole, summaries)


def over_thresholds(panel: Panel, measuring: Measuring, found: Matching) -> tuple[ThresholdRates, ...]:
    """Return the rates at the used threshold and at every 0.05 between the smallest and the greatest best similarity."""
    best, matcher = found.best[~np.isnan(found.best)], measuring.matcher
    if not len(best):
        return ()
    low, high = np.ceil(best.min() / STEP), np.floor(best.max() / STEP)
    steps = {round(float(at * STEP), 2) for at in np.arange(low, high + 1) if at > 0}
    has_list = panel.predicted.sizes > 0
    other = None
    if measuring.similarity.is_crossing and has_list.sum() > 1:
        other = next(partners(panel.sources, has_list, 1, measuring.seed))
    rates = []
    for value in sorted({*steps, matcher.threshold}):
        held = [
            rates_of(counts_of(panel, match(panel, measuring.similarity, value, matcher.assignment, at)).sum(axis=0), 1)
            for at in ((None,) if other is None else (None, other))
        ]
        rates.append(
            ThresholdRates(
                threshold=value,
                **held[0].model_dump(include={"f1", "recall", "precision"}),
                f1_permuted=held[1].f1 if other is not None else None,
                is_used=value == matcher.threshold,
            )
        )
    return tuple(rates)


def restatements_seen(measuring: Measuring) -> Metric | None:
    """Return the share of hand-made restatements that the matcher sees at its threshold; None for what a file brought."""
    if not measuring.similarity.is_crossing or isinstance(measuring.encoder, ReadyVectors):
        return None
    found = agreement(measuring.encoder, measuring.matcher.threshold, measuring.draws, measuring.seed)
    span = found.intervals["recall"] or (None, None)
    return Metric(value=found.recall, n=found.yes, low=span[0], high=span[1])


def articles_of(
    panel: Panel, found: Matching, listed: Mapping[str, Listed] | None = None, system: str = ""
) -> tuple[ArticleScore, ...]:
    """Return the counts and matches of each article, places as in the files."""
    listed = listed or {}
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
                n_matched_permuted=float(listed["permuted"].matched[index]) if "permuted" in listed else None,
                by_control={
                    name: (float(each.matched[index]), float(each.said[index])) for name, each in listed.items()
                },
                groups={name: tuple(each) for name, each in groups[index].items()},
            )
        )
    return tuple(scored)


def _listed(panel: Panel, measuring: Measuring) -> tuple[dict[str, Listed], dict[str, str]]:
    """Return the controls that can be made, by name, and the reasons why others cannot."""
    if not measuring.has_controls:
        return {}, {}
    if not panel.predicted.texts:
        return {}, dict.fromkeys(made.STRONGEST, SILENT)
    if not measuring.similarity.is_crossing:
        why = "needs an encoder: similarities from a file say nothing about other texts"
        return {}, dict.fromkeys(made.STRONGEST, why)
    notes, alike = dict[str, str](), (panel, measuring.encoder, measuring.matcher)
    by_chance = partial(made.permuted, panel, measuring.similarity, measuring.matcher, seed=measuring.seed)
    makers: dict[str, Callable[[], Listed | None]] = {"permuted": by_chance, "generic": partial(made.generic, *alike)}
    if library := measuring.library:
        by_id = {paper.id: paper for paper in library.scored}
        papers = [by_id.get(name, Paper(name, "")) for name in panel.article_ids]
        makers["generic_titled"] = partial(made.generic, *alike, papers)
        makers["echo"] = partial(made.echo, *alike, papers)
        makers["echo_objected"] = partial(made.echo, *alike, papers, made.OBJECTION)
        if library.searched:
            makers["bm25"] = partial(_bm25, *alike, papers, library.searched)
        if n_unread := sum(1 for paper in papers if not paper.text):
            notes["texts"] = f"{n_unread} articles have no text in --papers; nothing of theirs was copied or searched"
    found: dict[str, Listed | None] = {}
    for name in made.STRONGEST:
        try:
            found[name] = makers[name]() if name in makers else None
            notes |= {} if found[name] else {name: NEEDS.get(name, NEEDS["echo"])}
        except LabError as error:
            notes[name] = str(error)
    return {name: each for name, each in found.items() if each}, notes


def _against_strongest(
    rows: Sequence[ArticleScore], listed: Mapping[str, Listed], measuring: Measuring
) -> dict[str, Any]:
    """Return how a system's F1 stands against the strongest control, tested by changing the sides of articles."""
    if not listed:
        return {}
    name = max(listed, key=lambda each: listed[each].control.f1)

    def of_control(row: ArticleScore) -> ArticleScore:
        matched, said = row.by_control[name]
        return row.model_copy(update={"n_matched": matched, "n_predicted": said})

    pairing = Pairing(draws=max(measuring.draws, SWAPS), seed=measuring.seed)
    metrics = {"f1": task_class("review").metrics["f1"]}
    (found,), _ = paired_differences(([of_control(row) for row in rows], rows), metrics, pairing)
    return {
        "f1_above_strongest": found.value,
        "strongest": name,
        "f1_strongest": found.first,
        "p": found.p_permutation,
        "is_exact": found.is_exact,
    }


def _bm25(
    panel: Panel, encoder: Encoder | None, matcher: Matcher, papers: Sequence[Paper], searched: tuple[Paper, ...]
) -> Listed:
    """Return the retrieval control: lists as long as the predicted ones, from other papers."""
    index = Index(searched)
    lists = [
        index.concerns(neighbours, n)
        for neighbours, n in zip(index.nearest(papers), panel.predicted.sizes.tolist(), strict=True)
    ]
    note = f"human concerns on the {len(searched)} papers most alike in words, as many as were predicted"
    return made.listed(panel, lists, encoder, matcher, note)


def _warnings(
    panel: Panel, measuring: Measuring, passing: float | None, listed: Mapping[str, Listed], notes: Mapping[str, str]
) -> list[str]:
    found = (
        [] if panel.predicted.texts else [f"{SILENT}, and no headline: who says nothing is not better than a control"]
    )
    if (n := len(panel.article_ids)) < FEW_PAPERS:
        found.append(f"{n} papers are few: differences between systems that are not large cannot be shown on them")
    if listed and "echo" not in listed:
        found.append(f"no sentences were copied from the papers ({notes['echo']}); who copies would not be noticed")
    if passing is not None and passing > SATURATED:
        found.append(
            f"{100 * passing:.1f} % of best similarities pass the threshold"
            f" {measuring.matcher.threshold:.3f}: matching only counts list lengths here; use"
            " --threshold auto or another encoder"
        )
    if measuring.n_by_chance < FEW:
        found.append(f"the threshold rests on {measuring.n_by_chance} similarities only; it is rough")
    if "permuted" in listed and len(set(panel.sources)) > 1:
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
