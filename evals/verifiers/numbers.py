"""Numbers as people write them: 8,484 = 8484 = 8 484 = 8.484k = 8.484 × 10³ = "eight thousand four hundred eighty-four"."""

import re
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from functools import cache, lru_cache
from typing import NamedTuple
from unicodedata import numeric

from evals.verifiers.expected import pattern, words

LARGE: dict[str, float] = words("numbers")["large"]
WORDS = {word: float(value) for value, word in enumerate(words("numbers")["small"].split())} | {"none": 0.0}
WORDS |= {word: 10.0 * tens for tens, word in enumerate(words("numbers")["tens"].split(), 3)} | LARGE
SCALES: dict[str, float] = words("numbers")["scales"] | LARGE
WORD = "|".join(sorted(WORDS, key=len, reverse=True))
GLUED_UNIT = r"(?:[kmnpµμu]?(?:g|l|mol)|[kcnµμu]m|mm|[mnµμu]v|k?da|[km]?bp|kb|hz|min|hrs?|fold|x)"
"""Units that may stand right behind a number, in lower case: 66.5kDa, 2.5x."""
NUMBER = re.compile(
    r"(?<![\w.,^±])(?<!\^[{(])(?<!\^[-−+])(?<!\^[{(][-−+])(?<![^\W\d_][-−–])(?P<sign>[-−–+](?=\.?\d))?"
    r"(?P<digits>0,\d+|\d{1,3}(?:(?:\.\d{3}){2,}(?!\d)(?:,\d+)?|(?:\.\d{3})+,\d{1,2}(?!\d))|\d{1,3}(?:[, \u00a0\u202f\u2009’']\d{3})+(?!\d)(?:\.\d+)?|\d+(?:\.\d+|,\d{1,2}(?!\d))?|\.\d+)"
    r"(?: {0,2}(?P<vulgar>[½⅓⅔¼¾])| {1,2}(?P<over_one>\d/[2-9])(?![\d/]))?"
    r"(?:[eE](?P<exponent>[-+]?\d{1,3})"
    r"|[ $]{0,2}(?:×|x|\*|·|\\times|\\cdot)[ $]{0,2}10(?:(?:\^|\*\*)[{(]?(?P<tens>[-−–+]?\d{1,3})[)}]?|(?P<raised>[⁺⁻]?[⁰¹²³⁴⁵⁶⁷⁸⁹]{1,3}))"
    r"|(?<=\b10)(?:\^[{(]?(?P<power>[-−–+]?\d{1,3})[)}]?|(?P<raised_power>[⁺⁻]?[⁰¹²³⁴⁵⁶⁷⁸⁹]{1,3})))?"
    r"(?: ?/ ?(?P<over>\d+(?:\.\d+)?)(?![\d/]| ?(?:/|100\b)))?"
    r"(?:(?P<scale>k|m)\b|[ -]?(?P<worded>hundred|thousand|million|billion|mio|mln|mrd|tsd|bn)\b)?"
    rf"(?P<share> ?\\?%| percent\b)?(?:(?![\w]|[.,]\d)|(?={GLUED_UNIT}\b))"
    rf"|(?P<below>(?<![\w-])-)?\b(?P<words>(?:{WORD})(?:(?:[ -]| and )(?:{WORD}))*|an?(?= [a-z]+ and a half\b))"
    r"(?:(?P<half> and a half)|[ -](?P<part>half|halves|thirds?|quarters?|fifths|tenths)(?: of an?)?)?\b"
    r"|\b(?P<lone>half|third|quarter)(?:(?: of)? an?(?= [a-z])(?: (?P<times>hundred|thousand|million|billion)\b)?|(?<=half)[ -](?=(?:hour|minute|day|year)s?\b))",
    re.IGNORECASE,
)
PARTS = {"half": 0.5, "halve": 0.5, "third": 1 / 3, "quarter": 0.25, "fifth": 0.2, "tenth": 0.1}
AND_HALF = re.compile(r" [a-z]+ and a half\b", re.IGNORECASE)
""""An hour and a half"."""
LARGEST = 300
"""The power of ten beyond which there is no number of a computer."""
RAISED = str.maketrans("⁺⁻⁰¹²³⁴⁵⁶⁷⁸⁹−–", "+-0123456789--")
SPREAD = re.compile(r"(?:±|\+/-|\+-|\+\\-|\\pm) ?\$?$")
"""Before a number: it says how sure the one before it is, unless it is as large."""


class Number(NamedTuple):
    """A number that a text states. `step` is the size of its last digit, `digits` how many of them count.

    `is_grouped`: one comma parts its thousands, if it is none for decimals.
    """

    value: float
    step: float
    digits: int
    is_share: bool
    start: int
    end: int
    is_grouped: bool = False


