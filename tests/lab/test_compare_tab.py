import json
import random
import re
from collections import Counter
from dataclasses import replace
from itertools import combinations, product
from types import SimpleNamespace

import gradio as gr
import pytest

from evals import questions
from evals.errors import LabError
from evals.preferences.rows import ratings_of
from lab.app import needs_chain
from lab.ask.session import earlier
from lab.compare import tab as compare
from lab.compare.tab import (
    Comparing,
    bank,
    drawn_question,
    explain,
    next_pair,
    offered_questions,
    restore_pair,
    undo,
    vote,
    write_pair,
)
from lab.session import Recorded, Visitor, answers_of, door, meet, name_visitor, new_visitor
from lab.shared.sets import QuestionSets
from lab.ui.components import stage_name
from tests.lab.chains import ScriptedChain, lab_with
from tests.lab.evaluations import scripted_report
from tests.lab.served import ON_AIR, Browser, on_air

SAID = {"base": "alpha words", "sft": "beta words", "grpo": "gamma words"}
NAMES = {"base": "Base", "sft": "SFT", "grpo": "GRPO"}


@pytest.fixture
def room(tmp_path):
    return lab_with(tmp_path, ScriptedChain(SAID))


def last(steps):
    *_, step = steps
    return step


def test_offered_questions_are_all_of_the_training_half_and_none_comes_twice():
    train = {row.prompt for row in (*questions.kmp_training(), *questions.pathway_training())}
    offered = [drawn_question(Comparing(seed=5, place=place), bank()) for place in range(1, len(train) + 1)]

    assert set(offered) == train
    assert drawn_question(Comparing(seed=6, place=1), bank()) != offered[0]


def test_question_stages_and_sides_are_drawn_alike_with_the_same_seed(room):
    drawn = []
    for _ in range(2):
        state, _ = last(next_pair(replace(room, random=random.Random(3)), new_visitor(), None))
        drawn.append((state.pair.drafts[0].stage, state.pair.question))
    assert drawn[0] == drawn[1]


TELLS = ("base", "sft", "grpo", "tokens", "confidence", " s<", "badge", "cut off")


def test_nothing_but_the_two_texts_is_told_before_the_vote_nor_which_one_ended_first(tmp_path):
    said = {"base": "one.\nConfidence: 80%", "sft": "one two three", "grpo": "one two three four five"}
    services = lab_with(tmp_path, ScriptedChain(said, seconds_per_word=0.01))

    steps = list(write_pair(services, new_visitor(), Comparing(), "What is HSF1?"))

    for _, view in steps:
        told = f"{view.notice}{view.cards}".lower().replace("\nconfidence:", "")
        assert [tell for tell in TELLS if tell in told] == []
        states = [state for state in ("waiting", "writing", "done") if f'"{state}"' in view.cards]
        assert states != ["writing", "done"]
    assert [view.may_vote for _, view in steps] == [False] * (len(steps) - 1) + [True]
    assert len(services.store.answers()) == 2


@pytest.mark.parametrize("choice", compare.CHOICES)
def test_each_choice_is_stored_as_it_was_made_then_names_and_the_right_answer_are_told_in_place(room, choice):
    visitor = new_visitor()
    state, view = last(next_pair(room, visitor, None))
    left, right = (SAID[draft.stage] for draft in state.pair.drafts)
    assert view.cards.index(left) < view.cards.index(right) and questions.find(state.pair.question)
    assert earlier(room, visitor) == (), "pairs stay out of the history of Ask"

    after, view = vote(room, visitor, state, choice)

    (stored,) = room.store.comparisons()
    assert stored.choice == choice
    assert (stored.left_stage, stored.right_stage) == (state.pair.drafts[0].stage, state.pair.drafts[1].stage)
    assert stored.question == state.pair.question
    assert stored.rater == room.store.hash_rater(visitor.rater)
    assert visitor.rater not in stored.model_dump_json()
    answers = {answer.id: answer for answer in room.store.answers()}
    assert answers[stored.left_answer].text == state.pair.drafts[0].text
    left, right = NAMES[state.pair.drafts[0].stage], NAMES[state.pair.drafts[1].stage]
    assert f"Left was {left}, right was {right}. The right answer is: " in view.notice
    assert (state.pair.question in view.question, view.may_vote, view.may_undo) == (True, False, True)
    assert vote(room, visitor, state, "left") is None, "a second vote on the same pair"
    assert "Wait until" in vote(room, visitor, after, "left")[1].notice, "names are shown"
    assert [each.choice for each in room.store.comparisons()] == [choice]
    following, view = last(next_pair(room, visitor, after))
    assert following.pair.question != state.pair.question
    assert (view.may_vote, view.may_undo) == (True, True)


