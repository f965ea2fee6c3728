"""Read an answer without an `Answer:` line: numbers, terms and sets of names here, options in `choices`.

read_free_text(expected, question, "It goes down in thymus, not up.")  ->  correct for "down"
"""

import re
from bisect import bisect_left
from dataclasses import replace
from functools import cache, lru_cache
from itertools import zip_longest
from math import isclose

from evals.schema import CANNOT_BE_TOLD
from evals.verifiers.expected import AnswerReading, Expected, fold, normalise, pattern
from evals.verifiers.line import (
    ALTERNATIVE,
    ASIDE,
    MARKS,
    alternatives,
    contradictory_reading,
    false_abstention,
    last_letter,
    letters_of_set,
    letters_verdict,
    mark_answers,
    n_lettered,
    number_verdict,
    options_in,
    read_short,
    read_value,
    set_verdict,
    without_thought,
)
from evals.verifiers.numbers import (
    PARTS,
    SECOND,
    SHARE,
    WORD,
    WORDS,
    Number,
    Unit,
    convert,
    numbers_in,
    read_unit,
    space_units,
    unit_of,
    without_wholes,
)
from evals.verifiers.text.choices import (
    claim_at,
    letters_in_text,
    option_claims,
    options_in_question,
    read_choice,
    shown_claims,
)
from evals.verifiers.text.lexicon import (
    DOWN,
    TOKEN,
    UP,
    Lexicon,
    Mark,
    excludes,
    meaning_of,
    small_words,
    tokens,
    word_set,
    words,
)
from evals.verifiers.text.lexicon import lexicon as lexicon_of
from evals.verifiers.text.names import unknown_names, without_others
from evals.verifiers.text.sentences import (
    Sentence,
    finish,
    is_known,
    page_of,
    parts_of,
    place_of,
    read_sentences,
    sentence_of,
    takes_back,
)
from evals.wording import Plain

SHORT = 40
"""Characters of a text that is read as an answer line would be: "Lys, Arg and His", "18.02"."""
LETTER_ALONE = 4
"""So few words may stand behind a letter that no option has for the answer to be counted as one."""
EVERY = re.compile(r"\W*(?:all|any|every|each)", re.IGNORECASE)
BOLD = re.compile(r"\*\*([^*\n]{1,60})\*\*")
DIGIT = re.compile(r"\d")
JOINED = re.compile(r"[ ,]*(?:and )?")
"""Between the parts of one time: "1 h 30 min", "one hour and 30 minutes"."""
COMPARED = re.compile(r"(?<![-=<>\w/])(?:[<>]=?|≤|≥)(?=\s{0,3}[~≈$]?\s?\d)(?![^<>\n]{0,40}>)")
NUMERALS = WORDS.keys() | PARTS.keys()
APPROXIMATELY = ("or so", "more or less", "give or take")


def read_free_text(expected: Expected, question: str, text: str, is_shown: bool = True) -> AnswerReading:
    """Return the reading of free text, with its claims if `is_shown`. Time is linear in its length."""
    if expected.kind == "rubric":
        return AnswerReading("no_claim", "a free answer; a judge can grade it")
    text = without_others(expected, question, text)
    page, lexicon = page_of(text), lexicon_of(expected)
    match expected.kind:
        case "number":
            reading = _number(expected, question, page_of(_write_signs(text, expected.unit)), lexicon, text)
        case "term":
            reading = _term(expected, question, page, lexicon)
        case "set":
            reading = _set(expected, question, page, lexicon, text)
        case _:
            reading = read_choice(expected, question, page, lexicon, is_shown)
    if reading.verdict == "no_claim" and expected.kind == "choice" and (option := _in_bold(expected, text)):
        return read_short(expected, question, option, read_line)
    if reading.verdict == "no_claim" and len(text) <= SHORT and "\n" not in (short := without_thought(text).strip()):
        reading = read_short(expected, question, short, read_line)
    letters = letters_in_text(text, n_lettered(expected))
    if letters and (expected.has_letters or (reading.verdict == "no_claim" and len(letters[1].split()) < LETTER_ALONE)):
        return letters_verdict(expected, *letters)
    return reading


