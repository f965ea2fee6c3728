"""Predicted and human concerns side by side, article by article, as flat arrays.

What is left out (human concerns on figures, blank predictions) is left out here and counted, so that
everything after works on the same lists. `Panel.predicted_place` and `human_place` lead back to the files.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from evals.concerns.clean import written
from evals.concerns.labels import category_of, severity_of
from evals.errors import LabError
from evals.intervals import Whole
from evals.schema.reviews import (
    CATEGORIES,
    SEVERITIES,
    UNKNOWN,
    PredictionRow,
    ReferenceConcern,
    ReferenceRow,
)
from evals.schema.reviewscores import Coverage, FigurePolicy

CATEGORY_NAMES: tuple[str, ...] = (*CATEGORIES, UNKNOWN)
SEVERITY_NAMES: tuple[str, ...] = (*SEVERITIES, UNKNOWN)
MAJOR = SEVERITY_NAMES.index("major")
NAMED = 20
"""Ids of missing or unknown articles that are listed."""


@dataclass(frozen=True)
class Lists:
    """The concerns of one side: texts one after another, `start` (articles + 1) where each list begins.

    `category` and `severity` index CATEGORY_NAMES and SEVERITY_NAMES, `place` the row of the file,
    `article` (texts) the article a text belongs to.
    """

    texts: tuple[str, ...]
    start: Whole
    category: Whole
    severity: Whole
    place: Whole

    @property
    def sizes(self) -> Whole:
        """How many concerns each article has."""
        return np.diff(self.start)

    @property
    def article(self) -> Whole:
        """The article of each concern."""
        return np.repeat(np.arange(len(self.start) - 1), self.sizes)


@dataclass(frozen=True)
class Panel:
    """All articles of a reference with both lists; `is_answered` says which the tool answered."""

    article_ids: tuple[str, ...]
    sources: tuple[str, ...]
    predicted: Lists
    human: Lists
    is_answered: np.ndarray
    sizes_in_files: tuple[tuple[int, int], ...]
    coverage: Coverage
    reference_sha256: str


@dataclass(frozen=True)
class _Listed:
    text: str
    category: str
    severity: str
    place: int


def panel_of(
    reference: Sequence[ReferenceRow],
    predictions: Sequence[PredictionRow],
    figures: FigurePolicy = "both",
) -> Panel:
    """Return both sides of every article of the reference; predictions on other articles are left out.

    LabError if the two files have no article in common.
    """
    by_id = {row.article_id: row for row in predictions}
    known = {row.article_id for row in reference}
    if predictions and not known & set(by_id):
        raise LabError(
            f"no article of the predictions (such as {predictions[0].article_id!r}) is in the"
            f" reference (such as {reference[0].article_id!r}); give the split the tool was run on"
        )
    humans = [_humans(row, figures) for row in reference]
    tools = [_predicted(by_id.get(row.article_id)) for row in reference]
    answered = np.array([row.article_id in by_id for row in reference], dtype=bool)
    sizes = tuple(
        (len(written(by_id[row.article_id])) if row.article_id in by_id else 0, len(row.concerns))
        for row in reference
    )
    n_kept = sum(map(len, humans)), sum(map(len, tools))
    coverage = _coverage(reference, by_id, tools, (sum(h for _, h in sizes) - n_kept[0]))
    return Panel(
        article_ids=tuple(row.article_id for row in reference),
        sources=tuple(source_of(row) for row in reference),
        predicted=_lists(tools),
        human=_lists(humans),
        is_answered=answered,
        sizes_in_files=sizes,
        coverage=coverage.model_copy(update={"n_blank": sum(p for p, _ in sizes) - n_kept[1]}),
        reference_sha256=_sha256(reference),
    )


def source_of(row: ReferenceRow) -> str:
    """Return where an article was reviewed: its own field, else what its id begins with."""
    if row.source:
        return row.source
    before, colon, _ = row.article_id.partition(":")
    return before if colon else UNKNOWN


def is_on_figure(concern: ReferenceConcern, figures: FigurePolicy) -> bool:
    """Return whether a human concern is left out, because a model that sees no figures cannot say it."""
    is_labelled = figures == "both" and category_of(concern.category) == "figure_issue"
    return figures != "keep" and (concern.requires_figure_reading or is_labelled)


def _humans(row: ReferenceRow, figures: FigurePolicy) -> list[_Listed]:
    return [
        _Listed(each.text, category_of(each.category), severity_of(each.severity), place)
        for place, each in enumerate(row.concerns)
        if not is_on_figure(each, figures)
    ]


def _predicted(row: PredictionRow | None) -> list[_Listed]:
    return [
        _Listed(each.text.strip(), category_of(each.category), severity_of(each.severity), place)
        for place, each in enumerate(written(row) if row is not None else ())
        if each.text and each.text.strip()
    ]


def _lists(rows: Sequence[Sequence[_Listed]]) -> Lists:
    flat = [each for row in rows for each in row]
    return Lists(
        texts=tuple(each.text for each in flat),
        start=np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.intp),
        category=np.array([CATEGORY_NAMES.index(each.category) for each in flat], dtype=np.intp),
        severity=np.array([SEVERITY_NAMES.index(each.severity) for each in flat], dtype=np.intp),
        place=np.array([each.place for each in flat], dtype=np.intp),
    )


def _coverage(
    reference: Sequence[ReferenceRow],
    by_id: Mapping[str, PredictionRow],
    tools: Sequence[Sequence[_Listed]],
    n_figures: int,
) -> Coverage:
    known = {row.article_id for row in reference}
    missing = [name for name in (row.article_id for row in reference) if name not in by_id]
    return Coverage(
        n_articles=len(reference),
        n_answered=len(reference) - len(missing),
        n_with_concerns=sum(1 for tool in tools if tool),
        share=(len(reference) - len(missing)) / max(1, len(reference)),
        missing=tuple(missing[:NAMED]),
        unknown=tuple([name for name in by_id if name not in known][:NAMED]),
        n_figures_left_out=n_figures,
        n_blank=0,
    )


def _sha256(reference: Sequence[ReferenceRow]) -> str:
    """Return a checksum of what the human concerns say, whatever the order of the articles."""
    lines = sorted(json.dumps(row.model_dump(mode="json"), sort_keys=True) for row in reference)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
