"""Bring a database to the tables this version works with. Kept apart: it loads Alembic (0.2 s).

`lab.store.answers.is_current` says without Alembic whether there is anything to do.
"""

import secrets
from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory

from evals.errors import LabError
from lab.store.database import SettingRow, StoreTable, open_engine, revision, writing
from lab.ui.text import say

SCRIPTS = Path(__file__).parent / "migrations"


def upgrade(url: str) -> None:
    """Create or update the tables at `url`, whole or not at all.

    A new database is made from the models and marked with the newest revision; one that is there runs the migrations
    that it lacks. Raises LabError for a database at a revision that is not among them: older than the first, or newer.
    """
    engine = open_engine(url)
    try:
        with writing(engine) as session:
            connection = session.connection()
            if connection.dialect.name == "postgresql":  # SQLite has taken its write lock already
                connection.execute(sa.text("SELECT pg_advisory_xact_lock(hashtext('assay-migrations'))"))
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