def _in_bold(expected: Expected, text: str) -> str | None:
    """Return the one option that a text sets in bold: "channels open and **calcium** flows in"."""
    said = [normalise(found[1]) for found in BOLD.finditer(without_thought(text))]
    options = {expected.by_wording[each] for each in said if each in expected.by_wording}
    return options.pop() if len(options) == 1 else None


def read_line(expected: Expected, question: str, value: str) -> AnswerReading:
    """Return what an answer line says: a number, else names; one that leaves something out is read as prose."""
    if expected.kind == "number":
        return read_number(expected, question, value)
    if excludes(value) and normalise(value) not in expected.by_wording:
        return read_free_text(expected, question, value, is_shown=False)
    return read_value(expected, question, value)


def read_number(expected: Expected, question: str, value: str) -> AnswerReading:
    """Return what a line says of the number that a question asks for."""
    says, truth = normalise(value), f"{expected.number:,.10g}"
    text = space_units(_write_signs(ASIDE.sub(" ", value), expected.unit), expected.unit).strip(MARKS)
    page, lexicon = page_of(text), lexicon_of(expected)
    reading = _number(expected, question, page, lexicon, text)
    if reading.verdict == "no_claim":  # "3.200.000 Basenpaare": a word that no table knows
        reading = _number(replace(expected, unit=None), question, page, lexicon, text)
    if not options_in(says, expected.by_wording)[0]:
        return reading
    shown = [f"{each.value:,.10g}" for each in numbers_in(value)]
    return (
        contradictory_reading([CANNOT_BE_TOLD, *shown])
        if shown and says not in expected.by_wording
        else false_abstention(expected, says, truth)
    )


def _write_signs(text: str, unit: str | None) -> str:
    """Return the text with a sign for "minus" and "negative" before a number, "≥" for whatever compares it, and 1 for the "a" of "a day" where a time is asked for."""
    text = MINUS.sub(lambda found: f"{'-':>{len(found[0])}}", text)
    text = COMPARED.sub(lambda found: f"{'≥':>{len(found[0])}}", text)
    asked = unit_of(unit) if unit else None
    if asked is None or asked.powers != SECOND:
        return text
    return pattern("one").sub(lambda found: f"{'1':>{len(found[0])}}", text)


def _number(expected: Expected, question: str, page: Plain, lexicon: Lexicon, original: str) -> AnswerReading:
    found: list[tuple[Sentence, Number]] = []
    abstains: tuple[int, int] | None = None
    names_other = leads = False
    concluded: list[tuple[Sentence, Number]] = []
    is_placed = lexicon.has_places(question)
    for start, stop, end in parts_of(page.text):
        text = page.text[start:stop]
        parts = tokens(text)
        if not parts or "confidence" in parts[:2]:
            continue
        has_number = DIGIT.search(text) or not NUMERALS.isdisjoint(parts)
        sentence = sentence_of(text, start, end, parts, lexicon)
        amounts, is_other = _amounts(expected, question, sentence, page, original) if has_number else ({}, False)
        names_other = names_other or is_other
        if amounts:
            marks = [
                m for m in sentence.marks if m.i not in amounts and " ".join(parts[m.i : m.j]) not in APPROXIMATELY
            ]
            marks += [Mark("option", "number", at, at + 1) for at in amounts]
            sentence.marks = sorted(marks, key=lambda mark: mark.i)
        finish(sentence, question)
        own = []
        for mark, state in sentence.said:
            if mark.value == CANNOT_BE_TOLD and state == "asserted":
                abstains = start, stop
            elif state == "asserted" and not (is_placed and place_of(sentence, mark, lexicon)[1]):
                number = amounts[mark.i]
                own.append((sentence, number._replace(start=start + number.start, end=start + number.end)))
        if not own and found and takes_back(sentence):
            last = found[-1][0]
            while found and found[-1][0] is last:
                found.pop()
        found += own
        leads = leads or not small_words("concludes").isdisjoint(parts[:3])
        if own:
            concluded, leads = own if leads else concluded, False
    found = concluded or found
    if len({f"{number.value:.9g}" for _, number in found}) > 1:
        found = _about_question(found, question, expected.unit)
    if found:
        start, end = page.origin(found[0][1].start), page.origin(found[-1][1].end - 1) + 1
        return number_verdict(expected, [number for _, number in found], start, end)
    if abstains:
        reason = f"it says that {expected.source.untold} {expected.number:,.10g}"
        return AnswerReading("incorrect", reason, CANNOT_BE_TOLD, (claim_at(page, CANNOT_BE_TOLD, abstains),))
    if names_other:
        truth = f"{expected.number:,.10g} {expected.unit}"
        return AnswerReading("incorrect", f"it names another quantity; {expected.source.say} {truth}", page.text)
    return AnswerReading("no_claim", "it names no number that answers the question")


