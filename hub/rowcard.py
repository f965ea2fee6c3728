"""The card of a folder that has none, written from its rows, and what goes along: a table, guidelines."""

import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from huggingface_hub import DatasetCard, DatasetCardData

from evals.agreement import NAMES
from evals.schema.publishing import Finding
from evals.schema.reports import EvalReport, EvalRow
from hub.cards import cell, size_category
from hub.evalrows import flat
from hub.measured import tables_of
from hub.parcel import Part, part_of
from hub.questionsets import SET_FILES, bad_rows, scores_told
from hub.questionsets import tables as question_tables
from hub.rowcounts import Counts, agreements, count
from hub.rowkinds import UNREADABLE, Row, RowKind, kind_of, kinds, report_of, rows_of

TEMPLATES = Path(__file__).parent / "templates"
ROWS = (".jsonl", ".parquet")
CARD, GUIDELINES = "README.md", "GUIDELINES.md"
SPLITS = {"train": "train", "dev": "validation", "validation": "validation", "test": "test"}


@dataclass(frozen=True)
class Table:
    """Rows of one source file as readers load them: from `file`, which may be the source itself."""

    source: str
    file: str
    made: tuple[Row, ...] = ()
    report: EvalReport | None = None
    split: str | None = None


class Added(NamedTuple):
    """Files that were written for a publication, and what is wrong with them."""

    parts: dict[str, Part]
    findings: tuple[Finding, ...] = ()


def written(parts: Mapping[str, Part], *, is_parquet: bool) -> Added:
    """Return the card and what goes along for rows of a kind that is known; nothing for others.

    `parts` are the files of a folder without a card. Rows of a report, and eval rows, whose columns
    differ in type from row to row, get a table of their own that any reader takes.
    """
    try:
        names = {path: kind_of(_rows(parts[path])) for path in parts if path.endswith(ROWS)}
        names |= {path: "questions" for path in parts if path.endswith(SET_FILES)}
        if len(set(names.values())) > 1 and None not in names.values():
            return Added({}, (_mixed(names),))
        one = next(iter(names.values())) if len(set(names.values())) == 1 else None
        if one == "questions":
            bad = [each for path in names for each in bad_rows(path, _file(parts[path]))]
            if bad:
                return Added({}, tuple(bad))
        known = _tables(parts, one)
        if known is None:
            return Added({})
        name, tables = known
        made = {table.file: part_of(_lines(table.made)) for table in tables if table.made}
        taken = sorted(set(made) & set(parts))
        if taken:
            return Added({}, tuple(map(_taken, taken)))
        findings: tuple[Finding, ...] = ()
        if is_parquet:
            more = as_parquet({**parts, **made}, [table.file for table in tables])
            made, findings = {**made, **more.parts}, more.findings
            tables = [_in_parquet(table, more.parts) for table in tables]
        kind = kinds()[name]
        if kind.guidelines and GUIDELINES not in parts:
            made[GUIDELINES] = part_of((TEMPLATES / kind.guidelines).read_bytes())
        made[CARD] = part_of(str(_card(parts, name, tables)).encode())
        return Added(made, findings)
    except UNREADABLE:
        return Added({})  # the check of the rows names file and line


def as_parquet(parts: Mapping[str, Part], paths: Sequence[str]) -> Added:
    """Return JSONL files once more as parquet, each beside its own; rows that do not fit are findings."""
    made: dict[str, Part] = {}
    findings: list[Finding] = []
    for path in paths:
        beside = path.removesuffix(".jsonl") + ".parquet"
        if not path.endswith(".jsonl"):
            continue
        if beside in parts:
            findings.append(_taken(beside))
            continue
        try:
            table = pa.Table.from_pylist([dict(row) for row in _rows(parts[path])])
            buffer = io.BytesIO()
            pq.write_table(table, buffer, compression="zstd")
            made[beside] = part_of(buffer.getvalue())
        except UNREADABLE as error:
            problem = f"cannot be written as parquet: {' '.join(str(error).split())[:120]}"
            remedy = "give each column one type, or leave out --parquet"
            findings.append(Finding(check="rows", path=path, problem=problem, remedy=remedy))
    return Added(made, tuple(findings))


def _tables(parts: Mapping[str, Part], name: str | None) -> tuple[str, list[Table]] | None:
    """Return the kind of the rows and where they are loaded from; None for kinds without a card."""
    files = [path for path in parts if path.endswith((*ROWS, *SET_FILES))]
    if name == "questions":
        return name, [
            Table(path, _place(path, split, files), rows, split=split)
            for path in files
            for split, rows in question_tables(_file(parts[path])).items()
        ]
    if not files:
        reports = [
            (path, report_of(_file(parts[path]))) for path in parts if path.endswith(".json")
        ]
        tables = [
            Table(path, f"{path.removesuffix('.json')}-rows.jsonl", _flat(each.rows), each)
            for path, each in reports
            if each is not None and each.rows
        ]
        return ("eval", tables) if tables else None
    if name is None:
        return None
    if name != "eval":
        return name, [Table(path, path) for path in files]
    return name, [
        Table(
            path,
            f"{path.rsplit('.', 1)[0]}-table.jsonl",
            _flat([EvalRow.model_validate(row) for row in _rows(parts[path])]),
        )
        for path in files
    ]


