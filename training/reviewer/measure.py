"""Development papers of a reviewer, and the score of what stages say about papers."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import Field

from evals.errors import BadConfig
from evals.papers.collection import OWN, read_collection
from evals.papers.families import family_of, split_by_family, without_leaks
from evals.review.clean import Cleaning, clean
from evals.review.match import Encoder, number_of, panel_of
from evals.review.score import AUTO, Library, Scored, ScoreOptions, measuring_of, review_report
from evals.review.task import paper_of_example, reference_of
from evals.schema import ReviewExample
from evals.schema.reports import ReviewReport
from evals.schema.reviews import Concern, MadeBy, PredictionRow
from training.config import Settings, make
from training.data.reviews import ReviewedPaper
from training.data.tokens import Rows


class MeasureSettings(Settings):
    """How what a reviewer says is cleaned and scored."""

    seed: int = Field(0, ge=0, description="of the draws behind intervals and p")
    cap: int = Field(20, ge=0, description="concerns kept of each paper; 0 = all")
    encoder: str = Field("embedded", description="what tells whether two concerns agree")
    threshold: str = Field(
        "", description="similarity from which they agree, or auto; empty = what is usual for the encoder"
    )


def read_measure(values: Mapping[str, object], place: str) -> MeasureSettings:
    """Return a measure from values by name, defaults for the rest; BadConfig names what is wrong."""
    measure = make(MeasureSettings, values, place)
    if measure.threshold not in ("", AUTO):
        number_of(measure.threshold)  # refused now, not once the papers have been reviewed
    return measure


def development_papers(source: str, limit: int = 0) -> tuple[ReviewExample, ...]:
    """Return the papers of the development split, two or more: the first `limit` if that is not 0.

    `source` is the folder of `assay data review`, a file of such papers, or demonstration. BadConfig
    if there are none: papers of another split, test above all, never take their place.
    """
    collection = read_collection(source)
    examples = collection.examples
    if collection.has_splits:
        examples, _ = without_leaks(examples)
    elif source == OWN:
        examples = split_by_family(examples, 0)
    found = tuple(each for each in examples if each.split == "dev")
    if not found:
        splits = sorted({each.split or "none" for each in examples})
        raise BadConfig(
            f"{source} holds no papers of the development split (its splits: {', '.join(splits)}). Reviewers are"
            " compared on those alone, so that test papers stay unseen; name the folder that `assay data review`"
            " wrote, or its dev.jsonl."
        )
    chosen = found[:limit] if limit else found
    if len(chosen) < 2:
        raise BadConfig(
            f"{len(chosen)} development paper of {source} is too few: what a list gets by chance is what it gets"
            " on another paper. Take two or more."
        )
    return chosen


def refuse_learned(papers: Sequence[ReviewExample], learned: Rows[ReviewedPaper], trained: str) -> None:
    """Raise BadConfig if a paper, or another version of it, is among what `trained` was trained on."""
    families = {family_of(row.article, "") for row in learned.items}
    names = {row.article for row in learned.items}
    both = [each.id for each in papers if each.id in names or each.family in families]
    if both:
        raise BadConfig(
            f"{len(both)} of {len(papers)} development papers (such as {both[0]}) are in the training data of"
            f" {trained} as well, so it would be measured by what it has seen; name other papers."
        )


def graded(
    stages: Mapping[str, tuple[Mapping[str, tuple[Concern, ...]], MadeBy | None]],
    papers: Sequence[ReviewExample],
    measure: MeasureSettings,
    find_encoder: Callable[[str], Encoder],
    **about: Any,
) -> ReviewReport:
    """Return one report on what stages said of papers, cleaned and scored; `about` are fields that no score knows."""
    cleaning, scored = Cleaning(cap=measure.cap or None), dict[str, Scored]()
    options = ScoreOptions(measure.encoder, threshold=measure.threshold or None, seed=measure.seed)
    texts = tuple(map(paper_of_example, papers))
    for name, (said, made) in stages.items():
        rows = [PredictionRow(article_id=of, concerns=tuple(map(dict, each))) for of, each in said.items()]
        panel = panel_of(list(map(reference_of, papers)), [clean(row, cleaning).row for row in rows])
        measuring = measuring_of(panel, options, find_encoder, Library(texts, texts))
        scored[name] = Scored(panel, measuring, made, said)
    return review_report(scored, **about)
