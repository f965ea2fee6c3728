"""Read which option of a question free text asserts."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise

from evals.schema import CANNOT_BE_TOLD, Claim
from evals.verifiers.expected import AGREE, DIFFERENT, SAME, AnswerReading, Expected, claim, fold, pattern
from evals.verifiers.line import ANSWER, BEHIND_ANSWER, IS, MARKS, behind_letter, mark_answers, without_thought
from evals.verifiers.numbers import WORDS
from evals.verifiers.text.lexicon import (
    DISAGREE,
    DOWN,
    UP,
    Lexicon,
    Mark,
    marks_in,
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
    parts_of,
    place_of,
    read_sentences,
    takes_back,
)
from evals.wording import Plain

PAIRS = ((SAME, DIFFERENT), (AGREE, DISAGREE), ("yes", "no"))
COMPLEMENT = {one: other for pair in PAIRS for one, other in (pair, pair[::-1])}
AMOUNT = re.compile(r"\b\d+(?:[.,]\d+)? ?(?:mg|milligrams?|g|days?|weeks?|months?|hours?)\b")
YES_NO = frozenset(("yes", "no"))
HOLDS = fold("contains uses")
"""Verbs that name no other thing: "RNA contains ribose"."""


@dataclass(slots=True)
class OptionClaim:
    """A claim that an answer makes of an option: its words in a sentence, and the tissues it speaks of."""

    option: str
    is_denied: bool
    sentence: Sentence
    i: int
    j: int
    places: tuple[str, ...] = ()


def read_choice(expected: Expected, question: str, page: Plain, lexicon: Lexicon, is_shown: bool) -> AnswerReading:
    """Return the verdict on free text for a question with options, with its claims if `is_shown`.

    "It goes up, so it does not go down" asserts one option; "contradictory" is a text that asserts the right option and another.
    """
    claims = option_claims(read_sentences(page.text, lexicon, question), question, lexicon)
    asserted = list(dict.fromkeys(each.option for each in claims if not each.is_denied))
    if expected.right == DISAGREE:
        asserted = _of_missions(asserted, claims)
    elif SAME in expected.options:
        asserted = _of_tissues(asserted, claims)
    shown = shown_claims(page, claims) if is_shown else ()
    right = expected.right
    if right == CANNOT_BE_TOLD and asserted == [right] and pattern("still").search(page.text):
        return AnswerReading("contradictory", "it says that none can be told, and answers", right, shown)
    if asserted == [right]:
        return AnswerReading("correct", f"it says {right}, {expected.source.agrees}", right, shown, 1.0)
    if not asserted:
        if right == CANNOT_BE_TOLD and (pattern("still").search(page.text) or _is_definite(question, page.text)):
            return AnswerReading("incorrect", f"it answers what {expected.source.beyond}", None, shown)
        denied = [each.option for each in claims if each.is_denied]
        what = f"it only denies {denied[0]}" if denied else "it names no option of the question"
        return AnswerReading("no_claim", what, None, shown)
    says, both = " / ".join(asserted), " and ".join(asserted)
    if right in asserted:
        return AnswerReading("contradictory", f"it says {both}", says, shown)
    return AnswerReading("incorrect", f"it says {both}; {expected.source.say} {right}", says, shown)


def claim_at(page: Plain, says: str, place: tuple[int, int], is_denied: bool = False) -> Claim:
    """Return a claim at a place in the plain text."""
    return claim("answer", says, page.origin(place[0]), page.origin(place[1] - 1) + 1, is_denied)


def shown_claims(page: Plain, claims: list[OptionClaim]) -> tuple[Claim, ...]:
    places = [each.sentence.span(each.i, each.j) for each in claims[:12]]
    return tuple(claim_at(page, each.option, at, each.is_denied) for each, at in zip(claims, places, strict=False))


def option_claims(sentences: Iterable[Sentence], question: str, lexicon: Lexicon) -> list[OptionClaim]:
    """Return what sentences claim of the options, in order; what is taken back later is left out."""
    found: list[OptionClaim] = []
    topic = True
    after_question = False
    restated: list[OptionClaim] = []
    has_said = is_doubted = False
    for sentence in sentences:
        is_doubted = is_doubted or not small_words("doubts").isdisjoint(sentence.words)
        own = _sentence_claims(sentence, lexicon, topic, question) if sentence.said else []
        reply = None if after_question else _reply(sentence, question, lexicon, is_first=not has_said)
        has_said = has_said or sentence.end != "?"
        own = [each for each in own if not (reply and _is_of_question(each, question))]
        if reply is not None and not (own and reply[1]):
            own.insert(0, OptionClaim(*reply, sentence, 0, 1))
        elif found and not (sentence.said or after_question or sentence.end == "?") and takes_back(sentence):
            last = found[-1].sentence
            while found and found[-1].sentence is last:
                found.pop()
        found += own
        if lexicon.yes_no and (word := _restatement(sentence, question)):
            restated.append(OptionClaim(lexicon.yes_no.get(word, word), False, sentence, 0, 1))
        tags = [mark.tag for mark in sentence.marks]
        after_question = sentence.end == "?" and ("option" in tags or "fine" in tags)
        topic = next((tag == "own" for tag in tags if tag in ("own", "other")), topic)
    says = {each.option for each in restated}
    is_clear = len(says) == 1 and not (is_doubted and lexicon.yes_no["yes"] in says)
    return found or (restated if is_clear else [])


def _is_of_question(claim: OptionClaim, question: str) -> bool:
    """Say whether "cannot determine" only takes up a question such as "can it be determined by …"."""
    said = _content(claim.sentence.words[claim.i : claim.j]) - {"cannot"}
    return claim.option == CANNOT_BE_TOLD and bool(said) and said <= _question_stems(question)[0]


def _restatement(sentence: Sentence, question: str) -> str | None:
    """Return "yes" for a sentence that says what a yes-or-no question asks, "no" for one that denies it, None for others."""
    asked = _asked_words(question)
    order, wants = _topic(question)
    is_short = len(order) + bool(wants) < 2
    if sentence.end == "?" or is_short or small_words("auxiliary").isdisjoint(asked[:1]) or _degree(asked, question):
        return None
    for read in (_by_evidence, _by_judgement, _by_words):
        if said := read(sentence, question):
            return said if said in YES_NO else None
    return None


@lru_cache(maxsize=8192)
def _topic(question: str) -> tuple[tuple[str, ...], int]:
    """Return the stems of what a question asks about, in order, and whether it asks for good (1), for harm (-1) or for neither.

    Of "the p53 protein" the name alone counts, of "does zinc help against colds" zinc and colds.
    """
    words = [word for word in _asked_words(question) if word not in small_words("light")]
    named = [
        word for before, word in pairwise(("", *words)) if word not in small_words("sorts") or is_known(before or "a")
    ]
    good, harm = _stems("asks_good"), _stems("asks_harm")
    stems = _content(named, str.isalnum)
    wants = 1 if stems & good else -1 if stems & harm else 0
    return tuple(dict.fromkeys(stem for word in words for stem in fold(word) if stem in stems - good - harm)), wants


@cache
def _stems(key: str) -> frozenset[str]:
    return fold(" ".join(small_words(key)))


def _degree(parts: Iterable[str], question: str) -> int:
    """Return what `_sign` says; "lower" is a verb in "can it lower …", "most" a number in "are most enzymes …"."""
    asked = _asked_words(question)
    is_verb = asked[0] in ("can", "could", "do", "does", "did", "will")
    plain = {"lower"} if is_verb else set[str]()
    return _sign([word for word in parts if word not in plain | {*asked[1:2]}])


def _takes_up(said: set[str], parts: list[str], question: str, needs_verb: bool) -> bool:
    """Say whether words are of what a question asks about, and of the good or harm that it asks for, or not of the other."""
    order, wants = _topic(question)
    same, against = (_stems("asks_good"), _stems("asks_harm"))[:: wants or 1]
    is_meant = not wants or bool(said & same) or not (needs_verb or said & against)
    amounts = [word for word in _asked_words(question) if word[0].isdigit() or word in WORDS]
    needed = len(order) if needs_verb and len(order) < 4 else max(min(2, len(order)), 0.6 * len(order))
    return is_meant and {*amounts} <= {*parts} and len(said & {*order}) >= needed


def _by_evidence(sentence: Sentence, question: str) -> str | None:
    """Return what evidence says: "there is no evidence that X", "trials have not shown X"; "open" where there is not enough."""
    parts, missing = sentence.words, small_words("missing")
    places = [k for k, word in enumerate(parts) if word in small_words("evidence")]
    at = next((k for k in places if not missing.isdisjoint(parts[max(0, k - 5) : k])), places[0] if places else 0)
    near = parts[max(0, at - 5) : at]
    is_missing = not missing.isdisjoint(near)
    if (at and not small_words("enough").isdisjoint(near)) or (is_missing and parts[at] == "answer"):
        return "open"  # "not enough evidence", "no definitive answer"
    if not {"other", "others"}.isdisjoint(parts[:at]):
        return "open"  # "others have found no effect"
    if not is_missing and not small_words("is_evidence").issuperset(parts[max(0, at - 2) : at] or "-"):
        return None
    end = next((k for k in range(at, len(parts)) if parts[k] in small_words("ends_evidence")), len(parts))
    said, order = _content(parts[at + 1 : end], str.isalnum), _topic(question)[0]
    n_denied = is_missing + sum(at < mark.i < end for mark in _denials(sentence))
    is_asked = not said.isdisjoint(order) and _takes_up(
        _content(parts[:end], str.isalnum), parts, question, needs_verb=False
    )
    points_back = is_missing and sentence.start > 0 and said <= _stems("supports")
    if points_back or (is_asked and len(said) <= 2 * len(order) + 4 and n_denied < 2):
        return "no" if n_denied else "yes"
    return None


def _by_judgement(sentence: Sentence, question: str) -> str | None:
    """Return what a sentence says by what it calls the thing that is asked about: "X is contraindicated", "is not supported by research".

    Words such as effective and harmful answer only where the question asks for good or harm.
    """
    parts, (order, wants) = sentence.words, _topic(question)
    wants = wants or int(_asked_words(question)[0] in ("can", "should"))
    values = dict.fromkeys(small_words("good"), wants) | dict.fromkeys(small_words("harmful"), -wants)
    values |= dict.fromkeys(small_words("supported"), 1)
    said: set[bool] = set()
    for at, word in enumerate(parts):
        be = next((k for k in range(at - 1, 0, -1) if parts[k] in small_words("calls")), 0)
        between = [each for each in parts[be + 1 : at] if each not in values and not is_known(each)]
        is_aside = parts[be - 1] in ("which", "that") or not {"of", "some"}.isdisjoint(parts[:at])
        if be and values.get(word) and not between and not is_aside and not _content(parts[:be]).isdisjoint(order):
            is_denied = any(be - 2 < mark.i < at for mark in _denials(sentence))
            tags = {mark.tag for mark in sentence.marks if mark.i < at and parts[mark.i] not in ("can", "should")}
            said.add((values[word] > 0) != is_denied)
            is_conditional = word in small_words("good") and not {"if", "when", "but", "only"}.isdisjoint(parts)
            if is_conditional or not tags.isdisjoint(("open", "suppose")):
                return None
    return None if len(said) != 1 else "yes" if said == {True} else "no"


def _by_words(sentence: Sentence, question: str) -> str | None:
    """Return what a sentence, or a clause of it, says that holds the question's words, perhaps but for some, and not many others."""
    parts = sentence.words
    ends = [0, *(k for k, word in enumerate(parts) if word in CLAUSE_ENDS), len(parts)]
    doubt = next((mark.i for mark in sentence.marks if mark.tag in ("open", "suppose", "reject")), len(parts))
    but = parts.index("but") if "but" in parts else 0
    is_aside = _content(parts[:but], str.isalnum).isdisjoint(_topic(question)[0])  # "I am no physician, but …"
    clauses = [(but if is_aside else 0, len(parts)), *(each for each in pairwise(ends) if each[0] <= doubt)]
    return next(filter(None, (_by_clause(sentence, question, *each) for each in clauses)), None)


