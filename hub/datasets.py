"""A folder of rows as it is published: an allow-list of files, a licence, raters only as hashes.

Takes what `assay prefs export`, `assay data` and `assay eval run` write, with the card that stands beside it. A question set,
a folder of reports and plain rows without a card get one here; nothing else is read into the columns.
"""

import json
import re
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
from huggingface_hub import HfApi

from evals.errors import LabError
from evals.io import LINE_ENDS
from evals.questions import DATASETS, conversation, load_questions
from evals.questions.checking import trick_scores
from evals.questions.sets import SPLITS, SUFFIXES, question_row, question_set_rows, read_question_set
from evals.report import load_report
from evals.schema import ChoiceTruth, Example
from evals.schema.runs import Diagnostic
from evals.tables import parquet_rows
from hub.cards import NO_OWN, OWN, about, add_own, known_front_matter, licence_text, read_own, render, without_mark
from hub.cards.dataset import RATERS, DataRow, RowTable, flat, rows_card, rows_of
from hub.cards.dataset import SPLITS as HUB_SPLITS
from hub.checks import ROWS, TEXT_LIMIT, Part, Upload, file_of, part_of, size_finding, unpack
from hub.client import TROUBLE, Receipt, check_repo, explain, finding, wording

CARD, STATISTICS = "README.md", "statistics.json"
SET_FILES = tuple(suffix for suffix in SUFFIXES if suffix != ".jsonl")
"""Kinds of file that hold a question set or nothing that is published."""
TEXTS = (".md", ".txt", ".json", ".png", ".svg")
NAMES = ("LICENSE", "NOTICE", "eval.yaml")
TOOLS = ("published", ".cache", ".git")
HASHED = re.compile(r"[0-9a-f]{32,64}")
LOCAL = re.compile(
    r'load_dataset\("(?:json|parquet|csv)"(?:, sep="\\t")?, data_files="(?P<file>[^"]+)", split="train"\)'
)
UNLICENSED = re.compile(r"(?m)^No licence has been chosen\..*$")
"""What Assay's cards say until one is."""
UNREADABLE = (ValueError, OSError, EOFError, zlib.error, pa.ArrowException, LabError)
"""What reading rows raises where a file is not what its name says."""


def pack_dataset(folder: Path, repo: str, licence: str | None, tag: str = "v1.0") -> Upload:
    """Return what goes into a data set's repository; what is wrong is among its findings.

    `folder` may be the file of a question set, or the name of one that comes with Assay. LabError for a folder without rows. Files of other kinds are left out, with a warning.
    """
    is_named = str(folder) in DATASETS and not folder.exists()
    if not is_named and not folder.is_dir() and not (folder.is_file() and _is_question_set(folder)):
        raise LabError(wording("no folder", folder=folder))
    findings: list[Diagnostic] = []
    parts: dict[str, Part] = {}
    root, files = (folder, sorted(folder.rglob("*"))) if folder.is_dir() else (folder.parent, [folder])
    files = [] if is_named else files
    for file in files:
        path = file.relative_to(root).as_posix()
        if file.is_dir() or path.split("/")[0] in TOOLS or path == OWN:
            continue
        if file.is_symlink() and file != folder and not file.resolve().is_relative_to(root.resolve()):
            findings.append(finding("link", path))
        elif not path.endswith((*ROWS, *TEXTS)) and path not in NAMES and not _is_question_set(file):
            findings.append(finding("other kind", path))
        elif too_large := size_finding(path, file.stat().st_size):
            findings.append(too_large)
        else:
            parts[path] = part_of(file)
    findings += [each for path in parts if _holds_rows(path, parts[path]) for each in _row_findings(path, parts[path])]
    own = NO_OWN if is_named else read_own(root)
    licence = licence or own.license
    has_card = CARD in parts
    if not any(each.is_error for each in findings):
        findings += _complete(parts, repo.split("/")[-1], str(folder) if is_named else "")
    if not any(path.endswith(ROWS) for path in parts) and not any(each.is_error for each in findings):
        raise LabError(wording("no rows", folder=folder))
    findings += _statistics_findings(parts)
    if CARD in parts:
        text = without_mark(parts[CARD].text())
        front = known_front_matter(text)
        if licence and front.get("license") not in (None, licence):
            findings.append(finding("other licence", CARD, theirs=front["license"], licence=licence))
        text = add_own(text, own.model_copy(update={"license": licence}))
        text = UNLICENSED.sub(f"This data set is published under `{licence}`.", text) if licence else text
        text = _from_the_hub(text, repo, tag)
        text = text.replace(about(), about(repo, "dataset", tag, known_front_matter(text).get("license")))
        parts[CARD] = part_of(text.encode())
        if text_of := licence_text(known_front_matter(text).get("license")):
            parts.setdefault("LICENSE", part_of(text_of.encode()))
        if not licence and front and not front.get("license"):
            findings.append(finding("licence not chosen", CARD))
        if not has_card and not own.body and "## How it was made" not in text:
            findings.append(finding("making unknown", CARD))
    return Upload("dataset", repo, parts, tuple(findings))


