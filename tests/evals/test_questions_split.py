"""Nothing that the KMP test asks for stands in training, in any wording that any seed can choose."""

import re

import pytest

from evals.questions import kmp_test
from evals.questions.bank import normalised
from evals.questions.kmp import kmp_wordings
from evals.schema import Example

SPAN = 8
UNAVOIDABLE: tuple[str, ...] = ()
"""Spans of names that any wording must contain. None so long is needed today."""

ALL_OF = {
    "dominant_stressor/heart": (r"heart", r"unloading|\bHU\b", r"strong|main|domina|matters"),
    "dominant_stressor/hippocampus": (
        r"hippoc",
        r"radiation|\bIR\b",
        r"strong|main|domina|matters",
    ),
    "largest/KMP_x_HU": (r"soleus", r"KMP x HU", r"largest|most|tops|more DEGs"),
    "smallest/HU_x_IR": (r"hippocampus", r"HU x IR", r"smallest|weakest|fewest|least|less"),
    "largest/KMP_in_HU_IR": (r"heart", r"KMP during combined", r"largest|most|tops|more DEGs"),
    "largest/HU_x_IR": (r"liver", r"HU x IR", r"largest|most|tops|more DEGs"),
    "same_class/heart": (r"heart", r"soleus", r"Type|class|activated"),
    "same_pattern/soleus": (r"heart", r"soleus", r"rescue|pattern|label"),
    "additive_sum/heart": (r"\b198\b",),
    "gain/hippocampus": (r"3,955",),
    "above_5000/liver/KMP_x_HU": (r"liver", r"KMP x HU", r"above|(?<!padj )below|more than|5,000"),
    "interaction_over_effect/soleus/KMP_x_HU": (
        r"soleus",
        r"KMP x HU",
        r"HU alone|unloading \(HU\)",
    ),
    "additivity/hippocampus": (r"hippocampus", r"additive"),
    "baseline_or_stress/liver": (r"liver", r"KMP|kaempferol", r"baseline", r"combined|both|stress"),
    "order/heart/liver/KMP_x_HU": (r"liver", r"KMP x HU", r"heart|against 479"),
    "human_dose": (r"\bdos(e|es|age)\b",),
    "astronauts": (r"astronaut|crew",),
    "single_gene": (r"responsible|names of genes",),
    "transfer": (r"\bhumans?\b|\bpeople\b|\bpatients?\b",),
    "duration": (r"duration|weeks?\b|how long",),
}
"""What a sentence would contain that states the answer: all of these patterns."""

SINGLE_FIGURE = {"above_5000/liver/KMP_x_HU"}
"""Asked about one trained figure: only its comparison with the threshold is held out."""


def test_no_tested_fact_is_asked_for_in_training():
    tested = {fact for row in kmp_test() for fact in row.facts}
    assert len(tested) == 20
    assert tested.isdisjoint(fact for row in kmp_wordings() for fact in row.facts)


def test_no_test_question_is_a_training_question():
    assert {_plain(row.prompt) for row in kmp_test()}.isdisjoint(
        _plain(row.prompt) for row in kmp_wordings()
    )


@pytest.mark.parametrize("part", ["prompt", "answer"])
def test_training_shares_no_eight_words_in_a_row_with_a_test_question(part):
    trained = {span for row in kmp_wordings() for span in _spans(getattr(row, part))}
    tested = {span for row in kmp_test() for span in _spans(row.prompt)}
    assert trained & tested - set(UNAVOIDABLE) == set()


@pytest.mark.parametrize("row", kmp_test(), ids=lambda row: row.id)
def test_no_training_row_puts_all_figures_of_a_test_question_together(row):
    needed = set(row.support)
    if row.kind == "abstain":
        assert not needed
        return
    if _slug(row) in SINGLE_FIGURE:
        assert len(needed) == 1
        return
    assert len(needed) >= 2
    assert [other.id for other in kmp_wordings() if needed <= set(other.support)] == []


@pytest.mark.parametrize("row", kmp_test(), ids=lambda row: row.id)
def test_no_training_row_states_the_answer_to_a_test_question(row):
    patterns = [re.compile(pattern, re.IGNORECASE) for pattern in ALL_OF[_slug(row)]]
    found = [
        (other.id, sentence)
        for other in kmp_wordings()
        for sentence in _statements(other, of_prompt=row.kind == "abstain")
        if all(pattern.search(sentence) for pattern in patterns)
    ]
    assert found == []


@pytest.mark.parametrize("row", kmp_test(), ids=lambda row: row.id)
def test_the_table_of_leaks_would_notice_the_test_answer_itself(row):
    text = f"{row.prompt} {row.answer}".replace("KMP x HU list", "KMP x HU list, longer")
    words = {
        "largest/KMP_in_HU_IR": "KMP during combined",
        "single_gene": "responsible",
        "dominant_stressor/hippocampus": "domina",
        "baseline_or_stress/liver": "more",
        "interaction_over_effect/soleus/KMP_x_HU": "HU alone",
        "largest/KMP_x_HU": "most",
    }
    text += " " + words.get(_slug(row), "")
    assert all(re.search(pattern, text, re.IGNORECASE) for pattern in ALL_OF[_slug(row)])


def _slug(row: Example) -> str:
    return row.id.removeprefix("kmp/test/")


def _plain(text: str) -> str:
    return " ".join(re.findall(r"[a-z0-9]+", normalised(text)))


def _spans(text: str) -> set[str]:
    words = _plain(text).split()
    return {" ".join(words[start : start + SPAN]) for start in range(len(words) - SPAN + 1)}


def _statements(row: Example, *, of_prompt: bool) -> list[str]:
    """Return what a row states: its answer, and its question unless that only asks."""
    is_asked = row.prompt.endswith("?") and not of_prompt
    texts = [row.answer] if is_asked else [row.answer, row.prompt]
    return [sentence for text in texts for sentence in re.split(r"(?<=[.!?])\s+", text)]
