"""What a rater does with answers: a queue to work through, ratings and notes that are kept at every change."""

import hashlib
import re
import tomllib
from collections import defaultdict
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from textwrap import shorten
from threading import RLock
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from pydantic import ValidationError

from evals.errors import LabError, first_problem
from evals.preferences.annotations import (
    bad_rating,
    disagreements,
    is_repeat,
    progress,
    queue,
    settle_annotations,
    usual_guidelines,
)
from evals.preferences.files import TAKEN
from evals.questions import is_held_out
from evals.schema import Answer, EvalReport, EvalRow
from evals.schema.votes import Annotation, AnnotationItem, AnnotationProject, Guidelines, NoteKind, State, Thumb
from lab.services import Services
from lab.session import Visitor, new_id
from lab.ui.text import say

if TYPE_CHECKING:
    from lab.store.annotations import Annotations

RATED = "answers"
"""The project of answers that are rated where they stand: in Ask and among earlier questions."""
KINDS: tuple[NoteKind, ...] = get_args(NoteKind)
DIMENSIONS = 8
"""Ratings that a page has room for."""
LOCKS: defaultdict[str, RLock] = defaultdict(RLock)
"""Leaving a field and pressing Submit come at once: each change of a rater is made of what the one before it left."""


class Opened(NamedTuple):
    """An answer with its project, and what this rater said of it so far."""

    project: AnnotationProject
    item: AnnotationItem
    said: Annotation


