"""Projects of answers that people annotate, the answers, every version of each annotation; votes without a name."""

import sqlalchemy as sa
from alembic import op

from lab.store.migrate import table

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add the tables; votes so far keep their raters: no hash tells whether that was a person or a browser."""
    op.add_column("comparisons", sa.Column("is_anonymous", sa.Boolean, nullable=False, server_default=sa.false()))
    table("annotation_projects", id="key", created_at="moment", document="json")
    table("annotation_items", id="key", project="annotation_projects.id", place="whole", document="json")
    op.create_index("one_place_in_a_project", "annotation_items", ["project", "place"], unique=True)
    who = {"item": "annotation_items.id", "rater": "text", "role": "text", "number": "whole"}
    table("annotations", id="key", **who, made_at="moment", document="json", voided_at="moment?")
    op.create_index("one_number_per_annotation", "annotations", [*who], unique=True)


def downgrade() -> None:
    """Refuse: an older version would lose what people wrote."""
    raise NotImplementedError("a database cannot go back; open a copy that was made before the update")
