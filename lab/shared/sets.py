"""Question sets of the page: drafts read from files, and frozen versions."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import TYPE_CHECKING, Any

from evals.errors import LabError
from evals.io import jsonl_text, write_whole
from evals.questions import data_sha256, register
from evals.questions.layouts import COLUMNS, ImportOptions, guess_columns, import_rows, question_rows, split_groups
from evals.questions.sets import EXAMPLES, Raw, examples_of, good_rows, hub_rows, right_answer, to_example
from evals.schema import CANNOT_BE_TOLD, Example, OwnTruth
from evals.schema.questions import BroughtRows, BroughtSheet, FrozenQuestions, KeptQuestions, QuestionRow, RowFault
from evals.tables import sheet_names
from lab.services import Services
from lab.session import Visitor, new_id
from lab.ui.text import say

if TYPE_CHECKING:
    from lab.store.documents import Documents

MOST, MOST_SHEETS = 5_000, 12
"""Questions that a page has room for, and sheets of a file that one may choose among."""
EVERYBODY = ""
"""Whose versions are that were frozen; a draft belongs to whoever brought it."""
NATIVE, OF_TRUTH = {"truth", "ground_truth"}, {"kind", "value"}
"""Columns of a question set, alone or beside `prompt`; other tables are imported."""
FREEZING = Lock()
"""Two versions that are frozen at once get two numbers."""


@dataclass(frozen=True)
class OpenSet:
    """A question set as it stands: a draft, or a frozen `version`."""

    id: str
    title: str
    rows: tuple[QuestionRow, ...]
    faults: tuple[RowFault, ...] = ()
    version: int | None = None
    sha256: str = ""
    note: str = ""
    """How the file was read."""
    brought: BroughtRows | None = None
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Which columns of the file were read as what."""

    @property
    def name(self) -> str:
        return self.title if self.version is None else f"{self.title} v{self.version}"

    def examples(self, split: str = "all") -> tuple[Example, ...]:
        """Return the questions of a split, or all, as models are asked them."""
        return tuple(to_example(row, self.title) for row in self.rows if split in ("all", row.split))


