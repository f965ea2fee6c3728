"""KMP questions: enough, distinct, deterministic, and true to the figures."""

import re
from collections import Counter

import pytest

from evals.errors import LabError
from evals.facts import load_kmp
from evals.questions import find, kmp_test, kmp_training
from evals.questions.kmp import kmp_rewordings, kmp_wordings
from evals.questions.kmp.corrections import wrong_figure
from evals.schema import AbstainTruth, CountTruth, LabelTruth

CONFIDENCE = re.compile(r"\nConfidence: (\d{1,2})%\Z")
LONGER = {"chain_of_thought", "multi_hop"}


def test_training_has_at_least_363_rows_and_none_twice():
    rows = kmp_training()
    assert len(rows) >= 363
    assert len({row.prompt for row in rows}) == len({row.id for row in rows}) == len(rows)
    assert {row.split for row in rows} == {"train"}


def test_no_two_wordings_of_any_seed_are_the_same_question():
    counts = Counter(" ".join(row.prompt.casefold().split()) for row in kmp_wordings())
    assert [wording for wording, times in counts.items() if times > 1] == []


def test_every_kind_is_there():
    kinds = Counter(row.kind for row in kmp_training())
    assert kinds == {
        "count": 188,
        "type": 20,
        "pattern": 36,
        "chain_of_thought": 55,
        "comparison": 73,
        "multi_hop": 35,
        "error_correction": 45,
        "calibration": 72,
        "definition": 38,
    }


def test_the_same_seed_gives_the_same_rows_and_another_seed_other_wordings():
    assert kmp_training(seed=3) == kmp_training(seed=3)
    first, second = kmp_training(seed=3), kmp_training(seed=4)
    assert {row.prompt for row in first} != {row.prompt for row in second}
    assert {fact for row in first for fact in row.facts} == {fact for row in second for fact in row.facts}


def test_a_wording_has_the_same_id_whatever_the_seed():
    by_id = {row.id: row for row in kmp_wordings()}
    assert all(by_id[row.id] == row for seed in (0, 5) for row in kmp_training(seed))


def test_drill_repeats_every_row_under_an_id_of_its_own():
    once, thrice = kmp_training(), kmp_training(drill=3)
    assert len(thrice) == 3 * len(once) == len({row.id for row in thrice})
    assert set(Counter(row.prompt for row in thrice).values()) == {3}


@pytest.mark.parametrize("drill", [-1, 0, 21])
def test_an_impossible_drill_is_refused(drill):
    with pytest.raises(LabError, match=rf"drill is {drill}; it takes 1"):
        kmp_training(drill=drill)


@pytest.mark.parametrize("rows", [kmp_wordings, kmp_test])
def test_every_answer_is_short_and_ends_with_the_confidence_of_its_row(rows):
    for row in rows():
        match = CONFIDENCE.search(row.answer)
        assert match and int(match[1]) == round(100 * row.confidence), row.id
        text = row.answer[: match.start()]
        assert len(text.split()) <= (75 if row.kind in LONGER else 55), row.id
        *explanation, line = text.splitlines()
        assert line.startswith("Answer: ")
        assert len(explanation) == (row.ground_truth.kind != "facts")


def test_every_primary_count_class_and_pattern_has_four_wordings_or_more():
    asked = Counter(row.facts[0] for row in kmp_training() if row.kind in {"count", "type", "pattern"})
    for figure in load_kmp().counts:
        assert asked[figure.id] >= 4, figure.id
    for row in load_kmp().tissues:
        assert asked[f"kmp/class/{row.tissue}"] == asked[f"kmp/oxphos/{row.tissue}"] == 5


def test_answers_to_count_questions_state_the_count_and_the_tissue():
    for row in kmp_wordings():
        if isinstance(row.ground_truth, CountTruth):
            value = f"{row.ground_truth.value:,} DEG"
            assert re.search(rf"(?<![\d,]){value}", row.answer), row.id
            assert row.tissue and row.tissue in row.answer.casefold(), row.id


def test_answers_name_the_right_label_and_no_competing_one():
    for row in (*kmp_wordings(), *kmp_test()):
        truth = row.ground_truth
        if isinstance(truth, LabelTruth):
            text = row.answer.casefold()
            assert any(_has(text, name) for name in (truth.value, *truth.accept)), row.id
            assert [name for name in truth.others if _has(text, name)] == [], row.id


