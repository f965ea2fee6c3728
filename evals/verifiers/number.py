"""Numbers as people write them, with value, precision, kind and unit; never part of another number.

    8,484 = 8484 = 8 484 = 8.484e3 = eight thousand four hundred and eighty-four    exact
    8.5k, about 8,500, roughly eight and a half thousand                             rounded
    8,000-9,000, between 8,000 and 9,000                                             range
    more than 8,000, < 0.05                                                          bound

A dot is a decimal point; a comma is a thousands separator before three digits (1,234), else a decimal
comma (0,619). Names (TP53, RR-9), ordinals (2nd), ratios (3:1) and malformed figures are no numbers.
"""

import re
from typing import NamedTuple

from evals.verifiers.numeral import (
    APPROXIMATE,
    AT_LEAST,
    AT_MOST,
    NAMERS,
    SPELLED,
    multiplied,
    spelled,
)
from evals.verifiers.reading import Reading, Sentence

FIGURE = re.compile(
    r"(?P<whole>0|[1-9][0-9]{0,14})"
    r"|(?P<grouped>[1-9][0-9]{0,2}(?:,[0-9]{3}){1,4})(?P<after>\.[0-9]{1,9})?"
    r"|(?P<dotted>[1-9][0-9]{0,2}(?:\.[0-9]{3}){1,4}),(?P<behind>[0-9]{1,2})"
    r"|(?P<point>[0-9]{1,12}\.[0-9]{1,15})"
    r"|(?P<comma>0,[0-9]{1,15}|[0-9]{1,12},(?:[0-9]{1,2}|[0-9]{4,15}))"
)
BODY = re.compile(r"[0-9]+(?:[.,][0-9]+)*")
POWER, HIGHEST_POWER = re.compile(r"e([0-9]{1,3})"), 30
THREE, EXPONENT = re.compile(r"[0-9]{3}"), re.compile(r"[0-9]{1,3}")
DIGITS = frozenset("0123456789")
SUFFIXES = {"": "", "x": "fold", "fold": "fold", "degs": "genes", "genes": "genes"}
BOUNDING = frozenset(phrase[-1] for phrase in AT_LEAST | AT_MOST)
"""Last words of what makes a number a bound."""


class Number(NamedTuple):
    """A number at tokens first..last. `low` = `high` but for ranges and bounds, which may be infinite.

    `step` is the worth of its last digit: 0.001 for 0.619, 100 for 8.5k. `digits` counts the digits
    that are meant: 2 for 8,500 and 8.5k, 3 for 8.50k. `form` is exact, rounded, range or bound;
    `unit` is percent, fold, genes or "" (said in the number itself or right behind it).
    """

    low: float
    high: float
    step: float
    digits: int
    form: str
    unit: str
    first: int
    last: int

    def says(self) -> str:
        """Return the number as a claim quotes it: "8484", "about 8500", "8000 to 9000", "over 8000"."""
        if self.form == "range":
            return f"{self.low:.15g} to {self.high:.15g}"
        if self.form == "bound":
            is_upper = self.high < float("inf")
            return f"under {self.high:.15g}" if is_upper else f"over {self.low:.15g}"
        return f"{self.low:.15g}" if self.form == "exact" else f"about {self.low:.15g}"


class Figure(NamedTuple):
    """A number in digits, as far as its own token goes."""

    value: float
    step: float
    digits: int


def numbers(reading: Reading, sentence: Sentence) -> list[Number]:
    """Return the numbers of a sentence, left to right; ranges as one."""
    words = reading.words
    starts = [
        token
        for token in range(sentence.first, sentence.last + 1)
        if words[token][0] in DIGITS or words[token] in SPELLED
    ]
    found: list[Number] = []
    done = sentence.first
    for token in starts:
        if token < done:
            continue
        number = _number_at(reading, sentence, token)
        if number is None:
            done = token + 1
            continue
        done = number.last + 1
        if found and (joined := _range(reading, sentence, found[-1], number)):
            found[-1] = joined
        else:
            found.append(number)
    return found


def rounds_to(number: Number, value: float) -> bool:
    """Say whether `value` comes out as the number when it is rounded to the digits given.

    8.5k and "about 8,500" are 8,484 at two digits, "about 8,000" at one; "about 9k" is not.
    """
    if number.low != number.high or not number.digits:
        return False
    return float(f"{value:.{number.digits - 1}e}") == number.low


