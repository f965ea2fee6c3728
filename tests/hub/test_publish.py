"""A run on its way to the Hub: in order, whole, and completed by a second run whatever went wrong in the first."""

import itertools
import tempfile
import time
import zlib

import pytest
from filelock import FileLock
from huggingface_hub import HfApi

from hub.adapters import Publication
from hub.chains import plan_chain
from tests.hub.conftest import OTHER
from tests.hub.local import InjectedFault
from tests.hub.runs import CONFIG, REVISION, change_manifest, refit, sha256, tensors, write_adapter, write_run

ALLOWED = {
    "LICENSE",
    *("README.md", "adapter_config.json", "adapter_model.safetensors"),
    *("chain.json", "lineage.json", "metrics.jsonl", "run.json"),
}
SFT = "stages/sft/adapter/adapter_model.safetensors"


@pytest.fixture
def run(tmp_path):
    return write_run(tmp_path)


def test_a_run_is_published_private_in_one_commit_tagged_and_receipted(stand, run):
    (receipt,) = stand.publish(run, "org/first")
    assert receipt.outcome == "published"
    assert stand.on_main("org/first") == ALLOWED
    repository = stand.hub.find("model", "org/first")
    assert repository.private
    history = list(stand.hub.history(repository))
    assert len(history) == 2, "the Hub's own first commit, and ours"
    assert repository.refs["refs/tags/v1.0"] == receipt.revision == history[0].oid
    assert (run / "published/org--first.json").is_file()
    stand.hub.log.clear()
    (second,) = stand.publish(run, "org/first")
    assert (second.outcome, second.revision) == ("already there", receipt.revision)
    assert stand.asked("POST", "/commit/") == 0


def test_a_dry_run_shows_the_plan_and_only_reads(stand, run):
    (plan,) = stand.plan(run, "org/dry")
    assert plan.is_new
    assert plan.visibility == "private"
    assert {each.path: each.change for each in plan.files} == dict.fromkeys(ALLOWED, "add")
    assert plan.upload_bytes == sum(each.size for each in plan.files)
    assert stand.only_read()
    assert stand.on_main("org/dry") is None


def test_the_plan_tells_what_changes_what_stays_and_what_is_only_there(stand, run):
    stand.publish(run, "org/changes")
    stand.commit("org/changes", {"theirs.txt": b"kept"})
    (run / "metrics.jsonl").write_text('{"step": 2, "loss": 0.25}\n')
    (plan,) = stand.plan(run, "org/changes", tag="v1.1")
    changes = {each.path: each.change for each in plan.files}
    assert changes["metrics.jsonl"] == changes["README.md"] == "change"
    assert changes["adapter_model.safetensors"] == "same"
    assert changes["theirs.txt"] == "remote_only"


def test_a_chain_is_published_in_order_and_pinned_and_comes_back_bit_for_bit(stand, tmp_path):
    run = write_run(tmp_path / "here", stages=("sft", "grpo"))
    first, last = stand.publish(run, "org/chain")
    assert (first.repo, last.repo) == ("org/chain-sft", "org/chain")
    card = stand.read("org/chain", "README.md").decode()
    assert f'"org/chain-sft", revision="{first.revision}"' in card
    assert f'revision="{REVISION}"' in card
    back = tmp_path / "back" / "chain"
    assert stand.add_chain("org/chain@v1.0", back) == ["sft", "grpo"]
    for mine, theirs in (("sft/adapter", "stages/sft/adapter"), ("grpo/adapter", "adapter")):
        for name in ("adapter_model.safetensors", "adapter_config.json"):
            assert sha256(tmp_path / "here" / mine / name) == sha256(back / theirs / name)
    assert [each.outcome for each in stand.publish(run, "org/chain")] == ["already there", "already there"]


def test_a_chain_whose_stage_was_exchanged_or_that_names_places_outside_is_not_taken(stand, tmp_path):
    run = write_run(tmp_path / "here", stages=("sft", "grpo"))
    stand.publish(run, "org/swapped")
    other = (tmp_path / "here/grpo/adapter/adapter_model.safetensors").read_bytes()
    stand.commit("org/swapped", {"adapter_model.safetensors": other + b" "})
    message = stand.add_chain("org/swapped", tmp_path / "back")
    assert "is not the one that org/swapped was published with" in message
    chain = stand.read("org/swapped", "chain.json")
    wrong = chain.replace(b'"path": "adapter"', b'"path": "../../adapter"')
    assert wrong != chain
    stand.commit("org/swapped", {"chain.json": wrong})
    assert "name places outside of the chain" in stand.add_chain("org/swapped", tmp_path / "back")
    assert not (tmp_path / "back").exists()


