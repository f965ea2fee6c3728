"""Cards of data sets: exported votes, pairs that a rule made, and rows of a kind that whoever wrote them names."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from huggingface_hub import DatasetCard, DatasetCardData
from pydantic import Field

from evals.io import write_whole
from evals.questions import pairs
from evals.schema.record import Record
from evals.schema.reports import EvalReport, EvalRow
from evals.schema.votes import AnswerOrigin, ExportRow, ExportStatistics
from evals.stats.agreement import NAMES as AGREEMENT_NAMES
from hub.cards import TEMPLATES, cell
from hub.cards.figures import tables_of
from hub.checks import Part, part_of

CARD, GUIDELINES = "README.md", "GUIDELINES.md"
WORDS = yaml.safe_load((TEMPLATES / "preferences.yaml").read_text(encoding="utf-8"))
SIZES = {1_000: "n<1K", 10_000: "1K<n<10K", 100_000: "10K<n<100K", 1_000_000: "100K<n<1M"}
SPLITS = {"train": "train", "dev": "validation", "validation": "validation", "test": "test"}
"""The Hub's name of a split, by the name of a file."""
SHOWN = 60
"""Different values that a table shows."""
NOT_GIVEN = "not given"
Row = Mapping[str, Any]


def dataset_card(statistics: ExportStatistics, row_type: type[ExportRow], guidelines: str) -> DatasetCard:
    """Return the card of an exported preference data set.

    `guidelines` is the file, beside the card, with the instructions that raters were given. The
    licence stays open where nobody has chosen one.
    """
    words = WORDS["formats"][statistics.format]
    return _filled_in(
        "preferences.md",
        _data(
            f"Preference votes between model stages ({statistics.format})",
            ["preference", "human-feedback", "assay", *words["tags"]],
            statistics.rows,
            _configs({statistics.rows_file: "train"}),
            license=statistics.licence,
        ),
        statistics=statistics,
        summary=words["summary"],
        usage=words["usage"],
        reasons=WORDS["reasons"],
        columns=[(name, field.description) for name, field in row_type.model_fields.items()],
        origin_fields=[f"`{name}`" for name in AnswerOrigin.model_fields],
        guidelines=guidelines,
        agreement_names=AGREEMENT_NAMES,
    )


def pairs_card(statistics: pairs.PairStatistics) -> DatasetCard:
    """Return the card of a data set of pairs that a rule made; it says so before anything else."""
    words = WORDS["formats"]["dpo"]
    return _filled_in(
        "pairs.md",
        _data(
            "Preference pairs made from verifier verdicts",
            ["preference", "synthetic", "assay", *words["tags"]],
            statistics.rows,
            _configs({statistics.rows_file: "train"}),
        ),
        statistics=statistics,
        usage=words["usage"],
        reasons=WORDS["pair_reasons"],
        columns=[(name, field.description) for name, field in pairs.PairRow.model_fields.items()],
        origin_fields=[f"`{name}`" for name in pairs.SampleOrigin.model_fields],
    )


def _filled_in(template: str, data: DatasetCardData, **values: Any) -> DatasetCard:
    path = str(TEMPLATES / template)
    return DatasetCard(DatasetCard.from_template(data, template_path=path, cell=cell, **values).content)


def _data(
    title: str, tags: list[str], rows: int, configs: list[dict[str, Any]], task: str = "text-generation", **more: Any
) -> DatasetCardData:
    size = next((name for limit, name in SIZES.items() if rows < limit), "n>1M")
    named: dict[str, Any] = {"task_categories": [task], "tags": tags, "size_categories": [size], "configs": configs}
    return DatasetCardData(pretty_name=title, **named, **more)


def _configs(splits: Mapping[str, str], name: str = "default") -> list[dict[str, Any]]:
    return [{"config_name": name, "data_files": [{"split": split, "path": file} for file, split in splits.items()]}]


