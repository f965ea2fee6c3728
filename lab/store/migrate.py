"""Bring a database to the tables this version works with. Kept apart: it loads Alembic (0.2 s).

`lab.store.answers.is_current` says without Alembic whether there is anything to do.
"""

from functools import partial
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic import command, op
from alembic.config import Config
from alembic.script import ScriptDirectory

from evals.errors import LabError
from lab.store.database import open_engine, revision, writing
from lab.ui.text import say

SCRIPTS = Path(__file__).parent / "migrations"


def upgrade(url: str, to: str = "head") -> None:
    """Create or update the tables at `url`, whole or not at all; LabError for a database of a newer version than `to`."""
    engine = open_engine(url)
    try:
        with writing(engine) as session:
            connection = session.connection()
            if connection.dialect.name == "postgresql":  # SQLite has taken its write lock already
                connection.execute(sa.text("SELECT pg_advisory_xact_lock(hashtext('assay-migrations'))"))
            stands_at = revision(connection)
            known = {script.revision for script in ScriptDirectory(str(SCRIPTS)).walk_revisions()}
            if stands_at is not None and stands_at not in known:
                where = connection.engine.url.render_as_string(hide_password=True)
                raise LabError(say("store.newer", where=where, stands_at=stands_at, known=", ".join(sorted(known))))
            config = Config()
            config.set_main_option("script_location", str(SCRIPTS).replace("%", "%%"))
            config.attributes["connection"] = connection
            command.upgrade(config, to)
    finally:
        engine.dispose()


# ---- what migrations are written with: change nothing here that a released one says ---------------

COLUMNS = {
    "text": sa.Text,
    "whole": sa.BigInteger,
    "real": sa.Float,
    "json": sa.JSON,
    "moment": partial(sa.DateTime, timezone=True),
}


def table(name: str, /, **columns: str) -> sa.Table:
    """Make a table: each column's kind, "?" behind it for one that may be empty, "key", or "table.column" it names."""

    def column(name: str, kind: str) -> sa.Column[Any]:
        if kind == "key":
            return sa.Column(name, sa.Text, primary_key=True)
        if "." in kind:
            return sa.Column(name, sa.Text, sa.ForeignKey(kind), nullable=False)
        return sa.Column(name, COLUMNS[kind.removesuffix("?")](), nullable=kind.endswith("?"))

    return op.create_table(name, *(column(*each) for each in columns.items()))


def versions(name: str, of: str, content: str, index: str) -> None:
    """Make the table of what people made of documents, a version for each change."""
    owner = f"{of.split('.')[0].removesuffix('s')}_id"
    known = {"id": "key", owner: of, "number": "whole", "made_at": "moment", "action": "text"}
    table(name, **known, **{content: "json"}, voided_at="moment?")
    op.create_index(index, name, [owner, "number"], unique=True)


def one_standing(index: str, name: str, *columns: str) -> None:
    """Let a table hold one row of these columns that was not taken back."""
    stands = sa.text("voided_at IS NULL")
    op.create_index(index, name, [*columns], unique=True, sqlite_where=stands, postgresql_where=stands)
