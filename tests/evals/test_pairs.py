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


def of_first(drawn: list[Sample], per_question: int = 2) -> list:
    """Return the pairs of FIRST, half of the answers to SECOND being right."""
    made = make_pairs([*drawn, *answers(SECOND, 4, 4)], 0.2, per_question)
    return [row for row in made.rows if row.example_id == FIRST.id]


def test_a_right_answer_is_preferred_to_a_wrong_one_with_all_that_led_to_it():
    drawn = [sample(wrong(90)), sample(right(90)), *answers(SECOND, 1, 1)]
    made = make_pairs(drawn, 0.2, 2, unknown_questions=3)
    row = next(row for row in made.rows if (row.example_id, row.rule) == (FIRST.id, "verdict"))
    assert (row.chosen[0].content, row.rejected[0].content) == (right(50), wrong(50))
    assert [turn.role for turn in row.prompt] == ["system", "user"]
    assert row.label_source == "synthetic-verifier"
    assert (row.verdict_chosen, row.verdict_rejected) == ("correct", "incorrect")
    assert row.margin == pytest.approx(row.reward_chosen - row.reward_rejected, abs=1e-6)
    assert (row.kind, row.origin_chosen, made.left_out) == ("direct", ORIGIN, {"unknown_question": 3})


def test_pairs_with_a_wrong_claim_come_first_no_answer_stands_in_two_and_the_order_of_answers_does_not_matter():
    said = [f"Well. {right(90)}", wrong(95), "Nothing to say.\nConfidence: 80%", right(30)]
    rows = [row for row in of_first([sample(text) for text in said], 3) if row.rule == "verdict"]
    assert [row.verdict_rejected for row in rows] == ["incorrect", "no_claim"]
    assert len({turn[0].content for row in rows for turn in (row.chosen, row.rejected)}) == 4
    there, back = (of_first([sample(text) for text in order], 3) for order in (said, said[::-1]))
    assert [row.pair_id for row in there] == [row.pair_id for row in back]


def test_a_question_without_a_clear_difference_gives_no_pair_and_is_counted():
    changes = {"ground_truth": RubricTruth(items=("It says so.",)), "prompt": "Why?", "id": "mine/1"}
    free = FIRST.model_copy(update=changes)
    cases = [
        ([sample(right(50)), sample(right(50))], "one_answer"), ([sample(right(50)), sample(f"So. {right(50)}")], "all_right"),
        ([sample(wrong(50)), sample(f"So. {wrong(50)}")], "none_right"),
        ([sample(right(50), was_cut=True), sample(wrong(50), was_cut=True)], "margin"),
        ([sample(right(None)), sample(wrong(None))], "no_confidence"),
        ([sample(right(50), free), sample("No idea.", free)], "not_scored"),
    ]  # fmt: skip
    others = [*answers(SECOND, 1, 1), *answers(THIRD, 1, 1)]
    assert [make_pairs([*drawn, *others], 0.2, 2).left_out for drawn, _ in cases] == [{why: 1} for _, why in cases]
    with pytest.raises(LabError, match="1 no confidence"):
        make_pairs([sample(right(None))] * 3, 0.2, 2)
    for margin, per_question in ((0.0, 1), (1.5, 1), (0.2, 0)):
        with pytest.raises(BadConfig, match=str(margin)):
            make_pairs([], margin, per_question)


def test_a_held_out_question_gives_no_pair_and_no_confidence_whatever_its_row_says():
    mine = kmp_test()[0].model_copy(update={"split": "train", "id": "mine/1"})
    for held_out in (pathway_heldout()[0], kmp_test()[0], mine):
        kept = [sample(held_out.answer, held_out)] * 8
        made = make_pairs([*kept, *answers(FIRST, 1, 1), *answers(SECOND, 1, 1)], 0.2, 2)
        assert ({row.example_id for row in made.rows}, made.left_out) == ({FIRST.id, SECOND.id}, {"held_out": 1})
        assert sum(part.claims for part in made.accuracy.values()) == 4


def test_both_answers_of_a_verdict_pair_state_how_often_answers_to_other_questions_are_right():
    levels = {(0, 0): 50, (5, 10): 50, (8, 8): 90, (0, 8): 10, (500, 500): HIGHEST, (0, 500): LOWEST}
    assert {each: may_state(Accuracy(right=each[0], claims=each[1])) for each in levels} == levels
    made = make_pairs([*answers(FIRST, 1, 1), *answers(SECOND, 1, 7)], 0.2, 2)
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
    made = make_pairs(drawn, 0.2, 2)
    assert ({row.example_id for row in made.rows}, made.left_out) == ({FIRST.id, SECOND.id}, {"no_others": 1})
    made = make_pairs([*[sample(right(None, THIRD), THIRD)] * 8, *answers(FIRST, 1, 1)], 0.2, 2)
    assert ({row.confidence_chosen for row in made.rows}, made.left_out) == ({0.90}, {"no_confidence": 1})
    assert made.accuracy == {"direct": Accuracy(right=9, claims=10)}