def test_the_next_pair_is_written_while_this_one_is_read_and_again_where_something_else_is_wanted(room):
    visitor = new_visitor()
    state, _ = last(next_pair(room, visitor, None))
    assert last(next_pair(room, visitor, state))[0].place == 2
    assert [*state.ahead] == [], "it is taken once"
    state, _ = last(next_pair(room, visitor, None))
    asked = len(room.engine.chain().prompts)
    wanted = ("sft", "grpo")
    state, _ = last(next_pair(room, visitor, state, chosen=wanted))
    assert {draft.stage for draft in state.pair.drafts} == set(wanted)
    assert len(room.engine.chain().prompts) > asked


def test_pairs_are_drawn_from_the_newest_set_of_ones_own_and_a_held_out_question_says_that_it_trains_nothing(
    room, tmp_path
):
    assert offered_questions(room, None) == bank()
    made = {}
    for title, splits in (("old", ("train", "test")), ("new", ("test", "test"))):
        rows = [
            {"id": f"{title}-{n}", "prompt": f"{title} question {n}?", "group": f"{n}", "split": split}
            | {"truth": {"kind": "choice", "value": "yes", "options": ["yes", "no"]}}
            for n, split in enumerate(splits)
        ]
        sets = QuestionSets(room, new_visitor())
        (file := tmp_path / f"{title}.jsonl").write_text("\n".join(map(json.dumps, rows)))
        made[title] = sets.freeze(sets.bring(file).id).id
    assert offered_questions(room, made["old"]) == ("old question 0?",)
    assert offered_questions(room, "") == bank()
    visitor = new_visitor()
    for source, is_told in ((None, True), (made["old"], False)):
        state, view = last(next_pair(room, visitor, None, source=source))
        assert state.asked.startswith("new" if source is None else "old")
        assert ("not used for training" in view.notice) == is_told
    assert "The right answer is: yes." in vote(room, visitor, state, "tie")[1].notice


def test_votes_without_a_name_are_one_rater_s_and_a_name_is_one_person_s_in_every_browser(room):
    asked = [SimpleNamespace(username=None, session_hash=f"page {n}") for n in range(5)]
    visitors = [meet(None, each)[0] for each in asked[:3]]
    (ada, kept), (again, _) = (
        name_visitor(None, " Ada  L. ", asked[3]),
        name_visitor("no name of ours", "ada l.", asked[4]),
    )
    assert meet(kept, asked[4])[0].voter == ada.voter == again.voter == "name:ada l."
    assert ada.rater != again.rater, "what each browser asked stays its own"
    assert name_visitor(kept, "", asked[3])[0].name == ""
    with gr.Blocks() as page, gr.Tab("Compare") as tab:
        compare.build(room, door(), tab)
    on_met = next(event.fn for event in page.fns.values() if getattr(event.fn, "__name__", "") == "on_met")
    shown = {name: on_met(Visitor("b", "p", name)) for name in ("name:Dr: Ada", "hf:ada", "", "admin")}
    assert [box.value for box in shown.values()] == ["Dr: Ada", "ada", "", "admin"]
    assert [box.interactive for box in shown.values()] == [True, False, True, False]
    for visitor in (*visitors, ada, again):
        state, _ = last(next_pair(room, visitor, None, "What is HSF1?"))
        vote(room, visitor, state, "left")
    assert len({each.rater for each in room.store.comparisons()}) == 4
    assert room.store.counts().raters == 2
    assert len({rating.rater for rating in ratings_of(room.store.preference_pairs())}) == 2


def test_what_cannot_be_done_is_told_and_stores_nothing(room, tmp_path):
    (tmp_path / "one").mkdir()
    single = lab_with(tmp_path / "one", ScriptedChain(stages=("base",)))
    visitor = new_visitor()
    for steps, told in (
        ([vote(room, visitor, None, "tie")], "Wait until both answers are complete"),
        (undo(room, visitor, None), "no vote to undo"),
        (next_pair(room, visitor, None, "x" * 100_000), "100,000 characters"),
        (next_pair(single, visitor, None), "has only 1 stage"),
    ):
        _, view = last(steps)
        assert told in view.notice
        assert not view.may_vote
    assert room.store.comparisons() == room.store.answers() == ()


