"""Earlier questions of a visitor: listed, shown again without the model, asked again."""

from dataclasses import replace

import pytest

from lab.ask.session import earlier
from lab.ask.tab import ask, replay, show_earlier
from lab.visitors import new_visitor as somebody
from tests.lab.chains import ScriptedChain, lab_with, ticking

SETTINGS = (0, 64, 0)


@pytest.fixture
def room(tmp_path):
    """A lab with a scripted chain, closed at the end."""
    services = lab_with(tmp_path)
    yield services
    services.store.close()


def last(views):
    *_, view = views
    return view


def show_last(services, visitor):
    return show_earlier(services, visitor, earlier(services, visitor)[0].first.id)


def test_earlier_questions_are_listed_newest_first_for_their_own_browser(room):
    visitor = somebody()
    last(ask(room, visitor, "first?", SETTINGS))
    last(ask(room, visitor, "second?", (3, 64, 0)))
    last(ask(room, somebody(), "of another?", SETTINGS))

    entries = earlier(room, somebody(visitor.rater))

    assert [entry.first.question for entry in entries] == ["second?", "first?"]
    assert [answer.stage for answer in entries[0].answers] == ["base", "sft", "grpo"]
    assert "seed 3" in entries[0].label


def test_an_earlier_question_shows_its_stored_answers_without_the_model(room):
    visitor = somebody()
    last(ask(room, visitor, "first?", SETTINGS))
    asked = len(room.engine.chain().prompts)

    view = show_last(room, visitor)

    assert "sft on first? with seed 0." in view.cards
    assert "Stored answers from" in view.notice
    assert len(room.engine.chain().prompts) == asked


def test_asking_again_with_the_same_seed_gives_the_same_words_and_says_so(room):
    visitor = somebody()
    last(ask(room, visitor, "first?", (9, 64, 0.7)))
    chosen = earlier(room, visitor)[0].first.id

    view = last(replay(room, visitor, chosen))

    assert "all 3 answers are word for word those of" in view.notice
    assert "with seed 9." in view.cards
    assert len(earlier(room, visitor)) == 2


def test_asking_again_after_the_model_changed_says_that_it_did(tmp_path):
    visitor = somebody()
    services = lab_with(tmp_path)
    last(ask(services, visitor, "first?", SETTINGS))
    chosen = earlier(services, visitor)[0].first.id
    changed = ScriptedChain({"grpo": "new words"})
    changed.stage_checksums = {**changed.stage_checksums, "grpo": "f" * 64}
    engine = type(services.engine)(lambda *_: changed)
    clock = ticking(services.now())

    view = last(replay(replace(services, engine=engine, now=clock), visitor, chosen))

    assert "2 of 3 answers are word for word" in view.notice
    assert "The model has changed since then." in view.notice


def test_asking_again_without_a_choice_says_what_to_do(room):
    assert "Choose one of your earlier questions" in last(replay(room, somebody(), None)).notice
    assert "Choose one of your earlier questions" in show_earlier(room, None, "gone").notice
