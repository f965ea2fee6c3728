"""Question sets of the page: drafts read from files, and frozen versions. Rows are edited in the file."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from evals.errors import LabError
from evals.io import jsonl_text
from evals.questions import data_sha256, register
from evals.questions.layouts import ImportOptions, benchmark_rows, import_rows
from evals.questions.sets import EXAMPLES, SUFFIXES, Raw, examples_of, good_rows, hub_rows, plain_rows, to_example
from evals.schema import Example
from evals.schema.questions import FrozenQuestions, KeptQuestions, QuestionRow, RowFault
from lab.services import Services
from lab.session import new_id
from lab.ui.text import say
from lab.visitors import Visitor

if TYPE_CHECKING:
    from lab.store.documents import Documents

MOST = 5_000
"""Questions that a page has room for."""
EVERYBODY = ""
"""Whose versions are that were frozen; a draft belongs to whoever brought it."""
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
    """How a file of another layout was read."""

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
    def drafts(self) -> "Documents[Any, Any]":
        return self.services.store.documents("questions")

    @property
    def frozen(self) -> "Documents[Any, Any]":
        return self.services.store.documents("question_set")

    def choices(self) -> list[tuple[str, str]]:
        """Return a line and the id of every version and of the visitor's drafts, newest first."""
        mine = self.drafts.titles(self.owner) if self.visitor else []
        found = [(say("questions.listed.draft", title=title), name) for name, title, _ in mine]
        versions = self.frozen.titles(EVERYBODY)
        return found + [(say("questions.listed.frozen", title=title, version=n), name) for name, title, n in versions]

    def open(self, name: str | None) -> OpenSet:
        """Return a draft of the visitor, or a version; LabError if there is none of that id."""
        if any(name == id for id, _, _ in self.frozen.titles(EVERYBODY)):
            return frozen_set(self.services, name or "")
        kept: KeptQuestions = self.drafts.get(name or "", self.owner).document
        return OpenSet(kept.id, kept.title, kept.rows, kept.faults)

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
        rows, sheet = benchmark_rows(file)
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

    def freeze(self, name: str | None) -> OpenSet:
        """Keep a draft as the next version of its title, and return it; the same questions once more are no new one.

        LabError for a draft whose rows do not go together.
        """
        with FREEZING:
            known = self.open(name)
            numbered = list(enumerate((row.model_dump(mode="json") for row in known.rows), 1))
            if faults := examples_of(numbered, known.title).faults:
                first = faults[0]
                problem = f"{first.problem}: {first.remedy}"
                raise LabError(say("questions.not_frozen", id=first.id, field=first.field, problem=problem))
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


def frozen_set(services: Services, name: str) -> OpenSet:
    """Return a version by its id; LabError if there is none."""
    kept = services.store.documents("question_set").get(name, EVERYBODY).document
    return OpenSet(kept.id, kept.title, kept.rows, version=kept.version, sha256=kept.sha256)


def as_jsonl(known: OpenSet) -> str:
    """Return a set as a file that `assay eval run --data` and every other command reads: as the same questions."""
    sources = ({"source": row.source or known.title} for row in known.rows)
    return jsonl_text(row.model_copy(update=of) for row, of in zip(known.rows, sources, strict=True))
