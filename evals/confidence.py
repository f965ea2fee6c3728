r"""Read the confidence that an answer states about itself; never guess one from its tone.

    "… is downregulated.\nConfidence: 80%"        ->  0.80, stated
    "I am 95.5 % confident …"                     ->  0.955, stated
    "**Confidence:** high"                        ->  0.85, stated (table WORDS)
    "… with padj 0.05."                           ->  None, missing
    "Confidence: 140%", or 80% here and 20% there ->  None, invalid

A number without a percent sign is a share up to 1 (0.8) and a percentage above 10 (80); between
the two its scale is unknown, so it is invalid. A range counts as its middle. A confidence interval
or the confidence level of a test is statistics, not a statement about the answer.
"""

import re
from typing import NamedTuple

from evals.plain import Plain, plain
from evals.schema import StatedConfidence

VERSION = "confidence-1"

WORDS = {
    "very high": 0.95,
    "extremely high": 0.95,
    "high": 0.85,
    "medium": 0.60,
    "moderate": 0.60,
    "low": 0.30,
    "very low": 0.10,
    "extremely low": 0.10,
}
"""What a confidence given in words counts as."""

BANDS = {"high": (0.70, 1.0), "medium": (0.35, 0.75), "low": (0.0, 0.40)}
"""A number given apart from a word must lie in the word's band, else the two contradict."""

ADVERBS = {"very": "high", "highly": "high", "extremely": "very high", "moderately": "medium"}
"""What "I am … confident" counts as."""

FIGURE = r"(?:[0-9]{1,9}(?:[.,][0-9]{1,6})?|\.[0-9]{1,6})"
PERCENT = r"(?:%|percent\b|per cent\b)"
WORD = re.compile(r"(?P<word>(?:very |extremely )?(?:high|medium|moderate|low))\b(?! ?-)")
NUMBER = re.compile(
    rf"(?P<first>[-+]?{FIGURE}) ?(?P<percent>{PERCENT})?"
    rf"(?: ?(?P<join>-|to|and|or) ?(?P<second>{FIGURE}) ?(?P<percent2>{PERCENT})?)?"
    r"(?P<scale> ?(?:/|out of) ?(?:100|10)\b)?"
)
ANCHOR = re.compile(r"\b(?:confidence|confident|certainty|certain|sure|probability)\b")
NOUNS = ("confidence", "certainty", "probability")
BRIDGE = re.compile(
    r"(?: (?:level|score|rating|estimate))?(?: \([^\n()]{0,60}\)(?= ?[:=]))?"
    r"(?: (?:in|of|for|that|about) [^\n.;:=%0-9]{0,80}(?=[:=]| is ))?"
    r"(?: ?(?::|=|\||\n|- )| is| was| of| at){0,2} ?"
    r"(?:about |around |approximately |roughly |only |between |[~>] ?|[(<\[])?"
)
BEFORE = re.compile(
    rf"(?:(?P<number>[-+]?{FIGURE} ?{PERCENT}?(?: ?(?:-|to|and|or) ?{FIGURE})? ?{PERCENT})"
    r"|\b(?P<word>(?:very |extremely )?(?:high|medium|moderate|low))) (?:degree of |level of )?$"
)
ADVERB = re.compile(r"(?P<not>\bnot )?\b(?P<word>very|highly|extremely|moderately) $")
STATISTICS = re.compile(r"[ -](?:intervals?|limits?|bounds?|bands?|regions?|sets?)\b")
TEST_LEVEL = re.compile(r"\bat (?:a|an|the) [^\n]{0,12}$")
LABELLED = re.compile(r" ?[:=|]")
REACH = 48
"""How many characters before the word a value may begin."""


class Statement(NamedTuple):
    """One place where a confidence is stated. `value` None = stated in a way that has no value."""

    value: float | None
    is_number: bool
    start: int
    end: int


def read_confidence(text: str) -> StatedConfidence:
    """Return the confidence that `text` states, or why there is none.

    Repeating the same value is fine; different numbers, or a number outside the band of a word
    stated apart from it, contradict each other and are invalid. `quote` is the first statement.
    """
    page = plain(text)
    return settle(text, page, statements(page.text))


