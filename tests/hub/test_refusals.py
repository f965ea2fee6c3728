"""What must never be uploaded is refused with a message that says where and what to do."""

import json
import os
import struct

import numpy as np
import pytest

from tests.hub import calls, publishing
from tests.hub.runs import (
    CONFIG,
    change_manifest,
    change_record,
    refit,
    tensors,
    write_adapter,
    write_run,
)

WEIGHTS = "adapter/adapter_model.safetensors"
HF_TOKEN = "hf_" + "AbCdEfGhIj" * 3
FIRST = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"


def with_weights(**named):
    """Return a change of a run's tensors; None takes one away."""

    def change(run):
        found = tensors()
        for name, value in named.pop("tensors").items():
            if value is None:
                found.pop(name)
            else:
                found[name] = value
        write_adapter(run / "adapter", found, CONFIG)
        refit(run)

    return change


def with_config(**named):
    def change(run):
        write_adapter(run / "adapter", tensors(), {**CONFIG, **named})
        refit(run)

    return change


def with_bytes(content):
    def change(run):
        (run / WEIGHTS).write_bytes(content)

    return change


def with_text(text):
    """Return a change that puts a text where it will be published: into metrics.jsonl."""

    def change(run):
        (run / "metrics.jsonl").write_text("{}\n" + json.dumps({"note": text}) + "\n")

    return change


def with_file(name):
    def change(run):
        (run / "adapter" / name).write_bytes(b"\x80\x04N.")

    return change


def as_pickle(run):
    (run / WEIGHTS).rename(run / "adapter/adapter_model.bin")


def huge(run):
    os.truncate(run / WEIGHTS, 3_000_000_000)


def cut(run):
    content = (run / WEIGHTS).read_bytes()
    (run / WEIGHTS).write_bytes(content[:-10])


def swapped(run):
    write_adapter(run / "adapter", tensors(7), CONFIG)


def nan(value):
    found = np.array(tensors()[FIRST])
    found[0, 0] = value
    return found


INPUTS = {
    # name: (what is done to the run, wishes, a word that the message must hold)
    "a Hugging Face token": (with_text(f"token {HF_TOKEN}"), {}, "a Hugging Face token"),
    "an OpenAI key": (with_text("sk-" + "a1B2" * 8), {}, "an OpenAI key"),
    "an Anthropic key": (with_text("sk-ant-" + "a1B2" * 8), {}, "an Anthropic key"),
    "a GitHub token": (with_text("ghp_" + "a1B2" * 9), {}, "a GitHub token"),
    "an AWS key": (with_text("AKIA" + "ABCD" * 4), {}, "an AWS key"),
    "a Google key": (with_text("AIza" + "a" * 35), {}, "a Google key"),
    "a Slack token": (with_text("xoxb-1234567890-abc"), {}, "a Slack token"),
    "a private key": (with_text("-----BEGIN RSA PRIVATE KEY-----"), {}, "a private key"),
    "a password": (with_text("password = correcthorse"), {}, "a password"),
    "an address with a password": (with_text("postgres://me:hunter22@db/x"), {}, "a password in"),
    "a local path": (with_text("/home/someone/models/x"), {}, "a path of this machine"),
    "a Windows path": (with_text(r"C:\Users\someone"), {}, "a path of this machine"),
    "an e-mail address": (with_text("write to ann@lab.org"), {}, "an e-mail address"),
    "a pickle instead of safetensors": (as_pickle, {}, "adapter_model.bin"),
    "a pickle beside": (with_file("extra.pkl"), {}, "extra.pkl"),
    "the state of an optimizer": (with_file("optimizer.pt"), {}, "optimizer.pt"),
    "the trainer's arguments": (with_file("training_args.bin"), {}, "training_args.bin"),
    "optimizer tensors": (
        with_weights(tensors={"optimizer.exp_avg": np.zeros(2, np.float32)}),
        {},
        "state of an optimizer",
    ),
    "no number": (with_weights(tensors={FIRST: nan(np.nan)}), {}, "infinite or no number"),
    "infinity": (with_weights(tensors={FIRST: nan(np.inf)}), {}, "infinite or no number"),
    "infinity in half precision": (
        with_weights(tensors={FIRST: nan(np.inf).astype(np.float16)}),
        {},
        "infinite or no number",
    ),
    "a matrix that is missing": (with_weights(tensors={FIRST: None}), {}, "only one of the two"),
    "a foreign tensor": (
        with_weights(tensors={"lm_head.weight": np.zeros((2, 2), np.float32)}),
        {},
        "no part of a LoRA adapter",
    ),
    "another rank": (with_config(r=16), {}, "the configuration says 16"),
    "other targets": (with_config(target_modules=["k_proj"]), {}, "k_proj"),
    "another kind of adapter": (with_config(peft_type="PREFIX_TUNING"), {}, "PREFIX_TUNING"),
    "another base": (with_config(base_model_name_or_path="meta/other"), {}, "meta/other"),
    "no safetensors": (with_bytes(b"not weights at all, really"), {}, "is no safetensors file"),
    "a header that lies": (
        with_bytes(struct.pack("<Q", 9) + b'{"a": 12}'),
        {},
        "is no safetensors file",
    ),
    "an empty file": (with_bytes(b""), {}, "is no safetensors file"),
    "a file that was cut": (cut, {}, "cut short"),
    "a huge file": (huge, {}, "--max-file-gb"),
    "weights of another run": (swapped, {}, "not the adapter that chain.json describes"),
    "a base that is a folder": (
        lambda run: change_manifest(run, base={"hub_id": None, "source": "my-model"}),
        {},
        "--base ORG/NAME",
    ),
    "a run that goes on": (lambda run: change_record(run, status="running"), {}, "is running"),
    "no run at all": (lambda run: (run / "run.json").unlink(), {}, "is no run folder"),
    "a record that is damaged": (
        lambda run: (run / "run.json").write_text("{"),
        {},
        "cannot be read",
    ),
    "a licence the Hub does not know": (lambda run: None, {"licence": "foo"}, "license"),
    "a licence the base forbids": (
        lambda run: change_manifest(run, base={"licence": "llama3.1"}),
        {"licence": "mit"},
        "llama3.1",
    ),
    "a base for no work made from it": (
        lambda run: change_manifest(run, base={"licence": "cc-by-nc-nd-4.0"}),
        {},
        "allows no work made from it",
    ),
    "a base for no commerce": (
        lambda run: change_manifest(run, base={"licence": "cc-by-nc-4.0"}),
        {"licence": "apache-2.0"},
        "no commercial use",
    ),
}


