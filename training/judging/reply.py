"""A judge's reply, read strictly: what is no clear verdict is none.

Not taken: NaN, true and false, texts that are no numbers, an item graded twice in different ways, a
behaviour that is said to be there without words of the answer that show it. Numbers out of range are
clamped. Names that were not asked for are passed over.
"""

import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from evals.plain import plain
from evals.refiner.judging import number_of
from training.judging.questions import CANARY, Question

DECODER = json.JSONDecoder()
BETWEEN = re.compile(r"[\W_]+")


class Verdict(NamedTuple):
    """A number on the question's scale and the words of the answer that it rests on."""

    score: float
    quote: str


def read_reply(text: str, questions: Mapping[str, Question], answer: str) -> dict[str, Verdict]:
    """Return the verdicts of a reply by the key of their question; those that are none are left out."""
    found: dict[str, Verdict] = {}
    spoiled: set[str] = set()
    for row in _rows(text):
        name = row.get("item")
        question = questions.get(name) if isinstance(name, str) else None
        if question is None:
            continue
        verdict = _verdict(row, question, answer)
        if verdict is None or found.get(question.key, verdict).score != verdict.score:
            spoiled.add(question.key)
        else:
            found[question.key] = verdict
    return {key: verdict for key, verdict in found.items() if key not in spoiled}


def _verdict(row: Mapping[str, object], question: Question, answer: str) -> Verdict | None:
    number = number_of(row.get("score"))
    if number is None:
        return None
    shown = _writable(row.get("evidence_quote"))
    score = min(question.top, max(0.0, number))
    needs_quote = question.kind == "behaviour" and question.key != CANARY
    if needs_quote and score > 0 and not stands_in(shown, answer):
        return None
    return Verdict(score, shown)


def _writable(quote: object) -> str:
    """Return a quote without halves of characters: JSON can spell them, no file can hold them."""
    return quote.encode("utf-8", "replace").decode() if isinstance(quote, str) else ""


def stands_in(quote: str, answer: str) -> bool:
    """Return whether the words of a quote stand in the answer, case, marks and blanks aside."""
    wanted = _words(quote)
    return bool(wanted) and f" {wanted} " in f" {_words(answer)} "


@lru_cache(maxsize=1024)
def _words(text: str) -> str:
    """Return the words of a text with a blank between; every item of a reply is held against one answer."""
    return BETWEEN.sub(" ", plain(text).text).strip()


def _rows(text: str) -> list[Mapping[str, object]]:
    """Return the rows of the first JSON object in a text that holds verdicts; empty if there is none."""
    for document in objects(text):
        rows = document.get("verdicts")
        if isinstance(rows, list):
            return [row for row in rows if isinstance(row, dict)]
    return []


def objects(text: str) -> Iterator[dict[str, object]]:
    """Yield the JSON objects in a text, whatever stands around them."""
    at = text.find("{")
    while at >= 0:
        try:
            document, end = DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):  # the latter where brackets are nested a thousand deep
            at = text.find("{", at + 1)
            continue
        yield document
        at = text.find("{", end)
