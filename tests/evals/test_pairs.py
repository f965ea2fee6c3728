"""Preference pairs say what the verifiers say, are labelled so, and follow the rule that the card states."""

import pytest

from evals.errors import BadConfig, LabError
from evals.questions import DATASETS, conversation, kmp_test, pathway_heldout
from evals.questions.pairs import HIGHEST, LOWEST, Accuracy, Sample, SampleOrigin, make_pairs, may_state
from evals.schema import Example, RubricTruth

ORIGIN = SampleOrigin(source="embedded", stage="sft", seed=0, temperature=1.0)
ROWS = DATASETS["pathways-train"]()
FIRST, SECOND, THIRD = [row for row in ROWS if row.ground_truth.kind == "direct"][:3]


def right(confidence: int | None, example: Example = FIRST, *, is_right: bool = True) -> str:
    way = "up" if (example.ground_truth.direction == "UP") == is_right else "down"
    text = f"In mouse {example.tissue}, most missions say so.\nAnswer: {way}"
    return text if confidence is None else f"{text}\nConfidence: {confidence}%"


def wrong(confidence: int | None, example: Example = FIRST) -> str:
    return right(confidence, example, is_right=False)


def sample(text: str, example: Example = FIRST, **changes: object) -> Sample:
    return Sample(example, conversation(example, "Be brief."), text, ORIGIN, **changes)


def answers(example: Example, rights: int, wrongs: int) -> list[Sample]:
    return [sample(right(90, example), example)] * rights + [sample(wrong(90, example), example)] * wrongs


# ---- the plain rule ---------------------------------------------------------------------------


def test_a_right_answer_is_preferred_to_a_wrong_one_with_all_that_led_to_it():
    made = make_pairs([sample(wrong(90)), sample(right(90))], 0.2, 2, unknown_questions=3)
    (row,) = made.rows
    assert (row.chosen[0].content, row.rejected[0].content) == (right(90), wrong(90))
    assert [turn.role for turn in row.prompt] == ["system", "user"]
    assert (row.rule, row.label_source) == ("verdict", "synthetic-verifier")
    assert (row.verdict_chosen, row.verdict_rejected) == ("correct", "incorrect")
    assert row.margin == pytest.approx(row.reward_chosen - row.reward_rejected, abs=1e-6)
    assert (row.example_id, row.kind, row.origin_chosen) == (FIRST.id, "direct", ORIGIN)
    assert (made.left_out, len(made.rows)) == ({"unknown_question": 3}, 1)


def test_of_equal_verdicts_the_surer_right_and_the_less_sure_wrong_one_is_preferred_after_all_others():
    for texts, chosen, rejected in (((wrong(95), wrong(10)), 0.1, 0.95), ((right(5), right(95)), 0.95, 0.05)):
        (row,) = make_pairs([sample(text) for text in texts], 0.2, 2).rows
        assert (row.rule, row.confidence_chosen, row.confidence_rejected) == ("confidence", chosen, rejected)
    texts = ["Nothing to say.", wrong(95), right(90), right(91) + " ", right(30), right(92)]
    made = make_pairs([sample(text) for text in texts], 0.2, 3)
    assert [row.verdict_rejected for row in made.rows] == ["incorrect", "no_claim", "correct"]
    used = [turn[0].content for row in made.rows for turn in (row.chosen, row.rejected)]
    assert len(set(used)) == len(used)
    texts = [text(sure) for text in (right, wrong) for sure in (10, 50, 90)]
    there, back = (make_pairs([sample(text) for text in order], 0.1, 3) for order in (texts, texts[::-1]))
    assert [row.pair_id for row in there.rows] == [row.pair_id for row in back.rows]


def test_a_question_without_a_clear_difference_gives_no_pair_and_is_counted():
    said = f"The gene set goes {right(None).split()[-1]} in mouse {FIRST.tissue}.\nConfidence: 90%"  # no answer line
    truth = RubricTruth(items=("It says so.",))
    free = FIRST.model_copy(update={"ground_truth": truth, "prompt": "Why?", "id": "mine/1"})
    cases = [
        ([sample(right(90)), sample(right(90))], "one answer"), ([sample(right(90)), sample(right(91))], "all right"),
        ([sample(wrong(90)), sample(wrong(91))], "none right"), ([sample(wrong(None)), sample(wrong(5))], "none right"),
        ([sample(right(90), was_cut=True), sample(wrong(90))], "margin"),
        ([sample(said), sample(wrong(90))], "none right"),
        ([sample(said, free), sample("No idea.", free)], "not scored"),
    ]  # fmt: skip
    for drawn, why in cases:
        with pytest.raises(LabError, match=f"1 {why}"):
            make_pairs(drawn, 0.2, 2)
    for margin, per_question in ((0.0, 1), (1.5, 1), (0.2, 0)):
        with pytest.raises(BadConfig, match=str(margin)):
            make_pairs([], margin, per_question)


