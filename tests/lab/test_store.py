"""The store of answers and votes: what comes back, what counts, what goes wrong, and databases of other versions."""

import json
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import event, text

from evals.errors import BadConfig, LabError
from evals.preferences.rows import ratings_of
from evals.schema import Answer, StatedConfidence, Verdict
from evals.schema.votes import CHOICES
from evals.stats.agreement import rater_agreement
from lab.store.answers import Store, is_current
from lab.store.database import REVISION, SCRIPTS, AnswerRow, StoreTable, open_engine, upgrade, writing
from tests.lab.votes import NOON, answer, cast, new_store, url_in, vote

LAB = Path(__file__).parents[1] / "frozen" / "files" / "lab.sql"
SIDES = ("base", "sft")
VERDICT = Verdict(
    verdict="correct",
    reason="names the direction",
    confidence=StatedConfidence(value=0.8, status="stated", quote="Confidence: 80%"),
    scores={"direction": 1.0, "other": None},
    reward=0.9,
)


@pytest.fixture
def store(tmp_path):
    opened = new_store(tmp_path)
    yield opened
    opened.close()


# ---- answers ----------------------------------------------------------------------------------

ODD = (
    {"text": "<script>alert(1)</script>'; DROP TABLE answers; --"},
    {"text": "🧬 \u202eright-to-left\u202c Ångström \x00 end"},
    {"text": ""},
    {"question": "x" * 100_000},
    {"seed": 2**62, "temperature": 0.7},
    {"verdict": VERDICT},
    {"asked_at": datetime(2026, 1, 2, 13, 0, tzinfo=timezone(timedelta(hours=1)))},
)


def test_an_answer_comes_back_exactly_as_it_was_stored_its_time_in_utc(store):
    answers = {f"a{n}": answer(f"a{n}", **changes) for n, changes in enumerate(ODD)}
    store.add_answers(list(answers.values()))
    assert {one.id: one for one in store.answers()} == answers
    assert {one.asked_at.tzinfo for one in store.answers()} == {UTC}
    with pytest.raises(Exception, match="no time zone"):
        store.add_answers([answer("late", asked_at=datetime(2026, 1, 1))])
    assert len(store.answers()) == len(answers)
    assert set(AnswerRow.__table__.columns.keys()) == set(Answer.model_fields)


def test_answers_are_newest_first_of_one_session_or_all_and_stored_all_or_none(store):
    hours = {"old": ("s1", 0), "new": ("s1", 1), "other": ("s2", 2)}
    asked = {name: (session, NOON + timedelta(hours=hour)) for name, (session, hour) in hours.items()}
    store.add_answers([answer(name, session=session, asked_at=at) for name, (session, at) in asked.items()])
    assert [one.id for one in store.answers()] == ["other", "new", "old"]
    assert [one.id for one in store.answers(session="s1")] == ["new", "old"]
    assert [one.id for one in store.answers(limit=1)] == ["other"]
    with pytest.raises(Exception, match="UNIQUE"):
        store.add_answers([answer("a2"), answer("old")])
    assert len(store.answers()) == 3


# ---- votes ------------------------------------------------------------------------------------


def test_a_vote_survives_closing_the_store_and_no_export_can_trace_the_rater(tmp_path):
    (tmp_path / "b").mkdir()
    first, other = new_store(tmp_path), new_store(tmp_path / "b")
    kept = cast(first, 1, SIDES, "right")
    assert first.hash_rater("kim") == kept.rater != other.hash_rater("kim")
    assert len(kept.rater) == 32
    first.close(), other.close()
    assert all(b"kim" not in file.read_bytes() for file in tmp_path.iterdir() if file.is_file())
    upgrade(url_in(tmp_path))  # again: nothing is lost, the salt neither
    again = Store(url_in(tmp_path))
    assert again.comparisons() == (kept,)
    assert again.hash_rater("kim") == kept.rater
    again.close()


def test_a_double_click_is_one_vote_and_the_first_choice_counts(store):
    left, right = answer("l", "base"), answer("r", "sft")
    store.add_answers([left, right])
    first = store.add_comparison(vote(left, right, "left", id="v1"))
    second = store.add_comparison(vote(left, right, "right", id="v2"))
    assert second == first
    assert store.comparisons() == (first,)
    store.add_comparison(vote(left, right, "tie", id="v3", rater="sam"))
    assert (store.counts().votes, store.counts().raters) == (2, 2)


