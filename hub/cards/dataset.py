"""The card of a folder that has none, written from its rows, and what goes along: a table, guidelines."""

import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from huggingface_hub import DatasetCard, DatasetCardData
from pydantic import Field, ValidationError

from evals.errors import LabError
from evals.questions import pairs
from evals.questions.checking import trick_scores
from evals.questions.sets import SPLITS, examine, question_row, raw_rows
from evals.schema import ChoiceTruth, Example
from evals.schema.publishing import Finding
from evals.schema.record import Record
from evals.schema.reports import EvalReport, EvalRow, Metric
from evals.schema.reviews import CATEGORIES, SEVERITIES, UNKNOWN
from evals.schema.votes import AnswerOrigin, ExportFormat, ExportRow, ExportStatistics, Reason
from evals.stats.agreement import NAMES as AgreementNAMES
from evals.stats.agreement import Rating, agreement
from hub.cards.figures import tables_of
from hub.plan import Part, part_of

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


def question_tables(file: Path) -> dict[str, tuple[dict[str, Any], ...]]:
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


PREFERENCES = Path(__file__).parent / "templates" / "preferences.md"
PAIRS = Path(__file__).parent / "templates" / "pairs.md"

SUMMARIES: dict[ExportFormat, str] = {
    "dpo": "each row is a prompt with a chosen and a rejected answer.",
    "kto": "each row is one answer with a label, true or false.",
    "sft": "each row is a prompt with the answer that was preferred.",
    "arena": "each row is one vote with both answers, ties and both-bad included.",
}
USAGES: dict[ExportFormat, str] = {
    "dpo": "`trl.DPOTrainer` takes these rows as they are: conversational, with an explicit prompt.",
    "kto": "`trl.KTOTrainer` takes these rows as they are: conversational, unpaired.",
    "sft": "`trl.SFTTrainer` takes these rows as they are: conversational prompt and completion.",
    "arena": "Bradley-Terry rankings read `model_a`, `model_b` and `winner`.",
}
TAGS: dict[ExportFormat, list[str]] = {
    "dpo": ["dpo", "trl"],
    "kto": ["kto", "trl"],
    "sft": ["sft", "trl"],
    "arena": ["arena"],
}
REASONS: dict[Reason, str] = {
    "held_out": "a question that is held out to measure models",
    "tie": "ties",
    "both_bad": "both answers bad",
    "identical_texts": "a side chosen between identical texts",
}
PAIR_REASONS: dict[pairs.Reason, str] = {
    "one_answer": "questions with fewer than two different answers",
    "all_right": "questions that every answer got right, none with a clearly better confidence",
    "none_right": "questions that no answer got right, none with a clearly better confidence",
    "margin": "questions whose right and wrong answers differ by less than the margin",
    "unknown_question": "answers to questions outside the question bank",
    "held_out": "questions that are held out to measure models",
    "not_scored": "questions that only a judge can score",
    "no_confidence": "questions with no answer that ends with its confidence",
    "no_others": "questions of a kind of which no other question was answered with a claim",
}
SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))


def dataset_card(statistics: ExportStatistics, row_type: type[ExportRow], guidelines: str) -> DatasetCard:
    """Return the card of an exported preference data set.

    `guidelines` is the file, beside the card, with the instructions that raters were given. The
    licence stays open where nobody has chosen one.
    """
    data = DatasetCardData(
        pretty_name=f"Preference votes between model stages ({statistics.format})",
        license=statistics.licence,
        task_categories=["text-generation"],
        tags=["preference", "human-feedback", "assay", *TAGS[statistics.format]],
        size_categories=[size_category(statistics.rows)],
        configs=[
            {
                "config_name": "default",
                "data_files": [{"split": "train", "path": statistics.rows_file}],
            }
        ],
    )
    card = DatasetCard.from_template(
        data,
        template_path=str(PREFERENCES),
        statistics=statistics,
        summary=SUMMARIES[statistics.format],
        usage=USAGES[statistics.format],
        reasons=REASONS,
        columns=[(name, field.description) for name, field in row_type.model_fields.items()],
        origin_fields=[f"`{name}`" for name in AnswerOrigin.model_fields],
        guidelines=guidelines,
        agreement_names=AgreementNAMES,
        cell=cell,
    )
    return DatasetCard(card.content)


def pairs_card(statistics: pairs.PairStatistics) -> DatasetCard:
    """Return the card of a data set of pairs that a rule made; it says so before anything else."""
    data = DatasetCardData(
        pretty_name="Preference pairs made from verifier verdicts",
        task_categories=["text-generation"],
        tags=["preference", "synthetic", "assay", *TAGS["dpo"]],
        size_categories=[size_category(statistics.rows)],
        configs=[
            {
                "config_name": "default",
                "data_files": [{"split": "train", "path": statistics.rows_file}],
            }
        ],
    )
    columns = [(name, field.description) for name, field in pairs.PairRow.model_fields.items()]
    card = DatasetCard.from_template(
        data,
        template_path=str(PAIRS),
        statistics=statistics,
        usage=USAGES["dpo"],
        reasons=PAIR_REASONS,
        columns=columns,
        origin_fields=[f"`{name}`" for name in pairs.SampleOrigin.model_fields],
        cell=cell,
    )
    return DatasetCard(card.content)


