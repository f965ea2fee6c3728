r"""A share of certainty as people write it: a number on some scale, or a word.

    "80%", "80 percent", "eighty percent", "0.8", "0,8", "8/10", "four out of five"  ->  0.8
    "70-80%", "between 70 and 80%", "0.7 to 0.8"                                      ->  0.75, the middle
    "> 90%", "at least 90%", "90% ± 5%"                                               ->  0.9, the bound
    "50/50", "fifty-fifty", "half", "three quarters", "two thirds"                    ->  0.5, 0.5, 0.75, 0.667
    "high", "very low", "medium-high"                                                 ->  table LEVELS

A number without a scale is a share up to 1 and a percentage above 10; between the two its scale is
unknown and it has no value. What is over its scale, below 0 or two numbers at once ("80% or 20%") has
none either. Texts are plain (`evals.plain`): lower case, ASCII digits and dashes.
"""

import re
from typing import NamedTuple


class Level(NamedTuple):
    """What a word counts as, and the numbers that may stand beside it without contradicting it."""

    value: float
    lowest: float
    highest: float
    adjectives: tuple[str, ...]
    adverbs: tuple[str, ...] = ()


LEVELS = (
    Level(0.95, 0.80, 1.00, ("very high", "extremely high"), ("extremely", "absolutely")),
    Level(0.85, 0.70, 1.00, ("high",), ("very", "highly")),
    Level(
        0.70,
        0.50,
        0.90,
        (
            "fairly high",
            "quite high",
            "moderately high",
            "medium-high",
            "moderate to high",
            "medium to high",
        ),
        ("fairly", "quite", "reasonably", "pretty"),
    ),
    Level(0.60, 0.35, 0.75, ("medium", "moderate"), ("moderately", "somewhat")),
    Level(
        0.45,
        0.20,
        0.60,
        ("fairly low", "quite low", "medium-low", "low to moderate", "low to medium"),
        ("slightly",),
    ),
    Level(0.30, 0.00, 0.40, ("low",)),
    Level(0.10, 0.00, 0.30, ("very low", "extremely low")),
)
"""The one table of words: "high confidence" by its adjective, "highly confident" by its adverb."""

ADJECTIVES = {
    form: level
    for level in LEVELS
    for word in level.adjectives
    for form in (word, word.replace(" ", "-"))
}
"""With blanks and with hyphens: "low to moderate", "low-to-moderate"."""
ADVERBS = {word: level for level in LEVELS for word in level.adverbs}

ONES = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
SPELLED = {word: float(n) for n, word in enumerate(ONES)}
SPELLED |= {word: 20.0 + 10 * n for n, word in enumerate(TENS)}
SPELLED |= {"hundred": 100.0, "a hundred": 100.0, "one hundred": 100.0}

WORDS = "|".join(sorted(SPELLED, key=len, reverse=True))
DIGITS = r"(?:[0-9]{1,30}(?:[.,][0-9]{1,6})?|\.[0-9]{1,6})(?![0-9]|e[-+0-9])"
FIGURE = rf"(?:{DIGITS}|(?:{'|'.join(TENS)})[- ](?:{'|'.join(ONES[1:10])})\b|(?:{WORDS})\b)"
PERCENT = r"(?:\\?%|percent\b|per cent\b|pct\b)"
FIRST = re.compile(rf"(?P<sign>[-+]?)(?P<figure>{FIGURE})(?:[ *]{{0,3}}(?P<percent>{PERCENT}))?")
CHOICE = (
    r",? \(?(?:or|maybe|perhaps|but (?:could|may|might) be)(?: maybe| perhaps| even)? | ?(?:->|→) ?"
)
SECOND = re.compile(
    rf"(?P<join> ?[-~] ?| to | and |(?P<choice>{CHOICE}))"
    rf"(?P<figure>{FIGURE})(?: ?(?P<percent>{PERCENT}))?"
)
SCALE = re.compile(
    rf" ?\(?(?P<link>/|out of|in|of|on a scale (?:of|from) [01] ?(?:-|to)) ?(?P<figure>{FIGURE})"
)
MARGIN = re.compile(rf" ?(?:±|\+/-|\+-) ?{FIGURE}(?: ?{PERCENT})?")
EVEN = re.compile(r"(?:50 ?[/-] ?50|fifty[- ]fifty)(?![0-9]| ?%)")
FRACTIONS = {
    **dict.fromkeys(("half", "a half", "one half", "one-half"), 1 / 2),
    **dict.fromkeys(("a quarter", "one quarter", "one-quarter"), 1 / 4),
    **dict.fromkeys(("three quarters", "three-quarters", "three fourths"), 3 / 4),
    **dict.fromkeys(("a third", "one third", "one-third"), 1 / 3),
    **dict.fromkeys(("two thirds", "two-thirds"), 2 / 3),
}
FRACTION = re.compile(
    rf"(?:{'|'.join(FRACTIONS)})(?![\w'-]| (?:of|the|as|a|an|my|our|these|those|that|right|correct|true|way|done|percent)\b)"
)
"""A share in words: "half", but not "half the missions" or "half right"."""
OF_THINGS = re.compile(r" (?:of|missions?|genes?|degs?|sets?|tissues?|studies|samples?|mice)\b")
"""After a number: it counts or shares out things, and is no certainty."""
ALL_WORDS = "|".join(sorted(ADJECTIVES, key=len, reverse=True))
WORD = re.compile(rf"(?:{ALL_WORDS})(?![\w-])")
LAST_WORD = re.compile(rf"(?<![\w-])(?:{ALL_WORDS})$")
START = re.compile(rf"(?<![\w.,%])[-+]?(?={FIGURE})|between ")


