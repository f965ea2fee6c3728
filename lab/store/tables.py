"""The tables of the store, as SQLAlchemy models: answers, votes, versioned documents of any task, one setting.

A new database is made from these models. A change here needs a revision under `lab/store/migrations/versions`
for those that are there, and a new `REVISION`; a test compares the two. SQLite and PostgreSQL are both served: no type here is known to only one.
"""

from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar

from sqlalchemy import JSON, BigInteger, Boolean, DateTime, Dialect, Float, ForeignKey, Index, Text, false, text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.types import TypeDecorator

from evals.schema import Choice

REVISION = "0010"
"""The newest migration: what a database must stand at before the store works with it."""


class UtcTime(TypeDecorator[datetime]):
    """A moment, always UTC: SQLite drops the zone, so it is normalised before and put back after."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Return the moment in UTC; a time without a zone is a bug of the caller."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value!r} has no time zone; give an aware datetime (UTC)")
        return value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


Key = Annotated[str, mapped_column(Text, primary_key=True)]
Document = Annotated[Any, mapped_column(JSON)]
"""What a record dumps to; read back and checked by whoever knows the record."""
MaybeDocument = Annotated[Any, mapped_column(JSON(none_as_null=True), nullable=True)]
"""What the verifiers thought, so; None where the question is not one of ours."""
STANDS = text("voided_at IS NULL")
StoredAnswer = Annotated[str, mapped_column(Text, ForeignKey("answers.id"))]


class StoreTable(DeclarativeBase):
    """Base of all tables, with the column each Python type gets; text has no length limit."""

    type_annotation_map: ClassVar = {
        str: Text,
        int: BigInteger,
        bool: Boolean,
        float: Float,
        datetime: UtcTime,
        Choice: Text,
    }


class AnswerRow(StoreTable):
    """One stored answer; the columns are the fields of `evals.schema.Answer`."""

    __tablename__ = "answers"

    id: Mapped[Key]
    asked_at: Mapped[datetime]
    session: Mapped[str]
    question: Mapped[str]
    example_id: Mapped[str | None]
    stage: Mapped[str]
    text: Mapped[str]
    finish_reason: Mapped[str]
    chain: Mapped[str]
    stage_sha256: Mapped[str]
    system_prompt: Mapped[str]
    seed: Mapped[int]
    max_new_tokens: Mapped[int]
    temperature: Mapped[float]
    dtype: Mapped[str]
    verdict: Mapped[MaybeDocument]

    __table_args__ = (Index("answers_by_session", "session", "asked_at"),)


class ComparisonRow(StoreTable):
    """One vote; the index makes a double click one, and lets a rater vote again once it is `voided_at` (taken back)."""

    __tablename__ = "comparisons"

    id: Mapped[Key]
    voted_at: Mapped[datetime]
    rater: Mapped[str]
    question: Mapped[str]
    example_id: Mapped[str | None]
    left_answer: Mapped[StoredAnswer]
    right_answer: Mapped[StoredAnswer]
    left_stage: Mapped[str]
    right_stage: Mapped[str]
    choice: Mapped[Choice]
    voided_at: Mapped[datetime | None]
    is_anonymous: Mapped[bool] = mapped_column(server_default=false())
    strength: Mapped[str | None]
    reasons: Mapped[Document] = mapped_column(server_default="[]")
    remark: Mapped[str] = mapped_column(server_default="")

    __table_args__ = (
        Index(
            "one_vote_per_pair_and_rater",
            "left_answer",
            "right_answer",
            "rater",
            unique=True,
            sqlite_where=STANDS,
            postgresql_where=STANDS,
        ),
        Index("comparisons_by_time", "voted_at"),
    )


class DocumentRow(StoreTable):
    """What a model wrote for one task, as it came; which record `document` is: `lab.store.documents.KINDS`."""

    __tablename__ = "documents"

    id: Mapped[Key]
    task: Mapped[str]
    made_at: Mapped[datetime]
    session: Mapped[str]
    document: Mapped[Document]

    __table_args__ = (Index("documents_by_session", "session", "task", "made_at"),)


class VersionRow(StoreTable):
    """What people made of a document, after one change; `voided_at` marks a change that was taken back."""

    __tablename__ = "document_versions"

    id: Mapped[Key]
    document_id: Mapped[str] = mapped_column(ForeignKey("documents.id"))
    number: Mapped[int]
    made_at: Mapped[datetime]
    action: Mapped[str]
    content: Mapped[Document]
    voided_at: Mapped[datetime | None]

    __table_args__ = (Index("one_version_per_number", "document_id", "number", unique=True),)


class ProjectRow(StoreTable):
    """A project of answers to annotate; `document` is its `AnnotationProject`."""

    __tablename__ = "annotation_projects"

    id: Mapped[Key]
    created_at: Mapped[datetime]
    document: Mapped[Document]


class ItemRow(StoreTable):
    """An answer of a project, at its place in the queue; `document` is its `AnnotationItem`."""

    __tablename__ = "annotation_items"

    id: Mapped[Key]
    project: Mapped[str] = mapped_column(ForeignKey("annotation_projects.id"))
    place: Mapped[int]
    document: Mapped[Document]

    __table_args__ = (Index("one_place_in_a_project", "project", "place", unique=True),)


class AnnotationRow(StoreTable):
    """What a rater or adjudicator (`role`) said of an answer, after one change; `voided_at`: taken back."""

    __tablename__ = "annotations"

    id: Mapped[Key]
    item: Mapped[str] = mapped_column(ForeignKey("annotation_items.id"))
    rater: Mapped[str]
    role: Mapped[str]
    number: Mapped[int]
    made_at: Mapped[datetime]
    document: Mapped[Document]
    voided_at: Mapped[datetime | None]

    __table_args__ = (Index("one_number_per_annotation", "item", "rater", "role", "number", unique=True),)


class DeedRow(StoreTable):
    """What somebody did who may train, publish, delete or hand out work, and who tried to enter."""

    __tablename__ = "deeds"

    id: Mapped[Key]
    at: Mapped[datetime]
    who: Mapped[str]
    what: Mapped[str]
    about: Mapped[str]

    __table_args__ = (Index("deeds_by_time", "at"),)


class JobRow(StoreTable):
    """Long work; the columns are the fields of `lab.jobs.Job`, and who does it: `holder`, last heard of at `seen_at`."""

    __tablename__ = "jobs"

    id: Mapped[Key]
    kind: Mapped[str]
    title: Mapped[str]
    settings: Mapped[Document]
    who: Mapped[str]
    state: Mapped[str]
    done: Mapped[int]
    total: Mapped[int]
    line: Mapped[str]
    started_at: Mapped[datetime]
    ended_at: Mapped[datetime | None]
    result: Mapped[MaybeDocument]
    error: Mapped[str]
    holder: Mapped[str]
    seen_at: Mapped[datetime | None]
    is_stopping: Mapped[bool] = mapped_column(server_default=false())

    __table_args__ = (Index("jobs_by_time", "started_at"),)


class DoneRow(StoreTable):
    """An action of a page that was kept, by the key that the page gave it: written with what it changed, for a day."""

    __tablename__ = "done"

    key: Mapped[Key]
    at: Mapped[datetime]

    __table_args__ = (Index("done_by_time", "at"),)


class SettingRow(StoreTable):
    """A value that the store keeps: the salt that raters are hashed with."""

    __tablename__ = "settings"

    name: Mapped[Key]
    value: Mapped[str]
