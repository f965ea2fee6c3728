"""Answers, votes on pairs of them, and the salt that raters are hashed with."""

import secrets

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Make the three tables; the salt is drawn once per database."""
    _answers()
    _comparisons()
    settings = op.create_table(
        "settings", sa.Column("name", sa.Text, primary_key=True), sa.Column("value", sa.Text, nullable=False)
    )
    op.bulk_insert(settings, [{"name": "rater_salt", "value": secrets.token_hex(32)}])


def downgrade() -> None:
    """Drop the tables, and with them every answer and vote."""
    for table in ("comparisons", "answers", "settings"):
        op.drop_table(table)


def _answers() -> None:
    op.create_table(
        "answers",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("asked_at", MOMENT, nullable=False),
        sa.Column("session", sa.Text, nullable=False),
        sa.Column("question", sa.Text, nullable=False),
        sa.Column("example_id", sa.Text),
        sa.Column("stage", sa.Text, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("finish_reason", sa.Text, nullable=False),
        sa.Column("chain", sa.Text, nullable=False),
        sa.Column("stage_sha256", sa.Text, nullable=False),
        sa.Column("system_prompt", sa.Text, nullable=False),
        sa.Column("seed", sa.BigInteger, nullable=False),
        sa.Column("max_new_tokens", sa.BigInteger, nullable=False),
        sa.Column("temperature", sa.Float, nullable=False),
        sa.Column("dtype", sa.Text, nullable=False),
        sa.Column("verdict", sa.JSON),
    )
    op.create_index("answers_by_session", "answers", ["session", "asked_at"])


def _comparisons() -> None:
    op.create_table(
        "comparisons",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("voted_at", MOMENT, nullable=False),
        sa.Column("rater", sa.Text, nullable=False),
        sa.Column("question", sa.Text, nullable=False),
        sa.Column("example_id", sa.Text),
        sa.Column("left_answer", sa.Text, sa.ForeignKey("answers.id"), nullable=False),
        sa.Column("right_answer", sa.Text, sa.ForeignKey("answers.id"), nullable=False),
        sa.Column("left_stage", sa.Text, nullable=False),
        sa.Column("right_stage", sa.Text, nullable=False),
        sa.Column("choice", sa.Text, nullable=False),
        sa.Column("voided_at", MOMENT),
    )
    op.create_index(
        "one_vote_per_pair_and_rater",
        "comparisons",
        ["left_answer", "right_answer", "rater"],
        unique=True,
        sqlite_where=sa.text("voided_at IS NULL"),
        postgresql_where=sa.text("voided_at IS NULL"),
    )
    op.create_index("comparisons_by_time", "comparisons", ["voted_at"])
