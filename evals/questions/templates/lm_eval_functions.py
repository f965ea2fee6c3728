"""What the task of lm-evaluation-harness calls: the rows, and the metrics of one answer."""

import sys
from pathlib import Path

from datasets import Dataset

sys.path.insert(0, str(Path(__file__).resolve().parent))

from question_set.grade import grade, measures, rows

READ = "auto"
"""How answers are read: auto, answer (the answer line alone) or text."""


def splits(**_: object) -> dict[str, Dataset]:
    """Return the rows by split, as data sets."""
    return {split: Dataset.from_list(found) for split in ("train", "dev", "test") if (found := rows(split))}


def process_results(row: dict, results: list[str]) -> dict[str, float]:
    """Return the metrics that apply to one answer."""
    return measures(row, grade(row, results[0], READ))
