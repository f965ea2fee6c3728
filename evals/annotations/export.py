"""Annotations as data sets: rows for TRL's trainers, and files that Argilla, Label Studio and spreadsheets read.

    sft            corrected answers, and answers that people call good
    dpo, reward    a corrected answer over the one it corrects; of two answers to one question the better rated one
    kto            answers that people call good or bad
    labels         what people say of whether an answer is right, for `assay eval readers`
    argilla        records.json and settings.json, as `Dataset.to_disk` lays them out
    label-studio   tasks.json and the labelling interface, config.xml
    csv, json      everything, a line for each annotation

Answers to questions that are held out to measure models are left out of the trainers' formats, and counted.
Argilla keeps neither what is said on a note nor an answer that was discarded without a word.
"""

import csv
import io
import json
import re
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import Any, Literal, NamedTuple, get_args
from xml.sax.saxutils import quoteattr

from evals.annotations import Settled, every_guideline, settle
from evals.errors import LabError
from evals.questions import find, is_held_out
from evals.readers import LabelRow
from evals.schema.annotations import Annotation, AnnotationItem, AnnotationProject, NoteKind, Thumb, VerdictLabel

Form = Literal["sft", "dpo", "reward", "kto", "labels", "argilla", "label-studio", "csv", "json"]
FORMS: tuple[Form, ...] = get_args(Form)
HELD_OUT = "held out to measure models"
MARGIN = 0.25
"""How much better one of two answers must be rated, on a scale of 0 to 1, to be preferred: one step of 1 to 5."""
ROWS = "train.jsonl"
CHOICES: dict[str, tuple[str, ...]] = {"thumb": get_args(Thumb), "verdict": get_args(VerdictLabel)}
TEXTS = ("corrected", "comment")
TAKEN = (*CHOICES, *TEXTS, "reasons", "notes", "question", "answer")
"""Names in files and figures that no dimension may have."""


class Exported(NamedTuple):
    """Files by name, how many rows they hold, and what was left out and why."""

    files: dict[str, str]
    rows: int
    left_out: dict[str, int]


def export(
    project: AnnotationProject, items: Sequence[AnnotationItem], annotations: Sequence[Annotation], form: Form
) -> Exported:
    """Return the files of a format. LabError if there is nothing to write: an empty data set helps nobody."""
    if form in ("argilla", "label-studio", "csv"):
        project = project.model_copy(update={"guidelines": every_guideline(project)})
    writers: dict[str, Callable[[], Exported]] = {
        "labels": lambda: _labels(settle(items, annotations)),
        "argilla": lambda: _argilla(project, items, annotations),
        "label-studio": lambda: _label_studio(project, items, annotations),
        "csv": lambda: _csv(project, items, annotations),
        "json": lambda: _json(project, items, annotations),
    }
    made = writers[form]() if form in writers else _trainer(project, settle(items, annotations), form)
    if not made.rows:
        why = "; ".join(f"{n} {reason}" for reason, n in made.left_out.items() if n)
        remedy = f"Annotate some answers first, or choose another format: {', '.join(FORMS)}"
        if {reason for reason, n in made.left_out.items() if n} == {HELD_OUT}:
            remedy = f"They train no model. Choose {', '.join(FORMS[4:])}, or annotate answers to other questions"
        raise LabError(
            f"no annotation of {project.title!r} gives a row in the format {form!r}"
            f" ({why or 'nothing was submitted yet'}). {remedy}."
        )
    return made


# ---- trainers -----------------------------------------------------------------------------------


def _trainer(project: AnnotationProject, settled: Sequence[Settled], form: Form) -> Exported:
    left_out = Counter[str]()
    usable = []
    for each in settled:
        if is_held_out(each.item.question, each.item.example_id):
            left_out[HELD_OUT] += 1
        else:
            usable.append(each)
    rows: list[dict[str, Any]] = []
    if form in ("dpo", "reward"):
        pairs = list(_pairs(project, usable))
        rows = [_pair_row(*pair, with_margin=form == "reward") for pair in pairs]
        left_out["without a better or worse answer to the same question"] = len(
            {each.item.id for each in usable} - {each.item.id for pair in pairs for each in pair[:2]}
        )
    for each in usable if form in ("sft", "kto") else ():
        own = [_row(each, text, label) for text, label in _labelled(project, each) if form == "kto" or label]
        left_out["neither corrected nor called good" if form == "sft" else "called neither good nor bad"] += not own
        rows += own if form == "kto" else [{name: row[name] for name in row if name != "label"} for row in own]
    return Exported({ROWS: _lines(rows)} if rows else {}, len(rows), dict(left_out))


