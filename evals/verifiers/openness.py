"""Find where a sentence says that something is not known or cannot be told.

The patterns are bounded, and tried only on a sentence with one of the words that they need.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from evals.verifiers.cues import KNOWS, WITHHOLDS
from evals.verifiers.lexicon import phrases
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
    r"in the data|known|available|answerable|determinable|knowable|covered|included)\b"
    r"|\bno (?:[\w-]+ ){0,2}(?:dose|dosage|dosing|recommendation|conclusion|answer|value|figure|number|threshold|regimen|schedule|estimate)"
    r" (?:is|was|has been|can be|could be) (?:\w+ )?(?:established|known|determined|defined|available|derived|given|inferred|deduced|drawn|made)\b"
    r"|\b(?:unknown|unanswerable|undetermined|undeterminable|indeterminate|insufficient|inconclusive)\b"
    r"|\bbeyond (?:the|what|these|this)\b|\boutside (?:the|what|these|this) (?:scope|data|study|\w+ ?can)"
    r"|\b(?:do not|don't|does not|did not) know\b|\bno (?:one|basis|answer)\b"
    r"|\b(?:remains?|is|are|stays?) (?:\w+ )?(?:unclear|unknown|unresolved|an open question)\b"
)
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

OPENINGS = (
    *("can not", "cannot", "can't", "could", "unable", "possible", "no way", "not able", "know"),
    *(" it", ".it", ",it", ";it", ":it", "!it", "(it", "this", "that", "which", "what is asked"),
    *("question", "answer", "direction", "sign", "number", "count", "figure", "class", "label"),
    *("name", "enough", "insufficient", "too "),
)
"""Pieces of OPEN: every place that it finds holds one, or "no … to". A search for them costs little."""
UNDOING = frozenset(
    word
    for (word,) in phrases(
        "deny; denies; denied; doubt; doubts; doubtful; false; untrue; wrong; incorrect; mistaken; myth;"
        " refute; refutes; refuted; disproved; rejected; reject; lie; misconception"
    )
)
"""What is said to be so takes back what follows: "I deny that the data cannot answer this"."""
NOT_SO = re.compile(
    r"\b(?:not|n't|no|never|hardly|nobody|cannot|isn't)\b[^.\n]{0,40}\bthat (?:\w{1,12} ){0,3}$"
    r"|\b(?:idea|hypothesis|belief|notion|claim|view|impossible|far from (?:true|clear|certain)|(?:mistake|error) to (?:think|say|believe))"
    r" that (?:\w{1,12} ){0,3}$"
    r"|\b(?:might|may|could|one|some|people|critics|nobody) (?:\w{1,20} ){0,2}(?:think|believe|say|claim|argue)\w{0,3}"
    r" that (?:the |these |our |it |this )?$"
    r"|\b(?:not|n't|hardly|no longer|isn't|never) (?:\w{1,20} )?$"
    r"|\b(?:if|whether|suppose|imagine|supposing|assume|assuming|wonder)\b[^.,;:\n]{0,40}$"
)
IDLE_AFTER = re.compile(
    r" (?:whether|if) (?:the |these |our |any )?(?:data|stud(?:y|ies)|tables?)\b"
    r"| (?:is|are|was|were) (?:needed|required|necessary|harmed)\b| (?:you|him|her|them)\b"
    r"| (?:that )?(?:the \w{1,12} )?(?:cannot|can't)\b"
)
"""What follows may make it another matter: "no evidence is needed", "I do not know you"."""
SUPPOSING = frozenset(("condition", "hedge"))
MANY_HEDGES = 3
BEFORE = 60
"""How many characters before a place may take it back."""


class Found(NamedTuple):
    """One place, tokens first..last, that says so."""

    first: int
    last: int


def found_in(pattern: re.Pattern[str], reading: Reading, sentence: Sentence) -> Iterator[Found]:
    """Yield each place of a sentence that a pattern finds, up to one that something takes back."""
    if not sentence.cues & WITHHOLDS:
        return
    words = reading.words[sentence.first : sentence.last + 1]
    begin, end = reading.place(sentence.first, sentence.last)
    text = reading.page.text[begin:end]
    if pattern is OPEN and not _may_open(text):
        return
    starts: list[int] = []
    for match in pattern.finditer(text):
        starts = starts or reading.starts
        first = max(sentence.first, bisect_right(starts, begin + match.start()) - 1)
        first += starts[first] + len(reading.words[first]) <= begin + match.start()
        last = bisect_right(starts, begin + match.end() - 1) - 1
        if first > last:
            continue
        if _is_undone(words, text, match.span(), sentence, Found(first, last)):
            return
        yield Found(first, last)


def _may_open(text: str) -> bool:
    """Say whether a sentence has one of the pieces without which OPEN finds nothing in it."""
    if any(map(text.__contains__, OPENINGS)) or text.startswith("it"):
        return True
    return "no " in text and " to " in text


def may_be_open(reading: Reading) -> bool:
    """Say whether an answer has the words that every place of OPEN holds."""
    return bool(reading.cues & KNOWS and reading.cues & WITHHOLDS)


def _is_undone(
    words: list[str], text: str, span: tuple[int, int], sentence: Sentence, place: Found
) -> bool:
    start, end = span
    if IDLE_AFTER.match(text, end):
        return True
    if NOT_SO.search(text[max(0, start - BEFORE) : start]):
        return True
    if not UNDOING.isdisjoint(words[: place.last - sentence.first]):
        return True
    if not sentence.kinds.isdisjoint(SUPPOSING) and _is_supposed(sentence, place):
        return True
    return any(mark.kind == "denial" and mark.first > place.last for mark in sentence.marks)


def _is_supposed(sentence: Sentence, place: Found) -> bool:
    """Say whether a sentence only supposes that something is unknown: "If pigs could fly, …"."""
    if sum(mark.kind == "hedge" for mark in sentence.marks) >= MANY_HEDGES:
        return True
    turns = [mark.first for mark in sentence.marks if mark.form == "turn"]
    return any(
        mark.kind == "condition"
        and mark.form == "if"
        and not any(
            min(mark.first, place.first) < turn < max(mark.last, place.last) for turn in turns
        )
        for mark in sentence.marks
    )
