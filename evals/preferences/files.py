"""Annotations as data sets: rows for TRL's trainers, and files that Label Studio and spreadsheets read and write.

    sft            corrected answers, and answers that people call good
    dpo            a corrected answer over the one it corrects; of two answers to one question the better rated one
    kto            answers that people call good or bad
    labels         what people say of whether an answer is right, for `assay eval readers`
    label-studio   tasks.json and the labelling interface, config.xml
    csv            everything, a line for each annotation; it opens in Excel and is read again as Excel saves it; where
                   raters are checked, a second file (raters.csv) with a line for each of them

Answers to questions that are held out to measure models are left out of the trainers' formats, and counted.
"""

import hashlib
import json
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.resources import files
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args
from xml.sax.saxutils import quoteattr

import jinja2
from pydantic import ValidationError

from evals.errors import BadRow, LabError, first_problem
from evals.io import NoRow, group_by, jsonl_text, read_text
from evals.preferences.annotations import RaterCheck, Settled, bad_rating, check_raters, is_repeat, settle_annotations
from evals.preferences.rows import HELD_OUT, ROWS, rows_of_annotations
from evals.questions import find
from evals.readers import LabelRow
from evals.schema.votes import Annotation, AnnotationItem, AnnotationProject, NoteKind, Thumb, VerdictLabel
from evals.tables import read_table, table_text, unescape_formula

Form = Literal["sft", "dpo", "kto", "labels", "label-studio", "csv"]
FORMS: tuple[Form, ...] = get_args(Form)
OPEN = "whose raters disagree, to be settled first"
CHOICES: dict[str, tuple[str, ...]] = {"thumb": get_args(Thumb), "verdict": get_args(VerdictLabel)}
TEXTS = ("corrected", "comment")
SHOWN = ("question", "text", "stage", "chain", "system_prompt")
PLAIN = ("rater", "state", "updated_at", *CHOICES, *TEXTS, "guidelines", "is_adjudication")
RATING = "rating:"
"""Columns of a table: of an answer, of an annotation, and before the name of a dimension."""
TAKEN = (*CHOICES, *TEXTS, "reasons", "notes", "question", "answer", "raters")
"""Names in files and figures that no dimension may have."""


class FormatFiles(NamedTuple):
    """Files by name, how many rows they hold, and what was left out and why."""

    files: dict[str, str]
    rows: int
    left_out: dict[str, int]


def export(
    project: AnnotationProject,
    items: Sequence[AnnotationItem],
    annotations: Sequence[Annotation],
    form: Form,
    names: Mapping[str, str] | None = None,
) -> FormatFiles:
    """Return the files of a format. LabError if there is nothing to write: an empty data set helps nobody.

    `names` are what raters are called: a table names them, nothing else does.
    """
    if form == "sft" or form == "dpo" or form == "kto":
        rows, left_out = rows_of_annotations(project, settle_annotations(items, annotations), form)
        made = FormatFiles({ROWS: jsonl_text(rows)}, len(rows), left_out)
    elif form == "labels":
        made = _labels(settle_annotations(items, annotations))
    else:
        by_item = group_by(annotations, lambda each: each.item)
        said = [(item, by_item.get(item.id, [])) for item in items]
        made = _label_studio(project, said) if form == "label-studio" else _csv(project, said, names or {})
        if form == "csv" and any(item.gold or is_repeat(item.id) for item in items):
            made.files["raters.csv"] = _checks(check_raters(project, items, annotations), names or {})
    if not made.rows:
        why = "; ".join(f"{n} {reason}" for reason, n in made.left_out.items() if n)
        remedy = f"Annotate some answers first, or choose another format: {', '.join(FORMS)}"
        if {reason for reason, n in made.left_out.items() if n} == {HELD_OUT}:
            remedy = f"They train no model. Choose {', '.join(FORMS[3:])}, or annotate answers to training rows"
        raise LabError(
            f"no annotation of {project.title!r} gives a row in the format {form!r}"
            f" ({why or 'nothing was submitted yet'}). {remedy}."
        )
    return made


