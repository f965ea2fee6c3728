"""Blind votes between reviews are gone; annotation projects keep their present guidelines, and hand out no answers by name."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

PROJECTS = sa.table("annotation_projects", sa.column("id"), sa.column("document", sa.JSON))


def upgrade() -> None:
    """Drop what nothing reads any more; every answer, vote with what was said of it, document and annotation stays."""
    op.drop_table("document_votes")
    connection = op.get_bind()
    for name, document in connection.execute(sa.select(PROJECTS.c.id, PROJECTS.c.document)).all():
        known = {key: value for key, value in document.items() if key not in ("earlier", "raters")}
        connection.execute(sa.update(PROJECTS).where(PROJECTS.c.id == name).values(document=known))
