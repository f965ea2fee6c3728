"""A rater who asks for it is taken out of the data set that an arena pushes votes to, and of exported ones."""

import hashlib
import io
import json
import zlib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from huggingface_hub import HfApi
from typer.testing import CliRunner

from evals.schema import Answer, Comparison
from evals.schema.votes import VoteEvent
from hub.client import HubTrouble
from hub.publish import write_receipt
from hub.removal import SQUASH, plan_removal, remove
from hub.votes import VoteLog
from lab.cli import app
from tests.hub.local import InjectedFault
from tests.lab.votes import NOON, answer, cast, new_store, url_in, vote

ANN, BOB = "a" * 32, "b" * 32


def line(number: int, rater: str) -> str:
    """Return one vote as the arena writes it, with a line separator inside that ends no line."""
    left, right = (answer(f"{side}{number}", side, text="up\u2028down") for side in ("base", "sft"))
    assert isinstance(left, Answer)
    cast: Comparison = vote(left, right, "right", rater=rater)
    event = VoteEvent(kind="vote", at=NOON, vote_id=f"v{number}", vote=cast, left=left, right=right)
    return event.model_dump_json() + "\n"


def withdrawn(number: int) -> str:
    return VoteEvent(kind="withdrawn", at=NOON, vote_id=f"v{number}").model_dump_json() + "\n"


@pytest.fixture
def votes(stand, request):
    """A data set with votes of two raters in three files."""
    name = f"org/votes-{zlib.crc32(request.node.name.encode())}"
    stand.create(name, "dataset")
    files = {
        "votes/one.jsonl": line(1, ANN) + line(2, BOB) + withdrawn(1) + "no vote\n",
        "votes/two.jsonl": line(3, ANN),
        "votes/three.jsonl": line(4, BOB),
        "README.md": "---\nlicense: cc-by-4.0\n---\n",
    }
    stand.commit(name, {path: text.encode() for path, text in files.items()}, "dataset")
    stand.hub.log.clear()
    return name


def held(stand, name):
    """Return the files of votes on main with their text."""
    paths = [path for path in stand.on_main(name, "dataset") if path.startswith("votes/")]
    return {path: stand.read(name, path, "dataset").decode() for path in paths}


def removal(stand, name, raters):
    """Take raters' lines out of a data set of votes; return what was done, or the error's message."""
    return stand.attempt(lambda: remove(stand.api(), name, raters, lambda words: None, pause_seconds=0.01))


def before_commit(monkeypatch, slip_in):
    """Do something right before the next commit, and nothing before those after it."""
    original = HfApi.create_commit

    def slower(self, *words, **named):
        monkeypatch.setattr(HfApi, "create_commit", original)
        slip_in()
        return original(self, *words, **named)

    monkeypatch.setattr(HfApi, "create_commit", slower)


LEFT = {"votes/one.jsonl": line(2, BOB) + "no vote\n", "votes/three.jsonl": line(4, BOB)}


def test_a_raters_votes_and_what_they_took_back_go_in_one_commit_and_all_else_stays(stand, votes, tmp_path):
    done = removal(stand, votes, [ANN])
    assert held(stand, votes) == LEFT
    assert done.files == {"votes/one.jsonl": 2, "votes/two.jsonl": 1}
    assert (done.votes, done.unreadable) == (2, 1)
    assert stand.asked("POST", "/commit/") == 1
    receipt = write_receipt(done, tmp_path).read_text()
    assert done.revision in receipt
    assert ANN not in receipt, "a receipt that names the rater would remember them"


def test_a_dry_run_and_a_rater_who_is_not_there_change_nothing(stand, votes):
    planned = plan_removal(stand.api(), votes, [ANN])
    assert (planned.votes, planned.revision) == (2, None)
    done = removal(stand, votes, ["c" * 32])
    assert (done.votes, done.revision) == (0, None)
    assert stand.only_read()
    assert len(held(stand, votes)) == 3
    assert "ASSAY_VOTES_REPO" in removal(stand, "org/no-votes", [ANN]), "a data set that is not there is said so"


