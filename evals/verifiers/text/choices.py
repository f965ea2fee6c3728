"""Read which option of a question free text asserts."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from evals.schema import CANNOT_BE_TOLD, Claim
from evals.verifiers.expected import AGREE, DIFFERENT, SAME, Expected, Finding, claim, fold
from evals.verifiers.line import MARKS, marked, without_thought
from evals.verifiers.text.lexicon import (
    DISAGREE,
    DOWN,
    UP,
    Lexicon,
    Mark,
    reply_at,
    small_words,
    tokens,
    word_set,
    words,
)
from evals.verifiers.text.sentences import (
    Said,
    Sentence,
    is_known,
    is_of_missions,
    is_own,
    marks_in,
    parts_of,
    place_of,
    read_sentences,
    takes_back,
)
from evals.wording import Plain

PAIRS = ((SAME, DIFFERENT), (AGREE, DISAGREE), ("yes", "no"))
COMPLEMENT = {one: other for pair in PAIRS for one, other in (pair, pair[::-1])}
STILL = re.compile(
    r"\b(?:but|still|yet|however|nevertheless|take|should|guess|recommend\w*|common sense|reasonable|would be)\b[^\n]{0,80}?"
    r"\b(?:\d[\d.,]*|ten|twenty|thirty|forty|fifty|hundred) ?(?:mg|milligrams?|g|grams?|days?|weeks?|months?)\b"
)
"""An amount in spite of "the data cannot answer this"."""
AMOUNT = re.compile(r"\b\d+(?:[.,]\d+)? ?(?:mg|milligrams?|g|days?|weeks?|months?|hours?)\b")
YES_NO = frozenset(("yes", "no"))
HOLDS = fold("contains uses")
"""Verbs that name no other thing: "RNA contains ribose"."""


@dataclass(slots=True)
class Heard:
    """A claim that an answer makes of an option: its words in a sentence, and the tissues it is made of."""

    option: str
    is_denied: bool
    sentence: Sentence
    i: int
    j: int
    places: tuple[str, ...] = ()


def read_choice(expected: Expected, question: str, page: Plain, lexicon: Lexicon, is_shown: bool) -> Finding:
    """Return the verdict on free text that answers a question with options; its claims if they are to be shown."""
    heard = claims(read_sentences(page.text, lexicon, question), question, lexicon)
    asserted = list(dict.fromkeys(each.option for each in heard if not each.is_denied))
    if expected.right == DISAGREE:
        asserted = _of_missions(asserted, heard)
    elif SAME in expected.options:
        asserted = _of_tissues(asserted, heard)
    shown = shown_claims(page, heard) if is_shown else ()
    right = expected.right
    if right == CANNOT_BE_TOLD and asserted == [right] and STILL.search(page.text):
        return Finding("contradictory", "it says that none can be told, and answers", right, shown)
    if asserted == [right]:
        return Finding("correct", f"it says {right}, as the data do", right, shown, 1.0)
    if not asserted:
        if right == CANNOT_BE_TOLD and (STILL.search(page.text) or _is_definite(question, page.text)):
            return Finding("incorrect", "it answers what the data cannot tell", None, shown)
        denied = [each.option for each in heard if each.is_denied]
        what = f"it only denies {denied[0]}" if denied else "it names no option of the question"
        return Finding("no_claim", what, None, shown)
    says, both = " / ".join(asserted), " and ".join(asserted)
    if right in asserted:
        return Finding("contradictory", f"it says {both}", says, shown)
    return Finding("incorrect", f"it says {both}; the data say {right}", says, shown)


def claim_at(page: Plain, says: str, place: tuple[int, int], is_denied: bool = False) -> Claim:
    """Return a claim at a place in the plain text."""
    return claim("answer", says, page.origin(place[0]), page.origin(place[1] - 1) + 1, is_denied)


def shown_claims(page: Plain, heard: list[Heard]) -> tuple[Claim, ...]:
    places = [each.sentence.span(each.i, each.j) for each in heard[:12]]
    return tuple(claim_at(page, each.option, at, each.is_denied) for each, at in zip(heard, places, strict=False))


def claims(sentences: Iterable[Sentence], question: str, lexicon: Lexicon) -> list[Heard]:
    """Return what sentences claim of the options, in order; what is taken back later is left out."""
    found: list[Heard] = []
    topic = True
    after_question = False
    restated: list[Heard] = []
    has_said = is_doubted = False
    for sentence in sentences:
        is_doubted = is_doubted or not small_words("doubts").isdisjoint(sentence.words)
        own = _heard(sentence, lexicon, topic, question) if sentence.said else []
        reply = None if after_question else _reply(sentence, question, lexicon, is_first=not has_said)
        has_said = has_said or sentence.end != "?"
        if reply is not None and not (own and reply[1]):
            own.insert(0, Heard(*reply, sentence, 0, 1))
        elif found and not (sentence.said or after_question or sentence.end == "?") and takes_back(sentence):
            last = found[-1].sentence
            while found and found[-1].sentence is last:
                found.pop()
        found += own
        if lexicon.yes_no and (word := _restated(sentence, question)):
            restated.append(Heard(lexicon.yes_no.get(word, word), False, sentence, 0, 1))
        tags = [mark.tag for mark in sentence.marks]
        after_question = sentence.end == "?" and ("option" in tags or "fine" in tags)
        topic = next((tag == "own" for tag in tags if tag in ("own", "other")), topic)
    says = {each.option for each in restated}
    is_clear = len(says) == 1 and not (is_doubted and lexicon.yes_no["yes"] in says)
    return found or (restated if is_clear else [])


def _restated(sentence: Sentence, question: str) -> str | None:
    """Return "yes" for a sentence that says what a yes-or-no question asks, "no" for one that denies it.

    It holds the words that carry the question's meaning, but perhaps for the last ones, and not many others. Where degrees
    are compared, the same words may say the opposite.
    """
    asked = _asked_words(question)
    named = [
        word for before, word in pairwise(("", *asked)) if word not in small_words("sorts") or is_known(before or "a")
    ]
    content = _content(named, str.isalnum)
    order = list(dict.fromkeys(stem for word in asked for stem in fold(word) if stem in content))
    if sentence.end == "?" or len(order) < 2 or small_words("auxiliary").isdisjoint(asked[:1]) or _sign(list(asked)):
        return None
    parts = sentence.words
    at = next((k for k, word in enumerate(parts) if word in small_words("evidence")), 0)
    near = parts[max(0, at - 5) : at]
    is_missing = not small_words("missing").isdisjoint(near)
    if (at and not small_words("enough").isdisjoint(near)) or (is_missing and parts[at] == "answer"):
        return None  # "not enough evidence", "no definitive answer"
    if is_missing or small_words("is_evidence").issuperset(parts[max(0, at - 2) : at] or "-"):
        end = next((k for k in range(at, len(parts)) if parts[k] in small_words("ends_evidence")), len(parts))
        said, shared = _content(parts[at + 1 : end], str.isalnum), content & _content(parts[:end], str.isalnum)
        n_denied = is_missing + sum(at < mark.i < end for mark in _denials(sentence))
        is_asked = bool(said & content) and len(shared) >= max(2, 0.6 * len(content))
        points_back = is_missing and sentence.start > 0 and said <= fold(" ".join(small_words("supports")))
        if points_back or (is_asked and len(said) <= 2 * len(content) + 2 and n_denied < 2):
            return "no" if n_denied else "yes"
        return None
    if "but" in parts and content.isdisjoint(_content(parts[: parts.index("but")], str.isalnum)):
        parts = parts[parts.index("but") :]  # "I am no physician, but …"
    said = _content(parts, str.isalnum)
    held = next((at for at, stem in enumerate(order) if stem not in said), len(order))
    first = len(sentence.words) - len(parts)
    marks = [mark for mark in sentence.marks if mark.tag != "deny"] + _denials(sentence)
    tags = [mark.tag for mark in marks if mark.i >= first and sentence.words[mark.i] not in asked]
    if held < max(2, 0.6 * len(order)) or len(said) > 2 * len(order) + 2 or _sign(parts) or tags.count("deny") > 1:
        return None
    if not {"open", "suppose", "void", "reject", "undo"}.isdisjoint(tags):
        return None
    if any(
        f"{prefix}{one}" == other
        for prefix in ("ir", "in", "un", "im", "non")
        for one in asked
        for other in sentence.words
    ):
        return "no"  # "irreversibly" where the question says "reversibly"
    return "no" if "deny" in tags else "yes"


def _denials(sentence: Sentence) -> list[Mark]:
    """Return what denies in a sentence; "compared to no screening" only says against what."""
    than = small_words("than") - {"to"}
    return [m for m in sentence.marks if m.tag == "deny" and than.isdisjoint(sentence.words[max(0, m.i - 2) : m.i])]


def _heard(sentence: Sentence, lexicon: Lexicon, topic: bool, question: str) -> list[Heard]:
    """Return what one sentence claims about the question's subject."""
    said = [each for each in sentence.said if each.state != "open"]
    familiar = frozenset() if lexicon.has_subject else frozenset(_asked_words(question))
    dropped = _doubled(sentence) if lexicon.has_directions else frozenset()
    if lexicon.named and question:
        first = _first_of_all(sentence, said, question)
        said, dropped = (first, dropped) if first else (said, dropped | _beaten(sentence, question, lexicon))
    is_placed = lexicon.has_places(question)
    found = []
    for each in said:
        mark = each.mark
        option, _, kind = mark.value.partition("|")
        if mark.i in dropped:
            continue
        places: tuple[str, ...] = ()
        if option != CANNOT_BE_TOLD:
            is_named = option in lexicon.named or is_of_missions(sentence, mark)
            if not (is_own(sentence, mark, topic, familiar) if kind else is_named):
                continue
            if is_placed:
                places, is_elsewhere = place_of(sentence, mark, lexicon)
                if is_elsewhere:
                    continue
        found.append(Heard(option, each.state == "denied", sentence, mark.i, mark.j, places))
    return found


