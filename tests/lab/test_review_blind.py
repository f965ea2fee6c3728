"""While two reviews are compared blind, nothing on the page says who wrote which."""

from dataclasses import replace

import pytest

from lab.app import build_app
from lab.review.blind import both, vote
from lab.review.session import work
from lab.visitors import new_visitor
from tests.lab.chains import lab_with
from tests.lab.reviewers import PAPER, SAID, ScriptedReader


@pytest.fixture
def room(tmp_path):
    """A lab with two scripted reviewers, closed at the end."""
    readers = (ScriptedReader(), ScriptedReader("Other", SAID[1:]))
    services = replace(lab_with(tmp_path), readers=lambda: readers)
    yield services
    services.store.close()


def test_neither_review_is_listed_by_name_before_the_vote_and_both_are_after_it(room):
    visitor = new_visitor()

    def listed(view):
        kept = room.store.documents("review").newest(work(room, visitor).session)
        return [each.reviewer.name for each in kept if each.id not in view.unnamed]

    ready = None
    for ready in both(room, visitor, (None, PAPER), ("Scripted", "Other"), (0, 256, 0.1)):
        assert listed(ready) == []
    assert ready is not None
    assert len(ready.unnamed) == 2
    assert sorted(listed(vote(room, visitor, ready.pair, "tie"))) == ["Other", "Scripted"]


def test_the_list_of_earlier_reviews_is_told_which_to_leave_out(room):
    events = {each["api_name"]: each for each in build_app(room).get_config_file()["dependencies"]}
    states = set(events["my_reviews"]["inputs"]) & set(events["review_blind"]["outputs"])
    assert len(states) == 1
