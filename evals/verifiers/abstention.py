"""Judge whether an answer says that the data cannot answer, where they cannot.

"The study did not measure that, so it cannot be determined."   abstains
"Spaceflight cannot harm the liver."                            does not
"""

import re

from evals.schema import AbstainTruth, Claim
from evals.verifiers.finding import Finding
from evals.verifiers.reading import Reading, Sentence

NOUNS = r"(?:data|dataset|data set|study|studies|figures?|results?|experiments?|tables?|evidence|information|measurements?|design|counts?)"
KNOW = (
    r"(?:be )?(?:answer|determin|know|tell|told|say|said|conclud|infer|extrapolat|establish|judg|decid|deriv|support|"
    r"assess|predict|estimat|show|settle|identif|address|recommend|claim|deduce|read|give|given|made|make|prove|resolve)"
)
ABSTENTIONS = re.compile(
    rf"\b(?:can ?not|can't|could not|couldn't|unable to|impossible to|not possible to|no way to|not able to) (?:\w+ ){{0,3}}{KNOW}"
    rf"|\b(?:no|not enough|insufficient|too little|too few|lacks?|lacking|without) (?:[\w-]+ ){{0,3}}{NOUNS}"
    rf"|\b{NOUNS} (?:[\w-]+ ){{0,4}}(?:not|n't|don't|doesn't|didn't|can't|cannot|never|nothing about) ?(?:[\w-]+ ){{0,2}}(?:answer|say|tell|"
    r"show|contain|include|address|support|test|measure|allow|cover|report|hold|reveal|provide|give|record|examine|speak|identify|"
    r"determine|establish|prove|settle|suffice|exist)"
    r"|\b(?:not|never|n't) (?:\w+ )?(?:measured|tested|studied|examined|recorded|reported|determined|assessed|part of the study|"
    r"in the data|known|available|answerable|covered|included)\b"
    r"|\b(?:unknown|unanswerable|undetermined|indeterminate|insufficient|inconclusive)\b"
    r"|\bbeyond (?:the|what|these|this)\b|\boutside (?:the|what|these|this) (?:scope|data|study|\w+ ?can)"
    r"|\b(?:do not|don't|does not|did not) know\b|\bno (?:one|basis|answer)\b"
    r"|\b(?:remains?|is|are|stays?) (?:\w+ )?(?:unclear|unknown|unresolved|an open question)\b"
)
UNDONE = re.compile(
    r"\b(?:not|n't|hardly|no longer|isn't) (?:\w+ )?$|\b(?:false|untrue|wrong|not true) (?:\w+ ){0,2}that [^.\n]{0,40}$"
)
ASSERTS_ANYWAY = re.compile(
    r"\b(?:but|however|yet|still|nevertheless|nonetheless)\b[^.\n]{0,80}?(?:\b(?:is|are|would be|must be|should be|will)\b[^.\n]{0,40}?\d"
    r"|\b(?:definitely|certainly|clearly|undoubtedly|surely|proves?|proven|guaranteed?|yes)\b)"
)
MIN_WORDS = 2
"""Fewer words than this assert nothing ("ok")."""


def judge_abstention(truth: AbstainTruth, reading: Reading, question: str) -> Finding:
    """Return the verdict: correct = says that it cannot be answered; any other assertion is wrong."""
    spoken = [
        sentence for sentence in reading.sentences if _n_words(reading, sentence) >= MIN_WORDS
    ]
    claims: list[Claim] = []
    is_torn = False
    for sentence in spoken:
        start = reading.starts[sentence.first]
        text = reading.page.text[start : reading.ends[sentence.last]]
        is_torn = is_torn or ASSERTS_ANYWAY.search(text) is not None
        for match in ABSTENTIONS.finditer(text):
            if UNDONE.search(text[max(0, match.start() - 60) : match.start()]) is None:
                first = reading.page.origin(start + match.start())
                last = reading.page.origin(start + match.end() - 1) + 1
                claims.append(
                    Claim(subject="what is asked", says="cannot be answered", start=first, end=last)
                )
    if claims and is_torn:
        return Finding(
            "contradictory", "says that the data cannot answer, and answers", tuple(claims)
        )
    if claims:
        return Finding("correct", "says that the data cannot answer", tuple(claims))
    if spoken:
        return Finding("incorrect", "answers as if the data could tell")
    return Finding("no_claim", "says nothing")


def _n_words(reading: Reading, sentence: Sentence) -> int:
    return sum(word[0].isalpha() for word in reading.words[sentence.first : sentence.last + 1])
