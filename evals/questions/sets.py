"""Question sets of one's own: JSONL and YAML files, tables and data sets of the Hub, read whole or not at all.

    {"id": "codon/UUU", "prompt": "Which amino acid does the codon UUU code for?",
     "truth": {"kind": "choice", "value": "Phe", "options": ["Phe", "Leu", "Ser", "Tyr"]},
     "group": "codon/Phe", "split": "train", "explanation": "UUU and UUC are the codons of phenylalanine."}

A table (CSV, TSV, .xlsx, .ods) has one column for each field of a row and of its truth (`kind`, `value`, `options`, `unit`,
`tolerance`, …), with | between the items of a list; or a column `truth` that holds JSON. A YAML file is a
list of rows, or `questions:` beside fields that hold for every row. Short forms are taken in every format:
`tolerance: 5%` or `tolerance: 0.1`, `value` for the names of a set or the wording of a term, a single text
for a list of one, `validation` for dev. `value: cannot be told` is right where the data cannot answer, and
leaves the prompt as it is. docs/question-sets.md shows it all.
"""

import difflib
import json
import re
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError

from evals.errors import BadConfig, LabError
from evals.facts import load_provenance
from evals.io import WHOLE, NoRow, Read, data_sha256, first_of, read_text, row_of, sha256_of_text, short_repr
from evals.questions.kmp import kmp_rewordings, kmp_test, kmp_training, kmp_wordings
from evals.questions.pathways import (
    lone_missions,
    lone_missions_parted,
    pathway_heldout,
    pathway_training,
    set_meanings,
)
from evals.questions.prompt import SURE, answer_form, system_prompt, with_answer, with_confidence_line
from evals.schema import CANNOT_BE_TOLD, ChoiceTruth, Example, GroundTruth, MechanismTruth, OwnTruth
from evals.schema.questions import QuestionRow, RowFault, TermTruth
from evals.tables import TABLES, Table, file_rows
from evals.verifiers import verify
from evals.verifiers.expected import expected_answer, terms
from evals.verifiers.expected import normalise as normalise_wording
from evals.verifiers.line import read_lines
from evals.verifiers.score import SCORED

DATASETS: Mapping[str, Callable[[], tuple[Example, ...]]] = {
    "pathways-heldout": pathway_heldout,
    "kmp-test": kmp_test,
    "kmp-rewordings": kmp_rewordings,
    "kmp-train": kmp_training,
    "pathways-train": pathway_training,
    "hallmark-train": set_meanings,
    "missions-train": lone_missions,
    "missions-parted-train": lone_missions_parted,
}
"""Named data sets, as `assay eval run --data NAME` takes them, with the standard hold-out."""


def find(question: str) -> Example | None:
    """Return our question with this wording, or a registered one, or None; case and white space do not matter."""
    wording = normalise_question(question)
    return _by_wording().get(wording) or _REGISTERED.get(wording)


def register(examples: Iterable[Example]) -> None:
    """Let `find` know the questions of a set of one's own, for as long as the process runs."""
    _REGISTERED.update((normalise_question(row.prompt), row) for row in examples)


_REGISTERED: dict[str, Example] = {}


def system_prompt_for(template: str, question: str) -> str:
    """Return a chain's system prompt for a question, with its own options where it is one of ours."""
    known = find(question)
    return system_prompt(template, question, known.ground_truth if known else None)


def is_held_out(question: str, example_id: str | None = None) -> bool:
    """Return whether the standard hold-out keeps this wording, or the row of this id, from training.

    It holds the test questions of both families, and the comparisons that name a held-out tissue:
    these are in no test, but would give its directions away.
    """
    wordings, ids = _held_out_rows()
    wording = normalise_question(question)
    own = _REGISTERED.get(wording)
    return wording in wordings or example_id in ids or (own is not None and own.split == "test")


def normalise_question(question: str) -> str:
    """Return a question as `find` compares it: NFKC, one blank between words, no case."""
    return " ".join(unicodedata.normalize("NFKC", question).casefold().split())


