"""Calibrated pairs: what is said and how sure it is are learned apart, and held-out answers count nowhere."""

import pytest

from evals.errors import BadConfig, LabError
from evals.questions import DATASETS, kmp_test, pathway_heldout
from evals.questions.pairs import (
    HIGHEST,
    LOWEST,
    Accuracy,
    Sample,
    SampleOrigin,
    make_calibrated_pairs,
    make_pairs,
    may_state,
)
from evals.run import conversation
from evals.schema import Example

ORIGIN = SampleOrigin(source="embedded", stage="sft", seed=0, temperature=1.0)
DIRECTS = [row for row in DATASETS["pathways-train"]() if row.ground_truth.kind == "direct"]
FIRST, SECOND, THIRD = DIRECTS[:3]


def answer(example: Example, confidence: int | None, *, is_right: bool = True) -> str:
    way = "up" if (example.ground_truth.direction == "UP") == is_right else "down"
    text = f"In mouse {example.tissue}, most missions say so.\nAnswer: {way}"
    return text if confidence is None else f"{text}\nConfidence: {confidence}%"


def sample(example: Example, text: str, **changes: object) -> Sample:
    return Sample(example, conversation(example, "Be brief."), text, ORIGIN, **changes)


def answers(example: Example, right: int, wrong: int, confidence: int = 90) -> list[Sample]:
    return [
        *(sample(example, answer(example, confidence)) for _ in range(right)),
        *(sample(example, answer(example, confidence, is_right=False)) for _ in range(wrong)),
    ]


@pytest.mark.parametrize(
    ("right", "claims", "level"),
    [(0, 0, 50), (5, 10, 50), (8, 8, 90), (0, 8, 10), (500, 500, HIGHEST), (0, 500, LOWEST)],
)
def test_a_confidence_follows_from_how_often_answers_are_right(right, claims, level):
    assert may_state(Accuracy(right=right, claims=claims)) == level


def test_both_answers_of_a_verdict_pair_state_how_often_answers_to_other_questions_are_right():
    made = make_calibrated_pairs([*answers(FIRST, 1, 1), *answers(SECOND, 1, 7)], 0.2, 2)
    verdicts = {row.example_id: row for row in made.rows if row.rule == "verdict"}
    # of the second question 1 of 8 is right: (1 + 1) / (8 + 2); of the first 1 of 2
    assert verdicts[FIRST.id].confidence_chosen == verdicts[FIRST.id].confidence_rejected == 0.20
    assert verdicts[SECOND.id].confidence_chosen == verdicts[SECOND.id].confidence_rejected == 0.50
    assert verdicts[FIRST.id].chosen[0].content == answer(FIRST, 20)
    assert verdicts[FIRST.id].rejected[0].content == answer(FIRST, 20, is_right=False)


def test_a_calibration_pair_is_one_answer_twice_right_or_wrong():
    made = make_calibrated_pairs([*answers(FIRST, 1, 1), *answers(SECOND, 4, 4)], 0.2, 2)
    rows = [row for row in made.rows if row.rule == "calibration" and row.example_id == FIRST.id]
    assert {row.verdict_chosen for row in rows} == {"correct", "incorrect"}
    for row in rows:
        chosen, rejected = (turn[0].content.splitlines() for turn in (row.chosen, row.rejected))
        assert chosen[:-1] == rejected[:-1]
        assert (chosen[-1], rejected[-1]) == ("Confidence: 50%", "Confidence: 90%")
        assert row.margin == pytest.approx(0.40)
        assert row.verdict_chosen == row.verdict_rejected
        assert (row.label_source, row.origin_chosen) == ("synthetic-verifier", ORIGIN)


def test_no_pair_prefers_the_surer_answer_because_it_is_right_as_the_plain_rule_does():
    drawn = [
        sample(FIRST, answer(FIRST, 95)),
        sample(FIRST, answer(FIRST, 30)),
        sample(FIRST, answer(FIRST, 90, is_right=False)),
        *answers(SECOND, 4, 4),
    ]
    plain = [row for row in make_pairs(drawn, 0.2, 2).rows if row.example_id == FIRST.id]
    assert plain[0].confidence_chosen == 0.95
    made = make_calibrated_pairs(drawn, 0.2, 2)
    assert {row.confidence_chosen for row in made.rows if row.example_id == FIRST.id} == {0.50}


