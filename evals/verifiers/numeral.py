"""Numbers in words, words that multiply a figure, and words that make it about, over or under.

"eight thousand four hundred and eighty-four"   8484
"eight and a half thousand", "8.5 thousand"     8500, rounded
"a dozen", "hundred"                            12, 100
"""

from collections.abc import Sequence
from typing import NamedTuple

from evals.verifiers.lexicon import phrases


def _listed(text: str) -> list[str]:
    return [word for (word,) in phrases(text)]


SMALL = {
    word: value
    for value, word in enumerate(
        _listed(
            "zero; one; two; three; four; five; six; seven; eight; nine; ten; eleven; twelve; thirteen;"
            " fourteen; fifteen; sixteen; seventeen; eighteen; nineteen"
        )
    )
}
TENS = {
    word: 10 * value
    for value, word in enumerate(
        _listed("twenty; thirty; forty; fifty; sixty; seventy; eighty; ninety"), start=2
    )
}
SCALES = {"hundred": 100, "thousand": 1000, "million": 1_000_000, "dozen": 12}
NOTHING = frozenset(("no", "none", "not"))
"""Words for zero where a count is asked for; "not" only in "not a single"."""
SPELLED = frozenset((*SMALL, *TENS, *SCALES, *NOTHING))
"""Words that a number in words may begin with; "a hundred" begins at "hundred"."""

APPROXIMATE = frozenset(
    _listed("about; approximately; approx; roughly; around; nearly; almost; circa; ca; close; some")
)
AT_LEAST = frozenset(
    phrases(
        "more than; greater than; larger than; higher than; above; over; at least; exceeds; exceeding;"
        " exceed; beyond; no fewer than; no less than; not less than; upwards of"
    )
)
AT_MOST = frozenset(
    phrases(
        "fewer than; less than; lower than; smaller than; below; under; at most; up to; no more than;"
        " not more than; short of"
    )
)
NAMERS = frozenset(
    _listed(
        "type; class; table; figure; fig; panel; group; factor; version; v; chapter; step; day; week;"
        " month; rank; ranked; top; page; no; number; ref; equation; eq; cluster; stage; phase; section;"
        " task; question; mission; complex"
    )
)
"""A figure right after one of these is a name ("type 2", "day 37"), not an amount."""

LONGEST = 12
"""Words that one number may have."""
POWERS = {"hundred": 2, "thousand": 3, "million": 6}
JOINS = frozenset((" ", "-"))


class Spelled(NamedTuple):
    """A number in words that ends at token `last`; `is_round` where it says "and a half"."""

    value: int
    last: int
    is_round: bool


def spelled(words: Sequence[str], gaps: Sequence[str], first: int, end: int) -> Spelled | None:
    """Return the number in words that begins at token `first`, None where it is not one."""
    if words[first] == "not":
        is_none = list(words[first + 1 : first + 3]) in (["a", "single"], ["one", "single"])
        return Spelled(0, first + 2, False) if is_none and first + 2 <= end else None
    if words[first] in NOTHING:
        return Spelled(0, first, False)
    total = group = 0.0
    last, previous, is_round = first - 1, 0, False
    token = first
    while token <= min(end, first + LONGEST) and (token == first or gaps[token] in JOINS):
        word = words[token]
        if word in SMALL or word in TENS:
            value = SMALL.get(word) or TENS.get(word, 0)
            if group and not _may_follow(previous, value):
                break
            group, previous = group + value, value
        elif word in SCALES and word != "dozen":
            scale = SCALES[word]
            group = (group or 1) * scale
            if scale >= 1000:
                total, group = total + group, 0.0
            previous = scale
        elif word == "dozen":
            return Spelled(int(12 * (group or 1)), token, False)
        elif list(words[token : token + 3]) == ["and", "a", "half"] and previous:
            group, is_round, token = group + 0.5, True, token + 2
        elif word != "and" or not _goes_on(words, token, end, previous):
            break
        if word != "and" or is_round:
            last = token
        token += 1
    value = total + group
    if last < first or value != int(value):
        return None
    return Spelled(int(value), last, is_round)


def multiplied(words: Sequence[str], gaps: Sequence[str], last: int, end: int) -> tuple[int, int]:
    """Return the power of ten that follows a figure, and its last token: "8.5 thousand", "3 x 10^4"."""
    following = list(words[last + 1 : min(last + 4, end + 1)])
    if not following or gaps[last + 1] not in (" ", "-"):
        return 0, last
    if following[0] == "k":
        return 3, last + 1
    if following[0] in POWERS:
        return POWERS[following[0]], last + 1
    if following[:2] == ["x", "10"] and len(following) == 3 and following[2].isdecimal():
        sign = {"^": 1, "^-": -1, "-": -1, "^(-": -1}.get(gaps[last + 3])
        if sign and len(following[2]) <= 2:
            return sign * int(following[2]), last + 3
    return 0, last


def _may_follow(previous: int, value: int) -> bool:
    """Say whether "eighty" may go on with "four", "hundred" with "eighty"."""
    return previous >= 100 > value or (20 <= previous < 100 and 0 < value < 10)


def _goes_on(words: Sequence[str], token: int, end: int, previous: int) -> bool:
    """Say whether "and" stands inside a number ("four hundred and eighty")."""
    if previous < 100 or token >= end:
        return False
    return words[token + 1] in SMALL or words[token + 1] in TENS