def test_equal_answers_are_not_voted_on_and_bring_another_question(tmp_path):
    services = lab_with(tmp_path, ScriptedChain(dict.fromkeys(SAID, "the same words")))
    visitor = new_visitor()
    for own, asked in ((None, compare.ATTEMPTS), ("What is HSF1?", 1)):
        steps = list(next_pair(services, visitor, None, own))
        assert len({view.question for _, view in steps}) == asked
        state, view = steps[-1]
        assert "nothing to vote on" in view.notice
        assert not any(view.may_vote for _, view in steps)
        assert "Wait until" in vote(services, visitor, state, "left")[1].notice

    services = lab_with(tmp_path, ScriptedChain({"base": "same", "sft": "same", "grpo": "other"}))
    for _ in range(5):
        state, view = last(next_pair(services, visitor, None))
        assert view.may_vote == (
            state.pair is not None and {state.pair.drafts[0].text, state.pair.drafts[1].text} != {"same"}
        )


def test_a_pair_that_the_browser_remembers_is_voted_on_after_a_restart_by_its_own_visitor_only(room):
    visitor = new_visitor()
    state, _ = last(next_pair(room, visitor, None))
    table = [answer.id for answer in state.pair.answers]
    found = restore_pair(room, visitor, table)
    assert (found.pair.question, found.pair.drafts[0].text) == (state.pair.question, state.pair.drafts[0].text)
    vote(room, visitor, found, "right")
    (stored,) = room.store.comparisons()
    assert [stored.left_answer, stored.right_answer] == table
    assert restore_pair(room, new_visitor(), table) is None
    assert [restore_pair(room, visitor, odd) for odd in (None, "x", [], ["no"], [1, 2])] == [None] * 5


def test_a_vote_taken_back_leaves_the_named_pair_and_goes_on_blind(room):
    visitor = new_visitor()
    state, _ = last(next_pair(room, visitor, None))
    voted, _ = vote(room, visitor, state, "left")

    back, view = last(undo(room, visitor, voted))

    assert room.store.comparisons() == ()
    assert room.store.counts().withdrawn == 1
    assert back.pair.question != state.pair.question
    assert (view.may_vote, view.may_undo) == (True, False)
    assert "undone" in view.notice
    voted, _ = vote(room, visitor, back, "right")
    assert [stored.choice for stored in room.store.comparisons()] == ["right"]
    going_on, _ = last(next_pair(room, visitor, voted))
    back, view = last(undo(room, visitor, going_on))
    assert (back.pair, view.may_vote, room.store.comparisons()) == (going_on.pair, True, ())


def test_a_vote_cast_before_the_rater_gave_a_name_is_taken_back_under_that_name(room):
    anonymous = new_visitor()
    state, _ = last(next_pair(room, anonymous, None))
    voted, _ = vote(room, anonymous, state, "left")
    last(undo(room, replace(anonymous, name="name:Ann"), voted))
    assert room.store.comparisons() == ()


def test_after_a_vote_on_an_answer_that_names_itself_the_page_tells_that_it_counts_nowhere(tmp_path):
    for words, is_told in (("As the SFT model I say up.", True), ("beta words", False)):
        services = lab_with(
            tmp_path, ScriptedChain({**SAID, "sft": words, "grpo": "gamma", "base": "alpha"}, stages=("base", "sft"))
        )
        visitor = new_visitor()
        state, view = last(next_pair(services, visitor, None))
        assert "named" not in view.notice, "not before the vote"
        assert ("named its author" in vote(services, visitor, state, "left")[1].notice) == is_told


@pytest.mark.parametrize("choice", ["left", "tie"])
def test_after_a_vote_for_a_side_its_strength_and_reasons_are_kept_by_its_rater_until_it_is_taken_back(room, choice):
    visitor = new_visitor()
    state, _ = last(next_pair(room, visitor, None))
    voted, _ = vote(room, visitor, state, choice)
    told = explain(room, visitor, voted, "clear", ["fact", "safer"], " It is \0right. " + "x" * 600)
    assert "Saved with your vote" in told
    (kept,) = room.store.comparisons()
    assert (kept.strength, kept.reasons, len(kept.remark)) == ("clear", ("fact", "safer"), 500)
    explain(room, visitor, voted, None, [], "")
    assert room.store.comparisons()[0] == kept.model_copy(update={"strength": None, "reasons": (), "remark": ""})
    for other, page in ((new_visitor(), voted), (visitor, None)):
        with pytest.raises(LabError, match="no vote"):
            explain(room, other, page, "slight", [], "")
    last(undo(room, visitor, voted))
    with pytest.raises(LabError, match="no vote"):
        explain(room, visitor, voted, "slight", [], "")


