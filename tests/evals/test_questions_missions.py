"""Questions about a single mission: what they rest on, and that they give nothing else away."""

from collections import Counter

from evals.facts import load_enrichment, load_hallmark
from evals.questions import (
    find,
    is_held_out,
    lone_missions,
    lone_missions_parted,
    pathway_heldout,
    pathway_training,
)
from evals.schema import DirectTruth, Example, MechanismTruth
from evals.verifiers import verify

OTHER_WAY = {
    "upregulated": "downregulated",
    "downregulated": "upregulated",
    "goes up": "goes down",
    "goes down": "goes up",
    "is higher": "is lower",
    "is lower": "is higher",
}


def turned(answer: str) -> str:
    """Return the answer with the other direction."""
    for said, other in OTHER_WAY.items():
        if said in answer:
            return answer.replace(said, other)
    raise AssertionError(f"no direction in {answer!r}")


def test_each_rests_on_the_only_significant_mission_of_its_tissue():
    significant = [row for row in load_enrichment() if row.padj < 0.05]
    missions = Counter((row.tissue, row.pathway) for row in significant)
    alone = {
        (row.tissue, row.pathway): (row.mission, "UP" if row.nes > 0 else "DOWN")
        for row in significant
        if missions[row.tissue, row.pathway] == 1 and row.tissue not in {"eye", "thymus"}
    }
    found = {}
    for row in lone_missions():
        truth = row.ground_truth
        assert isinstance(truth, DirectTruth)
        (mission,) = truth.missions
        found[truth.tissue, truth.pathway] = (mission, truth.direction)
    assert found == alone
    assert len(found) == len(lone_missions()) == 55


def test_no_other_pathway_question_is_about_the_same_set_in_the_same_tissue():
    clusters = {row.cluster for row in lone_missions()}
    assert not clusters & {row.cluster for row in (*pathway_training(), *pathway_heldout())}


def test_about_as_many_go_up_as_down_so_that_no_constant_answer_pays():
    ways = Counter(row.ground_truth.direction for row in lone_missions())
    assert abs(ways["UP"] - ways["DOWN"]) <= 5


def test_they_are_for_training_and_each_has_a_wording_of_its_own():
    rows = lone_missions()
    assert {row.split for row in rows} == {"train"}
    assert not any(is_held_out(row.prompt, row.id) for row in rows)
    assert all(find(row.prompt) == row for row in rows)


def test_the_answers_are_right_and_the_other_way_round_wrong():
    for row in lone_missions():
        assert verify(row, row.answer).verdict == "correct", row.answer
        text, line, confidence = row.answer.split("\n")
        other = "Answer: up" if line == "Answer: down" else "Answer: down"
        assert verify(row, "\n".join((turned(text), other, confidence))).verdict == "incorrect"


def test_parted_each_finding_is_asked_one_way_only_so_that_no_question_gives_another_away():
    parted = lone_missions_parted()
    assert [row.cluster for row in parted] == [row.cluster for row in lone_missions()]
    kinds = Counter((row.kind, row.ground_truth.direction) for row in parted)
    assert set(kinds) == {(kind, way) for kind in ("direct", "mechanism") for way in ("UP", "DOWN")}
    assert all(13 <= count <= 15 for count in kinds.values()), kinds
    asked = {row.id: row for row in lone_missions()}
    assert all(asked[row.id] == row for row in parted if row.kind == "direct")


def meanings() -> list[Example]:
    """Return the questions what a single mission's finding means."""
    return [row for row in lone_missions_parted() if row.kind == "mechanism"]


def test_what_a_finding_means_is_asked_of_more_sets_than_the_consensus_questions_have():
    consensus = {row.ground_truth.pathway for row in pathway_training() if row.kind == "mechanism"}
    assert len({row.ground_truth.pathway for row in meanings()} - consensus) >= 5


def test_what_a_finding_means_names_the_finding_and_is_answered_in_the_words_of_the_set():
    for row in meanings():
        truth = row.ground_truth
        assert isinstance(truth, MechanismTruth)
        (mission,) = truth.missions
        assert mission.replace("_", " ") in row.prompt
        assert truth.tissue in row.prompt
        assert find(row.prompt) == row
        assert not is_held_out(row.prompt, row.id)
        assert row.split == "train"
        assert verify(row, row.answer).verdict == "correct", row.answer


def test_an_answer_about_another_set_does_not_explain_the_finding():
    rows = meanings()
    about = {row.ground_truth.pathway: load_hallmark()[row.ground_truth.pathway].about for row in rows}
    wrong = 0
    for row, other in zip(rows, rows[1:] + rows[:1], strict=True):
        own = about[row.ground_truth.pathway]
        swapped = row.answer.replace(own, about[other.ground_truth.pathway])
        if other.ground_truth.pathway != row.ground_truth.pathway:
            wrong += 1
            assert verify(row, swapped).verdict != "correct", swapped
    assert wrong > 20
