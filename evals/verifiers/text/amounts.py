"""Read numbers, phrases and names in free text, for questions without options."""

import re
from functools import cache, lru_cache

from evals.plain import Plain
from evals.schema import CANNOT_BE_TOLD, Claim
from evals.verifiers.expected import Expected, Finding, fold
from evals.verifiers.line import number_verdict
from evals.verifiers.numbers import Number, numbers_in
from evals.verifiers.text.choices import claims
from evals.verifiers.text.lexicon import DOWN, TOKEN, UP, Lexicon, Mark, tokens, words
from evals.verifiers.text.sentences import Sentence, finish, marks_in, parts_of, takes_back
from evals.verifiers.text.subjects import place_of

HAS_NUMBER = re.compile(r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|none|zero|no)\b")


def read_number(expected: Expected, question: str, page: Plain, lexicon: Lexicon) -> Finding:
    """Return the verdict on the numbers that free text states in answer to a question."""
    found: list[tuple[int, Number, bool]] = []
    abstains: tuple[int, int] | None = None
    last = -1
    asked = question.casefold()
    is_placed = any(tissue in asked for tissue in lexicon.tissues)
    for number, (start, stop, end) in enumerate(parts_of(page.text)):
        text = page.text[start:stop]
        parts = tokens(text)
        if not parts or "confidence" in parts[:2]:
            continue
        parts.append("?" if end == "?" else ".")
        sentence = Sentence(text, start, end, parts, marks_in(parts, lexicon.table))
        amounts = _amounts(expected, sentence) if HAS_NUMBER.search(text) else {}
        if amounts:
            sentence.marks = sorted([m for m in sentence.marks if m.i not in amounts] + [Mark("option", "number", i, i + 1) for i in amounts], key=_place)
        finish(sentence, asked)
        own = []
        for each in sentence.said:
            if each.mark.value != "number":
                if each.mark.value == CANNOT_BE_TOLD and each.state == "asserted":
                    abstains = start, stop
                continue
            if each.state == "asserted" and not (is_placed and place_of(sentence, each.mark, lexicon).elsewhere):
                amount, is_result = amounts[each.mark.i]
                own.append((number, _moved(amount, start), is_result))
        if own:
            results = [each for each in own if each[2]]
            found += results[-1:] or own
            last = number
        elif found and last >= 0 and takes_back(sentence):
            found = [each for each in found if each[0] != last]
    if not found:
        if abstains:
            claim = Claim.model_construct(subject="answer", says=CANNOT_BE_TOLD, start=page.origin(abstains[0]), end=page.origin(abstains[1] - 1) + 1, about="answer", is_denied=False)
            return Finding("incorrect", f"it says that the data cannot tell; they say {expected.number:,.10g}", CANNOT_BE_TOLD, (claim,))
        return Finding("no_claim", "it names no number that answers the question")
    place = page.origin(found[0][1].start), page.origin(found[-1][1].end - 1) + 1
    return number_verdict(expected, [each[1] for each in found], place)


def _place(mark: Mark) -> int:
    return mark.i


def _moved(number: Number, by: int) -> Number:
    return number._replace(start=number.start + by, end=number.end + by)


@cache
def _phrases(key: str) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(str(phrase).split()) for phrase in words("amounts")[key])  # type: ignore[attr-defined]


def _amounts(expected: Expected, sentence: Sentence) -> dict[int, tuple[Number, bool]]:
    """Return the numbers of a sentence that could answer, by their place among its words, and whether each is a result."""
    places = {found.start(): at for at, found in enumerate(TOKEN.finditer(sentence.text))}
    parts = sentence.words
    unit = _units(expected.unit)
    kept: dict[int, tuple[Number, bool]] = {}
    with_unit: set[int] = set()
    for number in numbers_in(sentence.text):
        at = places.get(number.start, places.get(number.start + 1))
        if at is None or (number.is_share and expected.unit not in ("%", "percent")):
            continue
        after = at
        while after < len(parts) and after in places.values() and _start_of(places, after) < number.end:
            after += 1
        before = parts[max(0, at - 4) : at]
        behind = parts[after : after + 3]
        if any(before[-len(phrase) :] == list(phrase) for phrase in _phrases("not_after")):
            continue
        if any(behind[: len(phrase)] == list(phrase) for phrase in _phrases("not_before")):
            continue
        if sentence.text[max(0, number.start - 1) : number.start] in ("$", "#", "x"):
            continue
        following = behind[0] if behind else ""
        if unit and following in unit:
            with_unit.add(at)
        elif unit and following[0].isalpha() and not _is_small(following):
            continue
        is_result = any(list(phrase) == before[-len(phrase) - shift : len(before) - shift] for phrase in _phrases("result") for shift in (0, 1))
        kept[at] = (number, is_result)
    if with_unit:
        kept = {at: each for at, each in kept.items() if at in with_unit or each[1]}
    return kept


def _start_of(places: dict[int, int], at: int) -> int:
    return next(start for start, place in places.items() if place == at)


def _is_small(word: str) -> bool:
    return word in SMALL


SMALL = frozenset("in at for under with during after by and is are was when on as not but so then which that the this it because if".split())


