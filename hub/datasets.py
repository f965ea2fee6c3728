"""A folder of rows as it is published: an allow-list of files, a licence, raters only as hashes.

Takes what `assay prefs export`, `assay data` and `assay eval run` write, with the card that stands beside it. A question set,
a folder of reports and plain rows without a card get one here; nothing else is read into the columns.
"""

import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from pydantic import ValidationError

from evals.errors import LabError
from evals.questions.checking import trick_scores
from evals.questions.sets import SPLITS, examine, question_row, raw_rows
from evals.schema import ChoiceTruth, EvalReport
from evals.schema.publishing import Finding
from hub.cards.dataset import SPLITS as HUB_SPLITS
from hub.cards.dataset import Row, Table, flat, rows_card, rows_of
from hub.cards.lint import FrontMatterError, body_of, known_front_matter, read_front_matter
from hub.checks import Limits, Parcel, Part, part_of, size_finding

CARD, STATISTICS = "README.md", "statistics.json"
ROWS = (".jsonl", ".parquet")
SET_FILES = (".yaml", ".yml", ".csv", ".tsv")
"""Kinds of file that hold a question set or nothing that is published."""
TEXTS = (".md", ".txt", ".json", ".png", ".svg")
NAMES = ("LICENSE", "NOTICE")
TOOLS = ("published", ".cache", ".git")
RATERS = ("rater", "annotator", "user", "rater_id", "annotator_id", "user_id")
"""Columns that tell who judged."""
HASHED = re.compile(r"[0-9a-f]{32,64}")
LICENCE_SECTION = re.compile(r"(?ms)^## Licen[cs]e\n.*?(?=^## |\Z)")
REPORT_KEYS = {"data_sha256", "chain_name", "rows", "summaries"}
UNREADABLE = (ValueError, OSError, pa.ArrowException)
"""What reading rows raises where a file is not what its name says."""


