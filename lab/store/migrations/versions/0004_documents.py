"""Documents of any task with their versions and votes, in place of tables for reviews and for refinements."""

from alembic import op

from lab.store.migrate import one_standing, table, versions

revision = "0004"
down_revision = "0003"

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
    table("documents", id="key", task="text", made_at="moment", session="text", document="json")
    op.create_index("documents_by_session", "documents", ["session", "task", "made_at"])
    versions("document_versions", "documents.id", "content", "one_version_per_number")
    sides = {"left_document": "documents.id", "right_document": "documents.id"}
    table("document_votes", id="key", voted_at="moment", rater="text", **sides, choice="text", voided_at="moment?")
    one_standing("one_vote_per_documents_and_rater", "document_votes", *sides, "rater")
    for statement in MOVED:
        op.execute(statement)
    for name in ("review_votes", "review_versions", "reviews", "refinement_versions", "refinements"):
        op.drop_table(name)


def downgrade() -> None:
    """Refuse: an older version would find neither reviews nor refinements."""
    raise NotImplementedError("a database cannot go back; open a copy that was made before the update")