def agrees(number: Number, value: float) -> bool:
    """Say whether a measured value is what was stated, as far as the digits given go.

    A range or bound must hold the value.
    """
    if number.form == "range":
        return number.low - number.step / 2 <= value <= number.high + number.step / 2
    if number.form == "bound":
        return number.low <= value <= number.high
    return abs(number.low - value) <= number.step * 0.5 * (1 + 1e-9)


# ---- one number -----------------------------------------------------------------------------


def _number_at(reading: Reading, sentence: Sentence, token: int) -> Number | None:
    """Return the number that begins at a token, None if what stands there is a name or a ratio."""
    word = reading.words[token]
    read = (_in_words if word in SPELLED else _in_digits)(reading, sentence, token)
    if read is None or _is_ratio(reading, token, read.last):
        return None
    return _in_context(reading, sentence, read)


def _in_words(reading: Reading, sentence: Sentence, token: int) -> Number | None:
    written = spelled(reading.words, reading.gaps, token, sentence.last)
    after = reading.words[token + 1] if token < sentence.last else ""
    if written is None or (written.value == 0 and after in ("more", "fewer", "less", "doubt")):
        return None
    form = "rounded" if written.is_round else "exact"
    value = float(written.value)
    return Number(value, value, 1.0, _digits(value), form, "", token, written.last)


def _in_digits(reading: Reading, sentence: Sentence, token: int) -> Number | None:
    words, gaps = reading.words, reading.gaps
    gap, word = gaps[token], words[token]
    if token > sentence.first and _is_part_of_name(gap, words[token - 1], word):
        return None
    body = BODY.match(word)
    if body is None:
        return None
    has_point = word.isdecimal() and gap.endswith((" .", "=.", "<.", ">.", "(."))
    figure = _figure(f"0.{word}" if has_point else body.group())
    if figure is None:
        return None
    suffix, last = word[body.end() :], token
    scale, unit = 0, ""
    if suffix == "e" and last < sentence.last and gaps[token + 1] in ("-", "+"):
        if EXPONENT.fullmatch(words[token + 1]) is None:
            return None
        scale, last = int(gaps[token + 1] + words[token + 1]), token + 1
    elif power := POWER.fullmatch(suffix):
        scale = int(power[1])
    elif suffix == "k":
        scale = 3
    elif suffix in SUFFIXES:
        unit = SUFFIXES[suffix]
        figure, last = _spaced(reading, sentence, token, figure)
        scale, last = multiplied(words, gaps, last, sentence.last)
    else:
        return None
    if abs(scale) > HIGHEST_POWER:
        return None
    return _scaled(figure, scale, unit, token, last)


def _is_part_of_name(gap: str, before: str, word: str) -> bool:
    """Say whether digits go on a name: "IL-6", "RR-9", "type 2", "figure 3"."""
    if gap.endswith("-") and not gap.startswith(" ") and len(gap) == 1:
        return not before[-1].isdigit()
    if before in ("figure", "number") and len(word) > 2:
        return False
    return gap in ("", "/", "_") or (gap in (" ", ". ", " #") and before in NAMERS)


def _figure(body: str) -> Figure | None:
    match = FIGURE.fullmatch(body)
    if match is None:
        return None
    if match["whole"]:
        return _whole(match["whole"])
    if match["grouped"] and not match["after"]:
        return _whole(match["grouped"].replace(",", ""))
    if match["grouped"]:
        text = match["grouped"].replace(",", "") + match["after"]
    elif match["dotted"]:
        text = f"{match['dotted'].replace('.', '')}.{match['behind']}"
    else:
        text = body.replace(",", ".")
    decimals = len(text) - text.index(".") - 1
    digits = len(text.replace(".", "").lstrip("0"))
    return Figure(float(text), float(f"1e-{decimals}"), digits)


def _whole(text: str) -> Figure:
    return Figure(float(text), 1.0, len(text.rstrip("0")))


