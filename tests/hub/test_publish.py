import zlib

import pytest

from hub.local import Fault
from tests.hub import calls, publishing
from tests.hub.runs import REVISION, sha256, write_run

ALLOWED = {
    "README.md",
    "adapter_config.json",
    "adapter_model.safetensors",
    "chain.json",
    "lineage.json",
    "metrics.jsonl",
    "run.json",
}


@pytest.fixture
def run(tmp_path):
    return write_run(tmp_path)


def on_main(stand, name):
    """Return what main holds, None if there is no such repository."""
    repository = stand.hub.repositories.find("model", name)
    if repository is None:
        return None
    return set(stand.hub.repositories.commit(repository, "main").tree) - {".gitattributes"}


@pytest.mark.parametrize("way", ["stand", "with_xet"])
def test_a_run_is_published_private_in_one_commit_tagged_and_receipted(way, request, run):
    stand = request.getfixturevalue(way)
    (receipt,) = stand.run(publishing.publish_run, run, "org/first")

    assert receipt.outcome == "published"
    assert on_main(stand, "org/first") == ALLOWED
    repository = stand.hub.repositories.find("model", "org/first")
    assert repository.private
    history = list(stand.hub.repositories.history(repository, stand.hub.repositories.commit(repository, "main")))
    assert len(history) == 2, "the Hub's own first commit, and ours"
    assert repository.refs["refs/tags/v1.0"] == receipt.revision == history[0].oid
    assert (run / "published/org--first.json").is_file()


def test_publishing_twice_says_that_all_is_there_and_commits_nothing(stand, run):
    (first,) = stand.run(publishing.publish_run, run, "org/twice")
    stand.hub.log.clear()
    (second,) = stand.run(publishing.publish_run, run, "org/twice")
    assert second.outcome == "already there"
    assert second.revision == first.revision
    assert stand.asked("POST", "/commit/") == 0


def test_a_dry_run_shows_the_plan_and_only_reads(stand, run):
    (plan,) = stand.run(publishing.plan_run, run, "org/dry")
    assert plan.is_new
    assert plan.visibility == "private"
    assert {each.path: each.change for each in plan.files} == dict.fromkeys(ALLOWED, "add")
    assert plan.upload_bytes == sum(each.size for each in plan.files)
    assert {each.method for each in stand.hub.log} <= {"GET"}
    assert on_main(stand, "org/dry") is None


def test_the_plan_tells_what_changes_what_stays_and_what_is_only_there(stand, run):
    stand.run(publishing.publish_run, run, "org/changes")
    stand.run(calls.commit, "org/changes", {"theirs.txt": b"kept"})
    (run / "metrics.jsonl").write_text('{"step": 2, "loss": 0.25}\n')
    (plan,) = stand.run(publishing.plan_run, run, "org/changes", tag="v1.1")
    changes = {each.path: each.change for each in plan.files}
    assert changes["metrics.jsonl"] == changes["README.md"] == "change"
    assert changes["adapter_model.safetensors"] == "same"
    assert changes["theirs.txt"] == "remote_only"


def test_a_chain_is_published_in_order_and_pinned_and_comes_back_bit_for_bit(stand, tmp_path):
    run = write_run(tmp_path / "here", stages=("sft", "grpo"))
    first, last = stand.run(publishing.publish_run, run, "org/chain")
    assert (first.repo, last.repo) == ("org/chain-sft", "org/chain")
    card = stand.run(calls.fetch, "org/chain", "README.md").decode()
    assert f'"org/chain-sft", revision="{first.revision}"' in card
    assert f'revision="{REVISION}"' in card

    back = tmp_path / "back" / "chain"
    assert stand.run(publishing.add_chain, "org/chain@v1.0", back) == ["sft", "grpo"]
    for mine, theirs in (("sft/adapter", "stages/sft/adapter"), ("grpo/adapter", "adapter")):
        for name in ("adapter_model.safetensors", "adapter_config.json"):
            assert sha256(tmp_path / "here" / mine / name) == sha256(back / theirs / name)
    again = stand.run(publishing.publish_run, run, "org/chain")
    assert [each.outcome for each in again] == ["already there", "already there"]


def test_a_chain_whose_stage_was_exchanged_is_not_taken(stand, tmp_path):
    run = write_run(tmp_path / "here", stages=("sft", "grpo"))
    stand.run(publishing.publish_run, run, "org/swapped")
    other = (tmp_path / "here/grpo/adapter/adapter_model.safetensors").read_bytes()
    stand.run(calls.commit, "org/swapped", {"adapter_model.safetensors": other + b" "})
    message = stand.run(publishing.add_chain, "org/swapped", tmp_path / "back")
    assert "is not the one that org/swapped was published with" in message
    assert not (tmp_path / "back").exists()


