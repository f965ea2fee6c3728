"""A folder of rows as it is published: an allow-list of files, a licence, raters only as hashes.

Takes what `assay prefs export`, `assay data` and `assay eval run` write: JSONL or parquet with a card,
reports, and rows without a card whose kind their columns tell.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from evals.errors import LabError
from evals.schema.publishing import Finding
from hub.cards.dataset import RATERS, SET_FILES, as_parquet, is_question_set, written
from hub.cards.lint import FrontMatterError, body_of, read_front_matter
from hub.checks import Limits, size_finding
from hub.plan import Parcel, Part, part_of

CARD, STATISTICS = "README.md", "statistics.json"
ROWS = (".jsonl", ".parquet")
TEXTS = (".md", ".txt", ".json", ".png", ".svg")
NAMES = ("LICENSE", "NOTICE")
HASHED = re.compile(r"[0-9a-f]{32,64}")
LICENCE_SECTION = re.compile(r"(?ms)^## Licen[cs]e\n.*?(?=^## |\Z)")


def pack_dataset(folder: Path, repo: str, licence: str | None, limits: Limits, is_parquet: bool = False) -> Parcel:
    """Return what goes into a data set's repository; what is wrong is among its findings.

    A folder of rows whose kind is known gets a card if it has none. `is_parquet` puts JSONL files in
    once more as parquet. LabError for a folder without rows. Files of other kinds are left out, with a warning.
    """
    if not folder.is_dir() and not (folder.is_file() and is_question_set(folder)):
        raise LabError(
            f"{folder} is no folder; name one that `assay prefs export` wrote, or the file of a question set."
        )
    findings: list[Finding] = []
    parts: dict[str, Part] = {}
    for path, file in sorted(_files(folder)):
        found = _unfit(folder, path, file) or size_finding(path, file.stat().st_size, limits)
        if found is None:
            parts[path] = part_of(file)
        else:
            findings.append(found)
    if CARD not in parts:
        added = written(parts, is_parquet=is_parquet)
        parts |= added.parts
        findings += added.findings
    elif is_parquet:
        added = as_parquet(parts, list(parts))
        parts |= added.parts
        findings += [*added.findings, *_unnamed(added.parts, parts[CARD])]
    rows = [path for path in parts if path.endswith(ROWS)]
    if not rows and not findings:
        raise LabError(
            f"{folder} holds no rows (*.jsonl, *.parquet or a report of `assay eval run`); export some first, for example with"
            " `assay prefs export --out FOLDER`."
        )
    for path in rows:
        if isinstance(parts[path].content, Path):
            findings += _row_findings(path, folder / path if folder.is_dir() else folder)
    findings += _statistics_findings(parts)
    if CARD in parts:
        parts[CARD] = part_of(_card(parts[CARD].read().decode("utf-8", "replace"), licence).encode())
        findings += _licence_findings(parts[CARD].read().decode())
    return Parcel("dataset", repo, parts, tuple(findings))


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield all files but receipts and what tools leave behind; a file is a folder of itself."""
    if folder.is_file():
        yield folder.name, folder
    for file in folder.rglob("*"):
        relative = file.relative_to(folder)
        if file.is_dir() or relative.parts[0] in ("published", ".cache", ".git"):
            continue
        yield relative.as_posix(), file


def _unfit(folder: Path, path: str, file: Path) -> Finding | None:
    if file.is_symlink() and not file.resolve().is_relative_to(folder.resolve()) and folder.is_dir():
        problem, remedy, is_error = "leads out of the folder", "put the file itself there", True
    elif path.endswith((*ROWS, *TEXTS)) or path in NAMES or (path.endswith(SET_FILES) and is_question_set(file)):
        return None
    else:
        problem = "is none of the kinds that a data set is published with, and is left out"
        remedy, is_error = "use JSONL, parquet, Markdown, JSON or images", False
    return Finding(check="path", path=path, problem=problem, remedy=remedy, is_error=is_error)