def test_a_held_out_question_gives_no_pair_and_no_confidence_whatever_its_row_says():
    mine = kmp_test()[0].model_copy(update={"split": "train", "id": "mine/1"})
    made = make_pairs([*answers(FIRST, 1, 1), sample(mine.answer, mine), sample("No idea.", mine)], 0.2, 2)
    assert ({row.example_id for row in made.rows}, made.left_out) == ({FIRST.id}, {"held_out": 1})
    for held_out in (pathway_heldout()[0], kmp_test()[0]):
        kept = [sample(held_out.answer, held_out)] * 8
        made = make_pairs([*kept, *answers(FIRST, 1, 1), *answers(SECOND, 1, 1)], 0.2, 2, calibrate=True)
        assert ({row.example_id for row in made.rows}, made.left_out) == ({FIRST.id, SECOND.id}, {"held_out": 1})
        assert sum(part.claims for part in made.accuracy.values()) == 4


# ---- calibrated pairs -------------------------------------------------------------------------


def of_first(drawn: list[Sample], per_question: int = 2) -> list:
    """Return the pairs of FIRST, half of the answers to SECOND being right."""
    made = make_pairs([*drawn, *answers(SECOND, 4, 4)], 0.2, per_question, calibrate=True)
    return [row for row in made.rows if row.example_id == FIRST.id]


def test_both_answers_of_a_verdict_pair_state_how_often_answers_to_other_questions_are_right():
    levels = {(0, 0): 50, (5, 10): 50, (8, 8): 90, (0, 8): 10, (500, 500): HIGHEST, (0, 500): LOWEST}
    assert {each: may_state(Accuracy(right=each[0], claims=each[1])) for each in levels} == levels
    made = make_pairs([*answers(FIRST, 1, 1), *answers(SECOND, 1, 7)], 0.2, 2, calibrate=True)
    found = {row.example_id: row for row in made.rows if row.rule == "verdict"}
    # of the second question 1 of 8 is right: (1 + 1) / (8 + 2); of the first 1 of 2
    told = [(found[x.id].confidence_chosen, found[x.id].confidence_rejected) for x in (FIRST, SECOND)]
    assert told == [(0.2, 0.2), (0.5, 0.5)]
    assert [turn[0].content for turn in (found[FIRST.id].chosen, found[FIRST.id].rejected)] == [right(20), wrong(20)]


def test_a_calibration_pair_is_one_answer_twice_right_or_wrong_and_never_prefers_the_surer_for_being_right():
    rows = [row for row in of_first(answers(FIRST, 1, 1)) if row.rule == "calibration"]
    assert {row.verdict_chosen for row in rows} == {"correct", "incorrect"}
    for row in rows:
        chosen, rejected = (turn[0].content.splitlines() for turn in (row.chosen, row.rejected))
        assert chosen[:-1] == rejected[:-1]
        assert (chosen[-1], rejected[-1]) == ("Confidence: 50%", "Confidence: 90%")
        assert row.margin == pytest.approx(0.40) and row.verdict_chosen == row.verdict_rejected
        assert (row.label_source, row.origin_chosen) == ("synthetic-verifier", ORIGIN)
    drawn = [sample(right(95)), sample(right(30)), sample(wrong(90))]
    plain = make_pairs([*drawn, *answers(SECOND, 4, 4)], 0.2, 2).rows
    assert next(row for row in plain if row.example_id == FIRST.id).confidence_chosen == 0.95
    assert {row.confidence_chosen for row in of_first(drawn)} == {0.50}


def test_what_is_close_cut_or_claims_nothing_teaches_no_confidence_and_the_widest_pairs_come_first():
    close = [sample(right(55)), sample(wrong(90), was_cut=True)]
    assert [row.rule for row in of_first(close)] == ["verdict"]
    nothing = ("Nothing to say.", f"{right(None)}\n{wrong(None)}", "The gene set goes up in mouse liver.")
    empty = [sample(f"{nothing[0]}\nConfidence: 10%"), *(sample(f"{text}\nConfidence: 95%") for text in nothing)]
    assert of_first(empty, 3) == []
    before = (("", 70), ("So it is. ", 95), ("So it was. ", 5))
    wide = of_first([sample(f"{words}{right(None)}\nConfidence: {level}%") for words, level in before])
    assert sorted(row.confidence_rejected for row in wide) == [0.05, 0.95]


def test_answers_without_others_or_without_a_confidence_are_left_out_and_counted():
    other = next(row for row in ROWS if row.ground_truth.kind != "direct")
    drawn = [*answers(FIRST, 1, 1), *answers(SECOND, 1, 1), *[sample(other.answer, other)] * 2]
    made = make_pairs(drawn, 0.2, 2, calibrate=True)
    assert ({row.example_id for row in made.rows}, made.left_out) == ({FIRST.id, SECOND.id}, {"no_others": 1})
    made = make_pairs([*[sample(right(None, THIRD), THIRD)] * 8, *answers(FIRST, 1, 1)], 0.2, 2, calibrate=True)
    assert ({row.confidence_chosen for row in made.rows}, made.left_out) == ({0.90}, {"no_confidence": 1})
    assert made.accuracy == {"direct": Accuracy(right=9, claims=10)}
    with pytest.raises(LabError, match="1 no confidence"):
        make_pairs([sample(right(None))] * 3, 0.2, 2, calibrate=True)
    with pytest.raises(BadConfig, match="margin is 0"):
        make_pairs(answers(FIRST, 1, 1), 0.0, 2, calibrate=True)
