"""Whether the words around a statement let it stand as the answer's own.

"The data show that X is reduced"                      it stands
"A naive reader would conclude that X is reduced"      it does not: not every word of the lead is known
"Myth: X is reduced", "Let X be reduced"               it does not
"""

from bisect import bisect_right
from collections.abc import Sequence
from functools import cache
from itertools import pairwise

from evals.verifiers.clauses import Clauses
from evals.verifiers.grammar import be_words, neutral_words, preposition_words
from evals.verifiers.reading import Mark
from evals.verifiers.tokens import word_set

ASSERTING = word_set(
    "conclude concludes concluded concluding reveal reveals revealed revealing demonstrate demonstrates demonstrated find finds"
    " finding findings observation observations observe observes confirm confirms confirmed see sees saw note notes noted report"
    " reports tell tells told prove proves proved establish establishes established mean means meaning imply implies implying"
    " implied determine determines determined infer inferred inference support supports suggesting indicating showing argue"
    " obvious evident apparent plain plainly certain sure confident convinced plausible important worth noting authors paper"
    " papers literature work works researchers scientists recent previous several many large gsea numbers figures table tables"
    " know says saying read reads reading learn learned interpretation bottom line take home message consistent fact facts"
    " doubt fair safe notable remarkable striking interesting noteworthy surprising estimate estimates votes vote us me first"
    " second lastly moreover furthermore additionally addition overall comparison compare test tests recall remember"
    " understood understand be stands standing agreed established documented previously widely generally well-known"
    " change changes changed effect effects direct interaction statistic statistics model models am turns turned out genelab genelab's osdr nasa response together taken summary answer truth reality undeniable indisputable incontestable unquestionable incontrovertible"
)
"""With the small words, these may stand before "that" in a sentence that asserts what follows."""
OPENERS = word_set(
    "it its the this these those they their a an there spaceflight flight microgravity space gene genes expression thymic all both"
    " most in after under each every no not our we you mice mouse missions adding"
)
"""A word that begins a clause after "that"; before another, "that" means "which"."""
HEADS = word_set(
    "hypothesis hypotheses h0 h1 myth rumour rumor fiction lie lies joke translate example examples wrong false untrue incorrect"
    " premise assumption conjecture speculation prediction wish dream story fable hearsay gossip quote prompt"
    " instruction instructions command template placeholder exercise misconception error mistake"
)
"""What stands under one of these, behind a colon, is not asserted."""
ORDERS = word_set("say write repeat tell recite shout ask translate pretend")
"""A sentence that opens with one of these tells somebody to say something."""
AT = word_set("in on at inside within under according")
UNDONE = word_set(
    "halted stopped avoided blocked lifted relieved reversed undone cancelled canceled removed prevented averted abolished lost absent lacking missing"
    " gone rescued restored overcome negated"
)
WEAK = word_set("weak absent lacking missing thin poor scarce scant insufficient limited none gone")
FAILING = word_set("failed fails fail")
ENDURED = word_set("is was are were has have had gets got")
REACH = 10
"""So many words after a change its undoing may stand: "the fall of X in mouse thymus was reversed"."""
SUBJECTS = word_set(
    "conclusion addition order particular contrast comparison agreement line particular response view opinion fact reality truth"
    " detail terms case context male female adult young old spaceflown organ organs b6 wild type strain strains iss station nes"
    " gsea analysis question questions conjunction brief essence practice background period light"
)
LONGEST_HEAD = 5
"""So many words before a colon are a heading."""


def is_framed(clauses: Clauses, event: Mark, turns: Sequence[int]) -> bool:
    """Say whether what leads in an event, from the last turn on, keeps it from being asserted."""
    words, first = clauses.reading.words, clauses.sentence.first
    if event.first == first:
        return False
    turned = max([turn for turn in turns if turn < event.first], default=first) if turns else first
    lead = words[turned : event.first]
    if turned == first and _opens_unreal(clauses, event, lead):
        return True
    return "that" in lead and _is_embedded(clauses, turned, event)


def is_truism(clauses: Clauses, event: Mark) -> bool:
    """Say whether an event is offered beside its own denial: "it is up or it is not up"."""
    words = clauses.reading.words
    for left, right in pairwise(clauses.events):
        if left.value == right.value and event in (left, right):
            between = words[left.last + 1 : right.first]
            if "or" in between and "not" in between:
                return True
    return False