def _row_findings(path: str, file: Path) -> Iterator[Finding]:
    """Yield rows that cannot be read, and raters that stand there by name."""
    try:
        for number, row in _rows(path, file):
            named = [key for each in _judged(row) for key in RATERS if _is_name(each.get(key))]
            if named:
                yield Finding(
                    check="personal data",
                    path=path,
                    line=number,
                    problem=f"the column {named[0]} names a rater, where a hash should stand",
                    remedy="export with `assay prefs export`, which hashes raters with a secret salt",
                )
                return
    except (ValueError, pa.ArrowException) as error:
        yield Finding(
            check="rows",
            path=path,
            problem=f"cannot be read: {' '.join(str(error).split())[:120]}",
            remedy="write one JSON object per line, or parquet",
        )


def _rows(path: str, file: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    if path.endswith(".parquet"):
        table = pq.ParquetFile(file)
        columns = [name for name in table.schema_arrow.names if name in (*RATERS, "concerns")]
        at = 0
        for batch in table.iter_batches(columns=columns):
            for row in batch.to_pylist():
                at += 1
                yield at, row
        return
    with file.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                row = json.loads(line)
                if not isinstance(row, dict):
                    raise ValueError(f"line {number} is no JSON object")
                yield number, row


def _judged(row: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return a row and its concerns, which may each tell who labelled them."""
    concerns = row.get("concerns")
    inner = concerns if isinstance(concerns, list) else []
    return [row, *(each for each in inner if isinstance(each, dict))]


def _unnamed(made: Mapping[str, Part], card: Part) -> Iterator[Finding]:
    """Yield parquet files that the card, which somebody wrote, does not lead to."""
    text = card.read().decode("utf-8", "replace")
    for path in made:
        if path not in text:
            yield Finding(
                check="card",
                path=CARD,
                problem=f"does not name {path}, so readers load the JSONL file",
                remedy="name it under configs, data_files",
                is_error=False,
            )


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(value) and not HASHED.fullmatch(value)


def _statistics_findings(parts: Mapping[str, Part]) -> Iterator[Finding]:
    """Yield a row file that is not the one its statistics describe."""
    if STATISTICS not in parts:
        return
    try:
        known = json.loads(parts[STATISTICS].read())
    except ValueError:
        known = None
    if not isinstance(known, dict):
        remedy = "export the data set again"
        yield Finding(check="rows", path=STATISTICS, problem="cannot be read", remedy=remedy)
        return
    file, sha256 = known.get("rows_file"), known.get("rows_sha256")
    if file and sha256 and (file not in parts or parts[file].sha256 != sha256):
        yield Finding(
            check="rows",
            path=str(file),
            problem=f"is not the file that {STATISTICS} and the card describe (another checksum)",
            remedy="export the data set again: the figures on the card belong to other rows",
        )


def _card(text: str, licence: str | None) -> str:
    """Return the card with the licence that was chosen, in front matter and text."""
    try:
        data = read_front_matter(text)
    except FrontMatterError:
        return text
    if licence is None or data is None or data.get("license") == licence:
        return text
    front = yaml.safe_dump({**data, "license": licence}, sort_keys=False, allow_unicode=True)
    said = f"## Licence\n\nReleased by whoever published this data set under `{licence}`.\n\n"
    body = LICENCE_SECTION.sub(lambda _: said, body_of(text))
    return f"---\n{front}---\n{body.rstrip()}\n"


def _licence_findings(text: str) -> Iterator[Finding]:
    try:
        data = read_front_matter(text) or {}
    except FrontMatterError:
        return
    if not data.get("license"):
        yield Finding(
            check="licence",
            path=CARD,
            problem="no licence has been chosen, so nobody could use the data",
            remedy="choose one with --license, such as cc-by-4.0; mind the licence of the base model, whose"
            " output is in it",
        )