Stated = tuple[Sentence, Number]


def _about_question(found: list[Stated], question: str, unit: str | None) -> list[Stated]:
    """Return the numbers that are said of what is asked: "water has 18 g/mol, methane 16 g/mol".

    Those of its own words, else those of none, else those of the first other thing. What stands before the last "=" of a
    sentence leads to what stands behind it.
    """
    asked = _question_words(question).union(NOUN.findall(question.casefold()))
    asked -= fold(unit or "") | fold(" ".join(word_set("amounts", "beside")))
    groups: dict[tuple[int, str], list[Stated]] = {}
    before = 0
    last: Sentence | None = None
    for place, (sentence, number) in enumerate(found, 1):
        start, end = number.start - sentence.start, number.end - sentence.start
        before = before if sentence is last else 0
        last = sentence
        behind = sentence.text[end:][:LONGEST_CLAUSE]
        if "=" in behind and place < len(found) and found[place][0] is sentence:
            continue
        lead = CLAUSE.split(sentence.text[before:start])[-1]
        tail = CLAUSE.split(OWNER.sub("", behind, count=1))[0]
        whole = CLAUSE.sub(" ", sentence.text[before:start])
        owner = next(filter(None, (_owner(each, asked, unit) for each in (lead, tail, whole))), "")
        rank = 0 if owner == OWN else 1 if not owner else 2
        groups.setdefault((rank, owner), []).append((sentence, number))
        following = found[place][1] if place < len(found) and found[place][0] is sentence else None
        if following is None or not pattern("to_end").fullmatch(sentence.text, end, following.start - sentence.start):
            before = end
    rank = min(rank for rank, _ in groups)
    return next(kept for (of, _), kept in groups.items() if of == rank) if rank else groups[0, OWN]


EITHER = re.compile(r"\b(?:either|or)\b")
MINUS = re.compile(rf"(?<!\d )\b(?:minus|negative)\s+(?=[\d.]|(?:{WORD})\b)", re.IGNORECASE)
OWN = "own"
LONGEST_CLAUSE = 1000
LONGEST_LEAD = 100
"""Characters before a number in which words say that it is a bound, or what became of it."""
CLAUSE = re.compile(r"[,;:()]|\b(?:and|while|whereas|but|so|than|though|although)\b")
OWNER = re.compile(r"^[^\w,;:]*(?:\w+/\w+|of|for|in)?")
NOUN = re.compile(r"\b[a-z]\w?-[a-z]\w*|(?<![a-z\d])[a-z]{3,}(?![a-z\d])")
"""A word, or a name such as A-T or B-DNA."""


def _owner(text: str, asked: frozenset[str], unit: str | None) -> str:
    """Return what a clause speaks of by its first noun: OWN for what is asked, another one, "" for nothing that it names."""
    beside = word_set("amounts", "beside").union(WORDS, tokens((unit or "").casefold()))
    others = {word for word in ("mouse", "mice", "murine") if fold(word).isdisjoint(asked)}
    first = next(
        (word for word in NOUN.findall(text) if word not in beside and (word in others or not is_known(word))), ""
    )
    is_own = first in asked if "-" in first else not fold(first).isdisjoint(asked)
    return OWN if is_own else first


@cache
def _phrases(key: str) -> dict[str, list[list[str]]]:
    found: dict[str, list[list[str]]] = {}
    for phrase in words("amounts")[key]:
        parts = phrase.split()
        found.setdefault(parts[0 if key == "not_before" else -1], []).append(parts)
    return found