@pytest.mark.parametrize("name", INPUTS)
def test_a_bad_input_is_refused_with_the_reason_and_nothing_is_uploaded(stand, tmp_path, name):
    spoil, wishes, word = INPUTS[name]
    run = write_run(tmp_path)
    spoil(run)

    message = stand.run(publishing.publish_run, run, "org/bad", **wishes)

    assert isinstance(message, str), "it must be refused"
    assert word in message
    assert HF_TOKEN not in message
    assert {each.method for each in stand.hub.log} <= {"GET"}
    assert stand.hub.repositories.find("model", "org/bad") is None


NAMES = ["no-namespace", "org/a b", "org/a--b", "org/../x", "/org/x", "org/a.git", "org/é", "a/b/c"]


@pytest.mark.parametrize("name", NAMES)
def test_a_bad_name_is_refused_before_the_hub_is_asked(stand, tmp_path, name):
    message = stand.run(publishing.publish_run, write_run(tmp_path), name)
    assert "cannot be the name of a repository" in message
    assert not stand.hub.log


def test_a_secret_is_told_by_file_and_line_and_never_by_value(stand, tmp_path):
    run = write_run(tmp_path)
    with_text(HF_TOKEN)(run)
    message = stand.run(publishing.publish_run, run, "org/bad")
    assert "metrics.jsonl, line 2: a Hugging Face token stands there" in message
    assert HF_TOKEN not in message


def test_a_stranger_is_told_that_the_token_may_not_write_and_how_to_propose(stand, tmp_path):
    message = stand.run(publishing.publish_run, write_run(tmp_path), "elsewhere/run")
    assert "--create-pr" in message


def test_an_unknown_data_licence_is_no_licence_that_somebody_made_up(stand, tmp_path):
    run = write_run(tmp_path, config={"data": ["votes.jsonl"]})
    (plan,) = stand.run(publishing.plan_run, run, "org/unknown")
    assert any("votes.jsonl" in each.problem for each in plan.warnings)
    stand.run(publishing.publish_run, run, "org/unknown")
    card = stand.run(calls.fetch, "org/unknown", "README.md").decode()
    assert "license: other" in card
