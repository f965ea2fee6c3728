"""What people say of answers: projects with their guidelines, the answers to annotate, and each person's annotation.

Every record is one JSON object; offsets of notes are characters of the answer as it was written, end exclusive.
"""

from datetime import datetime
from typing import Literal

from pydantic import Field, model_validator

from evals.schema.questions import Message, Verdict, turns
from evals.schema.record import Record

State = Literal["pending", "draft", "submitted", "discarded"]
"""pending = nothing kept yet; draft = kept, not final; discarded = looked at, and not to be annotated."""
NoteKind = Literal["wrong_fact", "unsupported", "contradicts", "good"]
Thumb = Literal["up", "down"]
VerdictLabel = Literal["correct", "incorrect", "contradictory", "no_claim"]


class Dimension(Record):
    """One thing that an answer is rated for, from `low` to `high`; `guideline` says what the ends mean."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    title: str = Field(min_length=1)
    guideline: str = ""
    low: int = 1
    high: int = 5

    @model_validator(mode="after")
    def _has_steps(self) -> "Dimension":
        if not self.low < self.high <= self.low + 10:
            raise ValueError(f"{self.name} goes from {self.low} to {self.high}; give a range of 2 to 11 steps")
        return self


class Guidelines(Record):
    """What raters are asked. A change of the text or the reasons is a new `version`, counted from 1; dimensions stay."""

    version: int = Field(default=1, ge=1)
    text: str = ""
    dimensions: tuple[Dimension, ...] = ()
    reasons: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _is_named_once(self) -> "Guidelines":
        names = [each.name for each in self.dimensions]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice:
            raise ValueError(f"the dimension {twice!r} stands twice; each has a name of its own")
        return self


class AnnotationProject(Record):
    """Answers that people annotate, each by `raters_per_item` of them."""

    id: str
    title: str = Field(min_length=1)
    created_at: datetime
    guidelines: Guidelines
    raters_per_item: int = Field(default=1, ge=1, le=20)


class AnnotationItem(Record):
    """One answer to annotate. `assigned`: the one rater who is asked, of an answer rated where it stands; else anyone.

    `source` says where the answer comes from: a stored answer, or a row of a report.
    """

    id: str
    project: str
    added_at: datetime
    question: str
    text: str
    system_prompt: str = ""
    example_id: str | None = None
    kind: str | None = None
    tissue: str | None = None
    stage: str
    chain: str
    verdict: Verdict | None = None
    source: str = ""
    assigned: tuple[str, ...] = ()

    @property
    def prompt(self) -> tuple[Message, ...]:
        """The turns that led to the answer."""
        return turns(self.system_prompt, self.question)


class Note(Record):
    """A remark on a span of the answer."""

    start: int = Field(ge=0)
    end: int = Field(ge=1)
    kind: NoteKind
    comment: str = ""

    @model_validator(mode="after")
    def _is_span(self) -> "Note":
        if self.end <= self.start:
            raise ValueError(f"a note from {self.start} to {self.end} marks nothing; select some text")
        return self


class Annotation(Record):
    """What one person says of one answer, as it stands. Everything but who, what and when may be left out.

    `ratings` are by dimension. `verdict` is a person's own word on whether the answer is right, where they
    contradict or confirm the verifiers. `guidelines` is the version that was shown. `is_adjudication`: the word that
    settles a disagreement; it counts in exports in place of the others.
    """

    item: str
    rater: str
    state: State
    updated_at: datetime
    ratings: dict[str, int] = Field(default_factory=dict)
    thumb: Thumb | None = None
    verdict: VerdictLabel | None = None
    reasons: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()
    corrected: str | None = None
    comment: str = ""
    guidelines: int = Field(default=1, ge=1)
    is_adjudication: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether it says nothing yet."""
        said = (self.ratings, self.thumb, self.verdict, self.reasons, self.notes, self.corrected, self.comment)
        return not any(said)