def numbers_in(text: str) -> Iterator[Number]:
    """Yield the numbers of a text in order; parts of words, such as the 2 of "E2F", exponents and spreads (± 2) are none.

    >>> [number.value for number in numbers_in("about 8.5k of 8,484 genes, 3.1 × 10^3 ± 2 of them")]
    [8500.0, 8484.0, 3100.0]
    """
    before = 0.0
    unsure = [each.span() for each in pattern("interval").finditer(text)]
    for found in NUMBER.finditer(text):
        if any(start <= found.start() < end for start, end in unsure):
            continue
        if found["lone"]:
            value = PARTS[found["lone"].lower()] * LARGE.get((found["times"] or "").lower(), 1.0)
            yield _exact_number(value, found.start(), found.end())
            continue
        if found["words"]:
            for number in _in_words(found):
                yield _with_half(number, text)
            continue
        number = _with_half(_in_digits(found), text)
        is_spread = SPREAD.search(text, max(0, found.start() - 8), found.start())
        if is_spread and number.value <= abs(before) / 2:
            continue
        yield number
        before = number.value


def without_wholes(numbers: list[Number], text: str) -> list[Number]:
    """Return the numbers without those that others are parts of: 4 of "4 of 64 codons" and of "of the 64 codons, 4"."""
    whole = pattern("whole")
    return [each for each in numbers if not whole.search(text, max(0, each.start - 24), each.start)] or numbers


def _with_half(number: Number, text: str) -> Number:
    return number._replace(value=number.value + 0.5) if AND_HALF.match(text, number.end) else number


def _in_digits(found: re.Match[str]) -> Number:
    digits = found["digits"]
    if re.fullmatch(r"0,\d+|\d+,\d{1,2}|\d{1,3}(?:\.\d{3})+,\d+|\d{1,3}(?:\.\d{3}){2,}", digits):
        digits = digits.replace(".", "").replace(",", ".")
    plain = re.sub(r"[^\d.]", "", digits)
    scale = SCALES.get((found["scale"] or found["worded"] or "").lower(), 1.0)
    power = int((found["exponent"] or found["tens"] or found["raised"] or "0").translate(RAISED))
    if digits == "10" and (own := found["power"] or found["raised_power"]):
        power = int(own.translate(RAISED)) - 1
    scale *= 10.0 ** min(power, LARGEST)
    if found["over"] and float(found["over"]):
        scale /= float(found["over"])
    whole, _, decimals = plain.partition(".")
    significant = (whole + decimals).lstrip("0")
    zeros = 0 if decimals else len(whole) - len(whole.rstrip("0"))
    more = numeric(found["vulgar"]) if found["vulgar"] else float(Fraction(found["over_one"] or 0)) % 1
    value = (float(plain) + more) * scale * (-1 if found["sign"] in ("-", "−", "–") else 1)
    step = scale / 2 if more else scale * (10.0 ** -len(decimals) if decimals else 10.0 ** min(zeros, LARGEST))
    is_grouped = re.fullmatch(r"\d{1,3},\d{3}", digits) is not None
    digits_told = max(1, len(significant) - zeros)
    return Number(value, step, digits_told, bool(found["share"]), found.start(), found.end(), is_grouped)


def _in_words(found: re.Match[str]) -> Iterator[Number]:
    """Yield the numbers of a run of number words: "three thousand nine hundred fifty-five" is one, "two three" are two."""
    total = part = 0.0
    start = end = found.start("words")
    last = None
    for word in re.finditer(r"[a-z]+", found["words"], re.IGNORECASE):
        value = WORDS.get(word[0].lower(), 1.0 if word[0].lower() in ("a", "an") else None)
        if value is None:  # "and"
            continue
        at = found.start("words") + word.start()
        is_large = word[0].lower() in LARGE
        fits = (
            last is None or (is_large and part) or (not is_large and (last >= 100 or (last >= 20 and 0 < value < 10)))
        )
        if not fits:
            yield _exact_number(total + part, start, end)
            total = part = 0.0
            start = at
        if not is_large:
            part += value
        elif value == 100:
            part = (part or 1.0) * value
        else:
            total, part = total + (part or 1.0) * value, 0.0
        last, end = value, found.start("words") + word.end()
    value = total + part
    if found["half"]:
        value += 0.5
    elif found["part"]:
        value *= PARTS[found["part"].lower().rstrip("s")]
    yield _exact_number(-value if found["below"] else value, start, found.end())


def _exact_number(value: float, start: int, end: int) -> Number:
    step = 1.0 if value == int(value) else abs(value) / 100
    return Number(value, step, len(str(int(abs(value)))), False, start, end)


# ---- units ---------------------------------------------------------------------------------------


DEGREES = re.compile(
    r"(?:°|º|deg(?:rees?)?) ?(C|F)\b|(?:degrees? )?(Celsius|Fahrenheit|centigrade)\b|(?<![\w/])([CF])\b", re.I
)
UNIT_POWERS = str.maketrans("⁻⁺⁰¹²³⁴⁵⁶⁷⁸⁹−–µμ", "-+0123456789--uu")
NOISE = re.compile(r"</su[bp]>|<sub>|\\[ ,;:!]|\\(?:mathrm|text|textrm|rm)?(?![a-z])|[${}()\[\]~*_`]")
BASE_PAIR = re.compile(r"\bbase[ -](pairs?)\b", re.IGNORECASE)
PIECE = re.compile(
    r"\s*(?:(?P<over>/|\bper\b)\s*(?:(?P<of>\d[\d,]*)\s*(?=[^\W\d_]))?)?\s*(?P<name>[^\W\d_]+|[%‰])(?:\s*(?:\^|\*\*|<sup>)\s*)?(?P<power>[-+]?\d{1,2}(?!\d|[.,]\d))?"
)
JOIN = re.compile(r"\s*(?:·|⋅|×|\\cdot|\\times|\*)\s*(?=[^\W\d])")