@cache
def _held_out_rows() -> tuple[frozenset[str], frozenset[str]]:
    """Return the wordings and the ids of all rows that the standard hold-out keeps from training."""
    trained = {row.id for row in pathway_training()}
    whole = (row for row in pathway_training(held_out=()) if row.id not in trained)
    rows = (*kmp_test(), *pathway_heldout(), *whole)
    return frozenset(normalise_question(row.prompt) for row in rows), frozenset(row.id for row in rows)


@cache
def _by_wording() -> dict[str, Example]:
    """Return all questions by wording; comparisons over held-out tissues are among them."""
    rows = (
        *kmp_wordings(),
        *pathway_training(held_out=()),
        *pathway_training(),
        *pathway_heldout(),
        *set_meanings(),
        *lone_missions(),
        *lone_missions_parted(),
    )
    return {normalise_question(row.prompt): row for row in (*rows, *kmp_test())}


TAUGHT_CONFIDENCE = SURE
"""Percent that the answers of a set state as their confidence where a model is taught by them (SFT)."""
SUFFIXES = (".jsonl", *TABLES, ".yaml", ".yml")
EXAMPLES = Path(__file__).parent / "examples"
"""Sets that come with Assay, known by the names of their files."""
SPLITS = ("train", "dev", "test")
PART = re.compile(r"(?P<name>.+?)(?:\[(?P<part>train|dev|test|all)\])?")
HUB = re.compile(r"hub:(?P<name>[\w][\w.-]*/[\w][\w.-]*)(?:@(?P<revision>[\w./-]+))?(?::(?P<config>[\w.-]+))?")
DECIMAL_COMMA = re.compile(r"^\s*([-+]?(?:0|\d+(?!,\d{3}\s*%?\s*$))),(\d+(?:[eE][-+]?\d+)?\s*%?)\s*$")
"""0,75 and 180,16, as Excel writes them in half of Europe; 1,250 could be either and stays as it is."""
THOUSANDS = re.compile(
    r"^\s*[-+]?[1-9]\d{0,2}(?:(?:\.\d{3}){2,}|(?:\.\d{3})+(?=,\d)|(?:,\d{3}){2,}|(?:,\d{3})+(?=\.\d))(?!\d)"
)
"""Groups of thousands that are no decimals: several, or before a mark of the other kind."""
DOTTED = re.compile(r"\s*[-+−]?[1-9]\d{0,2}\.\d{3}\s*%?\s*")
"""1.234: a decimal, or in half of Europe a thousand."""
POINT = re.compile(r"\s*[-+−]?\d*\.\d+(?:[eE][-+]?\d+)?\s*%?\s*")
ABSTENTIONS = frozenset(map(normalise_wording, (CANNOT_BE_TOLD, "cannot be told")))

CLOSE = 0.75
"""How alike two spellings are, as difflib measures it, for one to be suggested for the other."""
LONGEST_ROW = 1_000_000
"""Characters of a row, all of its texts together."""

Valid = TypeVar("Valid", bound=BaseModel)
Raw = tuple[int, dict[str, Any]]
Fetch = Callable[[str, str | None, str | None], Iterable[tuple[str, Mapping[str, Any]]]]
"""Name, revision and config of a data set of the Hub -> its rows, each with the name of its split."""


class QuestionSet(NamedTuple):
    """A file that was read: its good rows as examples, and everything that is wrong with the others.

    `is_own` is False for a file of whole `Example`s, as `assay data kmp` writes them. `lines` are those of the examples, and
    `note` says how the file was read where that is unclear.
    """

    examples: tuple[Example, ...]
    faults: tuple[RowFault, ...]
    is_own: bool
    lines: tuple[int, ...] = ()
    note: str = ""