class Degree(NamedTuple):
    """A share read from a text up to `end`; value None = written in a way that has none.

    `is_marked`: a percent sign, a scale or decimals show that it is a share and no other number.
    """

    value: float | None
    end: int
    is_marked: bool


def read_degree(text: str, at: int, top: float | None = None) -> Degree | None:
    """Return the share written as a number at a place, None if there is none.

    `top` is what counts as certainty where the text has said so before ("confidence (0-10): 8").
    """
    even = EVEN.match(text, at)
    if even:
        return Degree(0.5, even.end(), True)
    fraction = FRACTION.match(text, at)
    if fraction:
        is_of_things = OF_THINGS.match(text, fraction.end())
        return None if is_of_things else Degree(FRACTIONS[fraction.group()], fraction.end(), True)
    first = FIRST.match(text, at)
    if first is None:
        return None
    values = [_number(first["figure"])]
    has_percent, end = first["percent"] is not None, first.end()
    second = SECOND.match(text, end)
    is_choice = False
    if second and _is_whole_scale(first, second):
        return None
    if second and _belongs(text, first, second):
        values.append(_number(second["figure"]))
        has_percent = has_percent or second["percent"] is not None
        is_choice = second["choice"] is not None
        end = second.end()
    margin = MARGIN.match(text, end)
    end = margin.end() if margin else end
    scale = None if has_percent else _out_of(text, end)
    if scale:
        top, end = scale
    if has_percent:
        top = 100.0
    if OF_THINGS.match(text, end):
        return None
    if top is None and first["figure"] in ONES:
        return None
    bad = is_choice or first["sign"] == "-"
    is_marked = top is not None or not first["figure"].isdigit()
    return Degree(None if bad else _share(values, top), end, is_marked)


def read_last_degree(text: str) -> tuple[int, Degree] | None:
    """Return the share that a short text ends with, and where it begins; None if there is none."""
    for start in START.finditer(text):
        at = start.end() if text[start.start()] == "b" else start.start()
        degree = read_degree(text, at)
        if degree is not None and degree.end == len(text):
            return at, degree
    return None


def _number(figure: str) -> float:
    if figure in SPELLED:
        return SPELLED[figure]
    if figure[0].isalpha():
        tens, ones = re.split("[- ]", figure)
        return SPELLED[tens] + SPELLED[ones]
    whole, _, decimals = figure.partition(",")
    if len(decimals) == 3 and whole.strip("0"):
        return float(whole + decimals)
    return float(figure.replace(",", "."))


def _belongs(text: str, first: re.Match[str], second: re.Match[str]) -> bool:
    """Say whether a second number is the other end of the first, not the start of something else."""
    if second["percent"]:
        return second["join"].strip() != "and" or _is_between(text, first.start())
    if first["percent"]:
        return False
    one, other = _number(first["figure"]), _number(second["figure"])
    if max(one, other) <= 1:
        return second["join"].strip() != "and" or _is_between(text, first.start())
    is_alone = not text[second.end() : second.end() + 2].strip(" ").isalnum()
    return second["join"].strip() in ("-", "~", "to") and min(one, other) > 10 and is_alone


def _is_between(text: str, at: int) -> bool:
    return text.endswith("between ", 0, at)


def _out_of(text: str, at: int) -> tuple[float, int] | None:
    """Return the scale "/10", "out of ten" and where it ends; "3 of 4 missions" has none."""
    scale = SCALE.match(text, at)
    if scale is None:
        return None
    top, end = _number(scale["figure"]), scale.end()
    is_thing = scale["link"] in ("in", "of") and text[end : end + 2].strip(" ").isalpha()
    return None if top < 2 or is_thing else (top, end)


def _is_whole_scale(first: re.Match[str], second: re.Match[str]) -> bool:
    """Say whether "0-100%" or "0 to 1" names the scale instead of a value on it."""
    is_range = second["join"].strip() in ("-", "to")
    ends = (first["figure"], second["figure"])
    return (
        is_range and ends[0] in ("0", "1") and ends[1] in ("1", "10", "100") and ends != ("1", "1")
    )


def _share(values: list[float], top: float | None) -> float | None:
    largest = max(values)
    if top is None:
        top = 1.0 if largest <= 1 else 100.0 if largest > 10 else None
    return None if top is None or largest > top else sum(values) / len(values) / top
