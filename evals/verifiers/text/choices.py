"""Read which option of a question free text asserts."""

import re
from dataclasses import dataclass
from functools import cache, lru_cache

from evals.plain import Plain
from evals.schema import CANNOT_BE_TOLD, Claim
from evals.verifiers.expected import AGREE, DIFFERENT, LEVELS, SAME, Expected, Finding, fold
from evals.verifiers.text.lexicon import DISAGREE, DOWN, TOKEN, UP, Lexicon, Mark, tokens, words
from evals.verifiers.text.sentences import Sentence, marks_in, read_sentences, takes_back
from evals.verifiers.text.subjects import STOPS, is_known, is_of_missions, is_own, place_of

COMPLEMENT = {SAME: DIFFERENT, DIFFERENT: SAME, AGREE: DISAGREE, DISAGREE: AGREE, "yes": "no", "no": "yes"}
STILL = re.compile(
    r"\b(?:but|still|yet|however|nevertheless|take|should|guess|recommend\w*|common sense)\b[^\n]{0,80}?"
    r"\b(?:\d[\d.,]*|ten|twenty|thirty|forty|fifty|hundred) ?(?:mg|milligrams?|g|grams?|days?|weeks?|months?)\b"
)
"""An amount in spite of "the data cannot answer this"."""
AMOUNT = re.compile(r"\b\d+(?:[.,]\d+)? ?(?:mg|milligrams?|g|days?|weeks?|months?|hours?)\b")
BETWEEN = frozenset("in of the a its this".split())
OPENERS = frozenset("indeed well so the answer is : , final correct option".split())


@dataclass(slots=True)
class Heard:
    """A claim that an answer makes of an option: its place in the plain text, the tissues it is made of, its sentence."""

    option: str
    is_denied: bool
    start: int
    end: int
    places: tuple[str, ...]
    sentence: int
    holds_for_all: bool = False


def read_choice(expected: Expected, question: str, page: Plain, lexicon: Lexicon) -> Finding:
    """Return the verdict on free text that answers a question with options."""
    heard = claims(expected, question, page.text, lexicon)
    asserted = list(dict.fromkeys(each.option for each in heard if not each.is_denied))
    if expected.right == DISAGREE:
        asserted = _of_missions(asserted, heard)
    elif SAME in expected.options:
        asserted = _of_tissues(asserted, heard)
    shown = tuple(_claim(each, page) for each in heard)
    right = expected.right
    if right == CANNOT_BE_TOLD and asserted == [right] and STILL.search(page.text):
        return Finding("contradictory", "it says that the data cannot tell, and answers", right, shown)
    if asserted == [right]:
        return Finding("correct", f"it says {right}, as the data do", right, shown, 1.0)
    if not asserted:
        if right == CANNOT_BE_TOLD and _is_definite(question, page.text):
            return Finding("incorrect", "it answers what the data cannot tell", None, shown)
        denied = [each.option for each in heard if each.is_denied]
        return Finding("no_claim", f"it only denies {denied[0]}" if denied else "it names no option of the question", None, shown)
    says = " / ".join(asserted)
    if right in asserted:
        return Finding("contradictory", f"it says {' and '.join(asserted)}", says, shown)
    return Finding("incorrect", f"it says {' and '.join(asserted)}; the data say {right}", says, shown)


def _claim(heard: Heard, page: Plain) -> Claim:
    return Claim.model_construct(
        subject=", ".join(heard.places) or "answer",
        says=heard.option,
        start=page.origin(heard.start),
        end=page.origin(heard.end - 1) + 1,
        about="answer",
        is_denied=heard.is_denied,
    )


def claims(expected: Expected, question: str, text: str, lexicon: Lexicon) -> list[Heard]:
    """Return what the text claims of the options, in order; what is taken back later is left out."""
    found: list[Heard] = []
    topic = True
    after_question = False
    last = -1
    for number, sentence in enumerate(read_sentences(text, lexicon, question)):
        own = _heard(sentence, lexicon, topic, number, question)
        reply = None if after_question else _reply(sentence, question, lexicon)
        if reply is not None and not (own and reply[1]):
            own.insert(0, Heard(*reply, sentence.start, sentence.start + len(sentence.text), (), number))
        elif not sentence.said and found and sentence.end != "?" and not after_question and takes_back(sentence):
            found = [each for each in found if each.sentence != last]
        if own:
            last = number
            found += own
        after_question = sentence.end == "?" and any(mark.tag in ("option", "fine") for mark in sentence.marks)
        named = [mark.tag for mark in sentence.marks if mark.tag in ("own", "other")]
        if named:
            topic = named[0] == "own"
    return found


