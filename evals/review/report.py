"""Reports on reviewers: how answers ended, what a score is made with, and several systems or checkpoints side by side."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import get_args

import numpy as np

from evals.compare import Comparisons, Pairing, check_comparable, compare
from evals.errors import BadConfig, IncomparableReports, LabError
from evals.io import read_rows
from evals.leaderboard import LeaderboardRow, Standings, standings
from evals.papers.families import family_of
from evals.report import measured
from evals.review import is_demonstration
from evals.review.clean import key_of, written
from evals.review.controls import Paper
from evals.review.match import (
    FALSE_MATCH_RATE,
    JUDGED_THRESHOLD,
    LEXICAL,
    LEXICAL_REVISION,
    LEXICAL_THRESHOLD,
    Encoder,
    JudgedEncoder,
    Panel,
    ReadySimilarity,
    ReadyVectors,
    Similarity,
    Threshold,
    calibrated,
    is_on_figure,
    number_of,
    panel_of,
    similarity_of,
)
from evals.review.page import table
from evals.review.parse import parse
from evals.review.score import DRAWS, Library, Measuring
from evals.review.task import Review
from evals.schema import Metric
from evals.schema.articles import PaperRow
from evals.schema.record import Record
from evals.schema.reports import (
    ArticleScore,
    Assignment,
    ErrorAnalysis,
    FigurePolicy,
    Gate,
    Gates,
    Matcher,
    Mode,
    PublishedResult,
    RecallBin,
    ReviewReport,
    ReviewScore,
    SharedErrors,
    WorstArticle,
)
from evals.schema.reviews import ParseStatus, PredictionRow, ReferenceRow
from evals.stats.intervals import DRAWS as SWAPS

ABOVE, CONTROLS = Review.order, Review.controls
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
                mode=modes.get(each.article_id),
                **each.model_dump(include={"article_id", "source", "n_human", "n_predicted"}),
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


def shared_of(reports: Sequence[ReviewReport]) -> SharedErrors | None:
    """Return what systems miss together and find alone; None for one system."""
    if len(reports) < 2:
        return None
    by: dict[tuple[str, int], list[str]] = defaultdict(list)
    for report in reports:
        for article in report.rows:
            for pair in article.pairs:
                by[article.article_id, pair.human].append(report.chain_name)
    alone = Counter(names[0] for names in by.values() if len(names) == 1)
    hit = {article for article, _ in by}
    first = reports[0].rows
    return SharedErrors(
        none_found=tuple(each.article_id for each in first if each.n_human and each.article_id not in hit),
        n_found_by_one={report.chain_name: alone[report.chain_name] for report in reports},
        n_found_by_all=sum(len(names) == len(reports) for names in by.values()),
        n_found_by_none=sum(each.n_human for each in first) - len(by),
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
    """The options of `assay review score`, as written; `threshold` None means what is usual for the encoder."""

    encoder: str
    similarities: Path | None = None
    vectors: Path | None = None
    threshold: str | None = None
    false_match_rate: float = FALSE_MATCH_RATE
    assignment: Assignment = "optimal"
    figures: FigurePolicy = "both"
    papers: Path | None = None
    retrieve_from: Path | None = None
    controls: bool = True
    draws: int = DRAWS
    seed: int = 0


def read_panel(reference: Path, predictions: Path, figures: FigurePolicy) -> Panel:
    """Return both files side by side; BadRow names a bad line, an article given twice among them."""
    humans = read_rows(reference, ReferenceRow, key=lambda row: row.article_id)
    tools = read_rows(predictions, PredictionRow, key=lambda row: row.article_id)
    return panel_of(humans, tools, figures)


def measuring_of(panel: Panel, reference: Path, wanted: Wanted, find: Callable[[str], Encoder]) -> Measuring:
    """Return what to score a panel with; `find` gives the encoder of a name."""
    encoder: Encoder | None = None
    if wanted.similarities is not None:
        rows = read_rows(wanted.similarities, SimilarityRow, key=lambda row: row.article_id)
        similarity: Similarity = ReadySimilarity({row.article_id: row.matrix for row in rows}, panel)
        blocks = [similarity.block(i, i).ravel() for i in range(len(panel.article_ids))]
        values = np.concatenate(blocks) if blocks else np.zeros(0)
        # what tells one encoder's similarities from another's: where their values lie
        name, revision = f"{FROM_FILE} of {wanted.similarities.name}", "no pairs"
        revision = f"median {np.median(values):.3f}" if len(values) else revision
    else:
        name, revision = LEXICAL, LEXICAL_REVISION
        if wanted.encoder != LEXICAL:
            encoder = read_vectors(wanted.vectors) if wanted.vectors else find(wanted.encoder)
            name, revision = encoder.name, encoder.revision
        similarity = similarity_of(panel.predicted, panel.human, encoder)
    threshold = _threshold(panel, encoder, wanted)
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
        matcher=matcher,
        n_by_chance=threshold.n,
        has_controls=wanted.controls,
        library=_library(reference, wanted) if wanted.controls else None,
        draws=wanted.draws,
        seed=wanted.seed,
    )


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
    if given is None and isinstance(encoder, JudgedEncoder):
        return Threshold(JUDGED_THRESHOLD, "the judge says yes")
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
        searched = tuple(replace(each, concerns=tuple(said.get(each.id, ()))) for each in scored)
    return Library(scored, searched)


def _papers(path: Path, figures: FigurePolicy) -> tuple[Paper, ...]:
    return tuple(paper_of(row, figures) for row in read_rows(path, PaperRow, key=lambda row: row.article_id))


def paper_of(row: PaperRow, figures: FigurePolicy) -> Paper:
    """Return what controls know of a paper."""
    return Paper(
        id=row.article_id,
        text=row.text,
        concerns=tuple(each.text for each in row.concerns if not is_on_figure(each, figures)),
        family=row.family or family_of(row.article_id, ""),
        title=row.title,
        sections=row.named,
        abstract=row.abstract,
    )


F1_GATE, RECALL_GATE = 0.58, 0.45
Rows = Mapping[str, PredictionRow]


class SystemReport(Record):
    """One system: its score, the metrics of each source, gates and errors."""

    score: ReviewScore
    sources: dict[str, dict[str, Metric]]
    gates: Gates
    errors: ErrorAnalysis


class SystemsReport(Record):
    """Everything `assay review report` found; `against` names the system that stands first in comparisons."""

    against: str
    systems: tuple[SystemReport, ...]
    comparisons: Comparisons | None
    shared: SharedErrors | None
    published: tuple[PublishedResult, ...] = ()


def report_of(
    reports: Sequence[ReviewReport],
    answers: Mapping[str, Rows],
    against: str | None = None,
    published: Sequence[PublishedResult] = (),
) -> SystemsReport:
    """Return the report on systems scored alike; `answers` are rows by system, then by article.

    `against` names the system that stands first in comparisons, else the first one. LabError for a name
    that no score has, IncomparableReports for scores that were not made alike.
    """
    check_comparable(reports)
    names = [report.chain_name for report in reports]
    if len(set(names)) < len(names):
        raise IncomparableReports(
            f"systems have the same name: {', '.join(names)}; give each its own with `assay review score --name`."
        )
    for name in (*([against] if against else []), *answers):
        if name not in names:
            raise LabError(f"there is no score of {name!r}; scored are {', '.join(names)}.")
    first = against or names[0]
    ordered = sorted(reports, key=lambda report: report.chain_name != first)
    return SystemsReport(
        against=first,
        systems=tuple(_system(report, answers.get(report.chain_name)) for report in ordered),
        comparisons=compared(ordered),
        shared=shared_of(ordered),
        published=tuple(published),
    )


def compared(reports: Sequence[ReviewReport], metrics: Sequence[str] = ()) -> Comparisons | None:
    """Return every pair's differences, p corrected for all; None for one report."""
    pairs = [((one, one.chain_name), (two, two.chain_name)) for one, two in combinations(reports, 2)]
    score = reports[0].score
    return compare(pairs, Pairing(metrics, draws=max(score.draws, SWAPS), seed=score.seed)) if pairs else None