def test_unanswerable_questions_say_that_the_data_cannot_answer():
    rows = [row for row in kmp_wordings() if isinstance(row.ground_truth, AbstainTruth)]
    assert len({row.facts for row in rows}) >= 25
    assert all(row.answer.startswith("The data cannot answer this: ") for row in rows)


def test_a_correction_quotes_a_wrong_figure_and_does_not_repeat_it():
    rows = [row for row in kmp_wordings() if row.kind == "error_correction"]
    corrected = [row for row in rows if row.facts[0].startswith("kmp/deg/")]
    assert len({row.facts for row in rows}) >= 40
    for row in corrected:
        if row.id.startswith("kmp/error_correction/soleus_baseline"):
            continue
        _, _, tissue, contrast = row.facts[0].split("/")
        figure = load_kmp().count(tissue, contrast)
        wrong = wrong_figure(figure)
        assert wrong != figure.genes
        assert f"{wrong:,} DEG" in row.prompt
        assert not re.search(rf"(?<![\d,]){wrong:,}(?![\d,])", row.answer)


@pytest.mark.parametrize(
    ("fact", "level"),
    [
        ("kmp/deg/liver/HU", 0.70),
        ("kmp/deg/hippocampus/KMP_baseline", 0.70),
        ("kmp/nes_stress/hippocampus", 0.60),
        ("kmp/class/hippocampus", 0.80),
        ("kmp/deg/heart/HU_IR/up", 0.85),
        ("kmp/deg/soleus/KMP_x_HU", 0.95),
        ("kmp/class/liver", 0.95),
        ("kmp/derived/additivity/soleus", 0.90),
        ("kmp/derived/additivity/liver", 0.70),
        ("kmp/limit/kidney", 0.90),
    ],
)
def test_confidence_follows_the_evidence(fact, level):
    assert {row.confidence for row in kmp_wordings() if row.facts[0] == fact} == {level}


def test_anything_built_on_a_doubted_figure_is_no_surer_than_the_figure():
    doubted = {figure.id for figure in load_kmp().counts if figure.doubt}
    leaning = [row for row in kmp_wordings() if doubted & set(row.support)]
    assert len(leaning) > 20
    assert {row.confidence for row in leaning} == {0.70}


@pytest.mark.parametrize(
    "error",
    [
        r"hippocampus[^.]*Type A",
        r"all other tissues",
        r"moderate",
        r"\bN/A\b",
        r"\bnan\b|None|\{|\}",
    ],
)
def test_known_errors_of_earlier_data_are_not_repeated(error):
    assert [row.id for row in (*kmp_wordings(), *kmp_test()) if re.search(error, row.answer)] == []


def test_the_test_set_has_ten_factual_five_reasoning_and_five_unanswerable_questions():
    assert [row.kind for row in kmp_test()] == ["factual"] * 10 + ["reasoning"] * 5 + ["abstain"] * 5
    assert {row.split for row in kmp_test()} == {"test"}
    assert len({row.id for row in kmp_test()}) == 20


def test_no_constant_label_answers_more_than_a_fifth_of_the_test():
    labels = Counter(row.ground_truth.value for row in kmp_test() if isinstance(row.ground_truth, LabelTruth))
    assert max(labels.values()) <= 4


@pytest.mark.parametrize("change", [str.upper, lambda text: f"  {text.replace(' ', '  ')}\n"])
def test_a_question_is_found_whatever_its_case_and_white_space(change):
    row = kmp_test()[3]
    assert find(change(row.prompt)) == row


def test_a_question_that_is_not_ours_is_not_found():
    assert find("Who painted the ceiling?") is None
    assert find("") is None


def test_every_wording_is_found_and_has_the_truth_of_its_row():
    assert all(find(row.prompt) == row for row in (*kmp_wordings(), *kmp_test()))


def _has(text: str, name: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(name.casefold())}(?!\w)", text) is not None


def test_rewordings_ask_for_trained_facts_in_words_that_no_training_row_has():
    trained = kmp_training()
    rows = kmp_rewordings()
    assert len(rows) >= 150
    assert not {row.prompt for row in rows} & {row.prompt for row in trained}
    assert {row.cluster for row in rows} <= {row.cluster for row in trained}
    assert len({row.cluster for row in rows}) == len(rows)
    assert {row.split for row in rows} == {"test"}
