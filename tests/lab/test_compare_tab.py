import threading

import pytest

from evals import questions
from evals.errors import LabError
from lab.ask.tab import earlier
from lab.compare import tab as compare
from lab.compare.tab import Comparing, next_pair, undo, vote
from lab.visitors import new_visitor
from tests.lab.chains import ScriptedChain, lab_with
from tests.lab.served import ON_AIR, Browser, on_air

SAID = {"base": "alpha words", "sft": "beta words", "grpo": "gamma words"}


@pytest.fixture
def room(tmp_path):
    """A lab with a scripted chain, closed at the end."""
    services = lab_with(tmp_path, ScriptedChain(SAID))
    yield services
    services.store.close()


def last(steps):
    *_, step = steps
    return step


def test_two_different_stages_answer_a_question_of_the_bank(room):
    desk, view = last(next_pair(room, new_visitor(), None))

    assert desk.pair.left.stage != desk.pair.right.stage
    assert questions.find(desk.pair.question) is not None
    assert SAID[desk.pair.left.stage] in view.cards
    assert view.cards.index(SAID[desk.pair.left.stage]) < view.cards.index(SAID[desk.pair.right.stage])
    assert view.may_vote


def test_which_stages_and_which_side_is_drawn_anew_each_time(room):
    seen = set()
    desk = None
    for _ in range(60):
        desk, _ = last(next_pair(room, new_visitor(), desk))
        seen.add((desk.pair.left.stage, desk.pair.right.stage))

    assert seen == {(a, b) for a in SAID for b in SAID if a != b}


TELLS = ("base", "sft", "grpo", "tokens", "confidence", " s<", "badge", "cut off")


def test_nothing_but_the_two_texts_is_told_before_the_vote(tmp_path):
    said = {stage: text + ".\nConfidence: 80%" for stage, text in SAID.items()}
    services = lab_with(tmp_path, ScriptedChain(said))

    for _, view in next_pair(services, new_visitor(), None, "What is HSF1?"):
        told = f"{view.notice}{view.cards}{view.revealed}".lower().replace("confidence: 80%", "")
        assert [tell for tell in TELLS if tell in told] == []


def test_the_longer_answer_does_not_show_which_one_ended_first(tmp_path):
    said = {"base": "one", "sft": "one two three four", "grpo": "one two three four five six"}
    services = lab_with(tmp_path, ScriptedChain(said, seconds_per_word=0.01))

    for _, view in next_pair(services, new_visitor(), None):
        states = [state for state in ("waiting", "writing", "done") if f'"{state}"' in view.cards]
        assert states != ["writing", "done"]


def test_one_may_vote_only_when_both_answers_are_complete_and_stored(tmp_path):
    services = lab_with(tmp_path, ScriptedChain(SAID, seconds_per_word=0.02))

    steps = list(next_pair(services, new_visitor(), None))

    assert [view.may_vote for _, view in steps] == [False] * (len(steps) - 1) + [True]
    assert len(services.store.answers()) == 2


@pytest.mark.parametrize("choice", compare.CHOICES)
def test_each_choice_is_stored_as_it_was_made(room, choice):
    visitor = new_visitor()
    desk, _ = last(next_pair(room, visitor, None))

    last(vote(room, visitor, desk, choice))

    (stored,) = room.store.comparisons()
    assert stored.choice == choice
    assert (stored.left_stage, stored.right_stage) == (desk.pair.left.stage, desk.pair.right.stage)
    assert stored.question == desk.pair.question
    assert stored.rater == room.store.hash_rater(visitor.rater)
    assert visitor.rater not in stored.model_dump_json()
    answers = {answer.id: answer for answer in room.store.answers()}
    assert answers[stored.left_answer].text == desk.pair.left.text
    assert answers[stored.right_answer].stage == desk.pair.right.stage


def test_after_the_vote_the_names_are_told_and_the_next_question_comes_at_once(room):
    visitor = new_visitor()
    desk, _ = last(next_pair(room, visitor, None))

    steps = list(vote(room, visitor, desk, "left"))

    _, first = steps[0]
    names = {"base": "Base", "sft": "SFT", "grpo": "GRPO"}
    left, right = names[desk.pair.left.stage], names[desk.pair.right.stage]
    assert f"left is better. Left was {left}, right was {right}." in first.revealed
    after, view = steps[-1]
    assert after.pair.question != desk.pair.question
    assert view.may_vote
    assert view.may_undo


def test_a_second_vote_on_the_same_pair_changes_nothing(room):
    visitor = new_visitor()
    desk, _ = last(next_pair(room, visitor, None))
    last(vote(room, visitor, desk, "left"))

    assert list(vote(room, visitor, desk, "right")) == []

    assert [stored.choice for stored in room.store.comparisons()] == ["left"]


def test_four_buttons_pressed_at_the_same_moment_are_one_vote(room):
    visitor = new_visitor()
    desk, _ = last(next_pair(room, visitor, None))
    threads = [
        threading.Thread(target=lambda choice=choice: list(vote(room, visitor, desk, choice)))
        for choice in compare.CHOICES
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)

    assert len(room.store.comparisons()) == 1


