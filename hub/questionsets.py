"""Question sets as they are published: one table per split that any reader takes, and what the card says of them.

What differs in type from row to row (what is right) stands as JSON text; `hub:owner/name` reads it back.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from evals.errors import LabError
from evals.questions.checking import trick_scores
from evals.questions.sets import SPLITS, examine, question_row, raw_rows
from evals.schema import ChoiceTruth, Example
from evals.schema.publishing import Finding

SET_FILES = (".yaml", ".yml", ".csv", ".tsv")
"""Kinds of file that hold a question set or nothing that is published."""
NAMES = {"train": "train", "dev": "validation", "test": "test"}


def is_question_set(file: Path) -> bool:
    """Return whether the first row of a file is one of a question set."""
    try:
        rows, _ = raw_rows(file)
    except LabError:
        return False
    return bool(rows) and {"id", "prompt", "group", "split"} <= rows[0][1].keys()


def bad_rows(path: str, file: Path) -> Iterator[Finding]:
    """Yield the rows of a set that cannot be used."""
    for each in examine(file).faults:
        problem = f"field {each.field!r}: {each.problem}"
        yield Finding(check="rows", path=path, line=each.line, problem=problem, remedy=each.remedy)


def tables(file: Path) -> dict[str, tuple[dict[str, Any], ...]]:
    """Return the rows of a set without bad rows, by the Hub's name of their split; empty columns are left out."""
    made: dict[str, list[dict[str, Any]]] = {NAMES[split]: [] for split in SPLITS}
    for _, data in raw_rows(file)[0]:
        row = question_row(data)
        flat: dict[str, Any] = {**row.model_dump(mode="json"), "kind": row.truth.kind}
        flat["truth"] = row.truth.model_dump_json()
        flat["options"] = list(row.truth.options) if isinstance(row.truth, ChoiceTruth) else []
        made[NAMES[row.split]].append(flat)
    used = {name for rows in made.values() for row in rows for name, value in row.items() if value}
    return {
        split: tuple({name: value for name, value in row.items() if name in used} for row in rows)
        for split, rows in made.items()
        if rows
    }


def scores_told(files: Sequence[Path]) -> dict[str, str]:
    """Return what answers without a model score, as lines of the card."""
    rows: list[Example] = [row for file in files for row in examine(file).examples]
    test = [row for row in rows if row.split == "test"]
    where = "test rows" if test else "rows"
    scores = trick_scores(test or rows, [row for row in rows if row.split == "train"])
    return {
        f"{where} that “{each.policy}” gets right, an answer without a model": f"{each.correct} of {each.n}"
        for each in scores
    }