def settle(text: str, page: Plain, found: list[Statement]) -> StatedConfidence:
    """Return the one confidence that the statements found on the page of `text` agree on."""
    if not found:
        return StatedConfidence(value=None, status="missing")
    first = found[0]
    quote = text[page.origin(first.start) : page.origin(first.end)].strip()
    value = _agreed(found)
    status = "invalid" if value is None else "stated"
    return StatedConfidence(value=value, status=status, quote=quote)


def statements(page: str) -> list[Statement]:
    """Return every statement of a confidence in plain text, in order.

    Time is linear in the text: each anchor word looks at a bounded stretch around it.
    """
    found: list[Statement] = []
    for anchor in ANCHOR.finditer(page):
        statement = _stated_after(page, anchor) or _stated_before(page, anchor)
        if statement and not (found and statement.start < found[-1].end):
            found.append(statement)
    return found


def _stated_after(page: str, anchor: re.Match[str]) -> Statement | None:
    """Read "Confidence: 80%", "confidence level is high (85%)"."""
    if anchor.group() not in NOUNS or STATISTICS.match(page, anchor.end()):
        return None
    if anchor.group() == "probability" and not LABELLED.match(page, anchor.end()):
        return None
    bridge = BRIDGE.match(page, anchor.end())
    start = bridge.end() if bridge else anchor.end()
    word = WORD.match(page, start)
    number = NUMBER.match(page, start)
    if word:
        end = word.end()
        number = NUMBER.match(page, end + 2) if page[end : end + 2] in (" (", ", ") else None
        if number is None or number["percent"] is None:
            return Statement(WORDS[word["word"]], False, anchor.start(), end)
    if number is None:
        return None
    return Statement(_value(number), True, anchor.start(), number.end())


def _stated_before(page: str, anchor: re.Match[str]) -> Statement | None:
    """Read "80% confident", "with high confidence", "I am highly confident"."""
    if STATISTICS.match(page, anchor.end()):
        return None
    begin = max(0, anchor.start() - REACH)
    ahead = page[begin : anchor.start()]
    given = BEFORE.search(ahead)
    if given and given["number"]:
        if page.startswith(" level", anchor.end()) and TEST_LEVEL.search(
            ahead[: given.start() + 1]
        ):
            return None
        number = NUMBER.match(given["number"])
        value = _value(number) if number else None
        return Statement(value, True, begin + given.start(), anchor.end())
    if given and anchor.group() == "confidence":
        return Statement(WORDS[given["word"]], False, begin + given.start(), anchor.end())
    adverb = ADVERB.search(ahead)
    if adverb and not adverb["not"] and anchor.group() in ("confident", "certain", "sure"):
        word = ADVERBS[adverb["word"]]
        return Statement(WORDS[word], False, begin + adverb.start(), anchor.end())
    return None


def _value(number: re.Match[str]) -> float | None:
    """Return the share 0..1 that a written number means, None if it has no meaning as one."""
    first = float(number["first"].replace(",", "."))
    shares = [first]
    if number["second"]:
        if number["join"] == "or":
            return None
        shares.append(float(number["second"].replace(",", ".")))
    scale = _scale(number, max(shares))
    value = sum(shares) / len(shares) / scale if scale else -1.0
    return (
        value if 0.0 <= value <= 1.0 and min(shares) >= 0 and max(shares) <= (scale or 0) else None
    )


def _scale(number: re.Match[str], largest: float) -> float | None:
    """Return what counts as certainty: 100 for a percentage, 1 for a share; None if unknown."""
    if number["scale"]:
        return 10.0 if number["scale"].rstrip().endswith(("/10", " 10")) else 100.0
    if number["percent"] or number["percent2"] or largest > 10:
        return 100.0
    return 1.0 if largest <= 1 else None


def _agreed(found: list[Statement]) -> float | None:
    if any(statement.value is None for statement in found):
        return None
    numbers = {round(s.value, 9) for s in found if s.is_number and s.value is not None}
    words = {s.value for s in found if not s.is_number and s.value is not None}
    if len(numbers) > 1 or (not numbers and len(words) > 1):
        return None
    if not numbers:
        return words.pop()
    value = numbers.pop()
    return value if all(_in_band(value, word) for word in words) else None


def _in_band(value: float, word: float) -> bool:
    level = "high" if word > 0.7 else "medium" if word > 0.4 else "low"
    lowest, highest = BANDS[level]
    return lowest <= value <= highest
