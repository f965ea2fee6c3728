"""Say whether a direction in a sentence is about the gene set and the tissue of the question.

"Apoptosis falls, adipogenesis rises"      ->  "falls" is about another set
"Inhibitors of adipogenesis are lowered"   ->  about something else
"It is up in liver but down in thymus"     ->  each direction has its place
"""

from functools import cache
from itertools import pairwise

from evals.verifiers.text.lexicon import Lexicon, Mark, small_words, word_set
from evals.verifiers.text.lexicon import words as words_of
from evals.verifiers.text.sentences import Sentence


@cache
def _known() -> frozenset[str]:
    subjects = words_of("subjects")
    return frozenset(word for key in ("heads", "pronouns", "function") for word in subjects[key].split())


def is_known(word: str) -> bool:
    """Say whether a word names nothing that a claim could be about instead."""
    return word in _known() or (word.endswith("ly") and len(word) > 4) or not word[0].isalpha()


def _is_stranger(sentence: Sentence, at: int, familiar: frozenset[str] = frozenset()) -> bool:
    word = sentence.words[at]
    return not (at in sentence.covered or word in familiar or is_known(word))


def is_own(sentence: Sentence, mark: Mark, topic: bool, familiar: frozenset[str]) -> bool:
    """Say whether the direction at a mark is said of the gene set of the question.

    `topic` says whether the gene set was what the text last named; `familiar` are words that are no other subject.
    """
    words, marks = sentence.words, sentence.marks
    kind = mark.value.partition("|")[2]
    start, end = sentence.clause(mark.i, mark.j)
    left = [m for m in marks if start <= m.i < mark.i]
    right = [m for m in marks if mark.j <= m.i < end]
    if kind == "way" and not _is_way(words, mark, start, marks):
        return False
    if kind != "way" and _has_object(sentence, mark, kind, left, right, familiar):
        return False
    names = [m for m in left if m.tag in ("own", "other")]
    if names:
        return names[-1].tag == "own" and _is_head(sentence, names[-1], mark, start)
    after = next((m for m in right if m.tag in ("own", "other")), None)
    leads = after is not None and all(map(is_known, words[mark.j : after.i]))
    if after is not None and after.tag == "own" and (kind == "does" or leads):
        return _is_head(sentence, after, mark, mark.j)
    if leads or _is_about_tissue(words, left, mark):
        return False
    unknown = [at for at in range(start, mark.i) if _is_stranger(sentence, at, familiar)]
    if unknown:
        refs = ("it", "its", "pathway", "set", "expression")
        return topic and any(word in refs for word in words[unknown[-1] : mark.i])
    is_labelled = start == mark.i > 1 and words[start - 1] == ":"
    if is_labelled and not any(m.tag in ("own", "fine") for m in marks):
        is_labelled = any(_is_stranger(sentence, at) for at in range(max(0, start - 6), start - 1))
        if is_labelled:
            return False
    earlier = next((m for m in reversed(marks) if m.tag in ("own", "other") and m.j <= start), None)
    if earlier is None:
        return topic
    is_left_out = any(m.tag in ("deny", "reject") and m.j == earlier.i for m in marks)
    return earlier.tag == "own" and not is_left_out and _is_head(sentence, earlier, mark, 0)


def _is_about_tissue(words: list[str], left: list[Mark], mark: Mark) -> bool:
    """Say whether a tissue itself rises or falls: "the thymus is lower"; "liver up" is no such sentence."""
    place = next((m for m in left if m.tag == "place"), None)
    if place is None or place.j == mark.i:
        return False
    at = place.i - 1
    while at >= 0 and words[at] in ("the", "mouse", "spaceflown", "murine"):
        at -= 1
    return at < 0 or words[at] in small_words("stops")


def _is_way(words: list[str], mark: Mark, start: int, marks: list[Mark]) -> bool:
    """Say whether "up" or "down" is a direction, not a part of "boils down to" or "up to 2 times"."""
    rules = words_of("directions")["words"]
    following, before = words[mark.j], words[mark.i - 1]
    if following in rules["not_before"] or following[0].isdigit():
        return False
    if mark.i == start or before in rules["moves"] or before.endswith("ly"):
        return True
    return any(m.j == mark.i and m.tag in ("own", "place", "deny", "fine", "reject") for m in marks)


