"""Units of numbers: whether a stated one is of the same quantity as the one asked for, and how to convert it.

    factor("mM", "M")            ->  0.001
    factor("g·mol⁻¹", "kg/mol")  ->  0.001
    factor("kg", "g/mol")        ->  None: another quantity

A table of SI prefixes and some forty units (`words/units.toml`). pint knows more of them, but takes half a second to load and reads "kb" as
kilobarn and "bp" as a typographic point.
"""

import re
from collections import Counter
from functools import cache, lru_cache
from typing import NamedTuple

from evals.verifiers.expected import words

DEGREES = re.compile(
    r"(?:°|º|deg(?:rees?)?) ?(C|F)\b|(?:degrees? )?(Celsius|Fahrenheit|centigrade)\b|(?<![\w/])([CF])\b", re.I
)
RAISED = str.maketrans("⁻⁺⁰¹²³⁴⁵⁶⁷⁸⁹−–µμ", "-+0123456789--uu")
NOISE = re.compile(r"\\[ ,;:!]|\\(?:mathrm|text|textrm|rm)?(?![a-z])|[${}()\[\]~*_`]")
PIECE = re.compile(
    r"\s*(?P<over>/|\bper\b)?\s*(?P<name>[^\W\d_]+|[%‰])(?:\s*(?:\^|\*\*)\s*)?(?P<power>[-+]?\d{1,2}(?!\d|[.,]\d))?"
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
    plain = NOISE.sub(
        lambda found: " " * len(found[0]), JOIN.sub(lambda found: " " * len(found[0]), text.translate(RAISED))
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


def spaced(text: str, unit: str | None) -> str:
    """Return the text with a blank between a number and the unit that stands right behind it: 50mM, 3DEGs."""

    def apart(found: re.Match[str]) -> str:
        behind = text[found.end() : found.end() + 24]
        is_unit = read_unit(behind)[1] or (unit and behind.startswith(unit))
        return f"{found[0]} " if is_unit else found[0]

    return GLUED.sub(apart, text)


def convert(value: float, stated: Unit, asked: Unit) -> float | None:
    """Return a value in the unit asked for; None where the stated one is of another quantity.

    A word that no table knows behind "per" may be left out of what is asked: 10.5 base pairs per turn.
    """
    known = frozenset((base, n) for base, n in stated.powers if n > 0 or base[0] != "?")
    if asked.powers not in (stated.powers, known):
        return None
    return (value * stated.factor + stated.zero - asked.zero) / asked.factor
