import os
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import select, text
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateIndex, CreateTable

from evals.errors import LabError
from lab.store.answers import Store, is_current
from lab.store.database import open_engine, writing
from lab.store.migrate import SCRIPTS, upgrade
from lab.store.tables import REVISION, ComparisonRow, StoreTable
from tests.lab.votes import cast, new_store, url_in

OLD = Path(__file__).parents[1] / "frozen" / "files" / "old"
MOVED = ("reviews", "refinements", "review_votes")


def told(database):
    """Return the names of the tables."""
    return {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def test_a_migrated_database_is_current_and_has_exactly_the_tables_the_store_works_with(tmp_path):
    assert ScriptDirectory(str(SCRIPTS)).get_current_head() == REVISION
    assert not is_current(url_in(tmp_path))
    upgrade(url_in(tmp_path))
    assert is_current(url_in(tmp_path))
    engine = open_engine(url_in(tmp_path))
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, StoreTable.metadata) == []
    engine.dispose()


def test_upgrading_again_keeps_every_vote_and_the_salt(tmp_path):
    store = new_store(tmp_path)
    kept = cast(store, 1, ("base", "sft"), "left")
    store.close()
    upgrade(url_in(tmp_path))
    again = Store(url_in(tmp_path))
    assert again.comparisons() == (kept,)
    assert again.hash_rater("kim") == kept.rater
    again.close()


def test_two_programs_starting_at_once_make_one_set_of_tables(tmp_path):
    code = f"from lab.store.migrate import upgrade; upgrade({url_in(tmp_path)!r})"
    with ThreadPoolExecutor(2) as pool:
        runs = pool.map(lambda _: subprocess.run([sys.executable, "-c", code], check=True), range(2))
    assert [run.returncode for run in runs] == [0, 0]
    Store(url_in(tmp_path)).close()


@pytest.mark.parametrize("revision", ["0001", "0002", "0003"])
def test_a_database_of_every_released_migration_opens_and_keeps_its_data(tmp_path, revision):
    with sqlite3.connect(tmp_path / "assay.db") as old:
        old.executescript((OLD / f"lab-{revision}.sql").read_text(encoding="utf-8"))
        kept = {
            table: old.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in MOVED if table in told(old)
        }
        owners = dict(old.execute("SELECT id, session FROM reviews")) if "reviews" in kept else {}

    upgrade(url_in(tmp_path))

    store = Store(url_in(tmp_path))
    found = {task: store.documents(task).everything() for task in ("review", "refine")}
    assert {task: len(rows) for task, rows in found.items()} == {
        "review": kept.get("reviews", 0),
        "refine": kept.get("refinements", 0),
    }
    assert len(store.documents("review").votes()) <= kept.get("review_votes", 0)
    for each in found["review"]:
        owner = owners[each.document.id]
        assert store.documents("review").get(each.document.id, owner) == each
    assert len(store.preference_pairs()) > 0
    store.close()


def test_a_migration_that_fails_leaves_the_database_as_it_was(tmp_path):
    engine = open_engine(url_in(tmp_path))
    with writing(engine) as session:
        session.execute(text("CREATE TABLE settings (somebody TEXT)"))
    with pytest.raises(LabError, match="already exists"):
        upgrade(url_in(tmp_path))
    with engine.connect() as connection:
        tables = connection.execute(text("SELECT name FROM sqlite_master WHERE type = 'table'"))
        assert tables.scalars().all() == ["settings"]
    engine.dispose()


def test_a_database_of_a_newer_version_is_not_touched(tmp_path):
    upgrade(url_in(tmp_path))
    engine = open_engine(url_in(tmp_path))
    with writing(engine) as session:
        session.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    engine.dispose()
    with pytest.raises(LabError, match=r"newer version \(revision '9999'"):
        upgrade(url_in(tmp_path))


def test_the_tables_and_the_vote_query_compile_for_postgresql():
    dialect = postgresql.dialect()
    created = "\n".join(str(CreateTable(table).compile(dialect=dialect)) for table in StoreTable.metadata.sorted_tables)
    assert "asked_at TIMESTAMP WITH TIME ZONE NOT NULL" in created
    (index,) = [i for i in ComparisonRow.__table__.indexes if i.unique]
    assert str(CreateIndex(index).compile(dialect=dialect)).endswith("WHERE voided_at IS NULL")
    assert "voided_at IS NULL" in str(
        select(ComparisonRow).where(ComparisonRow.voided_at.is_(None)).compile(dialect=dialect)
    )


def test_importing_the_store_does_not_load_alembic_or_a_user_interface():
    code = (
        "import sys, lab.store.answers; "
        "print([m for m in ('alembic', 'gradio', 'torch', 'huggingface_hub') if m in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert shown.stdout.strip() == "[]"


def test_votes_are_kept_in_postgresql_as_in_sqlite():
    url = os.environ.get("ASSAY_TEST_POSTGRES")
    if url is None:
        pytest.skip("ASSAY_TEST_POSTGRES names no empty PostgreSQL database to try this with")
    upgrade(url)
    store = Store(url)
    first = cast(store, 1, ("base", "sft"), "left")
    left, right = store.preference_pairs()[0].left, store.preference_pairs()[0].right
    again = store.add_comparison(first.model_copy(update={"id": "other", "rater": "kim"}))
    assert again == first
    assert (left.stage, right.stage) == ("base", "sft")
    store.void_comparison(first.id, "kim")
    assert (store.counts().votes, store.counts().withdrawn) == (0, 1)
    store.close()