def _first_of_all(sentence: Sentence, said: list[Said], question: str) -> list[Said]:
    """Return the name that a sentence says no other has as much as: the heart in "the liver has not as many as the heart"."""
    parts = sentence.words
    most = [each for each in said if _is_measure(parts, each.mark.i)]
    if (
        not most
        or _asked(question)[1] < 0
        or all(mark.tag != "deny" or mark.i > most[0].mark.i for mark in sentence.marks)
    ):
        return []
    return [Said(most[0].mark, "asserted")]


def _doubled(sentence: Sentence) -> frozenset[int]:
    """Return which of two directions of one phrase say nothing: both in "reduced suppression", the first in "increased loss"."""
    dropped: set[int] = set()
    marks = [each.mark for each in sentence.said if "|" in each.mark.value]
    for one, other in pairwise(marks):
        if small_words("between").issuperset(sentence.words[one.j : other.i]):
            first, second = one.value.partition("|")[0], other.value.partition("|")[0]
            dropped |= {one.i} if first == UP else {other.i} if second == UP else {one.i, other.i}
    return frozenset(dropped)


def _sign(parts: list[str]) -> int:
    """Return 1 where words ask for, or name, the most, -1 for the least, 0 for both or neither."""
    if not word_set("amounts", "late").isdisjoint(parts):
        return -1
    most, least = word_set("amounts", "most"), word_set("amounts", "least")
    return (not most.isdisjoint(parts)) - (not least.isdisjoint(parts))