def _amounts(
    expected: Expected, question: str, sentence: Sentence, page: Plain, original: str
) -> tuple[dict[int, Number], bool]:
    """Return the numbers of a sentence that could answer, in the unit asked for, by their place among its words.

    Also whether it has numbers of another quantity.

    Units are read in the original text: mM is no MM.
    """
    asked = unit_of(expected.unit) if expected.unit else None
    starts = [found.start() for found in TOKEN.finditer(sentence.text)]
    parts = sentence.words
    own = {"DEGs": "degs", "fold": "fold"}.get(expected.unit or "")
    unit = word_set("amounts", own) if own else tokens((expected.unit or "").casefold())
    kept: dict[int, Number] = {}
    with_unit: set[int] = set()
    is_other = False
    before_it: tuple[int, Unit, int] | None = None
    numbers = list(numbers_in(sentence.text))
    if asked is not None and asked.powers == SECOND:
        for found in pattern("clock").finditer(sentence.text):
            hours, minutes = filter(None, found.groups())
            at, size = bisect_left(starts, found.start()), 60 / asked.factor
            kept[at] = Number((60 * int(hours) + int(minutes)) * size, size, 3, False, *found.span())
            with_unit.add(at)
            numbers = [each for each in numbers if not found.start() <= each.start < found.end()]
    chosen = _of_total(numbers, sentence.text, question)
    numbers = chosen or numbers
    parts_of_wholes = without_wholes(numbers, sentence.text)
    is_part = len(parts_of_wholes) < len(numbers) and expected.unit != "DEGs"
    numbers = parts_of_wholes if is_part else numbers
    text, start, is_first = sentence.text, 0, False
    for number, following in zip_longest(numbers, numbers[1:]):
        at, after = bisect_left(starts, number.start), bisect_left(starts, number.end)
        begin, place = page.origin(sentence.start + number.start), page.origin(sentence.start + number.end - 1) + 1
        if at == after or (number.is_share and asked != SHARE):
            continue
        start, end, is_second = start if is_first else number.start, number.end, is_first  # of the number, or the range
        before = parts[max(0, bisect_left(starts, start) - 5) : bisect_left(starts, start)]
        gap = pattern("to_end").fullmatch(text, end, following.start) if following else None
        is_first = gap is not None and (not gap["both"] or "between" in before)
        if following and gap and is_first:
            end, after = following.end, bisect_left(starts, following.end)
            place = place if gap["unit"] else page.origin(sentence.start + end - 1) + 1
        lead = max(0, start - LONGEST_LEAD)
        moved = pattern("moved").search(text, lead, start)
        is_bound = pattern("bound_before").search(text, lead, start) or pattern("bound_behind").match(text, end)
        if is_bound and not pattern("bounded").search(question.casefold()):
            continue
        is_from = before[-1:] == ["from"]
        if is_from and moved and is_first:
            continue
        before = before[:-1] if (is_first or is_second if is_from else moved) else before
        behind = parts[after : after + 3]
        stated, length = (None, 0) if number.is_share else read_unit(original[place : place + 48])
        if stated is not None and asked is not None:
            value = convert(number.value, stated, asked)
            is_other = is_other or value is None
            if value is not None:
                number = number._replace(value=value, step=number.step * stated.factor / asked.factor)
                if (
                    before_it
                    and stated.factor < before_it[1].factor
                    and JOINED.fullmatch(original, before_it[2], begin)
                ):
                    number = number._replace(value=value + kept[before_it[0]].value, start=kept[before_it[0]].start)
                    at = before_it[0]
                with_unit.add(at)
                kept[at] = number
                before_it = (at, stated, place + length) if stated.powers == SECOND else None
            continue
        if _is_exact(parts, at):
            kept[at] = number
            continue
        near = before[-1] if before else ""
        if (
            any(
                before[-len(phrase) :] == phrase and fold(" ".join(phrase)).isdisjoint(_question_words(question))
                for phrase in _phrases("not_after").get(near, ())
            )
            or (
                not (own == "fold" and behind[0] in unit)
                and any(behind[: len(phrase)] == phrase for phrase in _phrases("not_before").get(behind[0], ()))
            )
            or (behind[0] == "of" and behind[1][0].isdigit() and not is_part)
            or sentence.text[max(0, number.start - 1) : number.start] in ("$", "#", "x")
            or (kept and sentence.text[number.start - 1 : number.start] == "[")  # a source: "1,234 genes [12]"
        ):
            continue
        if unit and any(word in unit or f"{word}s" in unit for word in _noun(behind)):
            with_unit.add(at)
        elif unit and not (is_part or chosen) and behind[0][0].isalpha() and behind[0] not in small_words("small"):
            continue
        kept[at] = number
    exact = {at for at in kept if _is_exact(parts, at)}
    return {at: kept[at] for at in exact or with_unit} or kept, is_other


