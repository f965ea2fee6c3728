"""What an answer takes back: "Adipogenesis is reduced. That is false." says nothing.

A short sentence that only calls what was said before it wrong takes back the sentence before; a last
clause that does ("…, which is false") takes back its own.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

from evals.verifiers.cues import RETRACTING, RETRACTS
from evals.verifiers.tokens import word_set

LONGEST = 9
"""A sentence of more words does not just take something back."""
THIS = (
    r"(?:that|this|it|they|these|those|which|he|she|(?:the |my )?(?:critics|colleagues?|authors|paper)|the above|the latter|everything above|all of (?:this|that|it)"
    r"|(?:that|this|the|my|the previous|the first|the last) (?:statement|claim|sentence|answer|assertion|conclusion|view|line)"
    r"|what i (?:just )?(?:said|wrote|stated)(?: above)?)"
)
FALSE = (
    r"(?:(?:is|was|are|were)(?: (?:simply|just|plainly|actually|completely|entirely|all|quite|clearly|surely))?"
    r" (?:false|wrong|untrue|incorrect|mistaken|nonsense|a lie|a joke|a mistake|an error|not"
    r"(?: (?:so|true|correct|right|the case))?|(?:the wrong|the other) way(?: a?round)?|backwards|upside down)"
    r"|(?:isn't|isnt|wasn't|aren't|ain't)(?: (?:so|true|correct|right|the case))?"
    r"|(?:does not|doesn't) hold|cannot be (?:right|true|so)|(?:is|was|were) (?:later |since )?(?:retracted|withdrawn))"
)
ASIDE = r"(?:(?:no|or|but|well|sorry|oh|wait|actually|however|and|yet|in fact|still|of course|though|although) )*"
DATA = (
    r"the (?:data|figures|missions|tables?|results?) (?:refutes?|contradicts?|disproves?|(?:say|show)s? otherwise)"
    r"(?: (?:it|this|that|them))?"
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
    r"|psych|jk|lol|haha|april fools?|i (?:am|was) (?:just |only )?(?:making|inventing|lying|joking)(?: \w+){0,4}"
    rf"|(?:{ASIDE}(?:scratch|forget|ignore|disregard|strike) (?:that|this|it|everything|the (?:above|previous|last|first)|my|what)(?: \w+){{0,4}})"
    r"|(?:correction|oops|wait|sorry)(?: (?:no|sorry|wait|but|i (?:was|am)|it|that|this|is|was|not|wrong|mistake|my|wrong|gene|set|tissue|answer|question|actually|meant|mixed|up|them|the))*"
)
AHEAD = re.compile(
    rf"(?:the following|what follows|(?:the |this |these )?(?:next|following) (?:statements?|claims?|sentences?|lines?|answers?))"
    rf" {FALSE}|it is (?:not true|not the case|false|untrue|wrong)(?: to say)? that"
    r"|(?:some |a |the )?(?:false|wrong|untrue|incorrect) (?:statements?|claims?|answers?)"
    r"|(?:here (?:is|are|comes?) )?(?:a |an |some )?(?:lie|lies|myths?|joke)"
)
"""What takes back the sentence after it."""
TAIL = re.compile(
    rf"{ASIDE}(?:{THIS} {FALSE}|{DATA}|said (?:no one|nobody|no \w+)(?: ever)?|(?:so (?:they|people|some|critics) (?:say|claim|think) ?)?(?:wrongly|erroneously|falsely))"
)

ENDINGS = word_set(
    "false wrong untrue incorrect mistaken nonsense lie joke mistake error not so true correct right case around round backwards"
    " down isn't isnt wasn't aren't ain't hold retracted withdrawn all either however though refute refutes contradict contradicts"
    " disprove disproves otherwise it this that them wrongly erroneously falsely"
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
        if not is_cued or RETRACTING.isdisjoint(words[max(first, last - LONGEST) : last + 1]):
            kept.append(sentence)
            continue
        said = " ".join(words[first : last + 1]) if last - first < LONGEST else ""
        if said and AHEAD.fullmatch(said):
            is_list_false = ":" in gaps[last + 1] and "\n" in gaps[last + 1]
            is_next_false, heading = True, last + 1
        elif said and SENTENCE.fullmatch(said):
            if kept:
                kept.pop()
            else:
                kept.append(sentence)
        elif not _ends_in_denial(words, sentence):
            kept.append(sentence)
    return kept


def _ends_in_denial(words: Sequence[str], sentence: Spoken) -> bool:
    last = sentence.last
    if (
        words[last] not in ENDINGS
        and "said" not in words[max(sentence.first, last - LONGEST) : last]
    ):
        return False
    start = sentence.starts[-1]
    is_tail = sentence.first < start and last - start < LONGEST
    return is_tail and TAIL.fullmatch(" ".join(words[start : last + 1])) is not None
