"""Bring a database to the tables this version works with. Kept apart: it loads Alembic (0.2 s).

`lab.store.answers.is_current` says without Alembic whether there is anything to do.
"""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from evals.errors import LabError
from lab.store.database import open_engine, revision, writing

SCRIPTS = Path(__file__).parent / "migrations"


def upgrade(url: str) -> None:
    """Create or update the tables at `url`: all of it or nothing, one process at a time.

    Raises LabError for a database made by a newer version, and as `lab.store.database` does.
    """
    engine = open_engine(url)
    try:
        with writing(engine) as session:
            connection = session.connection()
            _wait_for_turn(connection)
            _refuse_newer(connection)
            config = Config()
            config.set_main_option("script_location", str(SCRIPTS).replace("%", "%%"))
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
    finally:
        engine.dispose()


def _wait_for_turn(connection: Connection) -> None:
    # SQLite has taken its write lock already; PostgreSQL gets one that ends with the transaction.
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(hashtext('assay-migrations'))"))


def _refuse_newer(connection: Connection) -> None:
    stands_at = revision(connection)
    known = {script.revision for script in ScriptDirectory(str(SCRIPTS)).walk_revisions()}
    if stands_at is not None and stands_at not in known:
        where = connection.engine.url.render_as_string(hide_password=True)
        raise LabError(
            f"the store at {where} was made by a newer version (revision {stands_at!r}; this one "
            f"knows {', '.join(sorted(known))}). Update Assay, or name another database."
        )
