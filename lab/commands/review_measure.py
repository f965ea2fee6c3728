"""A reviewer measured on development papers, with its progress shown: for sweeps and tables of checkpoints."""

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from lab.commands.review_infer import reviewing_bar
from lab.commands.review_score import find_cached
from lab.console import counted, notes

if TYPE_CHECKING:
    from evals.schema import ReviewExample
    from training.reviewing.development import Measure
    from training.reviewing.measured import Measured, Reviewer


def measure_reviewer(
    reviewer: "Reviewer", papers: "tuple[ReviewExample, ...]", measure: "Measure", folder: Path
) -> "Measured":
    """Return what a reviewer scores on the papers; what was done before is read and not done again."""
    from training.reviewing.infer import Clocks
    from training.reviewing.measured import Measuring, known_score, measured

    known = known_score(reviewer, folder)
    if known is not None:
        return known
    notes.print(f"{reviewer.name} reviews {counted(len(papers), 'development paper')}")
    with reviewing_bar(len(papers)) as progress:
        clocks = Clocks(time.monotonic, lambda: datetime.now(UTC))
        return measured(reviewer, Measuring(papers, measure, clocks, find_cached, progress), folder)
