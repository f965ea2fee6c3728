"""Documents of any task with their versions and votes, in place of tables for reviews and for refinements."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

MOMENT = sa.DateTime(timezone=True)
MOVED = (
    "INSERT INTO documents (id, task, made_at, session, document)"
    " SELECT id, 'review', made_at, session, document FROM reviews",
    "INSERT INTO documents (id, task, made_at, session, document)"
    " SELECT id, 'refine', made_at, session, document FROM refinements",
    "INSERT INTO document_versions (id, document_id, number, made_at, action, content, voided_at)"
    " SELECT id, review_id, number, made_at, action, concerns, voided_at FROM review_versions",
    "INSERT INTO document_versions (id, document_id, number, made_at, action, content, voided_at)"
    " SELECT id, refinement_id, number, made_at, action, marks, voided_at FROM refinement_versions",
    "INSERT INTO document_votes (id, voted_at, rater, left_document, right_document, choice, voided_at)"
    " SELECT id, voted_at, rater, left_review, right_review, choice, voided_at FROM review_votes",
)


def upgrade() -> None:
    """Move every review and refinement, with versions and votes; answers and votes on them are not touched."""
    op.drop_index("one_version_per_number", "review_versions")
    op.create_table(
        "documents",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("task", sa.Text, nullable=False),
        sa.Column("made_at", MOMENT, nullable=False),
        sa.Column("session", sa.Text, nullable=False),
        sa.Column("document", sa.JSON, nullable=False),
    )
    op.create_index("documents_by_session", "documents", ["session", "task", "made_at"])
    op.create_table(
        "document_versions",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("document_id", sa.Text, sa.ForeignKey("documents.id"), nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("made_at", MOMENT, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("content", sa.JSON, nullable=False),
        sa.Column("voided_at", MOMENT),
    )
    op.create_index("one_version_per_number", "document_versions", ["document_id", "number"], unique=True)
    op.create_table(
        "document_votes",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("voted_at", MOMENT, nullable=False),
        sa.Column("rater", sa.Text, nullable=False),
        sa.Column("left_document", sa.Text, sa.ForeignKey("documents.id"), nullable=False),
        sa.Column("right_document", sa.Text, sa.ForeignKey("documents.id"), nullable=False),
        sa.Column("choice", sa.Text, nullable=False),
        sa.Column("voided_at", MOMENT),
    )
    op.create_index(
        "one_vote_per_documents_and_rater",
        "document_votes",
        ["left_document", "right_document", "rater"],
        unique=True,
        sqlite_where=sa.text("voided_at IS NULL"),
        postgresql_where=sa.text("voided_at IS NULL"),
    )
    for statement in MOVED:
        op.execute(statement)
    for table in ("review_votes", "review_versions", "reviews", "refinement_versions", "refinements"):
        op.drop_table(table)


def downgrade() -> None:
    """Refuse: an older version would find neither reviews nor refinements."""
    raise NotImplementedError("a database cannot go back; open a copy that was made before the update")
