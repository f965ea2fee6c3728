"""Answers with citations as they were graded, and what people made of them."""

from alembic import op

from lab.store.migrate import table, versions

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    table("refinements", id="key", made_at="moment", session="text", document="json")
    op.create_index("refinements_by_session", "refinements", ["session", "made_at"])
    versions("refinement_versions", "refinements.id", "marks", "one_refinement_version_per_number")


def downgrade() -> None:
    for name in ("refinement_versions", "refinements"):
        op.drop_table(name)
