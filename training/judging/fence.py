"""Text that others wrote, put where a judge reads it as data: between fences that it cannot close.

A fence carries a random word that the writer of the text cannot know. Whatever looks like a fence, or
like the marks that chat templates put between turns, is taken out of the text first.
"""

import hashlib
import hmac
import re
import secrets
import unicodedata
from functools import lru_cache

RULES = re.compile(r"===+|-----+")
BOUNDS = re.compile(
    r"(?:BEGIN|END)(?=\s+(?:EVIDENCE|QUESTION|OPTIONS|ANSWER|ITEMS)\b)", re.IGNORECASE
)
TURNS = re.compile(
    r"<(?:\|[^<>|]{1,40}\||<?/?(?:s|sys|system|user|assistant|human|inst|start_of_turn|end_of_turn|bos|eos)>?)>"
    r"|\[/?INST\]",
    re.IGNORECASE,
)
SPEAKERS = re.compile(r"^\s*(?:system|assistant|user|human)\s*:", re.IGNORECASE | re.MULTILINE)
LOOKALIKES: tuple[tuple[re.Pattern[str], tuple[str, ...]], ...] = (
    (RULES, ("===", "-----")),
    (BOUNDS, ("begin", "end")),
    (TURNS, ("<", "[")),
    (SPEAKERS, ("system", "assistant", "user", "human")),
)
"""What is taken out, with the parts that an ASCII text in lower case has if it holds any of it.

To look for these first is ten times as fast as the patterns, and most texts hold none.
"""
REMOVED = "[…]"


class Fences:
    """Makes fences: one word per text for what many requests share, a new one for each answer.

    Equal evidence gets equal fences as long as the object lives, so a server's prefix cache serves
    every answer of a group; a fence for an answer is used once.
    """

    def __init__(self, secret: bytes | None = None) -> None:
        self._secret = secret or secrets.token_bytes(16)

    def shared(self, name: str, text: str) -> str:
        """Return a text between fences whose word follows from the text and our secret."""
        return _shared(self._secret, name, text)

    def single(self, name: str, text: str) -> str:
        """Return a text between fences of a new random word."""
        return fenced(name, text, secrets.token_hex(8))


def fenced(name: str, text: str, word: str) -> str:
    """Return the text between two fences, what imitates fences or turns taken out."""
    return f"=== BEGIN {name} {word} ===\n{harmless(text)}\n=== END {name} {word} ==="


def harmless(text: str) -> str:
    """Return a text in which nothing looks like a fence or a turn of a conversation."""
    visible = text
    if not text.replace("\n", "").replace("\t", "").isprintable():
        visible = "".join(c for c in text if c in "\n\t" or unicodedata.category(c)[0] != "C")
    folded = visible.lower() if visible.isascii() else None
    for pattern, parts in LOOKALIKES:
        if folded is None or any(part in folded for part in parts):
            visible = pattern.sub(REMOVED, visible)
    return visible


@lru_cache(maxsize=256)
def _shared(secret: bytes, name: str, text: str) -> str:
    """Return a text between fences that follow from it; the same evidence is asked about again and again."""
    word = hmac.new(secret, f"{name}\n{text}".encode(), hashlib.sha256).hexdigest()[:16]
    return fenced(name, text, word)