def _opens_unreal(clauses: Clauses, event: Mark, lead: Sequence[str]) -> bool:
    """Say whether a sentence opens with an order to say it, a heading, or a place that is foreign."""
    if (lead[0] == "let" and "be" in lead) or (lead[0] in ORDERS and len(lead) > 1):
        return True
    is_elsewhere = lead[0] in AT and _is_set_elsewhere(clauses, event)
    return is_elsewhere or _is_headed(clauses, event)


def _is_set_elsewhere(clauses: Clauses, event: Mark) -> bool:
    """Say whether a sentence opens with a place that is not of these studies: "In the novel, …"."""
    commas, words, at = clauses.sentence.commas, clauses.reading.words, clauses.mark_at
    if len(commas) < 2 or "," not in clauses.reading.gaps[commas[1]]:
        return False
    if any(other.first < commas[1] for other in (event, *clauses.events)):
        return False
    opening = range(clauses.sentence.first, commas[1])
    return not all(t in at or _is_plain(words[t]) or words[t] in SUBJECTS for t in opening)


def _is_embedded(clauses: Clauses, turned: int, event: Mark) -> bool:
    """Say whether "that" leads the event in, and an unknown word stands before it."""
    words, at, commas = clauses.reading.words, clauses.mark_at, clauses.sentence.commas
    for token in range(turned + 1, event.first):
        if words[token] != "that" or words[token - 1] in preposition_words():
            continue
        following = at.get(token + 1)
        is_set = following is not None and following.kind in ("pathway", "tissue")
        if not is_set and words[token + 1] not in OPENERS:
            continue
        start = max(turned, commas[bisect_right(commas, token) - 1])
        if not all(other in at or _is_plain(words[other]) for other in range(start, token)):
            return True
    return False


def _is_headed(clauses: Clauses, event: Mark) -> bool:
    """Say whether the event stands under a heading such as "Myth:"."""
    commas, first = clauses.sentence.commas, clauses.sentence.first
    if len(commas) < 2 or ":" not in clauses.reading.gaps[commas[1]]:
        return False
    head = clauses.reading.words[first : commas[1]]
    if head[0] == "how":
        return True
    return commas[1] <= event.first and len(head) <= LONGEST_HEAD and not HEADS.isdisjoint(head)


def _is_plain(word: str) -> bool:
    return word in _known() or (word.endswith("ly") and word != "early") or word[0].isdigit()


def is_struck_out(clauses: Clauses, event: Mark) -> bool:
    """Say whether signs deny a direction ("!= down", "0% reduced"), or a verb undoes it.

    "Its suppression is lifted", "evidence for a decrease is lacking", "the decrease decreases"
    """
    words, gaps = clauses.reading.words, clauses.reading.gaps
    first, after, end = event.first, event.last + 1, clauses.sentence.last + 1
    gap = gaps[first]
    if gap != " " and (
        "!=" in gap or "[ ]" in gap or gap[-1:] == "!" or (first == 0 and "!" in gap)
    ):
        return True
    before = words[first - 1] if first > clauses.sentence.first else ""
    if before == "0" and gap[:1] == "%":
        return True
    if after == end:
        return False
    ahead = words[after : after + LONGEST_HEAD]
    if ahead[0] == "0" and ahead[1:2] in (["of"], ["out"]):
        return True
    if ahead[0] == "no" and after + 1 == end and not gaps[after].strip():
        return True
    return event.form == "noun" and _is_undone(clauses, event, ahead)


def _is_undone(clauses: Clauses, event: Mark, ahead: Sequence[str]) -> bool:
    words, after = clauses.reading.words, event.last + 1
    if ahead[0] in ("of", "in"):
        far = words[after : min(after + REACH, clauses.sentence.last + 1)]
        place = next((i for i, word in enumerate(far) if word in ENDURED), len(far))
        return not UNDONE.isdisjoint(far[place + 1 : place + 4])
    if ahead[0] in FAILING or (ahead[0] in be_words() and not UNDONE.isdisjoint(ahead[1:3])):
        return True
    lead = words[max(clauses.sentence.first, event.first - 3) : event.first]
    if "evidence" in lead:
        return not WEAK.isdisjoint(words[after : clauses.sentence.last + 1])
    follows = clauses.mark_at.get(after)
    is_fall = follows is not None and follows.form in ("verb", "intransitive")
    return is_fall and follows.kind == "direction" and follows.value == "DOWN"


@cache
def _known() -> frozenset[str]:
    return neutral_words() | ASSERTING