def published_rows(root: Path, raters: Collection[str]) -> list[dict[str, Any]]:
    """Return the data sets, published from folders up to two levels below `root`, that hold or may hold rows of these raters.

    Each has `repo`, `tag`, `folder` and `rows`, None where the folder was written again, so that it cannot tell.
    """
    found = []
    for file in sorted(each for depth in ("", "*/", "*/*/") for each in root.glob(f"{depth}published/*.json")):
        try:
            receipt, folder = Receipt.model_validate_json(file.read_bytes()), file.parent.parent
            files = (path for path in receipt.files if path.endswith(ROWS) and (folder / path).is_file())
            here = {path: part_of(folder / path) for path in files}
            rows = [row for path, part in here.items() for row in _rows(path, part)]
        except UNREADABLE:
            continue  # no receipt, or one of another version
        raters_of = [{str(row[key]) for key in RATERS if key in row} for row in rows]
        theirs = sum(not each.isdisjoint(raters) for each in raters_of)
        if theirs or (any(raters_of) and any(part.sha256 != receipt.files[path] for path, part in here.items())):
            told = {"repo": receipt.repo, "tag": receipt.tag, "folder": str(folder)}
            found.append({**told, "rows": theirs or None})
    return found


def fetch_files(api: HfApi, repo: str, patterns: Sequence[str]) -> list[Path]:
    """Return the files of a data set whose names are like one of these, fetched; LabError if it cannot be read."""
    try:
        folder = api.snapshot_download(check_repo(repo), repo_type="dataset", allow_patterns=[*patterns])
    except TROUBLE as error:
        raise explain(error, f"cannot read the data set {repo}") from error
    return sorted(file for file in Path(folder).rglob("*") if file.is_file())


def _from_the_hub(text: str, repo: str, tag: str) -> str:
    """Return a card whose code loads its files from the repository, at a version, in place of a folder."""
    places = {}
    for config in known_front_matter(text).get("configs") or ():
        files = config.get("data_files") if isinstance(config, dict) else None
        for each in files if isinstance(files, list) else ():
            if isinstance(each, dict) and isinstance(
                each.get("path"), str
            ):  # else patterns, which no code of ours loads
                named = "" if config.get("config_name") == "default" else f', "{config.get("config_name")}"'
                split = each.get("split", "train")
                places[each["path"]] = f'load_dataset("{repo}"{named}, split="{split}", revision="{tag}")'
    return LOCAL.sub(lambda match: places.get(match["file"], match[0]), text)


def _is_question_set(file: Path) -> bool:
    """Whether the first row of a file is one of a question set."""
    try:
        rows, *_ = question_set_rows(file)
    except LabError:
        return False
    return bool(rows) and {"id", "prompt", "group", "split"} <= rows[0][1].keys()


def _holds_rows(path: str, part: Part) -> bool:
    """Whether a file is published as rows that readers load: not a question set in a table, of which rows are made."""
    return path.endswith(ROWS) and not (path.endswith((".csv", ".tsv")) and _is_question_set(file_of(part)))