CLAUSE_ENDS = frozenset((",", "(", ")", "but"))


def _by_clause(sentence: Sentence, question: str, first: int, last: int) -> str | None:
    """Return what the words `first` to `last` of a sentence say. Where degrees are compared, the same words may say the opposite."""
    asked, order, parts = _asked_words(question), _topic(question)[0], sentence.words[first:last]
    opposite = {one for prefix in ("ir", "in", "un", "im", "non") for one in asked if f"{prefix}{one}" in parts}
    said = _content(parts, str.isalnum).union(*map(fold, opposite))
    kept = {*asked, *small_words("avoids"), *(small_words("possible") if asked[0] == "can" else ())}
    marks = [m for m in sentence.marks if first <= m.i < last and (m.tag == "void" or sentence.words[m.i] not in kept)]
    tags = {mark.tag for mark in marks if sentence.words[mark.j - 1 :][:2] != ["should", "not"]}
    n_denied = len({*marks}.intersection(_denials(sentence)))
    n_denied += bool(opposite) + ("void" in tags) + (not small_words("avoids").isdisjoint(parts))
    is_mild = "void" in tags or {"open", "suppose", "reject", "undo"}.isdisjoint(tags)
    is_whole = n_denied or "only" not in parts or "only" in asked
    is_short = len(said) <= 2 * len(order) + 4 and not _degree(sentence.words, question)
    if not (
        is_mild and is_whole and is_short and n_denied < 2 and _takes_up(said, parts, question, "void" not in tags)
    ):
        return None
    return "no" if n_denied else "yes"


