"""Whether a clause that names a gene set is about it, or only about something of it.

"Expression of X", "the X gene set", "genes involved in X"          about X
"Interest in X", "the p value of X", "the X section", "anti-X"      about something else
"some X genes", "gene sets can be …", "a reduced set would …"       about no whole set
"""

from evals.verifiers.clauses import Clauses
from evals.verifiers.grammar import be_words, neutral_words
from evals.verifiers.reading import Mark
from evals.verifiers.tokens import word_set

LINKING = word_set("of in for on to about with behind at against around")
"""Between a noun and a gene set, these make the noun what is spoken of."""
HEADS = word_set(
    "involved related associated important responsible necessary required driving linked key underlying belonging relevant"
    " critical essential function functions process processes mechanism mechanisms markers marker regulation role part consistent"
    " extent degree magnitude amount rate rates capacity potential machinery cascade state status abundance output transcripts"
    " production formation differentiation induction control fall rise change shift due respect regard terms case leads lead led"
    " leading contributes contribute contributed belongs belong refers refer corresponds correspond needed participating"
    " participate participates engaged active drop loss support trend tendency effect effects impact name names named list"
    " labelled labeled annotated comes regards contrast addition cells proteins protein factors factor members dampening"
)
"""What may stand before "of X", besides the small words, where X itself is meant."""
THINGS = word_set(
    "section sections paper papers topic topics study studies chapter page pages researcher researchers author authors field literature"
    " meeting slide slides panel panels column row rows plot plots assay kit research question questions team community company"
    " conference journal book website name word term label heading entry"
)
"""What is called after a gene set without being it: "the X study"."""
PARTS = word_set(
    "some one few several certain individual half part fraction subset portion single couple selected"
)
"""Before "X genes" or "genes of X", these leave most of the set out."""
PREFIXES = word_set("anti non counter pseudo")
GENERIC = word_set("sets pathways")
POINTING = word_set("the these those both its our two three all they their and")
ARTICLES = word_set("a an the")
EVERYTHING = word_set("everything sets others rest pathways all")
MEANS = word_set("means mean would refers describes denotes")


def is_of_something_else(clauses: Clauses, named: Mark, start: int, event: Mark) -> bool:
    """Say whether a clause from `start` on speaks of something that has only to do with a set it names."""
    words, gaps = clauses.reading.words, clauses.reading.gaps
    before, after = named.first - 1, named.last + 1
    if after < event.first and gaps[after] == " " and words[after] in THINGS:
        return True
    while before > start and words[before] in ARTICLES:
        before -= 1
    if before < start:
        return False
    word = words[before]
    if word in PREFIXES and gaps[before + 1] == "-":
        return True
    if word in PARTS and before == named.first - 1:
        return words[after] in ("gene", "genes", "transcripts", "members")
    return word in LINKING and before > start and not _is_itself(clauses, before - 1, start)


def _is_itself(clauses: Clauses, head: int, start: int) -> bool:
    """Say whether the noun at `head` ("expression of") leaves the gene set what is spoken of."""
    words = clauses.reading.words
    word = words[head]
    if word in PARTS:
        return False
    if word in ("gene", "genes") and head > start and words[head - 1] in PARTS:
        return False
    if word in ("value", "values") and head > start and words[head - 1] == "p":
        return False
    mark = clauses.mark_at.get(head)
    if mark is not None:
        return mark.kind != "axis" or word in neutral_words()
    is_known = word in neutral_words() or word in HEADS or word.endswith("ly")
    return is_known and word not in THINGS - {"study", "studies", "research"}


def is_generic(clauses: Clauses, start: int, event: Mark) -> bool:
    """Say whether a clause that names no set speaks of sets or words at large."""
    words, last = clauses.reading.words, clauses.sentence.last
    after = words[event.last + 1] if event.last < last else ""
    if after in MEANS or (
        after in ("is", "are") and words[event.last + 2 : event.last + 3] == ["a"]
    ):
        return True
    opening = words[start] if words[start] not in ("a", "an") else words[start + 1]
    if words[start] in ("a", "an") and not MEANS.isdisjoint(words[start : last + 1]):
        return True
    if event.first <= start + 1 and (after in GENERIC or (after == "set" and opening != "the")):
        return words[event.last + 2 : event.last + 3] != []
    for token in range(start, event.first):
        if words[token] in GENERIC:
            lead = words[start:token]
            return POINTING.isdisjoint(lead) and be_words().isdisjoint(lead)
    return False