def _complete(parts: dict[str, Part], title: str, named: str = "") -> Iterator[Diagnostic]:
    """Add what a folder lacks: tables of question sets and reports, parquet, a card called `title`; yield what is in the way.

    `named` is a question set that comes with Assay, in place of a folder.
    """
    here = dict(parts)
    parts |= {path: _one_line_each(part) for path, part in parts.items() if path.endswith(".jsonl")}
    has_card, scores = CARD in parts, None
    files = [path for path in parts if path.endswith((*ROWS, *SET_FILES))]
    sets = [path for path in files if not path.endswith(".parquet") and _is_question_set(file_of(here[path]))]
    if named:
        kind, examples = "questions", load_questions(named)
        rows = [
            {**_questions_of(each), "truth": each.ground_truth.model_dump_json(), "group": each.cluster}
            for each in examples
        ]
        split = HUB_SPLITS[examples[0].split]
        tables = [RowTable(named, f"data/{split}.jsonl", rows, split)]
        title, scores = named, _scores(examples)
    elif not has_card and files and sets == files:
        faults = [(path, each) for path in sets for each in read_question_set(file_of(here[path])).faults]
        for path, each in faults:
            yield finding("question", path, each.line, field=each.field, problem=each.problem, remedy=each.remedy)
        if faults:
            return
        kind = "questions"
        tables = [table for path in sets for table in _question_tables(path, here[path], len(sets) == 1)]
        examples = [row for path in sets for row in read_question_set(file_of(here[path])).examples]
        title, scores = ", ".join(dict.fromkeys(table.name for table in tables)), _scores(examples)
    elif not has_card and not files:
        kind, tables = "eval", [table for path in parts for table in _report_tables(path, parts[path])]
    else:
        rows = [path for path in files if _holds_rows(path, here[path])]
        kind, tables = "rows", [RowTable(path, path, _rows(path, parts[path])) for path in rows]
        formats = {path.removesuffix(".gz").rpartition(".")[2]: path for path in rows}
        if not has_card and len(formats) > 1:
            yield finding("mixed rows", max(formats.values()), formats=", ".join(sorted(formats)))
    if kind == "questions" and len({table.source for table in tables}) == 1 and any(t.split == "test" for t in tables):
        parts.setdefault("eval.yaml", part_of(render("eval.yaml.jinja", name=tables[0].name).encode()))
    for table in tables:
        if table.file != table.source:
            if table.file in parts:
                yield finding("taken", table.file)
                return
            parts[table.file] = part_of("".join(json.dumps(row) + "\n" for row in table.rows).encode())
    if not has_card and tables:
        parts |= {name: part for name, part in rows_card(kind, tables, title, scores).items() if name not in here}


def _scores(examples: Sequence[Example]) -> dict[str, str]:
    """Return how many test questions, of all if there are none, the best three answers without a model get right."""
    test = [row for row in examples if row.split == "test"]
    scores = trick_scores(test or examples, [row for row in examples if test and row.split == "train"])
    best = sorted((each for each in scores if each.correct), key=lambda each: -each.correct)[:3]
    where = f" right of {best[0].n} {'test ' if test else ''}rows" if best else ""
    told = ", ".join(f"{each.correct}{'' if at else where} (“{each.policy}”)" for at, each in enumerate(best))
    return {"best answers without a model": told} if best else {}


def _questions_of(example: Example) -> dict[str, Any]:
    """Return what tells and asks a question: also as the messages that a model is given, and the answer that is right."""
    asked = [each.model_dump() for each in conversation(example)]
    _, _, right = example.answer.rpartition("Answer: ")
    told = {"messages": asked, "target": right.partition("\n")[0], "kind": example.kind, "split": example.split}
    return {"id": example.id, "prompt": example.prompt, **told}


