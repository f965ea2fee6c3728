"""Say whether a direction in a sentence is about the gene set and the tissue of the question.

    "Apoptosis falls, adipogenesis rises"      ->  "falls" is about another set
    "Inhibitors of adipogenesis are lowered"   ->  about something else
    "It is up in liver but down in thymus"     ->  each direction has its place
"""

from functools import cache
from typing import NamedTuple

from evals.verifiers.text.lexicon import Lexicon, Mark, word_set, words
from evals.verifiers.text.sentences import Sentence

STOPS = frozenset((",", ":", "(", ")", "-", "--", '"', "|", "=", "and", "but", "while", "whereas", "although", "though", "so", "because", "since", "which", "who", "that", "yet", "however", "[", "]", "...", ">"))
BEFORE_NAME = frozenset("of in on for to from about with against".split())
CONTROL = frozenset("controls control ground".split())
AGAINST = frozenset("than versus vs to with against and from over between the ground on in relative compared mice".split())


THAN = frozenset("than versus vs compared against relative to".split())


class Place(NamedTuple):
    """Where a claim holds. `own` = tissues of the question, `elsewhere` = it is about others only."""

    own: tuple[str, ...]
    elsewhere: bool


@cache
def _known() -> frozenset[str]:
    subjects = words("subjects")
    return frozenset(word for key in ("heads", "pronouns", "function") for word in str(subjects[key]).split())


def is_known(word: str) -> bool:
    """Say whether a word names nothing that a claim could be about instead."""
    return word in _known() or (word.endswith("ly") and len(word) > 4) or not word[0].isalpha()


def is_own(sentence: Sentence, mark: Mark, lexicon: Lexicon, topic: bool) -> bool:
    """Say whether the direction at a mark is said of the gene set of the question.

    `topic` says whether the gene set was what the text last named.
    """
    words, marks = sentence.words, sentence.marks
    kind = mark.value.partition("|")[2]
    start = mark.i
    covered = {at for m in marks for at in range(m.i, m.j)}
    while start > 0 and words[start - 1] not in STOPS:
        start -= 1
    if kind == "way" and not _is_way(words, mark, start, marks):
        return False
    left = [m for m in marks if start <= m.i < mark.i]
    end = mark.j
    while end < len(words) and words[end] not in STOPS:
        end += 1
    right = [m for m in marks if mark.j <= m.i < end]
    if _has_object(words, mark, kind, right, left):
        return False
    names = [m for m in left if m.tag in ("own", "other")]
    unknown = [at for at in range(start, mark.i) if at not in covered and not is_known(words[at])]
    after = next((m for m in right if m.tag in ("own", "other")), None)
    if names:
        if names[-1].tag == "other":
            return False
        return _is_head(words, names[-1], mark, covered, start)
    if after is not None and after.tag == "own" and (kind == "does" or _leads_to(words, mark.j, after.i)):
        return _is_head(words, after, mark, covered, mark.j)
    if after is not None and after.tag == "other" and _leads_to(words, mark.j, after.i):
        return False
    if unknown:
        refs = [at for at in range(start, mark.i) if words[at] in ("it", "its", "pathway", "set", "expression")]
        return bool(refs) and refs[-1] > unknown[-1] and topic
    earlier = [m for m in marks if m.tag in ("own", "other") and m.j <= start]
    if earlier:
        return earlier[-1].tag == "own" and _is_head(words, earlier[-1], mark, covered, 0)
    return topic


def _is_way(words: list[str], mark: Mark, start: int, marks: list[Mark]) -> bool:
    """Say whether "up" or "down" is a direction, not a part of "boils down to" or "up to 2 times"."""
    moves: list[str] = words_of("directions")["words"]["moves"]
    shut: list[str] = words_of("directions")["words"]["not_before"]
    following = words[mark.j] if mark.j < len(words) else ""
    if following in shut or (following and following[0].isdigit()):
        return False
    if mark.i == start:
        return True
    before = words[mark.i - 1]
    return before in moves or before.endswith("ly") or any(m.j == mark.i and m.tag in ("own", "place", "deny", "fine", "reject") for m in marks)


def words_of(table: str) -> dict[str, dict[str, list[str]]]:
    """Return a table with sections."""
    return words(table)  # type: ignore[return-value]


GENERIC = frozenset("gene genes set sets pathway pathways members".split())
"""Behind a direction these are some of many: "downregulated genes were removed"."""


