"""Whether a direction is said of a place that no study here looked at: another organ, species, or state.

"down in the hypothalamus", "hypothalamic adipogenesis is down"     the hypothalamus
"down in thymus tumours", "in the thymus of humans"                 not the thymus of these mice
"down in male mice", "down in line with earlier work"               nowhere else

A noun right behind "in" that is neither known nor one of these studies' own words is another place.
"""

from functools import cache

from evals.verifiers.cues import FOREIGN
from evals.verifiers.grammar import neutral_words, preposition_words
from evals.verifiers.place import ORGANS, SPECIES, STATES
from evals.verifiers.reading import Mark
from evals.verifiers.scope import Group, Scope
from evals.verifiers.tokens import word_set

IN = word_set("in within inside throughout")
OURS = word_set(
    # who was looked at, and when
    "male males female females young old aged adult adults juvenile wild type wildtype strain strains b6 c57bl 6j 6n 6ntac balb cohort"
    " cohorts groups subjects individuals specimens spaceflown flown exposed treated unloaded irradiated iss orbital station habitat"
    " cage cages hardware payload payloads crew vivo situ batch batches run runs days weeks month months time times year years"
    # studies and figures
    " genelab osd osdr glds nasa repository gsea fgsea rnaseq table tables figure figures database record records literature paper papers"
    " comparison comparisons contrast contrasts case cases instance instances test tests replicate replicates meta statistics count counts"
    # turns of phrase
    " line particular fact turn part parts addition order terms term respect regard relation agreement accordance keeping parallel"
    " concert tandem response reaction reply view light opinion eyes favour favor nature place detail which what whom whose"
    " essence sum brief practice principle effect consequence light strength size magnitude amount amounts extent intensity degree"
    " abundance manner way ways fashion sense context background setting situation environment world absence presence"
    " question questions reality truth end beginning start course wake aftermath face event favour half halves third percent both"
    " organ organs body whole bodies interaction model models single many several other others half majority minority"
    " combination conjunction step sync unison hand mind check range region direction contrast expression"
)
"""Behind "in", these name no place but that of the studies, or none."""
OF_STUDIES = word_set(
    "mice mouse animals rodents missions mission flight flights spaceflight space studies study data dataset datasets experiment"
    " experiments samples analysis analyses cohort cohorts group groups microgravity orbit conditions results comparison"
)
"""What stands before one of these describes it: "in pooled samples"."""
OF = word_set("of from in")
ARTICLES = word_set("a an the mouse murine adult")
PRONOUNS = word_set("it they this these that there we")
JOINED = frozenset((" ", "-", ", ", " (", ") "))
LONGEST = 6
"""Words of a place at most."""


def elsewhere(scope: Scope, group: Group, event: Mark) -> tuple[str, ...]:
    """Return the foreign place that an event is said of, as a tuple of one; () if there is none."""
    words, sentence = scope.reading.words, scope.sentence
    if "tissue" in sentence.kinds:
        return _altered(scope, group)
    if sentence.cues & FOREIGN and not ORGANS.isdisjoint(words[sentence.first : event.first]):
        start = scope.clause_start(event.first)
        place = _opening(scope, start)
        if not place and ":" in scope.reading.gaps[start]:
            place = _opening(scope, sentence.first)
        if place:
            return (place,)
    if IN.isdisjoint(words[sentence.first : sentence.last + 1]):
        return ()
    start = scope.clause_start(event.first)
    until = min([e.first for e in scope.events if e.first > event.last], default=sentence.last + 1)
    place = _behind(scope, event.last + 1, until, is_noun=event.form == "noun")
    name = scope.last_before(event.first, "pathway") if "pathway" in sentence.kinds else None
    if not place and name is not None and name.first >= start:
        place = _behind(scope, name.last + 1, event.first)
    return (place,) if place else ()


def _altered(scope: Scope, group: Group) -> tuple[str, ...]:
    """Return the first tissue of a group, if each is that of another species or no healthy one."""
    named = [mark for mark in group.marks if mark.kind == "tissue"]
    if not named or not all(_is_altered(scope, mark) for mark in named):
        return ()
    return (f"another {named[0].value}",)


def _is_altered(scope: Scope, mark: Mark) -> bool:
    words, first, end = scope.reading.words, scope.sentence.first, scope.sentence.last + 1
    if mark.first > first and words[mark.first - 1] in SPECIES:
        return True
    after = mark.last + 1
    if after >= end:
        return False
    if words[after] in STATES:
        return True
    if words[after] not in OF:
        return False
    after += 1
    while after < end and words[after] not in SPECIES and words[after] in neutral_words():
        if words[after] in OF_STUDIES:
            return False
        after += 1
    return after < end and words[after] in SPECIES


def _opening(scope: Scope, start: int) -> str:
    """Return the organ that opens a clause: "The hypothalamus shows …", "Hypothalamic X is …"."""
    words, at = scope.reading.words, scope.mark_at
    token = start
    while words[token] in ARTICLES or words[token] in IN:
        token += 1
        if token > scope.sentence.last:
            return ""
    return words[token] if words[token] in ORGANS and token not in at else ""


def _behind(scope: Scope, token: int, until: int, is_noun: bool = False) -> str:
    """Return the foreign place that follows, up to a word that is not known; "" if there is none.

    What follows a noun at once is what it is of: "a drop in lipid uptake".
    """
    words, gaps, at, begin = scope.reading.words, scope.reading.gaps, scope.mark_at, token
    while token < until and gaps[token] in JOINED:
        mark = at.get(token)
        if mark is not None:
            if mark.kind in ("break", "contrast"):
                return ""
            token = mark.last + 1
            continue
        word = words[token]
        if word in IN and not (is_noun and token == begin):
            place, token = _place(scope, token + 1, until)
            if place:
                return place
        elif word in neutral_words() or word.endswith("ly"):
            token += 1
        else:
            return ""
    return ""


def _place(scope: Scope, token: int, until: int) -> tuple[str, int]:
    """Return the foreign place in the words behind "in", and where they end."""
    words, gaps, at = scope.reading.words, scope.reading.gaps, scope.mark_at
    end, unknown = token, ""
    while end < min(until, token + LONGEST) and (end == token or gaps[end] in (" ", "-")):
        word = words[end]
        if end in at or word in OURS or (end > token and word in _enders()):
            break
        if word in OF_STUDIES and (unknown or end + 1 == until):
            return "", end + 1
        if word not in neutral_words() and not word.endswith("ly") and word.isalpha():
            unknown = word
        end += 1
    is_own = end < until and gaps[end] in (" ", "-") and (end in at or words[end] in OURS)
    if not unknown or is_own or _is_cut_off(scope, unknown, end):
        return "", max(end, token + 1)
    return unknown, end


@cache
def _enders() -> frozenset[str]:
    """Return the words that no place goes on with."""
    return preposition_words() | PRONOUNS | {"of"}


def _is_cut_off(scope: Scope, word: str, end: int) -> bool:
    """Say whether a word is the beginning of a known one, where the text breaks off: "in mou"."""
    if end < len(scope.reading.words):
        return False
    return any(known.startswith(word) for known in OF_STUDIES | OURS | {"the", "thymus"})
