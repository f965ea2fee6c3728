"""What Alembic runs: the migrations, on the connection and in the transaction it is given."""

from alembic import context

from lab.store.database import StoreTable

context.configure(
    connection=context.config.attributes["connection"], target_metadata=StoreTable.metadata, transactional_ddl=True
)
context.run_migrations()
