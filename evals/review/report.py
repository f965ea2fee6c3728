"""A reviewer at its checkpoints: scores of one kind side by side, each held against the step before."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import numpy as np

from evals.errors import BadConfig, LabError
from evals.io import read_rows
from evals.papers.families import family_of
from evals.review.clean import key_of, written
from evals.review.controls import Paper
from evals.review.leaderboard import ABOVE, METRICS, check_comparable, paired_tests
from evals.review.match import (
    FALSE_MATCH_RATE,
    LEXICAL,
    LEXICAL_REVISION,
    LEXICAL_THRESHOLD,
    Encoder,
    LexicalSimilarity,
    Panel,
    ReadySimilarity,
    ReadyVectors,
    Similarity,
    Threshold,
    calibrated,
    is_on_figure,
    number_of,
    panel_of,
    vector_similarity,
)
from evals.review.page import rate, table
from evals.review.parse import parse
from evals.review.published import faults_of_score
from evals.review.rates import DRAWS
from evals.review.score import Library, Measuring
from evals.schema.articles import PaperRow
from evals.schema.record import Record
from evals.schema.reports import (
    ArticleScore,
    Assignment,
    ErrorAnalysis,
    FigurePolicy,
    Gate,
    Gates,
    GroupRow,
    GroupSpans,
    Matcher,
    Mode,
    PairedRow,
    PublishedResult,
    Rates,
    RecallBin,
    ReviewReport,
    ReviewScore,
    SharedErrors,
    StepScore,
    StepsReport,
    SystemReport,
    WorstArticle,
)
from evals.schema.reviews import ParseStatus, PredictionRow, ReferenceRow

WORST = 10
LOOP_TIMES = 10
"""How often the same line or concern stands in an answer that goes in circles."""
LOOP_LINE = 20
"""Characters of a line from which a repeat counts; brackets and commas repeat in any list."""
LOOP_TEXT = 200
STATUSES = get_args(ParseStatus)
BINS: tuple[RecallBin, ...] = ("all", "half or more", "below half", "none", "no human concerns")


def mode_of(row: PredictionRow | None) -> Mode:
    """Return how an answer ended; a row that keeps no `raw_output` is judged by its concerns alone.

    A row that says its own `status`, as `assay review infer` writes it, is believed. A loop is a line of more than 20 characters, or a concern, that stands in it ten times or more.
    """
    if row is None:
        return "missing"
    extra = row.model_extra or {}
    raw = extra.get("raw_output")
    if _is_loop(raw if isinstance(raw, str) else "", row):
        return "loop"
    if extra.get("finish_reason") == "length":
        return "cut"
    known = extra.get("status")
    status = known if known in STATUSES else None
    if status is None and isinstance(raw, str):
        status = parse(row.article_id, raw).status
    if any((each.text or "").strip() for each in written(row)):
        return "ok" if status in {None, "ok"} else "partial"
    return "failed" if status in {"failed", "partial"} else "empty"


def errors_of(articles: Sequence[ArticleScore], rows: Mapping[str, PredictionRow] | None) -> ErrorAnalysis:
    """Return the error analysis of a system; without its rows nothing is said of how answers ended."""
    modes: dict[str, Mode] = {}
    if rows is not None:
        modes = {each.article_id: mode_of(rows.get(each.article_id)) for each in articles}
    counts: Counter[Mode] = Counter(modes.values())
    bins = Counter(recall_bin(each) for each in articles)
    failed = [each for each in articles if each.n_human and not each.n_matched]
    failed.sort(key=lambda each: (-each.n_human, each.article_id))
    return ErrorAnalysis(
        modes=dict(counts.most_common()),
        not_ok={name: mode for name, mode in modes.items() if mode != "ok"},
        recall={name: bins[name] for name in BINS if bins[name]},
        worst=tuple(
            WorstArticle(
                article_id=each.article_id,
                source=each.source,
                mode=modes.get(each.article_id),
                n_human=each.n_human,
                n_predicted=each.n_predicted,
            )
            for each in failed[:WORST]
        ),
    )


def recall_bin(article: ArticleScore) -> RecallBin:
    """Return where an article's recall falls; one without human concerns has none, here as in scoring."""
    if not article.n_human:
        return "no human concerns"
    if not article.n_matched:
        return "none"
    if article.n_matched == article.n_human:
        return "all"
    return "half or more" if article.recall >= 0.5 else "below half"