def test_a_confidence_close_to_the_right_one_and_a_cut_answer_teach_nothing():
    drawn = [
        sample(FIRST, answer(FIRST, 55)),
        sample(FIRST, answer(FIRST, 90, is_right=False), was_cut=True),
        *answers(SECOND, 4, 4),
    ]
    rows = make_calibrated_pairs(drawn, 0.2, 2).rows
    assert [row.rule for row in rows if row.example_id == FIRST.id] == ["verdict"]


def test_an_answer_that_claims_nothing_is_never_given_a_confidence():
    empty = [sample(FIRST, f"Nothing to say.\nConfidence: {level}%") for level in (10, 95)]
    both = answer(FIRST, None) + "\n" + answer(FIRST, None, is_right=False)
    said = "The gene set goes up in mouse liver."  # without an answer line
    drawn = [sample(FIRST, f"{text}\nConfidence: 95%") for text in (both, said)]
    drawn = [*empty, *drawn, *answers(SECOND, 4, 4)]
    made = make_calibrated_pairs(drawn, 0.2, 3)
    assert not [row for row in made.rows if row.example_id == FIRST.id]


def test_without_a_claim_to_another_question_of_the_kind_there_is_no_confidence_to_teach():
    other = next(row for row in DATASETS["pathways-train"]() if row.ground_truth.kind != "direct")
    drawn = [*answers(FIRST, 1, 1), *answers(SECOND, 1, 1), *[sample(other, other.answer)] * 2]
    made = make_calibrated_pairs(drawn, 0.2, 2)
    assert made.left_out == {"no_others": 1}
    assert {row.example_id for row in made.rows} == {FIRST.id, SECOND.id}


def test_the_widest_pairs_come_first_and_at_most_so_many_per_question():
    drawn = [
        sample(FIRST, f"{text}\nConfidence: {level}%")
        for text, level in (
            (answer(FIRST, None), 70),
            ("So it is. " + answer(FIRST, None), 95),
            ("So it was. " + answer(FIRST, None), 5),
        )
    ]
    made = make_calibrated_pairs([*drawn, *answers(SECOND, 4, 4)], 0.2, 2)
    rows = [row for row in made.rows if row.example_id == FIRST.id]
    assert sorted(row.confidence_rejected or 0 for row in rows) == [0.05, 0.95]


def test_answers_that_do_not_end_with_their_confidence_stand_in_no_pair_but_count_as_right():
    drawn = [sample(THIRD, answer(THIRD, None))] * 8 + answers(FIRST, 1, 1) + answers(SECOND, 0, 0)
    made = make_calibrated_pairs(drawn, 0.2, 2)
    assert made.left_out == {"no_confidence": 1}
    assert {row.confidence_chosen for row in made.rows} == {0.90}
    assert made.accuracy == {"direct": Accuracy(right=9, claims=10)}


@pytest.mark.parametrize("held_out", [pathway_heldout()[0], kmp_test()[0]])
def test_what_is_held_out_gives_no_pair_and_no_confidence(held_out: Example):
    kept = [sample(held_out, held_out.answer)] * 8
    made = make_calibrated_pairs([*kept, *answers(FIRST, 1, 1), *answers(SECOND, 1, 1)], 0.2, 2)
    assert made.left_out == {"held_out": 1}
    assert {row.example_id for row in made.rows} == {FIRST.id, SECOND.id}
    assert sum(part.claims for part in made.accuracy.values()) == 4


def test_nothing_to_pair_and_impossible_settings_are_said():
    with pytest.raises(LabError, match="1 no confidence"):
        make_calibrated_pairs([sample(FIRST, answer(FIRST, None))] * 3, 0.2, 2)
    with pytest.raises(BadConfig, match="margin is 0"):
        make_calibrated_pairs(answers(FIRST, 1, 1), 0.0, 2)
