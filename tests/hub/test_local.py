import os

import pytest

from hub.local import Fault, Hub
from tests.hub import calls
from tests.hub.client import OTHER

BINARY = bytes(range(256)) * 300


def test_a_token_says_who_you_are_and_a_wrong_one_is_refused(stand):
    assert stand.run(calls.whoami) == "tester"
    assert stand.run(calls.attempt, calls.whoami, "hf_wrong") == ("HfHubHTTPError", 401)


@pytest.mark.parametrize("way", ["stand", "with_xet"])
def test_what_is_uploaded_comes_back_the_same_by_either_protocol(way, request, tmp_path):
    chosen = request.getfixturevalue(way)
    name = "org/both-ways"
    files = {"weights.safetensors": BINARY, "deep/er/notes.txt": b"plain", "empty.txt": b""}
    folder = tmp_path / "up"
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    first = chosen.run(calls.upload_folder, name, folder)

    found = chosen.run(calls.snapshot, name, tmp_path / "down")

    assert {path: found[path] for path in files} == files
    assert chosen.run(calls.checksums, name, tmp_path / "down") == (4, 0)
    assert chosen.run(calls.upload_folder, name, folder) == first, "nothing changed, no commit"


def test_every_kind_of_repository_takes_commits(stand, tmp_path):
    for kind in ("model", "dataset", "space"):
        named = {"space_sdk": "gradio"} if kind == "space" else {}
        stand.run(calls.create, "org/kinds", kind, **named)
        stand.run(calls.commit, "org/kinds", {"a.txt": kind.encode()}, kind)
        assert stand.run(calls.snapshot, "org/kinds", tmp_path / kind, kind)["a.txt"] == kind.encode()


def test_a_part_of_a_file_can_be_read(stand):
    stand.run(calls.create, "org/ranges")
    stand.run(calls.commit, "org/ranges", {"data.bin": BINARY})
    assert stand.run(calls.piece, "org/ranges", "data.bin", 10, 19) == (206, BINARY[10:20])


def test_a_pull_request_leaves_main_alone_until_it_is_merged(stand):
    stand.run(calls.create, "org/pulls")
    before, proposed, after = stand.run(calls.pull_request_story, "org/pulls")
    assert "new.txt" not in before
    assert "new.txt" in proposed
    assert after == proposed


def test_a_tag_stays_where_it_was_set_and_cannot_be_set_twice(stand):
    stand.run(calls.create, "org/tags")
    oid, tagged, names = stand.run(calls.tag_story, "org/tags")
    assert oid == tagged
    assert names == ["v1"]
    assert stand.run(calls.attempt, calls.make_tag_twice, "org/tags") == ("HfHubHTTPError", 409)


def test_a_stale_parent_is_refused(stand):
    stand.run(calls.create, "org/stale")
    old = stand.run(calls.head, "org/stale")
    stand.run(calls.commit, "org/stale", {"a.txt": b"1"})
    refused = stand.run(calls.attempt, calls.commit, "org/stale", {"a.txt": b"2"}, parent_commit=old)
    assert refused == ("HfHubHTTPError", 412)


def test_a_private_repository_is_not_there_for_others(stand):
    stand.run(calls.create, "org/hidden", private=True)
    refused = stand.run(calls.attempt, calls.info, "org/hidden", False)
    assert refused == ("RepositoryNotFoundError", 401)
    stand.run(calls.create, "tester/mine", private=True)
    found = stand.run(calls.attempt, calls.info, "tester/mine", OTHER)
    assert found == ("RepositoryNotFoundError", 404)


def test_nobody_writes_to_the_repository_of_another(stand):
    stand.run(calls.create, "tester/public")
    refused = stand.run(calls.attempt, calls.commit, "tester/public", {"a": b"1"}, token=OTHER)
    assert refused == ("HfHubHTTPError", 403)
    assert stand.run(calls.attempt, calls.create, "tester/new", token=OTHER)[1] == 403


def test_a_gated_repository_is_seen_but_not_read_by_others(stand):
    stand.run(calls.create, "tester/gated")
    stand.run(calls.change_settings, "tester/gated", gated="manual")
    assert stand.run(calls.info, "tester/gated", OTHER) == "tester/gated"
    found = stand.run(calls.attempt, calls.fetch, "tester/gated", ".gitattributes", OTHER)
    assert found == ("GatedRepoError", 403)


