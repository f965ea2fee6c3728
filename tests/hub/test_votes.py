"""Votes that an arena pushes to its data set: each stands there once, whatever fails."""

import pytest
from huggingface_hub import CommitOperationDelete

from hub.client import HubTrouble
from hub.votes import VoteLog
from tests.hub.conftest import before
from tests.hub.local import InjectedFault


def held(stand, name):
    """Return the files of votes on main with their text."""
    paths = [path for path in stand.on_main(name, "dataset") if path.startswith("votes/")]
    return {path: stand.read(name, path, "dataset").decode() for path in paths}


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
    before(monkeypatch, "create_commit", lambda: log.write("2"))
    log.push()
    assert list(held(stand, "org/turned").values()) == ["1\n"]
    log.write("3")
    log.push()
    assert sorted(held(stand, "org/turned").values()) == ["1\n", "2\n3\n"]
    assert stand.hub.find("dataset", "org/turned").private


@pytest.mark.parametrize("after", [False, True], ids=["refused", "answer lost"])
def test_each_vote_stands_once_in_the_data_set_whether_a_push_or_its_answer_was_lost(stand, log_of, after):
    log = log_of(name := f"org/once-{after}")
    stand.hub.faults.append(InjectedFault("POST", "/commit/", drop=True, after=after))
    log.write("1")
    with pytest.raises(HubTrouble, match="cannot push votes"):
        log.push()
    log.write("2")
    log.push()
    assert "".join(sorted(held(stand, name).values())) == "1\n2\n"
    titles = [each.title for each in stand.hub.history(stand.hub.find("dataset", name))]
    assert titles.count("Add votes") == (2 if after else 1)  # what was refused went with what followed


def test_a_file_of_votes_that_was_removed_on_the_hub_is_not_pushed_again(stand, log_of):
    log = log_of(name := "org/taken-out")
    stand.hub.faults.append(InjectedFault("POST", "/commit/", drop=True, after=True))
    log.write("1")
    with pytest.raises(HubTrouble, match="cannot push votes"):
        log.push()
    gone = [CommitOperationDelete(path) for path in held(stand, name)]
    stand.api().create_commit(name, gone, commit_message="Remove a rater's votes", repo_type="dataset")
    log.write("2")
    log.push()
    assert list(held(stand, name).values()) == ["2\n"]
