"""Nothing that the KMP test asks for stands in training, in any wording that any seed can choose."""

import re
from pathlib import Path

import yaml

from evals.questions import kmp_test
from evals.questions.bank import normalised
from evals.questions.kmp import kmp_wordings

LEAKS = yaml.safe_load((Path(__file__).parent / "cases" / "kmp_leaks.yaml").read_text(encoding="utf-8"))
TEST, TRAINING = kmp_test(), kmp_wordings()
SPAN = 8
SINGLE_FIGURE = "kmp/test/above_5000/liver/KMP_x_HU"
"""Asked about one trained figure: only its comparison with the threshold is held out."""


def plain(text: str) -> str:
    return " ".join(re.findall(r"[a-z0-9]+", normalised(text)))


def spans(text: str) -> set[str]:
    words = plain(text).split()
    return {" ".join(words[start : start + SPAN]) for start in range(len(words) - SPAN + 1)}


def gives_away(row_id: str, text: str) -> bool:
    patterns = LEAKS[row_id.removeprefix("kmp/test/")]["patterns"]
    return all(re.search(pattern, text, re.IGNORECASE) for pattern in patterns)


def test_no_tested_fact_is_asked_for_in_training_and_no_wording_or_eight_words_of_the_test_stand_there():
    tested = {fact for row in TEST for fact in row.facts}
    assert len(tested) == 20 and tested.isdisjoint(fact for row in TRAINING for fact in row.facts)
    assert {plain(row.prompt) for row in TEST}.isdisjoint(plain(row.prompt) for row in TRAINING)
    trained = {span for row in TRAINING for text in (row.prompt, row.answer) for span in spans(text)}
    assert trained & {span for row in TEST for span in spans(row.prompt)} == set()


def test_no_training_row_puts_all_figures_of_a_test_question_together():
    for row in TEST:
        needed = set(row.support)
        if row.kind == "abstain" or row.id == SINGLE_FIGURE:
            assert len(needed) == (row.kind != "abstain"), row.id
        else:
            assert len(needed) >= 2, row.id
            assert [other.id for other in TRAINING if needed <= set(other.support)] == [], row.id


def test_no_training_row_states_the_answer_to_a_test_question():
    found = []
    for row in TEST:
        for other in TRAINING:
            is_asked = other.prompt.endswith("?") and row.kind != "abstain"
            stated = [other.answer] if is_asked else [other.answer, other.prompt]
            found += [(row.id, other.id, text) for text in stated if gives_away(row.id, text)]
    assert found == []
    assert [row.id for row in TEST if not gives_away(row.id, LEAKS[row.id.removeprefix("kmp/test/")]["leak"])] == []