@cache
def _units(unit: str | None) -> frozenset[str]:
    if unit == "DEGs":
        return frozenset(str(words("amounts")["degs"]).split())
    return frozenset(tokens(unit.casefold())) if unit else frozenset()


# ---- a phrase ---------------------------------------------------------------------------------


@lru_cache(maxsize=65536)
def _folded(word: str) -> frozenset[str]:
    return fold(word)


LITTLE = fold("less") | fold("cause")
"""Stems of words that every answer has: "less" has that of "lesion"."""
_INDEX: dict[int, tuple[Expected, dict[str, list[frozenset[str]]]]] = {}


def _others(expected: Expected) -> dict[str, list[frozenset[str]]]:
    """Return competing phrases by their longest word, so that a text is compared with few of them."""
    found = _INDEX.get(id(expected))
    if found is None or found[0] is not expected:
        index: dict[str, list[frozenset[str]]] = {}
        for phrase in expected.others:
            if phrase:
                index.setdefault(max(phrase, key=len), []).append(phrase)
        if len(_INDEX) > 8192:
            _INDEX.clear()
        found = _INDEX[id(expected)] = (expected, index)
    return found[1]


def read_term(expected: Expected, question: str, page: Plain, lexicon: Lexicon) -> Finding:
    """Return the verdict on free text that should say what something stands for."""
    right = wrong = says_other = False
    place = (0, 0)
    others = _others(expected)
    asked = set().union(*(_folded(word) for word in tokens(question.casefold()) if word[0].isalnum())) if question else set()
    for start, stop, end in parts_of(page.text):
        text = page.text[start:stop]
        parts = tokens(text)
        if not parts or "confidence" in parts[:2] or end == "?":
            continue
        stems: set[str] = set()
        for word in parts:
            stems |= _folded(word)
        rivals = stems - LITTLE
        if any(each <= stems for each in expected.accept):
            kept = _undenied(parts, lexicon)
            if any(each <= kept for each in expected.accept):
                right, place = True, (start, stop)
        explains = any(phrase in text for phrase in words("amounts")["stands"])  # type: ignore[attr-defined]
        if explains:
            for stem in rivals & others.keys():
                wrong = wrong or any(each <= rivals for each in others[stem])
            is_own = any(mark.tag == "own" for mark in marks_in(parts, lexicon.table)) or parts[0] in ("it", "this", "these")
            says_other = says_other or (is_own and bool(stems - asked))
    reversed_ = _is_reversed(expected, question, page, lexicon)
    shown = page.text[place[0] : place[1]].strip() if right else None
    claim = (Claim.model_construct(subject="answer", says=shown, start=page.origin(place[0]), end=page.origin(place[1] - 1) + 1, about="answer", is_denied=False),) if right else ()
    if right and (wrong or reversed_):
        what = "what competes with it" if wrong else "the opposite direction"
        return Finding("contradictory", f"it names what is right and {what}", shown, claim)
    if right:
        return Finding("correct", "as the data say", shown, claim, 1.0)
    if wrong or reversed_ or says_other:
        return Finding("incorrect", "it says something else")
    return Finding("no_claim", "it does not say what is asked")


def _undenied(parts: list[str], lexicon: Lexicon) -> set[str]:
    """Return the folded words of a sentence without those that it denies or leaves open."""
    kept: set[str] = set()
    is_shut = False
    marks = {mark.i: mark for mark in marks_in(parts, lexicon.table)}
    for at, word in enumerate(parts):
        mark = marks.get(at)
        if mark is not None and mark.tag in ("deny", "reject"):
            is_shut = True
        elif (mark is not None and mark.tag == "break") or word in (",", ":", "("):
            is_shut = False
        if not is_shut:
            kept |= _folded(word)
    return kept


def _is_reversed(expected: Expected, question: str, page: Plain, lexicon: Lexicon) -> bool:
    """Say whether the text gives the gene set the opposite of the direction that the question names."""
    if not lexicon.has_directions:
        return False
    asked = {mark.value.partition("|")[0] for mark in marks_in(tokens(question.casefold()), lexicon.table) if mark.tag == "option"} & {UP, DOWN}
    if len(asked) != 1:
        return False
    heard = [each for each in claims(expected, question, page.text, lexicon) if each.option in (UP, DOWN)]
    return any((each.option in asked) == each.is_denied for each in heard)


# ---- names ------------------------------------------------------------------------------------


def read_set(expected: Expected, page: Plain, lexicon: Lexicon) -> Finding:
    """Return the verdict on the names that free text asserts."""
    heard = [each for each in claims(expected, "", page.text, lexicon) if not each.is_denied]
    named = {each.option for each in heard}
    if not named:
        return Finding("no_claim", "it names nothing")
    shown = ", ".join(sorted(named))
    made = tuple(
        Claim.model_construct(subject="answer", says=each.option, start=page.origin(each.start), end=page.origin(each.end - 1) + 1, about="answer", is_denied=False)
        for each in heard
    )
    if named == set(expected.values):
        return Finding("correct", "the same names as the data", shown, made, 1.0)
    f1 = 2 * len(named & set(expected.values)) / (len(named) + len(expected.values))
    return Finding("incorrect", f"F1 {f1:.2f} against the data's {', '.join(expected.values)}", shown, made, f1 / 2)
