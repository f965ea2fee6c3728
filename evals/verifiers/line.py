r"""Read the last lines of an answer: `Answer: …` and `Confidence: N%`.

    "It falls in two missions.\n**Answer:** Down.\nConfidence: 80%"   ->  answer "Down", confidence 0.8
    "<think>Answer: up</think>\nAnswer: down"                         ->  answer "down"
    "> Answer: up\nIt cannot be told."                                ->  no answer line

Thought blocks and quoted lines are left out first. The last answer line counts, unless an earlier one says
something else. Behind the colon the question's own options, number or term are looked for; nothing else in the
answer is read.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from evals.schema import CANNOT_BE_TOLD, Claim, StatedConfidence
from evals.verifiers.expected import Expected, Finding, fold, normalised
from evals.verifiers.numbers import Number, numbers_in

LINE = re.compile(
    r"^[^A-Za-z0-9\n>]{0,12}(?:\d{1,2}[.)] *)?[*_]{0,3}(?:(?:my |the |your )?final )?(answer|confidence)(?: line| level)?[^\w\n]{0,4}?[:=：][ \t]*(.*)$",
    re.IGNORECASE | re.MULTILINE,
)
THOUGHT = re.compile(
    r"<(/?)(?:think|thinking|thought|thoughts|reasoning|reflection|scratchpad|\|begin_of_thought\|)>"
    r"|<\|(end)_of_thought\|>|◁(/?)think▷|\[(/?)THINK\]",
    re.IGNORECASE,
)
COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
BOXED = re.compile(r"\\boxed\{([^{}]*)\}")
ASIDE = re.compile(r"\([^()]*\)")
QUOTED = re.compile(r"^[ \t]{0,3}>.*$", re.MULTILINE)
MARKS = " \t*_`~\"'“”‘’|#$\\{}()[]<>"
PERCENT = re.compile(
    r"(?:about |around |~|≈)?(-?\d{1,4}(?:[.,]\d+)?)\s*(%|percent\b|per cent\b|/\s*100\b)?"
)
TEMPLATE = frozenset(
    ("", "…", "...", "n%", "answer", "your answer", "option", "<answer>", "the answer")
)
MISSING = StatedConfidence(value=None, status="missing")


class Lines(NamedTuple):
    """What the last lines hold. `answer` None = there is no answer line; `start` and `end` are its place.

    `also` is what an earlier answer line says otherwise. `explanation` is what stands before the first line.
    """

    answer: str | None
    also: str | None
    start: int
    end: int
    confidence: StatedConfidence
    explanation: str


def read_lines(text: str) -> Lines:
    """Return the answer line, the confidence line and the explanation of an answer. Time is linear in its length."""
    text = without_thought(text)
    if ">" in text:
        text = QUOTED.sub(_blank, COMMENT.sub(_blank, text))
    if "\\boxed" in text:
        text = BOXED.sub(r"\1", text)
    answer = also = None
    start = end = 0
    first = len(text)
    confidence = MISSING
    for line in LINE.finditer(text):
        value = line[2].strip()
        first = min(first, line.start())
        if line[1][0] in "aA":
            if answer is not None and answer.casefold() != value.casefold():
                also = answer
            answer, start, end = value, line.start(2), line.start(2) + len(value)
        else:
            confidence = _confidence(value, confidence)
    return Lines(answer, also, start, end, confidence, text[:first].strip())


def without_thought(text: str) -> str:
    """Return the text with everything up to the last closing thought mark blanked, and what an open one starts.

    Places stay where they were, so offsets are those of the text that came in.
    """
    if not any(mark in text for mark in ("<", "◁", "[")):
        return text
    closed, opened = 0, None
    for mark in THOUGHT.finditer(text):
        if "/" in mark[0] or mark[2]:
            closed, opened = mark.end(), None
        elif opened is None:
            opened = mark.start()
    kept = text[closed : len(text) if opened is None else opened]
    return " " * (closed - 1) + "\n" + kept if closed else kept


def read_answer_line(expected: Expected, question: str, lines: Lines) -> Finding:
    """Return what the answer line says of the question; no_claim where it says nothing that can be checked."""
    value = lines.answer or ""
    says = normalised(value)
    place = (lines.start, lines.end)
    if says in TEMPLATE or value.strip(MARKS + ".…") == "":
        return Finding("no_claim", "the answer line is empty")
    if len(value) >= len(question) - 2 > 20 and normalised(question).strip(" ?") in says:
        return Finding("no_claim", "it repeats the question")
    found = _stated(expected, question, value, says, place)
    if lines.also is not None:
        other = _stated(expected, question, lines.also, normalised(lines.also), place)
        is_same = other.verdict == found.verdict and (
            found.verdict == "correct" or other.answer == found.answer
        )
        if not is_same and "no_claim" not in (other.verdict, found.verdict):
            reason = f"two answer lines: {lines.also!r} and {value!r}"
            return Finding("contradictory", reason, found.answer, found.claims)
        return other if found.verdict == "no_claim" else found
    return found


def _stated(
    expected: Expected, question: str, value: str, says: str, place: tuple[int, int]
) -> Finding:
    match expected.kind:
        case "choice":
            return _choice(expected, question, says, place)
        case "number":
            return _number(expected, value, says, place)
        case "term":
            return _term(expected, question, value, says, place)
        case "set":
            return _set(expected, value, place)
        case _:
            return Finding("no_claim", "a free answer; a judge can grade it", value)


# ---- a choice ---------------------------------------------------------------------------------


def _choice(expected: Expected, question: str, says: str, place: tuple[int, int]) -> Finding:
    option = expected.by_wording.get(says)
    if option is not None:
        return _verdict(expected, option, place)
    asserted, denied = options_in(says, expected.by_wording)
    if expected.right == CANNOT_BE_TOLD and not expected.offered:
        return _abstention(expected, question, says, asserted, place)
    if len(asserted) == 1:
        return _verdict(expected, asserted[0], place)
    if not asserted:
        what = (
            f"it only denies {', '.join(denied)}"
            if denied
            else "it names no option of the question"
        )
        return Finding("no_claim", what)
    listed = expected.offered or expected.options
    if {option for option in listed if option != CANNOT_BE_TOLD} <= set(asserted):
        return Finding("no_claim", "it repeats the options of the question")
    if not expected.offered and expected.right not in asserted:
        return _verdict(expected, asserted[0], place)
    return _torn(asserted, place)


def _abstention(
    expected: Expected, question: str, says: str, asserted: list[str], place: tuple[int, int]
) -> Finding:
    """Return the verdict where the data cannot answer: whatever answers is wrong."""
    if asserted == [CANNOT_BE_TOLD]:
        return _verdict(expected, CANNOT_BE_TOLD, place)
    if CANNOT_BE_TOLD in asserted:
        if says.count("/") > 1 or says.count(",") > 1:
            return Finding("no_claim", "it repeats the options of the question")
        return _torn(asserted, place)
    if fold(says) <= fold(question) or HEDGE.search(says):
        return Finding("no_claim", "it says nothing of the question")
    return _verdict(expected, says, place)


HEDGE = re.compile(r"\b(?:don t|do not|dont) know\b|\bnot sure\b|\bunsure\b|\bdepends\b")


def options_in(says: str, by_wording: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Return the options that a normalised text asserts, and those that it only denies, in order.

    >>> options_in("not up but down", {"up": "up", "down": "down"})
    (['down'], ['up'])
    """
    asserted: dict[str, None] = {}
    denied: dict[str, None] = {}
    for found in _pattern(frozenset(by_wording)).finditer(says):
        wording = found[1] or found[2]
        option = by_wording.get(wording) or by_wording[wording.removesuffix("s")]
        (denied if is_denied(says, found.start()) else asserted)[option] = None
    return list(asserted), [option for option in denied if option not in asserted]