def test_votes_that_an_arena_pushes_meanwhile_are_kept_and_theirs_removed(stand, votes, monkeypatch):
    more = line(5, ANN) + line(6, BOB)
    before_commit(monkeypatch, lambda: stand.commit(votes, {"votes/new.jsonl": more.encode()}, "dataset"))
    removal(stand, votes, [ANN])
    assert held(stand, votes) == LEFT | {"votes/new.jsonl": line(6, BOB)}


TROUBLES = [
    # what happens to the commit, a word of the message or how many commits complete it
    ({"status": 403}, "may not write there"),
    ({"status": 412}, "somebody committed meanwhile"),
    ({"status": 500}, 2),
    ({"drop": True}, 2),
    ({"drop": True, "after": True}, 1),
]


@pytest.mark.parametrize(("trouble", "told"), TROUBLES)
def test_a_removal_leaves_all_as_it_was_or_is_complete_whatever_fails(stand, votes, trouble, told):
    before = held(stand, votes)
    stand.hub.faults.append(InjectedFault("POST", "/commit/", times=1, **trouble))
    done = removal(stand, votes, [ANN])
    if isinstance(told, str):
        assert told in done
        assert held(stand, votes) == before
        done = removal(stand, votes, [ANN])
    else:
        assert stand.asked("POST", "/commit/") == told
    assert (done.votes, held(stand, votes)) == (2, LEFT)


@pytest.fixture
def lab(stand, votes, tmp_path):
    """The database of a lab with one vote of Kim's, who also has one in the data set."""
    store = new_store(tmp_path)
    cast(store, 1, ("base", "sft"), "right")
    lines = line(7, store.hash_rater("kim")) + line(8, BOB)
    store.close()
    stand.commit(votes, {"votes/kim.jsonl": lines.encode()}, "dataset")
    return url_in(tmp_path)


def forget(words, database, said=None):
    """Run `assay prefs forget` on this Hub; `said` is what a person answers when asked."""
    result = CliRunner().invoke(app, ["prefs", "forget", *words], said, {"ASSAY_DATABASE_URL": database})
    return result.exit_code, result.stdout, result.stderr


def test_the_command_asks_first_and_neither_a_no_nor_a_dry_run_changes_anything(stand, votes, lab, tmp_path):
    before = held(stand, votes)
    words = ["kim", "--repo", votes, "--receipts", str(tmp_path / "kept"), "--json"]
    code, shown, said = forget(words, lab, "n\n")
    assert (code, shown.strip()) == (1, "n"), "the runner repeats what is typed"
    assert "Delete every vote, review and graded answer of kim?" in said
    for _ in range(2):
        code, shown, _ = forget([*words, "--dry-run"], lab)
        planned = json.loads(shown)
        assert (code, planned["deleted"], planned["removal"]["votes"]) == (0, 1, 1)
    assert held(stand, votes) == before
    assert not (tmp_path / "kept").exists()


def test_the_command_takes_a_rater_out_of_both_places_and_tells_what_is_left_to_do(stand, votes, lab, tmp_path):
    before = held(stand, votes)
    words = ["kim", "--repo", votes, "--receipts", str(tmp_path / "kept"), "--json"]
    code, shown, said = forget(words, lab, "y\n")
    done = json.loads(shown.removeprefix(" y\n"))  # the runner repeats what is typed
    assert (code, done["rater"], done["deleted"]) == (0, "kim", 1)
    assert done["removal"]["files"] == {"votes/kim.jsonl": 1}
    assert held(stand, votes) == before | {"votes/kim.jsonl": line(8, BOB)}
    (receipt,) = (tmp_path / "kept").iterdir()
    assert json.loads(receipt.read_text()) == done["removal"]
    assert SQUASH.format(repo=votes) in said
    assert f"{votes} holds 1 lines that are no votes" in said


@pytest.fixture
def log_of(stand, tmp_path):
    """Return a log of votes on this Hub by its data set; the scheduler's own first turn is over."""
    made = []

    def start(name):
        made.append(VoteLog(stand.api(), name, tmp_path / "log", minutes=60))
        made[-1].push()
        return made[-1]

    yield start
    for log in made:
        log.stop()


