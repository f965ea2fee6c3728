"""Long work, which outlives the process that does it."""

import sqlalchemy as sa
from alembic import op

from lab.store.migrate import table

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Add the table."""
    what = {"kind": "text", "title": "text", "settings": "json", "who": "text", "state": "text"}
    far = {"done": "whole", "total": "whole", "line": "text", "started_at": "moment", "ended_at": "moment?"}
    table("jobs", id="key", **what, **far, result="json?", error="text", holder="text", seen_at="moment?")
    op.add_column("jobs", sa.Column("is_stopping", sa.Boolean, nullable=False, server_default=sa.false()))
    op.create_index("jobs_by_time", "jobs", ["started_at"])


def downgrade() -> None:
    """Refuse: an older version would lose work that is under way."""
    raise NotImplementedError("a database cannot go back; open a copy that was made before the update")
