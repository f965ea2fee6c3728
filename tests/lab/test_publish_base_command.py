"""Whether a copy of the base goes along with a chain, as the command line decides it."""

import pytest

from evals.errors import LabError
from hub.adapters import Wishes
from lab.commands import publish_base
from lab.commands.publish_base import publication_of
from tests.hub.bases import base_copy, write_base, write_packed_run
from tests.hub.runs import REVISION, change_manifest, write_run


@pytest.fixture
def embedded(tmp_path, monkeypatch):
    """A run on the embedded base, of which a small copy is found."""
    copy = base_copy(write_base(tmp_path / "base"))
    monkeypatch.setattr(publish_base, "_copy", lambda run: copy)
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
    monkeypatch.setattr(publish_base, "_copy", lambda run: copy)
    assert not publication_of(run, Wishes("org/mine"), None).with_base
    assert publication_of(run, Wishes("org/mine"), True).copy is copy


def test_a_revision_pins_what_is_there_and_nothing_that_is_published(embedded):
    wishes = Wishes("org/mine", base="org/x", base_revision=REVISION)
    with pytest.raises(LabError, match="leave one of them out"):
        publication_of(embedded, wishes, True)