def test_votes_go_to_a_private_data_set_and_each_is_pushed_once_also_one_written_during_a_push(
    stand, log_of, monkeypatch
):
    log = log_of("org/turned")
    log.write("1")
    before_commit(monkeypatch, lambda: log.write("2"))
    log.push()
    assert list(held(stand, "org/turned").values()) == ["1\n"]
    log.write("3")
    log.push()
    assert sorted(held(stand, "org/turned").values()) == ["1\n", "2\n3\n"]
    assert stand.hub.find("dataset", "org/turned").private


def log_with_an_answer_lost(stand, name, log, lines, raters, more):
    """Push lines without getting the answer, take raters out, push more."""
    for each in lines:
        log.write(each.rstrip("\n"))
    with pytest.raises(HubTrouble, match="cannot push votes"):
        log.push()
    removal(stand, name, raters)
    for each in more:
        log.write(each.rstrip("\n"))
    log.push()


@pytest.mark.parametrize(
    ("lines", "left"),
    [([line(1, ANN), line(2, BOB)], [line(2, BOB)]), ([line(1, ANN)], [])],
    ids=["some of a file", "a whole file"],
)
@pytest.mark.parametrize("more", [[], [line(9, BOB)]], ids=["nothing since", "a vote since"])
def test_a_push_whose_answer_was_lost_is_not_made_again_so_removed_lines_stay_away(stand, log_of, lines, left, more):
    name = f"org/lost-{len(lines)}-{len(more)}"
    log = log_of(name)
    stand.hub.faults.append(InjectedFault("POST", "/commit/", drop=True, after=True))
    log_with_an_answer_lost(stand, name, log, lines, [ANN], more)
    assert sorted(held(stand, name).values()) == sorted(left + more)


@pytest.mark.parametrize("after", [False, True], ids=["refused", "answer lost"])
def test_each_vote_stands_once_in_the_data_set_whether_a_push_or_its_answer_was_lost(stand, log_of, after):
    name = f"org/once-{after}"
    log = log_of(name)
    stand.hub.faults.append(InjectedFault("POST", "/commit/", drop=True, after=after))
    log_with_an_answer_lost(stand, name, log, [line(1, ANN)], [], [line(2, BOB)])
    assert "".join(sorted(held(stand, name).values())) == line(1, ANN) + line(2, BOB)
    repository = stand.hub.find("dataset", name)
    titles = [each.title for each in stand.hub.history(repository)]
    assert titles.count("Add votes") == (2 if after else 1)  # what was refused went with what followed


def test_rows_of_an_exported_data_set_go_too_from_jsonl_and_parquet_and_the_card_tells(stand, tmp_path):
    rows = [{"vote_id": f"v{number}", "rater": rater, "text": "up"} for number, rater in enumerate((ANN, BOB, ANN))]
    lines = [json.dumps(row).encode() + b"\n" for row in rows]
    sha256 = hashlib.sha256(b"".join(lines)).hexdigest()
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "train.parquet")
    stand.create("org/exported", "dataset")
    files = {
        "train.jsonl": b"".join(lines),
        "train.parquet": (tmp_path / "train.parquet").read_bytes(),
        "statistics.json": json.dumps({"rows_file": "train.jsonl", "rows_sha256": sha256}).encode(),
        "README.md": f"---\nlicense: cc-by-4.0\n---\nsha256 `{sha256}`\n".encode(),
    }
    stand.commit("org/exported", files, "dataset")
    stand.hub.log.clear()
    done = removal(stand, "org/exported", [ANN])
    assert (done.files, done.votes) == ({"train.jsonl": 2, "train.parquet": 2}, 2)
    assert stand.asked("POST", "/commit/") == 1
    left = {path: stand.read("org/exported", path, "dataset") for path in files}
    assert left["train.jsonl"] == lines[1]
    assert pq.read_table(io.BytesIO(left["train.parquet"])).to_pylist() == [rows[1]]
    now = hashlib.sha256(lines[1]).hexdigest()
    assert json.loads(left["statistics.json"])["rows_sha256"] == now
    assert now in left["README.md"].decode() and "rows were taken out" in left["README.md"].decode()
    assert removal(stand, "org/exported", [ANN]).votes == 0