def _beaten(sentence: Sentence, question: str, lexicon: Lexicon) -> frozenset[int]:
    """Return the names in a sentence that are not what it answers: those that another one beats, or named in passing."""
    parts = sentence.words
    stems, asked = _asked(question)
    marks = [each.mark for each in sentence.said if each.mark.value in lexicon.named]
    if not marks:
        return frozenset()
    names = [mark for mark in sentence.marks if mark.tag in ("option", "own")]
    covered = {at for mark in names for at in range(mark.i, mark.j)}
    conceded = [mark for mark in marks if _is_conceded(parts, mark.i)]
    others = {mark.value for mark in marks if mark not in conceded}
    is_other = others and others.isdisjoint(mark.value for mark in conceded)
    dropped = {mark.i for mark in conceded} if is_other else set[int]()
    for one, other in pairwise(marks):
        between = parts[one.j : other.i]
        if any(f" {phrase} " in f" {' '.join(between)} " for phrase in words("amounts")["over"]):
            against = asked and _sign(between) == -asked
            dropped.add(one.i if against else other.i)
    measures = [mark for mark in marks if _is_measure(parts, mark.i)]
    for mark in marks:
        start, end = sentence.clause(mark.i, mark.j)
        start = max([start, *(each.j for each in marks if each.j <= mark.i)])
        end = min([end, *(each.i for each in marks if each.i >= mark.j)])
        sign = _sign([*parts[start : mark.i], *parts[mark.j : end]])
        rest = [word for at, word in enumerate(parts[start:end], start) if at not in covered]
        content = [] if parts[mark.j] in small_words("kinds") else _content(rest) - HOLDS
        is_beside = bool(content) and not sign and stems.isdisjoint(content) and not measures
        if is_beside or mark in measures or (asked and sign == -asked and not dropped):
            dropped.add(mark.i)
    return frozenset(dropped)


