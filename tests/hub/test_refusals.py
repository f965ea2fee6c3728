"""What must never be uploaded is refused with a message that says where and what to do."""

import json
import os
import struct
from functools import partial

import numpy as np
import pytest
import torch
from huggingface_hub import HfApi, constants
from peft import PeftModel
from transformers import LlamaForCausalLM

from evals.errors import LabError
from evals.schema import runs
from hub.adapters import Publication
from hub.chains import plan_chain, publish_chain
from hub.checks import fit_findings, inspect, part_of, scan
from tests.hub.cases import CASES
from tests.hub.runs import CONFIG, change_manifest, change_record, refit, tensors, write_adapter, write_run
from tests.models import tiny_adapter, tiny_base
from training.models.adapters import read_adapter
from training.models.imported import import_chain

WEIGHTS = "adapter/adapter_model.safetensors"
FIRST = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"


def with_tensor(name, value):
    """Return a change of a run's tensors; None takes one away."""

    def change(run):
        found = {key: each for key, each in {**tensors(), name: value}.items() if each is not None}
        write_adapter(run / "adapter", found, CONFIG)
        refit(run)

    return change


def change_config(run, **named):
    write_adapter(run / "adapter", tensors(), {**CONFIG, **named})
    refit(run)


def with_bytes(content, file=WEIGHTS):
    return lambda run: (run / file).write_bytes(content)


def first(value, kind=np.float32):
    found = tensors()[FIRST].astype(kind)
    found[0, 0] = value
    return with_tensor(FIRST, found)


def in_bfloat16(run):
    """Write one tensor of bfloat16, which numpy does not know, with an infinite number in it."""
    header = json.dumps({FIRST: {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}}).encode()
    (run / WEIGHTS).write_bytes(struct.pack("<Q", len(header)) + header + struct.pack("<2H", 0x3F80, 0x7F80))
    refit(run)


PICKLE = b"\x80\x04N."
INPUTS = {
    # what is done to the run, a word that the message must hold, wishes
    "a pickle instead of safetensors": (
        lambda run: (run / WEIGHTS).rename(run / "adapter/adapter_model.bin"),
        "adapter_model.bin",
    ),
    "a pickle beside": (with_bytes(PICKLE, "adapter/extra.pkl"), "extra.pkl"),
    "the state of an optimizer": (with_bytes(PICKLE, "adapter/optimizer.pt"), "optimizer.pt"),
    "the trainer's arguments": (with_bytes(PICKLE, "adapter/training_args.bin"), "training_args.bin"),
    "optimizer tensors": (with_tensor("optimizer.exp_avg", np.zeros(2, np.float32)), "state of an optimizer"),
    "no number": (first(np.nan), "infinite or no number"),
    "infinity": (first(np.inf), "infinite or no number"),
    "infinity in half precision": (first(np.inf, np.float16), "infinite or no number"),
    "infinity in bfloat16": (in_bfloat16, "infinite or no number"),
    "a matrix that is missing": (with_tensor(FIRST, None), "only one of the two"),
    "a foreign tensor": (with_tensor("lm_head.weight", np.zeros((2, 2), np.float32)), "no part of a LoRA adapter"),
    "no safetensors": (with_bytes(b"not weights at all, really"), "is no safetensors file"),
    "a header that lies": (with_bytes(struct.pack("<Q", 9) + b'{"a": 12}'), "is no safetensors file"),
    "an empty file": (with_bytes(b""), "is no safetensors file"),
    "a file that was cut": (lambda run: (run / WEIGHTS).write_bytes((run / WEIGHTS).read_bytes()[:-10]), "cut short"),
    "a huge file": (lambda run: os.truncate(run / WEIGHTS, 60_000_000_000), "save it in several"),
    "weights of another run": (
        lambda run: write_adapter(run / "adapter", tensors(7), CONFIG),
        "not the adapter that chain.json describes",
    ),
    "no run at all": (lambda run: (run / "run.json").unlink(), "is no run folder"),
    "a record that is damaged": (with_bytes(b"{", "run.json"), "cannot be read"),
}
CHANGES = {
    "config": lambda run, named: change_config(run, **named),
    "base": lambda run, named: change_manifest(run, base=named),
    "record": lambda run, named: change_record(run, **named),
}
for name, (record, named, *told) in CASES["refused_changes"].items():
    INPUTS[name] = (partial(CHANGES[record], named=named), *told)


def test_a_bad_input_is_refused_with_the_reason_and_nothing_is_uploaded(stand, tmp_path):
    wrong = []
    for name, (spoil, word, *wishes) in INPUTS.items():
        run = write_run(tmp_path / name.replace(" ", "-"))
        spoil(run)
        message = stand.publish(run, "org/bad", **(wishes[0] if wishes else {}))
        if not isinstance(message, str) or word not in message:
            wrong.append((name, message))
    assert wrong == []
    assert stand.only_read()
    assert stand.on_main("org/bad") is None