def shared_of(scores: Sequence[ReviewScore]) -> SharedErrors | None:
    """Return what systems miss together and find alone; None for one system or scores without articles."""
    if len(scores) < 2 or any(each.articles is None for each in scores):
        return None
    found: Counter[tuple[str, int]] = Counter()
    by: dict[tuple[str, int], str] = {}
    for score in scores:
        for article in score.articles or ():
            for pair in article.pairs:
                place = (article.article_id, pair.human)
                found[place] += 1
                by[place] = score.system
    alone = Counter(by[place] for place, n in found.items() if n == 1)
    hit = {article for article, _ in found}
    first = scores[0].articles or ()
    n_human = sum(each.n_human for each in first)
    return SharedErrors(
        none_found=tuple(each.article_id for each in first if each.n_human and each.article_id not in hit),
        n_found_by_one={score.system: alone[score.system] for score in scores},
        n_found_by_all=sum(n == len(scores) for n in found.values()),
        n_found_by_none=n_human - len(found),
    )


def _is_loop(raw: str, row: PredictionRow) -> bool:
    lines = Counter(line.strip() for line in raw.splitlines() if len(line.strip()) > LOOP_LINE)
    if len(raw) >= LOOP_TEXT and max(lines.values(), default=0) >= LOOP_TIMES:
        return True
    said = Counter(key_of(each.text or "") for each in written(row) if (each.text or "").strip())
    if raw and max(said.values(), default=0) < LOOP_TIMES:
        # A cleaned row has lost its repeats; what the model wrote still has them.
        said = Counter(key_of(each.text) for each in parse(row.article_id, raw).concerns)
    return max(said.values(), default=0) >= LOOP_TIMES


AUTO = "auto"
FROM_FILE = "similarities"
PUBLISHED = 0.65
PUBLISHED_ENCODER = "specter2-base-mean"


class SimilarityRow(Record):
    """Similarities of one article: rows predicted, columns human, both as the files list them."""

    article_id: str
    matrix: tuple[tuple[float, ...], ...]


class VectorRow(Record):
    """A text and its vector."""

    text: str
    vector: tuple[float, ...]


@dataclass(frozen=True)
class Wanted:
    """What a user asked for, as written; `threshold` None means what is usual for the encoder."""

    encoder: str
    similarities: Path | None = None
    vectors: Path | None = None
    threshold: str | None = None
    false_match_rate: float = FALSE_MATCH_RATE
    assignment: Assignment = "optimal"
    figures: FigurePolicy = "both"
    papers: Path | None = None
    retrieve_from: Path | None = None
    has_controls: bool = True
    has_articles: bool = False
    draws: int = DRAWS
    seed: int = 0


def read_panel(reference: Path, predictions: Path, figures: FigurePolicy) -> Panel:
    """Return both files side by side; BadRow names a bad line, an article given twice among them."""
    humans = read_rows(reference, ReferenceRow, key=lambda row: row.article_id)
    tools = read_rows(predictions, PredictionRow, key=lambda row: row.article_id)
    return panel_of(humans, tools, figures)


def measuring_of(panel: Panel, reference: Path, wanted: Wanted, find: Callable[[str], Encoder]) -> Measuring:
    """Return what to score a panel with; `find` gives the encoder of a name."""
    encoder, similarity = _matcher(panel, wanted, find)
    is_lexical = encoder is None and wanted.similarities is None
    threshold = _threshold(panel, encoder, wanted)
    name, revision = _instrument(panel, similarity, encoder, wanted)
    matcher = Matcher(
        encoder=name,
        revision=revision,
        threshold=threshold.value,
        threshold_from=threshold.origin,
        assignment=wanted.assignment,
        figures=wanted.figures,
        false_match_rate=threshold.rate,
    )
    return Measuring(
        similarity=similarity,
        encoder=encoder,
        threshold=threshold,
        matcher=matcher,
        has_controls=wanted.has_controls,
        has_articles=wanted.has_articles,
        library=_library(reference, wanted) if wanted.has_controls else None,
        draws=wanted.draws,
        seed=wanted.seed,
        is_lexical=is_lexical,
    )