def _question_tables(path: str, part: Part, is_alone: bool) -> Iterator[RowTable]:
    """Yield the rows of a set by split; sets that share a folder have folders of their own. Empty columns are left out."""
    made: dict[str, list[dict[str, Any]]] = {split: [] for split in SPLITS}
    examples = {each.id: each for each in read_question_set(file_of(part)).examples}
    for _, data in question_set_rows(file_of(part))[0]:
        row = question_row(data)
        one: dict[str, Any] = {**row.model_dump(mode="json"), **_questions_of(examples[row.id]), "kind": row.truth.kind}
        one["truth"] = row.truth.model_dump_json()
        one["options"] = list(row.truth.options) if isinstance(row.truth, ChoiceTruth) else []
        made[row.split].append(one)
    used = {name for rows in made.values() for row in rows for name, value in row.items() if value}
    folder = "data" if is_alone else f"data/{path.rsplit('.', 1)[0]}"
    for split, rows in made.items():
        if rows:
            found = [{name: value for name, value in row.items() if name in used} for row in rows]
            yield RowTable(path, f"{folder}/{HUB_SPLITS[split]}.jsonl", found, HUB_SPLITS[split])


def _report_tables(path: str, part: Part) -> Iterator[RowTable]:
    """Yield the rows of a report of `assay eval run` as a table that any reader takes; nothing of other files."""
    try:
        report = load_report(file_of(part)) if path.endswith(".json") else None
    except LabError:
        return
    if report is not None and report.rows:
        rows = [flat(row) for row in report.rows]
        yield RowTable(path, f"{path.removesuffix('.json')}-rows.jsonl", rows, report=report)


def _rows(path: str, part: Part) -> list[DataRow]:
    if path.endswith(".parquet"):
        return [*parquet_rows(file_of(part))]
    path, part = unpack(path, part)
    if not path.endswith((".csv", ".tsv")):
        return rows_of(part)
    mark = "\t" if path.endswith(".tsv") else ","
    how = pa_csv.ParseOptions(delimiter=mark, newlines_in_values=True)
    table = pa_csv.read_csv(pa.BufferReader(part.read().decode("utf-8-sig").encode()), parse_options=how)
    if table.num_columns == 1 and (other := re.search(r"[;\t|,]", table.column_names[0])):
        raise ValueError(f"its columns are separated by {other[0]!r}, and readers of such a file expect {mark!r}")
    return table.to_pylist()


def _one_line_each(part: Part) -> Part:
    """Return a JSONL file with what some readers take for the end of a line written as escapes."""
    if not isinstance(part.content, Path) or not any(
        chr(mark).encode() in part.content.read_bytes() for mark in LINE_ENDS
    ):
        return part
    return part_of(part.content.read_text(encoding="utf-8-sig").translate(LINE_ENDS).encode())


def _row_findings(path: str, part: Part) -> Iterator[Diagnostic]:
    """Yield rows that cannot be read, and raters that stand there by name."""
    try:
        if path.endswith(".gz") and unpack(path, part)[1].size > TEXT_LIMIT:
            yield finding("unsearched", path)
            return
        rows = _rows(path, part)
    except UNREADABLE as error:
        yield finding("unreadable rows", path, error=" ".join(str(error).split()))
        return
    for number, row in enumerate(rows, 2 if re.search(r"\.[ct]sv(\.gz)?$", path) else 1):
        inner = concerns if isinstance(concerns := row.get("concerns"), list) else []
        said = [(key, each.get(key)) for each in (row, *inner) if isinstance(each, dict) for key in RATERS]
        named = [key for key, value in said if isinstance(value, str) and value and not HASHED.fullmatch(value)]
        if named:
            yield finding("rater", path, number, column=named[0])
            return


def _statistics_findings(parts: Mapping[str, Part]) -> Iterator[Diagnostic]:
    """Yield a row file that is not the one its statistics describe."""
    if STATISTICS not in parts:
        return
    try:
        known = dict(json.loads(parts[STATISTICS].read()))
    except (ValueError, TypeError):
        yield finding("unreadable statistics", STATISTICS)
        return
    file, sha256 = known.get("rows_file"), known.get("rows_sha256")
    if file and sha256 and (file not in parts or parts[file].sha256 != sha256):
        yield finding("other rows", str(file))