def _denials(sentence: Sentence) -> list[Mark]:
    """Return what denies in a sentence; "compared to no screening" only says against what."""
    than = small_words("than") - {"to"}
    parts = sentence.words
    return [
        m
        for m in sentence.marks
        if m.tag == "deny" and parts[m.i] != "contrary" and than.isdisjoint(sentence.words[max(0, m.i - 3) : m.i])
    ]


def _sentence_claims(sentence: Sentence, lexicon: Lexicon, topic: bool, question: str) -> list[OptionClaim]:
    """Return what one sentence claims about the question's subject."""
    said = [each for each in sentence.said if each.state != "open"]
    familiar = frozenset() if lexicon.has_subject else frozenset(_asked_words(question))
    dropped = _idle_directions(sentence) if lexicon.has_directions else frozenset()
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
        is_denied = each.state == "denied" or (
            option in lexicon.named and _is_denied_behind(sentence, mark, question, lexicon)
        )
        found.append(OptionClaim(option, is_denied, sentence, mark.i, mark.j, places))
    return found


def _is_denied_behind(sentence: Sentence, mark: Mark, question: str, lexicon: Lexicon) -> bool:
    """Say whether what is asked is denied of a name before it: "the liver does not make bile", "metformin is not the answer"."""
    parts = sentence.words
    at = mark.j + (parts[mark.j] in small_words("auxiliary"))
    deny = next((each for each in sentence.marks if each.tag == "deny" and each.i == at), None)
    asked = _asked_words(question)
    if deny is None or (not parts[at].isalpha() and "'" not in parts[at]):
        return False
    if any(each.tag == "deny" for each in marks_in([*asked], lexicon.table)):
        return False
    _, end = sentence.clause(deny.j, deny.j)
    content = _content(parts[deny.j : end])
    return parts[end : end + 1] != ["but"] and (not content or not content.isdisjoint(_question_stems(question)[0]))


