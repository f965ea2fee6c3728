import sqlite3

import pytest
from sqlalchemy.exc import DBAPIError

from evals.errors import BadConfig, LabError
from lab.store.answers import Store, is_current
from lab.store.database import open_engine, reading, writing
from lab.store.tables import AnswerRow
from tests.lab.votes import answer, cast, new_store, url_in


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("", "cannot be read"),
        ("not a url", "cannot be read"),
        ("sqlite://", "lost at the end"),
        ("sqlite:///:memory:", "lost at the end"),
        ("mysql://root@localhost/votes", "does not know the database 'mysql'"),
        ("postgresql+nosuchdriver://localhost/votes", "pip install"),
    ],
)
def test_an_unusable_address_is_refused_with_the_accepted_ones(url, says):
    with pytest.raises(BadConfig, match=says) as refusal:
        Store(url)
    assert "postgresql://" in str(refusal.value) or "psycopg" in str(refusal.value)


def test_a_password_never_appears_in_a_message():
    pytest.importorskip("psycopg", reason="the PostgreSQL driver is not installed")
    with pytest.raises(LabError) as failure:
        Store("postgresql://kim:hunter2@127.0.0.1:1/votes")
    assert "hunter2" not in str(failure.value)
    assert "server is running" in str(failure.value)


def test_what_is_in_the_way_of_the_file_is_told_and_left_as_it_is(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(LabError, match=r"cannot be made.*ASSAY_DATABASE_URL"):
        is_current(f"sqlite:///{tmp_path / 'file' / 'sub' / 'assay.db'}")
    (tmp_path / "folder").mkdir()
    with pytest.raises(LabError, match="check that its folder exists and is writable"):
        Store(f"sqlite:///{tmp_path / 'folder'}")
    notes = tmp_path / "assay.db"
    notes.write_text("my notes, not a database\n" * 200)
    with pytest.raises(LabError, match="The file is something else"):
        Store(url_in(tmp_path))
    assert notes.read_text().startswith("my notes")


def test_a_damaged_database_is_reported_with_the_way_to_recover_it(tmp_path):
    store = new_store(tmp_path)
    for number in range(40):
        cast(store, number, ("base", "sft"), "left", text="x" * 2000)
    store.close()
    file = tmp_path / "assay.db"
    content = bytearray(file.read_bytes())
    content[8192:65536] = b"\xff" * (65536 - 8192)
    file.write_bytes(content)
    with pytest.raises(LabError, match=r"\.recover"):
        Store(url_in(tmp_path)).answers()


def test_a_database_that_stays_locked_is_reported_and_loses_nothing(tmp_path):
    store = new_store(tmp_path)
    cast(store, 1, ("base", "sft"), "left")
    impatient = open_engine(url_in(tmp_path), busy_timeout_seconds=0.05)
    other_program = sqlite3.connect(tmp_path / "assay.db", isolation_level=None)
    other_program.execute("BEGIN IMMEDIATE")
    with pytest.raises(LabError, match=r"close it and try again.*is not stored"), writing(impatient) as session:
        session.add(AnswerRow(**dict(answer("new"))))
    assert store.counts().votes == 1, "reading goes on meanwhile"
    other_program.execute("ROLLBACK")
    other_program.close()
    impatient.dispose()
    assert store.counts().votes == 1
    store.close()


def test_a_write_protected_database_can_be_read_and_says_why_it_cannot_be_written(tmp_path):
    store = new_store(tmp_path)
    cast(store, 1, ("base", "sft"), "left")
    store.close()
    protected = Store(f"sqlite:///file:{tmp_path / 'assay.db'}?mode=ro&uri=true")
    assert protected.counts().votes == 1
    with pytest.raises(LabError, match="give the user of the lab write permission"):
        protected.add_answers([answer("new")])
    protected.close()


@pytest.mark.parametrize("failure", [sqlite3.InterfaceError("bad parameter"), sqlite3.OperationalError("gone")])
def test_whatever_the_driver_reports_comes_with_what_to_do(failure, tmp_path):
    engine = open_engine(url_in(tmp_path))
    with pytest.raises(LabError, match=r"Check ASSAY_DATABASE_URL"), reading(engine):
        raise DBAPIError.instance("SELECT 1", None, failure, sqlite3.Error)
    engine.dispose()


def test_an_empty_database_says_what_to_start_first(tmp_path):
    with pytest.raises(LabError, match=r"at revision None.*assay lab"):
        Store(url_in(tmp_path))