def _has_object(
    sentence: Sentence, mark: Mark, kind: str, left: list[Mark], right: list[Mark], familiar: frozenset[str]
) -> bool:
    """Say whether something else stands behind the word: "reduced stress", "a rise in fat", "suppresses inflammation"."""
    words, at = sentence.words, mark.j
    if words[at] == "to":
        return kind == "said"
    heads = word_set("subjects", "heads")
    if not any(m.tag == "own" for m in (*left, *right)):
        if words[at] in small_words("generic") and words[mark.i - 1] != "the":
            return True
        last = words[mark.j - 1]
        if last in small_words("nouns") or last.endswith("tion") or words[at] in heads:
            while words[at] in heads or words[at] in ("in", "of", "the"):
                at += 1
    elif kind == "does":
        while words[at] in ("the", "a", "its", "their"):
            at += 1
    following = next((m for m in right if m.i == at), None)
    if following is None:
        return _is_stranger(sentence, at, familiar)
    if following.tag == "place" and kind == "does":
        return any(m.tag == "own" for m in left)
    return following.tag == "other"


def _is_head(sentence: Sentence, name: Mark, mark: Mark, start: int) -> bool:
    """Say whether the name is what is spoken of, not a part of "inhibitors of …", "some … genes" or "the … section"."""
    words, at = sentence.words, name.i - 1
    while at >= start and words[at] in ("the", "mouse", "this", "a", "hallmark"):
        at -= 1
    if at > start and words[at] in small_words("before_name") and _is_stranger(sentence, at - 1):
        return False
    for at in range(start, name.i):
        if words[at] in small_words("partial") and (at + 1 == name.i or words[at + 1] in ("gene", "genes")):
            return False
    at = name.j
    strangers = [k for k in range(at, min(at + 2, mark.i)) if _is_stranger(sentence, k)]
    return not strangers or strangers[0] > at or (name.value == "start" and len(strangers) == 1)


def place_of(sentence: Sentence, mark: Mark, lexicon: Lexicon) -> tuple[tuple[str, ...], bool]:
    """Return the question's tissues that a direction holds in, and whether it holds in others only.

    They stand behind it, up to the next direction, else before it.
    """
    words, marks = sentence.words, sentence.marks
    ends = [m for m in marks if m.tag in ("option", "break")]
    stop = next((m.i for m in ends if m.i >= mark.j), len(words))
    start = max((m.j for m in ends if m.j <= mark.i), default=0)
    places = [m for m in marks if m.tag == "place" and _is_meant(sentence, m)]
    found = [m for m in places if mark.j <= m.i < stop]
    for at, (one, other) in enumerate(pairwise(found)):
        if not small_words("listing").issuperset(words[one.j : other.i]):
            found = found[: at + 1]
            break
    named = {m.value: None for m in found or [m for m in places if start <= m.i < mark.i]}
    own = tuple(place for place in named if place in lexicon.tissues)
    return own, "elsewhere" in named or (bool(named) and not own)


def _is_meant(sentence: Sentence, place: Mark) -> bool:
    """Say whether a place is not only what it is compared with: "unlike liver", "than in ground controls"."""
    words, before = sentence.words, sentence.words[place.i - 1]
    if words[place.i] not in small_words("control"):
        return before not in ("unlike", "not")
    start, _ = sentence.clause(place.i, place.j)
    return before not in small_words("against") and small_words("than").isdisjoint(words[start : place.i])


def is_of_missions(sentence: Sentence, mark: Mark) -> bool:
    """Say whether a word such as "disagree" or "highly conserved" is said of what is asked, not of crews or sequences."""
    words = sentence.words
    at = mark.j
    while words[at] in ("only", "about", "on", "in", "their", "the", "for"):
        at += 1
    if _is_stranger(sentence, at) or words[at] == "nothing":
        return False
    if any(m.tag == "other" and m.i == at for m in sentence.marks):
        return False
    before = mark.i - 1
    while before >= 0 and words[before] in ("is", "are", "was", "were", "be", "been"):
        before -= 1
    return before < 0 or not _is_stranger(sentence, before)
