"""Judge whether an answer says that the data cannot answer, where they cannot.

"The study did not measure that, so it cannot be determined."   abstains
"Spaceflight cannot harm the liver."                            does not
"""

import re
from collections.abc import Iterator

from evals.schema import AbstainTruth, Claim
from evals.verifiers.agreement import agreements
from evals.verifiers.direction import statements
from evals.verifiers.finding import Finding
from evals.verifiers.reading import Reading, Sentence, read

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
FIGURE = re.compile(
    r"\b(?:is|are|was|were|equals|gives|gave|changes|changed|take|has|have) (?:about |roughly |around |exactly |only )?"
    r"[0-9][0-9,.]*\b(?! ?(?:tissues|missions|groups))|\b[1-9][0-9,]* (?:degs?|genes)\b"
)
LABEL = re.compile(r"\b(?:is|are|belongs to) (?:of )?(?:a )?(?:type|class) [abc]\b|^yes\b")
"""A count or a name that is given after all."""

ASKED = (
    r"(?:this|it|what is asked|(?:the|this|that|your) (?:question|answer|direction|sign|number|count|figure|class|label|name)"
    r"|that(?= ?(?:[.,;:!)]|$| (?:can|could|is|was|remains)))|which(?: way)?\b)"
)
"""What an answer may call the question itself, unlike "the cause" or "why"."""
NOT_THAT = r"(?! (?:that|why|how|what|whether|if|to|about|for (?!sure|certain))\b)"
TELL = r"(?:answer|determine|know|tell|say|conclude|infer|establish|judge|decide|settle|resolve|derive)"
TOLD = r"(?:answered|determined|known|told|said|concluded|inferred|established|judged|decided|settled|resolved|derived|given)"
CANNOT = r"(?:can ?not|can't|could not|couldn't|unable to|impossible to|not possible to|no way to|not able to)"
DO_NOT = r"(?:do not|don't|does not|doesn't|did not|didn't|never)"
CLAUSE_END = r"(?= ?(?:[.,;:!)\n]|$| from\b| with\b))"
CLAUSE_START = (
    r"(?:^|[.,;:!(] ?|\b(?:but|and|so|yet|although|though|because|since|as|however|that) )"
)
OPEN = re.compile(
    rf"\b{CANNOT} (?:\w+ ){{0,2}}{TELL}(?:{CLAUSE_END}| {ASKED})"
    rf"|\b{DO_NOT} (?:{TELL}|measure|test|cover|report|contain|include|record|give|address|hold|show) {ASKED}"
    rf"|\b(?:(?:i|we) {DO_NOT} know|(?:no one|nobody) knows)(?:{CLAUSE_END}| {ASKED})"
    rf"|{CLAUSE_START}{ASKED} (?:\w+ )?(?:can ?not|can't|could not|couldn't) (?:\w+ )?be {TOLD}\b{NOT_THAT}"
    rf"|{CLAUSE_START}{ASKED} (?:is|was|remains|stays) (?:\w+ )?(?:unknown|unanswerable|undetermined|indeterminate|unresolved|"
    rf"inconclusive|unclear|not known|not answerable|not available|not in the (?:data|tables?|study)|beyond the|outside the)\b{NOT_THAT}"
    rf"|\b(?:no|not enough|insufficient|too little|too few) (?:\w+ )?{NOUNS} to (?:\w+ )?{TELL}\b{NOT_THAT}"
    rf"|\b(?:not enough|insufficient) {NOUNS}{CLAUSE_END}"
)
"""What says that the question itself has no answer. Narrower than ABSTENTIONS: "the cause is unknown" is none."""
MIN_WORDS = 2
"""Fewer words than this assert nothing ("ok")."""


def judge_abstention(truth: AbstainTruth, reading: Reading, question: str) -> Finding:
    """Return the verdict: correct = says that it cannot be answered; any other assertion is wrong.

    Contradictory = does so and gives a direction, a count or a name all the same.
    """
    spoken = [
        sentence for sentence in reading.sentences if _n_words(reading, sentence) >= MIN_WORDS
    ]
    claims: list[Claim] = []
    for sentence in spoken:
        claims += _abstentions(ABSTENTIONS, reading, sentence)
    is_torn = _gives_direction(reading) or any(_gives_answer(reading, s) for s in reading.sentences)
    if claims and is_torn:
        return Finding(
            "contradictory", "says that the data cannot answer, and answers", tuple(claims)
        )
    if claims:
        return Finding("correct", "says that the data cannot answer", tuple(claims))
    if spoken:
        return Finding("incorrect", "answers as if the data could tell")
    return Finding("no_claim", "says nothing")


def open_questions(reading: Reading, question: str, may_conclude: bool) -> tuple[Claim, ...]:
    """Return each place where an answer says that the question itself cannot be answered.

    A sentence about a tissue or gene set that was not asked about does not count; with
    `may_conclude`, nor does one about a direction or one that tells of a disagreement.
    """
    asked = {mark.value for s in read(question.replace("?", ".")).sentences for mark in s.marks}
    told = [agreement.first for agreement in agreements(reading)] if may_conclude else []
    found: list[Claim] = []
    for sentence in reading.sentences:
        is_elsewhere = any(
            mark.kind in ("tissue", "pathway") and mark.value not in asked
            for mark in sentence.marks
        )
        concludes = any(sentence.first <= token <= sentence.last for token in told) or (
            may_conclude and "direction" in reading.words[sentence.first : sentence.last + 1]
        )
        if not (concludes or (asked and is_elsewhere)):
            found += _abstentions(OPEN, reading, sentence)
    return tuple(found)


def _abstentions(pattern: re.Pattern[str], reading: Reading, sentence: Sentence) -> Iterator[Claim]:
    start, text = reading.starts[sentence.first], _text(reading, sentence)
    for match in pattern.finditer(text):
        if UNDONE.search(text[max(0, match.start() - 60) : match.start()]) is None:
            first = reading.page.origin(start + match.start())
            last = reading.page.origin(start + match.end() - 1) + 1
            yield Claim(subject="what is asked", says="cannot be answered", start=first, end=last)


def _gives_direction(reading: Reading) -> bool:
    return any(
        stated.says in ("UP", "DOWN") and not stated.is_negated for stated in statements(reading)
    )


def _gives_answer(reading: Reading, sentence: Sentence) -> bool:
    text = _text(reading, sentence)
    return any(pattern.search(text) for pattern in (ASSERTS_ANYWAY, FIGURE, LABEL))


def _text(reading: Reading, sentence: Sentence) -> str:
    return reading.page.text[reading.starts[sentence.first] : reading.ends[sentence.last]]


def _n_words(reading: Reading, sentence: Sentence) -> int:
    return sum(word[0].isalpha() for word in reading.words[sentence.first : sentence.last + 1])