def load_questions(source: str | Path, fetch: Fetch | None = None, part: str | None = None) -> tuple[Example, ...]:
    """Return the questions of a data set, by name or path: `codons-and-enzymes`, `mine.csv[test]`.

    Names are those of DATASETS and of the sets in EXAMPLES; `hub:owner/name[@revision][:config]` is fetched
    by `fetch`. [train], [dev], [test] or [all] says which rows; without one, a question set gives those of the
    split `part`, if it has any. Nothing is returned of a set with a bad row: BadRow names them.
    """
    match = PART.fullmatch(str(source).strip())
    name, wanted = (match["name"], match["part"]) if match else (str(source), None)
    if name in DATASETS:
        rows, is_own = DATASETS[name](), False
    else:
        read = _read_source(name, fetch)
        if read.faults:
            raise first_of([each.error(name) for each in read.faults])
        rows, is_own = read.examples, read.is_own
    if wanted is None and is_own and any(row.split == part for row in rows):
        wanted = part
    if wanted in (None, "all"):
        return rows
    chosen = tuple(row for row in rows if row.split == wanted)
    if not chosen:
        has = ", ".join(sorted({row.split for row in rows}))
        raise BadConfig(f"{name} has no rows of the split {wanted}; it has {has}.")
    return chosen


def is_question_set(source: str) -> bool:
    """Return whether a source is a file, a set that comes with Assay or one of the Hub, by its name alone."""
    match = PART.fullmatch(source.strip())
    name = match["name"] if match else source
    return name.startswith("hub:") or file_of(name) is not None


def file_of(name: str) -> Path | None:
    """Return the file that a name stands for: a path, or a set that comes with Assay; None for other names."""
    path = EXAMPLES / f"{name}.yaml"
    if re.fullmatch(r"[\w-]+", name) and path.is_file():
        return path
    is_file = Path(name).suffix.lower() in SUFFIXES and not name.startswith("hub:")
    return Path(name).expanduser() if is_file else None


def read_question_set(path: Path, sheet: str | None = None) -> QuestionSet:
    """Return the good rows of a file and what is wrong with the others; LabError if it is missing, empty or of another kind."""
    rows, faults, note = question_set_rows(path, sheet)
    return examples_of(rows, path.stem, faults)._replace(note=note)


def examples_of(rows: Iterable[Raw], name: str, faults: Iterable[RowFault] = ()) -> QuestionSet:
    """Return rows as examples; `name` is their source where a row names none."""
    examples: list[Example] = []
    bad = list(faults)
    ids: dict[str, int] = {}
    asked: dict[tuple[str, str], tuple[int, Example]] = {}
    is_own = False
    for line, data in rows:
        is_example = "ground_truth" in data and "truth" not in data
        is_own = is_own or not is_example
        try:
            if too_long := longer_than(LONGEST_ROW, data):
                raise _BadFields((*too_long, "no model is asked so much: shorten it, or leave the row out"))
            example = _valid(Example, data) if is_example else to_example(question_row(data), name)
            if not is_example:
                _check_readable(example)
                form = answer_form(example.prompt, example.ground_truth)
                twin_line, twin = asked.setdefault((normalise_question(example.prompt), form), (line, example))
                if right_answer(twin.ground_truth) != right_answer(example.ground_truth):
                    problem = f"line {twin_line} asks the same and has another right answer"
                    raise _BadFields(("truth", problem, "make the question say what tells the two apart"))
            if example.id in ids:
                problem = f"{example.id!r} was used in line {ids[example.id]}; ids are unique"
                raise _BadFields(("id", problem, REMEDIES["id"]))
        except _BadFields as error:
            id = data["id"] if isinstance(data.get("id"), str) else None
            bad += [fault_of(line, id, *each, _suggestion(data, each[0])) for each in error.problems]
        else:
            ids[example.id] = line
            examples.append(example)
    return QuestionSet(
        tuple(examples), tuple(sorted(bad, key=lambda each: each.line)), is_own, tuple(ids[row.id] for row in examples)
    )


def fault_of(line: int, id: str | None, field: str, problem: str, remedy: str, meant: str | None) -> RowFault:
    """Return what is wrong with a row, with what was probably `meant`."""
    remedy = f"did you mean {meant!r}?" if meant else remedy
    return RowFault(line=line, id=id, field=field, problem=problem, remedy=remedy, suggestion=meant)