def test_it_becomes_public_only_when_asked_and_only_after_it_was_verified(stand, run):
    stand.publish(run, "org/open", is_public=True)
    assert not stand.hub.find("model", "org/open").private
    asked = [each.path for each in stand.hub.log]
    shown = next(at for at, path in enumerate(asked) if path.endswith("/settings"))
    assert shown > max(at for at, path in enumerate(asked) if "/resolve/" in path)


def test_nothing_goes_to_a_public_repository_unless_public_was_said(stand, run):
    stand.create("org/seen", private=False)
    assert "--public" in stand.publish(run, "org/seen")
    assert stand.on_main("org/seen") == set()


def test_a_version_never_changes(stand, run):
    stand.publish(run, "org/versions")
    (run / "metrics.jsonl").write_text("{}\n")
    assert "a version never changes" in stand.publish(run, "org/versions")
    (second,) = stand.publish(run, "org/versions", tag="v1.1")
    assert second.outcome == "published"
    assert {"refs/tags/v1.0", "refs/tags/v1.1"} <= set(stand.hub.find("model", "org/versions").refs)


def test_a_proposal_to_a_repository_of_others_is_opened_once_and_leaves_main_alone(stand, run):
    stand.create("org/theirs", private=False)
    (first,) = stand.publish(run, "org/theirs", is_pull_request=True)
    assert first.pull_request == 1
    assert stand.on_main("org/theirs") == set()
    (again,) = stand.publish(run, "org/theirs", is_pull_request=True)
    assert (again.pull_request, again.outcome) == (1, "already there")


@pytest.mark.parametrize("trouble", [{"status": 500}, {"drop": True, "after": True}], ids=["500", "answer lost"])
def test_a_proposal_that_failed_is_opened_once_by_the_next_run(stand, run, trouble):
    name = f"org/proposed-{len(trouble)}"
    stand.create(name, private=False)
    stand.hub.faults.append(InjectedFault("POST", "/commit/", **trouble))
    stand.publish(run, name, is_pull_request=True)
    (receipt,) = stand.publish(run, name, is_pull_request=True)
    assert receipt.pull_request == 1
    assert len(stand.hub.find("model", name).discussions) == 1
    assert stand.on_main(name) == set()


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
QUICK = {("committing", "answer lost"), ("sending the bytes", "403"), ("downloading again", "500")}
TRIED = [
    pytest.param(*each, marks=[] if each in QUICK else pytest.mark.slow) for each in itertools.product(STEPS, TROUBLES)
]


@pytest.mark.parametrize(("step", "trouble"), TRIED)
def test_whatever_fails_main_is_never_half_published_and_a_second_run_completes(stand, run, step, trouble):
    name = f"org/{step}-{trouble}".replace(" ", "-")
    freshen(run, name)
    fault = InjectedFault(*STEPS[step], **TROUBLES[trouble], times=1)
    stand.hub.faults.append(fault)
    first = stand.publish(run, name)
    assert fault.times == 0, "the fault must have struck"
    assert not isinstance(first, str) or len(first) > 40, "the message says what to do"
    completes(stand, run, name)