def test_a_vote_is_withdrawn_by_its_rater_alone_counts_nowhere_then_and_can_be_cast_again(store):
    kept = cast(store, 1, SIDES, "left")
    for name, rater in ((kept.id, "sam"), ("nothing", "kim")):
        with pytest.raises(LabError, match=r"no vote .* of yours"):
            store.void_comparison(name, rater)
    assert store.counts().votes == 1
    for _ in range(2):
        store.void_comparison(kept.id, "kim")
    assert (store.counts().votes, store.counts().withdrawn) == (0, 1)
    assert store.comparisons() == store.preference_pairs() == ()
    again = store.add_comparison(kept.model_copy(update={"id": "v2", "rater": "kim", "choice": "right"}))
    assert store.comparisons() == (again,)
    assert store.counts().withdrawn == 1


def test_a_vote_on_answers_that_are_not_stored_or_of_another_stage_is_not_kept(store):
    left, right = answer("l1"), answer("r1", "sft")
    with pytest.raises(LabError, match=r"'l1'.*Ask for a new pair"):
        store.add_comparison(vote(left, right, "left"))
    store.add_answers([left, right])
    with pytest.raises(ValueError, match="names stage 'grpo'"):
        store.add_comparison(vote(left, right, "left", right_stage="grpo"))
    assert store.comparisons() == ()


def test_counts_say_who_beat_whom_whichever_side_they_stood_on(store):
    cast(store, 1, ("base", "sft"), "right")
    cast(store, 2, ("sft", "base"), "left")
    cast(store, 3, ("sft", "base"), "right")
    cast(store, 4, ("sft", "grpo"), "tie")
    cast(store, 5, ("base", "grpo"), "both_bad")
    cast(store, 6, ("base", "grpo"), "left", text="the same words")
    counts = store.counts()
    assert counts.by_choice == {"left": 1, "right": 2, "tie": 2, "both_bad": 1}, "equal texts are a tie"
    assert [
        (pair.first, pair.second, pair.first_chosen, pair.second_chosen, pair.ties, pair.both_bad)
        for pair in counts.by_stages
    ] == [("base", "grpo", 0, 0, 1, 1), ("base", "sft", 1, 2, 0, 0), ("grpo", "sft", 0, 0, 1, 0)]
    assert (counts.answers, counts.votes, counts.usable) == (12, 6, 3)


def test_twenty_users_in_two_programs_at_once_lose_no_row(store, tmp_path):
    other = Store(url_in(tmp_path))

    def use(user: int) -> None:
        for number in range(user * 100, user * 100 + 3):
            cast(other if user % 2 else store, number, SIDES, "left")
            store.counts()

    with ThreadPoolExecutor(20) as pool:
        assert [*pool.map(use, range(1, 21))] == [None] * 20
    other.close()
    assert (store.counts().answers, store.counts().votes) == (120, 60)


# ---- what goes wrong --------------------------------------------------------------------------

UNUSABLE = {
    "": "cannot be read",
    "not a url": "cannot be read",
    "sqlite://": "lost when the lab stops",
    "sqlite:///:memory:": "lost when the lab stops",
    "mysql://root@localhost/votes": "does not know the database 'mysql'",
    "postgresql+nosuchdriver://localhost/votes": "pip install",
}


def test_an_unusable_address_is_refused_with_the_accepted_ones_and_without_its_password():
    for url, says in UNUSABLE.items():
        with pytest.raises(BadConfig, match=says) as refusal:
            Store(url)
        assert "postgresql://" in str(refusal.value) or "psycopg" in str(refusal.value)
    with pytest.raises(LabError, match="server is running") as failure:
        Store("postgresql://kim:hunter2@127.0.0.1:1/votes")
    assert "hunter2" not in str(failure.value)


