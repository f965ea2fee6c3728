"""A chain whose base the Hub does not hold: the base goes along, or one is held to its checksum."""

import json
from dataclasses import replace

import numpy as np
import pytest
from huggingface_hub import HfApi
from safetensors.numpy import save_file

from evals.errors import LabError
from evals.io import weights_identity
from hub.adapters import Publication
from hub.chains import check_wishes, pack_base, pack_last, publication_of, runs_of
from hub.checks import MARK, lint_card
from tests.hub.cases import CASES, was
from tests.hub.conftest import OTHER
from tests.hub.local import InjectedFault
from tests.hub.runs import PACKED, REVISION, base_copy, change_manifest, sha256, write_base, write_packed_run, write_run
from tests.hub.test_publish import ALLOWED

BASE_FILES = {MARK, *CASES["base_files"]}


@pytest.fixture
def run(tmp_path):
    return write_packed_run(tmp_path / "runs")


@pytest.fixture
def copy(tmp_path):
    return base_copy(write_base(tmp_path / "base"))


def packed(run, copy):
    return pack_base(copy, runs_of(run)[1][-1].manifest, Publication("org/mine"))


def test_the_embedded_base_goes_along_unless_another_wish_is_told(run, copy):
    for wishes, with_base, is_published, told in CASES["bases_asked"]:
        asked = []
        mine = Publication("org/mine", **wishes)
        found = publication_of(run, mine, with_base, lambda named, to=asked: to.append(named) or copy)
        assert (found.with_base, asked) == (is_published, [] if told == "-" else [told]), wishes
        assert (found.copy is copy) == bool(asked)


def test_a_base_on_the_hub_is_not_published_again_and_one_of_ones_own_only_if_asked_for(tmp_path, copy):
    run, mine = write_run(tmp_path / "runs"), Publication("org/mine")
    assert publication_of(run, mine, None, lambda named: copy) == mine
    with pytest.raises(LabError, match="on the Hub already"):
        publication_of(run, mine, True, lambda named: copy)
    change_manifest(run, base={"hub_id": None, "source": "model", "revision": None})
    assert not publication_of(run, mine, None, lambda named: copy).with_base
    assert publication_of(run, mine, True, lambda named: copy).copy is copy
    pinned = Publication("org/mine", base="org/x", base_revision=REVISION)
    with pytest.raises(LabError, match="leave one of them out"):
        publication_of(run, pinned, True, lambda named: copy)


def test_what_needs_no_packing_to_be_refused_is_refused_without_it(stand, tmp_path):
    run, mine = write_run(tmp_path / "runs"), Publication("org/mine")
    check_wishes(stand.api(), run, mine, None)
    for wishes, words in (
        ({"repo": "mine"}, "ORG/NAME"),
        ({"tag": "v 1"}, "cannot be a version"),
        ({"base": "org/none"}, "no model org/none on the Hub"),
    ):
        with pytest.raises(LabError, match=words):
            check_wishes(stand.api(), run, replace(mine, **wishes), None)
    nowhere = HfApi("http://127.0.0.1:9")
    with pytest.raises(LabError, match="connection failed"):
        check_wishes(nowhere, run, mine, None)
    change_manifest(run, base={"hub_id": None, "source": "model", "revision": None})
    with pytest.raises(LabError, match="no model on the Hub"):
        check_wishes(nowhere, run, mine, None)
    check_wishes(nowhere, run, mine, True)


def test_the_base_is_published_first_and_pinned_everywhere_and_not_twice_and_all_comes_back(stand, run, copy, tmp_path):
    base, first, last = stand.publish(run, "org/whole", copy=copy, with_base=True)
    assert [base.repo, first.repo, last.repo] == ["org/whole-base", "org/whole-sft", "org/whole"]
    assert stand.on_main("org/whole-base") == BASE_FILES
    card = stand.read("org/whole", "README.md").decode()
    assert 'base = "org/whole-base"\n' in card
    assert f'from_pretrained(base, revision="{base.revision}", dtype' in card
    assert "base_model: org/whole-base\n" in card
    named = json.loads(stand.read("org/whole", "chain.json"))["base"]
    assert (named["hub_id"], named["revision"]) == ("org/whole-base", base.revision)
    assert named["weights_sha256"] == sha256(copy.folder / "model.safetensors")
    settings = json.loads(stand.read("org/whole-sft", "adapter_config.json"))
    assert (settings["base_model_name_or_path"], settings["revision"]) == ("org/whole-base", base.revision)
    stand.hub.log.clear()
    again = stand.publish(run, "org/whole", copy=copy, with_base=True)
    assert {each.outcome for each in again} == {"already there"}
    assert [each.revision for each in again] == [base.revision, first.revision, last.revision]
    assert stand.asked("POST", "/commit/") == 0
    assert stand.add_chain("org/whole", tmp_path / "back") == ["sft", "grpo"]
    back = json.loads((tmp_path / "back/chain.json").read_text())["base"]
    assert back["weights_sha256"] == copy.origin.weights_sha256
    assert back["packed_sha256"] == PACKED, "reports that came along name the base by it"


@pytest.mark.slow
def test_two_chains_share_a_base_that_was_published_once(stand, run, copy):
    named = {"copy": copy, "with_base": True, "base": "org/shared"}
    base, *_ = stand.publish(run, "org/one", **named)
    same, *_ = stand.publish(run, "org/two", **named)
    assert (same.outcome, same.revision) == ("already there", base.revision)
    pinned = stand.publish(run, "org/three", copy=copy, base="org/shared")
    assert [each.repo for each in pinned] == ["org/three-sft", "org/three"]
    card = stand.read("org/three", "README.md").decode()
    assert f'revision="{base.revision}"' in card
    assert "the weights of the base were compared with those that the chain was trained on" in card