class RowKind(Record):
    """What the card says of a kind of rows; `rows.yaml` tells how columns are named."""

    title: str
    summary: str
    tags: tuple[str, ...]
    task: str
    made: str
    personal: str
    licensing: str
    guidelines: str | None = None
    distinct: dict[str, str] = Field(default_factory=dict)
    count_by: dict[str, str | tuple[str, ...]] = Field(default_factory=dict)
    columns: dict[str, str] = Field(default_factory=dict)
    inner: dict[str, dict[str, str]] = Field(default_factory=dict)


@dataclass(frozen=True)
class Table:
    """Rows of one source file as readers load them: from `file`, which may be the source itself."""

    source: str
    file: str
    rows: Sequence[Row]
    split: str | None = None
    report: EvalReport | None = None

    @property
    def name(self) -> str:
        """The source's name without its ending, folders joined."""
        return self.source.rsplit(".", 1)[0].replace("/", "-")


def kinds() -> dict[str, RowKind]:
    """Return every kind of rows that a card can be written for, by name."""
    words = yaml.safe_load((TEMPLATES / "rows.yaml").read_text(encoding="utf-8"))
    return {name: RowKind.model_validate(each) for name, each in words.items()}


def write_rows_card(folder: Path, kind: str, files: Iterable[str]) -> None:
    """Write the card of JSONL files beside them, and the guidelines of their kind."""
    parts = {file: part_of(folder / file) for file in files}
    tables = [Table(file, file, rows) for file, part in parts.items() if (rows := rows_of(part))]
    for name, part in rows_card(kind, tables, parts).items():
        write_whole(folder / name, part.text())


def rows_of(part: Part) -> list[Row]:
    """Return the rows of a JSONL file; ValueError for a line that is no JSON object."""
    found = []
    for number, line in enumerate(part.text().split("\n"), 1):
        if line.strip():
            found.append(json.loads(line))
            if not isinstance(found[-1], dict):
                raise ValueError(f"line {number} is no JSON object")
    return found


def rows_card(
    kind_name: str, tables: Sequence[Table], sources: Mapping[str, Part], scores: Mapping[str, str] | None = None
) -> dict[str, Part]:
    """Return the card of rows, and the guidelines of their kind unless `sources` hold some.

    `scores` are lines on what answers without a model get right.
    """
    kind = kinds()[kind_name]
    counts = _count(tables, kind)
    counts.spread |= scores or {}
    guidelines = TEMPLATES / kind.guidelines if kind.guidelines and GUIDELINES not in sources else None
    rows: Counter[str] = Counter()
    for table in tables:
        rows[table.source] += len(table.rows)
    card = _filled_in(
        "rows.md",
        _data(kind.title, ["assay", *kind.tags], counts.rows, _table_configs(tables), kind.task),
        kind=kind,
        counts=counts,
        columns=list(_columns(kind, counts)),
        reports=[_report(table.source, table.report) for table in tables if table.report],
        loads=[_load(table, len(tables)) for table in tables],
        has_guidelines=guidelines is not None,
        is_searched=not any(table.source.endswith(".parquet") for table in tables),
        sources=[(file, n, sources[file].size, sources[file].sha256) for file, n in rows.items()],
    )
    made = {CARD: part_of(str(card).encode())}
    return made | ({GUIDELINES: part_of(guidelines.read_bytes())} if guidelines else {})


@dataclass
class Counts:
    """How many rows, how many different things, and tables of values with their n, most frequent first."""

    rows: int = 0
    distinct: dict[str, int] = field(default_factory=dict)
    spread: dict[str, str] = field(default_factory=dict)
    tables: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    columns: dict[str, dict[str, None]] = field(default_factory=dict)


def _count(tables: Sequence[Table], kind: RowKind) -> Counts:
    found = Counts()
    seen: dict[str, set[str]] = {name: set() for name in kind.distinct}
    counted: dict[str, Counter[str]] = {name: Counter() for name in kind.count_by}
    for row in (row for table in tables for row in table.rows):
        found.rows += 1
        for column, value in row.items():
            inner = found.columns.setdefault(column, {})
            if column in kind.inner and isinstance(value, list):
                inner |= {name: None for each in value if isinstance(each, dict) for name in each}
        for name, path in kind.distinct.items():
            seen[name].update(map(str, _values(row, path)))
        for name, path in kind.count_by.items():
            counted[name].update(map(_word, _values(row, path)))
    found.distinct = {name: len(each) for name, each in seen.items()}
    for name, each in counted.items():
        if set(each) - {NOT_GIVEN}:
            ordered = sorted(each.items(), key=lambda pair: (-pair[1], pair[0]))
            rest = ordered[SHOWN:]
            more = [(f"{len(rest)} others", sum(n for _, n in rest))] if rest else []
            found.tables[name] = ordered[:SHOWN] + more
    return found