def filled_in(template: Path, **values: object) -> str:
    """Return a template's text with its places filled in; a place without a value is an error."""
    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False
    )
    environment.filters["cell"] = cell
    return environment.from_string(template.read_text(encoding="utf-8")).render(**values)


def cell(text: object) -> str:
    """Return something as it can stand in a Markdown table."""
    return " ".join(str(text).split()).replace("|", "\\|")


def size_category(rows: int) -> str:
    """Return the Hub's word for how many rows there are."""
    return next((name for limit, name in SIZES if rows < limit), "n>1M")


def flat(row: EvalRow) -> dict[str, Any]:
    """Return one row of the table; the columns are those that `templates/rows.yaml` describes."""
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


KINDS = Path(__file__).parent / "templates" / "rows.yaml"
REPORT_KEYS = ("data_sha256", "chain_name", "rows", "summaries")
Row = Mapping[str, Any]


class RowKind(Record):
    """A kind of rows: the columns it is known by, what is counted of it, and what its card says.

    A path such as `concerns[].severity` is a column of each element; `a|b` is the first that is there, `a+b`
    both together.
    """

    needs: tuple[str, ...]
    title: str
    summary: str
    tags: tuple[str, ...]
    task: str
    distinct: dict[str, str]
    count_by: dict[str, str]
    made: str
    personal: str
    licensing: str
    guidelines: str | None = None
    columns: dict[str, str]
    inner: dict[str, dict[str, str]] = Field(default_factory=dict)


def kinds() -> dict[str, RowKind]:
    """Return every kind that a card can be written for, by name."""
    told = yaml.safe_load(KINDS.read_text(encoding="utf-8"))
    return {name: RowKind.model_validate(each) for name, each in told.items()}


def kind_of(rows: Iterable[Row]) -> str | None:
    """Return the one kind that all rows are of; None if they are of none, of several, or there are none."""
    known = kinds()
    found = {_kind_of_row(row, known) for row in rows}
    return found.pop() if len(found) == 1 else None


def rows_of(file: Path) -> Iterator[Row]:
    """Yield the rows of a JSONL or parquet file in full.

    ValueError or pyarrow's error for a file that cannot be read.
    """
    if file.suffix == ".parquet":
        with pq.ParquetFile(file) as table:
            for batch in table.iter_batches():
                yield from batch.to_pylist()
        return
    with file.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                row = json.loads(line)
                if not isinstance(row, dict):
                    raise ValueError(f"line {number} is no JSON object")
                yield row


def report_of(file: Path) -> EvalReport | None:
    """Return the report that `assay eval run` wrote into a JSON file; None if it is anything else."""
    try:
        known = json.loads(file.read_bytes())
        if not isinstance(known, dict) or any(key not in known for key in REPORT_KEYS):
            return None
        return EvalReport.model_validate(known)
    except (ValueError, ValidationError):
        return None


def values(row: Row, path: str) -> list[Any]:
    """Return what stands under a path in a row, one value for each element; none where it is missing."""
    if "+" in path:
        found = [values(row, each) for each in path.split("+")]
        return [", ".join(str(value) for each in found for value in each)] if all(found) else []
    for each in path.split("|"):
        found = _values([row], each.split("."))
        if found:
            return found
    return []


def _values(rows: Iterable[Any], steps: list[str]) -> list[Any]:
    step, *later = steps
    name = step.removesuffix("[]")
    found = [row[name] for row in rows if isinstance(row, dict) and name in row]
    if step.endswith("[]"):
        found = [part for each in found if isinstance(each, list) for part in each]
        # An element without the column still counts: it is one whose label is not given.
        if later:
            found = [part if isinstance(part, dict) else {} for part in found]
            return [part.get(later[0]) for part in found]
    return _values(found, later) if later else found


def _kind_of_row(row: Row, known: Mapping[str, RowKind]) -> str | None:
    for name, kind in known.items():
        if all(column in row for column in kind.needs):
            is_list = name != "concerns" or isinstance(row["concerns"], list)
            is_named = name != "concerns" or bool(row.get("article_id") or row.get("id"))
            return name if is_list and is_named else None
    return None


UNREADABLE = (ValueError, OSError, pa.ArrowException)
"""What reading rows raises where a file is not what its name says."""