def _is_measure(parts: list[str], at: int) -> bool:
    """Say whether a name is what another one is measured by: "ten times as many as the heart"."""
    at -= parts[at - 1] in ("the", "in")
    return parts[at - 1] == "as" and not {"as", "so"}.isdisjoint(parts[: at - 1])


def _is_conceded(parts: list[str], at: int) -> bool:
    """Say whether a word stands in a clause such as "while the liver also has it, …" or "…, whereas the liver has none"."""
    begin = next((k for k in range(at, -1, -1) if parts[k] in small_words("concedes")), None)
    if not begin:
        return begin == 0 and "," not in parts[:at]
    end = next((k for k in range(at, len(parts)) if parts[k] in (",", ".")), len(parts))
    return not _sign(parts[begin:end])


def _content(parts: list[str], is_word: Callable[[str], bool] = str.isalpha) -> set[str]:
    return {stem for word in parts if is_word(word) and len(word) > 1 and not is_known(word) for stem in fold(word)}


@lru_cache(maxsize=8192)
def _asked(question: str) -> tuple[frozenset[str], int]:
    """Return the stems of a question, and whether it asks for the most (1) or the least (-1)."""
    return fold(question), _sign(tokens(question.casefold()))


def _reply(sentence: Sentence, question: str, lexicon: Lexicon, *, is_first: bool) -> tuple[str, bool] | None:
    """Return what a yes or no to the question says: an option, and whether it is denied.

    Where yes and no are the options, a sentence that begins with one says it, unless it takes it back; in other words
    ("that is incorrect") the first sentence does, or one that concludes ("so it does not"). Where yes stands for an option,
    what follows must be about the question.
    """
    parts = sentence.words
    if sentence.end == "?":
        return None
    word, begin, end = reply_at(parts) or ("", 0, 0)
    if word and parts[begin] not in YES_NO:
        is_stated = lexicon.yes_no and (is_first or begin > 0)
        if not is_stated and not (parts[0] == "it" and parts[1] in ("does", "is", "has") and end < 4):
            word = ""
    if not word:
        said = next((k for k in range(1, len(parts)) if parts[k] in YES_NO and _is_stated(parts, k)), 0)
        word, end = (parts[said], said + 1) if said else ("", 0)
    if not word:
        return None
    at = end - 1
    rest = parts[end:]
    stems, asked = _asked(question)
    option = _asked_option(question, lexicon)
    voids = [m for m in sentence.marks if m.tag == "void" and m.i > at]
    if lexicon.yes_no:  # "No, it is not."; what an explanation calls false is not the reply
        voids = [m for m in voids if not (word == "no" and parts[m.i] == "not") and not _content(parts[at + 1 : m.i])]
    if option is None or voids:
        return None
    if lexicon.yes_no:
        after = small_words("after_reply" if parts[at] in YES_NO else "after_words")
        is_open = rest[0] not in after and parts[at] != "that"
        if is_open or not (YES_NO - {word}).isdisjoint(rest[:3]):
            return None
        stop = _clause_end(parts, at + 1)
        denies = [m.i for m in _denials(sentence) if m.i > at]
        is_turned = asked and _sign(rest) == (asked if denies else -asked)
        is_denied = any(i < stop for i in denies) and _content(parts[at + 1 : stop]) <= stems
        if word == "yes" and (is_turned or is_denied or "if" in rest[:2]):
            return None
        return lexicon.yes_no.get(word, word), False
    content = _content(rest)
    if (
        rest[0] not in (",", ".", ":", "-", word, "it")
        or any(m.i > at and m.tag == "deny" and word == "yes" for m in sentence.marks)
        or (word == "yes" and asked and _sign(rest) == -asked)
        or (content and stems.isdisjoint(content))
    ):
        return None
    if word == "yes":
        return option, False
    return (COMPLEMENT[option], False) if option in COMPLEMENT else (option, True)


