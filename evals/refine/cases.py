"""Records and answers of the refiner as files hold them: ours, and those in the columns of RAGAS."""

import ast
import json
import random
import re
import tokenize
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationInfo, field_validator, model_validator

from evals import io
from evals.errors import BadConfig, LabError
from evals.io import NoRow, checked_rows
from evals.questions.sets import versions
from evals.refine.bank import VERSION
from evals.refine.grammar import SENTENCE_END, TAG, WORD, evidence_of
from evals.refine.judge import Inquiry, StubTable, items_of
from evals.refine.score import PreparedAnswer, prepare
from evals.schema.record import Record
from evals.schema.refiner import RefinerRecord, RewardConfig
from evals.tables import TABLES, file_rows
from evals.verifiers.line import without_thought


class CheckedRecord(RefinerRecord):
    """A record whose evidence has been read: legal ids, closed blocks, not empty if there is an answer."""

    @field_validator("tool_output")
    @classmethod
    def _has_readable_evidence(cls, tool_output: str) -> str:
        evidence_of(tool_output)
        return tool_output

    @field_validator("answerable")
    @classmethod
    def _has_evidence_to_answer_from(cls, answerable: bool, info: ValidationInfo) -> bool:
        if answerable and "tool_output" in info.data and not evidence_of(info.data["tool_output"]):
            raise ValueError(
                "tool_output holds no <snippet id=…> or <webpage id=…>, so nothing can be answered from"
                " it; add evidence, or set answerable to false"
            )
        return answerable


def records_jsonl(records: Iterable[RefinerRecord]) -> str:
    """Return records as the text of a JSONL file, keys sorted, so equal records are equal bytes."""
    return io.as_jsonl(records, exclude_defaults=True)


def records_sha256(records: Iterable[RefinerRecord]) -> str:
    """Return a checksum of what the records say; their order does not matter."""
    return io.data_sha256(records, exclude_defaults=True)


def split_by_group(
    records: Sequence[RefinerRecord], share: float, seed: int = 0
) -> tuple[tuple[RefinerRecord, ...], tuple[RefinerRecord, ...]]:
    """Return the records in two parts, no group in both; the second has about `share` of the groups.

    At least one group is in each part, so a share above 0 takes at least one. BadConfig for a share
    outside 0..1 or fewer than two groups.
    """
    groups = sorted({record.group for record in records})
    if not 0.0 < share < 1.0 or len(groups) < 2:
        raise BadConfig(
            f"{len(records)} records in {len(groups)} groups cannot be split with a share of {share:g};"
            " it takes two groups or more and a share between 0 and 1."
        )
    random.Random(seed).shuffle(groups)
    second = set(groups[: min(len(groups) - 1, max(1, round(share * len(groups))))])
    return (
        tuple(record for record in records if record.group not in second),
        tuple(record for record in records if record.group in second),
    )


def record_statistics(splits: Mapping[str, tuple[Sequence[RefinerRecord], str]], seed: int) -> dict[str, Any]:
    """Return statistics.json: how the records were asked for, and the counts of each split, given with its file's text."""
    counts = {
        name: {
            "records": len(records),
            "unanswerable": sum(not record.answerable for record in records),
            "groups": len({record.group for record in records}),
            "passages": sum(len(record.sources) for record in records),
            "rubric_items": sum(len(r.positive_rubrics) + len(r.negative_rubrics) for r in records),
            "origins": dict(sorted(Counter(record.origin or "unknown" for record in records).items())),
            "file_sha256": io.sha256_of_text(text),
            "data_sha256": records_sha256(records),
        }
        for name, (records, text) in splits.items()
    }
    return {
        "name": "refiner",
        "label_source": "synthetic",
        "licence": "apache-2.0",
        "seed": seed,
        "splits": counts,
        "versions": {"refiner records": VERSION, **versions()},
    }


SUFFIXES = (".jsonl", ".json", *TABLES, ".parquet")
"""What a file of records may end in."""


