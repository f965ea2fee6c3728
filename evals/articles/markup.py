"""HTML inside text taken away; what only looks like it, such as p < 0.05, stays."""

import html
import re
from html.entities import html5

TAGS = (
    "a|abbr|article|b|big|blockquote|body|br|button|center|cite|code|dd|del|div|dl|dt|em|figcaption|figure"
    "|font|h[1-6]|head|header|hr|html|i|iframe|img|input|ins|label|li|main|mark|meta|nav|object|ol|p|pre|q|s"
    "|noscript|script|section|small|span|strike|strong|style|sub|sup|svg|table|tbody|td|tfoot|th|thead|tr|tt|u|ul|video|wbr"
)
TAG = re.compile(rf"</?(?:{TAGS})(?:\s[^<>]*)?/?>", re.I)
UNSEEN = re.compile(
    r"<(?P<open>script|style|noscript)\b[^<>]*>|</(?P<close>script|style|noscript)\s*>|<!(?=--)|-->",
    re.I,
)
BREAK = re.compile(
    r"<(?:br|hr)(?:\s[^<>]*)?/?>|</(?:p|div|li|tr|h[1-6]|blockquote|section)\s*>", re.I
)
ITEM = re.compile(r"<li(?:\s[^<>]*)?>", re.I)
POWER = re.compile(r"(?<=\d)<sup(?:\s[^<>]*)?>\s*([-−+]?\d+)\s*</sup>", re.I)
ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
INVISIBLE = str.maketrans({"\u00ad": "", "\u200b": "", "\ufeff": "", "\u00a0": " ", "\x00": ""})
SPACES = re.compile(r"[^\S\n]+")
BLANK_LINES = re.compile(r"\n{3,}")


def without_markup(text: str) -> str:
    """Return text without HTML: tags by name go, scripts go with what is in them, entities are read.

    >>> without_markup("10<sup>6</sup> cells, <i>p</i> &lt; 0.05, if n < 5 and k > 3")
    '10^6 cells, p < 0.05, if n < 5 and k > 3'
    """
    if "<" in text:
        text = _seen(text)
        text = POWER.sub(r"^\1", text)
        text = ITEM.sub("\n- ", BREAK.sub("\n", text))
        text = TAG.sub("", text)
    if "&" in text:
        text = ENTITY.sub(_character, text)
    return tidy(text)


def _character(entity: re.Match[str]) -> str:
    """Return the character that an entity stands for; an unknown one as it is written."""
    is_known = entity[0][1] == "#" or entity[0][1:] in html5
    return html.unescape(entity[0]) if is_known else entity[0]


def _seen(text: str) -> str:
    """Return text without scripts, styles and comments, read once; what is never closed is kept."""
    kept: list[str] = []
    at, inside = 0, ""
    for mark in UNSEEN.finditer(text):
        opened = (mark["open"] or ("--" if mark[0] == "<!" else "")).lower()
        closed = (mark["close"] or ("--" if mark[0] == "-->" else "")).lower()
        if not inside and opened:
            kept.append(text[at : mark.start()])
            at, inside = mark.start(), opened
        elif inside and closed == inside:
            at, inside = mark.end(), ""
    return " ".join([*kept, text[at:]])


def tidy(text: str) -> str:
    """Return text with single spaces, no spaces at line ends, at most one blank line, nothing unseen."""
    text = SPACES.sub(" ", text.translate(INVISIBLE))
    lines = (line.strip() for line in text.split("\n"))
    return BLANK_LINES.sub("\n\n", "\n".join(lines)).strip()