def test_the_dry_run_shows_the_base_first_and_only_reads(stand, run, copy):
    base, *stages = stand.plan(run, "org/dry-base", copy=copy, with_base=True)
    assert (base.kind, base.repo) == ("model", "org/dry-base-base")
    assert {each.path: each.change for each in base.files} == dict.fromkeys(BASE_FILES, "add")
    assert [each.repo for each in stages] == ["org/dry-base-sft", "org/dry-base"]
    assert stand.only_read()


def test_a_base_with_other_weights_is_refused_before_anything_is_uploaded(stand, run, copy, tmp_path):
    other = write_base(tmp_path / "other", value=0.25)
    stand.create("org/other")
    head = stand.api().upload_folder(repo_id="org/other", folder_path=other).oid
    stand.hub.log.clear()
    for revision in (head, None):
        message = stand.publish(run, "org/wrong", copy=copy, base="org/other", base_revision=revision)
        assert "holds other weights" in message
        assert copy.origin.weights_sha256[:12] in message
    assert stand.on_main("org/wrong") is None
    assert stand.only_read()


def test_a_base_that_is_not_there_or_gated_or_holds_no_safetensors_is_refused(stand, run, copy):
    assert "there is no model org/nowhere" in stand.plan(run, "org/x", copy=copy, base="org/nowhere")
    stand.create("org/empty")
    assert "holds no model*.safetensors" in stand.plan(run, "org/x", copy=copy, base="org/empty")
    stand.api(OTHER).create_repo("stranger/gated")
    stand.api(OTHER).update_repo_settings("stranger/gated", gated="manual")
    assert "is gated; ask for access" in stand.plan(run, "org/x", copy=copy, base="stranger/gated")


def spoiled_weights(copy):
    save_file({"w": np.array([np.nan], np.float32)}, copy.folder / "model.safetensors")
    return base_copy(copy.folder)


def changed_meanwhile(copy):
    save_file({"w": np.zeros(2, np.float32)}, copy.folder / "model.safetensors")
    return copy


BAD = {
    "another base": (lambda copy: base_copy(copy.folder, recorded_sha256="e" * 64), "answer wrongly"),
    "an unknown licence": (lambda copy: base_copy(copy.folder, licence="my own"), "Hub identifiers"),
    "weights that changed meanwhile": (changed_meanwhile, "another checksum"),
    "weights that are no numbers": (spoiled_weights, "infinite or no number"),
}


def test_a_bad_copy_of_the_base_or_a_bad_adapter_is_refused_and_nothing_is_uploaded(stand, run, copy):
    for name, (spoil, word) in BAD.items():
        assert word in stand.publish(run, "org/bad-base", copy=spoil(copy), with_base=True), name
    (run / "adapter/adapter_model.safetensors").write_bytes(b"no weights")
    good = base_copy(write_base(run.parent / "again"))
    assert "is no safetensors file" in stand.publish(run, "org/late", copy=good, with_base=True)
    assert stand.only_read()


def test_when_the_answer_on_the_base_is_lost_the_next_run_completes_with_one_base(stand, run, copy):
    name = "org/base-fault"
    stand.hub.faults.append(InjectedFault("POST", f"{name}-base/commit/", drop=True, after=True))
    stand.publish(run, name, copy=copy, with_base=True)
    assert stand.on_main(f"{name}-base") in (None, set(), BASE_FILES)
    base, _, last = stand.publish(run, name, copy=copy, with_base=True)
    assert stand.on_main(f"{name}-base") == BASE_FILES
    assert stand.on_main(name) == ALLOWED
    assert f'revision="{base.revision}"' in stand.read(name, "README.md").decode()
    assert last.tag == "v1.0"


def test_the_cards_of_a_base_and_of_an_adapter_on_it_read_as_they_did_and_have_no_fault(run, copy):
    upload = packed(run, copy)
    text = upload.parts["README.md"].text()
    assert text == was("base-card", text)
    assert lint_card(text, "model", upload.parts) == []
    text = pack_last(run, Publication("org/mine", copy=copy, with_base=True)).parts["README.md"].text()
    assert text == was("adapter-card-with-base", text)


def test_only_a_packed_base_is_called_quantised_and_one_of_unknown_origin_says_so_and_warns(run, copy):
    cards = [packed(run, each).parts["README.md"].text() for each in (copy, base_copy(copy.folder, packed=None))]
    assert ["base_model_relation: quantized\n" in card for card in cards] == [True, False]
    upload = packed(run, base_copy(copy.folder, licence=None, original=None, packed=None))
    text = upload.parts["README.md"].text()
    assert "license: other" in text
    assert "base_model" not in text
    assert "Nobody has recorded the licence" in text
    assert any("licence of the base" in each.problem for each in upload.findings)
    assert not [each for each in lint_card(text, "model", upload.parts) if each.is_error]


def test_weights_in_several_files_have_one_checksum_whatever_their_order():
    files = {"model-1.safetensors": "a" * 64, "model-2.safetensors": "b" * 64}
    known = weights_identity(files)
    assert known == weights_identity(dict(reversed(files.items())))
    assert known not in files.values()
    assert known != weights_identity({**files, "model-2.safetensors": "c" * 64})