def _matcher(panel: Panel, wanted: Wanted, find: Callable[[str], Encoder]) -> tuple[Encoder | None, Similarity]:
    if wanted.similarities is not None:
        rows = read_rows(wanted.similarities, SimilarityRow, key=lambda row: row.article_id)
        return None, ReadySimilarity({row.article_id: row.matrix for row in rows}, panel)
    if wanted.encoder == LEXICAL:
        return None, LexicalSimilarity(panel.predicted, panel.human)
    encoder = read_vectors(wanted.vectors) if wanted.vectors else find(wanted.encoder)
    return encoder, vector_similarity(panel, encoder)


def read_vectors(path: Path) -> ReadyVectors:
    """Return the vectors of a file."""
    rows = read_rows(path, VectorRow, key=lambda row: row.text)
    lengths = {len(row.vector) for row in rows}
    if len(lengths) > 1:
        raise BadConfig(f"the vectors in {path} have {sorted(lengths)} numbers; all of one encoder have as many")
    return ReadyVectors(f"vectors of {path.name}", {row.text: row.vector for row in rows})


def _threshold(panel: Panel, encoder: Encoder | None, wanted: Wanted) -> Threshold:
    """Return the threshold: as given, calibrated, or what is usual for a published matcher."""
    given = wanted.threshold
    if given is None and wanted.similarities is not None:
        return Threshold(PUBLISHED, "the published one; give yours with --threshold")
    if given is None and wanted.encoder == LEXICAL:
        return Threshold(LEXICAL_THRESHOLD, "the published 0.3 of 0.65")
    if given is None and encoder is not None and encoder.name == PUBLISHED_ENCODER:
        return Threshold(PUBLISHED, "the published one")
    if given is None or given == AUTO:
        if wanted.similarities is not None:
            raise BadConfig(
                "--threshold auto needs an encoder: similarities from a file say nothing about other"
                " papers; give a number"
            )
        return calibrated(panel, encoder, wanted.false_match_rate, wanted.seed)
    return Threshold(number_of(given), "given")


def _instrument(panel: Panel, similarity: Similarity, encoder: Encoder | None, wanted: Wanted) -> tuple[str, str]:
    if encoder is not None:
        return encoder.name, encoder.revision
    if wanted.similarities is None:
        return LEXICAL, LEXICAL_REVISION
    return f"{FROM_FILE} of {wanted.similarities.name}", _origin(panel, similarity)


def _origin(panel: Panel, similarity: Similarity) -> str:
    """Return what tells one encoder's similarities from another's: where their values lie."""
    blocks = [similarity.block(i, i).ravel() for i in range(len(panel.article_ids))]
    values = np.concatenate(blocks) if blocks else np.zeros(0)
    return f"median {np.median(values):.3f}" if len(values) else "no pairs"


def _library(reference: Path, wanted: Wanted) -> Library | None:
    """Return the papers of the BM25 control, None where no text is to be had.

    Without --retrieve-from, concerns are borrowed from the other papers of the same file.
    """
    scored = _papers(wanted.papers or reference, wanted.figures)
    if not any(paper.text for paper in scored):
        if wanted.papers is not None:
            raise BadConfig(f"{wanted.papers} holds no text of a paper; name a file of articles")
        return None
    searched = _papers(wanted.retrieve_from, wanted.figures) if wanted.retrieve_from else scored
    if wanted.retrieve_from is None and wanted.papers is not None:
        said: Mapping[str, Sequence[str]] = {paper.id: paper.concerns for paper in _papers(reference, wanted.figures)}
        searched = tuple(Paper(each.id, each.text, tuple(said.get(each.id, ())), each.family) for each in scored)
    return Library(scored, searched)