def boards_of(reports: Sequence[ReviewReport], order: str = ABOVE) -> tuple[Standings, ...]:
    """Return a leaderboard for each matcher and reference, most systems first."""
    together: dict[tuple[str, ...], list[ReviewReport]] = defaultdict(list)
    for report in sorted(reports, key=lambda report: report.chain_name):
        together[tuple(report.instrument.values())].append(report)
    found = [board for alike in together.values() for board in standings(alike, order=order)]
    demonstrations = {
        each.chain_name
        for each in reports
        if (made := each.score.made_by) and is_demonstration(made.stage, made.checksums)
    }

    def marked(row: LeaderboardRow) -> LeaderboardRow:
        name = f"{row.stage} (demonstration)"
        return row.model_copy(update={"stage": name, "chain": name}) if row.stage in demonstrations else row

    found = [board.model_copy(update={"rows": tuple(map(marked, board.rows))}) for board in found]
    return tuple(sorted(found, key=lambda board: -len(board.rows)))


def gates_of(score: ReviewScore) -> Gates:
    """Return the published gates, F1 of 0.58 and recall of 0.45, each shown apart."""
    gates = {}
    for metric, needed in (("f1", F1_GATE), ("recall", RECALL_GATE)):
        value, span = getattr(score.micro, metric), score.intervals.get(metric)
        is_sure = span is not None and span[0] >= needed
        gates[metric] = Gate(metric=metric, value=value, needed=needed, passes=value >= needed, is_sure=is_sure)
    passes = [gate.passes for gate in gates.values()]
    return Gates(**gates, as_documented=any(passes), as_coded=all(passes))