def _labels(settled: Sequence[Settled]) -> FormatFiles:
    """Return an answer, its truth and what people say of it; of a question without a known truth there is none.

    What two raters said stands beside it while no disagreement is open: without those, agreement would look too high.
    """
    rows, left_out = list[LabelRow](), Counter[str]()
    for each in settled:
        example = find(each.item.question)
        said = [one.verdict for one in each.annotations if one.verdict and not one.is_adjudication]
        if each.verdict is None or example is None:
            why = OPEN if said else "without anybody's verdict"
            left_out[why if example else "to a question without a known truth"] += 1
            continue
        row = LabelRow(
            id=each.item.id,
            ground_truth=example.ground_truth,
            label=each.verdict,
            prompt=each.item.question,
            completion=each.item.text,
            labelled_twice=(said[0], said[1]) if len(said) > 1 else None,
            question_id=example.id,
            source=each.item.source or each.item.stage,
        )
        rows.append(row)
    hidden = {"labelled_twice"} if left_out[OPEN] else set()
    lines = [row.model_dump(mode="json", exclude_none=True, exclude=hidden) for row in rows]
    return FormatFiles({"labels.jsonl": jsonl_text(lines)} if rows else {}, len(rows), dict(left_out))


# ---- annotation tools ---------------------------------------------------------------------------

Said = Sequence[tuple[AnnotationItem, Sequence[Annotation]]]
"""Every item with what people say of it."""


def _interface(project: AnnotationProject, said: Said) -> str:
    """Return the labelling interface of Label Studio; its reasons are those of the guidelines, and others that were given."""
    given = (reason for _, annotations in said for each in annotations for reason in each.reasons)
    guidelines = project.guidelines.model_copy(
        update={"reasons": (*dict.fromkeys((*project.guidelines.reasons, *given)),)}
    )
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
    environment.filters["quoted"] = quoteattr
    text = files("evals.preferences").joinpath("label_studio.xml.jinja").read_text("utf-8")
    told = {"choices": CHOICES, "texts": TEXTS, "notes": get_args(NoteKind)}
    return environment.from_string(text).render(guidelines=guidelines, **told)


def _label_studio(project: AnnotationProject, said: Said) -> FormatFiles:
    tasks = []
    for item, annotations in said:
        final = [
            {
                "result": list(_results(item, each)),
                "was_cancelled": each.state == "discarded",
                "ground_truth": each.is_adjudication,
                "completed_by": {"email": each.rater},
                "created_at": each.updated_at.isoformat(),
            }
            for each in annotations
            if each.state != "draft"
        ]
        drafts = [
            {"result": list(_results(item, each)), "user": each.rater} for each in annotations if each.state == "draft"
        ]
        shown = {"question": item.question, "answer": item.text, "stage": item.stage, "chain": item.chain}
        data = {**shown, "item": item.id, "system_prompt": item.system_prompt}
        tasks.append({"data": data, "annotations": final, "drafts": drafts, "predictions": []})
    return FormatFiles(
        {"tasks.json": json.dumps(tasks, indent=1, ensure_ascii=False) + "\n", "config.xml": _interface(project, said)},
        len(tasks),
        {},
    )


def _results(item: AnnotationItem, each: Annotation) -> Iterator[dict[str, Any]]:
    """Yield the regions of one annotation. Notes have their offsets as browsers count: an emoji is two."""

    def region(name: str, kind: str, value: dict[str, Any]) -> dict[str, Any]:
        return {"id": uuid.uuid4().hex[:10], "from_name": name, "to_name": "answer", "type": kind, "value": value}

    for note in each.notes:
        text = item.text[note.start : note.end]
        start, end = (_browser_place(item.text, place) for place in (note.start, note.end))
        value = {"start": start, "end": end, "text": text, "labels": [note.kind]}
        yield region("notes", "labels", value) | ({"meta": {"text": [note.comment]}} if note.comment else {})
    for name, rating in each.ratings.items():
        yield region(name, "number", {"number": rating})
    for name in CHOICES:
        if value := getattr(each, name):
            yield region(name, "choices", {"choices": [value]})
    if each.reasons:
        yield region("reasons", "choices", {"choices": [*each.reasons]})
    for name in TEXTS:
        if value := getattr(each, name):
            yield region(name, "textarea", {"text": [value]})


def _csv(project: AnnotationProject, said: Said, names: Mapping[str, str]) -> FormatFiles:
    """Return a row per annotation, with the rater's name where it is known; reasons and notes are JSON."""
    ratings = [f"{RATING}{each.name}" for each in project.guidelines.dimensions]
    rows = []
    for item, annotations in said:
        for each in annotations:
            row = {"item": item.id} | {name: getattr(item, name) for name in SHOWN}
            row |= each.model_dump(mode="json", include=set(PLAIN)) | {"rater_name": names.get(each.rater, "")}
            row["reasons"] = json.dumps(each.reasons, ensure_ascii=False) if each.reasons else ""
            row["notes"] = json.dumps([note.model_dump() for note in each.notes]) if each.notes else ""
            rows.append(row | {f"{RATING}{name}": value for name, value in each.ratings.items()})
    text = table_text(["item", *SHOWN, "rater_name", *PLAIN, "reasons", "notes", *ratings], rows)
    return FormatFiles({"annotations.csv": text}, len(rows), {})


