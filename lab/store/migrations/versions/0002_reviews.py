"""Reviews of papers as they came from a model, and every version that people made of them."""

from alembic import op

from lab.store.migrate import one_standing, table, versions

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Make the three tables; answers and votes are not touched."""
    table("reviews", id="key", made_at="moment", session="text", document="json")
    op.create_index("reviews_by_session", "reviews", ["session", "made_at"])
    versions("review_versions", "reviews.id", "concerns", "one_version_per_number")
    sides = {"left_review": "reviews.id", "right_review": "reviews.id"}
    table("review_votes", id="key", voted_at="moment", rater="text", **sides, choice="text", voided_at="moment?")
    one_standing("one_review_vote_per_pair_and_rater", "review_votes", *sides, "rater")


def downgrade() -> None:
    for name in ("review_votes", "review_versions", "reviews"):
        op.drop_table(name)