def _has_object(words: list[str], mark: Mark, kind: str, right: list[Mark], left: list[Mark]) -> bool:
    """Say whether something else stands behind the word: "reduced stress", "suppresses inflammation"."""
    at = mark.j
    if kind == "way" or at >= len(words):
        return False
    if kind == "does":
        while at < len(words) and words[at] in ("the", "a", "its", "their"):
            at += 1
    if words[at] in STOPS or words[at] == ".":
        return False
    if words[at] == "to":
        return kind == "said"
    if words[at] in GENERIC and words[mark.i - 1 : mark.i] != ["the"] and not any(m.tag == "own" for m in (*left, *right)):
        return True
    if any(m.i == at and m.tag in ("own", "option", "place", "deny", "void", "open", "suppose", "fine") for m in right):
        return kind == "does" and any(m.tag == "own" for m in left) and any(m.i == at and m.tag == "place" for m in right)
    if any(m.i == at and m.tag == "other" for m in right):
        return True
    return not is_known(words[at])


def _leads_to(words: list[str], at: int, name: int) -> bool:
    """Say whether only small words stand between a direction and a name: "reduction in the", "lower expression of"."""
    return name - at <= 6 and all(is_known(words[k]) for k in range(at, name))


def _is_head(words: list[str], name: Mark, mark: Mark, covered: set[int], start: int) -> bool:
    """Say whether the name is what is spoken of, not a part of "inhibitors of …" or "the … section"."""
    at = name.i - 1
    while at >= start and words[at] in ("the", "mouse", "this", "a", "hallmark"):
        at -= 1
    if at > start and words[at] in BEFORE_NAME and at - 1 not in covered and not is_known(words[at - 1]):
        return False
    heads = word_set("subjects", "heads")
    at = name.j
    while at < len(words) and words[at] in heads:
        at += 1
    is_short = name.value != "full"
    if is_short and at < mark.i and words[at] not in STOPS and not is_known(words[at]) and at not in covered:
        at += 1
    return not (at < mark.i and at not in covered and words[at] not in STOPS and not is_known(words[at]))


def place_of(sentence: Sentence, mark: Mark, lexicon: Lexicon) -> Place:
    """Return the tissues that a direction holds in: those behind it, up to the next direction, else those before it."""
    words, marks = sentence.words, sentence.marks
    options = [m for m in marks if m.tag == "option"]
    after_end = next((m.i for m in options if m.i >= mark.j), len(words))
    for m in marks:
        if m.tag == "break" and mark.j <= m.i < after_end:
            after_end = m.i
            break
    behind = [m for m in marks if m.tag == "place" and mark.j <= m.i < after_end]
    for at, (one, other) in enumerate(zip(behind, behind[1:], strict=False)):
        if any(word[0].isdigit() for word in words[one.j : other.i]):
            behind = behind[: at + 1]
            break
    found = _places(words, behind, lexicon)
    if not found:
        before_start = max([m.j for m in options if m.j <= mark.i] + [m.j for m in marks if m.tag == "break" and m.j <= mark.i], default=0)
        found = _places(words, [m for m in marks if m.tag == "place" and before_start <= m.i < mark.i], lexicon)
    own = tuple(dict.fromkeys(place for place in found if place in lexicon.tissues))
    strange = [place for place in found if place not in lexicon.tissues]
    return Place(own, "elsewhere" in strange or (bool(strange) and not own))


def _places(words: list[str], marks: list[Mark], lexicon: Lexicon) -> list[str]:
    found = []
    for m in marks:
        before = words[m.i - 1] if m.i else ""
        if before in ("unlike", "not") or (m.value == "elsewhere" and words[m.i] in CONTROL and before in AGAINST - {"in", "on", "the"}):
            continue
        since = m.i
        while since > 0 and words[since - 1] not in STOPS:
            since -= 1
        if m.value == "elsewhere" and words[m.i] in CONTROL and not THAN.isdisjoint(words[since : m.i]):
            continue
        found.append(m.value)
    return found


def is_of_missions(sentence: Sentence, mark: Mark) -> bool:
    """Say whether a word such as "disagree" or "highly conserved" is said of what is asked, not of crews or sequences."""
    words = sentence.words
    at = mark.j
    while words[at] in ("only", "about", "on", "in", "their", "the", "for"):
        at += 1
    covered = {k for m in sentence.marks for k in range(m.i, m.j)}
    if at not in covered and not is_known(words[at]) and words[at] not in STOPS:
        return False
    if any(m.tag == "other" and m.i == at for m in sentence.marks):
        return False
    before = mark.i - 1
    while before >= 0 and words[before] in ("is", "are", "was", "were", "be", "been"):
        before -= 1
    return before < 0 or before in covered or is_known(words[before]) or words[before] in STOPS
