"""Which actions of a page were kept, so that one that is sent again is not done again."""

from alembic import op

from lab.store.migrate import table

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Add the table."""
    table("done", key="key", at="moment")
    op.create_index("done_by_time", "done", ["at"])


def downgrade() -> None:
    """Refuse: an older version would do again what was done."""
    raise NotImplementedError("a database cannot go back; open a copy that was made before the update")
