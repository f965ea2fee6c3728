"""The connection to the store's database: how it is opened, and what its failures mean.

SQLite runs in WAL mode, so that readers never wait for a writer; a write takes its lock at the
start and waits for its turn; every commit reaches the disk. PostgreSQL needs none of this.
"""

import logging
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, delete, event, exc, inspect, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.orm import Session

from evals.errors import BadConfig, LabError
from lab.store import ACTION
from lab.store.tables import DoneRow
from lab.ui.text import say

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
    with explained(engine), Session(engine) as session, session.begin():
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
def explained(engine: Engine) -> Generator[None]:
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
