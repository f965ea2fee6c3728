"""The Hub on this machine, asked by the real client."""

import pytest
from huggingface_hub import ModelCard, get_session, hf_hub_download, hf_hub_url, snapshot_download

from tests.hub.cases import CASES
from tests.hub.conftest import OTHER

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
    assert refused(lambda: stand.commit("org/cards", {f"{n}.txt": b"x" for n in range(101)}))[1] == 504
