import threading
from datetime import UTC, datetime, timedelta, timezone

import pytest

from evals.errors import LabError
from evals.schema import Answer, StatedConfidence, Verdict
from lab.store.answers import Store
from tests.lab.votes import NOON, answer, cast, new_store, url_in, vote

VERDICT = Verdict(
    verdict="correct",
    reason="names the direction",
    confidence=StatedConfidence(value=0.8, status="stated", quote="Confidence: 80%"),
    scores={"direction": 1.0, "other": None},
    reward=0.9,
)


@pytest.fixture
def store(tmp_path):
    opened = new_store(tmp_path)
    yield opened
    opened.close()


ODD = (
    {"text": "<script>alert(1)</script>'; DROP TABLE answers; --"},
    {"text": "🧬 \u202eright-to-left\u202c Ångström \x00 end"},
    {"text": ""},
    {"question": "x" * 100_000},
    {"seed": 2**62, "temperature": 0.7},
    {"verdict": VERDICT},
    {"asked_at": datetime(2026, 1, 2, 13, 0, tzinfo=timezone(timedelta(hours=1)))},
)


def test_an_answer_comes_back_exactly_as_it_was_stored_its_time_in_utc(store):
    answers = {f"a{n}": answer(f"a{n}", **changes) for n, changes in enumerate(ODD)}
    store.add_answers(list(answers.values()))
    assert {one.id: one for one in store.answers()} == answers
    assert {one.asked_at.tzinfo for one in store.answers()} == {UTC}
    with pytest.raises(Exception, match="no time zone"):
        store.add_answers([answer("late", asked_at=datetime(2026, 1, 1))])
    assert len(store.answers()) == len(answers)


def test_answers_are_newest_first_and_can_be_those_of_one_session(store):
    store.add_answers(
        [
            answer("old", asked_at=NOON),
            answer("new", asked_at=NOON + timedelta(hours=1)),
            answer("other", session="s2", asked_at=NOON + timedelta(hours=2)),
        ]
    )
    assert [one.id for one in store.answers()] == ["other", "new", "old"]
    assert [one.id for one in store.answers(session="s1")] == ["new", "old"]
    assert [one.id for one in store.answers(limit=1)] == ["other"]


def test_answers_of_one_question_are_stored_all_or_none(store):
    store.add_answers([answer("a1")])
    with pytest.raises(Exception, match="UNIQUE"):
        store.add_answers([answer("a2"), answer("a1")])
    assert [one.id for one in store.answers()] == ["a1"]


def test_a_vote_survives_closing_the_store_and_no_export_can_trace_the_rater(tmp_path):
    (tmp_path / "b").mkdir()
    first, other = new_store(tmp_path), new_store(tmp_path / "b")
    kept = cast(first, 1, ("base", "sft"), "right")
    assert first.hash_rater("kim") == kept.rater != other.hash_rater("kim")
    assert len(kept.rater) == 32
    first.close(), other.close()
    assert all(b"kim" not in file.read_bytes() for file in tmp_path.iterdir() if file.is_file())
    again = Store(url_in(tmp_path))
    assert again.comparisons() == (kept,)
    again.close()


def test_a_double_click_is_one_vote_and_the_first_choice_counts(store):
    left, right = answer("l", "base"), answer("r", "sft")
    store.add_answers([left, right])
    first = store.add_comparison(vote(left, right, "left", id="v1"))
    second = store.add_comparison(vote(left, right, "right", id="v2"))
    assert second == first
    assert store.comparisons() == (first,)
    store.add_comparison(vote(left, right, "tie", id="v3", rater="sam"))
    assert (store.counts().votes, store.counts().raters) == (2, 2)


def test_a_withdrawn_vote_is_kept_but_counts_nowhere_and_can_be_cast_again(store):
    left, right = answer("l", "base"), answer("r", "sft")
    store.add_answers([left, right])
    store.add_comparison(vote(left, right, "left", id="v1"))
    store.void_comparison("v1", "kim")
    assert (store.counts().votes, store.counts().withdrawn) == (0, 1)
    assert store.comparisons() == store.preference_pairs() == ()
    again = store.add_comparison(vote(left, right, "right", id="v2"))
    assert store.comparisons() == (again,)
    assert store.counts().withdrawn == 1


def test_only_the_rater_can_withdraw_a_vote_and_twice_changes_nothing(store):
    kept = cast(store, 1, ("base", "sft"), "left")
    for name, rater in ((kept.id, "sam"), ("nothing", "kim")):
        with pytest.raises(LabError, match=r"no vote .* of yours"):
            store.void_comparison(name, rater)
    assert store.counts().votes == 1
    store.void_comparison(kept.id, "kim")
    store.void_comparison(kept.id, "kim")
    assert store.counts().withdrawn == 1


def test_a_vote_on_answers_that_are_not_stored_or_of_another_stage_is_not_kept(store):
    left, right = answer("l1"), answer("r1", "sft")
    with pytest.raises(LabError, match=r"'l1'.*Ask for a new pair"):
        store.add_comparison(vote(left, right, "left"))
    store.add_answers([left, right])
    with pytest.raises(ValueError, match="names stage 'grpo'"):
        store.add_comparison(vote(left, right, "left", right_stage="grpo"))
    assert store.comparisons() == ()


def test_counts_say_who_beat_whom_whichever_side_they_stood_on(store):
    cast(store, 1, ("base", "sft"), "right")
    cast(store, 2, ("sft", "base"), "left")
    cast(store, 3, ("sft", "base"), "right")
    cast(store, 4, ("sft", "grpo"), "tie")
    cast(store, 5, ("base", "grpo"), "both_bad")
    cast(store, 6, ("base", "grpo"), "left", text="the same words")
    counts = store.counts()
    assert counts.by_choice == {"left": 2, "right": 2, "tie": 1, "both_bad": 1}
    assert [
        (pair.first, pair.second, pair.first_chosen, pair.second_chosen, pair.ties, pair.both_bad)
        for pair in counts.by_stages
    ] == [("base", "grpo", 1, 0, 0, 1), ("base", "sft", 1, 2, 0, 0), ("grpo", "sft", 0, 0, 1, 0)]
    assert (counts.answers, counts.votes, counts.usable) == (12, 6, 3)


def test_twenty_users_in_two_programs_at_once_lose_no_row(store, tmp_path):
    other = Store(url_in(tmp_path))
    failures: list[Exception] = []

    def use(opened: Store, user: int) -> None:
        try:
            for number in range(user * 100, user * 100 + 5):
                cast(opened, number, ("base", "sft"), "left")
                opened.counts()
        except Exception as error:
            failures.append(error)

    threads = [
        threading.Thread(target=use, args=(opened, user + 1 + 10 * program))
        for program, opened in enumerate((store, other))
        for user in range(10)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    other.close()
    assert failures == []
    assert store.counts().answers == 200
    assert store.counts().votes == 100


def test_every_field_of_an_answer_has_its_column():
    from lab.store.tables import AnswerRow

    assert set(AnswerRow.__table__.columns.keys()) == set(Answer.model_fields)
