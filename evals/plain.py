"""Text as a reader sees it, with the way back to where each character stood.

    plain("**NF-κB** ﬁres −1.9").text   ->  "nf-kb fires -1.9"

Lower case; emphasis marks and invisible characters gone; runs of blanks are one blank; typographic
dashes, quotes and digits in their ASCII form; Greek letters spelled the way gene-set names spell them.
"""

import re
import unicodedata
from bisect import bisect_right
from dataclasses import dataclass

ODD = re.compile(r"[*`~]+(?=[*`~\w\s.,:;!?)(]|$)|[ \t]{2,}|[^\x00-\x7f]")
ONE_TO_ONE = str.maketrans({"_": " ", "\t": " ", "\r": "\n", "\f": "\n", "\v": "\n"})
GREEK = {"α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "κ": "k", "μ": "u", "µ": "u"}
TYPOGRAPHY = {
    **dict.fromkeys("‐‑‒–—―−﹣－", "-"),
    **dict.fromkeys("‘’‚′´", "'"),
    **dict.fromkeys("“”„″«»", '"'),
    **dict.fromkeys("\u0085\u2028\u2029", "\n"),
    "×": " x ",
    "↑": " up ",
    "⬆": " up ",
    "↓": " down ",
    "⬇": " down ",
    "≈": "~",
    "∼": "~",
    "…": ".",
    "•": "\n",
}


@dataclass(frozen=True, slots=True)
class Plain:
    """Readable text; `breaks` pairs a place in it with the place in the original it stems from."""

    text: str
    breaks: tuple[tuple[int, int], ...]

    def origin(self, place: int) -> int:
        """Return where in the original the character at `place` stood."""
        if len(self.breaks) == 1:
            return place
        here, there = self.breaks[bisect_right(self.breaks, (place, 1 << 62)) - 1]
        return there + place - here


def plain(text: str) -> Plain:
    """Return `text` as a reader sees it. The empty text stays empty."""
    pieces: list[str] = []
    breaks: list[tuple[int, int]] = [(0, 0)]
    done = length = 0
    for odd in ODD.finditer(text):
        start, end = odd.span()
        instead = _spelled(odd.group())
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


def _spelled(odd: str) -> str:
    if odd[0] in " \t":
        return " "
    if odd[0] in "*`~":
        return "" if odd[0] != "~" or len(odd) > 1 else "~"
    if odd in TYPOGRAPHY:
        return TYPOGRAPHY[odd]
    lowered = odd.lower()
    if lowered in GREEK:
        return GREEK[lowered]
    if unicodedata.category(odd) in ("Cf", "Mn", "Cc"):
        return ""
    if odd.isspace():
        return " "
    spelled = unicodedata.normalize("NFKC", odd).lower()
    return "".join(mark for mark in spelled if unicodedata.category(mark) != "Mn")