def read_records(path: Path) -> tuple[RefinerRecord, ...]:
    """Return the records of a file, one of ours (JSONL) or one in the columns of RAGAS; BadRow names line and field.

    Unknown keys are refused, names of the trainer's own arguments (`prompts`, `completions`) among
    them; so are ids used twice, evidence ids with two texts, and answerable records without evidence.
    """
    return tuple(_read(path, CheckedRecord, ragas_record))


class Case(Record):
    """A row of cases: an answer, its record, how to reward it, and verdicts for the stub judge."""

    id: str
    record: CheckedRecord
    completion: str
    config: RewardConfig = RewardConfig()
    stub_judge: StubTable | None = None

    @model_validator(mode="after")
    def _has_something_to_grade_by(self) -> "Case":
        if not items_of(self.record, self.config):
            raise ValueError("the record has no rubric item and static_rubrics is off; add an item")
        return self

    def prepare(self) -> PreparedAnswer:
        """Return the answer read and checked."""
        return prepare(self.record, self.completion, self.config)

    def inquiry(self) -> Inquiry:
        """Return what is asked about the answer, with the table that the stub judge reads."""
        return replace(self.prepare().inquiry(), table=self.stub_judge)


Kind = TypeVar("Kind", CheckedRecord, Case)


def read_cases(path: Path) -> list[Case]:
    """Return the cases of a file, one of ours (JSONL) or one in the columns of RAGAS; BadRow names line and field."""
    return _read(path, Case, ragas_case)


def _read(path: Path, record: type[Kind], convert: Callable[[Mapping[str, Any], int], dict[str, Any]]) -> list[Kind]:
    """Return rows as records; those in the columns of RAGAS are converted."""
    found: list[tuple[int, dict[str, Any] | NoRow]] = []
    for number, row in _by_row(file_rows(path).rows):
        if not isinstance(row, NoRow) and is_ragas(row):
            try:
                row = convert(row, number)
            except ValueError as error:
                row = NoRow(str(error))
        found.append((number, row))
    if not found:
        raise LabError(f"{path} holds no rows; give rows with a question and its contexts.")
    return checked_rows(path, found, record, key=lambda each: each.id)


def _by_row(rows: Iterable[tuple[int, dict[str, Any] | NoRow]]) -> Iterator[tuple[int, dict[str, Any] | NoRow]]:
    """Yield rows; one that holds whole columns, as `Dataset.to_dict` (lists) or pandas (by number) write them, becomes many."""
    for number, row in rows:
        asked = None if isinstance(row, NoRow) else row.get(_column(row, "question"))
        if isinstance(asked, list) and asked and all(isinstance(each, str) for each in asked):
            keys: Sequence[Any] = range(len(asked))
        elif isinstance(asked, dict) and all(key.isdigit() for key in asked):
            keys = list(asked)
        else:
            keys = ()
        if isinstance(row, NoRow) or not keys:
            yield number, row
            continue
        columns = [name for name in row if isinstance(row[name], type(asked)) and len(row[name]) == len(keys)]
        for at, key in enumerate(keys):
            yield number + at, {name: row[name][key] for name in columns}


# ---- the columns of RAGAS ----------------------------------------------------------------------
# question, contexts, answer, ground_truth (since 0.2: user_input, retrieved_contexts, response, reference). Each context becomes
# a passage S1, S2, …, the truth a wanted behaviour; a sentence of an answer is a claim that cites the passages it names as [1] or
# [1, 2], or all where the answer names none.