def _first_of_all(sentence: Sentence, said: list[Said], question: str) -> list[Said]:
    """Return the name that a sentence says no other has as much as: the heart in "the liver has not as many as the heart"."""
    parts = sentence.words
    most = [each for each in said if _is_measure(parts, each.mark.i)]
    if (
        not most
        or _question_stems(question)[1] < 0
        or all(mark.tag != "deny" or mark.i > most[0].mark.i for mark in sentence.marks)
    ):
        return []
    return [Said(most[0].mark, "asserted")]


def _idle_directions(sentence: Sentence) -> frozenset[int]:
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
    stems, asked = _question_stems(question)
    marks = [each.mark for each in sentence.said if each.mark.value in lexicon.named]
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
def _question_stems(question: str) -> tuple[frozenset[str], int]:
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
    stems, asked = _question_stems(question)
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
        is_denied = any(m.i > at and parts[m.i] not in _asked_words(question) for m in _denials(sentence))
        is_turned = asked and _sign(rest) == (asked if is_denied else -asked)
        if word == "yes" and (is_turned or "if" in rest[:2]):
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
    """Say whether the yes or no at a place is a reply: "the answer is no, since …", "…, so yes.", "in short, no, it …"."""
    is_last = k == len(parts) - 2 and parts[k - 1] in (",", "so", "is", ":")
    is_apart = parts[k - 1] == parts[k + 1] == ","
    return is_last or is_apart or (parts[k - 1] in ("is", ":") and "answer" in parts[max(0, k - 4) : k])


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
    options = [option for option in options_in_question(question, lexicon) if "|" not in option]
    return options[0] if len(options) == 1 else None


@lru_cache(maxsize=8192)
def options_in_question(question: str, lexicon: Lexicon) -> frozenset[str]:
    """Return the options that a question itself names."""
    return frozenset(
        mark.value for mark in marks_in(list(_asked_words(question)), lexicon.table) if mark.tag == "option"
    )