def _heard(sentence: Sentence, lexicon: Lexicon, topic: bool, number: int, question: str) -> list[Heard]:
    """Return what one sentence claims about the question's subject."""
    said = [each for each in sentence.said if each.state != "open"]
    if not said:
        return []
    dropped = _doubled(sentence) if lexicon.has_directions and len(sentence.said) > 1 else frozenset()
    if lexicon.named:
        dropped = dropped | _beaten(sentence, question, lexicon)
    spans: list[tuple[int, int]] = []
    found = []
    for each in said:
        mark = each.mark
        option, _, kind = mark.value.partition("|")
        if mark.i in dropped:
            continue
        places: tuple[str, ...] = ()
        if option != CANNOT_BE_TOLD:
            if kind:
                if not is_own(sentence, mark, lexicon, topic):
                    continue
            elif option not in lexicon.named and not is_of_missions(sentence, mark):
                continue
            if lexicon.tissues and not lexicon.named & lexicon.tissues:
                place = place_of(sentence, mark, lexicon)
                if place.elsewhere and (lexicon.has_directions or any(tissue in question.casefold() for tissue in lexicon.tissues)):
                    continue
                places = place.own
        spans = spans or [token.span() for token in TOKEN.finditer(sentence.text)]
        start, end = sentence.start + spans[mark.i][0], sentence.start + spans[min(mark.j, len(spans)) - 1][1]
        is_all = not ALL.isdisjoint(sentence.words[mark.i : mark.j + 5]) or not ALL.isdisjoint(sentence.words[max(0, mark.i - 4) : mark.i])
        found.append(Heard(option, each.state == "denied", start, end, places, number, is_all))
    return found


ALL = frozenset(("all", "every", "each"))


def _doubled(sentence: Sentence) -> frozenset[int]:
    """Return which of two directions of one phrase say nothing: both in "reduced suppression", the first in "increased loss"."""
    dropped: set[int] = set()
    marks = [each.mark for each in sentence.said if "|" in each.mark.value]
    for one, other in zip(marks, marks[1:], strict=False):
        if BETWEEN.issuperset(sentence.words[one.j : other.i]):
            first, second = one.value.partition("|")[0], other.value.partition("|")[0]
            if first == UP:
                dropped.add(one.i)
            else:
                dropped |= {other.i} if second == UP else {one.i, other.i}
    return frozenset(dropped)


# ---- names against names ----------------------------------------------------------------------


@cache
def _phrases(key: str) -> tuple[list[str], ...]:
    entries: list[str] = words("amounts")[key]  # type: ignore[assignment]
    return tuple(each.split() for entry in entries for each in ([entry] if "/" not in entry else [entry.replace("to/with", "to"), entry.replace("to/with", "with")]))


@cache
def _degree(key: str) -> frozenset[str]:
    return frozenset(str(words("amounts")[key]).split())


def _sign(parts: list[str]) -> int:
    """Return 1 where words ask for, or name, the most, -1 for the least, 0 for both or neither."""
    return (not _degree("most").isdisjoint(parts)) - (not _degree("least").isdisjoint(parts))


def _beaten(sentence: Sentence, question: str, lexicon: Lexicon) -> frozenset[int]:
    """Return the names in a sentence that are not what it answers: those that another one beats, or named in passing."""
    parts = sentence.words
    asked = _asked(question)
    marks = [each.mark for each in sentence.said if each.mark.value in lexicon.named]
    if not marks:
        return frozenset()
    covered = {at for mark in sentence.marks for at in range(mark.i, mark.j) if mark.tag in ("option", "place", "own")}
    content = [word for at, word in enumerate(parts) if at not in covered and word not in _degree("most") and not is_known(word)]
    if content and asked.stems.isdisjoint({stem for word in content for stem in fold(word)}) and not _sign(parts):
        return frozenset(mark.i for mark in marks)
    dropped: set[int] = set()
    for one, other in zip(marks, marks[1:], strict=False):
        between = parts[one.j : other.i]
        if any(_holds(between, phrase) for phrase in _phrases("under")):
            dropped.add(one.i)
        elif any(_holds(between, phrase) for phrase in _phrases("over")):
            against = asked.sign and _sign(between) == -asked.sign
            dropped.add(one.i if against else other.i)
    if asked.sign and not dropped:
        for mark in marks:
            start, end = mark.i, mark.j
            others = {at for each in marks if each is not mark for at in range(each.i, each.j)}
            while start > 0 and parts[start - 1] not in STOPS and start - 1 not in others:
                start -= 1
            while end < len(parts) and parts[end] not in STOPS and end not in others:
                end += 1
            if _sign([*parts[start : mark.i], *parts[mark.j : end]]) == -asked.sign:
                dropped.add(mark.i)
    return frozenset(dropped)


def _holds(parts: list[str], phrase: list[str]) -> bool:
    return any(parts[at : at + len(phrase)] == phrase for at in range(len(parts) - len(phrase) + 1))


