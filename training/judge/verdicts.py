"""Verdicts of a model on concerns: what it is asked, how its reply is read, and when a contradiction counts."""

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

from evals.review.parse import plain_label
from evals.review.places import LITTLE, WORD, Map
from evals.schema.articles import Place
from training.judge.prompts import Fences, conversation, instruction, objects, reply_schema

MARKS = re.compile('["“”«»]')
STATUSES = ("supported", "contradicted", "not_checkable")
LONGEST_QUOTE = 400
Verdict = tuple[str, str]
"""A word and a quote."""


@cache
def verdict_schema(allowed: tuple[str, ...]) -> dict[str, Any]:
    """Return the schema of a reply with one of these words and a quote for each item."""
    words = {"type": "string", "enum": list(allowed)}
    row = {"item": {"type": "integer"}, "verdict": words, "quote": {"type": "string"}}
    item = {"type": "object", "additionalProperties": False, "required": list(row), "properties": row}
    return reply_schema("verdicts", {"verdicts": {"type": "array", "items": item}})


def read_verdicts(text: str, n: int, allowed: Sequence[str]) -> dict[int, Verdict]:
    """Return the verdicts in a reply by the number of their item, 1 to `n`; words that are none of these are left out.

    Case, blanks, hyphens and a full stop do not count: "Not checkable." is not_checkable.
    """
    found: dict[int, Verdict] = {}
    for document in objects(text):
        rows = document.get("verdicts", [document])
        for row in rows if isinstance(rows, list) else ():
            if not isinstance(row, dict):
                continue
            word, number = plain_label(str(row.get("verdict"))), re.search(r"\d+", str(row.get("item")))
            if word in allowed and number and 1 <= int(number[0]) <= n:
                found.setdefault(int(number[0]), (word, str(row.get("quote") or "")))
    return found


def grounding_messages(concerns: Sequence[str], paper: str, fences: Fences) -> list[dict[str, str]]:
    """Return the question whether a paper bears out what concerns say of it."""
    listed = "\n".join(f"{number}. {text}" for number, text in enumerate(concerns, start=1))
    return conversation(instruction("grounding"), [fences.shared("PAPER", paper), fences.shared("CONCERNS", listed)])


def quoted_place(quote: str, places: Map) -> Place | None:
    """Return where the words that a model quotes stand in the paper, the first 400 characters of them; None where not."""
    words = " ".join(MARKS.sub(" ", quote).split())
    if len(words) > LONGEST_QUOTE:
        words = words[:LONGEST_QUOTE].rpartition(" ")[0]
    place = places.place(f'"{words}"') if words else None
    return place if place is not None and place.is_quoted else None


def contradicting(concern: str, quote: str, places: Map) -> Place | None:
    """Return where the sentence stands that a judge says contradicts a concern; None where it does not count.

    It stands in the paper word for word and speaks of the same: it shares two telling words with the concern, and a
    third of them.
    """
    place = quoted_place(quote, places)
    if place is None:
        return None
    said, shown = (
        {word for each in WORD.findall(text.lower()) if (word := each.rstrip("s")) and each not in LITTLE}
        for text in (concern, place.quote)
    )
    return place if len(said & shown) >= max(min(2, len(said)), len(said) / 3) else None
