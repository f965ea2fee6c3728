"""What people do with question sets: bring them, change a draft question by question, freeze a version."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from evals.errors import LabError
from evals.jsonl import in_words, jsonl_text
from evals.questions import data_sha256, register
from evals.questions.bank import normalised
from evals.questions.layouts import ImportOptions, import_rows
from evals.questions.sets import (
    EXAMPLES,
    SUFFIXES,
    TRUTHS,
    Raw,
    examples_of,
    good_rows,
    hub_rows,
    plain_rows,
    question_row,
    to_example,
)
from evals.schema import CANNOT_BE_TOLD, Example
from evals.schema.questions import FrozenQuestions, KeptQuestions, QuestionEdit, QuestionRow, RowFault
from lab.services import Services
from lab.session import new_id, plain_text
from lab.ui.text import say
from lab.visitors import Visitor

if TYPE_CHECKING:
    from lab.store.documents import Documents

MOST = 5_000
"""Questions that a page has room for."""
EVERYBODY = ""
"""Whose versions are that were frozen; a draft belongs to whoever brought it."""
FIELDS = {
    "choice": ("value", "options"),
    "number": ("value", ""),
    "set": ("values", ""),
    "term": ("accept", "others"),
    "rubric": ("items", ""),
}
"""Of each general kind: what is expected, and what else can be said; both have a field of their own on the page."""
KINDS = (*FIELDS, *(kind for kind in TRUTHS if kind not in FIELDS))
CHANGING = RLock()
"""Two changes at once are made one after the other, each of what the one before it left."""


class Typed(NamedTuple):
    """A question as it stands in the form; `more` is YAML of what has no field of its own."""

    id: str = ""
    prompt: str = ""
    kind: str = "choice"
    expected: str = ""
    choices: str = ""
    more: str = ""
    group: str = ""
    split: str = "test"
    explanation: str = ""


@dataclass(frozen=True)
class OpenSet:
    """A question set as it stands: a draft, or a frozen `version`."""

    id: str
    title: str
    rows: tuple[QuestionRow, ...]
    faults: tuple[RowFault, ...] = ()
    version: int | None = None
    sha256: str = ""
    edits: Sequence[QuestionEdit] = field(default=())
    note: str = ""
    """How a file of another layout was read."""

    @property
    def name(self) -> str:
        return self.title if self.version is None else f"{self.title} v{self.version}"

    def examples(self, split: str = "all") -> tuple[Example, ...]:
        """Return the questions of a split, or all, as models are asked them."""
        return tuple(to_example(row, self.title) for row in self.rows if split in ("all", row.split))


@dataclass(frozen=True)
class Editor:
    """One visitor with their drafts, and the versions of everybody."""

    services: Services
    visitor: Visitor | None

    @property
    def owner(self) -> str:
        """The name under which the visitor's drafts are kept; LabError for nobody."""
        if self.visitor is None:
            raise LabError(say("questions.nobody"))
        return self.services.store.hash_rater(self.visitor.rater)

    @property
    def drafts(self) -> "Documents[Any, Any]":
        return self.services.store.documents("questions")

    @property
    def frozen(self) -> "Documents[Any, Any]":
        return self.services.store.documents("question_set")

    def listed(self) -> list[tuple[str, str]]:
        """Return a line and the id of every version and of the visitor's drafts, newest first."""
        mine = self.drafts.titles(self.owner) if self.visitor else []
        found = [(say("questions.listed.draft", title=title), name) for name, title, _ in mine]
        versions = self.frozen.titles(EVERYBODY)
        return found + [(say("questions.listed.frozen", title=title, version=n), name) for name, title, n in versions]

    def open(self, name: str | None) -> OpenSet:
        """Return a draft of the visitor, or a version; LabError if there is none of that id."""
        if any(name == id for id, _, _ in self.frozen.titles(EVERYBODY)):
            return frozen_set(self.services, name or "")
        standing = self.drafts.get(name or "", self.owner)
        kept: KeptQuestions = standing.document
        rows = {row.id: row for row in kept.rows}
        for edit in standing.parts:
            if edit.row is None:
                rows.pop(edit.id, None)
            else:
                rows[edit.id] = edit.row
        mended = {edit.id for edit in standing.parts} - {row.id for row in kept.rows}
        faults = tuple(each for each in kept.faults if each.id not in mended)
        return OpenSet(kept.id, kept.title, tuple(rows.values()), faults, edits=standing.parts)

    # ---- a new draft -----------------------------------------------------------------------------

    def bring(self, file: Path) -> OpenSet:
        """Make a draft of the good rows of a file, a question set or any other layout that `assay data import` reads.

        LabError for one that cannot be read or has no good row.
        """
        try:
            raw, faults = self._rows_of_set(file)
            if len(raw) > MOST:
                raise LabError(say("questions.many", n=len(raw), most=MOST))
            if raw and not any({"prompt", "truth", "ground_truth"} & row.keys() for _, row in raw):
                return self._imported(file)
        except LabError as error:  # whoever brought it does not know where it lies here
            raise LabError(str(error).replace(str(file), file.name)) from None
        return self._draft(file.stem, file.name, raw, faults)

    def _rows_of_set(self, file: Path) -> tuple[Sequence[Raw], Sequence[RowFault]]:
        if file.suffix.lower() not in SUFFIXES:
            return [(0, {})], ()
        rows, faults, _ = plain_rows(file)
        return rows, faults

    def _imported(self, file: Path) -> OpenSet:
        """Make a draft of a file in the layout of a benchmark."""
        from lab.commands.data import benchmark

        rows, sheet = benchmark(file)
        made = import_rows(rows, file.stem, None, ImportOptions(skip_bad=True))
        told = [say("questions.layout", name=made.layout)]
        told += [say("questions.answers", column=column, way=way) for column, way in made.answers.items()]
        told += [say("questions.unread", fields=", ".join(made.unread))] * bool(made.unread)
        remedy = say("questions.mend")
        faults = [
            RowFault(line=each.line, field=each.field, problem=each.problem, remedy=remedy) for each in made.skipped
        ]
        if len(made.rows) > MOST:
            raise LabError(say("questions.many", n=len(made.rows), most=MOST))
        known = self._keep(file.stem, file.name, good_rows(list(enumerate(made.rows, 1)), ()), faults)
        return replace(known, note=" ".join(filter(None, [*told, sheet])))

    def bring_named(self, name: str) -> OpenSet:
        """Make a draft of hub:owner/name, or of a set that comes with Assay; LabError where it cannot be had."""
        called = name.strip()
        known = {file.stem: file for file in EXAMPLES.glob("*.yaml")}
        if called in known:
            return self.bring(known[called])
        called = called.removeprefix("hub:")
        id = re.split("[@:]", called)[0]
        if "/" not in id or Path(id).exists():  # a folder here is nothing that a page may read
            raise LabError(say("questions.no_name", name=called, known=", ".join(known)))
        from training.data.tables import from_hub

        raw = hub_rows(f"hub:{called}", from_hub)
        return self._draft(called.partition("/")[2], f"hub:{called}", raw, [])

    def begin(self, title: str) -> OpenSet:
        """Make an empty draft."""
        return self._keep(plain_text(title)[:80] or say("questions.untitled"), say("questions.by_hand"), ())

    def copy(self, name: str | None) -> OpenSet:
        """Make a draft of a set as it stands."""
        known = self.open(name)
        return self._keep(known.title, known.name, known.rows)

    def _draft(self, title: str, source: str, raw: Sequence[Raw], faults: Sequence[RowFault]) -> OpenSet:
        if len(raw) > MOST:
            raise LabError(say("questions.many", n=len(raw), most=MOST))
        found = examples_of(raw, title, faults)
        rows = good_rows(raw, found.faults)
        if not rows:
            first = found.faults[0]
            told = say(
                "questions.fault", line=first.line, field=first.field, problem=first.problem, remedy=first.remedy
            )
            raise LabError(say("questions.none_good", source=source, first=told))
        return self._keep(title, source, rows, found.faults)

    def _keep(self, title: str, source: str, rows: Sequence[QuestionRow], faults: Sequence[RowFault] = ()) -> OpenSet:
        known = {"id": new_id(), "made_at": self.services.now(), "session": self.owner, "title": title}
        kept = KeptQuestions.model_validate({**known, "source": source, "rows": rows, "faults": faults})
        self.drafts.add(kept)
        return self.open(kept.id)

    # ---- changes ---------------------------------------------------------------------------------

    def save(self, name: str | None, chosen: str | None, typed: Typed) -> tuple[OpenSet, str]:
        """Keep a question as it was typed in place of the `chosen` one, or as a new one; return its id too.

        LabError says which field is wrong and what to do; nothing is changed then.
        """
        with CHANGING:
            known = self.open(name)
            before = next((row for row in known.rows if row.id == chosen), None)
            others = [row for row in known.rows if row is not before]
            id = chosen if before else plain_text(typed.id) or _free_id({row.id for row in known.rows})
            row = checked(row_of(typed._replace(id=str(id)), before), others)
            edits = [each for each in known.edits if each.id != row.id]
            self._change(
                known,
                say("questions.changed" if before else "questions.added"),
                edits,
                QuestionEdit(id=row.id, row=row),
            )
            return self.open(name), row.id

    def delete(self, name: str | None, chosen: str | None) -> OpenSet:
        """Take a question out of a draft; LabError if it is not there."""
        with CHANGING:
            known = self.open(name)
            if not any(row.id == chosen for row in known.rows):
                raise LabError(say("questions.choose"))
            edits = [each for each in known.edits if each.id != chosen]
            self._change(known, say("questions.taken_out"), edits, QuestionEdit(id=str(chosen)))
            return self.open(name)

    def undo(self, name: str | None) -> tuple[OpenSet, str]:
        """Take the last change of a draft back; return what it was too."""
        action = self.drafts.undo(name or "", self.owner)
        return self.open(name), action

    def freeze(self, name: str | None) -> OpenSet:
        """Keep a draft as the next version of its title, and return it; the same questions once more are no new one.

        LabError for a draft without questions, or whose rows do not go together.
        """
        with CHANGING:
            known = self.open(name)
            if not known.rows:
                raise LabError(say("questions.empty"))
            numbered = list(enumerate((_plain(row) for row in known.rows), 1))
            if faults := examples_of(numbered, known.title).faults:
                told = [(each.id, each.field, each.problem, each.remedy) for each in faults]
                raise LabError(
                    say("questions.not_frozen", id=told[0][0], field=told[0][1], problem=": ".join(told[0][2:]))
                )
            sha256 = data_sha256(known.examples())
            versions = [(n or 0, id) for id, title, n in self.frozen.titles(EVERYBODY) if title == known.title]
            last = frozen_set(self.services, max(versions)[1]) if versions else None
            if last is not None and last.sha256 == sha256:
                return last
            number = last.version + 1 if last and last.version else 1
            made = {"id": new_id(), "made_at": self.services.now(), "session": EVERYBODY, "title": known.title}
            kept = FrozenQuestions(**made, version=number, sha256=sha256, rows=known.rows)
            self.frozen.add(kept)
            register(known.examples())
            return frozen_set(self.services, kept.id)

    def _change(self, known: OpenSet, action: str, edits: Sequence[QuestionEdit], last: QuestionEdit) -> None:
        kind = self.drafts if known.version is None else self.frozen
        kind.change(known.id, self.owner if known.version is None else EVERYBODY, action, [*edits, last])