def test_secrets_paths_and_addresses_are_found_by_kind_and_nothing_else_is():
    missed = [row for row in CASES["secrets"] if not any(row[1] in each.problem for each in scan("x", [row[0]]))]
    assert missed == []
    assert [text for text in CASES["harmless"] if scan("x", [text])] == []


def test_a_secret_is_told_by_file_and_line_and_never_by_value(stand, tmp_path):
    run, token = write_run(tmp_path), CASES["secrets"][0][0]
    (run / "metrics.jsonl").write_text("{}\n" + json.dumps({"note": token}) + "\n")
    message = stand.publish(run, "org/bad")
    assert "metrics.jsonl, line 2: a Hugging Face token stands there" in message
    assert token not in message
    assert stand.only_read()


def test_a_bad_name_is_refused_before_the_hub_is_asked(stand, tmp_path):
    run = write_run(tmp_path)
    names = ["no-namespace", "org/a b", "org/a--b", "org/../x", "/org/x", "org/a.git", "org/é", "a/b/c"]
    messages = [stand.publish(run, name) for name in names]
    assert [each for each in messages if "cannot be the name of a repository" not in each] == []
    assert not stand.hub.log


def test_a_stranger_is_told_that_the_token_may_not_write_and_how_to_propose(stand, tmp_path):
    assert "--create-pr" in stand.publish(write_run(tmp_path), "elsewhere/run")


def test_a_dry_run_before_anybody_logged_in_says_what_it_could_not_check(stand, tmp_path, monkeypatch):
    run = write_run(tmp_path)
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "none"))
    monkeypatch.delenv("HF_TOKEN")
    (plan,) = plan_chain(HfApi(endpoint=stand.url), run, Publication("org/later"))
    assert "nobody is logged in" in plan.warnings[0].problem
    with pytest.raises(LabError, match="token is missing"):
        publish_chain(HfApi(endpoint=stand.url), run, Publication("org/later"), print)
    assert stand.on_main("org/later") is None


def test_an_unknown_data_licence_is_no_licence_that_somebody_made_up(stand, tmp_path):
    run = write_run(tmp_path, config={"data": ["votes.jsonl"]})
    (plan,) = stand.plan(run, "org/unknown")
    assert any("votes.jsonl" in each.problem for each in plan.warnings)
    stand.publish(run, "org/unknown")
    assert "license: other" in stand.read("org/unknown", "README.md").decode()


FIELDS = ("rank_pattern", "alpha_pattern", "target_modules", "exclude_modules", "layers_pattern")


@pytest.mark.parametrize("field", FIELDS)
def test_a_pattern_that_takes_for_ever_to_match_is_refused(field, tmp_path, monkeypatch):
    """Python's `re` backtracks without end: import, stacking, merging and publishing are refused within seconds."""
    monkeypatch.setattr(runs, "MATCH_SECONDS", 1.0)
    base = tiny_base(tmp_path / "base")
    folder = tiny_adapter(base, tmp_path / "adapter", targets=["q_proj", "v_proj"])
    config = json.loads((folder / "adapter_config.json").read_text())
    config[field] = {"(([a-z_0-9]+.?)+)+!": 4} if field in FIELDS[:2] else "(([a-z_0-9]+.?)+)+!"
    shapes, _ = inspect(part_of(folder / "adapter_model.safetensors"), "adapter")
    (found,) = fit_findings("adapter", shapes, config)
    assert "take more than" in found.problem
    for more in ({}, {"use_dora": True}):
        config["layers_to_transform"] = [0] if field == "layers_pattern" else None
        (folder / "adapter_config.json").write_text(json.dumps(config | more))
        with pytest.raises(LabError, match="regular expressions for layers take more than"):
            import_chain(str(base), [str(folder)], tmp_path / "runs", "evil")


@pytest.mark.parametrize("pattern", CASES["patterns"], ids=str)
def test_ranks_and_alphas_by_pattern_are_read_as_peft_reads_them(pattern, tmp_path):
    """By regular expressions, of which the first that matches counts, when publishing and when stacking."""
    base = tiny_base(tmp_path / "base")
    folder = tiny_adapter(base, tmp_path / "adapter", targets=["q_proj", "v_proj"], rank_pattern=pattern)
    shapes, wrong = inspect(part_of(folder / "adapter_model.safetensors"), "adapter")
    config = json.loads((folder / "adapter_config.json").read_text())
    assert [*wrong, *fit_findings("adapter", shapes, config)] == []
    assert fit_findings("adapter", shapes, config | {"rank_pattern": {r"layers\.0\..*": 7}})
    (folder / "adapter_config.json").write_text(json.dumps(config | {"alpha_pattern": pattern}))
    model = LlamaForCausalLM.from_pretrained(base, dtype=torch.float32)
    peft = PeftModel.from_pretrained(model, folder)
    pairs = read_adapter(folder).pairs
    for name, layer in peft.base_model.model.named_modules():
        if hasattr(layer, "get_delta_weight"):
            pair = pairs[name]
            assert torch.allclose(layer.get_delta_weight("default"), pair.up @ pair.down, atol=1e-6), name