RATERS = ("rater", "annotator", "user", "rater_id", "annotator_id", "user_id")
"""Columns that tell who judged."""
LABELS = {"category": (*CATEGORIES, UNKNOWN), "severity": (*SEVERITIES, UNKNOWN)}
SHOWN = 60
"""Different values that a table shows."""
NOT_GIVEN = "not given"


@dataclass
class Counts:
    """How many rows, how many different things, and tables of values with their n, most frequent first."""

    rows: int = 0
    distinct: dict[str, int] = field(default_factory=dict)
    spread: dict[str, str] = field(default_factory=dict)
    tables: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    columns: dict[str, None] = field(default_factory=dict)
    inner: dict[str, dict[str, None]] = field(default_factory=dict)


def count(rows: Iterable[Row], kind: RowKind) -> Counts:
    """Return what rows of a kind hold; what no row has is not counted."""
    found = Counts()
    seen: dict[str, set[str]] = {name: set() for name in kind.distinct}
    tables: dict[str, Counter[str]] = {name: Counter() for name in kind.count_by}
    lengths: list[int] = []
    for row in rows:
        found.rows += 1
        found.columns |= dict.fromkeys(row)
        for name, path in kind.distinct.items():
            seen[name].update(map(str, values(row, path)))
        for name, path in kind.count_by.items():
            tables[name].update(map(_word, values(row, path)))
        for name in kind.inner:
            for each in values(row, f"{name}[]"):
                found.inner.setdefault(name, {}).update(dict.fromkeys(_column_names(each)))
        if "concerns" in kind.inner:
            lengths.append(len(row.get("concerns") or []))
    found.distinct = {name: len(each) for name, each in seen.items()}
    found.spread = _lengths(lengths)
    found.tables = {name: _most(each) for name, each in tables.items() if set(each) - {NOT_GIVEN}}
    return found


def agreements(rows: Iterable[Row]) -> list[tuple[str, int, dict[str, Metric]]]:
    """Return, for each label of a concern, how many annotators gave it and how far they agree.

    A unit is a concern of a paper: by its `concern_id`, else by its words. Empty where no column tells
    who labelled.
    """
    ratings: dict[str, list[Rating]] = {label: [] for label in LABELS}
    for row in rows:
        for label, rating in _ratings(row):
            ratings[label].append(rating)
    return [
        (label, len({each.rater for each in given}), agreement(given, LABELS[label]))
        for label, given in ratings.items()
        if given
    ]


def _ratings(row: Row) -> Iterator[tuple[str, Rating]]:
    article = next(iter(values(row, "article_id|id")), "")
    for concern in row.get("concerns") or []:
        if not isinstance(concern, dict):
            continue
        who = _rater(concern) or _rater(row)
        words = concern.get("text") or concern.get("concern_text") or ""
        what = concern.get("concern_id") or " ".join(str(words).split())
        if not who or not what:
            continue
        for label in LABELS:
            if isinstance(concern.get(label), str):
                yield label, Rating(f"{article}\n{what}", who, concern[label])


def _rater(told: Mapping[str, Any]) -> str | None:
    return next((str(told[name]) for name in RATERS if told.get(name)), None)


def _column_names(element: Any) -> Sequence[str]:
    return list(element) if isinstance(element, dict) else []


def _lengths(lengths: Sequence[int]) -> dict[str, str]:
    if not lengths:
        return {}
    mean = sum(lengths) / len(lengths)
    return {
        "concerns": f"{sum(lengths)}",
        "concerns in a row": f"{min(lengths)} to {max(lengths)}, {mean:.1f} on average",
        "rows without concerns": f"{sum(not each for each in lengths)}",
    }


def _most(counted: Counter[str]) -> list[tuple[str, int]]:
    ordered = sorted(counted.items(), key=lambda each: (-each[1], each[0]))
    rest = ordered[SHOWN:]
    more = [(f"{len(rest)} others", sum(n for _, n in rest))] if rest else []
    return ordered[:SHOWN] + more


def _word(value: Any) -> str:
    if value is None or value == "":
        return NOT_GIVEN
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


TEMPLATES = Path(__file__).parent / "templates"
ROWS = (".jsonl", ".parquet")
CARD, GUIDELINES = "README.md", "GUIDELINES.md"
HUB_SPLITS = {"train": "train", "dev": "validation", "validation": "validation", "test": "test"}


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
        reports = [(path, report_of(_file(parts[path]))) for path in parts if path.endswith(".json")]
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
        counts.spread |= scores_told([_file(parts[path]) for path in dict.fromkeys(each.source for each in tables)])
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
        agreement_names=AgreementNAMES,
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
                    {"split": table.split, "path": table.file} for table in tables if _name(table) == source
                ],
            }
            for source in sources
        ]
    splits = [HUB_SPLITS.get(_name(table).removeprefix("sft_")) for table in tables]
    if None not in splits and len(set(splits)) == len(tables):
        files = [{"split": split, "path": table.file} for split, table in zip(splits, tables, strict=True)]
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