class Unit(NamedTuple):
    """A unit in terms of base units: `factor` times their powers. `zero` is where its scale begins, in kelvin."""

    factor: float
    powers: frozenset[tuple[str, int]]
    zero: float = 0.0


SHARE = Unit(0.01, frozenset())
SECOND = frozenset({("s", 1)})
GLUED = re.compile(r"(?<![\w.])[-+]?\d+(?:[.,]\d+)?(?=[^\W\d_°]|°)(?![eE][-+]?\d|x ?10)")


@cache
def _table() -> dict[str, tuple[float, dict[str, int]]]:
    rows = words("units")
    known: dict[str, tuple[float, dict[str, int]]] = {}
    for stands_for, written in rows["units"].items():
        scale, powers = 1.0, Counter[str]()
        for part in stands_for.split():
            if not part[0].isalpha():
                scale *= float(part)
                continue
            name = part.rstrip("-0123456789")
            times = int(part[len(name) :] or 1)
            factor, bases = known.get(name, (1.0, {name: 1}))
            scale *= factor**times
            powers.update({base: n * times for base, n in bases.items()})
        for name in written.split():
            plain = name.lstrip("+")
            forms = (plain, f"{plain}s") if len(plain) > 2 else (plain,)
            for form in forms:
                known.setdefault(form, (scale, dict(powers)))
                if name[0] == "+":
                    prefixes = rows["prefix_names" if len(plain) > 3 and plain.islower() else "prefixes"]
                    for prefix, tens in prefixes.items():
                        known.setdefault(prefix + form, (scale * 10.0**tens, dict(powers)))
    return known


@lru_cache(maxsize=4096)
def read_unit(text: str) -> tuple[Unit | None, int]:
    """Return the unit that a text begins with, and where it ends; None, 0 where it begins with none.

    A word that no table knows is a dimension of its own beside a "/": cells/mL, counts per embryo.
    """
    text = BASE_PAIR.sub(lambda found: f"base{found[1]} ", text)
    plain = NOISE.sub(
        lambda found: " " * len(found[0]), JOIN.sub(lambda found: " " * len(found[0]), text.translate(UNIT_POWERS))
    )
    degrees = DEGREES.match(plain, len(plain) - len(plain.lstrip()))
    if degrees:
        name = "°F" if (degrees[1] or degrees[2] or degrees[3])[0].upper() == "F" else "°C"
        scale, zero = words("units")["degrees"][name]
        return Unit(scale, frozenset({("K", 1)}), zero), degrees.end()
    factor, end = 1.0, 0
    powers: Counter[str] = Counter()
    while piece := PIECE.match(plain, end):
        sign, name = -1 if piece["over"] else 1, piece["name"]
        if sign < 0 and not end and not name:
            break
        known = _table().get(name) or _table().get(name.casefold() if len(name) > 3 else name)
        if known is None:
            if sign > 0 and not re.match(r"\s*(?:/|per\b)\s*[^\W\d]", plain[piece.end() :]):
                break
            known = 1.0, {f"?{name.casefold().rstrip('s')}": 1}
        factor *= float((piece["of"] or "1").replace(",", "")) ** sign
        times = sign * int(piece["power"] or 1)
        factor *= known[0] ** times
        for base, n in known[1].items():
            powers[base] += n * times
        end = piece.end()
    if not end:
        return None, 0
    return Unit(factor, frozenset((base, n) for base, n in powers.items() if n)), end


@cache
def unit_of(name: str) -> Unit | None:
    """Return the unit that a question asks for; None where it is a word that no table knows ("DEGs", "codons")."""
    return read_unit(name.partition("(")[0].strip())[0]


def space_units(text: str, unit: str | None) -> str:
    """Return the text with a blank between a number and the unit that stands right behind it: 50mM, 3DEGs."""

    def apart(found: re.Match[str]) -> str:
        behind = text[found.end() : found.end() + 24]
        is_unit = read_unit(behind)[1] or (unit and behind.startswith(unit))
        return f"{found[0]} " if is_unit else found[0]

    return GLUED.sub(apart, text)


def convert(value: float, stated: Unit, asked: Unit) -> float | None:
    """Return a value in the unit asked for; None where the stated one is of another quantity.

    A word that no table knows behind "per" may be left out of what is asked: 10.5 base pairs per turn; what is counted, of
    what is stated: 4.5 × 10^6/mL for cells/mL.
    """
    known = frozenset((base, n) for base, n in stated.powers if n > 0 or base[0] != "?")
    bare = frozenset((base, n) for base, n in asked.powers if n < 0 or base[0] != "?")
    if asked.powers not in (stated.powers, known) and stated.powers != bare:
        return None
    return (value * stated.factor + stated.zero - asked.zero) / asked.factor