def _labelled(project: AnnotationProject, said: Settled) -> Iterator[tuple[str, bool]]:
    """Yield each text that people call good or bad; a corrected answer is good, and what it corrects bad."""
    if said.corrected and said.corrected != said.item.text:
        yield said.corrected, True
        yield said.item.text, False
        return
    label = said.is_good(project.guidelines.dimensions)
    if label is not None:
        yield said.item.text, label


def _pairs(project: AnnotationProject, settled: Sequence[Settled]) -> Iterator[tuple[Settled, Settled, str, float]]:
    """Yield (better, worse, text of the better, margin 0..1)."""
    for each in settled:
        if each.corrected and each.corrected != each.item.text:
            yield each, each, each.corrected, 1 - (_worth(each, project) or 0.0)
    by_prompt: dict[tuple[str, str], list[Settled]] = {}
    for each in settled:
        by_prompt.setdefault((each.item.system_prompt, each.item.question), []).append(each)
    for group in by_prompt.values():
        for pair in combinations(group, 2):
            if pair[0].item.text == pair[1].item.text:
                continue
            worth = [_worth(each, project) for each in pair]
            if worth[0] is not None and worth[1] is not None and abs(worth[0] - worth[1]) >= MARGIN:
                better, worse = pair if worth[0] > worth[1] else pair[::-1]
                yield better, worse, better.item.text, abs(worth[0] - worth[1])


def _worth(said: Settled, project: AnnotationProject) -> float | None:
    quality = said.quality(project.guidelines.dimensions)
    return quality if quality is not None or said.thumb is None else float(said.thumb == "up")


def _labels(settled: Sequence[Settled]) -> Exported:
    """Return an answer, its truth and what people say of it; of a question without a known truth there is none."""
    rows, left_out = [], Counter[str]()
    for each in settled:
        example = find(each.item.question)
        if each.verdict is None or example is None:
            left_out[
                "without a verdict that most raters give" if example else "to a question without a known truth"
            ] += 1
            continue
        said = [one.verdict for one in each.annotations if one.verdict and not one.is_adjudication]
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
        rows.append(row.model_dump(mode="json", exclude_none=True))
    return Exported({"labels.jsonl": _lines(rows)} if rows else {}, len(rows), dict(left_out))


def _turns(item: AnnotationItem) -> list[dict[str, str]]:
    return [turn.model_dump() for turn in item.prompt]


def _reply(text: str) -> list[dict[str, str]]:
    return [{"role": "assistant", "content": text}]


def _row(said: Settled, text: str, label: bool) -> dict[str, Any]:
    return {
        "prompt": _turns(said.item),
        "completion": _reply(text),
        "label": label,
        **_provenance(said),
        "is_corrected": text != said.item.text,
    }


def _pair_row(better: Settled, worse: Settled, text: str, margin: float, with_margin: bool) -> dict[str, Any]:
    origin = {f"{name}_{side}": value for side, each in (("chosen", better), ("rejected", worse))
              for name, value in _provenance(each).items() if name not in ("project", "question_id")}  # fmt: skip
    return {
        "prompt": _turns(worse.item),
        "chosen": _reply(text),
        "rejected": _reply(worse.item.text),
        **({"margin": round(margin, 4)} if with_margin else {}),
        "is_corrected": better is worse,
        "project": worse.item.project,
        "question_id": worse.item.example_id,
        **origin,
    }


def _provenance(said: Settled) -> dict[str, Any]:
    return {
        "project": said.item.project,
        "question_id": said.item.example_id,
        "item": said.item.id,
        "stage": said.item.stage,
        "chain": said.item.chain,
        "raters": said.raters,
        "is_adjudicated": said.by is not None,
    }


