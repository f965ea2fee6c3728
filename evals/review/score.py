"""Reviewers scored: what their concerns are matched with, the controls beside them, and the report."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from evals.compare import Pairing, paired_differences
from evals.errors import BadConfig, LabError
from evals.io import read_rows
from evals.report import summarise
from evals.review.controls import OBJECTION, STRONGEST, Listed, echo, generic, permuted_control, retrieved_control
from evals.review.match import (
    CATEGORY_NAMES,
    COUNTS,
    FALSE_MATCH_RATE,
    FEW,
    LEXICAL,
    LEXICAL_REVISION,
    LEXICAL_THRESHOLD,
    MAJOR,
    SEVERITY_NAMES,
    UNATTRIBUTED,
    Encoder,
    Matching,
    Panel,
    ReadySimilarity,
    Similarity,
    Threshold,
    calibrate_threshold,
    counts_of,
    match,
    matcher_agreement,
    panel_of,
    partners,
    rates_of,
    read_threshold,
    similarity_of,
)
from evals.schema.articles import PaperRow
from evals.schema.record import Record
from evals.schema.reports import (
    ArticleScore,
    Assignment,
    MatchedPair,
    Matcher,
    Rates,
    ReviewedStage,
    ReviewReport,
    ThresholdRates,
)
from evals.schema.reviews import Concern, MadeBy, PredictionRow, ReferenceRow
from evals.task import task_class

AUTO = "auto"
PUBLISHED = 0.65
PUBLISHED_ENCODER = "specter2-base-mean"
STEP = 0.05
"""Between the thresholds at which a score is shown."""
NEEDS = {
    "permuted": "needs two articles with predictions",
    "bm25": "needs the texts of the papers: --papers and --retrieve-from",
    "echo": "needs the texts of the papers: --papers",
}
"""Why a control cannot be made."""
SILENT = "there is no concern, so no list to hold it against"
FEW_PAPERS = 20
"""Papers below which differences that are not large cannot be shown."""
SATURATED = 0.99
"""Share of best similarities above the threshold from which matching only counts."""


class SimilarityRow(Record):
    """Similarities of one article: rows predicted, columns human, both as the files list them."""

    article_id: str
    matrix: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class ScoreOptions:
    """The options of `assay review score`, as written; `threshold` None means what is usual for the encoder."""

    encoder: str
    similarities: Path | None = None
    threshold: str | None = None
    assignment: Assignment = "optimal"
    controls: bool = True
    seed: int = 0


@dataclass(frozen=True)
class Library:
    """Papers for the controls: the ones that are scored, and those whose concerns BM25 borrows."""

    scored: tuple[PaperRow, ...]
    searched: tuple[PaperRow, ...]


@dataclass(frozen=True)
class ScoreSetup:
    """What a score is made with; `encoder` None means words, or similarities from a file.

    `n_by_chance` are the similarities behind a calibrated threshold.
    """

    similarity: Similarity
    encoder: Encoder | None
    matcher: Matcher
    n_by_chance: int = FEW
    has_controls: bool = True
    library: Library | None = None
    seed: int = 0

    def match(self, panel: Panel) -> tuple[Matching, dict[str, Listed], dict[str, str]]:
        """Return the matches, the controls by name, and why the other controls could not be made."""
        found = match(panel, self.similarity, self.matcher.threshold, self.matcher.assignment)
        return found, *_controls_of(panel, self)


@dataclass(frozen=True)
class Scored:
    """What a stage said as a panel, what it is measured with, who answered, and the concerns before cleaning."""

    panel: Panel
    setup: ScoreSetup
    made_by: MadeBy | None = None
    said: Mapping[str, tuple[Concern, ...]] = field(default_factory=dict)


def read_panel(reference: Path, predictions: Path) -> Panel:
    """Return both files side by side; BadRow names a bad line, an article given twice among them."""
    humans = read_rows(reference, ReferenceRow, key=lambda row: row.article_id)
    tools = read_rows(predictions, PredictionRow, key=lambda row: row.article_id)
    return panel_of(humans, tools)


def score_setup(
    panel: Panel, options: ScoreOptions, find: Callable[[str], Encoder], library: Library | None = None
) -> ScoreSetup:
    """Return what to score a panel with; `find` gives the encoder of a name, `library` the papers for the controls."""
    encoder: Encoder | None = None
    if options.similarities is not None:
        rows = read_rows(options.similarities, SimilarityRow, key=lambda row: row.article_id)
        similarity: Similarity = ReadySimilarity({row.article_id: row.matrix for row in rows}, panel)
        blocks = [similarity.block(i, i).ravel() for i in range(len(panel.article_ids))]
        values = np.concatenate(blocks) if blocks else np.zeros(0)
        # one encoder's similarities are told from another's by where their values lie
        name = f"similarities of {options.similarities.name}"
        revision = f"median {np.median(values):.3f}" if len(values) else "no pairs"
    else:
        name, revision = LEXICAL, LEXICAL_REVISION
        if options.encoder != LEXICAL:
            encoder = find(options.encoder)
            name, revision = encoder.name, encoder.revision
        similarity = similarity_of(panel.predicted, panel.human, encoder)
    threshold = _threshold(panel, encoder, options)
    matcher = Matcher(
        encoder=name,
        revision=revision,
        threshold=threshold.value,
        threshold_from=threshold.origin,
        assignment=options.assignment,
        false_match_rate=threshold.rate,
    )
    return ScoreSetup(
        similarity=similarity,
        encoder=encoder,
        matcher=matcher,
        n_by_chance=threshold.n,
        has_controls=options.controls,
        library=library,
        seed=options.seed,
    )


def _threshold(panel: Panel, encoder: Encoder | None, options: ScoreOptions) -> Threshold:
    """Return the threshold: as given, calibrated, or what is usual for a published matcher."""
    given = options.threshold
    if given is None and options.similarities is not None:
        return Threshold(PUBLISHED, "the published one; give yours with --threshold")
    if given is None and options.encoder == LEXICAL:
        return Threshold(LEXICAL_THRESHOLD, "the published 0.3 of 0.65")
    if given is None and encoder is not None and encoder.name == PUBLISHED_ENCODER:
        return Threshold(PUBLISHED, "the published one")
    if given is None or given == AUTO:
        if options.similarities is not None:
            raise BadConfig(
                "--threshold auto needs an encoder: similarities from a file say nothing about other"
                " papers; give a number"
            )
        return calibrate_threshold(panel, encoder, FALSE_MATCH_RATE, options.seed)
    return Threshold(read_threshold(given), "given")


def read_library(reference: Path, papers: Path | None, retrieve_from: Path | None) -> Library | None:
    """Return the papers for the controls, their texts in `papers` if not in the reference; None where there is no text.

    Without `retrieve_from`, BM25 borrows concerns from the other papers that are scored.
    """
    scored = _papers(papers or reference)
    if not any(paper.text for paper in scored):
        if papers is not None:
            raise BadConfig(f"{papers} holds no text of a paper; name a file of articles")
        return None
    searched = _papers(retrieve_from) if retrieve_from else scored
    if retrieve_from is None and papers is not None:
        said = {paper.article_id: paper.concerns for paper in _papers(reference)}
        searched = tuple(each.model_copy(update={"concerns": said.get(each.article_id, ())}) for each in scored)
    return Library(scored, searched)


def _papers(path: Path) -> tuple[PaperRow, ...]:
    return tuple(read_rows(path, PaperRow, key=lambda row: row.article_id))


def review_report(scored: Mapping[str, Scored], **about: Any) -> ReviewReport:
    """Return one report on what stages said, all matched the same way; `about` are fields that no score knows."""
    task = task_class("review")
    rows: list[ArticleScore] = []
    stages: dict[str, ReviewedStage] = {}
    for stage, each in scored.items():
        mine, stages[stage] = _score_stage(stage, each)
        rows += mine
    name, last = list(scored.items())[-1]
    setup, made = last.setup, last.made_by
    known: dict[str, Any] = {
        "data_name": f"{len(last.panel.human.texts):,} human concerns",
        "data_sha256": last.panel.reference_sha256,
        "chain_name": name,
        "stage_checksums": made.checksums if made else {},
        "settings": dict(made.settings) if made else {},
        "versions": {},
        "created_at": datetime.combine(made.date if made else date(1970, 1, 1), time(tzinfo=UTC)),
        "command": "assay review score",
        "rows": tuple(rows),
        "summaries": summarise(rows, seed=setup.seed, task=task),
        "matcher": setup.matcher,
        "matcher_agreement": matcher_agreement(setup.encoder, setup.matcher.threshold, setup.seed)
        if setup.similarity.is_crossing
        else {},
        "stages": stages,
    }
    return ReviewReport(**known | about)


def _score_stage(stage: str, scored: Scored) -> tuple[tuple[ArticleScore, ...], ReviewedStage]:
    """Return a stage's counts by article, and what is known of it beside them."""
    panel, setup = scored.panel, scored.setup
    found, controls, missing = setup.match(panel)
    rows = articles_of(panel, found, controls, stage)
    reviewed = ReviewedStage(
        made_by=scored.made_by,
        coverage=panel.coverage,
        **_against_strongest(rows, setup.seed),
        no_control=missing,
        thresholds=over_thresholds(panel, setup, found),
        warnings=tuple(_warnings(panel, setup, found, controls, missing)),
        said=dict(scored.said),
    )
    return rows, reviewed


