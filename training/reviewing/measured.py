"""A reviewer measured on development papers: asked, cleaned, scored, each step kept on disk.

    dev.jsonl       the papers and what people said of them
    rows.jsonl      what the reviewer answered, with rows.run.json (training.reviewing.results)
    clean.jsonl     the same without repeats and what is over the cap
    score.json      the score with its controls (ReviewScore)

Given again it goes on: papers that were answered stand, a score of these weights is read back.
"""

import gc
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from pydantic import ValidationError

from evals.concerns.board import read_score
from evals.concerns.clean import Cleaning, clean
from evals.concerns.encoder import Encoder
from evals.concerns.measure import Wanted, measuring_of, read_panel
from evals.concerns.provenance import hand_on, made_by
from evals.concerns.score import score
from evals.concerns.similarity import LEXICAL
from evals.jsonl import read_rows
from evals.schema import ReviewExample
from evals.schema.reviewruns import ReviewRun
from evals.schema.reviews import PredictionRow
from evals.schema.reviewscores import ReviewScore
from training.chain import load_chain
from training.files import write_whole
from training.manifest import BASE_STAGE, read_chain
from training.reviewing.development import Measure, as_lines
from training.reviewing.infer import Clocks, Job, Progress, infer
from training.reviewing.local import ChainEngine
from training.reviewing.results import ReviewFile


@dataclass(frozen=True)
class Reviewer:
    """A chain to be measured, under a name; `base` is its base model where it lies elsewhere."""

    name: str
    chain: Path
    base: str | None = None
    cache: Path | None = None


@dataclass(frozen=True)
class Measuring:
    """The papers, how is measured, and what that takes: clocks, encoders by name, who hears of progress."""

    papers: tuple[ReviewExample, ...]
    measure: Measure
    clocks: Clocks
    find_encoder: Callable[[str], Encoder]
    progress: Progress


@dataclass(frozen=True)
class Measured:
    """What came of it: the score with its articles, and how the rows behind it came about."""

    score: ReviewScore
    run: ReviewRun


def measured(reviewer: Reviewer, wanted: Measuring, folder: Path) -> Measured:
    """Return the score of a reviewer; what is done already is read from `folder` and not done again."""
    known = known_score(reviewer, folder)
    if known is not None:
        return known
    if wanted.measure.encoder != LEXICAL:
        wanted.find_encoder(
            wanted.measure.encoder
        )  # one that is missing is told before hours of asking
    write_whole(folder / "dev.jsonl", as_lines(wanted.papers))
    run = _asked(reviewer, wanted, folder / "rows.jsonl")
    cleaning = Cleaning(cap=wanted.measure.cap or None)
    rows = [clean(row, cleaning) for row in read_rows(folder / "rows.jsonl", PredictionRow)]
    lines = (json.dumps(each.document(cleaning), ensure_ascii=False) + "\n" for each in rows)
    write_whole(folder / "clean.jsonl", "".join(lines))
    hand_on(folder / "rows.jsonl", folder / "clean.jsonl")
    found = _scored(reviewer.name, wanted, folder)
    write_whole(folder / "score.json", found.model_dump_json(indent=1) + "\n")
    return Measured(found, run)


def known_score(reviewer: Reviewer, folder: Path) -> Measured | None:
    """Return what was measured before of just these weights, None if nothing was."""
    run = _run(folder / "rows.run.json")
    manifest = read_chain(reviewer.chain).manifest
    weights = {BASE_STAGE: manifest.base.weights_sha256}
    weights |= {stage.name: stage.sha256 for stage in manifest.stages}
    if run is None or run.status != "finished" or run.engine.checksums != weights:
        return None
    if not (folder / "score.json").is_file():
        return None
    found = read_score(folder / "score.json")
    return Measured(found.model_copy(update={"system": reviewer.name}), run)


def _run(file: Path) -> ReviewRun | None:
    try:
        return ReviewRun.model_validate_json(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValidationError, UnicodeDecodeError):
        return None


def _asked(reviewer: Reviewer, wanted: Measuring, out: Path) -> ReviewRun:
    """Ask a reviewer about the papers and let go of it again, since the next one needs the room."""
    measure = wanted.measure
    chain = load_chain(reviewer.chain, measure.dtype, base=reviewer.base, cache=reviewer.cache)
    engine = ChainEngine(chain, measure.asking)
    articles = [each.article for each in wanted.papers]
    job = Job(articles, engine, measure.asking, measure.batch)
    file = ReviewFile(out)
    before = _run(file.record)
    is_other = before is not None and before.engine.checksums != chain.stage_checksums
    try:
        return infer(job, file, wanted.clocks, wanted.progress, overwrite=is_other)
    finally:
        del job, engine, chain
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def _scored(name: str, wanted: Measuring, folder: Path) -> ReviewScore:
    reference, measure = folder / "dev.jsonl", wanted.measure
    panel = read_panel(reference, folder / "clean.jsonl", "both")
    how = Wanted(
        encoder=measure.encoder,
        threshold=measure.threshold or None,
        has_articles=True,
        draws=measure.draws,
        seed=measure.seed,
    )
    found = score(name, panel, measuring_of(panel, reference, how, wanted.find_encoder))
    return found.model_copy(update={"made_by": made_by(folder / "clean.jsonl")})
