"""Projects of answers that people annotate, the answers, and every version of each annotation."""

from alembic import op

from lab.store.migrate import table

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add the tables; nothing that is stored is touched."""
    table("annotation_projects", id="key", created_at="moment", document="json")
    table("annotation_items", id="key", project="annotation_projects.id", place="whole", document="json")
    op.create_index("one_place_in_a_project", "annotation_items", ["project", "place"], unique=True)
    who = {"item": "annotation_items.id", "rater": "text", "role": "text", "number": "whole"}
    table("annotations", id="key", **who, made_at="moment", document="json", voided_at="moment?")
    op.create_index("one_number_per_annotation", "annotations", [*who], unique=True)


def downgrade() -> None:
    """Refuse: an older version would lose what people wrote."""
    raise NotImplementedError("a database cannot go back; open a copy that was made before the update")