@dataclass(frozen=True, slots=True)
class _Asked:
    stems: frozenset[str]
    sign: int


@lru_cache(maxsize=8192)
def _asked(question: str) -> _Asked:
    parts = tokens(question.casefold())
    return _Asked(fold(question), _sign(parts))


# ---- yes and no -------------------------------------------------------------------------------


def _reply(sentence: Sentence, question: str, lexicon: Lexicon) -> tuple[str, bool] | None:
    """Return what a bare yes or no to the question says: an option, and whether it is denied."""
    parts = sentence.words
    at = 0
    while at < len(parts) and parts[at] in OPENERS:
        at += 1
    word = parts[at] if at < len(parts) else ""
    if word not in ("yes", "no") and len(parts) > 2 and parts[-2] in ("yes", "no") and parts[-3] in (",", "so", "is", ":"):
        at, word = len(parts) - 2, parts[-2]
    if word not in ("yes", "no"):
        if parts[:2] in (["it", "does"], ["it", "is"], ["it", "has"]) and parts[2] in (".", "not", ":"):
            word, at = ("no", 2) if parts[2] == "not" else ("yes", 1)
        else:
            return None
    if sentence.end == "?" or (parts[at + 1] not in (",", ".", ":", "-", word) and parts[at + 1] != "it"):
        return None
    rest = parts[at + 1 :]
    if ({"yes": "no", "no": "yes"}[word] in rest) or any(mark.tag == "void" or (mark.tag == "fine" and mark.i == at) for mark in sentence.marks):
        return None
    option = _asked_option(question, lexicon)
    if option is None:
        return None
    if word == "yes" and any(mark.tag == "deny" and mark.i > at for mark in sentence.marks):
        return None
    content = [each for each in rest if not is_known(each) and each.isalpha()]
    if content and _asked(question).stems.isdisjoint({stem for each in content for stem in fold(each)}):
        return None
    if option == "yes":
        return word, False
    if word == "yes":
        return option, False
    return (COMPLEMENT[option], False) if option in COMPLEMENT else (option, True)


@lru_cache(maxsize=8192)
def _asked_words(question: str) -> tuple[str, ...]:
    return tuple(tokens(question.casefold()))


AUXILIARY = frozenset("is are was were does do did can could has have will".split())


def _asked_option(question: str, lexicon: Lexicon) -> str | None:
    """Return the one option that "yes" to the question would assert; None where there is no such."""
    parts = list(_asked_words(question))
    if lexicon.has_yes:
        return "yes"
    if not parts or (parts[0] not in AUXILIARY and AUXILIARY.isdisjoint(parts[1:])) or parts[0] in ("which", "what", "how"):
        return None
    options = {mark.value for mark in marks_in(parts, lexicon.table) if mark.tag == "option" and "|" not in mark.value}
    return options.pop() if len(options) == 1 else None


# ---- several missions, several tissues --------------------------------------------------------


def _of_missions(asserted: list[str], heard: list[Heard]) -> list[str]:
    """Return what is said of the missions: up in one and down in another is that they disagree."""
    ways = [option for option in (UP, DOWN) if option in asserted]
    rest = [option for option in asserted if option not in ways]
    if len(ways) == 2:
        return rest if DISAGREE in rest else [*rest, DISAGREE]
    if DISAGREE in rest and ways and any(each.option == ways[0] and each.holds_for_all for each in heard):
        return [*rest, AGREE]
    if DISAGREE in rest:
        return rest
    return [option for option in asserted if option != AGREE] or asserted


def _of_tissues(asserted: list[str], heard: list[Heard]) -> list[str]:
    """Return what is said of the tissues: up in both is the same direction."""
    ways: dict[str, set[str]] = {}
    for each in heard:
        if each.option in (UP, DOWN) and not each.is_denied:
            for place in each.places:
                ways.setdefault(place, set()).add(each.option)
    said = [option for option in asserted if option not in (UP, DOWN)]
    if len(ways) > 1:
        derived = SAME if all(way == next(iter(ways.values())) and len(way) == 1 for way in ways.values()) else DIFFERENT
        if derived not in said:
            said.append(derived)
    return said


# ---- what the data cannot tell ----------------------------------------------------------------


def _is_definite(question: str, text: str) -> bool:
    """Say whether a sentence answers a question that cannot be answered: it takes up its words, or gives an amount."""
    asked = {stem for word in _asked_words(question) if not is_known(word) for stem in fold(word)}
    if not asked:
        return False
    for sentence in re.split(r"[.!?](?=\s|$)|\n", text):
        stems = fold(sentence)
        share = len(asked & stems) / len(asked)
        if share >= 0.75 or (share >= 0.25 and AMOUNT.search(sentence)):
            return True
    return False
