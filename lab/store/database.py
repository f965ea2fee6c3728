"""The store's database: its tables, how it is opened, and what its failures mean.

SQLite runs in WAL mode, so that readers never wait for a writer; a write takes its lock at the
start and waits for its turn; every commit reaches the disk. PostgreSQL needs none of this.
"""

import logging
import secrets
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, ClassVar

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Connection,
    DateTime,
    Dialect,
    Engine,
    Float,
    ForeignKey,
    Index,
    Text,
    create_engine,
    delete,
    event,
    exc,
    false,
    inspect,
    text,
)
from sqlalchemy.engine import URL, make_url
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
from sqlalchemy.types import TypeDecorator

from evals.errors import BadConfig, LabError
from evals.schema import Choice
from lab.store import ACTION
from lab.ui.text import say

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
    """A value that the store keeps: the salt that raters are hashed with, and the names that they gave."""

    __tablename__ = "settings"

    name: Mapped[Key]
    value: Mapped[str]


BUSY_TIMEOUT_SECONDS = 15.0
"""How long a write waits for another process before it gives up with a message."""

KEY_DAYS = 1
log = logging.getLogger(__name__)

ACCEPTED = "sqlite:////folder/assay.db or postgresql://user:password@host/name"


def open_engine(url: str, busy_timeout_seconds: float = BUSY_TIMEOUT_SECONDS) -> Engine:
    """Return an engine for `url`, a SQLite file's folder made; BadConfig for a URL that cannot keep rows."""
    address = _address(url)
    if address.get_backend_name() == "postgresql":
        try:
            return create_engine(address, pool_pre_ping=True)
        except (exc.NoSuchModuleError, ModuleNotFoundError) as error:
            raise BadConfig(say("store.no_driver", driver=address.drivername, error=error)) from error
    if not str(address.database).startswith("file:"):  # SQLite's own URI form, whose path only SQLite can read
        folder = Path(str(address.database)).parent
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LabError(say("store.no_folder", folder=folder, why=error.strerror)) from error
    engine = create_engine(address, connect_args={"timeout": busy_timeout_seconds})
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def revision(connection: Connection) -> str | None:
    """Return the migration the database stands at, None for a database without our tables."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    stands_at = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return None if stands_at is None else str(stands_at)


@contextmanager
def reading(engine: Engine) -> Generator[Session]:
    """Give a session on one consistent state; failures become a LabError with a remedy."""
    with explain_errors(engine), Session(engine) as session, session.begin():
        yield session


@contextmanager
def writing(engine: Engine, *, is_preparing: bool = False) -> Generator[Session]:
    """Give a session whose work is kept whole or not at all; failures as in `reading`, but IntegrityError passes.

    The first that is kept of a page's action carries its key; what only prepares one, and may be done twice, does not.
    """
    keys = [] if is_preparing else ACTION.get([])
    with reading(engine.execution_options(assay_writes=True)) as session:
        yield session
        now = datetime.now(UTC)
        session.add_all(DoneRow(key=key, at=now) for key in keys)
        if keys:
            session.execute(delete(DoneRow).where(DoneRow.at < now - timedelta(days=KEY_DAYS)))
    keys.clear()


@contextmanager
def explain_errors(engine: Engine) -> Generator[None]:
    """Turn what the database reports into a LabError that says what to do; bugs pass unchanged."""
    try:
        yield
    except exc.IntegrityError:
        raise
    except (exc.DBAPIError, exc.TimeoutError) as error:
        problem = str(getattr(error, "orig", None) or error)
        where = engine.url.render_as_string(hide_password=True)
        sign = next((sign for sign in SIGNS if sign in problem), "else")
        remedy = say(f"store.failed.{sign}", accepted=ACCEPTED)
        whole = say("store.failed", where=where, problem=problem.strip(), remedy=remedy)
        if ACTION.get(None) is None:
            raise LabError(whole) from error
        log.error(whole)  # where it lies is nothing for visitors
        raise LabError(say("store.failed.visitor", remedy=remedy)) from error


SIGNS = ("locked", "not a database", "malformed", "readonly", "unable to open", "full", "No space left", "disk I/O")
"""What a database says that a line of lab/ui/text knows a remedy for."""


def _address(url: str) -> URL:
    try:
        address = make_url(url)
    except exc.ArgumentError:
        # The text is not repeated: it may hold a password.
        raise BadConfig(say("store.unreadable_url", accepted=ACCEPTED)) from None
    if address.get_backend_name() not in {"sqlite", "postgresql"}:
        raise BadConfig(say("store.unknown", name=address.get_backend_name(), accepted=ACCEPTED))
    if address.get_backend_name() == "sqlite" and address.database in {None, "", ":memory:"}:
        raise BadConfig(say("store.in_memory", url=url, accepted=ACCEPTED))
    return address


def _prepare_sqlite(connection: Any, _record: object) -> None:
    # isolation_level None: Python's sqlite3 would else begin by itself, and too late to take the lock.
    connection.isolation_level = None
    try:
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}")
    except Exception:
        connection.close()  # SQLAlchemy forgets it
        raise


def _begin_sqlite(connection: Connection) -> None:
    # A transaction that reads first and writes later is refused at once when another one wrote in
    # between, however long the timeout; taking the write lock at the start makes it wait instead.
    writes = connection.get_execution_options().get("assay_writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


# ---- tables brought up to date -------------------------------------------------------------------


SCRIPTS = Path(__file__).parent / "migrations"


def upgrade(url: str) -> None:
    """Create or update the tables at `url`, whole or not at all.

    A new database is made from the models and marked with the newest revision; one that is there runs the migrations
    that it lacks. Raises LabError for a database at a revision that is not among them: older than the first, or newer.
    """
    from alembic import command  # late: 0.2 s, and only an old or a new database needs it
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    engine = open_engine(url)
    try:
        with writing(engine) as session:
            connection = session.connection()
            if connection.dialect.name == "postgresql":  # SQLite has taken its write lock already
                connection.execute(text("SELECT pg_advisory_xact_lock(hashtext('assay-migrations'))"))
            config = Config()
            config.set_main_option("script_location", str(SCRIPTS).replace("%", "%%"))
            config.attributes["connection"] = connection
            stands_at = revision(connection)
            known = sorted(script.revision for script in ScriptDirectory(str(SCRIPTS)).walk_revisions())
            if stands_at is None:
                StoreTable.metadata.create_all(connection, checkfirst=False)
                session.add(SettingRow(name="rater_salt", value=secrets.token_hex(32)))
                session.flush()
                command.stamp(config, "head")
            elif stands_at in known:
                command.upgrade(config, "head")
            else:
                where = connection.engine.url.render_as_string(hide_password=True)
                age = "older" if stands_at < known[0] else "newer"
                raise LabError(say(f"store.{age}", where=where, stands_at=stands_at, known=", ".join(known)))
    finally:
        engine.dispose()