def is_denied(text: str, at: int) -> bool:
    """Return whether one of the four words before a place denies it: "neither up nor down"."""
    return any(word in DENIAL for word in BREAK.split(text[:at])[-1].split()[-4:])


DENIAL = frozenset(
    [
        "not",
        "no",
        "never",
        "neither",
        "nor",
        "without",
        "isnt",
        "dont",
        "doesnt",
        "arent",
        "wasnt",
        "didnt",
        "cant",
        "wont",
        "false",
        "wrong",
        "rather",
        "instead",
        "unlike",
    ]
)
BREAK = re.compile(r"\b(?:but|however|so)\b|[,;:.()]")


@lru_cache(maxsize=4096)
def _pattern(wordings: frozenset[str]) -> re.Pattern[str]:
    """Return a pattern for any of the wordings as whole words, the longest first, with a plural s.

    A single letter stands for an option at the start alone, or behind "option": "a" is an article too.
    """
    ordered = sorted(wordings, key=lambda wording: (-len(wording), wording))
    words = "|".join(re.escape(each) for each in ordered if len(each) > 1) or NOTHING
    letters = "|".join(re.escape(each) for each in ordered if len(each) == 1) or NOTHING
    return re.compile(
        rf"(?<![\w+])((?:{words})(?:(?<=\w{{4}})s)?)(?!\w)(?!(?<=\bup) to\b)"
        rf"|(?:^|(?<=\boption )|(?<=\bchoice )|(?<= and )|(?<= or ))\(?({letters})(?=$|[).:,]| and | or )"
    )