def _card(parts: Mapping[str, Part], name: str, tables: Sequence[Table]) -> DatasetCard:
    kind = kinds()[name]
    counts = count(_every(parts, tables), kind)
    if name == "questions":
        counts.spread |= scores_told(
            [_file(parts[path]) for path in dict.fromkeys(each.source for each in tables)]
        )
    data = DatasetCardData(
        pretty_name=kind.title,
        task_categories=[kind.task],
        tags=["assay", *kind.tags],
        size_categories=[size_category(counts.rows)],
        configs=_configs(tables),
    )
    card = DatasetCard.from_template(
        data,
        template_path=str(TEMPLATES / "rows.md"),
        kind=kind,
        counts=counts,
        columns=_columns(kind, counts),
        reports=[_report(table) for table in tables if table.report],
        loads=_loads(tables),
        agreements=agreements(_every(parts, tables)) if name == "concerns" else None,
        agreement_names=NAMES,
        guidelines="ours" if kind.guidelines and GUIDELINES not in parts else None,
        is_searched=all(table.source.endswith((".jsonl", ".json", *SET_FILES)) for table in tables),
        sources=_merged(_source(parts, table) for table in tables),
        cell=cell,
    )
    return DatasetCard(card.content)


def _place(path: str, split: str, files: Sequence[str]) -> str:
    """Return where a split of a question set goes; sets that share a folder have folders of their own."""
    folder = "data" if len(files) == 1 else f"data/{path.rsplit('.', 1)[0]}"
    return f"{folder}/{split}.jsonl"


def _source(parts: Mapping[str, Part], table: Table) -> tuple[str, int, int, str]:
    part = parts[table.source]
    n = len(table.made) or sum(1 for _ in _rows(part))
    return table.source, n, part.size, part.sha256


def _merged(sources: Iterable[tuple[str, int, int, str]]) -> list[tuple[str, int, int, str]]:
    """Return the source files, each once, with the rows of all its splits."""
    rows: Counter[tuple[str, int, str]] = Counter()
    for file, n, size, sha256 in sources:
        rows[file, size, sha256] += n
    return [(file, n, size, sha256) for (file, size, sha256), n in rows.items()]


def _columns(kind: RowKind, counts: Counts) -> Iterator[tuple[str, str]]:
    for name in counts.columns:
        yield name, kind.columns.get(name, "no meaning is recorded")
        for inner in counts.inner.get(name, ()):
            meaning = kind.inner[name].get(inner, "no meaning is recorded")
            yield f"{name}[].{inner}", meaning


def _configs(tables: Sequence[Table]) -> list[dict[str, Any]]:
    """Return what a reader may choose: splits where files are named after them, else a subset per file."""
    if tables and all(table.split for table in tables):
        sources = list(dict.fromkeys(map(_name, tables)))
        return [
            {
                "config_name": "default" if len(sources) == 1 else source,
                "data_files": [
                    {"split": table.split, "path": table.file}
                    for table in tables
                    if _name(table) == source
                ],
            }
            for source in sources
        ]
    splits = [SPLITS.get(_name(table).removeprefix("sft_")) for table in tables]
    if None not in splits and len(set(splits)) == len(tables):
        files = [
            {"split": split, "path": table.file}
            for split, table in zip(splits, tables, strict=True)
        ]
        return [{"config_name": "default", "data_files": files}]
    names = ["default"] if len(tables) == 1 else [_name(table) for table in tables]
    return [
        {"config_name": name, "data_files": [{"split": "train", "path": table.file}]}
        for name, table in zip(names, tables, strict=True)
    ]


def _loads(tables: Sequence[Table]) -> list[tuple[str, str, str]]:
    """Return for each table the variable, the format and the file of its loading code."""
    found = []
    for table in tables:
        own = re.sub(r"[^0-9a-zA-Z]", "_", "_".join(filter(None, (_name(table), table.split))))
        name = "rows" if len(tables) == 1 else f"rows_{own}"
        found.append((name, "parquet" if table.file.endswith(".parquet") else "json", table.file))
    return found


def _report(table: Table) -> dict[str, Any]:
    assert table.report is not None
    report = table.report
    facts = [(f"checksum of {name}", each) for name, each in report.stage_checksums.items()]
    facts += [(f"version of {name}", each) for name, each in report.versions.items()]
    return {
        "file": table.source,
        "data": report.data_name,
        "data_sha256": report.data_sha256,
        "chain": report.chain_name,
        "day": f"{report.created_at:%Y-%m-%d}",
        "facts": facts,
        "measured": tables_of(report),
    }


def _every(parts: Mapping[str, Part], tables: Sequence[Table]) -> Iterator[Row]:
    for table in tables:
        yield from table.made or _rows(parts[table.source])


def _rows(part: Part) -> Iterator[Row]:
    if isinstance(part.content, bytes):
        return (json.loads(line) for line in part.content.decode().split("\n") if line)
    return rows_of(part.content)


def _file(part: Part) -> Path:
    assert isinstance(part.content, Path), "files of the folder are read where they lie"
    return part.content


def _flat(rows: Sequence[EvalRow]) -> tuple[Row, ...]:
    return tuple(map(flat, rows))


def _lines(rows: Sequence[Row]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def _in_parquet(table: Table, made: Mapping[str, Part]) -> Table:
    beside = table.file.removesuffix(".jsonl") + ".parquet"
    if beside not in made:
        return table
    return replace(table, file=beside)


def _name(table: Table) -> str:
    return table.source.rsplit(".", 1)[0].replace("/", "-")


def _mixed(names: Mapping[str, str | None]) -> Finding:
    told = ", ".join(f"{path} ({name})" for path, name in names.items())
    return Finding(
        check="card",
        path=CARD,
        problem=f"cannot be written for rows of several kinds: {told}",
        remedy="put each kind into a folder of its own, or write the card yourself",
    )


def _taken(path: str) -> Finding:
    return Finding(
        check="rows",
        path=path,
        problem="would be written from the other rows, and a file of that name is there already",
        remedy="rename or remove it",
    )