def _checks(checked: Sequence[RaterCheck], names: Mapping[str, str]) -> str:
    """Return a row per rater: agreement with known labels and with themselves, with intervals and n, seconds an answer."""
    rows = []
    for each in checked:
        row = each.model_dump(include={"rater", "submitted", "seconds"}) | {"rater_name": names.get(each.rater, "")}
        for name, figure in (("gold", each.gold), ("itself", each.itself)):
            row |= {name: figure.value, f"{name}_low": figure.low, f"{name}_high": figure.high, f"{name}_n": figure.n}
        rows.append(row)
    spans = [f"{name}{end}" for name in ("gold", "itself") for end in ("", "_low", "_high", "_n")]
    return table_text(["rater", "rater_name", "submitted", *spans, "seconds"], rows)


# ---- annotations that were made elsewhere, as our own exports lay them out ---------------------

Layout = Literal["label-studio", "csv"]
LAYOUTS: tuple[Layout, ...] = get_args(Layout)
"""What can be read back."""
FileRow = dict[str, Any]


class Imported(NamedTuple):
    """Annotations of a project's items, and the items that it did not have."""

    items: list[AnnotationItem]
    annotations: list[Annotation]


def read_annotations(
    path: Path, layout: Layout, project: AnnotationProject, items: Sequence[AnnotationItem], now: datetime
) -> Imported:
    """Return the annotations in a file. Raises BadRow with its place for what does not fit; nothing is taken then.

    Answers are found again by the item's id, else by question and text; one that the project does not have yet is
    added, under an id that begins with the project's: a file of another project changes nothing there. `now` is the
    time of annotations whose file names none.
    """
    known = {item.id: item for item in items} | {(item.question, item.text): item for item in items}
    new: dict[object, AnnotationItem] = {}
    annotations = []
    number = 0
    try:
        for number, shown, said in READERS[layout](path):
            words, given_id = (shown["question"], shown["text"]), shown.get("item")
            own = f"{given_id or hashlib.sha256(json.dumps(words).encode()).hexdigest()[:16]}"
            own = own if own.startswith(f"{project.id}:") else f"{project.id}:{own}"
            item = known.get(given_id) or known.get(own) or known.get(words)
            if item is None:
                item = AnnotationItem.model_validate(
                    {"stage": "unknown", "chain": "unknown"}
                    | {name: value for name, value in shown.items() if name != "item" and value}
                    | {"id": own, "project": project.id}
                    | {"added_at": now, "source": f"{layout} {path.name}"}
                )
                known[item.id] = new[item.id] = item
            if said is not None:
                filled = {name: value for name, value in said.items() if value not in (None, "", [], {})}
                given = Annotation.model_validate({"item": item.id, "updated_at": now} | filled)
                if given.updated_at.tzinfo is None:
                    given = given.model_copy(update={"updated_at": given.updated_at.replace(tzinfo=UTC)})
                if misfit := bad_rating(project.guidelines, given.ratings):
                    raise BadRow(path, number, *misfit)
                if given.notes and (end := max(note.end for note in given.notes)) > len(item.text):
                    told = f"a note ends at {end}, the answer has {len(item.text)} characters"
                    raise BadRow(path, number, "notes", told)
                annotations.append(given)
    except KeyError as error:
        told = f"is missing; name the fields as `assay prefs export --format {layout}` writes them"
        raise BadRow(path, number + 1, str(error.args[0]), told) from error
    except ValidationError as error:
        field, problem, _ = first_problem(error)
        raise BadRow(path, number, field, problem) from error
    return Imported(list(new.values()), annotations)


Read = Iterator[tuple[int, FileRow, FileRow | None]]
"""Line, or number of the record; what was shown, and what one person says of it."""


def _json_list(path: Path) -> list[FileRow]:
    try:
        rows = json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise BadRow(path, error.lineno, "JSON", error.msg) from error
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise LabError(f"{path} is no list of records; give the file that the export wrote")
    return rows


