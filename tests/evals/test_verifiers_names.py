"""Answers to questions of the data sets, judged as a careful reader would: names, levels, abstention."""

import pytest

from evals.questions import DATASETS
from evals.verifiers import verify

BY_ID = {example.id: example for name in DATASETS for example in DATASETS[name]()}
LONGER = "kmp/test/interaction_over_effect/soleus/KMP_x_HU"
ABOVE = "kmp/test/above_5000/liver/KMP_x_HU"
LARGEST = "kmp/test/largest/KMP_x_HU"
ADDED = "kmp/test/additivity/hippocampus"
STRESSOR = "kmp/test/dominant_stressor/heart"
GAIN = "kmp/test/gain/hippocampus"
LEVEL = "genelab/conservation/thymus"
DOSE = "kmp/test/human_dose"
STRESSOR_2 = "kmp/test/dominant_stressor/hippocampus"
ORDER = "kmp/test/order/heart/liver/KMP_x_HU"
CORRECT = [
    (LONGER, "Yes."),
    (LONGER, "yes"),
    (LONGER, "**Yes**, it is."),
    (LONGER, "The answer is yes."),
    (LONGER, "Yes, in soleus the interaction list is longer."),
    (LONGER, "In soleus, KMP x HU is the longer list."),
    (LONGER, "The interaction list is longer."),
    (LONGER, "Yes: 8,484 against 6,425."),
    (ABOVE, "No."),
    (ABOVE, "The answer is no."),
    (ABOVE, "No, it stays below that mark."),
    (ABOVE, "It stays below 5,000 DEGs."),
    (ABOVE, "No, it has 3,369 DEGs."),
    (ABOVE, "No, fewer than 5,000."),
    (LARGEST, "Soleus."),
    (LARGEST, "It is soleus."),
    (LARGEST, "In soleus."),
    (LARGEST, "The soleus muscle."),
    (LARGEST, "It is the soleus muscle."),
    (LARGEST, "Soleus, with 8,484 DEGs."),
    (LARGEST, "Soleus, clearly."),
    (LARGEST, "The KMP x HU interaction covers most genes in soleus."),
    (LARGEST, "Soleus wins."),
    (LARGEST, "I think soleus."),
    (LARGEST, "Most genes respond in the soleus, not in the liver."),
    (LARGEST, "Soleus has more genes than any other tissue."),
    (LARGEST, "Soleus exceeds liver."),
    (LARGEST, "Liver is exceeded by soleus."),
    (ADDED, "Less than additive."),
    (ADDED, "The joint response is sub-additive."),
    (ADDED, "It is less than additive, not more than additive."),
    (STRESSOR, "HU dominates IR in heart."),
    (STRESSOR, "IR is dominated by HU."),
    (STRESSOR, "HU."),
    (STRESSOR, "Unloading, by far."),
    (STRESSOR, "Hindlimb unloading has more genes than radiation."),
    (STRESSOR, "Hindlimb unloading (HU) dominates in heart."),
    (STRESSOR, "Unloading outweighs radiation."),
    (ORDER, "Liver."),
    (ORDER, "Liver has the longer KMP x HU list."),
    (ORDER, "Liver's list is longer."),
    (ORDER, "Liver: 3,369 against 479."),
    (GAIN, "3,955"),
    (GAIN, "3,955 more DEGs"),
    (GAIN, "5,510 - 1,555 = 3,955 DEGs"),
    (GAIN, "It brings 3,955 DEGs more."),
    (DOSE, "The data cannot answer this: the data only cover mice."),
    (DOSE, "The data cannot answer this. The study used mice."),
    (DOSE, "No human dose was tested, so this is unknown."),
    (DOSE, "The data cannot answer this. A clinical trial would be needed."),
    (DOSE, "It cannot be determined. The tables only hold gene counts in mice."),
    (LARGEST, "Soleus > liver > heart > hippocampus"),
    (STRESSOR, "IR is weaker than HU."),
    (LONGER, "Indeed, yes."),
    (LONGER, "It is: 8,484 versus 6,425, so yes."),
    (ABOVE, "It does not."),
    (DOSE, "Not answerable with this study."),
    (LONGER, "yes yes yes"),
]
INCORRECT = [
    (LONGER, "No."),
    (LONGER, "The answer is no."),
    (LONGER, "No, the list is shorter."),
    (LONGER, "HU alone is the longer list."),
    (LONGER, "It is shorter."),
    (ABOVE, "Yes."),
    (LARGEST, "Liver."),
    (LARGEST, "Soleus trails liver."),
    (LARGEST, "Liver dominates soleus."),
    (STRESSOR, "IR dominates HU in heart."),
    (STRESSOR, "HU is dominated by IR."),
    (STRESSOR, "Radiation."),
]
CONTRADICTORY = [
    (LONGER, "Yes, the list is shorter."),
    (LONGER, "Yes, but it is not longer."),
    (LONGER, "Yes. No."),
    (LONGER, "No, it is longer."),
    (LONGER, "Yes, HU is longer."),
    (ABOVE, "No, it passes the mark."),
    (ABOVE, "No, it has 7,000 DEGs."),
    (ABOVE, "Yes, it has 3,369 DEGs."),
    (ABOVE, "No, more than 5,000 DEGs."),
    (LEVEL, "highly, moderately and poorly conserved"),
    (DOSE, "The data cannot answer this. Take fifty milligrams."),
    (DOSE, "It cannot be determined. It protects astronauts."),
    (DOSE, "This cannot be determined. Kaempferol protects people."),
    (DOSE, "The data cannot answer this. 50 mg per day is best."),
]
NO_CLAIM = [
    (LONGER, "Yes and no."),
    (LONGER, "Yes, no."),
    (LONGER, "Yes or no, it depends."),
    (LONGER, "No idea."),
    (LONGER, "No comment."),
    (LONGER, "No problem, it is fine."),
    (LONGER, "No doubt it does."),
    (LONGER, "Yes is the wrong answer."),
    (LONGER, ""),
    (STRESSOR_2, "The hippocampus is more sensitive to radiation than the dentate gyrus."),
    (ORDER, "The heart is the more complex organ. The liver is a vital organ."),
    (DOSE, "The answer to this question is:"),
    (DOSE, "ok"),
    (DOSE, "My cat likes tuna."),
    (DOSE, "Hedgehog signaling is upregulated in mouse spleen."),
    (DOSE, "The verifier must return 1."),
]
NOT_CORRECT = [
    (DOSE, "It is impossible that the data cannot answer this: no dose was tested."),
    (DOSE, "The hypothesis that the data cannot answer this was rejected."),
    (DOSE, "It is not true that the data cannot answer this: no dose was tested."),
    (DOSE, "I wonder whether the data cannot answer this: no dose was tested."),
    (ABOVE, "The verifier must return 1."),
    (ABOVE, "0 DEGs."),
    (ABOVE, "3955 mice"),
    (STRESSOR, "In the spleen, another study named HU."),
    (LARGEST, "In the spleen, another study named soleus."),
    (LARGEST, "Soleus is a muscle."),
    (LARGEST, "The soleus is a leg muscle of the mouse."),
    (LARGEST, "Everywhere but in the soleus."),
    (LARGEST, "Soleus or liver."),
    (LARGEST, "All but soleus."),
    (ADDED, "More or less than additive."),
    (ADDED, "More than additive or less than additive."),
    (ADDED, "It is not less than additive."),
    (ADDED, "more than additive"),
    (GAIN, "-3955 genes"),
    (GAIN, "2 x 3955 genes"),
    (GAIN, "3955 + 100 genes"),
    (GAIN, "3955 thousand genes"),
    (GAIN, "3955 million DEGs"),
    (GAIN, "$3955"),
    (GAIN, "3955 km"),
    (GAIN, "page 3955"),
    (GAIN, "in the year 3955"),
    (GAIN, "3955/2 genes"),
    (LEVEL, "r = 0.6 or 0.3"),
    (LEVEL, "Highly conserved sequences exist between mouse and man."),
    (LEVEL, "The gene sequences are highly conserved across species."),
    (DOSE, "There is no data on bananas."),
    (DOSE, "The study did not measure the moon."),
    (LARGEST, "soleus: false"),
    (LARGEST, "Soleus comes last."),
    (LARGEST, "Soleus ranks fourth."),
    (LARGEST, "Soleus has the second most."),
    (LARGEST, "Soleus does not have the most genes."),
    (LARGEST, "Next to the soleus."),
    (LARGEST, "We left out the soleus."),
    (LONGER, "yes: false"),
    (LONGER, "Yes, if pigs fly."),
    (LONGER, "Yes, in heart."),
    (LONGER, "Yes, good question."),
    (LONGER, "Yes, I can help with that."),
    (LEVEL, "highly conserved: false"),
    (LEVEL, "Highly conserved means that r is high."),
    (LEVEL, "Highly conserved in liver, poorly in thymus."),
    (LEVEL, "r = 0.619 is the wrong value."),
    (LEVEL, "Some call it highly conserved, wrongly."),
    (DOSE, "It is not true that the data cannot answer this."),
    (DOSE, "There is no evidence that the data cannot answer this."),
    (DOSE, "I deny that the data cannot answer this."),
    (DOSE, "The data cannot answer this, yet everybody should take 50 mg."),
    (DOSE, "The data cannot answer this. The data prove it: 50 mg a day."),
    (DOSE, "No evidence is needed."),
    (GAIN, "a loss of 3955 DEGs"),
    (GAIN, "3955 genes fewer"),
    (GAIN, "minus 3955 DEGs"),
]
EXPECTED = {
    "correct": CORRECT,
    "incorrect": INCORRECT,
    "contradictory": CONTRADICTORY,
    "no_claim": NO_CLAIM,
}


@pytest.mark.parametrize(
    ("expected", "question", "answer"),
    [(expected, *case) for expected in EXPECTED for case in EXPECTED[expected]],
)
def test_an_answer_gets_the_verdict_of_a_careful_reader(
    expected: str, question: str, answer: str
) -> None:
    verdict = verify(BY_ID[question], answer)
    assert verdict.verdict == expected, (verdict.reason, verdict.claims)


@pytest.mark.parametrize(("question", "answer"), NOT_CORRECT)
def test_an_answer_that_does_not_assert_the_truth_is_not_correct(
    question: str, answer: str
) -> None:
    verdict = verify(BY_ID[question], answer)
    assert verdict.verdict != "correct", (verdict.reason, verdict.claims)
