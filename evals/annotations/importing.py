"""Annotations that were made elsewhere: files of Argilla, Label Studio and spreadsheets, as our own exports lay them out.

Answers are found again by the item's id, else by question and text; one that the project does not have yet is added,
under an id that begins with the project's: a file of another project changes nothing there.
"""

import csv
import hashlib
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from pydantic import ValidationError

from evals.annotations import bad_rating, every_guideline
from evals.annotations.export import CHOICES, TEXTS
from evals.errors import BadRow, LabError
from evals.schema.annotations import Annotation, AnnotationItem, AnnotationProject

Layout = Literal["argilla", "label-studio", "csv"]
LAYOUTS: tuple[Layout, ...] = get_args(Layout)
Row = dict[str, Any]


class Imported(NamedTuple):
    """Annotations of a project's items, and the items that it did not have."""

    items: list[AnnotationItem]
    annotations: list[Annotation]


def read_annotations(
    path: Path, layout: Layout, project: AnnotationProject, items: Sequence[AnnotationItem], now: datetime
) -> Imported:
    """Return the annotations in a file. Raises BadRow with its place for what does not fit; nothing is taken then.

    `now` is the time of annotations whose file names none.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise LabError(f"{path} cannot be read ({error}); name a {layout} export in UTF-8") from error
    known = {item.id: item for item in items} | {(item.question, item.text): item for item in items}
    new: dict[object, AnnotationItem] = {}
    annotations = []
    number, rated = 0, every_guideline(project)
    try:
        for number, (shown, said) in enumerate(READERS[layout](path, text), 1):
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
                if misfit := bad_rating(rated, given.ratings):
                    raise BadRow(path, number, *misfit)
                if given.notes and (end := max(note.end for note in given.notes)) > len(item.text):
                    told = f"a note ends at {end}, the answer has {len(item.text)} characters"
                    raise BadRow(path, number, "notes", told)
                annotations.append(given)
    except KeyError as error:
        raise BadRow(path, number + 1, str(error.args[0]), "is missing") from error
    except ValidationError as error:
        first = error.errors()[0]
        raise BadRow(path, number, ".".join(map(str, first["loc"])), first["msg"]) from error
    return Imported(list(new.values()), annotations)


def _json_list(path: Path, text: str) -> list[Row]:
    try:
        rows = json.loads(text)
    except json.JSONDecodeError as error:
        raise BadRow(path, error.lineno, "JSON", error.msg) from error
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise LabError(f"{path} is no list of records; give the file that the export wrote")
    return rows


def _argilla(path: Path, text: str) -> Iterator[tuple[Row, Row | None]]:
    """Yield every user's responses to every record of records.json, together."""
    for record in _json_list(path, text):
        fields, metadata = record.get("fields") or {}, record.get("metadata") or {}
        shown = {"item": record.get("id"), "question": fields["question"], "text": fields["answer"]}
        shown |= {name: metadata[name] for name in ("stage", "chain", "system_prompt") if name in metadata}
        by_user: dict[str, Row] = {}
        for name, responses in (record.get("responses") or {}).items():
            for response in responses:
                user = str(response.get("user_id")).replace("-", "")
                said = by_user.setdefault(user, {"rater": user, "state": response.get("status") or "submitted"})
                if name in CHOICES or name in (*TEXTS, "reasons"):
                    said[name] = response["value"]
                elif name == "notes":
                    said[name] = [_note(span["start"], span["end"], span["label"]) for span in response["value"]]
                else:
                    said.setdefault("ratings", {})[name] = response["value"]
        yield shown, None
        for said in by_user.values():
            yield shown, said


def _label_studio(path: Path, text: str) -> Iterator[tuple[Row, Row | None]]:
    """Yield every annotation of every task; the export of Label Studio itself has the same shape."""
    for task in _json_list(path, text):
        data = task.get("data") or {}
        shown = {"item": data.get("item"), "question": data["question"], "text": data["answer"]}
        shown |= {name: data[name] for name in ("stage", "chain", "system_prompt") if name in data}
        yield shown, None
        drafts = [draft | {"is_draft": True} for draft in task.get("drafts") or ()]
        for each in [*(task.get("annotations") or ()), *drafts]:
            by = each.get("completed_by", each.get("user"))
            state = "draft" if "is_draft" in each else "discarded" if each.get("was_cancelled") else "submitted"
            said: Row = {
                "rater": str(by.get("email") or by.get("id") if isinstance(by, Mapping) else by),
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
                    said["notes"].append(_note(value["start"], value["end"], value["labels"][0], comment))
                elif name in TEXTS:
                    said[name] = "\n".join(value["text"])
                elif name == "reasons":
                    said[name] = value["choices"]
                elif name in CHOICES:
                    said[name] = value["choices"][0]
                else:
                    said["ratings"][name] = value.get("number", value.get("rating"))
            yield shown, said


def _csv(path: Path, text: str) -> Iterator[tuple[Row, Row | None]]:
    """Yield every line of a table with the columns of our own export; only question, text and rater must be there."""
    for number, row in enumerate(csv.DictReader(io.StringIO(text)), 2):
        shown = {name: row[name] for name in ("item", "stage", "chain", "system_prompt") if row.get(name)}
        shown |= {"question": row["question"], "text": row["text"]}
        said: Row = {name: row[name] for name in ("updated_at", "guidelines", *CHOICES, *TEXTS) if row.get(name)}
        said |= {"rater": row["rater"], "state": row.get("state") or "submitted"}
        said["is_adjudication"] = (row.get("is_adjudication") or "").casefold() in ("true", "1")
        said["ratings"] = {
            name.removeprefix("rating:"): value for name, value in row.items() if name and name.startswith("rating:") and value
        }  # fmt: skip
        if (reasons := row.get("reasons") or "").startswith("["):
            said["reasons"] = _json(path, number, "reasons", reasons)
        else:  # as a person types them
            said["reasons"] = [each for each in reasons.split("; ") if each]
        said["notes"] = _json(path, number, "notes", row.get("notes") or "[]")
        yield shown, said


def _json(path: Path, number: int, name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise BadRow(path, number, name, f"is no JSON ({error.msg})") from error


def _note(start: int, end: int, kind: str, comment: str = "") -> Row:
    return {"start": start, "end": end, "kind": kind, "comment": comment}


READERS: dict[Layout, Callable[[Path, str], Iterator[tuple[Row, Row | None]]]] = {
    "argilla": _argilla,
    "label-studio": _label_studio,
    "csv": _csv,
}