def frozen_set(services: Services, name: str) -> OpenSet:
    """Return a version by its id; LabError if there is none."""
    kept = services.store.documents("question_set").get(name, EVERYBODY).document
    return OpenSet(kept.id, kept.title, kept.rows, version=kept.version, sha256=kept.sha256)


def as_jsonl(known: OpenSet) -> str:
    """Return a set as a file that `assay eval run --data` and every other command reads: as the same questions."""
    sources = ({"source": row.source or known.title} for row in known.rows)
    return jsonl_text(row.model_copy(update=of) for row, of in zip(known.rows, sources, strict=True))


# ---- between a row and the form ------------------------------------------------------------------


def typed_of(row: QuestionRow) -> Typed:
    """Return a question as it stands in the form."""
    truth = row.truth.model_dump(mode="json", exclude_defaults=True)
    truth.pop("kind", None)
    expected, choices = FIELDS.get(row.truth.kind, ("value", ""))
    wanted, others = truth.pop(expected, None), truth.pop(choices, None)
    if wanted in (None, []) and row.truth.kind in ("number", "set", "term"):
        wanted = CANNOT_BE_TOLD
    if isinstance(wanted, float) and wanted.is_integer():  # as it was typed
        wanted = int(wanted)
    elif row.truth.kind == "rubric" and any(len(each) > 1 for each in wanted or ()):  # weights have no field
        truth, wanted = {"items": wanted, **truth}, None
    return Typed(
        id=row.id,
        prompt=row.prompt,
        kind=row.truth.kind,
        expected=_lines(wanted),
        choices=_lines(others),
        more=yaml.safe_dump(truth, sort_keys=False, allow_unicode=True) if truth else "",
        group=row.group,
        split=row.split,
        explanation=row.explanation or "",
    )


