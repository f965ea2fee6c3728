"""A chain whose base the Hub does not hold: the base goes along, or one is held to its checksum."""

import json

import numpy as np
import pytest
from safetensors.numpy import save_file

from evals.io import weights_identity
from hub.adapters import Wishes
from hub.bases import pack_base
from hub.cards.lint import lint_card
from hub.chains import Publication, pack_last, runs_of
from hub.local import Fault
from tests.hub import calls, publishing
from tests.hub.bases import ORIGINAL, PACKED, base_copy, write_base, write_packed_run
from tests.hub.runs import sha256
from tests.hub.snapshots import was
from tests.hub.test_publish import ALLOWED, on_main

BASE_FILES = {
    "LICENSE",
    "README.md",
    "chat_template.jinja",
    "config.json",
    "model.safetensors",
    "origin.json",
    "tokenizer.json",
    "tokenizer_config.json",
}


@pytest.fixture
def run(tmp_path):
    return write_packed_run(tmp_path / "runs")


@pytest.fixture
def copy(tmp_path):
    return base_copy(write_base(tmp_path / "base"))


def uploaded(stand):
    return {each.path for each in stand.hub.log if each.method in ("POST", "PUT")}


def test_the_base_is_published_first_and_pinned_everywhere(stand, run, copy):
    base, first, last = stand.run(publishing.publish_run, run, "org/whole", copy=copy, with_base=True)
    assert [base.repo, first.repo, last.repo] == ["org/whole-base", "org/whole-sft", "org/whole"]
    assert on_main(stand, "org/whole-base") == BASE_FILES
    card = stand.run(calls.fetch, "org/whole", "README.md").decode()
    assert 'base = "org/whole-base"\n' in card
    assert f'from_pretrained(base, revision="{base.revision}", dtype' in card
    assert "base_model: org/whole-base\n" in card
    named = json.loads(stand.run(calls.fetch, "org/whole", "chain.json"))["base"]
    assert (named["hub_id"], named["revision"]) == ("org/whole-base", base.revision)
    assert named["weights_sha256"] == sha256(copy.folder / "model.safetensors")
    settings = json.loads(stand.run(calls.fetch, "org/whole-sft", "adapter_config.json"))
    assert settings["base_model_name_or_path"] == "org/whole-base"
    assert settings["revision"] == base.revision


def test_a_base_that_is_there_is_not_published_twice(stand, run, copy):
    first = stand.run(publishing.publish_run, run, "org/again", copy=copy, with_base=True)
    stand.hub.log.clear()
    second = stand.run(publishing.publish_run, run, "org/again", copy=copy, with_base=True)
    assert {each.outcome for each in second} == {"already there"}
    assert [each.revision for each in first] == [each.revision for each in second]
    assert stand.asked("POST", "/commit/") == 0


def test_two_chains_share_a_base_that_was_published_once(stand, run, copy):
    named = {"copy": copy, "with_base": True, "base": "org/shared"}
    base, *_ = stand.run(publishing.publish_run, run, "org/one", **named)
    same, *_ = stand.run(publishing.publish_run, run, "org/two", **named)
    pinned = stand.run(publishing.publish_run, run, "org/three", copy=copy, base="org/shared")
    assert (same.outcome, same.revision) == ("already there", base.revision)
    assert [each.repo for each in pinned] == ["org/three-sft", "org/three"]
    card = stand.run(calls.fetch, "org/three", "README.md").decode()
    assert f'revision="{base.revision}"' in card
    assert "The weights of the base were compared" in card


def test_the_dry_run_shows_the_base_first_and_only_reads(stand, run, copy):
    base, *stages = stand.run(publishing.plan_run, run, "org/dry-base", copy=copy, with_base=True)
    assert (base.kind, base.repo) == ("model", "org/dry-base-base")
    assert {each.path: each.change for each in base.files} == dict.fromkeys(BASE_FILES, "add")
    assert [each.repo for each in stages] == ["org/dry-base-sft", "org/dry-base"]
    assert {each.method for each in stand.hub.log} <= {"GET"}


def test_a_chain_on_a_published_base_comes_back_bit_for_bit(stand, run, copy, tmp_path):
    stand.run(publishing.publish_run, run, "org/comes", copy=copy, with_base=True)
    assert stand.run(publishing.add_chain, "org/comes", tmp_path / "back") == ["sft", "grpo"]
    for mine, theirs in (("sft/adapter", "stages/sft/adapter"), ("grpo/adapter", "adapter")):
        name = "adapter_model.safetensors"
        assert sha256(run.parent / mine / name) == sha256(tmp_path / "back" / theirs / name)
    back = json.loads((tmp_path / "back/chain.json").read_text())["base"]
    assert back["weights_sha256"] == copy.origin.weights_sha256
    assert back["packed_sha256"] == PACKED, "reports that came along name the base by it"


@pytest.mark.parametrize("revision", ["commit", None])
def test_a_base_with_other_weights_is_refused_before_anything_is_uploaded(stand, run, copy, tmp_path, revision):
    other = write_base(tmp_path / "other", value=0.25)
    head = stand.run(calls.upload_folder, "org/other", other)
    stand.hub.log.clear()
    wishes = {"base": "org/other", "base_revision": head if revision else None}
    message = stand.run(publishing.publish_run, run, "org/wrong", copy=copy, **wishes)
    assert "holds other weights" in message
    assert copy.origin.weights_sha256[:12] in message
    assert on_main(stand, "org/wrong") is None
    assert not [path for path in uploaded(stand) if "org/wrong" in path or "commit" in path]