def closest(seen: str, known: Sequence[str]) -> str | None:
    """Return the one of some names that a misspelt one stands for; case does not matter."""
    folded = {each.casefold(): each for each in known}
    return next((folded[each] for each in difflib.get_close_matches(seen.casefold(), folded, 1, CLOSE)), None)


def number_in(seen: str) -> str | None:
    """Return the one number in a text such as "ca. 2 mg"; None where there are none or several."""
    found = re.findall(r"[-+−]?\d+(?:[.,]\d+)*(?:[eE][-+]?\d+)?", seen)
    return found[0].replace("−", "-") if len(found) == 1 else None


def settle_thousands(truths: Iterable[dict[str, Any]], has_comma: bool = False) -> bool:
    """Write 1.234 as 1234 where the numbers beside it have a decimal comma, or none tells and `has_comma`; return whether any is so."""
    numbers = [each for each in truths if each.get("kind") == "number" and isinstance(each.get("value"), str)]
    dotted = [each for each in numbers if DOTTED.fullmatch(each["value"])]
    others = [each["value"] for each in numbers if each not in dotted]
    groups = [found[0] for text in others if (found := THOUSANDS.match(text))]
    commas = any(map(DECIMAL_COMMA.match, others)) or any("." in each for each in groups)
    points = any("," in each for each in groups) or any(POINT.fullmatch(text) for text in others)
    is_so = bool(dotted) and not points and (commas or has_comma)
    for each in dotted if is_so else ():
        each["value"] = each["value"].replace(".", "")
    return is_so


def _suggestion(data: Mapping[str, Any], field: str) -> str | None:
    """Return the value that a bad field of a row was probably meant to have; None if there is no telling."""
    name = field.removeprefix("truth.")
    inside = data["truth"] if isinstance(data.get("truth"), Mapping) else {}
    row = {**inside, **data}
    seen = row.get(name)
    if not isinstance(seen, str):
        return None
    if name == "value" and row.get("kind") == "number":
        found = number_in(seen)
        return None if found is None or found == seen.strip() else found
    options = _as_list("options", row.get("options")) or ()
    known = {"kind": GENERAL_KINDS, "split": SPLITS, "value": [each for each in options if isinstance(each, str)]}
    return closest(seen, known.get(name, ()))