def _of_total(numbers: list[Number], text: str, question: str) -> list[Number]:
    """Return the total that a sentence names beside its parts, or the part that is asked for; none where there is no total.

    "700 up and 534 down, 1,234 in total" is 1,234, and 700 where a question asks how many go up.
    """
    if len(numbers) < 3 or "=" in text:
        return []
    ends = [*(each.start for each in numbers[1:]), len(text)]
    labels = [_senses(CLAUSE.split(text[each.end : end])[0]) for each, end in zip(numbers, ends, strict=True)]
    places = range(len(numbers))
    runs = (
        (i, run) for n in range(8, 1, -1) for i in places for run in (places[max(0, i - n) : i], places[i + 1 :][:n])
    )
    for i, run in runs:
        is_sum = len(run) > 1 and isclose(sum(numbers[k].value for k in run), numbers[i].value)
        if is_sum and all(labels[k] for k in run):
            counted = _senses(" ".join(COUNTED.findall(question.casefold()))) - {UP, DOWN}
            asked = _senses(question.casefold())
            own = [numbers[k] for k in run if (labels[k] - counted or labels[k]) & asked]
            return own if len(own) == 1 else [numbers[i]]
    return []


def _senses(text: str) -> frozenset[str]:
    """Return the stems of the words of a text, of those for up and down one for all: "raised" is up."""
    left_out = small_words("small") | small_words("auxiliary")
    ways = {word: meaning_of(word) for word in tokens(text) if word.isalpha() and word not in left_out}
    return fold(" ".join(way if way in (UP, DOWN) else word for word, way in ways.items()))


COUNTED = re.compile(r"\b(?:how (?:many|much)|number of|count of) ((?:[\w-]+ ?){1,3})")


def _noun(behind: list[str]) -> list[str]:
    """Return the words behind a number up to its noun: "transmembrane helices", not "of the 4 helices"."""
    ends = (
        at
        for at, word in enumerate(behind)
        if not word.isalpha() or word in small_words("small") | small_words("against_noun")
    )
    return behind[: next(ends, None)]


def _is_exact(parts: list[str], at: int) -> bool:
    """Say whether a number is called the exact one, or the result: "around 4,000 (3,955 to be exact)", "leaving a net of 2"."""
    if parts[at + 1] in (".", ",", ":", ")") and not small_words("results").isdisjoint(parts[max(0, at - 3) : at]):
        return True
    said = (*parts[max(0, at - 1) : at], *parts[at + 1 : at + 5])
    return any(word in ("exactly", "precisely") for word in said) or parts[at + 1 : at + 3] == ["to", "be"]


def _term(expected: Expected, question: str, page: Plain, lexicon: Lexicon) -> AnswerReading:
    right = wrong = says_other = beside = False
    place = (0, 0)
    sentences: list[Sentence] = []
    stands = [phrase for phrase in words("amounts")["stands"] if phrase in page.text]
    little = fold("less") | fold("cause")
    for sentence in read_sentences(page.text, lexicon, question):
        text, parts = sentence.text, sentence.words
        if sentence.end == "?":
            continue
        sentences.append(sentence)
        stems: set[str] = set().union(*map(fold, parts))
        is_right = not right and any(map(stems.issuperset, expected.accept))
        explains = any(phrase in text for phrase in stands)
        takes_up = len(stems & _question_words(question)) >= 0.6 * len(_question_words(question))
        if is_right:
            kept = _without_denied(sentence)
            if any(map(kept.issuperset, expected.accept)):
                right, place = True, (sentence.start, sentence.start + len(text))
                beside = beside or _is_list(expected, question, text)
        if explains or takes_up:
            stems -= little  # every answer has them, and "less" has the stem of "lesion"
            rivals = (each for stem in stems & expected.others.keys() for each in expected.others[stem])
            wrong = wrong or (not is_right and any(map(stems.issuperset, rivals)))
            is_own = parts[0] in ("it", "this", "these") or any(mark.tag == "own" for mark in sentence.marks)
            says_other = says_other or (explains and is_own and not stems <= _question_words(question))
    is_reversed = lexicon.has_directions and _is_reversed(sentences, question, lexicon)
    shown = page.text[place[0] : place[1]].strip() if right else None
    claims = (claim_at(page, shown, place),) if shown else ()
    if right and (wrong or is_reversed or beside):
        what = "what competes with it" if wrong else "the opposite direction" if is_reversed else "others beside it"
        return AnswerReading("contradictory", f"it names what is right and {what}", shown, claims)
    if right:
        return AnswerReading("correct", f"as {expected.source.say}", shown, claims, 1.0)
    if wrong or is_reversed or says_other:
        return AnswerReading("incorrect", "it says something else")
    return AnswerReading("no_claim", "it does not say what is asked")


