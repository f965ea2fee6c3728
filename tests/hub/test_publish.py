"""A run on its way to the Hub: in order, whole, and completed by a second run whatever went wrong in the first."""

import itertools
import tempfile
import time
import zlib
from dataclasses import replace

import pytest
from filelock import FileLock
from huggingface_hub import HfApi, constants

from hub.adapters import Publication
from hub.chains import plan_chain, publish_chain
from hub.checks import MARK, Upload, part_of
from hub.datasets import pack_dataset
from hub.publish import check_tag, check_title, look, plan, publish
from tests.hub.cases import CASES
from tests.hub.conftest import OTHER, before
from tests.hub.local import InjectedFault
from tests.hub.rows import put
from tests.hub.runs import CONFIG, REVISION, change_manifest, refit, sha256, tensors, write_adapter, write_run

ALLOWED = {
    *("LICENSE", MARK),
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


def test_a_version_never_changes(stand, run):
    stand.publish(run, "org/versions")
    (run / "metrics.jsonl").write_text("{}\n")
    assert "a version never changes" in stand.publish(run, "org/versions")
    (second,) = stand.publish(run, "org/versions", tag="v1.1")
    assert second.outcome == "published"
    assert {"refs/tags/v1.0", "refs/tags/v1.1"} <= set(stand.hub.find("model", "org/versions").refs)


@pytest.mark.parametrize("trouble", [{"status": 500}, {"drop": True, "after": True}], ids=["500", "answer lost"])
def test_a_proposal_to_others_is_opened_once_also_after_one_that_failed_and_leaves_main_alone(stand, run, trouble):
    name = f"org/proposed-{len(trouble)}"
    stand.create(name, private=False)
    stand.hub.faults.append(InjectedFault("POST", "/commit/", **trouble))
    stand.publish(run, name, is_pull_request=True)
    receipts = [stand.publish(run, name, is_pull_request=True)[0] for _ in range(2)]
    assert [each.pull_request for each in receipts] == [1, 1]
    assert receipts[1].outcome == "already there"
    assert len(stand.hub.find("model", name).discussions) == 1
    assert stand.on_main(name) == set()


STEPS, TROUBLES = CASES["steps"], CASES["troubles"]
"""What is asked of the Hub in each step, and what can go wrong there."""
QUICK = {("committing", "answer lost"), ("sending the bytes", "403"), ("downloading again", "500")}
EVERYWHERE = ("500", "torn", "answer lost")
TRIED = [
    pytest.param(*each, marks=[] if each in QUICK else pytest.mark.slow)
    for each in itertools.product(STEPS, TROUBLES)
    if each in QUICK or each[0] == "committing" or each[1] in EVERYWHERE
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
    before(monkeypatch, "create_commit", lambda: stand.commit("org/raced", {"theirs.txt": b"first"}))
    assert "somebody committed meanwhile" in stand.publish(run, "org/raced")
    assert stand.on_main("org/raced") == {"theirs.txt"}
    assert "--replace" in stand.publish(run, "org/raced")
    (receipt,) = stand.publish(run, "org/raced", replaces=True)
    assert receipt.outcome == "published"


def test_what_is_not_ours_or_stands_on_another_base_is_shown_and_needs_replace(stand, run, tmp_path):
    stand.create("org/byhand", private=True)
    stand.commit("org/byhand", {"weights.bin": b"theirs"})
    assert "holds 1 files that Assay did not publish (there is no .assay.json)" in stand.publish(run, "org/byhand")
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


def test_what_somebody_wrote_into_the_card_on_the_hub_is_not_written_over_without_replace(stand, run):
    stand.publish(run, "org/edited")
    stand.commit("org/edited", {"README.md": b"---\nlicense: mit\n---\n\nMine.\n"})
    assert "somebody edited the card of org/edited" in stand.publish(run, "org/edited", tag="v1.1")
    (receipt,) = stand.publish(run, "org/edited", tag="v1.1", replaces=True)
    assert receipt.outcome == "published"


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
    before = stand.tree("org/opened")
    assert "--public" in stand.publish(run, "org/opened", tag="v1.1")
    assert stand.tree("org/opened") == before


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


def test_a_version_that_git_does_not_take_or_that_is_a_branch_is_told_in_the_plan(stand, run):
    (receipt,) = stand.publish(run, "org/tags")
    assert (receipt.outcome, receipt.tag) == ("published", "v1.0")
    stand.hub.log.clear()
    assert "not the name of something else: main is there" in stand.plan(run, "org/tags", tag="main")
    assert stand.only_read()
    there = look(stand.api(), "org/tags", "model")
    for tag in (*CASES["bad_tags"], "x" * 201):
        assert "cannot be a version" in str(stand.attempt(lambda tag=tag: check_tag(tag, there))), tag
    for tag in CASES["good_tags"]:
        check_tag(tag, there)


def test_a_title_that_no_collection_can_have_is_told_before_anything_is_asked_of_the_hub(stand):
    for title in (*CASES["bad_titles"], "x" * 151):
        assert stand.attempt(lambda title=title: check_title(title)), title
    for title in ("My first", "x" * 150):
        check_title(title)


@pytest.fixture
def scoped(stand):
    """Return a client whose fine-grained token may do what is named, in org; forgotten afterwards."""
    made = []

    def client(*permissions, place="org"):
        made.append(token := f"hf_scoped{len(made)}")
        stand.hub.tokens[token] = "tester"
        entity = {"_id": "1", "type": "org", "name": place}
        stand.hub.scopes[token] = {"global": [], "scoped": [{"entity": entity, "permissions": [*permissions]}]}
        return stand.api(token)

    yield client
    for token in made:
        del stand.hub.tokens[token], stand.hub.scopes[token]


def test_a_fine_grained_token_without_write_is_told_in_the_plan_and_one_with_it_publishes(stand, run, scoped):
    for client in (scoped("repo.content.read"), scoped("repo.write", place="elsewhere")):
        message = stand.attempt(lambda client=client: plan_chain(client, run, Publication("org/scoped")))
        assert "the fine-grained token of tester does not allow to write to repositories in org" in message
    assert stand.only_read()
    (receipt,) = publish_chain(scoped("repo.write"), run, Publication("org/scoped"), print)
    assert receipt.outcome == "published"


def test_an_organisation_that_wants_a_resource_group_is_given_it(stand, run):
    stand.hub.grouped.add("org")
    try:
        message = stand.publish(run, "org/grouped")
        assert "You need to choose a resource group" in message and "--resource-group" in message
        (receipt,) = stand.publish(run, "org/grouped", resource_group="66670e5163145ca562cb1988")
        assert receipt.outcome == "published"
    finally:
        stand.hub.grouped.clear()


def test_a_403_is_told_in_the_words_of_the_hub_first_and_with_what_helps(stand, run):
    for said, advice in CASES["said_with_403"]:
        stand.hub.faults.append(InjectedFault("POST", "/api/repos/create", status=403, words=said))
        message = stand.publish(run, "org/refused")
        assert message.startswith(f"cannot create org/refused: {said} (403): ") and advice in message
    assert stand.on_main("org/refused") is None


def test_nothing_becomes_public_that_stands_on_what_is_private_and_gated_bases_are_named_on_the_card(stand, run):
    stand.create("org/base", private=True)
    try:
        message = stand.publish(run, "org/above", is_public=True)
        assert "nobody else could load what stands on private repositories: org/base" in message
        assert stand.on_main("org/above") is None
        assert stand.publish(run, "org/above")[0].visibility == "private"
        stand.api().update_repo_settings("org/base", visibility="public", gated="auto")
        (receipt,) = stand.publish(run, "org/above-gated", is_public=True)
        assert receipt.visibility == "public"
        card = stand.read("org/above-gated", "README.md").decode()
        assert "[org/base](https://huggingface.co/org/base) is gated: ask for access there" in card
    finally:
        stand.api().delete_repo("org/base")


def test_a_stage_that_stays_private_keeps_what_stands_on_it_from_becoming_public(stand, tmp_path):
    run = write_run(tmp_path / "here", stages=("sft", "grpo"))
    stand.publish(run, "org/hidden")
    stand.add_chain("org/hidden@v1.0", back := tmp_path / "back")
    message = stand.publish(back, "org/hidden-again", is_public=True)
    assert "private repositories: org/hidden-sft" in message
    assert stand.on_main("org/hidden-again") is None


def test_rows_whose_sources_are_private_do_not_become_public(stand, tmp_path):
    stand.create("org/sources", "dataset", private=True)
    place = put(tmp_path, "train.jsonl", [{"text": "x"}])
    (place / "README.md").write_text("---\nlicense: mit\nsource_datasets:\n- extended|org/sources\n---\n# Rows\n")
    upload = replace(pack_dataset(place, "org/derived", None), is_public=True)
    assert "sources of the rows: org/sources" in stand.attempt(lambda: plan(stand.api(), upload))
    assert plan(stand.api(), replace(upload, is_public=False)).is_new


def test_warnings_are_said_when_it_is_published_as_in_the_dry_run(stand, tmp_path):
    run = write_run(tmp_path)
    change_manifest(run, base={"licence": None})
    (planned,) = stand.plan(run, "org/warned")
    said = []
    publish_chain(stand.api(), run, Publication("org/warned"), said.append)
    assert planned.warnings
    assert said[: len(planned.warnings)] == [f"note: org/warned, {each}" for each in planned.warnings]


def test_after_its_history_was_squashed_the_next_version_is_published(stand, tmp_path):
    place = put(tmp_path, "train.jsonl", [{"text": "x"}])
    publish(stand.api(), pack_dataset(place, "org/rows", "mit"))
    stand.api().super_squash_history("org/rows", repo_type="dataset")
    put(place, "train.jsonl", [{"text": "y"}])
    assert publish(stand.api(), pack_dataset(place, "org/rows", "mit")).outcome == "published"


def space(repo, version, files=101):
    """Return a Space of many files, as large ones are packed."""
    contents = {"app.py": "import gradio\n", "requirements.txt": "spaces==0.50.0\n"}
    contents["README.md"] = "---\ntitle: A\nsdk: gradio\nsdk_version: 6.31.0\nlicense: mit\n---\n# A\n"
    contents |= {f"evals/m{n}.py": f"X = {version}\n" for n in range(files)}
    return Upload("space", repo, {path: part_of(text.encode()) for path, text in contents.items()})


@pytest.mark.parametrize(
    ("method", "killed_at"),
    [
        pytest.param("create_commit", 1, marks=pytest.mark.slow),
        ("create_commit", 2),
        pytest.param("merge_pull_request", 1, marks=pytest.mark.slow),
    ],
)
def test_a_space_of_many_files_appears_at_once_also_after_it_was_killed_in_between(
    stand, monkeypatch, method, killed_at
):
    original, repo = getattr(HfApi, method), f"org/large-{len(method)}-{killed_at}"

    def files():
        return {path: stand.read(repo, path, "space") for path in stand.on_main(repo, "space") or ()}

    for version in (1, 2):
        before, upload, calls = files(), space(repo, version), itertools.count(1)
        whole = {path: part.read() for path, part in upload.parts.items()}

        def dying(self, *words, calls=calls, **named):
            made = original(self, *words, **named)
            if next(calls) == killed_at:
                raise Killed
            return made

        with monkeypatch.context() as patched, pytest.raises(Killed):
            patched.setattr(HfApi, method, dying)
            publish(stand.api(), upload)
        assert files() == (whole if method == "merge_pull_request" else before)
        assert publish(stand.api(), upload).files.keys() == whole.keys()
        assert files() == whole
    discussions = stand.hub.find("space", repo).discussions
    assert [each.status for each in discussions] == ["merged", "merged"]


def test_a_large_publication_that_others_came_before_is_not_merged_over_theirs(stand, monkeypatch):
    upload = space(repo := "org/large-raced", 1)
    before(monkeypatch, "merge_pull_request", lambda: stand.commit(repo, {"theirs.txt": b"first"}, "space"))
    assert "somebody committed meanwhile" in stand.attempt(lambda: publish(stand.api(), upload))
    assert stand.on_main(repo, "space") == {"theirs.txt"}
    assert publish(stand.api(), replace(upload, replaces=True)).outcome == "published"


def test_a_fine_grained_token_that_opens_no_pull_requests_is_told_where_one_is_needed(stand, scoped):
    message = stand.attempt(lambda: plan(scoped("repo.write"), space("org/large-scoped", 1)))
    assert "to open pull requests, which take the files of a commit beyond 100" in message
    assert plan(scoped("repo.write", "discussion.write"), space("org/large-scoped", 1)).is_new


def test_by_xet_as_clients_do_by_default_a_chain_is_published_verified_and_brought_back(stand, tmp_path, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", False)
    run = write_run(tmp_path / "here", stages=("sft", "grpo"))
    receipts = stand.publish(run, "org/by-xet")
    assert [each.outcome for each in receipts] == ["published", "published"]
    assert stand.asked("GET", "/xet-write-token/") >= 2 and stand.asked("GET", "/xet-read-token/") >= 2
    assert stand.asked("PUT", "/_lfs/") == 0, "nothing goes by LFS"
    assert stand.add_chain("org/by-xet@v1.0", tmp_path / "back") == ["sft", "grpo"]
    assert sha256(tmp_path / "back" / SFT) == sha256(tmp_path / "here/sft/adapter/adapter_model.safetensors")
    assert [each.outcome for each in stand.publish(run, "org/by-xet")] == ["already there"] * 2
