"""Numbers as people write them: 8,484 = 8484 = 8 484 = 8.484k, "twelve", "1.2e4", "4.2 million"."""

import re
from collections.abc import Iterator
from typing import NamedTuple

SMALL = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty"),
)
WORDS = {word: float(value) for value, word in enumerate(SMALL)} | {"none": 0.0}
SCALES = {"k": 1e3, "thousand": 1e3, "m": 1e6, "million": 1e6, "billion": 1e9}
NUMBER = re.compile(
    r"(?<![\w.,])(?P<sign>[-−–+](?=\d))?"
    r"(?P<digits>\d{1,3}(?:[, \u00a0\u202f\u2009’']\d{3})+(?!\d)(?:\.\d+)?|\d+(?:\.\d+|,\d{1,2}(?!\d))?|\.\d+)"
    r"(?:[eE](?P<exponent>[-+]?\d{1,3}))?"
    r"(?:(?P<scale>k|m)\b|[ -](?P<worded>thousand|million|billion)\b)?"
    r"(?P<share> ?%| percent\b)?(?![\w]|[.,]\d)"
    r"|\b(?P<word>" + "|".join((*SMALL, "none")) + r")\b",
    re.IGNORECASE,
)


class Number(NamedTuple):
    """A number that a text states. `step` is the size of its last digit, `digits` how many of them count."""

    value: float
    step: float
    digits: int
    is_share: bool
    start: int
    end: int


def numbers_in(text: str) -> Iterator[Number]:
    """Yield the numbers of a text in order; parts of words, such as the 2 of "E2F", are none.

    >>> [number.value for number in numbers_in("about 8.5k of 8,484 genes")]
    [8500.0, 8484.0]
    """
    for found in NUMBER.finditer(text):
        if found["word"]:
            value = WORDS[found["word"].lower()]
            yield Number(value, 1.0, len(str(int(value))), False, found.start(), found.end())
            continue
        digits = found["digits"]
        if re.fullmatch(r"\d+,\d{1,2}", digits):
            digits = digits.replace(",", ".")
        plain = re.sub(r"[^\d.]", "", digits)
        scale = SCALES.get((found["scale"] or found["worded"] or "").lower(), 1.0)
        scale *= 10.0 ** int(found["exponent"] or 0)
        whole, _, decimals = plain.partition(".")
        significant = (whole + decimals).lstrip("0")
        zeros = 0 if decimals else len(whole) - len(whole.rstrip("0"))
        value = float(plain) * scale * (-1 if found["sign"] in ("-", "−", "–") else 1)
        step = scale * (10.0 ** -len(decimals) if decimals else 10.0**zeros)
        yield Number(value, step, max(1, len(significant) - zeros), bool(found["share"]), found.start(), found.end())
