"""Where histories of databases begin: a new one is made from the models in `lab.store.database`, see `lab.store.database`."""

revision = "0009"
down_revision = None


def upgrade() -> None:
    """Do nothing: databases that stand here have the tables of revision 0009."""
