"""Nothing that the KMP test asks for stands in training, in any wording that any seed can choose."""

import re

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
    "largest/HU_x_IR": (r"liver", r"(largest|most|tops|more DEGs)[^.]*HU x IR"),
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
"""What a text would contain that states the answer: all of these patterns."""

LEAKS = {
    "dominant_stressor/heart": "HU is the stronger stressor in heart: alone it gives 165 DEGs.",
    "dominant_stressor/hippocampus": "IR is the stronger stressor in hippocampus.",
    "largest/KMP_x_HU": "Soleus has the largest count for the KMP x HU interaction, 8,484 DEGs.",
    "smallest/HU_x_IR": "Hippocampus has the smallest count for the HU x IR interaction, 93 DEGs.",
    "largest/KMP_in_HU_IR": "Heart has the largest count for KMP during combined HU and IR.",
    "largest/HU_x_IR": "Liver has the largest count for the HU x IR interaction, 3,210 DEGs.",
    "same_class/heart": "Heart and soleus are Type A (stress-activated).",
    "same_pattern/soleus": "In heart and soleus, OXPHOS shows the rescue pattern.",
    "additive_sum/heart": "The two stressors give 165 and 33 DEGs in heart, 198 in sum.",
    "gain/hippocampus": "In hippocampus, radiation adds 3,955 DEGs to unloading.",
    "above_5000/liver/KMP_x_HU": "The KMP x HU interaction in liver gives 3,369, below 5,000.",
    "interaction_over_effect/soleus/KMP_x_HU": (
        "In soleus, the KMP x HU interaction gives 8,484 DEGs, above the 6,425 of HU alone."
    ),
    "additivity/hippocampus": "Combined stress in hippocampus is less than additive.",
    "baseline_or_stress/liver": "In liver, KMP changes more genes at baseline than under stress.",
    "order/heart/liver/KMP_x_HU": ("Liver has more DEGs for the KMP x HU interaction than heart: 3,369 against 479."),
    "human_dose": "The data cannot answer this: no dose was compared.",
    "astronauts": "Does KMP protect astronauts?",
    "single_gene": "The data cannot answer this: the responsible gene is not named.",
    "transfer": "The data cannot answer this: no human was measured.",
    "duration": "How many weeks of KMP are enough?",
}
"""For each test question a sentence in the manner of training that would give it away."""

SINGLE_FIGURE = {"above_5000/liver/KMP_x_HU"}
"""Asked about one trained figure: only its comparison with the threshold is held out."""


def test_no_tested_fact_is_asked_for_in_training():
    tested = {fact for row in kmp_test() for fact in row.facts}
    assert len(tested) == 20
    assert tested.isdisjoint(fact for row in kmp_wordings() for fact in row.facts)


def test_no_test_question_is_a_training_question():
    assert {_plain(row.prompt) for row in kmp_test()}.isdisjoint(_plain(row.prompt) for row in kmp_wordings())


def test_training_shares_no_eight_words_in_a_row_with_a_test_question():
    trained = {span for row in kmp_wordings() for text in (row.prompt, row.answer) for span in _spans(text)}
    tested = {span for row in kmp_test() for span in _spans(row.prompt)}
    assert trained & tested - set(UNAVOIDABLE) == set()


def test_no_training_row_puts_all_figures_of_a_test_question_together():
    rows = kmp_wordings()
    for row in kmp_test():
        needed = set(row.support)
        if row.kind == "abstain" or _slug(row) in SINGLE_FIGURE:
            assert len(needed) == (row.kind != "abstain"), row.id
        else:
            assert len(needed) >= 2, row.id
            assert [other.id for other in rows if needed <= set(other.support)] == [], row.id


def test_no_training_row_states_the_answer_to_a_test_question():
    found = [
        (row.id, other.id, text)
        for row in kmp_test()
        for other in kmp_wordings()
        for text in _statements(other, of_prompt=row.kind == "abstain")
        if _matches(_slug(row), text)
    ]
    assert found == []


def test_the_patterns_notice_a_sentence_that_gives_the_answer_away():
    assert [slug for slug in ALL_OF if not _matches(slug, LEAKS[slug])] == []


def _matches(slug: str, sentence: str) -> bool:
    return all(re.search(pattern, sentence, re.IGNORECASE) for pattern in ALL_OF[slug])


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
    return [row.answer] if is_asked else [row.answer, row.prompt]
