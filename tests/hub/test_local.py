"""The Hub on this machine, asked by the real client."""

import base64
import json
import os

import pytest
from huggingface_hub import ModelCard, get_session, hf_hub_download, hf_hub_url, snapshot_download

from tests.hub.cases import CASES
from tests.hub.conftest import OTHER, TOKEN
from tests.hub.local import handlers

BINARY = bytes(range(256)) * 300


def refused(work):
    """Return the name of the error that a call raises, and its status."""
    try:
        work()
    except Exception as error:
        return type(error).__name__, getattr(getattr(error, "response", None), "status_code", None)
    return "nothing", None


def test_what_is_uploaded_comes_back_the_same_and_a_part_of_a_file_can_be_read(stand, tmp_path):
    files = {"weights.safetensors": BINARY, "deep/er/notes.txt": b"plain", "empty.txt": b""}
    for path, content in files.items():
        (tmp_path / "up" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "up" / path).write_bytes(content)
    for kind in ("model", "dataset", "space"):
        named = {"space_sdk": "gradio"} if kind == "space" else {}
        stand.create("org/ways", kind, **named)
        where = {"repo_id": "org/ways", "repo_type": kind}
        commits = [stand.api().upload_folder(**where, folder_path=tmp_path / "up").oid for _ in range(2)]
        assert commits[0] == commits[1], "nothing changed, no commit"
        down = snapshot_download(**where, local_dir=tmp_path / kind)
        assert {path: (tmp_path / kind / path).read_bytes() for path in files} == files
        checked = stand.api().verify_repo_checksums(**where, local_dir=down)
        assert (checked.checked_count, len(checked.mismatches)) == (4, 0)
    url, part = hf_hub_url("org/ways", "weights.safetensors"), {"Range": "bytes=10-19"}
    answer = get_session().get(url, headers=part, follow_redirects=True)
    assert (answer.status_code, answer.content) == (206, BINARY[10:20])


def test_who_may_see_read_and_write_is_as_on_the_hub(stand):
    assert stand.api().whoami()["name"] == "tester"
    assert refused(lambda: stand.api("hf_wrong").whoami()) == ("HfHubHTTPError", 401)
    stand.create("tester/mine", private=True)
    assert refused(lambda: stand.api(False).model_info("tester/mine")) == ("RepositoryNotFoundError", 401)
    assert refused(lambda: stand.api(OTHER).model_info("tester/mine")) == ("RepositoryNotFoundError", 404)
    stand.create("tester/public")
    assert refused(lambda: stand.commit("tester/public", {"a": b"1"}, token=OTHER)) == ("HfHubHTTPError", 403)
    assert refused(lambda: stand.api(OTHER).create_repo("tester/new"))[1] == 403
    stand.create("tester/gated")
    stand.api().update_repo_settings("tester/gated", gated="manual")
    assert stand.api(OTHER).model_info("tester/gated").id == "tester/gated"
    found = refused(lambda: hf_hub_download("tester/gated", ".gitattributes", token=OTHER))
    assert found == ("GatedRepoError", 403)


def lines(stand, name, *changes):
    """Send a commit as a client would that does not ask how to upload; return the answer's status and words."""
    header = {"key": "header", "value": {"summary": "a change"}}
    body = "\n".join(json.dumps(each) for each in (header, *({"key": "file", "value": each} for each in changes)))
    token = {"Authorization": f"Bearer {TOKEN}"}
    answer = get_session().post(f"{stand.url}/api/models/{name}/commit/main", content=body, headers=token)
    return answer.status_code, answer.text


def file_of(path, content=b"x"):
    return {"path": path, "content": base64.b64encode(content).decode(), "encoding": "base64"}


def test_a_commit_is_refused_where_the_hub_refuses_it(stand, monkeypatch):
    stand.create("org/limits")
    stand.commit("org/limits", {f"full/{n}.txt": b"x" for n in range(50)})
    assert handlers.MOST_IN_FOLDER == 10_000
    monkeypatch.setattr(handlers, "MOST_IN_FOLDER", 50)
    wrong = {
        "11 MB of text": ([file_of("a.txt", b"x" * 11_000_000)], 400, "larger than 10 MiB"),
        "2 MB of weights": ([file_of("a.safetensors", bytes(2_000_000))], 400, "binary files"),
        "one more in a full folder": ([file_of("full/more.txt")], 400, "would hold 51 entries"),
        "too many at once": ([file_of(f"{n % 9}/{n}.txt") for n in range(1501)], 504, "takes too long"),
        "a file as a folder": ([file_of("full")], 400, "nothing can lie below"),
        "a control character": ([file_of("a\tb.txt")], 400, "Invalid path"),
        "a huge request": ([file_of("a.txt", b"x" * 80_000_000)], 413, "too large"),
    }
    before = stand.on_main("org/limits")
    for name, (changes, status, words) in wrong.items():
        found = lines(stand, "org/limits", *changes)
        assert found[0] == status, name
        assert words in found[1], name
    assert stand.on_main("org/limits") == before


def test_a_large_file_goes_in_parts_and_comes_back_whole(stand, tmp_path, monkeypatch):
    monkeypatch.setattr(stand.hub, "chunk_bytes", 1000)
    stand.create("org/parts")
    stand.commit("org/parts", {"w.bin": (content := os.urandom(3500))})
    assert stand.asked("PUT", "/_lfs/") == 4
    assert stand.read("org/parts", "w.bin") == content
    assert list(stand.hub.contents.glob("*.part")) == []


def test_a_long_listing_comes_in_pages(stand, monkeypatch):
    monkeypatch.setattr(handlers, "PAGE", 50)
    stand.create("org/pages")
    stand.commit("org/pages", {f"many/{n:04}.txt": b"x" for n in range(90)})
    assert len(stand.api().list_repo_files("org/pages")) == 91
    assert stand.asked("GET", "/tree/") >= 2


@pytest.mark.filterwarnings("ignore::UserWarning")  # the client tells what the Hub only warns of
def test_a_card_that_the_hub_refuses_is_refused_here_and_nothing_is_committed(stand):
    stand.create("org/cards")
    for text, word in CASES["refused_cards"]:
        card = f"---\n{text}\n---\n"
        with pytest.raises(ValueError, match=word):
            ModelCard(card).validate()
        assert refused(lambda card=card: stand.commit("org/cards", {"README.md": card.encode()}))[0] == "ValueError"
    assert stand.on_main("org/cards") == set()
    ModelCard("---\nlicense: mit\nbase_model: a/b\n---\n# A").validate()


def test_tags_titles_and_commits_that_the_hub_refuses_or_advises_against_are_refused_here(stand):
    stand.create("org/strict")
    stand.api().create_tag("org/strict", tag="v1")
    for tag in ("-x", "a..b", "v 1", "v1.0~1", "x.lock", ".x", "a//b", "v1/2", "HEAD", "@{x"):
        assert refused(lambda tag=tag: stand.api().create_tag("org/strict", tag=tag))[1] == 400, tag
    for title in (" ", "x" * 151):
        assert refused(lambda title=title: stand.api().create_collection(title))[1] == 400, title
    many = {f"{n}.txt": b"x" for n in range(101)}
    assert refused(lambda: stand.commit("org/strict", many))[1] == 504
