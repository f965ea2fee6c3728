"""Words that something waits for: a text without them is not looked at for what they may tell.

One look at each word finds all of them, so that what a text does not hold costs nothing further on.
"""

from collections import Counter
from functools import cache
from typing import NamedTuple

from evals.verifiers.grammar import neutral_words, preposition_words
from evals.verifiers.lexicon import entries
from evals.verifiers.names import pathway_phrases
from evals.verifiers.place import ORGANS, SPECIES, STATES
from evals.verifiers.tokens import word_set

MOVES, PLACES, AGREES, NEGATES, CHANGES = 1, 2, 4, 8, 16
RETRACTS, WITHHOLDS, KNOWS, SCORES = 32, 64, 128, 256
TURNS, FOREIGN = 512, 1024
"""What words may be a cue for, each a bit: for phrases of some kinds, and for the lists below."""
TELLS = MOVES | PLACES | AGREES | NEGATES
"""A sentence without any of these tells of no direction and no agreement."""
BITS = {
    "direction": MOVES,
    "unchanged": MOVES,
    "score": MOVES,
    "pathway": PLACES,
    "tissue": PLACES,
    "agreement": AGREES,
    "level": AGREES,
    "not": NEGATES,
    "changed": CHANGES,
}
RETRACTING = word_set(
    "false wrong untrue incorrect mistaken nonsense lie joke mistake error not isn't isnt wasn't aren't ain't doesn't"
    " cannot opposite reverse contrary kidding disagree back scratch forget ignore disregard lied lying refute refutes"
    " contradict contradicts disprove disproves otherwise differently retracted withdrawn retract withdraw made invented wait sorry"
    " correction oops none nothing bogus fabricated fiction lies untruth wrongly erroneously strike never psych making inventing no believe trust jk haha lol fools upside backwards ever"
    " refuted disproved disproven debunked contradicted overturned falsified discredited unsupported unfounded versa round around err erred nope nah"
    " rubbish that's thats say said claim claimed think thought believe argue told seems seemed supports support confirms backs against replicate reproduce"
)
"""Without one of these nothing is taken back."""
WITHHOLDING = word_set(
    "can cannot can't could couldn't unable impossible possible no not without lack lacks lacking insufficient too don't"
    " doesn't didn't never nothing isn't aren't wasn't weren't hasn't haven't unknown unanswerable undetermined"
    " undeterminable indeterminate inconclusive unclear unresolved beyond outside nobody knows know open"
)
"""A sentence without any of these says of nothing that it is not known."""
KNOWING = word_set(
    "answer determine know tell say conclude infer establish judge decide settle resolve derive measure test cover report"
    " contain include record give address hold show knows answered determined known told said concluded inferred"
    " established judged decided settled resolved derived given unknown unanswerable undetermined indeterminate"
    " unresolved inconclusive unclear answerable available data table tables study beyond outside enough insufficient"
)
"""Nor, without one of these, that the question itself has no answer."""
SIGNIFICANCE = {
    "significant": "yes",
    "significantly": "yes",
    "significance": "yes",
    "insignificant": "no",
    "insignificantly": "no",
    "nonsignificant": "no",
    "ns": "no",
}
ADJUSTED = word_set("padj fdr q qvalue qval")
FLIGHTS = word_set("missions mission flights studies datasets experiments")
TURNING = word_set("reverse opposite inverse contrary other")
"""Without one of these nothing is said to go the other way."""
SCORING = frozenset((*SIGNIFICANCE, *ADJUSTED, *FLIGHTS, "nes", "p", "enrichment"))
"""An answer without any of these holds no remark on enrichment but the directions of missions."""


class Cue(NamedTuple):
    """What a word is a cue for: anywhere, and right before or right after certain others."""

    bits: int
    before: dict[str, int]
    after: dict[str, int]


@cache
def cues() -> dict[str, Cue]:
    """Return what each word is a cue for. Every phrase of a kind in BITS has one word that tells.

    Of several words it is one that is least of a small word and, then, in most other phrases: the
    fewer words, the fewer sentences hold one. It tells only beside the word that goes with it.
    """
    found: dict[str, Cue] = {}

    def add(word: str, bit: int) -> None:
        cue = found.get(word, Cue(0, {}, {}))
        found[word] = cue._replace(bits=cue.bits | bit)

    listed = [(phrase, BITS[tag.kind]) for phrase, tag in entries() if tag.kind in BITS]
    listed += [(phrase, BITS["pathway"]) for phrase, _ in pathway_phrases()]
    small, smallest = neutral_words(), preposition_words() | {"a", "the", "of", "is"}
    counts = Counter(word for phrase, _ in listed for word in phrase)
    for phrase, bit in listed:
        word = min(phrase, key=lambda w: (w in smallest, w in small, -counts[w]))
        add(word, bit if len(phrase) == 1 else 0)
        place = phrase.index(word)
        if place + 1 < len(phrase):
            beside, other = found[word].before, phrase[place + 1]
        elif place:
            beside, other = found[word].after, phrase[place - 1]
        else:
            continue
        beside[other] = beside.get(other, 0) | bit
    lists = (
        *((RETRACTS, RETRACTING), (WITHHOLDS, WITHHOLDING), (KNOWS, KNOWING), (SCORES, SCORING)),
        *((TURNS, TURNING), (FOREIGN, ORGANS | SPECIES | STATES)),
    )
    for bit, words in lists:
        for word in words:
            add(word, bit)
    return found