class Killed(BaseException):
    """The process ends here: nothing of ours catches this."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "is_after"),
    [*itertools.product(("create_repo", "create_commit", "create_tag"), (False, True)), ("preupload_lfs_files", True)],
)
def test_a_process_killed_at_any_step_leaves_main_whole_and_the_next_one_completes(
    stand, run, method, is_after, monkeypatch
):
    name = f"org/killed-{method}-{is_after}".replace("_", "-")
    freshen(run, name)
    original = getattr(HfApi, method)

    def dying(self, *words, **named):
        if is_after:
            original(self, *words, **named)
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(HfApi, method, dying)
        with pytest.raises(Killed):
            stand.publish(run, name)
    completes(stand, run, name)


def completes(stand, run, name):
    """Look at what was left, publish again, and look at what is there."""
    assert stand.on_main(name) in (None, set(), ALLOWED)
    (receipt,) = stand.publish(run, name)
    assert stand.on_main(name) == ALLOWED
    assert stand.hub.find("model", name).refs["refs/tags/v1.0"] == receipt.revision


def freshen(run, name):
    """Give a run weights that no other run has, or the Hub would have them already and nothing would be sent."""
    write_adapter(run / "adapter", tensors(zlib.crc32(name.encode())), CONFIG)
    refit(run)


def test_a_chain_that_stops_between_its_stages_goes_on_there(stand, tmp_path):
    run = write_run(tmp_path, stages=("sft", "grpo"))
    stand.hub.faults.append(InjectedFault("POST", "/org/halfway/commit/", status=403))
    assert "403" in stand.publish(run, "org/halfway")
    assert stand.on_main("org/halfway-sft") == ALLOWED
    assert stand.on_main("org/halfway") == set()
    first, last = stand.publish(run, "org/halfway")
    assert (first.outcome, last.outcome) == ("already there", "published")


def test_somebody_elses_commit_meanwhile_is_never_overwritten(stand, run, monkeypatch):
    stand.create("org/raced", private=True)
    original = HfApi.create_commit

    def slower(self, *words, **named):
        monkeypatch.setattr(HfApi, "create_commit", original)
        stand.commit("org/raced", {"theirs.txt": b"first"})
        return original(self, *words, **named)

    monkeypatch.setattr(HfApi, "create_commit", slower)
    assert "somebody committed meanwhile" in stand.publish(run, "org/raced")
    assert stand.on_main("org/raced") == {"theirs.txt"}
    assert "--replace" in stand.publish(run, "org/raced")
    (receipt,) = stand.publish(run, "org/raced", replaces=True)
    assert receipt.outcome == "published"


def test_what_is_not_ours_or_stands_on_another_base_is_shown_and_needs_replace(stand, run, tmp_path):
    stand.create("org/byhand", private=True)
    stand.commit("org/byhand", {"weights.bin": b"theirs"})
    assert "holds 1 files that Assay did not publish (last change: 'a change')" in stand.publish(run, "org/byhand")
    assert stand.on_main("org/byhand") == {"weights.bin"}
    other = write_run(tmp_path / "other")
    change_manifest(other, base={"hub_id": "org/other-base"})
    write_adapter(other / "adapter", tensors(), {**CONFIG, "base_model_name_or_path": "org/other-base"})
    refit(other)
    stand.publish(run, "org/ours")
    message = stand.plan(other, "org/ours", tag="v2.0")
    assert "stands on the base org/base; what you publish stands on org/other-base. Add --replace" in message
    (plan,) = stand.plan(other, "org/ours", tag="v2.0", replaces=True)
    assert plan.parent


def test_a_dry_run_tells_what_would_be_refused_and_only_reads(stand, run, monkeypatch):
    stand.hub.tokens["hf_reads"] = "tester"
    monkeypatch.setattr(stand.hub, "readers", frozenset(["hf_reads"]))
    stand.create("org/taken", private=False)
    stand.create("org/before")
    stand.api().move_repo("org/before", "org/after")
    stand.hub.log.clear()
    told = {
        "a token that only reads": (stand.api("hf_reads"), "org/new", "the token of tester may only read"),
        "a namespace of others": (stand.api(), "elsewhere/run", "yours: tester, org"),
        "a name that is taken": (stand.api(OTHER), "tester/mine", "yours: stranger, org"),
        "a renamed repository": (stand.api(), "org/before", "org/before leads to org/after"),
        "another spelling": (stand.api(), "org/AFTER", "org/AFTER leads to org/after"),
        "nobody": (stand.api("hf_wrong"), "org/new", "the token is missing or wrong"),
    }
    for name, (api, repo, words) in told.items():
        message = stand.attempt(lambda api=api, repo=repo: plan_chain(api, run, Publication(repo)))
        assert words in str(message), name
    assert stand.only_read()


def test_the_same_again_without_public_leaves_a_public_repository_as_it_is(stand, run):
    stand.publish(run, "org/opened", is_public=True)
    (receipt,) = stand.publish(run, "org/opened")
    assert (receipt.outcome, receipt.visibility) == ("already there", "public")
    (run / "metrics.jsonl").write_text("{}\n")
    assert "--public" in stand.publish(run, "org/opened", tag="v1.1")


def test_a_folder_without_room_for_the_receipt_is_told_before_anything_is_uploaded(stand, run):
    (run / "published").write_text("not a folder")
    assert "where nothing can be written" in stand.publish(run, "org/noplace")
    assert stand.only_read()


def test_what_killed_runs_left_is_cleaned_and_what_runs_beside_is_not(stand, run, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    for name in ("assay-verify-killed", "assay-verify-alive"):
        (tmp_path / "tmp" / name / "files").mkdir(parents=True)
        (tmp_path / "tmp" / name / ".lock").touch()
    with FileLock(tmp_path / "tmp/assay-verify-alive/.lock"):
        stand.publish(run, "org/cleaned")
    assert [each.name for each in (tmp_path / "tmp").glob("assay-*")] == ["assay-verify-alive"]


@pytest.mark.parametrize("part", ["/commit/", "/api/repos/create"])
def test_a_full_window_is_waited_for_as_long_as_the_hub_says(stand, run, part, monkeypatch):
    waited = []
    monkeypatch.setattr(time, "sleep", waited.append)
    freshen(run, name := f"org/limited-{len(part)}")
    stand.hub.faults.append(InjectedFault("POST", part, status=429, wait=40))
    (receipt,) = stand.publish(run, name)
    assert (receipt.outcome, 41.0 in waited) == ("published", True)
    stand.hub.faults.append(InjectedFault("POST", "/api/repos/create", status=429, wait=2580))
    assert "The Hub asks to wait 43 minutes" in stand.publish(run, f"{name}-long")