NOTHING = "(?!)"


def _torn(asserted: list[str], place: tuple[int, int]) -> Finding:
    reason = f"it names {' and '.join(asserted)}"
    return Finding("contradictory", reason, " / ".join(asserted), _claims(asserted, place))


def _verdict(expected: Expected, option: str, place: tuple[int, int]) -> Finding:
    claims = _claims([option], place)
    if option == expected.right:
        return Finding("correct", f"{option}, as the data say", option, claims, 1.0)
    return Finding("incorrect", f"it says {option}; the data say {expected.right}", option, claims)


def _claims(says: list[str], place: tuple[int, int]) -> tuple[Claim, ...]:
    return tuple(
        Claim.model_construct(
            subject="answer line",
            says=each,
            start=place[0],
            end=place[1],
            about="answer",
            is_denied=False,
        )
        for each in says
    )


# ---- a number ---------------------------------------------------------------------------------


def _number(expected: Expected, value: str, says: str, place: tuple[int, int]) -> Finding:
    truth = f"{expected.number:,.10g}"
    if says in expected.by_wording:
        return _cannot(says, truth, place)
    text = MINUS.sub("-", ASIDE.sub(" ", value))
    if expected.unit:
        text = re.sub(rf"(?<=\d){re.escape(expected.unit)}", f" {expected.unit}", text)
    found = [
        each for each in numbers_in(text) if not each.is_share or expected.unit in ("%", "percent")
    ]
    stated = [each for each in found if not is_denied(text.casefold(), each.start)]
    if stated:
        return number_verdict(expected, stated, place)
    if found:
        return Finding("no_claim", "it only denies a number")
    asserted, _ = options_in(says, expected.by_wording)
    return _cannot(says, truth, place) if asserted else Finding("no_claim", "it names no number")


MINUS = re.compile(r"\b(?:minus|negative)\s+(?=[\d.])", re.IGNORECASE)


def number_verdict(expected: Expected, found: list[Number], place: tuple[int, int]) -> Finding:
    """Return the verdict on the numbers that an answer states."""
    credits = [_credit(expected, number) for number in found]
    shown = " and ".join(dict.fromkeys(f"{number.value:,.10g}" for number in found))
    claims = _claims([shown], place)
    truth = f"{expected.number:,.10g}" + (f" {expected.unit}" if expected.unit else "")
    if all(credits):
        return Finding(
            "correct", f"{shown}; the data say {truth}", shown, claims, max(0.5, min(credits))
        )
    if any(credits):
        return Finding("contradictory", f"it names {shown}; the data say {truth}", shown, claims)
    return Finding("incorrect", f"it says {shown}; the data say {truth}", shown, claims)


def _credit(expected: Expected, number: Number) -> float:
    """Return 1 for the number within its tolerance, less for one that it rounds to, 0 for another."""
    off = abs(number.value - expected.number)
    tolerance = expected.tolerance
    allowed = 0.0
    if tolerance is not None:
        allowed = (
            tolerance.absolute
            if tolerance.absolute is not None
            else (tolerance.relative or 0) * abs(expected.number)
        )
    if off <= allowed + 1e-9 * max(1.0, abs(expected.number)):
        return 1.0
    is_rounded = (
        number.digits >= 2 and off <= number.step / 2 and off <= 0.05 * abs(expected.number)
    )
    return expected.rounded_credit if is_rounded else 0.0


