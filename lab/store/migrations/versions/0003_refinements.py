"""Answers with citations as they were graded, and what people made of them."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Make the two tables; nothing else is touched."""
    op.create_table(
        "refinements",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("made_at", MOMENT, nullable=False),
        sa.Column("session", sa.Text, nullable=False),
        sa.Column("document", sa.JSON, nullable=False),
    )
    op.create_index("refinements_by_session", "refinements", ["session", "made_at"])
    op.create_table(
        "refinement_versions",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("refinement_id", sa.Text, sa.ForeignKey("refinements.id"), nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("made_at", MOMENT, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("marks", sa.JSON, nullable=False),
        sa.Column("voided_at", MOMENT),
    )
    op.create_index(
        "one_refinement_version_per_number", "refinement_versions", ["refinement_id", "number"], unique=True
    )


def downgrade() -> None:
    """Drop the tables, and with them every graded answer."""
    for table in ("refinement_versions", "refinements"):
        op.drop_table(table)