def test_what_is_in_the_way_of_the_file_is_told_and_left_as_it_is(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(LabError, match=r"cannot be made.*ASSAY_DATABASE_URL"):
        is_current(f"sqlite:///{tmp_path / 'file' / 'sub' / 'assay.db'}")
    (tmp_path / "folder").mkdir()
    with pytest.raises(LabError, match="check that its folder exists and is writable"):
        Store(f"sqlite:///{tmp_path / 'folder'}")
    with pytest.raises(LabError, match=r"at revision None.*assay lab"):
        Store(f"sqlite:///{tmp_path / 'new.db'}")
    notes = tmp_path / "assay.db"
    notes.write_text("my notes, not a database\n" * 200)
    with pytest.raises(LabError, match="The file is not a database"):
        Store(url_in(tmp_path))
    assert notes.read_text().startswith("my notes")


def test_a_damaged_database_is_reported_with_the_way_to_recover_it(tmp_path):
    store = new_store(tmp_path)
    for number in range(40):
        cast(store, number, SIDES, "left", text="x" * 2000)
    store.close()
    file = tmp_path / "assay.db"
    content = bytearray(file.read_bytes())
    content[4096:65536] = b"\xff" * (65536 - 4096)
    file.write_bytes(content)
    with pytest.raises(LabError, match=r"\.recover"):
        Store(url_in(tmp_path)).answers()


def test_a_locked_or_write_protected_database_can_be_read_and_says_why_nothing_is_stored(store, tmp_path):
    cast(store, 1, SIDES, "left")
    impatient = open_engine(url_in(tmp_path), busy_timeout_seconds=0.05)
    other_program = sqlite3.connect(tmp_path / "assay.db", isolation_level=None)
    other_program.execute("BEGIN IMMEDIATE")
    with pytest.raises(LabError, match=r"close it and try again.*is not stored"), writing(impatient) as session:
        session.add(AnswerRow(**dict(answer("new"))))
    assert store.counts().votes == 1, "reading goes on meanwhile"
    other_program.execute("ROLLBACK")
    other_program.close()
    impatient.dispose()
    protected = Store(f"sqlite:///file:{tmp_path / 'assay.db'}?mode=ro&uri=true")
    assert protected.counts().votes == 1
    with pytest.raises(LabError, match="give the user of the lab write permission"):
        protected.add_answers([answer("new")])
    protected.close()


def test_on_a_full_disk_people_are_told_and_nothing_before_is_damaged(store, tmp_path):
    cast(store, 1, SIDES, "left")
    store.close()

    @event.listens_for(store._engine, "connect")
    def fill(connection, _):
        connection.execute(f"PRAGMA max_page_count = {(tmp_path / 'assay.db').stat().st_size // 4096 + 1}")

    with pytest.raises(LabError, match=r"The disk is full: free some space and try again.*is not stored"):
        store.add_answers([answer("large", text="x" * 100_000)])
    event.remove(store._engine, "connect", fill)
    store.close()
    assert (store.counts().votes, store.counts().answers) == (1, 2)
    store.add_answers([answer("large", text="x" * 100_000)])
    with closing(sqlite3.connect(tmp_path / "assay.db")) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)


# ---- databases of earlier and later versions --------------------------------------------------


def test_a_migrated_database_is_current_and_has_exactly_the_tables_the_store_works_with(tmp_path):
    assert ScriptDirectory(str(SCRIPTS)).get_current_head() == REVISION
    assert not is_current(url_in(tmp_path))
    upgrade(url_in(tmp_path))
    assert is_current(url_in(tmp_path))
    engine = open_engine(url_in(tmp_path))
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, StoreTable.metadata) == []
    with writing(engine) as session:
        session.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    engine.dispose()
    with pytest.raises(LabError, match=r"newer version \(revision '9999'"):
        upgrade(url_in(tmp_path))


def test_a_database_that_is_there_already_opens_with_every_row(tmp_path):
    """The rows themselves stand in the frozen table `formats`."""
    with closing(sqlite3.connect(tmp_path / "assay.db")) as kept:
        kept.executescript(LAB.read_text(encoding="utf-8"))
        owners = dict(kept.execute("SELECT id, session FROM documents WHERE task = 'review'"))
        said = kept.execute("SELECT id, strength, reasons, remark FROM comparisons WHERE voided_at IS NULL").fetchall()
    upgrade(url_in(tmp_path))
    with closing(Store(url_in(tmp_path))) as store:
        assert (len(store.answers(None, 1000)), len(store.annotations.items()), len(store.deeds(1000))) == (18, 2, 2)
        votes = [(each.id, each.strength, json.dumps(each.reasons), each.remark) for each in store.comparisons()]
        assert sorted(votes) == sorted(said)
        explained = ("clear", '["fact", "clearer"]', "It says what the data say.")
        assert ("vote-l1ann-r1ann", *explained) in votes
        found = store.documents("review").everything()
        assert {each.document.id for each in found} == set(owners)
        for each in found:
            assert store.documents("review").get(each.document.id, owners[each.document.id]) == each


