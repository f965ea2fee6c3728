"""What an answer takes back: "Adipogenesis is reduced. That is false." says nothing.

A short sentence that only calls what was said before it wrong takes back the sentence before; a last
clause that does ("…, which is false") takes back its own.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

from evals.verifiers.cues import AGREES, MOVES, RETRACTING, RETRACTS
from evals.verifiers.tokens import word_set

LONGEST = 10
"""A sentence of more words does not just take something back."""
THIS = (
    r"(?:that|this|it|they|these|those|which|he|she|(?:the |my )?(?:critics|colleagues?|authors|paper)|the above|the latter|everything above|all of (?:this|that|it)"
    r"|(?:that|this|the|my|the previous|the first|the last) (?:statement|claim|sentence|answer|assertion|conclusion|view|line)"
    r"|what i (?:just )?(?:said|wrote|stated)(?: above)?)"
)
NOUNS = r"(?:data|missions?|evidence|figures?|tables?|results?|scores?|facts|stud(?:y|ies)|numbers|experiments?)"
OF_DATA = rf"(?:(?:the|all|every|each|both|these|our|any|most|of|two|three|single|actual) )+{NOUNS}"
VOICES = (
    r"(?:some|others|many|most|people|they|critics|opponents|sceptics|skeptics"
    r"|(?:a|the|some|any) (?:naive |casual |hasty )?(?:readers?|layman|laymen|novices?|observers?|critics?))"
)
SAYING = (
    r"(?:(?:would|might|may|could|will) )?"
    r"(?:say|said|claim(?:ed)?|think|thought|believed?|argued?|guess|assumed?|conclude|maintain(?:ed)?)"
)
REVERSED = (
    r"or (?:(?:maybe|perhaps|possibly|rather|is it|was it|it is) )?"
    r"(?:not|vice versa|(?:the )?(?:exact |very )?(?:other way a?round|reverse|opposite|contrary)(?: holds| applies| is true)?)"
)
FALSE = (
    r"(?:(?:is|was|are|were)(?: (?:simply|just|plainly|actually|completely|entirely|all|quite|clearly|surely))?"
    r" (?:false|wrong|untrue|incorrect|mistaken|nonsense|a lie|a joke|a mistake|an error|not"
    r"(?: (?:so|true|correct|right|the case))?|(?:the wrong|the other) way(?: a?round)?|backwards|upside down)"
    r"|(?:isn't|isnt|wasn't|aren't|ain't)(?: (?:so|true|correct|right|the case))?"
    r"|(?:does not|doesn't|did not|didn't) (?:hold(?: up| true)?|replicate|reproduce|survive)|cannot be (?:right|true|so)|err|erred|lied|lie"
    r"|(?:(?:is|was|were|(?:has|had|have)(?: (?:since|now|long|all|also))* been)(?: (?:later|since|now|clearly|plainly|long|all))* (?:retracted|withdrawn|refuted"
    r"|disproved|disproven|debunked|contradicted|overturned|falsified|discredited|unsupported|unfounded|contrary|at odds|incompatible)"
    rf"(?: (?:by|to|with) {OF_DATA})?)"
    r"|(?:is|was|were)(?: \w+ly)? the (?:wrong|false|incorrect) (?:answer|claim|way|reading|statement|direction))"
)
ASIDE = r"(?:(?:no|or|but|well|sorry|oh|wait|actually|however|and|yet|in fact|still|of course|though|although) )*"
DATA = (
    rf"(?:{OF_DATA} (?:\w+ly )?(?:refutes?|contradicts?|disproves?|falsif(?:y|ies)|speaks? against|argues? against"
    r"|(?:say|show|suggest|indicate)s? (?:otherwise|the (?:exact )?(?:opposite|reverse|contrary))|(?:do|does) not support)"
    r"(?: (?:it|this|that|them))?"
    rf"|(?:no|none of the|not one|not a single) {NOUNS} (?:supports?|confirms?|backs?|bears?)(?: (?:it|this|that|them))?(?: out)?"
    r"|there is no evidence (?:for|of) (?:it|this|that))"
)
SENTENCE = re.compile(
    rf"{ASIDE}(?:{THIS} {FALSE}(?: at all| either| however| though)?"
    r"|(?:the |just the |quite the )?(?:exact |very )?(?:opposite|reverse|contrary) (?:is|was|holds|applies|may be)(?: \w+){0,2}"
    r"|(?:i am |i'm |just |only )*kidding|i disagree(?: with (?:that|this|it))?|i (?:take|took) (?:that|it|this) back"
    r"|(?:scratch|forget|ignore|disregard) (?:that|this|it|the above)|i (?:was|am) (?:wrong|mistaken|lying)|i lied|not (?:so|really|true)"
    rf"|{DATA})"
    r"|(?:on (?:reflection|second thoughts?) )?the (?:opposite|reverse|contrary) (?:is|was|holds)(?: \w+){0,3}"
    r"|i (?:just )?(?:retract|withdraw|made|invented|fabricated) (?:(?:all|everything|most) of )?(?:that|this|it|everything)(?: \w+){0,3}"
    r"|(?:none|nothing|not a word|no part) (?:of (?:this|that|it|the above|what i said) )?(?:is|was|holds)(?: \w+){0,3}"
    r"|(?:this|that|it|everything|all of (?:this|that|it)|the above) (?:is|was) (?:\w+ )?(?:made up|invented|fabricated|fiction|bogus|a lie|lies)"
    r"|(?:please )?(?:do not|don't|never) (?:believe|trust|quote|rely|listen|take|use|mind)(?: \w+){0,5}"
    rf"|{REVERSED}|i (?:mean|meant) the (?:opposite|reverse|other way a?round)|psych|jk|lol|haha|april fools?|i (?:am|was) (?:just |only )?(?:making|inventing|lying|joking)(?: \w+){{0,4}}"
    rf"|(?:{ASIDE}(?:scratch|forget|ignore|disregard|strike) (?:that|this|it|everything|the (?:above|previous|last|first)|my|what)(?: \w+){{0,4}})"
    r"|(?:correction|oops|wait|sorry)(?: (?:no|sorry|wait|but|i (?:was|am)|it|that|this|is|was|not|wrong|mistake|my|wrong|gene|set|tissue|answer|question|actually|meant|mixed|up|them|the))*"
)
LONE = re.compile(
    r"(?:quite |just |all |totally |completely |utterly |plainly |simply |dead |that's |thats )?(?:wrong|false|incorrect|untrue|nonsense|rubbish"
    r"|no|nope|nah|not|lies|not (?:right|correct|so|true|the case)|(?:the )?wrong answer)"
)
"""What takes back only the sentence right before it: a question in between is what it answers."""
REPLIES = word_set("yes no")
"""What opens with one of these is contradicted, not taken back: "Yes. No."."""
NEAR = 6
"""Characters that may stand between the two: a stated confidence leaves more."""
TAGS = word_set("right correct really true yes sure so ok okay is it isn't")
"""A question of these words alone asks about the sentence before it: "X is reduced. Right? Wrong!"."""
AHEAD = re.compile(
    rf"(?:the following|what follows|(?:the |this |these )?(?:next|following) (?:statements?|claims?|sentences?|lines?|answers?))"
    rf" {FALSE}|it is (?:not true|not the case|false|untrue|wrong)(?: to say)? that"
    r"|(?:some |a |the )?(?:false|wrong|untrue|incorrect) (?:statements?|claims?|answers?)"
    r"|(?:here (?:is|are|comes?) )?(?:a |an |some )?(?:lie|lies|myths?|joke)"
)
"""What takes back the sentence after it."""
TAIL = re.compile(
    rf"{ASIDE}(?:{THIS} {FALSE}|(?:(?:which|that|(?:a|an|the) \w+(?: that| which)?) )?{DATA}|{REVERSED}|(?:as |or )?(?:so )?{VOICES} {SAYING}"
    rf"|or so (?:it seem(?:s|ed)(?: to \w+(?: \w+)*)?|i was told)|i (?:mean|meant) the (?:opposite|reverse)|(?:for )?which there is no evidence|contrary to {OF_DATA}"
    r"|said (?:no one|nobody|no \w+)(?: ever)?|(?:so (?:they|people|some|critics) (?:say|claim|think) ?)?(?:wrongly|erroneously|falsely))"
)
BARE = re.compile(
    rf"{ASIDE}(?:quite |simply |plainly |just )?(?:wrong|false|untrue|incorrect|not (?:true|so|right|correct|the case)"
    r"|(?:the |a )?(?:wrong|false|incorrect) (?:answer|claim|reading|statement))"
)
"""The same without a verb: "X is reduced (wrong)". Behind a colon it denies one choice: "reduced: false"."""
LONGEST_CHOICE = 3
"""More words before the colon are no choice of a list but a statement."""
ENDINGS = word_set(
    "false wrong untrue incorrect mistaken nonsense lie joke mistake error not so true correct right case around round backwards"
    " down isn't isnt wasn't aren't ain't hold retracted withdrawn all either however though refute refutes contradict contradicts"
    " disprove disproves otherwise it this that them wrongly erroneously falsely"
    " data mission missions evidence figure figures table tables result results score scores facts study studies numbers experiment experiments"
    " support supports confirm confirms back backs out err erred lied versa reverse opposite contrary answer claim statement reading way"
    " direction say said claimed think thought believe believed argue argued guess assume assumed conclude maintain maintained told seems seemed"
    " reader layman refuted disproved disproven debunked contradicted overturned falsified discredited unsupported unfounded replicate reproduce"
    " survive up"
)
"""What TAIL finds ends with one of these, or holds "said"."""


class Spoken(Protocol):
    """A sentence: tokens first..last, its clauses and the cues in it."""

    cues: int
    first: int
    last: int
    starts: list[int]


Some = TypeVar("Some", bound=Spoken)


def without_retracted(
    words: Sequence[str], gaps: Sequence[str], sentences: Iterable[Some]
) -> list[Some]:
    """Return the sentences that stand: those not taken back by the next one or by their own end.

    "False statements:" takes back all that follows it, up to a blank line.
    """
    kept: list[Some] = []
    is_next_false = is_list_false = False
    heading = -1
    for sentence in sentences:
        first, last = sentence.first, sentence.last
        if is_list_false and (first == heading or "\n\n" not in gaps[first]):
            is_next_false = False
            continue
        is_list_false = False
        if is_next_false:
            is_next_false = False
            continue
        is_cued = sentence.cues & RETRACTS
        if is_cued and _corrects(words, gaps, sentence):
            kept[-1:] = [sentence]
            continue
        if not is_cued or RETRACTING.isdisjoint(words[max(first, last - LONGEST) : last + 1]):
            kept.append(sentence)
            continue
        said = " ".join(words[first : last + 1]) if last - first < LONGEST else ""
        if said and ":" not in gaps[last + 1] and LONE.fullmatch(said):
            if kept and _takes_back(words, gaps, kept[-1], first):
                kept.pop()
            kept.append(sentence)
        elif said and AHEAD.fullmatch(said):
            is_list_false = ":" in gaps[last + 1] and "\n" in gaps[last + 1]
            is_next_false, heading = True, last + 1
        elif said and SENTENCE.fullmatch(said):
            if kept:
                kept.pop()
            else:
                kept.append(sentence)
        elif not _ends_in_denial(words, gaps, sentence):
            kept.append(sentence)
    return kept


def _corrects(words: Sequence[str], gaps: Sequence[str], sentence: Spoken) -> bool:
    """Say whether a sentence stands in for the one before it: "Correction: it is down"."""
    first = sentence.first
    is_led = words[first] == "correction" and gaps[first + 1].strip() in (":", ",", "-")
    return is_led and sentence.last > first and bool(sentence.cues & MOVES)


def _takes_back(words: Sequence[str], gaps: Sequence[str], before: Spoken, first: int) -> bool:
    """Say whether a lone "wrong" at `first` is about the sentence before it.

    A question in between is what it answers; so may one be that a line or a stated confidence parts,
    and "no" answers the question that was asked where the sentence before says who agrees.
    """
    if words[before.first] in REPLIES or not TAGS.issuperset(words[before.last + 1 : first]):
        return False
    if len(gaps[first]) > NEAR:
        return False
    return words[first] != "no" or not ("\n" in gaps[first] or before.cues & AGREES)


def _ends_in_denial(words: Sequence[str], gaps: Sequence[str], sentence: Spoken) -> bool:
    last = sentence.last
    if (
        words[last] not in ENDINGS
        and "said" not in words[max(sentence.first, last - LONGEST) : last]
    ):
        return False
    start = sentence.starts[-1]
    start -= start > sentence.first and words[start - 1] == "or"
    is_tail = sentence.first < start and last - start < LONGEST
    if not is_tail:
        return False
    tail = " ".join(words[start : last + 1])
    is_choice = ":" in gaps[start] and start - sentence.first <= LONGEST_CHOICE
    return bool(TAIL.fullmatch(tail) or (not is_choice and BARE.fullmatch(tail)))