def _papers(path: Path, figures: FigurePolicy) -> tuple[Paper, ...]:
    rows = read_rows(path, PaperRow, key=lambda row: row.article_id)
    return tuple(
        Paper(
            id=row.article_id,
            text=row.text,
            concerns=tuple(each.text for each in row.concerns if not is_on_figure(each, figures)),
            family=row.family or family_of(row.article_id, ""),
        )
        for row in rows
    )


F1_GATE, RECALL_GATE = 0.58, 0.45
Rows = Mapping[str, PredictionRow]


def report_of(
    scores: Sequence[ReviewScore],
    answers: Mapping[str, Rows],
    against: str | None = None,
    published: Sequence[PublishedResult] = (),
) -> ReviewReport:
    """Return the report on systems scored alike; `answers` are rows by system, then by article.

    `against` names the system that stands first in comparisons, else the first one. LabError for a name
    that no score has, IncomparableReports for scores that were not made alike.
    """
    check_comparable(scores)
    names = [score.system for score in scores]
    for name in (*([against] if against else []), *answers):
        if name not in names:
            raise LabError(f"there is no score of {name!r}; scored are {', '.join(names)}.")
    first = against or names[0]
    ordered = sorted(scores, key=lambda score: score.system != first)
    return ReviewReport(
        against=first,
        systems=tuple(_system(score, answers.get(score.system)) for score in ordered),
        tests=paired_tests(ordered, METRICS, scores[0].draws, scores[0].seed),
        shared=shared_of(ordered),
        published=tuple(published),
    )


def gates_of(score: ReviewScore) -> Gates:
    """Return the published gates, F1 of 0.58 and recall of 0.45, each shown apart."""
    f1 = _gate(score, "f1", F1_GATE)
    recall = _gate(score, "recall", RECALL_GATE)
    return Gates(f1=f1, recall=recall, as_documented=f1.passes or recall.passes, as_coded=f1.passes and recall.passes)


def _gate(score: ReviewScore, metric: str, needed: float) -> Gate:
    value, span = float(getattr(score.micro, metric)), score.intervals.get(metric)
    return Gate.model_validate(
        {
            "metric": metric,
            "value": value,
            "needed": needed,
            "passes": value >= needed,
            "is_sure": span is not None and span[0] >= needed,
        }
    )


def _system(score: ReviewScore, rows: Rows | None) -> SystemReport:
    articles = score.articles
    if articles is None:
        raise LabError(f"the score of {score.system} holds no articles; write it with `assay review score --out`.")
    return SystemReport(
        score=score.model_copy(update={"articles": None}),
        gates=gates_of(score),
        sources=_groups(score, "source", score.per_source, articles),
        categories=_groups(score, "category", score.per_category),
        severities=_groups(score, "severity", score.per_severity),
        errors=errors_of(articles, rows),
        faults=faults_of_score(score),
    )


def _groups(
    score: ReviewScore, kind: str, rates: Mapping[str, Rates], articles: Sequence[ArticleScore] | None = None
) -> tuple[GroupRow, ...]:
    spans = score.group_intervals.get(kind, {})
    return tuple(_group(name, each, spans.get(name), articles) for name, each in rates.items())


def _group(name: str, rates: Rates, spans: GroupSpans | None, articles: Sequence[ArticleScore] | None) -> GroupRow:
    known = {} if articles is None else _by_article([a for a in articles if a.source == name])
    return GroupRow(
        **rates.model_dump(),
        name=name,
        interval_recall=None if spans is None else spans.recall,
        interval_precision=None if spans is None else spans.precision,
        interval_f1=None if spans is None else spans.f1,
        **known,
    )