NAMES = {
    "question": ("question", "user_input"),
    "contexts": ("contexts", "retrieved_contexts", "context"),
    "answer": ("answer", "response"),
    "truth": ("ground_truth", "ground_truths", "reference"),
}
"""What a column holds, and what RAGAS calls it, in small letters and with _ for blanks."""
PASSAGE = ("text", "page_content", "content")
"""What frameworks call the text of a passage that is an object."""
ORIGIN = "ragas"
ROLES = {"human": "user", "ai": "assistant"}
NUMBER = r"\d{1,3}(?:\s*[-–]\s*\d{1,3})?"
LINK = r"(?:†[^\]】]*|\^)?(?:\]{1,2}|】)(?:\(https?:[^\s()]*\))?"
MARK = rf"(?:\[{{1,2}}|【)(?:\^|citation:\s*)?{NUMBER}(?:\s*[,;]\s*{NUMBER})*{LINK}"
"""As models cite: [1, 2], [1-3], [[1]](https://…), [^1^], [citation:1], 【1†source】."""
RUN = rf"[^\S\n]*({MARK}(?:[^\S\n]*{MARK})*)"
MARKS, MARKED_END = re.compile(RUN), re.compile(rf"([.!?]){RUN}")
OBJECTS = re.compile(r"\s*\[\s*[A-Za-z_][\w.]*\(")
MARKUP = re.compile(r"<(?=/?(?:snippet|webpage|answer|tool)\w*[\s/>=])", re.IGNORECASE)


def is_ragas(row: Mapping[str, Any]) -> bool:
    """Return whether a row has a question in a column of RAGAS, and is no record or case of ours."""
    return not {"prompt", "tool_output", "record"} & row.keys() and _column(row, "question") != ""


def has_contexts(row: Mapping[str, Any]) -> bool:
    """Return whether a row has a column for passages: questions and answers alone are no records."""
    return bool(_column(row, "contexts"))


def ragas_record(row: Mapping[str, Any], number: int) -> dict[str, Any]:
    """Return a row as a record; `number` names one without an id. ValueError for a cell that cannot be read."""
    if not _column(row, "contexts"):
        names = ", ".join(NAMES["contexts"])
        raise ValueError(
            f"has no contexts; the passages of a question stand in one of {names} ([] where there are none)"
        )
    contexts, truths = _texts(row, "contexts"), _texts(row, "truth")
    passages = (f"<snippet id=S{n}>{MARKUP.sub('‹', text)}</snippet>" for n, text in contexts.items())
    wanted = [{"title": f"truth {n}", "description": f"Says what is true: {text}"} for n, text in truths.items()]
    return {
        "id": str(row.get("id") or f"row {number}"),
        "prompt": _turns(row[_column(row, "question")]),
        "tool_output": "\n".join(passages),
        "positive_rubrics": wanted,
        "answerable": bool(contexts),
        "origin": ORIGIN,
    }


def ragas_case(row: Mapping[str, Any], number: int) -> dict[str, Any]:
    """Return a row as a case of `assay refiner score`, with no limit on the ids or the words of a claim."""
    record, (answer, *others) = ragas_record(row, number), [*_texts(row, "answer").values()] or [""]
    if not _column(row, "answer") or others:
        raise ValueError(
            f"has {len(others) + 1 if others else 'no'} answer; it stands in {' or '.join(NAMES['answer'])}"
        )
    answer = without_thought(answer).strip()
    completion = (
        answer if any(tag[2].lower() == "answer" for tag in TAG.finditer(answer)) else _as_cited_answer(answer, row)
    )
    return {
        "id": record["id"],
        "record": record,
        "completion": completion,
        "config": {"max_ids_per_claim": 0, "max_words_per_claim": 0},
    }


def _column(row: Mapping[str, Any], name: str) -> str:
    """Return what the column is called in this row; "" where there is none, or nothing in it, NaN included."""
    return next(_columns(row, name), "")


def _columns(row: Mapping[str, Any], name: str) -> Iterator[str]:
    full = (each for each, cell in row.items() if cell is not None and cell == cell)
    return (each for each in full if each.strip().lower().replace(" ", "_") in NAMES[name])


