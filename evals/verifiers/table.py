"""Directions that a markdown table gives by the column in which something stands.

| Tissue | Up | Down |
|--------|----|------|
| thymus |    | x    |        thymus: DOWN

| Tissue | NES  |
|--------|------|
| thymus | -1.9 |             thymus: DOWN
"""

import re

from evals.verifiers.reading import Mark, Reading, Sentence
from evals.verifiers.tokens import word_set

RULE = re.compile(r"\|[ :|]*-{2,}")
"""What stands between the head of a table and its first row."""
AFFIRMED = word_set("x yes y true 1")
SCORES = word_set("nes score")


def is_row(reading: Reading, sentence: Sentence) -> bool:
    """Say whether a sentence is a row of a table."""
    return "|" in reading.gaps[sentence.first]


def is_head(reading: Reading, sentence: Sentence) -> bool:
    """Say whether a sentence is the head of a table, which only names its columns."""
    after = reading.gaps[sentence.last + 1]
    return "-" in after and "|" in after and RULE.search(after) is not None


def column_events(reading: Reading, sentence: Sentence) -> list[Mark]:
    """Return the directions that a row gives by its columns; none without a head that tells."""
    columns = reading.once(_columns).get(sentence.first)
    if not columns:
        return []
    found: list[Mark] = []
    for token, column in _cells(reading, sentence):
        meaning, word = columns.get(column), reading.words[token]
        if meaning in ("UP", "DOWN") and word in AFFIRMED:
            found.append(Mark("direction", meaning, "bare", token, token))
        elif meaning == "NES" and (sign := _sign(reading.gaps[token], word)):
            found.append(Mark("direction", sign, "nes", token, token))
    return found


def _columns(reading: Reading) -> dict[int, dict[int, str]]:
    """Return, for each row by its first token, what the columns of its table mean."""
    meanings: dict[int, dict[int, str]] = {}
    current: dict[int, str] = {}
    for sentence in reading.sentences:
        if is_head(reading, sentence):
            current = _meanings(reading, sentence)
        elif not is_row(reading, sentence):
            current = {}
        elif current:
            meanings[sentence.first] = current
    return meanings


def _meanings(reading: Reading, head: Sentence) -> dict[int, str]:
    said = {mark.first: mark.value for mark in head.marks if mark.kind == "direction"}
    found: dict[int, str] = {}
    for token, column in _cells(reading, head):
        if token in said:
            found[column] = said[token]
        elif reading.words[token] in SCORES:
            found[column] = "NES"
    return found


def _cells(reading: Reading, row: Sentence) -> list[tuple[int, int]]:
    """Return each token of a row with the number of bars before it."""
    found: list[tuple[int, int]] = []
    column = 0
    for token in range(row.first, row.last + 1):
        gap = reading.gaps[token]
        column += (gap.rpartition("\n")[2] if token == row.first else gap).count("|")
        found.append((token, column))
    return found


def _sign(gap: str, word: str) -> str | None:
    if not word[0].isdigit() or not any(digit in "123456789" for digit in word):
        return None
    return "DOWN" if gap.endswith("-") else "UP"