def pack_dataset(folder: Path, repo: str, licence: str | None, limits: Limits, is_parquet: bool = False) -> Parcel:
    """Return what goes into a data set's repository; what is wrong is among its findings.

    `folder` may be the file of a question set. `is_parquet` puts JSONL files in once more as parquet.
    LabError for a folder without rows. Files of other kinds are left out, with a warning.
    """
    if not folder.is_dir() and not (folder.is_file() and _is_question_set(folder)):
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
    for path, part in parts.items():
        if path.endswith(ROWS):
            findings += _row_findings(path, part)
    has_card = CARD in parts
    if not any(each.is_error for each in findings):
        findings += _complete(parts, is_parquet=is_parquet)
    if not any(path.endswith(ROWS) for path in parts) and not findings:
        raise LabError(
            f"{folder} holds no rows (*.jsonl, *.parquet or a report of `assay eval run`); export some first, for example with"
            " `assay prefs export --out FOLDER`."
        )
    findings += _statistics_findings(parts)
    if CARD in parts:
        text = _licensed(parts[CARD].text(), licence)
        parts[CARD] = part_of(text.encode())
        for path in parts if has_card else ():
            if is_parquet and path.endswith(".parquet") and path not in text:
                problem = f"does not name {path}, so readers load the JSONL file"
                remedy = "name it under configs, data_files"
                findings.append(_finding("card", CARD, problem, remedy, is_error=False))
        if not known_front_matter(text).get("license") and _has_front_matter(text):
            problem = "no licence has been chosen, so nobody could use the data"
            remedy = "choose one with --license, such as cc-by-4.0; mind the licence of the base model, whose output is in it"
            findings.append(_finding("licence", CARD, problem, remedy))
    return Parcel("dataset", repo, parts, tuple(findings))


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield all files but receipts and what tools leave behind; a file is a folder of itself."""
    if folder.is_file():
        yield folder.name, folder
    for file in folder.rglob("*"):
        relative = file.relative_to(folder)
        if not file.is_dir() and relative.parts[0] not in TOOLS:
            yield relative.as_posix(), file


def _unfit(folder: Path, path: str, file: Path) -> Finding | None:
    if file.is_symlink() and not file.resolve().is_relative_to(folder.resolve()) and folder.is_dir():
        return _finding("path", path, "leads out of the folder", "put the file itself there")
    if path.endswith((*ROWS, *TEXTS)) or path in NAMES or (path.endswith(SET_FILES) and _is_question_set(file)):
        return None
    problem = "is none of the kinds that a data set is published with, and is left out"
    return _finding("path", path, problem, "use JSONL, parquet, Markdown, JSON or images", is_error=False)


def _is_question_set(file: Path) -> bool:
    """Whether the first row of a file is one of a question set."""
    try:
        rows, _ = raw_rows(file)
    except LabError:
        return False
    return bool(rows) and {"id", "prompt", "group", "split"} <= rows[0][1].keys()


def _complete(parts: dict[str, Part], *, is_parquet: bool) -> Iterator[Finding]:
    """Add what a folder lacks: tables of question sets and reports, parquet, a card; yield what is in the way."""
    has_card, sources = CARD in parts, dict(parts)
    files = [path for path in parts if path.endswith((*ROWS, *SET_FILES))]
    sets = [path for path in files if not path.endswith(".parquet") and _is_question_set(_file(parts[path]))]
    scores = None
    if not has_card and files and sets == files:
        kind, bad = "questions", [each for path in sets for each in _bad_rows(path, parts[path])]
        if bad:
            yield from bad
            return
        tables = [table for path in sets for table in _question_tables(path, parts[path], len(sets) == 1)]
        scores = _scores([parts[path] for path in sets])
    elif not has_card and not files:
        kind, tables = "eval", [table for path in parts for table in _report_tables(path, parts[path])]
    else:
        kind, tables = (
            "rows",
            [Table(path, path, _rows(path, parts[path])) for path in files if not path.endswith(SET_FILES)],
        )
    for table in tables:
        if table.file != table.source:
            if table.file in parts:
                yield _taken(table.file)
                return
            parts[table.file] = part_of("".join(json.dumps(row) + "\n" for row in table.rows).encode())
    for at, table in enumerate(tables if is_parquet else ()):
        if table.file.endswith(".jsonl"):
            beside = table.file.removesuffix(".jsonl") + ".parquet"
            if beside in parts:
                yield _taken(beside)
                return
            try:
                parts[beside] = part_of(_parquet(table.rows))
            except UNREADABLE as error:
                problem = f"cannot be written as parquet: {' '.join(str(error).split())[:120]}"
                yield _finding("rows", table.file, problem, "give each column one type, or leave out --parquet")
                continue
            tables[at] = replace(table, file=beside)
    if not has_card and tables:
        parts |= rows_card(kind, tables, sources, scores)


def _bad_rows(path: str, part: Part) -> Iterator[Finding]:
    for each in examine(_file(part)).faults:
        yield _finding("rows", path, f"field {each.field!r}: {each.problem}", each.remedy, line=each.line)


def _question_tables(path: str, part: Part, is_alone: bool) -> Iterator[Table]:
    """Yield the rows of a set by split; sets that share a folder have folders of their own. Empty columns are left out."""
    made: dict[str, list[dict[str, Any]]] = {split: [] for split in SPLITS}
    for _, data in raw_rows(_file(part))[0]:
        row = question_row(data)
        one: dict[str, Any] = {**row.model_dump(mode="json"), "kind": row.truth.kind}
        one["truth"] = row.truth.model_dump_json()
        one["options"] = list(row.truth.options) if isinstance(row.truth, ChoiceTruth) else []
        made[row.split].append(one)
    used = {name for rows in made.values() for row in rows for name, value in row.items() if value}
    folder = "data" if is_alone else f"data/{path.rsplit('.', 1)[0]}"
    for split, rows in made.items():
        if rows:
            found = [{name: value for name, value in row.items() if name in used} for row in rows]
            yield Table(path, f"{folder}/{HUB_SPLITS[split]}.jsonl", found, HUB_SPLITS[split])


def _scores(parts: Sequence[Part]) -> dict[str, str]:
    """Return what answers without a model score, as lines of the card."""
    rows = [row for part in parts for row in examine(_file(part)).examples]
    test = [row for row in rows if row.split == "test"]
    where = "test rows" if test else "rows"
    return {
        f"{where} that “{each.policy}” gets right, an answer without a model": f"{each.correct} of {each.n}"
        for each in trick_scores(test or rows, [row for row in rows if row.split == "train"])
    }


def _report_tables(path: str, part: Part) -> Iterator[Table]:
    """Yield the rows of a report of `assay eval run` as a table that any reader takes; nothing of other files."""
    try:
        known = json.loads(part.read()) if path.endswith(".json") else None
        report = EvalReport.model_validate(known) if isinstance(known, dict) and known.keys() >= REPORT_KEYS else None
    except (ValueError, ValidationError):
        return
    if report is not None and report.rows:
        yield Table(path, f"{path.removesuffix('.json')}-rows.jsonl", [flat(row) for row in report.rows], report=report)


def _parquet(rows: Sequence[Row]) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist([dict(row) for row in rows]), buffer, compression="zstd")
    return buffer.getvalue()


def _rows(path: str, part: Part) -> list[Row]:
    if path.endswith(".parquet"):
        return [row for batch in pq.ParquetFile(_file(part)).iter_batches() for row in batch.to_pylist()]
    return rows_of(part)


def _file(part: Part) -> Path:
    assert isinstance(part.content, Path), "files of the folder are read where they lie"
    return part.content


def _row_findings(path: str, part: Part) -> Iterator[Finding]:
    """Yield rows that cannot be read, and raters that stand there by name."""
    try:
        rows = _rows(path, part)
    except UNREADABLE as error:
        problem = f"cannot be read: {' '.join(str(error).split())[:120]}"
        yield _finding("rows", path, problem, "write one JSON object per line, or parquet")
        return
    for number, row in enumerate(rows, 1):
        concerns = row.get("concerns")
        inner = [each for each in concerns if isinstance(each, dict)] if isinstance(concerns, list) else []
        named = [key for each in (row, *inner) for key in RATERS if _is_name(each.get(key))]
        if named:
            problem = f"the column {named[0]} names a rater, where a hash should stand"
            remedy = "export with `assay prefs export`, which hashes raters with a secret salt"
            yield _finding("personal data", path, problem, remedy, line=number)
            return


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
        yield _finding("rows", STATISTICS, "cannot be read", "export the data set again")
        return
    file, sha256 = known.get("rows_file"), known.get("rows_sha256")
    if file and sha256 and (file not in parts or parts[file].sha256 != sha256):
        problem = f"is not the file that {STATISTICS} and the card describe (another checksum)"
        remedy = "export the data set again: the figures on the card belong to other rows"
        yield _finding("rows", str(file), problem, remedy)


def _licensed(text: str, licence: str | None) -> str:
    """Return the card with the licence that was chosen, in front matter and text."""
    data = known_front_matter(text)
    if licence is None or not _has_front_matter(text) or data.get("license") == licence:
        return text
    front = yaml.safe_dump({**data, "license": licence}, sort_keys=False, allow_unicode=True)
    said = f"## Licence\n\nReleased by whoever published this data set under `{licence}`.\n\n"
    return f"---\n{front}---\n{LICENCE_SECTION.sub(lambda _: said, body_of(text)).rstrip()}\n"


def _has_front_matter(text: str) -> bool:
    try:
        return read_front_matter(text) is not None
    except FrontMatterError:
        return False


def _taken(path: str) -> Finding:
    problem = "would be written from the other rows, and a file of that name is there already"
    return _finding("rows", path, problem, "rename or remove it")


def _finding(
    check: str, path: str, problem: str, remedy: str, line: int | None = None, is_error: bool = True
) -> Finding:
    return Finding(check=check, path=path, problem=problem, remedy=remedy, line=line, is_error=is_error)