def _of_missions(asserted: list[str], claims: list[OptionClaim]) -> list[str]:
    """Return what is said of the missions: up in one and down in another is that they disagree."""
    ways = [option for option in (UP, DOWN) if option in asserted]
    rest = [option for option in asserted if option not in ways]
    if DISAGREE in rest:
        return rest
    if len(ways) < 2:
        return ways or rest
    held = [each.sentence for each in claims if each.option in ways]
    names_missions = any(not small_words("missions").isdisjoint(each.words) for each in held)
    is_told_apart = names_missions or held[0] is held[-1]
    return [*rest, DISAGREE] if is_told_apart else [*asserted, DISAGREE]


def _of_tissues(asserted: list[str], claims: list[OptionClaim]) -> list[str]:
    """Return what is said of the tissues: up in both is the same direction."""
    ways: dict[str, set[str]] = {}
    for each in claims:
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
    if len(said) == 1 and len(said[0][0]) <= 6 and AMOUNT.search(text, *said[0][1:]):
        return True
    few = said[0][0] if len(said) == 1 and len(said[0][0]) <= 3 else []
    return not (fold(" ".join(few)) <= fold(question) or any(map(is_known, few)) or YES_NO.intersection(few))


# ---- options named by letter ---------------------------------------------------------------------


STATED = re.compile(
    r"(?:\b(?i:it(?: is|['’]s)(?: option| choice)?)|\b(?i:answer|option|choice)(?i: is| would be| should be|:)+(?!\s*\n\s*[-*•]\s)(?i: option| choice| letter)?"
    rf"|(?i:{ANSWER})(?i: (?:{BEHIND_ANSWER}))?(?i: ?(?:{IS})|：|:)+"
    r"|\b(?i:choose|select|pick|go with)(?i: option| answer| choice)?|\b(?i:option|choice)(?=[ (*]{1,3}[A-Z][)*]{0,3} is\b(?! (?i:not|wrong|incorrect|out|excluded|eliminated|ruled|false)\b)))"
    r"[\s:*_(\[{$\"'`\\]{0,8}(?P<letter>[B-HJ-Z]|[AI](?=[)*.,:;。，、\]}$\"'`]|\s*$|\s*\n)|A(?:(?<=(?i:option|choice) A)|(?<=(?i: is| be) A))(?= ))(?![\w'’+-])"
    r"|\b(?i:so|thus|therefore|hence|leaves|leaving),? [(*_]{0,3}(?P<so>[A-J])[)*_]{0,3}(?=[.!]?\s*$)"
    r"|(?:^|(?<=[.!?] ))[(*_]{0,3}(?P<alone>[A-J])[)*_]{0,3}(?= is (?:the )?(?:most |only )?(?:correct|right|best)\b)",
    re.MULTILINE,
)
BARE = re.compile(
    r"^[ \t#]*(?:(?i:option|answer|choice)[: ]+)?[(\[*_$`\"']{0,4}(?P<letter>[A-Za-z])(?!(?<=A):)"
    r"(?:[)\]*_$`\"'.:;]{1,4}(?:[^\S\n](?:.{0,60}|(?<=[A-Z].{2}).*|(?<=[A-Z].{3}).*))?|[ \t]*)$",
    re.MULTILINE,
)
""""A:" opens an answer to "Q:"; "(a)" before a long text a derivation."""


def letters_in_text(text: str, n_options: int) -> tuple[list[int], str, int, int] | None:
    """Return what a text without an answer line names by letter: options, 0 .. n_options - 1, what stands behind the last, and where the letters stand.

    A line that is a letter, alone or before its option, counts where no other line is; else "the answer is (C)".
    """
    text = mark_answers(without_thought(text))
    found = [hit for hit in STATED.finditer(text) if not pattern("is_wrong").match(text, hit.end(hit.lastgroup or 0))]
    if not found:
        found = [hit for hit in BARE.finditer(text) if not pattern("is_wrong").match(text, hit.end("letter"))]
        lines = [line for line in text.split("\n") if line.strip(MARKS + ".") and "onfidence" not in line[:16]]
        if len(found) != 1 or found[0][0] not in (lines[0], lines[-1]):
            return None
    options = [ord(hit[hit.lastgroup or 0].lower()) - ord("a") for hit in found]
    if max(options) >= n_options:
        return None
    start, end = found[0].start(found[0].lastgroup or 0), found[-1].end(found[-1].lastgroup or 0)
    return options, behind_letter(text[end:].partition("\n")[0]), start, end