def _lines(rows: Sequence[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


# ---- Argilla ------------------------------------------------------------------------------------


def _argilla(
    project: AnnotationProject, items: Sequence[AnnotationItem], annotations: Sequence[Annotation]
) -> Exported:
    records = []
    for item, said in _grouped(items, annotations):
        responses: dict[str, list[dict[str, Any]]] = {}
        for each in said:
            user = {"user_id": _user_id(each.rater), "status": each.state}
            for name, value in _answers_of(each).items():
                responses.setdefault(name, []).append({"value": value, **user})
        records.append(
            {
                "id": item.id,
                "fields": {"question": item.question, "answer": item.text},
                "metadata": {"stage": item.stage, "chain": item.chain, "system_prompt": item.system_prompt},
                "suggestions": {},
                "responses": responses,
                "vectors": {},
                "status": "completed" if any(each.state == "submitted" for each in said) else "pending",
            }
        )
    files = {"records.json": _document(records), "settings.json": _document(_argilla_settings(project))}
    return Exported(files, len(records), {})


def _user_id(rater: str) -> str:
    """Return the UUID of a rater: of a hash the same digits, so that it comes back as it was."""
    is_hash = re.fullmatch(r"[0-9a-f]{32}", rater)
    return str(uuid.UUID(rater) if is_hash else uuid.uuid5(uuid.NAMESPACE_OID, rater))


def _answers_of(each: Annotation) -> dict[str, Any]:
    """Return what an annotation says, by the name of Argilla's question."""
    said: dict[str, Any] = {**each.ratings, "thumb": each.thumb, "verdict": each.verdict, "reasons": [*each.reasons]}
    said["notes"] = [{"label": note.kind, "start": note.start, "end": note.end} for note in each.notes]
    said |= {"corrected": each.corrected, "comment": each.comment}
    return {name: value for name, value in said.items() if value not in (None, [], "")}


def _argilla_settings(project: AnnotationProject) -> dict[str, Any]:
    def question(name: str, title: str, settings: dict[str, Any], description: str = "") -> dict[str, Any]:
        shown = {"title": title, "description": description or None, "required": False}
        return {"name": name, **shown, "settings": settings}

    def options(values: Sequence[str]) -> list[dict[str, str]]:
        return [{"value": value, "text": value.replace("_", " ")} for value in values]

    guidelines = project.guidelines
    questions = [
        question(
            each.name,
            each.title,
            {"type": "rating", "options": [{"value": step} for step in range(each.low, each.high + 1)]},
            each.guideline,
        )
        for each in guidelines.dimensions
    ]
    questions += [
        question(name, name.capitalize(), {"type": "label_selection", "options": options(values)})
        for name, values in CHOICES.items()
    ]
    if guidelines.reasons:
        settings = {"type": "multi_label_selection", "options": options(guidelines.reasons)}
        questions.append(question("reasons", "Reasons", settings))
    spans = {"type": "span", "field": "answer", "allow_overlapping": True, "options": options(get_args(NoteKind))}
    questions.append(question("notes", "Notes", spans))
    questions += [question(name, name.capitalize(), {"type": "text"}) for name in TEXTS]
    fields = [
        {
            "name": name,
            "title": name.capitalize(),
            "required": True,
            "settings": {"type": "text", "use_markdown": False},
        }
        for name in ("question", "answer")
    ]
    return {
        "guidelines": guidelines.text or None,
        "questions": questions,
        "fields": fields,
        "vectors": [],
        "metadata": [],
        "allow_extra_metadata": True,
        "distribution": {"strategy": "overlap", "min_submitted": project.raters_per_item},
        "mapping": None,
    }


# ---- Label Studio -------------------------------------------------------------------------------


def _label_studio(
    project: AnnotationProject, items: Sequence[AnnotationItem], annotations: Sequence[Annotation]
) -> Exported:
    tasks = []
    for item, said in _grouped(items, annotations):
        final = [
            {
                "result": list(_results(item, each)),
                "was_cancelled": each.state == "discarded",
                "ground_truth": each.is_adjudication,
                "completed_by": {"email": each.rater},
                "created_at": each.updated_at.isoformat(),
            }
            for each in said
            if each.state != "draft"
        ]
        drafts = [{"result": list(_results(item, each)), "user": each.rater} for each in said if each.state == "draft"]
        shown = {"question": item.question, "answer": item.text, "stage": item.stage, "chain": item.chain}
        data = {**shown, "item": item.id, "system_prompt": item.system_prompt}
        tasks.append({"data": data, "annotations": final, "drafts": drafts, "predictions": []})
    files = {"tasks.json": _document(tasks), "config.xml": _label_config(project)}
    return Exported(files, len(tasks), {})


def _results(item: AnnotationItem, each: Annotation) -> Iterator[dict[str, Any]]:
    """Yield the regions of one annotation; notes keep their offsets in the answer."""

    def region(name: str, kind: str, value: dict[str, Any]) -> dict[str, Any]:
        return {"id": uuid.uuid4().hex[:10], "from_name": name, "to_name": "answer", "type": kind, "value": value}

    for note in each.notes:
        text = item.text[note.start : note.end]
        value = {"start": note.start, "end": note.end, "text": text, "labels": [note.kind]}
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


def _label_config(project: AnnotationProject) -> str:
    def choices(name: str, values: Sequence[str], kind: str) -> str:
        listed = "".join(f"<Choice value={quoteattr(value)}/>" for value in values)
        return f'<Choices name="{name}" toName="answer" choice="{kind}">{listed}</Choices>'

    dimensions, reasons = project.guidelines.dimensions, project.guidelines.reasons
    spans = "".join(f'<Label value="{kind}"/>' for kind in get_args(NoteKind))
    lines = [
        "<View>",
        '<Text name="question" value="$question"/>',
        f'<Labels name="notes" toName="answer">{spans}</Labels>',
        '<Text name="answer" value="$answer"/>',
        *(
            f"<Header value={quoteattr(f'{each.title}: {each.guideline}')}/>"
            f'<Number name="{each.name}" toName="answer" min="{each.low}" max="{each.high}" step="1"/>'
            for each in dimensions
        ),
        *(choices(name, values, "single") for name, values in CHOICES.items()),
        *([choices("reasons", reasons, "multiple")] if reasons else []),
        *(f'<TextArea name="{name}" toName="answer" placeholder="{name}"/>' for name in TEXTS),
        "</View>",
    ]
    return "\n".join(lines) + "\n"


# ---- spreadsheets and everything ----------------------------------------------------------------


def _csv(project: AnnotationProject, items: Sequence[AnnotationItem], annotations: Sequence[Annotation]) -> Exported:
    """Return a row per annotation; reasons and notes are JSON."""
    ratings = [f"rating:{each.name}" for each in project.guidelines.dimensions]
    shown = ("question", "text", "stage", "chain", "system_prompt")
    plain = ("rater", "state", "updated_at", *CHOICES, *TEXTS, "guidelines", "is_adjudication")
    file = io.StringIO()
    writer = csv.DictWriter(file, ["item", *shown, *plain, "reasons", "notes", *ratings], lineterminator="\n")
    writer.writeheader()
    rows = 0
    for item, said in _grouped(items, annotations):
        for each in said:
            row = {"item": item.id} | {name: getattr(item, name) for name in shown}
            row |= each.model_dump(mode="json", include=set(plain))
            row["reasons"] = json.dumps(each.reasons, ensure_ascii=False) if each.reasons else ""
            row["notes"] = json.dumps([note.model_dump() for note in each.notes]) if each.notes else ""
            writer.writerow(row | {f"rating:{name}": value for name, value in each.ratings.items()})
            rows += 1
    return Exported({"annotations.csv": file.getvalue()}, rows, {})


def _json(project: AnnotationProject, items: Sequence[AnnotationItem], annotations: Sequence[Annotation]) -> Exported:
    document = {
        "project": project.model_dump(mode="json"),
        "items": [item.model_dump(mode="json") for item in items],
        "annotations": [each.model_dump(mode="json") for each in annotations],
    }
    return Exported({"annotations.json": _document(document)}, len(annotations), {})


def _grouped(
    items: Sequence[AnnotationItem], annotations: Sequence[Annotation]
) -> Iterator[tuple[AnnotationItem, list[Annotation]]]:
    by_item: dict[str, list[Annotation]] = {}
    for each in annotations:
        by_item.setdefault(each.item, []).append(each)
    return ((item, by_item.get(item.id, [])) for item in items)


def _document(value: object) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"
