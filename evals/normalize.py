"""Text as a reader sees it, with the way back to where each character stood.

    plain("**NF-κB** ﬁres −1.9").text   ->  "nf-kb fires -1.9"

Lower case; emphasis marks and invisible characters gone; runs of blanks are one blank; typographic
dashes, quotes and digits in their ASCII form; Greek letters spelled the way gene-set names spell them;
accents dropped, wide, bold and other forms of a letter folded (NFKD), and so are Cyrillic letters that
look like Latin ones.
"""

import re
import unicodedata
from bisect import bisect_right
from functools import lru_cache
from typing import NamedTuple

ODD = re.compile(r"[*`~]+(?=[*`~\w\s.,:;!?)(]|$)|_+|[ \t]{2,}|[^\x00-\x7f]")
EMPHASIS = re.compile(r"[*`~][*`~]*(?=[*`~\w\s.,:;!?)(]|$)")
"""All of ODD that an ASCII text without BLANKS holds; its first class is found at once."""
HALVES = re.compile(
    r"(?P<whole>\\\\|\\u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2})|\\u[dD][89a-fA-F][\da-fA-F]{2}|[\ud800-\udfff]"
)
"""Half a surrogate pair, as a character or as JSON escapes it; `whole` are escapes that are none."""
BLANKS = ("  ", "_", "\t")
ONE_TO_ONE = str.maketrans({"_": " ", "\t": " ", "\r": "\n", "\f": "\n", "\v": "\n"})
GREEK = {"α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "κ": "k", "μ": "u", "µ": "u"}
CONFUSABLES = dict(zip("авекмнорстухіјѕԁԛԝһѵґьзг", "abekmhopctyxijsdqwhvrb3r", strict=True))
"""Cyrillic letters that look like Latin ones (Unicode Technical Standard 39)."""
INSIDE_WORDS = {"α": "a", "β": "b", "γ": "y", "κ": "k"}
"""What Greek letters look like between Latin ones, where no gene name has them ("downregulαted")."""
TYPOGRAPHY = {
    **dict.fromkeys("‐‑‒–—―−﹣－", "-"),
    **dict.fromkeys("‘’‚′´", "'"),
    **dict.fromkeys("“”„″«»", '"'),
    "×": " x ",
    **dict.fromkeys("↑⬆⇑⇧▲▴🔺🔼↗⬈📈👆⤴☝", " up "),
    **dict.fromkeys("↓⬇⇓⇩▼▾🔻🔽↘⬊📉👇⤵", " down "),
    **dict.fromkeys("✓✔✅☑", " yes "),
    **dict.fromkeys("✗✘❌☒", " no "),
    **{sign: f" {top}/{below}" for sign, top, below in ("½12", "⅓13", "⅔23", "¼14", "¾34")},
    "≈": "~",
    "≠": "!=",
    "¬": "!",
    "…": ".",
    "•": "\n",
}

POWERS = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789", strict=True))
"""Raised digits: right behind another one they belong to no number ("3⁹⁵⁵")."""


SIGNS = {"⁻": "-", "⁺": "+"}


class Plain(NamedTuple):
    """Readable text; `breaks` pairs a place in it with the place in the original it stems from."""

    text: str
    breaks: tuple[tuple[int, int], ...]

    def origin(self, place: int) -> int:
        """Return where in the original the character at `place` stood."""
        if len(self.breaks) == 1:
            return place
        after = bisect_right(self.breaks, (place, 1 << 62))
        here, there = self.breaks[after - 1]
        found = there + place - here
        if after == len(self.breaks):
            return found
        # One character may be spelled out as several, which all stood where it stood.
        return min(found, max(there, self.breaks[after][1] - 1))


def whole_characters(text: str) -> str:
    r"""Return a text with half surrogate pairs replaced by "?", also where they are spelled as an escape of JSON.

    Servers cut emoji in two; no file can hold one half.

    >>> whole_characters(r'"cut \ud83d off, whole \ud83d\ude00"')
    '"cut ? off, whole \\ud83d\\ude00"'
    """
    return HALVES.sub(lambda found: found[0] if found.lastgroup == "whole" else "?", text)


def plain(text: str) -> Plain:
    """Return `text` as a reader sees it. The empty text stays empty."""
    pieces: list[str] = []
    breaks: list[tuple[int, int]] = [(0, 0)]
    done = length = 0
    is_even = text.isascii() and not any(map(text.__contains__, BLANKS))
    for odd in (EMPHASIS if is_even else ODD).finditer(text):
        start, end = odd.span()
        instead = _spelled(odd.group(), text[start - 1 : start], text[end : end + 1])
        pieces += (text[done:start], instead)
        length += start - done
        if len(instead) != 1:
            breaks.append((length, start))
        length += len(instead)
        if end - start != len(instead):
            breaks.append((length, end))
        done = end
    pieces.append(text[done:])
    # str.lower keeps the length here: what could grow has been spelled out above.
    return Plain("".join(pieces).translate(ONE_TO_ONE).lower(), tuple(breaks))


def _spelled(odd: str, before: str, after: str) -> str:
    if odd[0] in " \t":
        return " "
    if odd[0] == "_":
        # Between two words it is a blank ("bile_acid"), around them a mark of emphasis.
        return " " if before.isalnum() and after.isalnum() else ""
    if odd[0] in "*`~":
        return "" if odd[0] != "~" or len(odd) > 1 else "~"
    if odd in POWERS and before.isdecimal():  # behind a raised digit it goes on
        return f"^{POWERS[odd]}"
    if odd in SIGNS and before.isdecimal():
        return f"^{SIGNS[odd]}"
    if odd in INSIDE_WORDS and _is_latin(before) and _is_latin(after):
        return INSIDE_WORDS[odd]
    return _letter(odd)


def _is_latin(letter: str) -> bool:
    return letter.isascii() and letter.islower()


@lru_cache(maxsize=4096)
def _letter(odd: str) -> str:
    """Return what a character outside ASCII is read as."""
    if odd in TYPOGRAPHY:
        return TYPOGRAPHY[odd]
    if odd in CONFUSABLES:
        return CONFUSABLES[odd]
    lowered = odd.lower()
    if lowered in GREEK:
        return GREEK[lowered]
    if unicodedata.category(odd) in ("Cf", "Mn", "Me", "Cc"):
        return ""
    if odd.isspace():
        return " "
    spelled = unicodedata.normalize("NFKD", odd).lower()
    return "".join(CONFUSABLES.get(m, m) for m in spelled if unicodedata.category(m) != "Mn")