@dataclass(frozen=True)
class Rater:
    """One visitor at work; `is_adjudicating` writes the word that settles a disagreement."""

    services: Services
    visitor: Visitor | None
    is_adjudicating: bool = False

    @property
    def name(self) -> str:
        """The name under which the store keeps what this rater says; LabError for nobody."""
        if self.visitor is None:
            raise LabError(say("annotate.nobody"))
        return self.services.store.hash_rater(self.visitor.voter)

    @property
    def store(self) -> "Annotations":
        """Everybody's annotations."""
        return self.services.store.annotations

    # ---- what to annotate ------------------------------------------------------------------

    def open(self, name: str | None) -> Opened:
        """Return an answer of a project; LabError if it is not there."""
        if (found := self.store.open(name or "", self.name)) is None:
            raise LabError(say("annotate.gone"))
        return self.open_item(*found)

    def open_item(self, project: AnnotationProject, item: AnnotationItem, said: Sequence[Annotation]) -> Opened:
        """Return an answer with what this rater said of it, found among what everybody said."""
        mine = (item.id, self.name, self.is_adjudicating)
        known = next((each for each in said if (each.item, each.rater, each.is_adjudication) == mine), None)
        empty = Annotation(
            item=item.id,
            rater=self.name,
            state="pending",
            updated_at=self.services.now(),
            guidelines=project.guidelines.version,
            is_adjudication=self.is_adjudicating,
        )
        return Opened(project, item, known or empty)

    def queue(self, project: str) -> "Queue":
        """Return a project as it stands."""
        return Queue(self, self.store.project(project), self.store.items(project), self.store.latest(project))

    # ---- what is said ----------------------------------------------------------------------

    def annotate(self, name: str | None, state: State | None = None, read: Any = None, **said: Any) -> Opened:
        """Keep what is said of an answer, here or by `read(opened)`, and return it as it stands.

        Without a `state` it stays submitted if it was, else it is a draft; what changes nothing is not kept again.
        LabError for a rating outside the guidelines, and for submitting nothing.
        """
        with LOCKS[self.name]:
            opened = self.open(name)
            return self._change(opened, state, read(opened) if read else said)

    def _change(self, opened: Opened, state: State | None, said: Mapping[str, Any]) -> Opened:
        if misfit := bad_rating(opened.project.guidelines, said.get("ratings", {})):
            raise LabError(say("annotate.bad_rating", name=misfit[0], why=misfit[1]))
        before = opened.said
        kept = "submitted" if before.state == "submitted" else "draft"
        whole = before.model_dump() | dict(said) | {"state": state or kept}
        with explain_refusals():
            after = Annotation.model_validate(whole)
        if after.state == "submitted" and after.is_empty:
            raise LabError(say("annotate.says_nothing"))
        version = opened.project.guidelines.version
        changed = {name for name in Annotation.model_fields if getattr(after, name) != getattr(before, name)}
        if state is None and (changed <= {"state"} or (after.is_empty and before.is_empty)):
            return opened
        if not changed and before.guidelines == version:
            return opened
        after = after.model_copy(update={"updated_at": self.services.now(), "guidelines": version})
        called = self.visitor.called if self.visitor else ""
        alike = [after.model_copy(update={"item": each}) for each in self.items_of_same_text(opened.item)]
        self.store.save(alike, (self.name, called) if called else None)
        return opened._replace(said=after)

    def items_of_same_text(self, item: AnnotationItem) -> list[str]:
        """Return the answer and, in a project with a queue, the others to its question in the same words: said once, for all."""
        if item.project == RATED:
            return [item.id]
        found = self.store.items(item.project, [item.question])
        alike = (item.text, item.assigned, is_repeat(item.id))
        return [each.id for each in found if (each.text, each.assigned, is_repeat(each.id)) == alike]

    def add_note(self, name: str | None, span: str, kind: NoteKind, comment: str) -> Opened:
        """Mark a span of the answer, given as "start-end" in characters."""
        places = re.fullmatch(r"(\d+)-(\d+)", span or "")
        with LOCKS[self.name]:
            opened = self.open(name)
            if not places or int(places[2]) > len(opened.item.text):
                raise LabError(say("annotate.select_first"))
            note = {"start": int(places[1]), "end": int(places[2]), "kind": kind, "comment": comment.strip()}
            notes = [note, *(each.model_dump() for each in opened.said.notes)]
            return self.annotate(name, notes=sorted(notes, key=lambda each: (each["start"], each["end"])))

    def remove_note(self, name: str | None, place: int) -> Opened:
        """Remove a note by its place in the list."""
        with LOCKS[self.name]:
            notes = [each.model_dump() for at, each in enumerate(self.open(name).said.notes) if at != place]
            return self.annotate(name, notes=notes)

    def undo(self, name: str | None, *, is_queue: bool = False) -> Opened:
        """Take the last change back; LabError if there is none.

        In a queue, where nothing was said of this answer yet, it is the one to the answer said of last.
        """
        opened = self.open(name)
        standing = self.store.latest(opened.project.id, rater=self.name)
        said = [each.item for each in standing if each.is_adjudication == self.is_adjudicating]
        if is_queue and opened.said.state == "pending" and said:
            name = said[-1]
        item = self.open(name).item
        for each in [each for each in self.items_of_same_text(item) if each in said] or [item.id]:
            self.store.undo(each, self.name, is_adjudication=self.is_adjudicating)
        return self.open(name)

    def set_thumb(self, name: str, thumb: Thumb) -> Opened:
        """Call an answer good or bad, and submit it; the same once more takes that back."""
        with LOCKS[self.name]:
            before = self.open(name).said
            given = None if before.thumb == thumb else thumb
            is_said = given or not before.model_copy(update={"thumb": None}).is_empty
            return self.annotate(name, "submitted" if is_said else "draft", thumb=given)

    def thumbs(self) -> dict[str, Thumb | None]:
        """Return this rater's thumbs on answers that are rated where they stand, by the answers' names there."""
        said = self.store.latest(RATED, rater=self.name)
        return {each.item.removeprefix(f"{RATED}:"): each.thumb for each in said if not each.is_adjudication}

    def add_items(self, items: Sequence[AnnotationItem]) -> list[str]:
        """Make answers ready to be rated where they stand, and return their ids."""
        if not any(project.id == RATED for project in self.store.projects()):
            now = self.services.now()
            self.store.keep_project(
                AnnotationProject(
                    id=RATED,
                    title=say("annotate.rated"),
                    created_at=now,
                    guidelines=usual_guidelines(),
                    raters_per_item=1,
                )
            )
        mine = {"assigned": (self.name,)}  # nobody else is asked to rate what somebody asked for themselves
        self.store.add_items([item.model_copy(update=mine) for item in items])
        return [item.id for item in items]


@dataclass(frozen=True)
class Queue:
    """A project with its answers and all that was said of them, as one rater finds it: loaded once."""

    rater: Rater
    project: AnnotationProject
    items: Sequence[AnnotationItem]
    said: Sequence[Annotation]

    @cached_property
    def waiting(self) -> list[AnnotationItem]:
        """What this rater has still to do: of an adjudicator, what raters disagree about."""
        rater, items, said = self.rater, self.items, self.said
        if not rater.is_adjudicating:
            return queue(self.project, items, said, rater.name, rater.services.now())
        dropped = {each.item for each in said if each.is_adjudication and each.state == "discarded"}
        open_ = (each for each in settle_annotations(items, said) if each.item.id not in dropped)
        return [each.item for each in open_ if disagreements(self.project, each)]

    def next(self, skipped: Sequence[str] = ()) -> Opened | None:
        """Return the next answer; those that were skipped come last."""
        place = {name: at for at, name in enumerate(skipped, 1)}
        first = min(self.waiting, key=lambda item: place.get(item.id, 0), default=None)
        return self.rater.open_item(self.project, first, self.said) if first else None

    def choices(self) -> list[tuple[str, str]]:
        """Return a line and the id of each answer that this rater may rate, with what became of it so far."""
        me, role = self.rater.name, self.rater.is_adjudicating
        mine = {each.item: each.state for each in self.said if (each.rater, each.is_adjudication) == (me, role)}
        lines = []
        for at, each in enumerate(self.items, 1):
            state = say(f"annotate.state.{mine.get(each.id, 'pending')}")
            if role or not each.assigned or me in each.assigned:
                lines.append((f"{at}. {state}: {shorten(each.question, 90)}", each.id))
        return lines

    def progress(self) -> tuple[float, str]:
        """Return how far the project is, from 0 to 1, and in one line, with how much waits for this rater."""
        done = progress(self.project, self.items, self.said)
        share = min(1.0, done.submitted / done.wanted) if done.wanted else 0.0
        text = say("annotate.progress", waiting=len(self.waiting), **done._asdict())
        held = sum(is_held_out(each.question, each.example_id) for each in self.items)
        return share, f"{text} {say('annotate.held_out', n=held, of=len(self.items))}" if held else text