def row_of(typed: Typed, before: QuestionRow | None) -> dict[str, Any]:
    """Return what was typed as a row of a file; what has no field stays as it was `before`."""
    try:
        more = yaml.safe_load(typed.more) or {}
    except yaml.YAMLError as error:
        raise LabError(say("questions.more", problem=str(error).splitlines()[0])) from None
    if not isinstance(more, dict):
        raise LabError(say("questions.more", problem=f"is {in_words(more)}"))
    kept = before.model_dump(mode="json", include={"subject", "tags", "source", "licence"}) if before else {}
    expected, choices = FIELDS.get(typed.kind, ("value", ""))
    wanted, truth = [each.strip() for each in typed.expected.splitlines() if each.strip()], {"kind": typed.kind, **more}
    if wanted:
        truth[expected] = wanted if expected != "value" else "\n".join(wanted)
    if choices and typed.choices.strip():
        truth[choices] = [each.strip() for each in typed.choices.splitlines() if each.strip()]
    prompt, explanation = plain_text(typed.prompt), plain_text(typed.explanation)
    row = {"id": typed.id, "prompt": prompt, "truth": truth, "group": plain_text(typed.group) or typed.id}
    return {**kept, **row, "split": typed.split, **({"explanation": explanation} if explanation else {})}


def checked(data: dict[str, Any], others: Sequence[QuestionRow]) -> QuestionRow:
    """Return a row that goes together with the `others` of its set; LabError for what is wrong first."""
    twins = [row for row in others if row.id == data["id"] or normalised(row.prompt) == normalised(data["prompt"])]
    found = examples_of(enumerate((*map(_plain, twins), data)), "")
    for told in (each for each in found.faults if each.line == len(twins)):
        problem = re.sub(r"line (\d+)", lambda line: twins[int(line[1])].id, told.problem)
        raise LabError(say("questions.bad", field=told.field, problem=problem, remedy=told.remedy))
    return question_row(data)


def _plain(row: QuestionRow) -> dict[str, Any]:
    return row.model_dump(mode="json")


def _lines(value: Any) -> str:
    found = value if isinstance(value, list) else [] if value is None else [value]
    return "\n".join(str(each.get("title", each)) if isinstance(each, dict) else str(each) for each in found)


def _free_id(taken: set[str]) -> str:
    number = len(taken) + 1
    while (name := f"question-{number}") in taken:
        number += 1
    return name