def articles_of(
    panel: Panel, found: Matching, controls: Mapping[str, Listed] | None = None, stage: str = ""
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
    by_control = controls or {}
    return tuple(
        ArticleScore(
            article_id=panel.article_ids[at],
            stage=stage,
            source=panel.sources[at],
            **dict(zip(COUNTS, map(round, counts.tolist()), strict=True)),
            is_answered=bool(panel.is_answered[at]),
            pairs=tuple(pairs[at]),
            by_control={name: (float(each.matched[at]), float(each.said[at])) for name, each in by_control.items()},
            groups={name: tuple(each) for name, each in groups[at].items()},
        )
        for at, counts in enumerate(counts_of(panel, found))
    )


def micro_rates(rows: Sequence[ArticleScore]) -> Rates:
    """Return the rates of the counts of some articles together."""
    return rates_of(*(float(sum(getattr(row, name) for row in rows)) for name in COUNTS))


def control_rates(rows: Sequence[ArticleScore]) -> dict[str, Rates]:
    """Return what each control gets on some articles, by name.

    The count bound, the last, is what is got if everything matches until one list runs out.
    """
    human = sum(row.n_human for row in rows)
    names = [name for name in STRONGEST if rows and all(name in row.by_control for row in rows)]
    found = {name: np.array([row.by_control[name] for row in rows]).sum(axis=0).tolist() for name in names}
    bound = sum(min(row.n_human, row.n_predicted) for row in rows)
    found["count_bound"] = (float(bound), float(sum(row.n_predicted for row in rows)))
    return {name: rates_of(matched, human, said) for name, (matched, said) in found.items()}


def over_thresholds(panel: Panel, setup: ScoreSetup, found: Matching) -> tuple[ThresholdRates, ...]:
    """Return the rates at the used threshold and at every 0.05 between the smallest and the greatest best similarity."""
    best, matcher = found.best[~np.isnan(found.best)], setup.matcher
    if not len(best):
        return ()
    low, high = np.ceil(best.min() / STEP), np.floor(best.max() / STEP)
    steps = {round(float(at * STEP), 2) for at in np.arange(low, high + 1) if at > 0}
    has_list = panel.predicted.sizes > 0
    others = [None]
    if setup.similarity.is_crossing and has_list.sum() > 1:
        others.append(next(partners(panel.sources, has_list, 1, setup.seed)))
    rates = []
    for value in sorted({*steps, matcher.threshold}):
        own, *permuted = (
            rates_of(*counts_of(panel, match(panel, setup.similarity, value, matcher.assignment, at)).sum(axis=0))
            for at in others
        )
        rates.append(
            ThresholdRates(
                threshold=value,
                **own.model_dump(include={"f1", "recall", "precision"}),
                f1_permuted=permuted[0].f1 if permuted else None,
                is_used=value == matcher.threshold,
            )
        )
    return tuple(rates)


def _controls_of(panel: Panel, setup: ScoreSetup) -> tuple[dict[str, Listed], dict[str, str]]:
    """Return the controls that can be made, by name, and the reasons why others cannot."""
    if not setup.has_controls:
        return {}, {}
    if not panel.predicted.texts:
        return {}, dict.fromkeys(STRONGEST, SILENT)
    if not setup.similarity.is_crossing:
        why = "needs an encoder: similarities from a file say nothing about other texts"
        return {}, dict.fromkeys(STRONGEST, why)
    missing, alike = dict[str, str](), (panel, setup.encoder, setup.matcher)
    by_chance = partial(permuted_control, panel, setup.similarity, setup.matcher, seed=setup.seed)
    makers: dict[str, Callable[[], Listed | None]] = {"permuted": by_chance, "generic": partial(generic, *alike)}
    if library := setup.library:
        by_id = {paper.article_id: paper for paper in library.scored}
        papers = [by_id.get(name, PaperRow(article_id=name)) for name in panel.article_ids]
        makers["generic_titled"] = partial(generic, *alike, papers)
        makers["echo"] = partial(echo, *alike, papers)
        makers["echo_objected"] = partial(echo, *alike, papers, OBJECTION)
        if library.searched:
            makers["bm25"] = partial(retrieved_control, *alike, papers, library.searched)
        if n_unread := sum(1 for paper in papers if not paper.text):
            missing["texts"] = f"{n_unread} articles have no text in --papers; nothing of theirs was copied or searched"
    found: dict[str, Listed] = {}
    for name in STRONGEST:
        try:
            if made := makers[name]() if name in makers else None:
                found[name] = made
            else:
                missing[name] = NEEDS.get(name, NEEDS["echo"])
        except LabError as error:
            missing[name] = str(error)
    return found, missing


def _against_strongest(rows: Sequence[ArticleScore], seed: int) -> dict[str, Any]:
    """Return the strongest control, and the p of the system's F1 against it by changing the sides of articles."""
    rates = control_rates(rows)
    del rates["count_bound"]
    if not rates:
        return {}
    name = max(rates, key=lambda each: rates[each].f1)

    def of_control(row: ArticleScore) -> ArticleScore:
        matched, said = row.by_control[name]
        return row.model_copy(update={"n_matched": matched, "n_predicted": said})

    metrics = {"f1": task_class("review").metrics["f1"]}
    (found,), _ = paired_differences(([of_control(row) for row in rows], rows), metrics, Pairing(seed=seed))
    return {"strongest": name, "p": found.p_permutation, "is_exact": found.is_exact}


def _warnings(
    panel: Panel, setup: ScoreSetup, found: Matching, controls: Mapping[str, Listed], missing: Mapping[str, str]
) -> list[str]:
    told = (
        [] if panel.predicted.texts else [f"{SILENT}, and no headline: who says nothing is not better than a control"]
    )
    if (n := len(panel.article_ids)) < FEW_PAPERS:
        told.append(f"{n} papers are few: differences between systems that are not large cannot be shown on them")
    if controls and "echo" not in controls:
        told.append(f"no sentences were copied from the papers ({missing['echo']}); who copies would not be noticed")
    best, threshold = found.best[~np.isnan(found.best)], setup.matcher.threshold
    if len(best) and (passing := float((best >= np.float32(threshold)).mean())) > SATURATED:
        told.append(
            f"{100 * passing:.1f} % of best similarities pass the threshold {threshold:.3f}: matching only counts list"
            " lengths here; use --threshold auto or another encoder"
        )
    if setup.n_by_chance < FEW:
        told.append(f"the threshold rests on {setup.n_by_chance} similarities only; it is rough")
    if "permuted" in controls and len(set(panel.sources)) > 1:
        alone = [name for name in set(panel.sources) if panel.sources.count(name) == 1]
        if alone:
            told.append(f"{len(alone)} sources have one article; it was permuted across sources")
    unanswered = panel.coverage.n_articles - panel.coverage.n_answered
    if unanswered:
        told.append(f"{unanswered} of {panel.coverage.n_articles} articles have no answer: recall 0")
    if panel.coverage.unknown:
        shown = ", ".join(panel.coverage.unknown[:3])
        told.append(f"predictions on articles that are not in the reference, left out: {shown}")
    return told