def _is_list(expected: Expected, question: str, text: str) -> bool:
    """Say whether a sentence is a list of short phrases of which some are not accepted."""
    pieces = [piece.split() for piece in ALTERNATIVE.split(text)]
    is_short = len(pieces) > 1 and all(len(piece) <= 4 for piece in pieces)
    return is_short and bool(alternatives(expected, question, text))


@lru_cache(maxsize=8192)
def _question_words(question: str) -> frozenset[str]:
    return frozenset().union(*map(fold, tokens(question.casefold())))


def _without_denied(sentence: Sentence) -> set[str]:
    """Return the folded words of a sentence without those that it denies."""
    kept: set[str] = set()
    is_shut = is_open = False
    tags = {mark.i: mark.tag for mark in sentence.marks}
    for at, word in enumerate(sentence.words):
        tag = tags.get(at)
        is_aside = sentence.words[at - 1] in (",", "(", "but", "and")
        if tag == "deny" and not is_aside and sentence.words[at + 1] in ("it", "so", "right", "correct", "the"):
            kept.clear()  # "the active site is not it"
        if tag == "void" or (tag == "break" and is_open):
            kept.clear()  # "the lid was ruled out", "it used to be thought the lid, but it is the hinge"
        is_open = tag == "open" or (is_open and tag != "break")
        if tag in ("deny", "reject"):
            is_shut = True
        elif tag == "break" or word in (",", ":", "("):
            is_shut = False
        if not is_shut:
            kept |= fold(word)
    return kept


def _is_reversed(sentences: list[Sentence], question: str, lexicon: Lexicon) -> bool:
    """Say whether the text names the other direction than the question: "up" under a question about a set that goes down."""
    asked = {option.partition("|")[0] for option in options_in_question(question, lexicon)} & {UP, DOWN}
    if len(asked) != 1:
        return False
    claims = [each for each in option_claims(sentences, question, lexicon) if each.option in (UP, DOWN)]
    return any((each.option in asked) == each.is_denied for each in claims)


def _set(expected: Expected, question: str, page: Plain, lexicon: Lexicon, original: str) -> AnswerReading:
    text = EITHER.sub(lambda found: f"{'&':<{len(found[0])}}", page.text)  # of a set both are meant
    claims = [each for each in option_claims(read_sentences(text, lexicon, ""), "", lexicon) if not each.is_denied]
    named = {each.option for each in claims}
    if CANNOT_BE_TOLD in named:
        if len(named) > 1:
            return contradictory_reading(sorted(named, key=lambda name: name != CANNOT_BE_TOLD))
        reason = f"it says that {expected.source.untold} {', '.join(expected.values)}"
        return AnswerReading("incorrect", reason, CANNOT_BE_TOLD, shown_claims(page, claims))
    shown = mark_answers(without_thought(original))
    if expected.has_letters and (letters := letters_of_set(shown, last_letter(expected, question))):
        return set_verdict(expected, letters, ())
    listed, loose = unknown_names(expected, question, original)
    listed = listed if named or len(listed) > 1 else set[str]()
    if not named and excludes(original) and EVERY.match(original):
        listed |= {"all others"}
    if loose and not listed and named == {*expected.values}:
        return AnswerReading("no_claim", f"it also speaks of {', '.join(sorted(loose))}, and does not say as what")
    return set_verdict(expected, sorted(named | listed), shown_claims(page, claims))