def _system(report: ReviewReport, rows: Rows | None) -> SystemReport:
    if not report.rows:
        raise LabError(f"the score of {report.chain_name} holds no articles; write it with `assay review score --out`.")
    score = report.score
    groups = Review.groups(report.rows)
    return SystemReport(
        score=score,
        sources={
            name: measured(groups[f"source {name}"], Review, score.draws, score.seed) for name in score.per_source
        },
        gates=gates_of(score),
        errors=errors_of(report.rows, rows),
    )


STEPS_RULE = (
    "Measured on development papers; test papers were not touched and nothing was chosen. Intervals are over articles"
    " (95 %); p is of the paired permutation test of F1 above the strongest control, corrected by Holm for all pairs"
    " of steps. The more steps are looked at, the likelier the best of them is so by chance: an interval or a"
    " corrected p tells more than a maximum."
)


def steps_page(
    run: str, reports: Sequence[ReviewReport], rows: Sequence[Mapping[str, str]], told: Sequence[str]
) -> str:
    """Return the comparison of a run's checkpoints as one Markdown page; `rows` are cells by column."""
    score = reports[0].score
    notes = [f"- {note}" for note in told]
    notes += [f"- {each.chain_name}: {said}" for each in reports for said in each.score.warnings]
    parts = [
        f"# {run} at its checkpoints",
        f"{score.coverage.n_articles} development papers, {score.micro.n_human:,} human concerns;"
        f" matched with {score.matcher.encoder} at {score.matcher.threshold:.3f} ({score.matcher.threshold_from}),"
        f" {score.matcher.assignment} assignment.",
        table(list(rows[0]), [list(row.values()) for row in rows]),
        STEPS_RULE,
        *(["\n".join(notes)] if notes else []),
    ]
    return "\n\n".join(parts) + "\n"
