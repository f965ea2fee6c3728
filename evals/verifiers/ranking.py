"""Read which end of a ranking a name is put at, where a question asks for one end.

"Soleus has the most genes, more than liver."    soleus MORE
"HU dominates IR", "IR is dominated by HU"       HU MORE, IR LESS
"The liver is the more complex organ"            nothing
"more sensitive than the dentate gyrus"          foreign: held against something not asked about
"""

from functools import cache, lru_cache

from evals.verifiers.asked import question_reading
from evals.verifiers.genes import GENES
from evals.verifiers.grammar import be_words, degree_words, neutral_words
from evals.verifiers.lexicon import phrases
from evals.verifiers.names import words as words_of
from evals.verifiers.reading import Mark
from evals.verifiers.scope import Scope

OPPOSITE = {"MORE": "LESS", "LESS": "MORE"}
OVER = frozenset(
    word
    for (word,) in phrases(
        "dominates; dominate; dominated; exceeds; exceed; exceeded; outweighs; outweigh; outweighed;"
        " outnumbers; outnumber; outnumbered; outranks; outranked; beats; beat; beaten; surpasses;"
        " surpass; surpassed; tops; topped; overrides; dwarfs; dwarfed; outstrips; outperforms"
    )
)
UNDER = frozenset(("trails", "trail", "trailed", "lags"))
COMPARED = frozenset(
    word
    for (word,) in phrases(
        "any; other; others; all; rest; either; both; expected; else; each; every; remaining; three;"
        " two; one; number; them"
    )
)
"""After "than" these mean what was asked about, as does another name in play."""
RELATED = frozenset(
    word
    for (word,) in phrases(
        "sensitive; responsive; affected; active; strongly; hit; pronounced; important; potent;"
        " dominant; extensive; numerous; change; changes; changed; interaction; interactions; strong;"
        " influential; powerful; relevant; influence; impact; effect; effects; response; responses;"
        " weight; counts; count; list; lists; hits; altered; regulated; striking; severe; massive;"
        " class; group; category; pattern; label; rescue; suppression; stress; stressor;"
        " stressors; driver; winner; answer; leader; top; first"
    )
)
"""Words of what is ranked in these questions."""
LAST = frozenset(("last", "bottom"))
AUXILIARIES = frozenset(
    (
        "does",
        "do",
        "did",
        "has",
        "have",
        "had",
        "doesn't",
        "didn't",
        "hasn't",
        "don't",
        "cannot",
        "can't",
    )
)
MIDDLING = frozenset(("second", "third", "fourth", "2nd", "3rd", "4th", "runner"))
"""A rank that is neither end."""
ASIDE = frozenset(
    (
        "non",
        "next",
        "beside",
        "near",
        "left",
        "omit",
        "omitted",
        "excluded",
        "exclude",
        "ignore",
        "compare",
    )
)
"""A name shortly after one of these is not put forward."""
STEM = 5
"""Words are the same if they begin with so many equal letters."""


@lru_cache(maxsize=256)
def asked_degree(question: str) -> str | None:
    """Return which end of a ranking a question asks for; None if it names both or none."""
    reading = question_reading(question)
    ends = {
        degree_words()[word]
        for sentence in reading.sentences
        for word in reading.words[sentence.first : sentence.last + 1]
        if word in degree_words()
    }
    return ends.pop() if len(ends) == 1 else None


@lru_cache(maxsize=256)
def asked_stems(question: str) -> frozenset[str]:
    """Return the beginnings of a question's own words."""
    return frozenset(w[:STEM] for w in words_of(question) if w not in neutral_words())


def degree_of(scope: Scope, event: Mark, stems: frozenset[str]) -> str | None:
    """Return the end of a ranking that the clause of a name puts it at, None if at none or both."""
    first, last = clause_of(scope, event)
    by_verb = _by_sign(scope, event) or _by_verb(scope, event, first, last)
    if by_verb:
        return by_verb
    degrees = degree_words()
    words = scope.reading.words
    if not LAST.isdisjoint(words[first : last + 1]):
        return "LESS"
    ends = {
        degrees[scope.reading.words[token]]
        for token in range(first, last + 1)
        if scope.reading.words[token] in degrees and _ranks(scope, token, last, stems)
    }
    return ends.pop() if len(ends) == 1 else None


