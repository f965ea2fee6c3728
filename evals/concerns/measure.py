"""From files to a score: rows read and checked, a matcher chosen, the score made."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evals.articles.families import family_of
from evals.concerns.encoder import Encoder, ReadyVectors
from evals.concerns.panel import Panel, is_on_figure, panel_of
from evals.concerns.retrieval import Paper
from evals.concerns.score import Library, Measuring
from evals.concerns.similarity import (
    LEXICAL,
    LEXICAL_REVISION,
    LEXICAL_THRESHOLD,
    LexicalSimilarity,
    ReadySimilarity,
    Similarity,
    vector_similarity,
)
from evals.concerns.threshold import FALSE_MATCH_RATE, Threshold, calibrated, number_of
from evals.concerns.uncertainty import DRAWS
from evals.errors import BadConfig
from evals.jsonl import read_rows
from evals.schema.papers import PaperRow
from evals.schema.record import Record
from evals.schema.reviews import PredictionRow, ReferenceRow
from evals.schema.reviewscores import Assignment, FigurePolicy, Matcher

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


def measuring_of(
    panel: Panel, reference: Path, wanted: Wanted, find: Callable[[str], Encoder]
) -> Measuring:
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


def _matcher(
    panel: Panel, wanted: Wanted, find: Callable[[str], Encoder]
) -> tuple[Encoder | None, Similarity]:
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
        raise BadConfig(
            f"the vectors in {path} have {sorted(lengths)} numbers; all of one encoder have as many"
        )
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


def _instrument(
    panel: Panel, similarity: Similarity, encoder: Encoder | None, wanted: Wanted
) -> tuple[str, str]:
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
        said: Mapping[str, Sequence[str]] = {
            paper.id: paper.concerns for paper in _papers(reference, wanted.figures)
        }
        searched = tuple(
            Paper(each.id, each.text, tuple(said.get(each.id, ())), each.family) for each in scored
        )
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
