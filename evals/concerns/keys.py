"""What models call the parts of a concern, and how such a key looks in broken JSON."""

import re

TEXT_KEYS = (
    *("text", "concern_text", "concern", "comment", "issue", "critique", "weakness"),
    *("description", "point", "question", "problem", "content"),
)
CATEGORY_KEYS = ("category", "type", "label", "kind")
SEVERITY_KEYS = ("severity", "level", "importance", "priority")
PASSED_OVER = frozenset(
    ("strengths", "strength", "positives", "praise", "summary", "recommendation", "references")
)
"""Keys of a review whose texts are no concerns."""

QUOTES = "\"'“”‘’`"
CLOSING = {'"': '"”', "'": "'’", "“": '”“"', "”": '”"', "‘": "’'", "’": "’'", "`": "`'"}
"""Opening quote -> what may close it."""

_KNOWN = "|".join(
    sorted((*TEXT_KEYS, *CATEGORY_KEYS, *SEVERITY_KEYS), key=lambda key: (-len(key), key))
)
_OPEN, _SHUT = rf"[{QUOTES}]", rf"[{QUOTES}]"

ANY_KEY = re.compile(
    rf"{_OPEN}\s?(?P<quoted>[A-Za-z0-9_][\w \-]{{0,39}}){_SHUT}?\s{{0,9}}:(?!//)"
    rf"|(?P<bare>[A-Za-z_]\w{{0,39}}){_SHUT}?\s{{0,9}}:(?!//)"
)
"""A word before a colon, whichever of its quotes are lost; several words only after a quote."""
KNOWN_COLON = re.compile(
    rf"{_OPEN}\s?(?:{_KNOWN})(?:{_SHUT}\s{{0,9}}:|:)|{_OPEN}\s?(?:{_KNOWN}){_SHUT}\s{{0,9}}{_OPEN}",
    re.IGNORECASE,
)
"""A key of ours that can stand nowhere else: with a colon, or with its value's quote after it."""
BARE_OBJECT = re.compile(rf"\{{\s{{0,9}}(?:{_KNOWN})\s{{0,9}}:", re.IGNORECASE)
"""An object whose first key has no quotes."""
LOST_BRACE = re.compile(
    rf"{_OPEN}?\b(?:{'|'.join(sorted(TEXT_KEYS[:2], key=len, reverse=True))}){_SHUT}?\s{{0,9}}:\s{{0,9}}{_OPEN}"
)
"""A concern whose opening brace is lost."""
