"""Cards of data sets: exported votes, pairs that a rule made, and rows of a kind that whoever wrote them names."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from huggingface_hub import DatasetCard, DatasetCardData

from evals.facts import load_provenance
from evals.io import write_whole
from evals.questions import DATASETS, pairs
from evals.schema.reports import EvalReport, EvalRow
from evals.schema.votes import AnswerOrigin, ExportRow, ExportStatistics
from evals.stats.agreement import NAMES as AGREEMENT_NAMES
from hub.cards import TEMPLATES, cell, render, write_card
from hub.cards.figures import tables_of
from hub.checks import Part, part_of

CARD, GUIDELINES = "README.md", "GUIDELINES.md"
WORDS = yaml.safe_load((TEMPLATES / "preferences.yaml").read_text(encoding="utf-8"))
SIZES = {1_000: "n<1K", 10_000: "1K<n<10K", 100_000: "10K<n<100K", 1_000_000: "100K<n<1M"}
SPLITS = {"train": "train", "dev": "validation", "validation": "validation", "test": "test"}
"""The Hub's name of a split, by the name of a file."""
RATERS = ("rater", "annotator", "user", "rater_id", "annotator_id", "user_id")
"""Columns that tell who judged."""
DataRow = Mapping[str, Any]


def dataset_card(statistics: ExportStatistics, row_type: type[ExportRow], guidelines: str) -> DatasetCard:
    """Return the card of exported preferences; `guidelines` is the file beside it with what raters were told."""
    words = WORDS["formats"][statistics.format]
    return _card(
        "preferences.md",
        f"Preference votes between model stages ({statistics.format})",
        ["preference", "human-feedback", "assay", *words["tags"]],
        statistics.rows,
        _configs({statistics.rows_file: "train"}),
        licence=statistics.licence,
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
    return _card(
        "pairs.md",
        "Preference pairs made from verifier verdicts",
        ["preference", "synthetic", "assay", *words["tags"]],
        statistics.rows,
        _configs({statistics.rows_file: "train"}),
        language=["en"],
        statistics=statistics,
        usage=words["usage"],
        reasons=WORDS["pair_reasons"],
        columns=[(name, field.description) for name, field in pairs.PairRow.model_fields.items()],
        origin_fields=[f"`{name}`" for name in pairs.SampleOrigin.model_fields],
    )


def _card(
    template: str,
    title: str,
    tags: list[str],
    rows: int,
    configs: list[dict[str, Any]],
    task: str = "text-generation",
    licence: str | None = None,
    language: list[str] | None = None,
    **values: Any,
) -> DatasetCard:
    size = next((name for limit, name in SIZES.items() if rows < limit), "n>1M")
    named: dict[str, Any] = {"task_categories": [task], "tags": tags, "size_categories": [size], "configs": configs}
    data = DatasetCardData(pretty_name=title, license=licence, language=language, **named)
    return DatasetCard(f"---\n{data.to_yaml()}\n---\n\n{render(template, pretty_name=title, cell=cell, **values)}")


def _configs(splits: Mapping[str, str], name: str = "default") -> list[dict[str, Any]]:
    return [{"config_name": name, "data_files": [{"split": split, "path": file} for file, split in splits.items()]}]


KINDS: dict[str, dict[str, Any]] = yaml.safe_load((TEMPLATES / "rows.yaml").read_text(encoding="utf-8"))
"""What the card says of each kind of rows, and how their columns are named."""


@dataclass(frozen=True)
class RowTable:
    """Rows of one source file as readers load them: from `file`, which may be the source itself."""

    source: str
    file: str
    rows: Sequence[DataRow]
    split: str | None = None
    report: EvalReport | None = None

    @property
    def name(self) -> str:
        """The source's name without its ending, folders joined."""
        return self.source.removesuffix(".gz").rsplit(".", 1)[0].replace("/", "-")


def write_rows_card(folder: Path, kind: str, files: Iterable[str]) -> None:
    """Write the card of JSONL files beside them, and the guidelines of their kind."""
    parts = {file: part_of(folder / file) for file in files}
    tables = [RowTable(file, file, rows) for file, part in parts.items() if (rows := rows_of(part))]
    for name, part in rows_card(kind, tables).items():
        (write_card if name == CARD else write_whole)(folder / name, part.text())


def rows_of(part: Part) -> list[DataRow]:
    """Return the rows of a JSONL file; ValueError for a line that is no JSON object."""
    found = []
    for number, line in enumerate(part.text().split("\n"), 1):
        if line.strip():
            found.append(json.loads(line))
            if not isinstance(found[-1], dict):
                raise ValueError(f"line {number} is no JSON object")
    return found


def rows_card(
    kind_name: str, tables: Sequence[RowTable], title: str = "", scores: Mapping[str, str] | None = None
) -> dict[str, Part]:
    """Return the card of rows, and their kind's guidelines; `title` is for a kind without one, `scores` are lines of it."""
    kind: defaultdict[str, Any] = defaultdict(str, KINDS[kind_name])
    rows = [row for table in tables for row in table.rows]
    guidelines = TEMPLATES / kind["guidelines"] if kind["guidelines"] else None
    figures = {}
    if kind_name == "questions" and all(table.source in DATASETS for table in tables):
        is_kmp = tables[0].source.startswith("kmp")
        figures = {name: each for name, each in load_provenance().items() if name.startswith("kmp") == is_kmp}
        kind["made"], kind["summary"] = kind["made_here"], kind["summary_here"]
    if kind_name == "questions" and not any(table.split == "test" for table in tables):
        kind["whom"] = kind["usage"] = ""
    inner: dict[str, dict[str, str]] = kind.get("inner", {})
    meanings: dict[str, str] = kind.get("columns", {})
    columns: dict[str, dict[str, None]] = {}
    for column, value in ((column, value) for row in rows for column, value in row.items()):
        known = columns.setdefault(column, {})
        if column in inner and isinstance(value, list):
            known |= {name: None for each in value if isinstance(each, dict) for name in each}
    by_kind = Counter(row["kind"] for row in rows if kind_name == "questions").most_common()
    kinds = {"rows by kind": ", ".join(f"{name} {n}" for name, n in by_kind)} if len(by_kind) > 1 else {}
    counts = {f"rows in `{table.file}`": len(table.rows) for table in tables} if len(tables) > 1 else {}
    card = _card(
        "rows.md",
        kind["title"] or title,
        ["assay", *kind["tags"], *(["biology"] if figures else [])],
        len(rows),
        _table_configs(tables),
        kind["task"],
        language=["en"] if figures else None,
        kind=kind,
        example=rows[0] if kind_name == "questions" else None,
        lines={"rows": len(rows), **counts, **kinds, **(scores or {})},
        columns=columns if meanings else {},
        meanings=meanings,
        inner=inner,
        figures=figures,
        has_raters=any(name in found for found in (columns, *columns.values()) for name in RATERS),
        reports=[(table.source, table.report, tables_of(table.report)) for table in tables if table.report],
        loads=[_load(table, len(tables)) for table in tables],
        has_guidelines=guidelines is not None,
    )
    made = {CARD: part_of(str(card).encode())}
    return made | ({GUIDELINES: part_of(guidelines.read_bytes())} if guidelines else {})


def _table_configs(tables: Sequence[RowTable]) -> list[dict[str, Any]]:
    """Return what a reader may choose: splits where files are named after them, else a subset per file."""
    is_split = all(table.split for table in tables)
    if not is_split and all(table.name in SPLITS for table in tables):
        return _configs({table.file: SPLITS[table.name] for table in tables})
    subsets: dict[str, dict[str, str]] = {}
    for table in tables:
        subsets.setdefault(table.name, {})[table.file] = str(table.split) if is_split else _split_of(table)
    is_one = len(subsets) == 1
    return [each for name, files in subsets.items() for each in _configs(files, "default" if is_one else name)]


def _split_of(table: RowTable) -> str:
    """Return the split of rows that no file name tells: answers and rows that say so are held out, all others to train on."""
    told = {SPLITS.get(str(row.get("split"))) for row in table.rows}
    return "test" if table.report else next(iter(told), None) or "train" if len(told) == 1 else "train"


def _load(table: RowTable, count: int) -> tuple[str, str, str]:
    """Return the variable, the format and the file of a table's loading code."""
    formats = {".parquet": "parquet", ".csv": "csv", ".tsv": "csv"}
    own = re.sub(r"[^0-9a-zA-Z]", "_", "_".join(filter(None, (table.name, table.split))))
    name = "rows" if count == 1 else f"rows_{own}"
    return name, formats.get(Path(table.file.removesuffix(".gz")).suffix, "json"), table.file


def flat(row: EvalRow) -> dict[str, Any]:
    """Return one row of a report as its table holds it; `rows.yaml` describes the columns."""
    example, verdict = row.example, row.verdict
    return {
        **{name: getattr(example, name) for name in ("id", "source", "kind", "cluster")},
        "question": example.prompt,
        "reference_answer": example.answer,
        "ground_truth": example.ground_truth.model_dump_json(),
        "stage": row.stage,
        "prompt": [each.model_dump() for each in row.prompt],
        "completion": row.completion,
        "finish_reason": row.finish_reason,
        **{name: getattr(verdict, name) for name in ("verdict", "reason", "answer", "read_by")},
        "stated_confidence": verdict.confidence.value,
        "confidence_status": verdict.confidence.status,
        "scores": json.dumps(verdict.scores),
        "reward": verdict.reward,
    }