def _is_stated(parts: list[str], k: int) -> bool:
    """Say whether the yes or no at a place is a reply: "the answer is no, since …", "…, so yes."."""
    is_last = k == len(parts) - 2 and parts[k - 1] in (",", "so", "is", ":")
    return is_last or (parts[k - 1] in ("is", ":") and "answer" in parts[max(0, k - 4) : k])


def _clause_end(parts: list[str], at: int) -> int:
    """Return where the clause that begins behind a reply ends; the comma behind "yes" belongs to the reply."""
    start = at + 1 if parts[at] in (",", ":", "-") else at
    return next((k for k in range(start, len(parts)) if parts[k] in small_words("stops")), len(parts))


@lru_cache(maxsize=8192)
def _asked_words(question: str) -> tuple[str, ...]:
    return tuple(tokens(question.casefold()))


def _asked_option(question: str, lexicon: Lexicon) -> str | None:
    """Return the one option that "yes" to the question would assert; None where there is no such."""
    if lexicon.yes_no:
        return lexicon.yes_no["yes"]
    parts = _asked_words(question)
    if small_words("auxiliary").isdisjoint(parts) or parts[0] in ("which", "what", "how"):
        return None
    options = [option for option in named_in(question, lexicon) if "|" not in option]
    return options[0] if len(options) == 1 else None


@lru_cache(maxsize=8192)
def named_in(question: str, lexicon: Lexicon) -> frozenset[str]:
    """Return the options that a question itself names."""
    return frozenset(
        mark.value for mark in marks_in(list(_asked_words(question)), lexicon.table) if mark.tag == "option"
    )


def _of_missions(asserted: list[str], heard: list[Heard]) -> list[str]:
    """Return what is said of the missions: up in one and down in another is that they disagree."""
    ways = [option for option in (UP, DOWN) if option in asserted]
    rest = [option for option in asserted if option not in ways]
    if DISAGREE in rest:
        return rest
    if len(ways) < 2:
        return ways or rest
    held = [each.sentence for each in heard if each.option in ways]
    names_missions = any(not small_words("missions").isdisjoint(each.words) for each in held)
    is_told_apart = names_missions or held[0] is held[-1]
    return [*rest, DISAGREE] if is_told_apart else [*asserted, DISAGREE]