def _spaced(reading: Reading, sentence: Sentence, token: int, figure: Figure) -> tuple[Figure, int]:
    """Return the figure with the groups of three that follow it: 8 484, 8'484."""
    words, gaps, last = reading.words, reading.gaps, token
    if len(words[token]) > 3 or not words[token].isdecimal() or words[token] == "0":
        return figure, last
    while (
        last < sentence.last and gaps[last + 1] in (" ", "'") and THREE.fullmatch(words[last + 1])
    ):
        last += 1
    text = "".join(words[token : last + 1])
    return (_whole(text), last) if token < last and len(text) <= 15 else (figure, token)


def _scaled(figure: Figure, scale: int, unit: str, first: int, last: int) -> Number:
    value = float(f"{figure.value!r}e{scale}" if "e" not in repr(figure.value) else figure.value)
    step = figure.step * 10.0**scale
    form = "rounded" if scale > 0 and step > 1 else "exact"
    return Number(value, value, step, figure.digits, form, unit, first, last)


def _digits(value: float) -> int:
    return len(f"{value:.0f}".rstrip("0"))


# ---- what stands around it ------------------------------------------------------------------


def _is_ratio(reading: Reading, first: int, last: int) -> bool:
    """Say whether a number is one side of "3:1", "3/4" or "2 x 2"."""
    words, gaps = reading.words, reading.gaps
    if (
        words[last + 1 : last + 2] == ["x"]
        and words[last + 2 : last + 3]
        and words[last + 2][0] in DIGITS
    ):
        return True
    if first > 1 and words[first - 1] == "x" and words[first - 2][-1] in DIGITS:
        return True
    after = words[last + 1][0] if last + 1 < len(words) else ""
    before = words[first - 1][-1] if first else ""
    return (gaps[last + 1] in (":", "/", " : ", "^") and after in DIGITS) or (
        gaps[first] in (":", "/", " : ", "^") and before in DIGITS
    )


def _in_context(reading: Reading, sentence: Sentence, number: Number) -> Number | None:
    """Return the number with its sign, unit, approximation or bound; None for "± 3"."""
    words, gaps = reading.words, reading.gaps
    gap, after = gaps[number.first], gaps[number.last + 1]
    if "±" in gap or gap.rstrip(" ").endswith("+/-"):
        return None
    if gap.endswith("-") and (len(gap) > 1 or number.first == 0):
        number = number._replace(low=-number.low, high=-number.high)
    following = words[number.last + 1] if number.last < sentence.last else ""
    if after.startswith(("%", " %")) or (after == " " and following in ("percent", "per")):
        number = number._replace(unit="percent")
    elif after in (" ", "-") and following in ("fold", "times", "x"):
        number = number._replace(unit="fold")
    before = words[max(sentence.first, number.first - 3) : number.first]
    if "<" in gap or "≤" in gap or _ends_with(before, AT_MOST):
        return number._replace(low=float("-inf"), form="bound")
    if ">" in gap or "≥" in gap or _ends_with(before, AT_LEAST):
        return number._replace(high=float("inf"), form="bound")
    while before and before[-1] in ("a", "the", "to"):
        before = before[:-1]
    is_near = bool(before and before[-1] in APPROXIMATE) or "~" in gap
    if is_near or (after == " " and words[number.last + 1 : number.last + 3] == ["or", "so"]):
        return number._replace(form="rounded")
    return number


def _ends_with(before: list[str], phrases: frozenset[tuple[str, ...]]) -> bool:
    if not before or before[-1] not in BOUNDING:
        return False
    return any(tuple(before[-n:]) in phrases for n in (1, 2, 3) if len(before) >= n)


def _range(reading: Reading, sentence: Sentence, left: Number, right: Number) -> Number | None:
    """Return "8,000-9,000", "8,000 to 9,000" and "between 8,000 and 9,000" as one number."""
    words, gaps = reading.words, reading.gaps
    between = words[left.last + 1 : right.first]
    before = words[left.first - 1] if left.first > sentence.first else ""
    is_joined = not between and gaps[right.first] in ("-", " - ", "--")
    is_said = between == ["to"] or (between == ["and"] and before == "between")
    if not (is_joined or is_said) or "bound" in (left.form, right.form):
        return None
    low, high = left.low, abs(right.low) if is_joined and left.low >= 0 else right.low
    low, high = min(low, high), max(low, high)
    step = max(left.step, right.step)
    return Number(low, high, step, 0, "range", right.unit, left.first, right.last)