@dataclass(frozen=True)
class QuestionSets:
    """One visitor's drafts, and the frozen versions of everybody."""

    services: Services
    visitor: Visitor | None

    @property
    def owner(self) -> str:
        """The name under which the visitor's drafts are kept; LabError for nobody."""
        if self.visitor is None:
            raise LabError(say("questions.nobody"))
        return self.services.store.hash_rater(self.visitor.rater)

    @property
    def drafts(self) -> "Documents[Any]":
        return self.services.store.documents("questions")

    @property
    def frozen(self) -> "Documents[Any]":
        return self.services.store.documents("question_set")

    def choices(self) -> list[tuple[str, str]]:
        """Return a line and the id of every version and of the visitor's drafts, newest first, without drafts that are a version."""
        mine, versions = self.drafts.titles(self.owner) if self.visitor else [], self.frozen.titles(EVERYBODY)
        known = {(title, version) for _, title, version in versions}
        drafts = [(name, title) for name, title, version in mine if (title, version) not in known]
        found = [(say("questions.listed.draft", title=title), name) for name, title in drafts]
        return found + [(say("questions.listed.frozen", title=title, version=n), name) for name, title, n in versions]

    def open(self, name: str | None) -> OpenSet:
        """Return a draft of the visitor, or a version; LabError if there is none of that id."""
        if any(name == id for id, _, _ in self.frozen.titles(EVERYBODY)):
            return frozen_set(self.services, name or "")
        kept: KeptQuestions = self.drafts.get(name or "", self.owner).document
        return OpenSet(
            kept.id, kept.title, kept.rows, kept.faults, note=kept.note, brought=kept.brought, columns=kept.columns
        )

    def bring(self, file: Path) -> OpenSet:
        """Make a draft of a file: a question set, or any table or layout that `assay data import` reads.

        Bad rows stay out until they are mended. LabError for a file that cannot be read, or from which no row is one.
        """
        sheets, refused = {}, []
        for name in (sheet_names(file) or [None])[:MOST_SHEETS]:
            try:
                rows, faults, note = question_rows(file, sheet=name)
                sheets[name or ""] = BroughtSheet(rows=tuple(rows), faults=tuple(faults), note=note)
            except LabError as error:  # whoever brought it does not know where it lies here
                refused.append(LabError(str(error).replace(str(file), file.name)))
        if not sheets:
            raise refused[0]
        first, read = next(iter(sheets.items()))
        kept = sheets if len(sheets) > 1 else {}
        return self._keep(file.stem, file.name, BroughtRows(sheet=first, sheets=kept, **dict(read)))

    def paste(self, text: str) -> OpenSet:
        """Make a draft of cells that were copied from a spreadsheet, the first row of which names the columns."""
        with TemporaryDirectory() as folder:
            file = Path(folder) / f"{say('questions.pasted')}.tsv"
            write_whole(file, text)
            return self.bring(file)

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

        rows = tuple(hub_rows(f"hub:{called}", from_hub))
        return self._keep(called.partition("/")[2], f"hub:{called}", BroughtRows(rows=rows))

    def _keep(self, title: str, source: str, brought: BroughtRows) -> OpenSet:
        if len(brought.rows) > MOST:
            raise LabError(say("questions.many", n=len(brought.rows), most=MOST))
        known = {"id": new_id(), "made_at": self.services.now(), "session": self.owner, "title": title}
        kept = KeptQuestions.model_validate({**known, "source": source, **_read(brought, title, source)})
        self.drafts.add(kept)
        return self.open(kept.id)

    def _change(self, name: str | None, **changes: Any) -> OpenSet:
        """Keep a draft of the visitor with changes."""
        kept: KeptQuestions = self.drafts.get(name or "", self.owner).document
        self.drafts.turn(KeptQuestions.model_validate({**dict(kept), "version": None, **changes}), "questions")
        return self.open(kept.id)

    def read_again(self, name: str | None, **changes: Any) -> OpenSet:
        """Read the rows of a draft's file again, with other columns or mended."""
        kept: KeptQuestions = self.drafts.get(name or "", self.owner).document
        if kept.brought is None:
            raise LabError(say("questions.no_file"))
        brought = BroughtRows.model_validate({**dict(kept.brought), **changes})
        return self._change(name, **_read(brought, kept.title, kept.source))

    def choose_sheet(self, name: str | None, sheet: str) -> OpenSet:
        """Read another sheet of a draft's file; the one that it was read from stays as it was corrected."""
        kept: KeptQuestions = self.drafts.get(name or "", self.owner).document
        if kept.brought is None or sheet not in kept.brought.sheets:
            raise LabError(say("questions.no_file"))
        if sheet == kept.brought.sheet:
            return self.open(name)
        return self.read_again(name, sheet=sheet, columns={}, answers_from=None, **dict(kept.brought.sheets[sheet]))

    def offer_cannot_tell(self, name: str | None, offered: bool) -> OpenSet:
        """Say whether some questions of a draft cannot be answered, so that "cannot be told" is an option."""
        kept: KeptQuestions = self.drafts.get(name or "", self.owner).document
        brought = kept.brought and kept.brought.model_copy(update={"cannot_tell": offered})
        return self._change(name, rows=_switched(kept.rows, offered), brought=brought)

    def name_by_place(self, name: str | None) -> OpenSet:
        """Read the file of a draft again as one whose first row is a question and names no columns."""
        kept: KeptQuestions = self.drafts.get(name or "", self.owner).document
        rows = kept.brought.rows if kept.brought else ()
        places = {each: say("questions.place", n=n) for n, each in enumerate(column_names(rows), 1)}
        first = (rows[0][0] - 1, {place: each for each, place in places.items()}) if rows else (0, {})
        named = [(line, {places[each]: value for each, value in row.items()}) for line, row in rows]
        return self.read_again(name, rows=(first, *named), columns={})

    def mend(self, name: str | None, lines: Collection[int]) -> OpenSet:
        """Take what was suggested for the bad rows of these lines."""
        kept: KeptQuestions = self.drafts.get(name or "", self.owner).document
        rows = dict(kept.brought.rows) if kept.brought else {}
        for fault in kept.faults:
            if fault.suggestion is not None and fault.line in lines and fault.line in rows:
                field = fault.field.removeprefix("truth.")
                column = field if field in rows[fault.line] else next(iter(kept.columns.get(field, ())), field)
                rows[fault.line] = {**rows[fault.line], column: fault.suggestion}
        return self.read_again(name, rows=tuple(rows.items()))

    def rename(self, name: str | None, title: str) -> OpenSet:
        """Give a draft another title."""
        if not title.strip():
            raise LabError(say("questions.no_title"))
        return self._change(name, title=title.strip())

    def duplicate(self, name: str | None) -> OpenSet:
        """Make a draft of a set, a frozen version or another draft."""
        known = self.open(name)
        kept = KeptQuestions(
            id=new_id(),
            made_at=self.services.now(),
            session=self.owner,
            title=say("questions.copy", title=known.title),
            source=known.name,
            rows=known.rows,
            faults=known.faults,
            brought=known.brought,
            note=known.note,
            columns={role: tuple(each) for role, each in known.columns.items()},
        )
        self.drafts.add(kept)
        return self.open(kept.id)

    def split(self, name: str | None) -> OpenSet:
        """Give the questions of a draft to train, dev and test, 70, 10 and 20 % by group."""
        known = self.open(name)
        of = split_groups(known.rows)
        return self._change(name, rows=tuple(row.model_copy(update={"split": of[row.group]}) for row in known.rows))

    def delete(self, name: str | None, *, is_draft: bool) -> str:
        """Delete a draft of the visitor, or a version, and return what it was called; LabError if there is none."""
        called = self.open(name).name
        (self.drafts if is_draft else self.frozen).delete(name or "", self.owner if is_draft else EVERYBODY)
        return called

    def freeze(self, name: str | None) -> OpenSet:
        """Keep a draft as the next version of its title, and return it; the same questions once more are no new one.

        LabError for a draft whose rows do not go together.
        """
        with FREEZING:
            known = self.open(name)
            if not known.rows:
                raise LabError(say("questions.empty"))
            numbered = list(enumerate((row.model_dump(mode="json") for row in known.rows), 1))
            if faults := examples_of(numbered, known.title).faults:
                first = faults[0]
                problem = f"{first.problem}: {first.remedy}"
                raise LabError(say("questions.not_frozen", id=first.id, field=first.field, problem=problem))
            sha256 = data_sha256(known.examples())
            versions = [(n or 0, id) for id, title, n in self.frozen.titles(EVERYBODY) if title == known.title]
            last = frozen_set(self.services, max(versions)[1]) if versions else None
            is_same = last is not None and last.sha256 == sha256
            number = (last.version or 0) + (not is_same) if last else 1
            if known.version is None:
                self._change(name, version=number)
            if last is not None and is_same:
                return last
            made = {"id": new_id(), "made_at": self.services.now(), "session": EVERYBODY, "title": known.title}
            kept = FrozenQuestions(**made, version=number, sha256=sha256, rows=known.rows)
            self.frozen.add(kept)
            register(known.examples())
            return frozen_set(self.services, kept.id)