def test_a_chain_that_names_places_outside_is_not_taken(stand, tmp_path):
    run = write_run(tmp_path / "here")
    stand.run(publishing.publish_run, run, "org/outside")
    chain = stand.run(calls.fetch, "org/outside", "chain.json")
    wrong = chain.replace(b'"path": "adapter"', b'"path": "../../adapter"')
    assert wrong != chain
    stand.run(calls.commit, "org/outside", {"chain.json": wrong})
    message = stand.run(publishing.add_chain, "org/outside", tmp_path / "back")
    assert "name places outside of the chain" in message
    assert not (tmp_path / "back").exists()


def test_it_becomes_public_only_when_asked_and_only_after_it_was_verified(stand, run):
    stand.run(publishing.publish_run, run, "org/open", is_public=True)
    assert not stand.hub.repositories.find("model", "org/open").private
    asked = [each.path for each in stand.hub.log]
    shown = next(at for at, path in enumerate(asked) if path.endswith("/settings"))
    last_read = max(at for at, path in enumerate(asked) if "/resolve/" in path)
    assert shown > last_read


def test_nothing_goes_to_a_public_repository_unless_public_was_said(stand, run):
    stand.run(calls.create, "org/seen", private=False)
    message = stand.run(publishing.publish_run, run, "org/seen")
    assert "--public" in message
    assert on_main(stand, "org/seen") == set()


def test_a_version_never_changes(stand, run):
    stand.run(publishing.publish_run, run, "org/versions")
    (run / "metrics.jsonl").write_text("{}\n")
    message = stand.run(publishing.publish_run, run, "org/versions")
    assert "a version never changes" in message
    (second,) = stand.run(publishing.publish_run, run, "org/versions", tag="v1.1")
    assert set(stand.run(publishing.tags, "org/versions")) == {"v1.0", "v1.1"}
    assert second.outcome == "published"


def test_a_proposal_to_a_repository_of_others_is_opened_once_and_leaves_main_alone(stand, run):
    stand.run(calls.create, "org/theirs", private=False)
    (first,) = stand.run(publishing.publish_run, run, "org/theirs", create_pr=True)
    assert first.pull_request == 1
    assert on_main(stand, "org/theirs") == set()
    (again,) = stand.run(publishing.publish_run, run, "org/theirs", create_pr=True)
    assert (again.pull_request, again.outcome) == (1, "already there")


STEPS = {
    "making the repository": ("POST", "/api/repos/create"),
    "looking": ("GET", "/api/models/[^/]+/[^/]+(/revision|/tree|/refs|$)"),
    "asking how to upload": ("POST", "/preupload/"),
    "asking where to upload": ("POST", "/objects/batch"),
    "sending the bytes": ("PUT", "/_lfs/"),
    "committing": ("POST", "/commit/"),
    "downloading again": ("GET", "/resolve/"),
    "tagging": ("POST", "/tag/"),
}
TROUBLES = {
    "403": {"status": 403},
    "409": {"status": 409},
    "412": {"status": 412},
    "500": {"status": 500},
    "torn": {"drop": True},
    "answer lost": {"drop": True, "after": True},
}


@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.parametrize("step", STEPS)
def test_whatever_fails_main_is_never_half_published_and_a_second_run_completes(stand, run, step, trouble):
    method, match = STEPS[step]
    name = f"org/{step}-{trouble}".replace(" ", "-")
    # Every run has bytes of its own, or the Hub would have them already and nothing would be sent.
    stand.run(freshen, run, name)
    fault = Fault(method, match, **TROUBLES[trouble], times=1)
    stand.hub.faults.append(fault)

    first = stand.run(publishing.publish_run, run, name)

    assert fault.times == 0, "the fault must have struck"
    assert on_main(stand, name) in (None, set(), ALLOWED)
    if isinstance(first, str):
        assert len(first) > 40, "the message says what to do"
    (second,) = stand.run(publishing.publish_run, run, name)
    assert on_main(stand, name) == ALLOWED
    assert stand.run(publishing.tags, name) == {"v1.0": second.revision}


def freshen(run, name):
    """Give a run weights that no other run has (in the client's process)."""
    from tests.hub.runs import CONFIG, refit, tensors, write_adapter

    write_adapter(run / "adapter", tensors(zlib.crc32(name.encode())), CONFIG)
    refit(run)


def test_somebody_elses_commit_meanwhile_is_never_overwritten(stand, run):
    stand.run(calls.create, "org/raced", private=True)
    # The commit is refused once; before it is tried again somebody else commits.
    message = stand.run(race, run, "org/raced")
    assert "somebody committed meanwhile" in message
    assert on_main(stand, "org/raced") == {"theirs.txt"}
    (receipt,) = stand.run(publishing.publish_run, run, "org/raced")
    assert receipt.outcome == "published"


def race(run, name):
    """Publish, with another commit slipped in before ours (in the client's process)."""
    from huggingface_hub import HfApi

    original = HfApi.create_commit

    def slower(self, *words, **named):
        HfApi.create_commit = original
        calls.commit(name, {"theirs.txt": b"first"})
        return original(self, *words, **named)

    HfApi.create_commit = slower
    try:
        return publishing.publish_run(run, name)
    finally:
        HfApi.create_commit = original