def test_a_vote_without_a_pair_says_what_to_wait_for(room):
    for desk in (None, Comparing()):
        _, view = last(vote(room, new_visitor(), desk, "tie"))
        assert "Wait until both answers are complete" in view.notice
    assert room.store.comparisons() == ()


def test_skipping_stores_no_vote_and_brings_another_question(room):
    visitor = new_visitor()
    desk, first = last(next_pair(room, visitor, None))

    _, second = last(next_pair(room, visitor, desk))

    assert second.question != first.question
    assert room.store.comparisons() == ()


def test_skipping_in_the_middle_drops_the_unfinished_pair_for_good(tmp_path):
    gate = threading.Semaphore(0)
    services = lab_with(tmp_path, ScriptedChain(SAID, gate=gate))
    visitor = new_visitor()
    unfinished = next_pair(services, visitor, None)
    gate.release()
    desk, first = next(step for step in unfinished if "writing" in step[1].cards)

    skipped = next_pair(services, visitor, desk)
    next(skipped)
    seen = []
    thread = threading.Thread(target=lambda: seen.extend(skipped))
    thread.start()
    threading.Timer(0.3, gate.release, [1000]).start()
    rest = list(unfinished)
    thread.join(20)

    assert [view for _, view in rest if view.may_vote] == []
    assert seen[-1][1].question != first.question
    assert seen[-1][1].may_vote


def test_a_vote_taken_back_leaves_the_named_pair_and_goes_on_blind(room):
    visitor = new_visitor()
    desk, _ = last(next_pair(room, visitor, None))
    voted, _ = last(vote(room, visitor, desk, "left"))

    back, view = last(undo(room, visitor, voted))

    assert room.store.comparisons() == ()
    assert room.store.counts().withdrawn == 1
    assert back.pair.question not in {
        desk.pair.question,
        voted.pair.question,
    }
    assert view.may_vote
    assert not view.may_undo
    assert "taken back" in view.revealed
    last(vote(room, visitor, back, "right"))
    assert [stored.choice for stored in room.store.comparisons()] == ["right"]


def test_taking_back_without_a_vote_says_so(room):
    _, view = last(undo(room, new_visitor(), None))

    assert "no vote of yours" in view.notice


def test_a_question_of_ones_own_is_compared_and_stored_without_an_example(room):
    visitor = new_visitor()
    desk, view = last(next_pair(room, visitor, None, "Is <i>HSF1</i> up?"))
    last(vote(room, visitor, desk, "both_bad"))

    assert "Is &lt;i&gt;HSF1&lt;/i&gt; up?" in view.question
    assert room.store.comparisons()[0].example_id is None


def test_a_bad_question_of_ones_own_asks_nothing(room):
    _, view = last(next_pair(room, new_visitor(), None, "x" * 100_000))

    assert "100,000 characters" in view.notice
    assert not view.may_vote
    assert room.store.answers() == ()


def test_a_vote_that_cannot_be_stored_keeps_the_pair_on_the_table(room, monkeypatch):
    def refuse(_):
        raise LabError("the store is locked. Try again.")

    visitor = new_visitor()
    desk, _ = last(next_pair(room, visitor, None))
    monkeypatch.setattr(room.store, "add_comparison", refuse)

    after, view = last(vote(room, visitor, desk, "left"))

    assert "The store is locked. Try again." in view.notice
    assert after == desk
    assert view.may_vote
    assert view.revealed == ""


def test_the_history_in_ask_does_not_give_a_pair_away(room):
    visitor = new_visitor()
    last(next_pair(room, visitor, None))

    assert earlier(room, visitor) == ()


@ON_AIR
def test_over_http_the_stages_stay_on_the_server_until_the_vote(room):
    with on_air(room) as app:
        browser = Browser(app, app.local_url)
        browser.call("meet", None)
        sent = browser.call("pair_on", "What is HSF1?")
        told = browser.call("vote_tie")

    assert "words" in sent
    assert [name for name in ("base", "sft", "grpo", "stage") if name in sent.lower()] == []
    assert sum(f" was {name}" in told for name in ("Base", "SFT", "GRPO")) == 2
    assert len(room.store.comparisons()) == 1


def test_a_vote_taken_back_at_once_is_not_overrun_by_the_next_pair(tmp_path):
    gate = threading.Semaphore(2)
    services = lab_with(tmp_path, ScriptedChain(SAID, gate=gate))
    visitor = new_visitor()
    desk, _ = last(next_pair(services, visitor, None))
    going_on = vote(services, visitor, desk, "left")
    voted, _ = next(going_on)

    taking_back = undo(services, visitor, voted)
    next(taking_back)
    gate.release(100)

    assert list(going_on) == []
    back, _ = last(taking_back)
    assert back.pair.question != desk.pair.question