# ---- projects -----------------------------------------------------------------------------------


def item_of_answer(answer: Answer, project: str) -> AnnotationItem:
    """Return a stored answer as an item of a project."""
    return AnnotationItem(
        id=f"{project}:{answer.id}",
        project=project,
        added_at=answer.asked_at,
        question=answer.question,
        text=answer.text,
        system_prompt=answer.system_prompt,
        example_id=answer.example_id,
        stage=answer.stage,
        chain=answer.chain,
        verdict=answer.verdict,
        source=f"answer {answer.id}",
    )


def item_of_row(report: EvalReport, row: EvalRow, project: str, name: str, now: datetime) -> AnnotationItem:
    """Return an answer of a report as an item of a project, under a name of its own there."""
    return AnnotationItem(
        id=f"{project}:{name}",
        project=project,
        added_at=now,
        question=row.example.prompt,
        text=row.completion,
        example_id=row.example.id,
        kind=row.example.kind,
        tissue=row.example.tissue,
        stage=row.stage,
        chain=report.chain_name,
        verdict=row.verdict,
        source=f"{report.data_name}, {row.stage}",
    )


def row_name(report: EvalReport, row: EvalRow) -> str:
    """Return the name under which a row of a report is rated: another answer in its place has another one."""
    text = hashlib.sha256(row.completion.encode()).hexdigest()[:8]
    return "|".join((report.data_name, row.stage, row.example.id, text))


def items_of_report(
    report: EvalReport, project: AnnotationProject, stages: Sequence[str], n: int
) -> list[AnnotationItem]:
    """Return the answers of some stages to `n` questions of a report; order and choice are the same every time."""

    def place(text: str) -> str:
        return hashlib.sha256(f"{project.id} {text}".encode()).hexdigest()

    rows = [row for row in report.rows if row.stage in stages]
    wanted = sorted({row.example.id for row in rows}, key=place)[:n]
    items = [
        item_of_row(report, row, project.id, place(f"{row.stage} {row.example.id}")[:16], project.created_at)
        for row in rows
        if row.example.id in wanted
    ]
    return sorted(items, key=lambda item: item.id)


def new_project(services: Services, title: str, raters: float | None, guidelines: Guidelines) -> AnnotationProject:
    """Return a project; LabError without a title, and for a number of raters out of range."""
    if not title.strip():
        raise LabError(say("annotate.no_title"))
    with explain_refusals():
        return AnnotationProject(
            id=new_id()[:12],
            title=title.strip(),
            created_at=services.now(),
            guidelines=guidelines,
            raters_per_item=read_count("annotate.new.raters", raters),
        )


@contextmanager
def explain_refusals() -> Generator[None]:
    """Turn what a record refuses into a LabError with its first sentence."""
    try:
        yield
    except ValidationError as error:
        raise LabError(first_problem(error)[1]) from error


def read_count(label: str, value: float | None) -> int:
    """Return a number from 1 on that was typed into the field of this label; an empty one gives None."""
    if value is None or value < 1:
        raise LabError(say("annotate.no_number", field=say(label)))
    return int(value)


def parse_guidelines(text: str) -> Guidelines:
    """Return the guidelines that a rubric in TOML holds; LabError for a text that is none."""
    try:
        with explain_refusals():
            made = Guidelines.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise LabError(say("annotate.bad_rubric", why=error)) from None
    if taken := next((each for each in made.dimensions if each.name in TAKEN), None):
        raise LabError(say("annotate.taken_dimension", title=taken.title))
    if len(made.dimensions) > DIMENSIONS:
        raise LabError(say("annotate.many_dimensions", n=len(made.dimensions), most=DIMENSIONS))
    return made