def _as_cited_answer(answer: str, row: Mapping[str, Any]) -> str:
    """Return an answer in the grammar, its sentences as claims."""
    text = MARKED_END.sub(r" \2\1 ", MARKUP.sub("‹", answer)).strip()
    everything = "" if MARKS.search(text) else ",".join(f"S{n}" for n in _texts(row, "contexts"))
    pieces = []
    for sentence in filter(WORD.search, SENTENCE_END.split(text)):
        spans = re.findall(r"(\d+)(?:\s*[-–]\s*(\d+))?", re.sub(LINK, "]", " ".join(MARKS.findall(sentence))))
        named = [f"S{n}" for low, high in spans for n in range(int(low), int(high or low) + 1)]
        ids = ",".join(dict.fromkeys(named)) or everything
        said = MARKS.sub("", sentence).strip()
        pieces.append(f"<snippet id={ids}>{said}</snippet>" if ids else said)
    return f"<answer>{' '.join(pieces)}</answer>"


def _texts(row: Mapping[str, Any], name: str) -> dict[int, str]:
    """Return the texts of a cell that are not empty, by their place: a list, or one written by JSON, Python or NumPy."""
    columns = [*_columns(row, name)]
    if name != "truth" and len({str(row[each]) for each in columns}) > 1:
        raise ValueError(f"has unlike texts in {' and '.join(columns)}; keep the column that is meant")
    column = next(iter(columns), "")
    value = row[column] if column else []
    if isinstance(value, str):
        value = _parse_list(value) if name != "answer" and value.strip().startswith("[") else [value]
    if isinstance(value, list):
        value = [
            next((each[key] for key in PASSAGE if each.get(key)), each) if isinstance(each, dict) else each
            for each in value
        ]
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ValueError(f"{column} holds neither a text nor a list of texts: {str(value)[:60]!r}")
    return {place: each.strip() for place, each in enumerate(value, 1) if each.strip()}


def _parse_list(text: str) -> Any:
    """Return the list that a text writes; the text alone if it is none. NumPy writes no commas between its items.

    ValueError for objects of Python that do not tell their text.
    """
    try:
        return json.loads(text)
    except ValueError:
        pass
    if OBJECTS.match(text):
        return _objects(text.strip())
    try:
        found = _strings(text.strip())
    except (tokenize.TokenError, SyntaxError, ValueError):
        return [text]
    return found or [text]


def _objects(text: str) -> list[str]:
    """Return the texts of a list of objects as Python prints them: [Document(page_content='…', metadata={})]."""
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError:
        tree = None
    found: list[str] = []
    for each in tree.elts if isinstance(tree, ast.List) else ():
        named = {field.arg: field.value for field in ast.walk(each) if isinstance(field, ast.keyword)}
        values = (named[name] for name in PASSAGE if name in named)
        found += [value.value for value in values if isinstance(value, ast.Constant) and isinstance(value.value, str)][
            :1
        ]
    if not isinstance(tree, ast.List) or len(found) < len(tree.elts):
        raise ValueError(f"holds objects of Python whose text cannot be read: {text[:60]!r}; write a list of texts")
    return found


def _strings(text: str) -> list[str]:
    """Return the texts of a list; two quotes without a blank between them are one quote of the text, doubled as in CSV."""
    found: list[str] = []
    end = (0, 0)
    for token in tokenize.generate_tokens(StringIO(text).readline):
        if token.type == tokenize.STRING:
            said = str(ast.literal_eval(token.string))
            if found and token.start == end:
                found[-1] += token.string[0] + said
            else:
                found.append(said)
            end = token.end
        elif token.string not in ("[", "]", ",", "") and token.string.strip():
            raise ValueError(token.string)
    return found


def _turns(value: Any) -> Any:
    """Return a question as it is, the messages of RAGAS as turns of a conversation."""
    if not isinstance(value, list):
        return value
    turns = [(ROLES.get(str(each.get("type"))), each.get("content")) for each in value if isinstance(each, Mapping)]
    kept = [{"role": role, "content": content} for role, content in turns if role and content]
    if len(kept) < len(value) or not kept:
        raise ValueError("user_input holds a message that is not of type human or ai with content")
    return kept