def test_a_base_that_is_not_there_or_holds_no_safetensors_is_refused(stand, run, copy):
    message = stand.run(publishing.plan_run, run, "org/x", copy=copy, base="org/nowhere")
    assert "there is no model org/nowhere" in message
    stand.run(calls.create, "org/empty")
    message = stand.run(publishing.plan_run, run, "org/x", copy=copy, base="org/empty")
    assert "holds no model*.safetensors" in message


def spoiled_weights(copy):
    save_file({"w": np.array([np.nan], np.float32)}, copy.folder / "model.safetensors")
    return base_copy(copy.folder)


def changed_meanwhile(copy):
    save_file({"w": np.zeros(2, np.float32)}, copy.folder / "model.safetensors")
    return copy


BAD = {
    "another base": (
        lambda copy: base_copy(copy.folder, recorded_sha256="e" * 64),
        "answer wrongly",
    ),
    "weights that are no numbers": (spoiled_weights, "infinite or no number"),
    "weights that changed meanwhile": (changed_meanwhile, "another checksum"),
    "a licence the Hub does not know": (
        lambda copy: base_copy(copy.folder, licence="my own"),
        "Hub identifiers",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_copy_of_the_base_is_refused_and_nothing_is_uploaded(stand, run, copy, name):
    spoil, word = BAD[name]
    message = stand.run(publishing.publish_run, run, "org/bad-base", copy=spoil(copy), with_base=True)
    assert word in message
    assert {each.method for each in stand.hub.log} <= {"GET"}


def test_a_bad_adapter_keeps_the_base_from_being_uploaded(stand, run, copy):
    (run / "adapter/adapter_model.safetensors").write_bytes(b"no weights")
    message = stand.run(publishing.publish_run, run, "org/late", copy=copy, with_base=True)
    assert "is no safetensors file" in message
    assert {each.method for each in stand.hub.log} <= {"GET"}


@pytest.mark.parametrize(
    ("repo", "trouble"),
    [
        ("base", {"status": 403}),
        ("base", {"drop": True}),
        ("base", {"drop": True, "after": True}),
        ("sft", {"status": 403}),
        ("sft", {"status": 412}),
    ],
)
def test_whatever_fails_the_next_run_completes_with_one_base(stand, run, copy, repo, trouble):
    name = f"org/base-fault-{repo}-{'-'.join(map(str, trouble.values()))}"
    stand.hub.faults.append(Fault("POST", f"{name}-{repo}/commit/", **trouble))
    stand.run(publishing.publish_run, run, name, copy=copy, with_base=True)
    assert on_main(stand, f"{name}-base") in (None, set(), BASE_FILES)
    base, _, last = stand.run(publishing.publish_run, run, name, copy=copy, with_base=True)
    assert on_main(stand, f"{name}-base") == BASE_FILES
    assert on_main(stand, name) == ALLOWED
    card = stand.run(calls.fetch, name, "README.md").decode()
    assert f'revision="{base.revision}"' in card
    assert last.tag == "v1.0"


def test_the_card_of_a_base_reads_as_it_did_and_has_no_fault(run, copy):
    parcel = pack_base(copy, runs_of(run)[-1].manifest, Wishes("org/mine"))
    text = parcel.parts["README.md"].read().decode()
    assert text == was("base-card", text)
    assert lint_card(text, "model", parcel.parts) == []


def test_the_card_of_an_adapter_tells_of_the_base_that_goes_along(run, copy):
    publication = Publication(Wishes("org/mine"), copy=copy, with_base=True)
    text = pack_last(run, publication).parts["README.md"].read().decode()
    assert text == was("adapter-card-with-base", text)
    assert f"is a copy of [{ORIGINAL}]" in text
    assert f"| packed file that they were unpacked from, sha256 | `{PACKED}` |" in text


def test_only_a_base_that_was_packed_is_called_quantised(run, copy):
    plain = base_copy(copy.folder, packed=None)
    cards = [
        pack_base(each, runs_of(run)[-1].manifest, Wishes("org/mine")).parts["README.md"].read()
        for each in (copy, plain)
    ]
    assert [f"base_model: {ORIGINAL}\n".encode() in card for card in cards] == [True, True]
    assert [b"base_model_relation: quantized\n" in card for card in cards] == [True, False]


def test_a_base_of_unknown_licence_and_origin_says_so_and_warns(run, copy):
    own = base_copy(copy.folder, licence=None, original=None, packed=None)
    parcel = pack_base(own, runs_of(run)[-1].manifest, Wishes("org/mine"))
    text = parcel.parts["README.md"].read().decode()
    assert "license: other" in text
    assert "base_model" not in text
    assert "Nobody has recorded it." in text
    assert any("licence of the base" in each.problem for each in parcel.findings)
    assert not [each for each in lint_card(text, "model", parcel.parts) if each.is_error]


def test_weights_in_several_files_have_one_checksum_whatever_their_order():
    files = {"model-1.safetensors": "a" * 64, "model-2.safetensors": "b" * 64}
    known = weights_identity(files)
    assert known == weights_identity(dict(reversed(files.items())))
    assert known not in files.values()
    assert known != weights_identity({**files, "model-2.safetensors": "c" * 64})