def _cannot(says: str, truth: str, place: tuple[int, int]) -> Finding:
    return Finding(
        "incorrect",
        f"it says that the data cannot tell; they say {truth}",
        says,
        _claims([says], place),
    )


# ---- a term and a set -------------------------------------------------------------------------


def _term(
    expected: Expected, question: str, value: str, says: str, place: tuple[int, int]
) -> Finding:
    if says in expected.by_wording:
        return _cannot(says, "what it is", place)
    asserted, denied = _parts(value)
    words = fold(asserted)
    if not words:
        return Finding("no_claim", "it only denies" if denied else "it says nothing")
    right = any(each <= words for each in expected.accept)
    wrong = any(each <= words for word in words for each in expected.rivals.get(word, ()))
    claims = _claims([value], place)
    if right and wrong:
        return Finding(
            "contradictory", "it names what is right and what competes with it", value, claims
        )
    if right:
        return Finding("correct", "as the data say", value, claims, 1.0)
    if words <= fold(question) | GENERAL:
        return Finding("no_claim", "its words are all in the question")
    return Finding("incorrect", "it is something else", value, claims)


GENERAL = fold("hallmark gene set pathway process signaling genes")


def _parts(value: str) -> tuple[str, str]:
    """Return what a phrase asserts and what it denies: "mitochondria, not glycolysis"."""
    pieces = PIECE.split(value)
    denied = [piece for piece in pieces if DENIED_PIECE.match(piece)]
    return ", ".join(piece for piece in pieces if piece not in denied), ", ".join(denied)


PIECE = re.compile(r"[,;()]|\bbut\b")
DENIED_PIECE = re.compile(r"\s*(?:not|no|rather than|instead of|never)\b", re.IGNORECASE)


def _set(expected: Expected, value: str, place: tuple[int, int]) -> Finding:
    asserted, _ = _parts(ASIDE.sub(" ", value))
    names = [normalised(part).strip("… ") for part in re.split(r"[,;\n/]|\band\b|&", asserted)]
    named = {expected.by_wording.get(name, name) for name in names if name}
    if not named:
        return Finding("no_claim", "it names nothing")
    right = len(named & set(expected.values))
    claims = _claims(sorted(named), place)
    shown = ", ".join(sorted(named))
    if named == set(expected.values):
        return Finding("correct", "the same names as the data", shown, claims, 1.0)
    f1 = 2 * right / (len(named) + len(expected.values))
    return Finding(
        "incorrect",
        f"F1 {f1:.2f} against the data's {', '.join(expected.values)}",
        shown,
        claims,
        f1 / 2,
    )


# ---- the confidence line ----------------------------------------------------------------------


def _confidence(value: str, before: StatedConfidence) -> StatedConfidence:
    """Return what a confidence line states; lines that state different values make none."""
    stated = _percent(value)
    if before.status == "missing" or stated.status == "missing" or before.value == stated.value:
        return stated if stated.status != "missing" else before
    return StatedConfidence.model_construct(value=None, status="invalid", quote=value)


@lru_cache(maxsize=4096)
def _percent(value: str) -> StatedConfidence:
    shown = ASIDE.sub(" ", value).strip(MARKS + ".")
    if normalised(shown) in TEMPLATE:
        return MISSING
    found = PERCENT.match(shown.casefold())
    share = None
    if found is not None and not re.search(r"\d", shown[found.end() :]):
        number = float(found[1].replace(",", "."))
        if found[2]:
            share = number / 100
        elif number <= 1 or number > 10:
            share = number if number <= 1 else number / 100
    if share is None or not 0 <= share <= 1:
        return StatedConfidence.model_construct(
            value=None, status="invalid", quote=f"Confidence: {value}"
        )
    return StatedConfidence.model_construct(
        value=share, status="stated", quote=f"Confidence: {value}"
    )


def _blank(quoted: re.Match[str]) -> str:
    return " " * len(quoted[0])


__all__ = [
    "Lines",
    "number_verdict",
    "options_in",
    "read_answer_line",
    "read_lines",
    "without_thought",
]