def _of_tissues(asserted: list[str], heard: list[Heard]) -> list[str]:
    """Return what is said of the tissues: up in both is the same direction."""
    ways: dict[str, set[str]] = {}
    for each in heard:
        if each.option in (UP, DOWN) and not each.is_denied:
            for place in each.places:
                ways.setdefault(place, set()).add(each.option)
    said = [option for option in asserted if option not in (UP, DOWN)]
    if len(ways) > 1:
        first = next(iter(ways.values()))
        derived = SAME if len(first) == 1 and all(way == first for way in ways.values()) else DIFFERENT
        if derived not in said:
            said.append(derived)
    return said


def _is_definite(question: str, text: str) -> bool:
    """Say whether a text answers a question that cannot be answered.

    A sentence takes up its words, or gives an amount or a number of what it asks for ("333 codons"); or the text is but a few
    words: "Ppargc1a.".
    """
    words, asked = _asked_words(question), _content(list(_asked_words(question)))
    parts = [(tokens(text[start:stop]), start, stop) for start, stop, end in parts_of(text) if end != "?"]
    said = [part for part in parts if part[0] and "confidence" not in part[0][:2]]
    for each, start, stop in said:
        share = len(asked & _content(each)) / len(asked) if asked else 0.0
        is_amount = share >= 0.25 and AMOUNT.search(text, start, stop)
        is_counted = "many" in words and any(one[0].isdigit() and other in words for one, other in pairwise(each))
        if share > 0.8 or is_amount or is_counted:
            return True
    few = said[0][0] if len(said) == 1 and len(said[0][0]) <= 3 else []
    return not (fold(" ".join(few)) <= fold(question) or any(map(is_known, few)) or YES_NO.intersection(few))


# ---- options named by letter ---------------------------------------------------------------------


STATED = re.compile(
    r"(?:\b(?i:it(?: is|['’]s)(?: option| choice)?)|\b(?i:answer|option|choice)(?i: is| would be| should be|:)+(?i: option| choice| letter)?"
    r"|\b(?i:choose|select|pick|go with)(?i: option| answer| choice)?|\b(?i:option|choice)(?=[ (*]{1,3}[A-Z][)*]{0,3} is\b(?! (?i:not|wrong|incorrect))))"
    r"[\s:*_(\[{$\"'`\\]{0,8}(?P<letter>[B-HJ-Z]|[AI](?=[)*.,:\]}$\"'`]|\s*$|\s*\n))(?![\w'’+-])",
    re.MULTILINE,
)
BARE = re.compile(
    r"^[ \t]*(?:(?i:option|answer|choice)[: ]+)?[(\[*_$`\"']{0,4}(?P<letter>[A-Za-z])(?!(?<=A):)"
    r"(?:[)\]*_$`\"'.:]{1,4}(?:[^\S\n].*)?|[ \t]*)$",
    re.MULTILINE,
)
""""A:" opens an answer to "Q:"."""


def letters_in_text(text: str, n_options: int) -> tuple[list[int], str, int, int] | None:
    """Return what a text without an answer line names by letter: options, 0 .. n_options - 1, what stands behind the last, and where the letters stand.

    A line that is a letter, alone or before its option, counts where no other line is; else "the answer is (C)".
    """
    text = marked(without_thought(text))
    found = list(STATED.finditer(text))
    if not found:
        found = list(BARE.finditer(text))
        lines = [line for line in text.split("\n") if line.strip(MARKS + ".") and "onfidence" not in line[:16]]
        if len(found) != 1 or found[0][0] not in (lines[0], lines[-1]):
            return None
    options = [ord(hit["letter"].lower()) - ord("a") for hit in found]
    if max(options) >= n_options:
        return None
    behind = text[found[-1].end("letter") :].partition("\n")[0].strip(MARKS + ".:;,-–—")
    return options, re.split(r"[.;]\s", behind)[0], found[0].start("letter"), found[-1].end("letter")
