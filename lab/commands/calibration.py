"""`assay eval calibration`: does the confidence that any model states mean what it says?"""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from pydantic import Field

from evals.schema import Record, Share
from lab.console import emit, notes
from lab.figures import calibration_tables


class Binning(StrEnum):
    """How confidences are put into bins."""

    WIDTH = "width"
    MASS = "mass"


class Method(StrEnum):
    """How intervals are made from draws."""

    PERCENTILE = "percentile"
    BCA = "bca"


class OutcomeRow(Record):
    """A row of `assay eval calibration`."""

    id: str
    confidence: Annotated[Share, Field(strict=True)] | None
    correct: bool = Field(strict=True)
    cluster: str | None = None


def calibration(
    rows: Annotated[
        Path, typer.Argument(help="JSONL: id, confidence 0..1 or null, correct, cluster.")
    ],
    bins: Annotated[int, typer.Option(min=1, max=1000, help="How many bins.")] = 10,
    binning: Annotated[
        Binning,
        typer.Option(help="width: equal parts of 0..1. mass: equally many rows, ties together."),
    ] = Binning.WIDTH,
    bootstrap: Annotated[int, typer.Option(min=1, help="Draws behind each interval.")] = 10_000,
    interval: Annotated[
        Method, typer.Option(help="bca corrects for bias and skew; percentile does not.")
    ] = Method.PERCENTILE,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same intervals.")] = 0,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON document on standard output.")
    ] = False,
) -> None:
    """Measure how well stated confidences match what was correct.

    A row of the file: {"id": "q1", "confidence": 0.8, "correct": true, "cluster": "thymus E2F"}.
    Rows with the same "cluster" are resampled together; without one, a row stands alone. Rows whose
    confidence is null are counted and enter no metric.

    Compare ece with ece_if_calibrated, which is what chance alone makes of these confidences: an ECE
    below its q95 shows no miscalibration. Compare brier with base_rate_brier, which always stating
    the share correct would get. docs/calibration.md explains every figure.

    Example: assay eval calibration rows.jsonl --bins 10 --json

    Example: assay eval calibration rows.jsonl --binning mass --interval bca
    """
    from evals.calibration import Settings, calibrate
    from evals.jsonl import read_rows

    read = read_rows(rows, OutcomeRow, key=lambda row: row.id)
    measured = calibrate(
        [row.confidence for row in read],
        [row.correct for row in read],
        [f"cluster {row.cluster}" if row.cluster is not None else f"row {row.id}" for row in read],
        Settings(bins, binning.value, bootstrap, seed, interval.value),
    )
    if measured.note:
        notes.print(f"nothing to measure: {measured.note}")
    emit(measured, as_json=as_json, table=calibration_tables(measured))