def _by_article(articles: Sequence[ArticleScore]) -> dict[str, float | int | None]:
    """Return what a source's articles say together; the control only where every article has one."""
    size = sum(each.n_human + each.n_predicted for each in articles)
    by_chance = [each.n_matched_permuted for each in articles]
    permuted = None if None in by_chance else 2 * sum(n or 0 for n in by_chance) / max(1, size)
    with_humans = [each for each in articles if each.n_human]
    return {
        "f1_permuted": permuted,
        "n_answered": sum(each.is_answered for each in articles),
        "n_none": sum(each.n_matched == 0 for each in with_humans),
        "n_all": sum(each.n_matched == each.n_human for each in with_humans),
    }


COLUMNS = (
    "step",
    "F1 above permuted",
    "F1",
    "recall",
    "precision",
    "major recall",
    "permuted",
    "predicted",
    "matched",
    "answered",
    "not read whole",
    "s per paper",
    "since the step before",
)
RULE = (
    "Measured on development papers; test papers were not touched and nothing was chosen. Intervals are over"
    " articles (95 %); p is of the paired permutation test of F1 above permuted, corrected by Holm for all pairs"
    " of steps. The more steps are looked at, the likelier the best of them is so by chance: an interval or a"
    " corrected p tells more than a maximum."
)


def steps_report(run: str, steps: Sequence[StepScore], notes: Sequence[str] = ()) -> StepsReport:
    """Return the report on steps whose scores hold their articles; IncomparableReports if made unalike."""
    scores = [each.score for each in steps]
    first = scores[0]
    has_control = all(each.headline.f1_permuted is not None for each in scores)
    tests = paired_tests(scores, (ABOVE if has_control else "f1",), first.draws, first.seed)
    lean = [each.model_copy(update={"score": each.score.model_copy(update={"articles": None})}) for each in steps]
    return StepsReport(
        run=run, n_articles=first.coverage.n_articles, steps=tuple(lean), tests=tests, notes=tuple(notes)
    )


def steps_cells(report: StepsReport) -> list[tuple[object, ...]]:
    """Return the rows of the table under `COLUMNS`."""
    tests = {(test.first, test.second): test for test in report.tests}
    rows = []
    before: StepScore | None = None
    for each in report.steps:
        change = tests[(before.score.system, each.score.system)] if before else None
        rows.append(_cells(each, change))
        before = each
    return rows


def steps_page(report: StepsReport) -> str:
    """Return the report as one Markdown page."""
    matcher = report.steps[0].score.matcher
    parts = [
        f"# {report.run} at its checkpoints",
        f"{report.n_articles} development papers, {report.steps[0].score.micro.n_human:,} human concerns;"
        f" matched with {matcher.encoder} at {matcher.threshold:.3f} ({matcher.threshold_from}),"
        f" {matcher.assignment} assignment.",
        table(COLUMNS, steps_cells(report)),
        RULE,
    ]
    warnings = [f"- {each.score.system}: {said}" for each in report.steps for said in each.score.warnings]
    notes = [*(f"- {note}" for note in report.notes), *warnings]
    return "\n\n".join([*parts, *(["\n".join(notes)] if notes else [])]) + "\n"


def _cells(each: StepScore, change: PairedRow | None) -> tuple[object, ...]:
    score = each.score
    unread = sum(n for status, n in each.statuses.items() if status in ("partial", "failed"))
    return (
        f"{each.step}{' (last)' if each.is_last else ''}",
        rate(score.headline.f1_above_permuted, score.headline.interval),
        *(
            rate(getattr(score.micro, name), score.intervals.get(name))
            for name in ("f1", "recall", "precision", "recall_major")
        ),
        rate(score.headline.f1_permuted),
        f"{score.micro.n_predicted:,.0f}",
        f"{score.micro.n_matched:,.0f}",
        f"{score.coverage.n_answered} of {score.coverage.n_articles}",
        unread,
        "–" if each.seconds_per_article is None else f"{each.seconds_per_article.median:.1f}",
        "–" if change is None else _change(change),
    )


def _change(test: PairedRow) -> str:
    span = "" if test.interval is None else f" [{test.interval[0]:+.3f}, {test.interval[1]:+.3f}]"
    return f"{test.difference:+.3f}{span}, p {test.p_holm:.3f}"