def _read(brought: BroughtRows, title: str, source: str) -> dict[str, Any]:
    """Return what a draft keeps of the rows of a file: its good rows, what is wrong with the others, how it was read.

    A table that cannot be read as it stands is a draft without rows, whose note says why: its columns can be chosen.
    LabError for any other file without a good row.
    """
    rows: Sequence[QuestionRow] = ()
    faults, columns, told = brought.faults, dict(brought.columns), [brought.note]
    is_set = is_question_set(brought.rows)
    if is_set:
        found = examples_of(brought.rows, title, faults)
        rows, faults = good_rows(brought.rows, found.faults), found.faults
    else:
        options = ImportOptions(None, None, None, None, True, brought.answers_from, brought.columns)
        try:
            made = import_rows(brought.rows, title, None, options, faults)
        except LabError as error:
            if not is_table(brought.rows):
                raise
            told.append(f"{getattr(error, 'problem', error)}. {say('questions.choose')}")
            columns = columns or guess_columns(column_names(brought.rows))
        else:
            rows, faults, columns = good_rows(list(enumerate(made.rows)), ()), made.skipped, made.columns
            told += [say("questions.layout", name=made.layout)] * (made.layout != COLUMNS)
            told += [say("questions.answers", column=column, way=way) for column, way in made.answers.items()]
            told += [say("questions.unread", fields=", ".join(made.unread))] * bool(made.unread)
    if not rows and (is_set or not is_table(brought.rows)):
        raise LabError(say("questions.none_good", source=source, first=_told(faults[0])))
    kept = {"rows": _switched(rows, brought.cannot_tell), "faults": tuple(faults), "columns": columns}
    return {**kept, "brought": brought, "note": " ".join(filter(None, told))}


def is_question_set(rows: Sequence[Raw]) -> bool:
    """Return whether rows have the fields of a question set; others are imported."""
    return any(NATIVE & row.keys() or ("prompt" in row and OF_TRUTH & row.keys()) for _, row in rows)


def column_names(rows: Sequence[Raw]) -> list[str]:
    """Return the names of the columns in which something stands."""
    return list(dict.fromkeys(name for _, row in rows for name in row))


def is_table(rows: Sequence[Raw]) -> bool:
    """Return whether rows are those of a table, whose cells are texts."""
    return all(isinstance(value, str) for _, row in rows for value in row.values())


def _told(fault: RowFault) -> str:
    return say("questions.fault", line=fault.line, field=fault.field, problem=fault.problem, remedy=fault.remedy)


def _switched(rows: Sequence[QuestionRow], cannot_tell: bool | None) -> tuple[QuestionRow, ...]:
    """Return rows that offer "cannot be told", or do not; None leaves them. A set that has it as an answer offers it."""
    if cannot_tell is None:
        return tuple(rows)
    answerable = not cannot_tell and not any(right_answer(row.truth) == CANNOT_BE_TOLD for row in rows)
    return tuple(
        row.model_copy(update={"truth": row.truth.model_copy(update={"answerable": answerable})})
        if isinstance(row.truth, OwnTruth)
        else row
        for row in rows
    )


def frozen_set(services: Services, name: str) -> OpenSet:
    """Return a version by its id; LabError if there is none."""
    kept = services.store.documents("question_set").get(name, EVERYBODY).document
    return OpenSet(kept.id, kept.title, kept.rows, version=kept.version, sha256=kept.sha256)


def as_jsonl(known: OpenSet) -> str:
    """Return a set as a file that `assay eval run --data` and every other command reads: as the same questions."""
    sources = ({"source": row.source or known.title} for row in known.rows)
    return jsonl_text(row.model_copy(update=of) for row, of in zip(known.rows, sources, strict=True))