def _values(row: Row, path: str | Sequence[str]) -> list[Any]:
    """Return what stands under a path, one value for each element; none where the column is missing."""
    if not isinstance(path, str):
        return [", ".join(str(row[name]) for name in path)] if all(name in row for name in path) else []
    columns = (each.partition("[]") for each in path.split("|"))
    name, is_list, inner = next((each for each in columns if each[0] in row), ("", "", ""))
    if not name:
        return []
    if not is_list:
        return [row[name]]
    elements = row[name] if isinstance(row[name], list) else []
    return [each.get(inner[1:]) if isinstance(each, dict) else None for each in elements] if inner else elements


def _word(value: Any) -> str:
    if value is None or value == "":
        return NOT_GIVEN
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _columns(kind: RowKind, counts: Counts) -> Iterator[tuple[str, str]]:
    unknown = "no meaning is recorded"
    for name, inner in counts.columns.items():
        yield name, kind.columns.get(name, unknown)
        yield from ((f"{name}[].{each}", kind.inner[name].get(each, unknown)) for each in inner)


def _table_configs(tables: Sequence[Table]) -> list[dict[str, Any]]:
    """Return what a reader may choose: splits where files are named after them, else a subset per file."""
    if all(table.split for table in tables):
        names = list(dict.fromkeys(table.name for table in tables))
        return [
            config
            for name in names
            for config in _configs(
                {table.file: str(table.split) for table in tables if table.name == name},
                "default" if len(names) == 1 else name,
            )
        ]
    if all(table.name in SPLITS for table in tables):
        return _configs({table.file: SPLITS[table.name] for table in tables})
    if len(tables) == 1:
        return _configs({tables[0].file: "train"})
    return [config for table in tables for config in _configs({table.file: "train"}, table.name)]


def _load(table: Table, count: int) -> tuple[str, str, str]:
    """Return the variable, the format and the file of a table's loading code."""
    own = re.sub(r"[^0-9a-zA-Z]", "_", "_".join(filter(None, (table.name, table.split))))
    name = "rows" if count == 1 else f"rows_{own}"
    return name, "parquet" if table.file.endswith(".parquet") else "json", table.file


def _report(file: str, report: EvalReport) -> dict[str, Any]:
    facts = [(f"checksum of {name}", each) for name, each in report.stage_checksums.items()]
    facts += [(f"version of {name}", each) for name, each in report.versions.items()]
    return {
        "file": file,
        "data": report.data_name,
        "data_sha256": report.data_sha256,
        "chain": report.chain_name,
        "day": f"{report.created_at:%Y-%m-%d}",
        "facts": facts,
        "measured": tables_of(report),
    }


def flat(row: EvalRow) -> dict[str, Any]:
    """Return one row of a report as its table holds it; `rows.yaml` describes the columns."""
    example, verdict = row.example, row.verdict
    return {
        "id": example.id,
        "source": example.source,
        "kind": example.kind,
        "cluster": example.cluster,
        "question": example.prompt,
        "reference_answer": example.answer,
        "ground_truth": example.ground_truth.model_dump_json(),
        "stage": row.stage,
        "prompt": [each.model_dump() for each in row.prompt],
        "completion": row.completion,
        "finish_reason": row.finish_reason,
        "verdict": verdict.verdict,
        "reason": verdict.reason,
        "answer": verdict.answer,
        "read_by": verdict.read_by,
        "stated_confidence": verdict.confidence.value,
        "confidence_status": verdict.confidence.status,
        "scores": json.dumps(verdict.scores),
        "reward": verdict.reward,
    }
