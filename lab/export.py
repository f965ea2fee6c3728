"""Votes as a data set: rows in a trainer's own format, a statistics file and a data card.

Left out of the formats that a model is trained on: votes on questions that are held out to measure
models, ties, answers that were both bad (KTO learns from those), and votes between identical texts,
which hold no preference. They are counted. The arena format keeps every vote.
"""

import hashlib
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple
from zipfile import ZIP_DEFLATED, ZipFile

from evals.agreement import agreement
from evals.errors import LabError
from evals.exports import ExportFormat, ExportStatistics, Reason
from hub.cards import dataset_card
from lab.outcomes import CHOICES, JudgedPair, Outcome, count_pairs, outcome_of, ratings_of
from lab.rows import LEFT_OUT, ROW_TYPES, reason_left_out, rows_of

ROWS = "train.jsonl"
STATISTICS = "statistics.json"
GUIDELINES = "GUIDELINES.md"
CARD = "README.md"
LINE_ENDS = {ord(mark): f"\\u{ord(mark):04x}" for mark in "\x85\u2028\u2029"}
"""Characters that JSON leaves as they are and that some readers take for the end of a line."""

GUIDELINES_TEXT = Path(__file__).parent / "text" / "guidelines.md"


class Export(NamedTuple):
    """A data set before it is written: one JSON object per line, and what they hold."""

    lines: bytes
    statistics: ExportStatistics


def build_export(
    pairs: Sequence[JudgedPair],
    form: ExportFormat,
    exported_at: datetime,
    licence: str | None = None,
) -> Export:
    """Return the rows and statistics of `pairs` in the format `form`.

    Raises LabError if no vote gives a row: an empty data set helps nobody.
    """
    used = [pair for pair in pairs if reason_left_out(pair, form) is None]
    left_out = Counter(dict.fromkeys(LEFT_OUT[form], 0))
    left_out.update(reason for pair in pairs if (reason := reason_left_out(pair, form)))
    if not used:
        raise LabError(_nothing(form, len(pairs), left_out))
    rows = [
        row.model_dump_json().translate(LINE_ENDS) for pair in used for row in rows_of(pair, form)
    ]
    lines = "".join(f"{row}\n" for row in rows).encode()
    statistics = ExportStatistics(
        format=form,
        exported_at=exported_at,
        rows_file=ROWS,
        rows_sha256=hashlib.sha256(lines).hexdigest(),
        rows=len(rows),
        votes=len(pairs),
        left_out=dict(left_out),
        raters=len({pair.vote.rater for pair in used}),
        questions=len({pair.vote.question for pair in used}),
        first_vote=min(pair.vote.voted_at for pair in used),
        last_vote=max(pair.vote.voted_at for pair in used),
        by_stages=count_pairs(_outcome(pair) for pair in pairs),
        chains=tuple(sorted({answer.chain for pair in used for answer in (pair.left, pair.right)})),
        licence=licence,
        agreement=agreement(ratings_of(pairs), CHOICES),
    )
    return Export(lines, statistics)


def write_export(export: Export, folder: Path) -> None:
    """Write the data set into `folder`, each file whole; an earlier export there is replaced.

    Raises LabError if the folder holds anything else, so that no other file is overwritten.
    """
    try:
        if folder.exists() and any(folder.iterdir()) and not (folder / STATISTICS).exists():
            raise LabError(
                f"{folder} holds other files, and an export writes a {CARD}. "
                "Name a new folder, an empty one, or one that holds an earlier export."
            )
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in _files(export).items():
            unfinished = folder / f".{name}.part"
            unfinished.write_bytes(content)
            unfinished.replace(folder / name)
    except OSError as error:
        raise LabError(
            f"the export cannot be written to {folder}: {error.strerror}. "
            "Name a folder that you may write to."
        ) from error


def zip_export(export: Export, folder: Path) -> Path:
    """Return a zip file in `folder` with the same files as `write_export` writes."""
    folder.mkdir(parents=True, exist_ok=True)
    name = f"preferences-{export.statistics.format}"
    with TemporaryDirectory(dir=folder) as scratch:
        unfinished = Path(scratch) / "unfinished.zip"
        with ZipFile(unfinished, "w", ZIP_DEFLATED) as archive:
            for file, content in _files(export).items():
                archive.writestr(f"{name}/{file}", content)
        return unfinished.replace(folder / f"{name}.zip")


def _files(export: Export) -> dict[str, bytes]:
    statistics = export.statistics
    card = dataset_card(statistics, ROW_TYPES[statistics.format], guidelines=GUIDELINES)
    return {
        ROWS: export.lines,
        GUIDELINES: GUIDELINES_TEXT.read_bytes(),
        CARD: str(card).encode(),
        # Last: its presence marks the folder as a finished export.
        STATISTICS: (statistics.model_dump_json(indent=1) + "\n").encode(),
    }


def _outcome(pair: JudgedPair) -> Outcome:
    stages = (pair.vote.left_stage, pair.vote.right_stage)
    return outcome_of(stages, pair.vote.choice, same_text=pair.left.text == pair.right.text)


def _nothing(form: ExportFormat, votes: int, left_out: Counter[Reason]) -> str:
    if not votes:
        return "there are no votes to export yet. Vote in the Compare tab first (`assay lab`)."
    listed = ", ".join(f"{n} {reason.replace('_', ' ')}" for reason, n in left_out.items())
    return (
        f"none of the {votes} votes gives a row in the format {form!r} ({listed}). "
        "Choose a side in the Compare tab on the questions it offers, or use --format arena, which keeps every vote."
    )
