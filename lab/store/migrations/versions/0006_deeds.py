"""A log of who did what."""

from alembic import op

from lab.store.migrate import table

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Add the table."""
    table("deeds", id="key", at="moment", who="text", what="text", about="text")
    op.create_index("deeds_by_time", "deeds", ["at"])


def downgrade() -> None:
    """Refuse: an older version would lose the log."""
    raise NotImplementedError("a database cannot go back; open a copy that was made before the update")