def _read_label_studio(path: Path) -> Read:
    """Yield every annotation of every task; the export of Label Studio itself has the same shape."""
    for number, task in enumerate(_json_list(path), 1):
        data = task.get("data") or {}
        shown = {"item": data.get("item"), "question": data["question"], "text": data["answer"]}
        shown |= {name: data[name] for name in ("stage", "chain", "system_prompt") if name in data}
        yield number, shown, None
        drafts = [draft | {"is_draft": True} for draft in task.get("drafts") or ()]
        for each in [*(task.get("annotations") or ()), *drafts]:
            by = each.get("completed_by", each.get("user"))
            state = "draft" if "is_draft" in each else "discarded" if each.get("was_cancelled") else "submitted"
            rater = by.get("email") or by.get("id") if isinstance(by, Mapping) else by
            said: FileRow = {
                "rater": "" if rater is None else str(rater),
                "state": state,
                "updated_at": each.get("updated_at") or each.get("created_at"),
                "is_adjudication": bool(each.get("ground_truth")),
                "ratings": {},
                "notes": [],
            }
            for region in each.get("result") or ():
                name, value = region["from_name"], region["value"]
                if name == "notes":
                    comment = "\n".join((region.get("meta") or {}).get("text") or ())
                    try:
                        start, end = _span(data["answer"], value["start"], value["end"], value.get("text"))
                    except ValueError as error:
                        raise BadRow(path, number, "notes", str(error)) from None
                    span = {"start": start, "end": end, "kind": value["labels"][0]}
                    said["notes"].append(span | {"comment": comment})
                elif name in TEXTS:
                    said[name] = "\n".join(value["text"])
                elif name == "reasons":
                    said[name] = value["choices"]
                elif name in CHOICES:
                    said[name] = " and ".join(value["choices"])
                else:
                    said["ratings"][name] = value.get("number", value.get("rating"))
            yield number, shown, said


def _browser_place(text: str, place: int) -> int:
    """Return a place in a text as browsers count, in UTF-16 code units."""
    return place + sum(char > "\uffff" for char in text[:place])


def _span(text: str, start: int, end: int, words: str | None) -> tuple[int, int]:
    """Return the place of a mark in a text, from that in a browser's units and from the words that were marked.

    ValueError where the words do not stand there, nor at one other place alone, and where emoji move the place and no
    words tell.
    """
    units = list(accumulate((1 + (char > "\uffff") for char in text), initial=0))
    if end <= len(text) and units[end] == end and not words:
        return start, end
    if not words:
        raise ValueError(f"marks {start} to {end} without its words, in an answer with emoji; export it with `text`")
    places = [(units.index(start), units.index(end))] if {start, end} <= {*units} else []
    for here, there in (*places, (start, end)):  # as browsers count, else as Python does
        if _words(text[here:there]) == _words(words):
            return here, there
    here = text.find(words)
    if here < 0 or text.find(words, here + 1) >= 0:
        told = text[slice(*places[0])] if places else text[start:end]
        raise ValueError(
            f"marks {words!r}, and from {start} to {end} of the answer stands {told!r}; export the file again, with the"
            " answers as they are here"
        )
    return here, here + len(words)


def _words(text: str) -> list[str]:
    return text.replace("\\n", " ").split()


def _read_csv(path: Path) -> Read:
    """Yield every line of a table with the columns of our own export; only question, text and rater must be there."""
    table = read_table(path)
    for name in ("question", "text", "rater"):
        if name not in table.columns:
            raise BadRow(path, 1, name, "is missing")
    known = ("item", "rater_name", "reasons", "notes", *SHOWN, *PLAIN)
    if foreign := next((each for each in table.columns if each not in known and not each.startswith(RATING)), None):
        raise BadRow(path, 1, foreign, f"is none of {', '.join(known)}, {RATING}…; rename the column, or take it out")
    for number, cells in table.rows:
        if isinstance(cells, NoRow):
            raise BadRow(path, number, cells.field, cells.problem)
        row = {name: unescape_formula(cell) for name, cell in cells.items()}
        shown = {"question": "", "text": ""} | {name: row[name] for name in ("item", *SHOWN) if name in row}
        said: FileRow = {"state": "submitted"} | {name: row[name] for name in PLAIN if name in row}
        said["rater"] = row.get("rater", "").strip()
        said["ratings"] = {name.removeprefix(RATING): row[name] for name in row if name.startswith(RATING)}
        if (reasons := row.get("reasons") or "").startswith("["):
            said["reasons"] = _cell(path, number, "reasons", reasons)
        else:  # as a person types them
            said["reasons"] = [each for each in map(str.strip, reasons.split(";")) if each]
        said["notes"] = _cell(path, number, "notes", row.get("notes") or "[]")
        yield number, shown, said


def _cell(path: Path, number: int, name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise BadRow(path, number, name, f"is no JSON ({error.msg})") from error


READERS: dict[Layout, Callable[[Path], Read]] = {"label-studio": _read_label_studio, "csv": _read_csv}
