r"""Text as a reader sees it, and the confidence that an answer states about itself in prose.

`plain` gives lower case without emphasis marks and invisible characters, runs of blanks as one, typographic dashes,
quotes and digits in their ASCII form, Greek letters spelled the way gene-set names spell them, accents dropped and other
forms of a letter folded (NFKD, Cyrillic look-alikes), with the way back to where each character stood:

    plain("**NF-κB** ﬁres −1.9").text             ->  "nf-kb fires -1.9"

A confidence is read where it is stated, and never guessed from the tone:

    "… is downregulated.\nConfidence: 80%"        ->  0.80, stated
    "I am 95.5 % confident …"                     ->  0.955, stated
    "**Confidence:** high"                        ->  0.85, stated (table WORDS)
    "… with padj 0.05."                           ->  None, missing
    "Confidence: 140%", or 80% here and 20% there ->  None, invalid

Statistics, and what is denied, supposed, quoted or said of data or of others, state nothing about the answer.
`evals.verifiers.line` reads a last line "Confidence: N%"; here are the forms that models write elsewhere.
"""

import re
import tomllib
import unicodedata
from bisect import bisect_right
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from evals.schema import StatedConfidence

ODD = re.compile(r"[*`~]+(?=[*`~\w\s.,:;!?)(]|$)|_+|[ \t]{2,}|[^\x00-\x7f]|</?[sS][uU][bBpP]>")
EMPHASIS = re.compile(r"[*`~][*`~]*(?=[*`~\w\s.,:;!?)(]|$)")
"""All of ODD that an ASCII text without BLANKS holds; its first class is found at once."""
HALVES = re.compile(
    r"(?P<whole>\\\\|\\u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2})|\\u[dD][89a-fA-F][\da-fA-F]{2}|[\ud800-\udfff]"
)
"""Half a surrogate pair, as a character or as JSON escapes it; `whole` are escapes that are none."""
BLANKS = ("  ", "_", "\t", "</")
ONE_TO_ONE = str.maketrans({"_": " ", "\t": " ", "\r": "\n", "\f": "\n", "\v": "\n"})
GREEK = {"α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "κ": "k", "μ": "u", "µ": "u"}
CONFUSABLES = dict(zip("авекмнорстухіјѕԁԛԝһѵґьзг", "abekmhopctyxijsdqwhvrb3r", strict=True))
"""Cyrillic letters that look like Latin ones (Unicode Technical Standard 39)."""
INSIDE_WORDS = {"α": "a", "β": "b", "γ": "y", "κ": "k"}
"""What Greek letters look like between Latin ones, where no gene name has them ("downregulαted")."""
_TABLES = tomllib.loads(Path(__file__).with_name("wording.toml").read_text(encoding="utf-8"))
TYPOGRAPHY = {sign: shown for shown, signs in _TABLES["typography"].items() for sign in signs}
POWERS = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789", strict=True))
"""Raised digits: right behind another one they belong to no number ("3⁹⁵⁵")."""


SIGNS = {"⁻": "-", "⁺": "+"}
SCRIPTS = re.compile(r"</?[sS][uU][bBpP]>|[⁰-⁹²³¹⁺⁻₀-₉₊₋]")
"""What raises or lowers digits, and digits that are raised or lowered."""


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
        instead = _plain_spelling(odd.group(), text[start - 1 : start], text[end : end + 1])
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


def _plain_spelling(odd: str, before: str, after: str) -> str:
    if odd[0] in " \t":
        return " "
    if odd[0] == "_":
        # Between two words it is a blank ("bile_acid"), around them a mark of emphasis.
        return " " if before.isalnum() and after.isalnum() else ""
    if odd[0] == "<":  # "10<sup>-3</sup>" is 10^-3, "CO<sub>2</sub>" CO2
        return "^" if odd[1:].lower() == "sup>" and before.isdecimal() and not after.isalpha() else ""
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


def level(text: str) -> str:
    """Return the text with its raised and lowered digits on the line.

    >>> level("Ca²⁺, CO<sub>2</sub>, 10<sup>-3</sup>")
    'Ca2+, CO2, 10^-3'
    """
    return SCRIPTS.sub(
        lambda found: _plain_spelling(found[0], text[found.start() - 1 : found.start()], text[found.end() :][:1]), text
    )


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


VERSION = "confidence-5"
WORDS: dict[str, float] = _TABLES["words"]
"""What "high confidence" counts as."""
ADVERBS: dict[str, float] = _TABLES["adverbs"]
"""What "highly confident" counts as."""
APART = 0.25
"""How far a number may be from the word beside it without contradicting it."""
REACH = 60
"""How many characters before a statement may say whose it is."""
FIGURE = (
    r"[-+]?(?:\d{1,30}(?:\.\d{1,6}|,\d{1,2})?|\.\d{1,6})(?![\d.,]*\d)(?: ?%? ?(?:-|~|to) ?\d{1,3}(?:\.\d{1,6})?(?!\d))?"
    r"(?: ?(?:[\\*]{0,2}%|percent\b|per cent\b)| ?(?:/|\(?out of) ?\d{1,4}(?!\d))?"
)
NUMBER = re.compile(FIGURE)
PARTS = re.compile(
    r"(?P<low>[-+]?[\d.,]+)(?: ?%? ?(?:-|~|to) ?(?P<high>[\d.]+))?(?: ?(?:/|\(?out of) ?(?P<scale>\d+)| ?(?P<percent>\D+))?"
)
WORD = re.compile(rf"(?:{'|'.join(sorted(WORDS, key=len, reverse=True))})(?![\w-]| to\b)")
LABEL = re.compile(
    r"(?<!<!-- )\b(?:confidence|certainty)(?: (?:level|score|rating))?"
    r"(?:[\"']? ?(?:->|→|[:=|-])[ |\"'$]{0,3}| (?:is|was|of|at) | (?=\d{1,3}(?:\.\d{1,6})? ?%))"
    r"(?:(?:about|around|roughly|approximately|at least) |[~≥>] ?)?(?!0 ?(?:-|to) ?1|50 ?/ ?50)"
)
BEFORE = re.compile(
    rf"(?<![\w.,%-])(?<!and )(?<!to )(?P<value>{FIGURE}|{WORD.pattern}|(?:{'|'.join(ADVERBS)})\b) (?:degree of )?"
    r"(?:confiden(?:ce|t)|certain(?:ty)?|sure)\b"
)
MARKED = re.compile(r"[%p./]")
"""In a number: a percent sign, a point or a scale shows that it is a share."""
BESIDE = re.compile(r"(?: (?:in|of|about|that) [^\n.;:()]{1,40})? ?\((?=\d)| ?\(|, ")
THINGS = re.compile(r" [a-z]|e[-+\d]")
"""After a bare number: it counts things, and is no certainty."""
CHOICE = re.compile(r"[ ,(]{1,3}(?:or|maybe|perhaps|but|->)[a-z ]{0,15}\d")
NOT_OWN = re.compile(
    r"(?:\b(?:not|cannot|never|nobody|if|unless|suppose|would|their|his|her|your|authors|they|says?|said|asks?|form|format"
    r"|significan\w*|threshold|using|data|measurements)\b|n't\b|\be\.g\.)[^.;!?\n]*\Z"
)
OF_OTHERS = re.compile(
    r"[\"')]? ?\?| if |[ -](?:intervals?|limits?|bounds?|levels?|ci|genes?)\b|[ -]in [^.\n]{0,20}\b(?:data|measurements)\b"
)


class Statement(NamedTuple):
    """One place where a confidence is stated. `value` None = stated in a way that has no value."""

    value: float | None
    is_word: bool
    start: int
    end: int


MISSING = StatedConfidence(value=None, status="missing")


def read_confidence(text: str) -> StatedConfidence:
    """Return the confidence that `text` states, or why there is none.

    Repeating the same value is fine; different numbers, or a number far from a word, contradict each other and are
    invalid. `quote` is the first statement.
    """
    page = plain(text)
    return resolve_confidence(text, page, statements(page.text))


def resolve_confidence(text: str, page: Plain, found: list[Statement]) -> StatedConfidence:
    """Return the one confidence that the statements found on the page of `text` agree on."""
    if not found:
        return MISSING
    quote = text[page.origin(found[0].start) : page.origin(found[0].end - 1) + 1].strip()
    value = _agreement(found)
    return StatedConfidence(value=value, status="invalid" if value is None else "stated", quote=quote)


def statements(page: str) -> list[Statement]:
    """Return every statement of a confidence in plain text, in order. Time is linear in the text."""
    if not any(stem in page for stem in ("confiden", "certain", "sure")):
        return []
    found = [_value_at(page, label.start(), label.end()) for label in LABEL.finditer(page)]
    for said in BEFORE.finditer(page):
        value = said["value"]
        is_word = value in WORDS or value in ADVERBS
        share = {**WORDS, **ADVERBS}[value] if is_word else share_of(value)
        if is_word or MARKED.search(value):
            found.append(_with_other(page, Statement(share, is_word, *said.span())))
    own: list[Statement] = []
    for each in sorted((each for each in found if each), key=lambda each: each.start):
        ahead = page[max(0, each.start - REACH) : each.start]
        is_own = not NOT_OWN.search(ahead) and not OF_OTHERS.match(page, each.end)
        if is_own and (not own or each.start >= own[-1].end):
            own.append(each)
    return own


def _value_at(page: str, start: int, at: int) -> Statement | None:
    """Return the number or word at a place behind a label, with the other form of it beside it."""
    if word := WORD.match(page, at):
        return _with_other(page, Statement(WORDS[word[0]], True, start, word.end()))
    number = NUMBER.match(page, at)
    if number is None or page.startswith(" of ", number.end()):
        return None
    if number[0][-1].isdigit() and "/" not in number[0] and THINGS.match(page, number.end()):
        return None
    value = None if CHOICE.match(page, number.end()) else share_of(number[0])
    return _with_other(page, Statement(value, False, start, number.end()))


def _with_other(page: str, said: Statement) -> Statement:
    """Return a statement with what stands beside it: "high (85%)", "85%, high"."""
    beside = BESIDE.match(page, said.end)
    if beside is None or not (other := WORD.match(page, beside.end()) or NUMBER.match(page, beside.end())):
        return said
    is_word = other[0] in WORDS
    if not is_word and not MARKED.search(other[0]):
        return said
    again = Statement(WORDS[other[0]] if is_word else share_of(other[0]), is_word, said.start, other.end())
    return again._replace(value=_agreement([said, again]), is_word=said.is_word and is_word)


def share_of(figure: str) -> float | None:
    """Return a share from "80%", "8/10", "0.8", "70-80 percent"; None where it has none."""
    parts = PARTS.fullmatch(figure)
    if parts is None or parts["low"].startswith("-"):
        return None
    values = [float(each.replace(",", ".")) for each in (parts["low"], parts["high"]) if each]
    largest = max(values)
    top = float(parts["scale"] or 0) or (100.0 if parts["percent"] or largest > 10 else 1.0)
    return sum(values) / len(values) / top if largest <= top else None


def _agreement(found: list[Statement]) -> float | None:
    """Return what all statements say, the number where one is stated; None where they contradict each other."""
    values = [each.value for each in found if each.value is not None]
    numbers = {round(each.value, 9) for each in found if each.value is not None and not each.is_word}
    words = {each.value for each in found if each.value is not None and each.is_word}
    if len(values) < len(found) or len(numbers or words) > 1:
        return None
    value = (numbers or words).pop()
    return None if any(abs(value - each) > APART for each in words) else value