def test_a_long_listing_comes_in_pages(stand):
    stand.run(calls.create, "org/pages")
    stand.run(calls.commit, "org/pages", {f"many/{n:04}.txt": b"x" for n in range(1100)})
    assert len(stand.run(calls.files, "org/pages")) == 1101
    assert stand.asked("GET", "/tree/") >= 2


MISSING = [
    (calls.fetch, ("org/nowhere", "a.txt"), "RepositoryNotFoundError"),
    (calls.fetch, ("org/somewhere", "a.txt"), "RemoteEntryNotFoundError"),
    (calls.files, ("org/nowhere",), "RepositoryNotFoundError"),
]


@pytest.mark.parametrize(("call", "words", "error"), MISSING)
def test_what_is_missing_is_told_by_the_clients_own_errors(stand, call, words, error):
    stand.run(calls.create, "org/somewhere")
    assert stand.run(calls.attempt, call, *words)[0] == error


BAD_NAMES = ["org/a--b", "org/.x", "org/" + "n" * 97, "org/a.git", "org/é"]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_bad_name_makes_no_repository(stand, name):
    assert stand.run(calls.attempt, calls.create, name)[0] != "nothing"


CARDS = [
    ("---\nlicense: foo\n---\n", "license"),
    ("---\nbase_model: /home/me/base\n---\n", "base_model"),
    ("---\nbase_model_relation: child\n---\n", "base_model_relation"),
    ("---\ntags: [1, 2]\n---\n", "tags"),
    ("---\nlicense: other\n---\n", "license_name"),
    ("---\n- a\n---\n", "dict"),
    ("---\nmodel-index: [{name: a}]\n---\n", "results"),
    ("---\nmodel-index: [{name: a, results: [{task: {type: t}}]}]\n---\n", "dataset"),
]


@pytest.mark.parametrize(("text", "word"), CARDS)
def test_a_card_that_the_hub_refuses_is_refused_here_and_nothing_is_committed(stand, text, word):
    assert word in stand.run(calls.card_problems, text)
    stand.run(calls.create, "org/cards")
    head = stand.run(calls.head, "org/cards")
    refused = stand.run(calls.attempt, calls.commit, "org/cards", {"README.md": text.encode()})
    assert refused[0] == "ValueError"
    assert stand.run(calls.head, "org/cards") == head


def test_a_good_card_is_taken(stand):
    assert stand.run(calls.card_problems, "---\nlicense: mit\nbase_model: a/b\n---\n# A") is None


def test_everything_is_there_after_a_restart(stand):
    stand.run(calls.create, "org/kept", private=True)
    stand.run(calls.commit, "org/kept", {"a.txt": b"kept"})
    again = Hub(stand.hub.objects.folder.parent)
    repository = again.repositories.find("model", "org/kept")
    commit = again.repositories.commit(repository, "main")
    assert repository.private
    assert again.objects.read(commit.tree["a.txt"].sha256) == b"kept"


FAULTS = [
    (Fault("POST", "/commit/", status=500), False),
    (Fault("POST", "/commit/", drop=True), False),
    (Fault("POST", "/commit/", drop=True, after=True), True),
    (Fault("PUT", "/_lfs/", status=403), False),
    (Fault("POST", "/commit/", status=409), False),
]


@pytest.mark.parametrize(("fault", "has_landed"), FAULTS)
def test_a_fault_strikes_where_it_was_asked_for_and_main_is_whole_either_way(stand, fault, has_landed):
    name = f"org/fault-{FAULTS.index((fault, has_landed))}"
    stand.run(calls.create, name)
    stand.hub.faults.append(fault)
    result = stand.run(calls.attempt, calls.commit, name, {"w.bin": os.urandom(5000), "a.txt": b"1"})
    assert result[0] != "nothing"
    assert ("w.bin" in stand.run(calls.files, name)) == has_landed
    assert ("a.txt" in stand.run(calls.files, name)) == has_landed


def test_an_upload_torn_in_the_middle_leaves_no_object(stand):
    stand.run(calls.create, "org/torn")
    content = os.urandom(3_000_000)
    before = {path.name for path in stand.hub.objects.folder.iterdir()}
    stand.hub.faults.append(Fault("PUT", "/_lfs/", drop=True, times=20))
    assert stand.run(calls.attempt, calls.commit, "org/torn", {"w.bin": content})[0] != "nothing"
    assert {path.name for path in stand.hub.objects.folder.iterdir()} == before
