"""Whether a copy of the base goes along with a chain, as the command line decides it."""

import pytest

from evals.errors import LabError, MissingModel
from hub.adapters import Wishes
from lab.commands import publish as publish_base
from lab.commands.publish import publication_of
from tests.hub.bases import base_copy, write_base, write_packed_run
from tests.hub.runs import REVISION, change_manifest, write_run
from training.models import base as gguf


@pytest.fixture
def embedded(tmp_path, monkeypatch):
    """A run on the embedded base, of which a small copy is found."""
    copy = base_copy(write_base(tmp_path / "base"))
    monkeypatch.setattr(publish_base, "_copy", lambda run, named: copy)
    return write_packed_run(tmp_path / "runs")


ASKED = [
    # wishes for the base, --with-base, is a copy published, is a copy compared with
    ({}, None, True, True),
    ({}, False, False, False),
    ({"base": "org/shared"}, None, False, True),
    ({"base_revision": REVISION}, None, False, True),
    ({"base": "org/shared"}, True, True, True),
]


@pytest.mark.parametrize(("wishes", "with_base", "is_published", "is_compared"), ASKED)
def test_the_embedded_base_goes_along_unless_another_wish_is_told(
    embedded, wishes, with_base, is_published, is_compared
):
    found = publication_of(embedded, Wishes("org/mine", **wishes), with_base)
    assert found.with_base == is_published
    assert (found.copy is not None) == is_compared


@pytest.mark.parametrize(
    ("wishes", "named"),
    [
        ({"base": "org/x"}, "--base org/x"),
        ({"base_revision": REVISION}, f"--base-revision {REVISION}"),
        ({"base": "org/x", "base_revision": REVISION}, f"--base org/x --base-revision {REVISION}"),
    ],
)
def test_without_the_package_a_named_base_is_not_asked_for_again(tmp_path, monkeypatch, wishes, named):
    run = write_packed_run(tmp_path / "runs")
    monkeypatch.setattr(gguf, "PACKAGE_PIN", "no-such-package==1")
    monkeypatch.setattr(gguf, "PACKAGE", "no_such_package")
    monkeypatch.setenv("ASSAY_CACHE", str(unpacked(tmp_path)))
    with pytest.raises(MissingModel) as stopped:
        publication_of(run, Wishes("org/mine", **wishes), None)
    message = str(stopped.value)
    assert f"what {named} names cannot be compared" in message
    assert f"--no-base in place of {named}" in message
    assert "`pip install --no-deps no-such-package==1`" in message


def unpacked(cache):
    """Put the note of an unpacked embedded base into a cache folder, and return the folder."""
    (cache / gguf.FOLDER_NAME).mkdir()
    note = gguf.Unpacked(source_sha256=gguf.GGUF_SHA256, transformers="5", files={})
    (cache / gguf.FOLDER_NAME / gguf.MARKER).write_text(note.model_dump_json())
    return cache


def test_a_base_that_is_on_the_hub_is_not_published_again(tmp_path):
    run = write_run(tmp_path)
    found = publication_of(run, Wishes("org/mine"), None)
    assert (found.with_base, found.copy) == (False, None)
    with pytest.raises(LabError, match="on the Hub already"):
        publication_of(run, Wishes("org/mine"), True)


def test_a_base_of_ones_own_goes_along_only_when_that_is_asked_for(tmp_path, monkeypatch):
    run = write_run(tmp_path / "runs")
    change_manifest(run, base={"hub_id": None, "source": "model", "revision": None})
    copy = base_copy(write_base(tmp_path / "base"))
    monkeypatch.setattr(publish_base, "_copy", lambda run, named: copy)
    assert not publication_of(run, Wishes("org/mine"), None).with_base
    assert publication_of(run, Wishes("org/mine"), True).copy is copy


def test_a_revision_pins_what_is_there_and_nothing_that_is_published(embedded):
    wishes = Wishes("org/mine", base="org/x", base_revision=REVISION)
    with pytest.raises(LabError, match="leave one of them out"):
        publication_of(embedded, wishes, True)
