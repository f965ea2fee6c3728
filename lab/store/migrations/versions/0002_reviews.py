"""Reviews of papers as they came from a model, and every version that people made of them."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Make the three tables; answers and votes are not touched."""
    op.create_table(
        "reviews",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("made_at", MOMENT, nullable=False),
        sa.Column("session", sa.Text, nullable=False),
        sa.Column("document", sa.JSON, nullable=False),
    )
    op.create_index("reviews_by_session", "reviews", ["session", "made_at"])
    op.create_table(
        "review_versions",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("review_id", sa.Text, sa.ForeignKey("reviews.id"), nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("made_at", MOMENT, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("concerns", sa.JSON, nullable=False),
        sa.Column("voided_at", MOMENT),
    )
    op.create_index("one_version_per_number", "review_versions", ["review_id", "number"], unique=True)
    _votes()


def downgrade() -> None:
    """Drop the tables, and with them every review."""
    for table in ("review_votes", "review_versions", "reviews"):
        op.drop_table(table)


def _votes() -> None:
    op.create_table(
        "review_votes",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("voted_at", MOMENT, nullable=False),
        sa.Column("rater", sa.Text, nullable=False),
        sa.Column("left_review", sa.Text, sa.ForeignKey("reviews.id"), nullable=False),
        sa.Column("right_review", sa.Text, sa.ForeignKey("reviews.id"), nullable=False),
        sa.Column("choice", sa.Text, nullable=False),
        sa.Column("voided_at", MOMENT),
    )
    op.create_index(
        "one_review_vote_per_pair_and_rater",
        "review_votes",
        ["left_review", "right_review", "rater"],
        unique=True,
        sqlite_where=sa.text("voided_at IS NULL"),
        postgresql_where=sa.text("voided_at IS NULL"),
    )
