"""`assay review score`: how far a system's concerns agree with human ones, and what that is worth."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evals.errors import BadConfig
from evals.schema.reviewscores import Assignment, FigurePolicy
from lab.console import emit, notes

if TYPE_CHECKING:
    from evals.concerns.encoder import Encoder

Encoders = Annotated[
    str,
    typer.Option(
        help="embedded, specter2, specter2-base-mean, lexical, a folder or a sentence-transformers id."
    ),
]
Reference = Annotated[Path, typer.Option(help="JSONL: article_id, concerns of human reviewers.")]
Predictions = Annotated[Path, typer.Option(help="JSONL: article_id, concerns of the system.")]
Similarities = Annotated[
    Path | None, typer.Option(help="JSONL: article_id, matrix (rows predicted, columns human).")
]
Vectors = Annotated[Path | None, typer.Option(help="JSONL: text, vector; instead of an encoder.")]
ThresholdOption = Annotated[
    str | None, typer.Option(help="Similarity from which concerns agree, or auto to calibrate it.")
]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]


def score(
    reference: Reference,
    predictions: Predictions,
    encoder: Encoders = "embedded",
    similarities: Similarities = None,
    vectors: Vectors = None,
    threshold: ThresholdOption = None,
    false_match_rate: Annotated[
        float, typer.Option(help="For auto: human concerns that may match on another paper.")
    ] = 0.05,
    assignment: Annotated[
        Assignment, typer.Option(help="One-to-one: the best of all, or the most alike pair first.")
    ] = "optimal",
    figures: Annotated[
        FigurePolicy,
        typer.Option(help="Human concerns left out: both (flag or category), flag, or keep all."),
    ] = "both",
    papers: Annotated[
        Path | None, typer.Option(help="Articles with texts, for the BM25 control.")
    ] = None,
    retrieve_from: Annotated[
        Path | None, typer.Option(help="Articles whose concerns BM25 may borrow, such as train.")
    ] = None,
    controls: Annotated[
        bool, typer.Option("--controls/--no-controls", help="What knows-nothing lists would get.")
    ] = True,
    per_article: Annotated[
        bool, typer.Option("--per-article", help="Every article with its matches.")
    ] = False,
    name: Annotated[str | None, typer.Option(help="What the system is called.")] = None,
    draws: Annotated[int, typer.Option(min=1, help="Draws behind each interval.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same figures.")] = 0,
    out: Annotated[Path | None, typer.Option(help="A .json file for the whole score.")] = None,
    as_json: Json = False,
) -> None:
    """Score concerns against human ones, beside controls that know nothing of the paper.

    A row of the reference: {"article_id": "elife:1", "source": "elife", "concerns": [{"text": "...",
    "category": "design_flaw", "severity": "major"}]}; article files are read as well. A row of the
    predictions: {"article_id": "elife:1", "concerns": ["..."]}, or objects with labels.

    The headline is F1 above what the same lists get on other papers of the source. Without
    --threshold it is calibrated for the encoder; docs/review-scoring.md explains every figure.
    Where PREDICTIONS.run.json stands beside the rows, the score says who answered, and how.

    Example: assay review score --reference test.jsonl --predictions clean.jsonl --out score.json

    Example: assay review score --reference test.jsonl --predictions clean.jsonl --encoder
    specter2-base-mean --threshold 0.65 --json
    """
    from evals.concerns.measure import Wanted, measuring_of, read_panel
    from evals.concerns.provenance import made_by, refuse_overlap
    from evals.concerns.score import score as scored
    from evals.questions.rows import write_whole
    from lab.review_tables import score_tables

    if similarities is not None and vectors is not None:
        raise BadConfig("--similarities and --vectors were both given; leave one out")
    if out is not None:
        refuse_overlap([reference, predictions], out)
    panel = read_panel(reference, predictions, figures)
    wanted = Wanted(
        encoder=encoder,
        similarities=similarities,
        vectors=vectors,
        threshold=threshold,
        false_match_rate=false_match_rate,
        assignment=assignment,
        figures=figures,
        papers=papers,
        retrieve_from=retrieve_from,
        has_controls=controls,
        has_articles=per_article or out is not None,
        draws=draws,
        seed=seed,
    )
    found = scored(
        name or predictions.stem,
        panel,
        measuring_of(panel, reference, wanted, find_cached),
    ).model_copy(update={"made_by": made_by(predictions)})
    for warning in found.warnings:
        notes.print(f"note: {warning}")
    if out is not None:
        write_whole(out, found.model_dump_json(indent=1) + "\n")
        notes.print(f"wrote {out}")
    shown = found if per_article else found.model_copy(update={"articles": None})
    document = shown.model_dump(mode="json")
    if not per_article:
        document.pop("articles")
    emit(document, as_json=as_json, table=score_tables(found))


def find_cached(name: str) -> "Encoder":
    """Return an encoder whose vectors are kept on disk; progress is shown while it encodes."""
    from evals.concerns.encoder import CachedEncoder
    from training.base import default_cache
    from training.encoders import find_encoder

    def report(done: int, total: int) -> None:
        if done == total or done % 1024 == 0:
            notes.print(f"encoded {done} of {total} texts")

    return CachedEncoder(find_encoder(name), default_cache() / "vectors", report)
