"""What else may go wrong on the way: killed at any step, xet, chains, proposals. See also test_publish."""

import pytest

from hub.local import Fault
from tests.hub import calls, publishing
from tests.hub.runs import write_run
from tests.hub.test_publish import ALLOWED, freshen, on_main

KILLED = [
    ("create_repo", False),
    ("create_repo", True),
    ("preupload_lfs_files", True),
    ("create_commit", False),
    ("create_commit", True),
    ("create_tag", False),
    ("create_tag", True),
]


@pytest.mark.parametrize(("method", "is_after"), KILLED)
def test_a_process_killed_at_any_step_leaves_main_whole_and_the_next_one_completes(stand, tmp_path, method, is_after):
    name = f"org/killed-{method}-{is_after}".replace("_", "-")
    run = write_run(tmp_path)
    stand.run(freshen, run, name)

    assert stand.run(publishing.killed_at, method, run, name, is_after=is_after) == 9

    assert on_main(stand, name) in (None, set(), ALLOWED)
    (receipt,) = stand.run(publishing.publish_run, run, name)
    assert on_main(stand, name) == ALLOWED
    assert stand.run(publishing.tags, name) == {"v1.0": receipt.revision}


XET = [
    ("GET", "/xet-write-token/", {"status": 403}),
    ("GET", "/xet-write-token/", {"status": 500}),
    ("GET", "/xet-write-token/", {"drop": True}),
    ("POST", "/commit/", {"status": 403}),
    ("POST", "/commit/", {"status": 409}),
    ("POST", "/commit/", {"status": 412}),
    ("POST", "/commit/", {"status": 500}),
    ("POST", "/commit/", {"drop": True, "after": True}),
    ("GET", "/xet-read-token/", {"status": 500}),
]


@pytest.mark.parametrize("at", range(len(XET)))
def test_by_xet_too_main_is_never_half_published_and_a_second_run_completes(with_xet, tmp_path, at):
    method, match, trouble = XET[at]
    name = f"org/xet-fault-{at}"
    run = write_run(tmp_path)
    with_xet.run(freshen, run, name)
    fault = Fault(method, match, **trouble)
    with_xet.hub.faults.append(fault)

    with_xet.run(publishing.publish_run, run, name)

    assert fault.times == 0, "the fault must have struck"
    assert on_main(with_xet, name) in (None, set(), ALLOWED)
    (receipt,) = with_xet.run(publishing.publish_run, run, name)
    assert on_main(with_xet, name) == ALLOWED
    assert with_xet.run(publishing.tags, name) == {"v1.0": receipt.revision}


def test_a_chain_that_stops_between_its_stages_goes_on_there(stand, tmp_path):
    run = write_run(tmp_path, stages=("sft", "grpo"))
    stand.hub.faults.append(Fault("POST", "/org/halfway/commit/", status=403))

    message = stand.run(publishing.publish_run, run, "org/halfway")

    assert "403" in message
    assert on_main(stand, "org/halfway-sft") == ALLOWED
    assert on_main(stand, "org/halfway") == set()
    first, last = stand.run(publishing.publish_run, run, "org/halfway")
    assert (first.outcome, last.outcome) == ("already there", "published")


@pytest.mark.parametrize("trouble", [{"status": 500}, {"drop": True}, {"drop": True, "after": True}])
def test_a_proposal_that_failed_is_opened_once_by_the_next_run(stand, tmp_path, trouble):
    name = f"org/proposed-{'-'.join(map(str, trouble.values()))}"
    stand.run(calls.create, name, private=False)
    run = write_run(tmp_path)
    stand.hub.faults.append(Fault("POST", "/commit/", **trouble))

    stand.run(publishing.publish_run, run, name, create_pr=True)
    (receipt,) = stand.run(publishing.publish_run, run, name, create_pr=True)

    assert receipt.pull_request == 1
    assert len(stand.hub.repositories.find("model", name).discussions) == 1
    assert on_main(stand, name) == set()