def test_a_database_older_than_the_first_migration_is_refused_untouched(tmp_path):
    with closing(sqlite3.connect(tmp_path / "assay.db")) as old:
        old.executescript(
            "CREATE TABLE alembic_version (version_num TEXT); INSERT INTO alembic_version VALUES ('0008')"
        )
    with pytest.raises(LabError, match=r"earlier version \(revision '0008'; this one opens 0009, 0010\)"):
        upgrade(url_in(tmp_path))


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


@pytest.mark.slow
def test_two_programs_starting_at_once_make_one_set_of_tables(tmp_path):
    code = f"from lab.store.database import upgrade; upgrade({url_in(tmp_path)!r})"
    with ThreadPoolExecutor(2) as pool:
        runs = pool.map(lambda _: subprocess.run([sys.executable, "-c", code], check=True), range(2))
    assert [run.returncode for run in runs] == [0, 0]
    Store(url_in(tmp_path)).close()


@pytest.fixture(scope="module")
def postgres(tmp_path_factory):
    """The address of an empty database of a server of our own, from Debian's packages; or ASSAY_TEST_POSTGRES."""
    if url := os.environ.get("ASSAY_TEST_POSTGRES"):
        yield url
        return
    found = shutil.which("initdb") or next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))), None)
    if found is None:
        assert not os.environ.get("CI"), "in CI the tests of PostgreSQL must run: apt install postgresql"
        pytest.skip("no PostgreSQL here: apt install postgresql")
    user = {"user": 65534, "group": 65534} if os.getuid() == 0 else {}  # it refuses to run as root
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as probe:
        shutil.chown(folder, *user.values()) if user else None
        port, quiet = probe.getsockname()[1], {"stdout": subprocess.DEVNULL, "cwd": folder, **user}
        probe.close()
        initdb = [found, "-D", f"{folder}/data", "-U", "assay", "-A", "trust", "--no-sync"]
        subprocess.run(initdb, check=True, **quiet)
        control = [Path(found).with_name("pg_ctl"), "-D", f"{folder}/data", "-w", "-l", f"{folder}/log"]
        subprocess.run([*control, "-o", f"-p {port} -k {folder}", "start"], check=True, **quiet)
        try:
            yield f"postgresql+psycopg://assay@127.0.0.1:{port}/postgres"
        finally:
            subprocess.run([*control, "-m", "immediate", "stop"], check=True, **quiet)


@pytest.mark.slow
def test_votes_are_kept_in_postgresql_as_in_sqlite(postgres):
    upgrade(postgres)
    store = Store(postgres)
    first = cast(store, 1, SIDES, "left")
    (pair,) = store.preference_pairs()
    assert (pair.left.stage, pair.right.stage) == SIDES
    assert store.add_comparison(first.model_copy(update={"id": "other", "rater": "kim"})) == first
    store.void_comparison(first.id, "kim")
    assert (store.counts().votes, store.counts().withdrawn) == (0, 1)
    with pytest.raises(LabError, match="pg_dump"):
        store.back_up(Path("copy.db"))
    store.close()


@pytest.mark.slow
def test_two_processes_on_one_postgresql_lose_nothing_when_their_writers_are_killed(postgres):
    upgrade(postgres)
    command = [sys.executable, "-m", "tests.lab.killed", postgres, "25"]
    both = [subprocess.Popen([*command, seed], stdout=subprocess.PIPE, text=True) for seed in ("1", "2")]
    for process in both:
        found = json.loads(process.communicate()[0])
        assert (found["kills"], found["lost"]) == (25, [])
        assert found["acknowledged"] >= 25


def test_raters_who_were_given_the_same_two_texts_on_whichever_side_rated_one_unit(store):
    said = (("ann", "right", "base"), ("bob", "left", "sft"), ("cy", "left", "base"))
    for number, (rater, choice, left) in enumerate(said):
        sides = [answer(f"{side}{number}", side) for side in SIDES]
        store.add_answers(sides)
        store.add_comparison(vote(*(sides if left == "base" else sides[::-1]), choice, rater=rater))
    ratings = tuple(ratings_of(store.preference_pairs()))
    assert (len({each[0] for each in ratings}), len({each[1] for each in ratings})) == (1, 3)
    assert rater_agreement(ratings, CHOICES)["percent_agreement"].value == pytest.approx(1 / 3)