def is_foreign(scope: Scope, event: Mark, kinds: frozenset[str]) -> bool:
    """Say whether a name is only held against something that was not asked about."""
    words, (first, last) = scope.reading.words, clause_of(scope, event)
    if "than" not in words[first : last + 1]:
        return False
    begin = words.index("than", first, last + 1) + 1
    named = {mark.kind for mark in scope.sentence.marks if begin <= mark.first <= last}
    named |= {"event" for other in scope.events if begin <= other.first <= last}
    rest = [w for w in words[begin : last + 1] if w not in neutral_words() and not w[0].isdigit()]
    if "event" in named or set(words[begin : last + 1]) & COMPARED or not rest:
        return False
    return not named & kinds


def is_idle(scope: Scope, event: Mark, stems: frozenset[str]) -> bool:
    """Say whether a name is the subject of something that was not asked: "Soleus is a muscle"."""
    words, (first, last) = scope.reading.words, clause_of(scope, event)
    token = event.last + 1
    while token <= last and (words[token].endswith("ly") or words[token] in ("also", "just")):
        token += 1
    if token > last or words[token] not in be_words():
        return False
    names = {t for other in scope.events for t in range(other.first, other.last + 1)}
    said = [t for t in range(first, last + 1) if t not in names and _tells(words[t])]
    related = [t for t in said if words[t] in RELATED or words[t][:STEM] in stems]
    kinds = {mark.kind for mark in scope.sentence.marks if first <= mark.first <= last}
    return (
        bool(said)
        and not related
        and "factor" not in kinds
        and not GENES & set(words[first : last + 1])
    )


def is_set_aside(scope: Scope, event: Mark) -> bool:
    """Say whether a name is not put forward: "next to the soleus", "we left out the soleus"."""
    words, (first, _) = scope.reading.words, clause_of(scope, event)
    if words[scope.sentence.first] == "compare":
        return True
    return not ASIDE.isdisjoint(words[max(first, event.first - 3) : event.first])


def is_denied_after(scope: Scope, event: Mark) -> bool:
    """Say whether a name is the subject of a denial, or of a middling rank: "soleus is not first"."""
    words, (_, last) = scope.reading.words, clause_of(scope, event)
    later = [other.first for other in scope.events if other.first > event.last]
    until = min(later, default=last + 1)
    after = words[event.last + 1 : min(until, last + 1)]
    if not MIDDLING.isdisjoint(after):
        return True
    if not after or (after[0] not in be_words() and after[0] not in AUXILIARIES):
        return False
    return after[0].endswith("n't") or bool({"not", "never"} & set(after[1:3]))


def clause_of(scope: Scope, event: Mark) -> tuple[int, int]:
    """Return the first and last token of the clause of a name."""
    clause = scope.clause(event.first)
    is_last = clause + 1 >= len(scope.starts)
    return scope.starts[clause], scope.sentence.last if is_last else scope.starts[clause + 1] - 1


def _tells(word: str) -> bool:
    return word not in _small() and not word.endswith("ly") and not word[0].isdigit()


@cache
def _small() -> frozenset[str]:
    return neutral_words() | be_words()


def _ranks(scope: Scope, token: int, last: int, stems: frozenset[str]) -> bool:
    """Say whether a word of degree ranks what was asked: "more genes", unlike "more complex"."""
    words = scope.reading.words
    if words[token] not in ("more", "most", "less", "least") or token == last:
        return True
    after = words[token + 1]
    is_known = after in RELATED or after in GENES or after in _small() or after[:STEM] in stems
    return is_known or after.endswith("ly") or token + 1 in scope.mark_at


def _by_sign(scope: Scope, event: Mark) -> str | None:
    """Return the end of "soleus > liver > heart": the first is at one, the others at the other."""
    gaps, names = scope.reading.gaps, [e.first for e in scope.events]
    signs = [gaps[first].strip() for first in names[1:]]
    if len(names) < 2 or set(signs) not in ({">"}, {"<"}):
        return None
    is_top = event.first == (names[0] if signs[0] == ">" else names[-1])
    return "MORE" if is_top else "LESS"


def _by_verb(scope: Scope, event: Mark, first: int, last: int) -> str | None:
    """Return the end that "dominates" and the like put a name at, which stand between two names."""
    words = scope.reading.words
    for token in range(first, last + 1):
        if words[token] not in OVER and words[token] not in UNDER:
            continue
        rivals = [e for e in scope.events if first <= e.first <= last]
        left = any(e.last < token for e in rivals)
        right = any(e.first > token for e in rivals)
        if not (left and right):
            continue
        end = "MORE" if words[token] in OVER else "LESS"
        is_passive = token < last and words[token + 1] == "by"
        is_left = event.last < token
        return end if is_left != is_passive else OPPOSITE[end]
    return None