def longer_than(limit: int, row: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the longest field of a row that has more characters than the limit, and what is wrong with it."""
    sizes = {name: _size(value) for name, value in row.items()}
    if sum(sizes.values()) <= limit:
        return None
    name = max(sizes, key=lambda each: sizes[each])
    return name, f"holds {sizes[name]:,} characters; a row has at most {limit:,} in all"


def _size(value: Any) -> int:
    if isinstance(value, Mapping):
        return sum(map(_size, value.values()))
    return len(value) if isinstance(value, str) else sum(map(_size, value)) if isinstance(value, list | tuple) else 1


def good_rows(raw: Iterable[Raw], faults: Iterable[RowFault]) -> tuple[QuestionRow, ...]:
    """Return the rows without a fault as records; of a whole `Example` what a row says."""
    bad = {fault.line for fault in faults}
    found = []
    for data in (data for line, data in raw if line not in bad):
        if "ground_truth" in data and "truth" not in data:
            example = Example.model_validate(data)
            known: dict[str, Any] = {"truth": example.ground_truth, "group": example.cluster, "source": example.source}
            known["explanation"] = read_lines(example.answer).explanation or None
            known |= {name: getattr(example, name) for name in ("id", "prompt", "split", "subject", "tags", "licence")}
            found.append(QuestionRow(**known))
        else:
            found.append(question_row(data))
    return tuple(found)


def question_row(data: Mapping[str, Any]) -> QuestionRow:
    """Return a row of any format as its record; _BadFields names every field that is wrong."""
    return _valid(QuestionRow, _normalise_row(data))


def to_example(row: QuestionRow, name: str) -> Example:
    """Return the example that a row stands for. Its answer is explanation, answer line, confidence line."""
    right = right_answer(row.truth)
    explanation = (row.explanation or "").strip()
    answer = with_answer(explanation, right, TAUGHT_CONFIDENCE) if right is not None else ""
    if right is None and explanation:
        answer = with_confidence_line(explanation, TAUGHT_CONFIDENCE)
    return Example(
        source=row.source or name,
        kind=row.truth.kind,
        prompt=row.prompt.strip(),
        answer=answer,
        confidence=TAUGHT_CONFIDENCE / 100,
        ground_truth=row.truth,
        facts=(row.group,),
        cluster=row.group,
        **{name: getattr(row, name) for name in ("id", "split", "subject", "tags", "licence")},
    )


def right_answer(truth: GroundTruth) -> str | None:
    """Return the right answer as it stands behind `Answer:`; None for a rubric, which has no single answer."""
    expected = expected_answer(truth)
    match expected.kind:
        case "choice":
            return expected.right
        case "number":
            unit = expected.unit or ""
            unit = "" if any(char.isdigit() for char in unit) else unit if unit == "%" else f" {unit}"
            return f"{expected.number:.15g}{unit}".strip()
        case "set":
            return ", ".join(expected.values)
        case "term" if isinstance(truth, MechanismTruth):
            return terms(truth.pathway).accept[0]
        case "term" if isinstance(truth, TermTruth):
            return truth.accept[0]
    return None


# ---- where rows come from ---------------------------------------------------------------------


def _read_source(name: str, fetch: Fetch | None) -> QuestionSet:
    path = file_of(name)
    if path is not None:
        return read_question_set(path)
    hub = HUB.fullmatch(name)
    if hub is not None and fetch is not None:
        return examples_of(hub_rows(name, fetch), hub["name"])
    known = ", ".join((*DATASETS, *sorted(file.stem for file in EXAMPLES.glob("*.yaml"))))
    raise BadConfig(
        f"no data set is called {name!r} and there is no such file; known are {known}. Or name a file that ends"
        f" in {', '.join(SUFFIXES)}, or hub:owner/name"
    )


def hub_rows(name: str, fetch: Fetch) -> list[Raw]:
    """Return the rows of hub:owner/name[@revision][:config] as they stand, numbered; BadConfig for another name."""
    rows = enumerate(fetch(*hub_parts(name)), 1)
    return [(n, {"split": split, **given}) for n, (split, row) in rows if (given := _without_empty(row))]


def hub_parts(name: str) -> tuple[str, str | None, str | None]:
    """Return owner/name, revision and config of hub:owner/name[@revision][:config]; BadConfig for another name."""
    hub = HUB.fullmatch(name)
    if hub is None:
        raise BadConfig(
            f"{name!r} is no data set of the Hub; write hub:owner/name, with @revision and :config if need be"
        )
    return hub["name"], hub["revision"], hub["config"]


def question_set_rows(path: Path, sheet: str | None = None) -> tuple[list[Raw], list[RowFault], str]:
    """Return `plain_rows` of a question set; LabError for another kind of file, or a table without a column prompt.

    `sheet` names one of a spreadsheet; its first is read otherwise.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise LabError(f"{path} ends in {path.suffix or 'nothing'}; a question set is a {', '.join(SUFFIXES)} file")
    rows, faults, note = plain_rows(path, sheet)
    if path.suffix.lower() in TABLES and rows and not any("prompt" in row for _, row in rows):
        raise LabError(
            f"{path} has no column prompt, but {', '.join(dict.fromkeys(name for _, row in rows for name in row))}. Call the"
            " columns id, prompt, kind, value, options, unit, tolerance, group, split; `assay data import` takes tables of"
            " other layouts, such as question, A, B, C, D, answer"
        )
    settle_thousands(row for _, row in rows)
    return rows, faults, note


def plain_rows(
    path: Path, sheet: str | None = None, columns: Sequence[str] = ()
) -> tuple[list[Raw], list[RowFault], str]:
    """Return the rows of a YAML file or of one that `file_rows` reads, what is no row, and which sheet was read of several.

    `columns` name those of a table without a first row of names, as `read_table` takes them.
    """
    end, otherwise = path.suffix.lower(), "write one with `assay data new --out FILE`"
    if end in (".yaml", ".yml") and sheet is None:
        table = Table([*_yaml_rows(read_text(path, otherwise), path)], ())
    else:
        table = file_rows(path, otherwise, sheet, columns)
    faults: list[RowFault] = []
    rows: list[Raw] = []
    for line, row in table.rows:
        if isinstance(row, NoRow):
            remedy = REMEDIES.get(end, REMEDIES[".jsonl"]) if row.field == WHOLE else "keep one of them"
            faults.append(RowFault(line=line, field=row.field, problem=row.problem, remedy=remedy))
        else:
            rows.append((line, row))
    if not rows and not faults:
        raise LabError(f"{path} holds no rows; `assay data new` prints an example to begin with")
    return rows, faults, table.note


def _yaml_rows(text: str, path: Path) -> Read:
    loader = yaml.SafeLoader("")
    shared: dict[str, Any] = {}
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        if isinstance(root, yaml.MappingNode):
            whole = loader.construct_document(root)
            shared = {key: value for key, value in whole.items() if key != "questions"}
            root = next((node for key, node in root.value if key.value == "questions"), root)
        if root is not None and not isinstance(root, yaml.SequenceNode):
            raise LabError(f"{path} holds no list of rows; write `- id: …` rows, or `questions:` and the rows below")
        for node in root.value if root else ():
            row = loader.construct_document(node)
            whole = {**shared, **row} if isinstance(row, dict) else row
            yield node.start_mark.line + 1, row_of(whole, _repeated_keys(node))
    except RecursionError:
        raise LabError(f"{path}: lists or objects are nested too deeply; write a row as plain fields") from None
    except yaml.MarkedYAMLError as error:
        at = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise LabError(f"{path}{at}: no YAML ({error.problem}); texts with : # ? or , in them go in quotes") from None


def _repeated_keys(node: yaml.Node) -> list[str]:
    """Return the keys that a mapping, or one inside it, holds twice."""
    if not isinstance(node, yaml.MappingNode):
        return []
    keys = [str(key.value) for key, _ in node.value]
    return [
        *(key for key in keys if keys.count(key) > 1),
        *(key for _, value in node.value for key in _repeated_keys(value)),
    ]


# ---- from what people write to the record -----------------------------------------------------

TRUTHS = {model.model_fields["kind"].default: model for model in get_args(get_args(GroundTruth)[0])}
FIELDS = {name: field for model in (*TRUTHS.values(), QuestionRow) for name, field in model.model_fields.items()}
LISTS = frozenset(name for name, field in FIELDS.items() if get_origin(field.annotation) is tuple)
GENERAL_KINDS = ("choice", "number", "set", "term", "rubric")
TRUTH_FIELDS = frozenset({name for model in TRUTHS.values() for name in model.model_fields} - {"subject"})
"""Fields of a truth that may stand beside those of the row."""
_REMEDIES = tomllib.loads(Path(__file__).with_name("remedies.toml").read_text(encoding="utf-8"))
REMEDIES = {
    name: text.format(kinds=", ".join(GENERAL_KINDS), splits=", ".join(SPLITS)) for name, text in _REMEDIES.items()
}


class _BadFields(ValueError):
    """What is wrong with a row: field, problem and remedy, once or several times."""

    def __init__(self, *problems: tuple[str, str, str]) -> None:
        super().__init__(problems[0][1])
        self.problems = problems


PROMPT_COLUMNS = ("messages", "target")
"""Columns that publishing adds, ready to prompt a model with; they follow from the others and are not read back."""


def _normalise_row(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with its truth in one piece, short forms written out, and empty fields left out."""
    row = {name: _to_nfc(value) for name, value in _without_empty(data).items() if name not in PROMPT_COLUMNS}
    truth = row.pop("truth", {})
    if isinstance(truth, str):
        try:
            truth = json.loads(truth)
        except ValueError as error:
            raise _BadFields(("truth", f"is no JSON ({error}), seen {short_repr(truth)}", REMEDIES["truth"])) from None
    if not isinstance(truth, Mapping):
        raise _BadFields(("truth", f"is no object, seen {short_repr(truth)}", REMEDIES["truth"]))
    beside = {name: row.pop(name) for name in TRUTH_FIELDS & row.keys()}
    beside = {name: value for name, value in beside.items() if value not in ([], ())}
    for name in beside.keys() & truth.keys():
        if _as_list(name, beside[name]) != _as_list(name, truth[name]):
            problem = f"{short_repr(beside[name])} beside the truth, {short_repr(truth[name])} in it"
            raise _BadFields((name, problem, "write it once, in the truth"))
    if beside or truth:
        row["truth"] = _truth({**beside, **truth})
    if row.get("split") in ("validation", "val"):
        row["split"] = "dev"
    return {name: _as_list(name, value) for name, value in row.items()}


def _truth(given: Mapping[str, Any]) -> dict[str, Any]:
    kind = str(given.get("kind"))
    truth = {
        name: value if name == "subject" else _as_list(name, value)
        for name, value in given.items()
        if value is not None or (kind, name) == ("number", "value")
    }
    field = {"set": "values", "term": "accept", "rubric": "items"}.get(kind, "value")
    if field != "value" and "value" in truth:
        truth[field] = _as_list(field, truth.pop("value"))
    if "options" in truth and kind in TRUTHS and kind != "choice":
        raise _BadFields(
            (
                "options",
                f"stand beside a truth of kind {kind!r}",
                "only a choice has options; wordings that compete with a term go into others",
            )
        )
    if kind == "number":
        for name, each in truth.items():
            if isinstance(each, str):
                truth[name] = DECIMAL_COMMA.sub(
                    r"\1.\2", THOUSANDS.sub(lambda found: re.sub("[.,]", "", found[0]), each)
                )
    value = truth.get(field)
    only = value[0] if isinstance(value, list) and len(value) == 1 else value
    if isinstance(only, str) and normalise_wording(only) in ABSTENTIONS:
        truth[field] = {"number": None, "set": [], "term": []}.get(kind, CANNOT_BE_TOLD)
    if isinstance(truth.get("tolerance"), Mapping):
        truth["tolerance"] = _without_empty(truth["tolerance"])
    return truth


def _to_nfc(value: Any) -> Any:
    """Return a value with its texts in NFC, so that an accented letter is the same however it was typed."""
    if isinstance(value, str):
        return unicodedata.normalize("NFC", value)
    if isinstance(value, Mapping):
        return {_to_nfc(key): _to_nfc(each) for key, each in value.items()}
    return [_to_nfc(each) for each in value] if isinstance(value, list | tuple) else value


def _without_empty(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of a table without its empty columns."""
    return {key: value for key, value in row.items() if value is not None}


def _as_list(name: str, value: Any) -> Any:
    """Return a text as a list where a list belongs; | stands between items."""
    if name in LISTS and isinstance(value, str):
        return [part.strip() for part in value.split("|") if part.strip()]
    return list(value) if isinstance(value, tuple) else value


def _valid(record: type[Valid], data: Mapping[str, Any]) -> Valid:
    """Return a row as a record; _BadFields says of each field that is wrong what pydantic says, and what to do."""
    try:
        return record.model_validate(data)
    except ValidationError as error:
        by_field = {each[0]: each for each in map(_complaint, reversed(error.errors()))}
        raise _BadFields(*reversed(by_field.values())) from None


def _complaint(error: Any) -> tuple[str, str, str]:
    steps, kind = [str(step) for step in error["loc"]], error["type"]
    if steps[:1] in (["truth"], ["ground_truth"]) and len(steps) > 1:
        del steps[1]  # the kind, by which pydantic chose the record
    problem = error["msg"].removeprefix("Value error, ")
    if kind.startswith("union_tag"):
        steps.append("kind")
    elif steps == ["truth"] and (name := {"an": "options"}.get(first := problem.split()[0], first)) in TRUTH_FIELDS:
        steps.append(name)  # what the sentence of ours begins with
    field = ".".join(steps) or WHOLE
    if kind == "extra_forbidden":
        model = TRUTHS.get(str(error["loc"][1])) if field.startswith("truth.") else None
        return field, problem, f"leave it out, or use one of {', '.join((model or QuestionRow).model_fields)}"
    if kind == "float_parsing" and re.fullmatch(r"-?\d{1,3},\d{3}", seen := str(error["input"]).strip()):
        wholes, point = seen.replace(",", ""), seen.replace(",", ".")
        return field, f"may be {wholes} or {point}, seen {seen!r}", f"write {wholes} or {point}, without a comma"
    says_it = ("missing", "union_tag_invalid", "union_tag_not_found")
    if kind not in says_it and error["loc"][:1] + error["loc"][2:] != ("truth",):
        problem += f", seen {short_repr(error['input'])}"
    remedies = (REMEDIES.get(each) for each in (kind, field, ".".join(steps[:2])))
    return field, problem, next(filter(None, remedies), "see docs/question-sets.md")


def _check_readable(example: Example) -> None:
    truth = example.ground_truth
    if isinstance(truth, OwnTruth) and truth.answerable and right_answer(truth) == CANNOT_BE_TOLD:
        raise _BadFields(
            ("truth.answerable", "is true, and the right answer is: cannot be told", REMEDIES["answerable"])
        )
    if truth.kind not in SCORED:
        return
    if isinstance(truth, ChoiceTruth) and len(set(map(normalise_wording, truth.options))) < len(truth.options):
        problem = f"options that differ in marks alone cannot be told apart, seen {list(truth.options)}"
        raise _BadFields(("truth.options", problem, "write them so that they differ in a letter or digit"))
    verdict = verify(example, example.answer, read="answer")
    if verdict.verdict != "correct":
        problem = f"its own right answer {right_answer(truth)!r} is read as {verdict.verdict} ({verdict.reason})"
        remedy = (
            "reword options, names or the explanation: names hold no comma, slash or `and`, no accepted wording"
            " is a competing one too, and an explanation has no answer line of its own"
        )
        raise _BadFields(("truth", problem, remedy))


VERSION = "1"
"""Of wordings, rules and splits: goes up whenever the same command would write other rows."""


def set_statistics(
    name: str, settings: Mapping[str, int | str], splits: Mapping[str, tuple[Sequence[Example], str]]
) -> dict[str, Any]:
    """Return statistics.json: how a data set was asked for, and the counts of each split, given with its file's text."""
    counts = {split: split_statistics(*found) for split, found in splits.items()}
    return {"name": name, "settings": dict(settings), "splits": counts, "versions": versions()}


def split_statistics(examples: Sequence[Example], text: str) -> dict[str, Any]:
    """Return counts and checksums of one split, over its file's bytes and over its rows in any order.

    "none" counts rows of no tissue.
    """
    return {
        "rows": len(examples),
        "kinds": name_counts(example.kind for example in examples),
        "tissues": name_counts(example.tissue or "none" for example in examples),
        "clusters": len({example.cluster for example in examples}),
        "facts": len({fact for example in examples for fact in example.facts}),
        "file_sha256": sha256_of_text(text),
        "data_sha256": data_sha256(examples),
    }


def versions() -> dict[str, str]:
    """Return the version of the questions and one checksum over all fact tables."""
    tables = sorted(f"{name} {entry.sha256}" for name, entry in load_provenance().items())
    return {"questions": VERSION, "facts_sha256": sha256_of_text("\n".join(tables))}


def name_counts(names: Iterable[str]) -> dict[str, int]:
    """Return names with their counts, the most frequent first, ties by name."""
    return dict(sorted(Counter(names).items(), key=lambda item: (-item[1], item[0])))