def test_each_rater_sees_each_stage_equally_often_on_both_sides(room):
    seen, visitors = Counter(), [new_visitor(), new_visitor()]
    for visitor in visitors * 24:
        state, _ = last(next_pair(room, visitor, None))
        seen[visitor.rater, *(draft.stage for draft in state.pair.drafts)] += 1
        vote(room, visitor, state, "tie")
    for visitor, (one, other) in product(visitors, combinations(SAID, 2)):
        assert (
            abs(seen[visitor.rater, one, other] - seen[visitor.rater, other, one])
            <= 1
            <= seen[visitor.rater, one, other]
        )


def test_a_page_chooses_who_takes_part_and_a_hosted_stage_that_was_silent_is_left_out(room):
    visitor = new_visitor()
    for asked in ("What is HSF1?", None):
        state, _ = last(next_pair(room, visitor, None, asked, ("sft", "grpo")))
        assert {draft.text for draft in state.pair.drafts} == {"beta words", "gamma words"}
    assert "two or more" in last(next_pair(room, visitor, None, chosen=("sft",)))[1].notice
    room.engine.chain().hosted = {"grpo": SimpleNamespace(is_silent=True)}
    pairs = [last(next_pair(room, visitor, None))[0].pair for _ in range(4)]
    assert {draft.stage for pair in pairs for draft in pair.drafts} == {"base", "sft"}


def test_a_vote_that_cannot_be_stored_keeps_the_pair_on_the_table(room, monkeypatch):
    def refuse(_):
        raise LabError("the store is locked. Try again.")

    visitor = new_visitor()
    state, _ = last(next_pair(room, visitor, None))
    monkeypatch.setattr(room.store, "add_comparison", refuse)

    after, view = vote(room, visitor, state, "left")

    assert "The store is locked. Try again." in view.notice
    assert (after, view.may_vote, view.is_revealed) == (state, True, False)


def test_recorded_answers_are_compared_without_a_model_and_stored_with_their_own_origin(room):
    answers = [*answers_of(scripted_report("kmp-test"))]
    services, visitor = replace(room, recorded=Recorded(answers)), new_visitor()
    state, view = last(next_pair(services, visitor, None))
    assert view.may_vote
    assert state.asked in {each.question for each in answers}
    state, view = vote(services, visitor, state, "left")

    ((kept, left, right),) = [(each.vote, each.left, each.right) for each in room.store.preference_pairs()]
    recorded = {(each.question, each.stage): each for each in answers}
    for shown in (left, right):
        source = recorded[kept.question, shown.stage]
        assert shown == source.model_copy(update={"id": shown.id, "session": shown.session})
    assert f"Left was {stage_name(left.stage)}" in view.notice
    assert room.engine.status.state == "idle"
    assert "its own questions" in last(next_pair(services, visitor, state, "What is HSF1?"))[1].notice
    assert not needs_chain(services, ("Compare",))


@ON_AIR
def test_over_http_the_stages_stay_on_the_server_until_the_vote(room):
    with on_air(room, ("Compare",)) as app:
        browser = Browser(app)
        browser.call("meet", None)
        sent = browser.call("pair_on", None, "What is HSF1?")
        told = browser.call("vote_tie")

        follows = [
            each for each in app.config["dependencies"] if each["trigger_after"] == browser._events["pair_on"]["id"]
        ]

    assert "words" in sent
    assert re.findall(r'interactive\\?": ?true', sent) == [], "the last step is painted twice: over a vote in between"
    assert len([each for each in follows if len(each["outputs"]) == len(compare.CHOICES)]) == 1, "then votes are taken"
    assert [name for name in ("base", "sft", "grpo", "stage") if name in sent.lower()] == []
    assert sum(f" was {name}" in told for name in NAMES.values()) == 2
    assert len(room.store.comparisons()) == 1
