"""How much better an answer is, and why: said of a vote after it was cast."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Add the columns; of votes so far nothing was said."""
    op.add_column("comparisons", sa.Column("strength", sa.Text, nullable=True))
    op.add_column("comparisons", sa.Column("reasons", sa.JSON, nullable=False, server_default="[]"))
    op.add_column("comparisons", sa.Column("remark", sa.Text, nullable=False, server_default=""))


def downgrade() -> None:
    """Refuse: an older version would lose what people said."""
    raise NotImplementedError("a database cannot go back; open a copy that was made before the update")
