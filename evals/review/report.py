"""What a score of reviewers is made with, and several systems side by side."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from evals.errors import BadConfig
from evals.io import read_rows
from evals.leaderboard import LeaderboardRow, Standings, standings
from evals.papers.families import family_of
from evals.review import is_demonstration
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
from evals.review.score import DRAWS, Library, Measuring
from evals.review.task import Review
from evals.schema.articles import PaperRow
from evals.schema.record import Record
from evals.schema.reports import Assignment, FigurePolicy, Matcher, ReviewReport
from evals.schema.reviews import PredictionRow, ReferenceRow

ABOVE, CONTROLS = Review.order, Review.controls
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
