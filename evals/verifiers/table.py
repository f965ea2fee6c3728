"""Directions that a markdown table gives by the column in which something stands.

| Tissue | Up | Down |
|--------|----|------|
| thymus |    | x    |        thymus: DOWN

| Tissue | NES  |
|--------|------|
| thymus | -1.9 |             thymus: DOWN

| Gene set     | liver | thymus |
|--------------|-------|--------|
| Adipogenesis | up    | down   |        adipogenesis in liver: UP, in thymus: DOWN
"""

import re
from typing import NamedTuple

from evals.verifiers.reading import Mark, Reading, Sentence
from evals.verifiers.tokens import word_set

RULE = re.compile(r"\|[ :|]*-{2,}")
"""What stands between the head of a table and its first row."""
AFFIRMED = word_set("x yes y true 1")
SCORES = word_set("nes score")
SUBJECTS = frozenset(("tissue", "pathway", "mission", "factor", "direction"))
"""Kinds of marks in the head of a column that tell what its cells are of."""

PLACED = SUBJECTS - {"direction", "factor"}


class Row(NamedTuple):
    """A row of a wide table: the column of each of its words, and what the heads of columns name."""

    columns: dict[int, int]
    heads: dict[int, list[Mark]]


def is_row(reading: Reading, sentence: Sentence) -> bool:
    """Say whether a sentence is a row of a table."""
    return "|" in reading.gaps[sentence.first]


def is_head(reading: Reading, sentence: Sentence) -> bool:
    """Say whether a sentence is the head of a table, which only names its columns."""
    after = reading.gaps[sentence.last + 1]
    return "-" in after and "|" in after and RULE.search(after) is not None


def wide_row(reading: Reading, sentence: Sentence) -> Row | None:
    """Return the row that a sentence is; None unless the heads of its columns name what cells are of."""
    if not is_row(reading, sentence):
        return None
    heads = reading.once(_heads).get(sentence.first)
    return Row(dict(_cells(reading, sentence)), heads) if heads else None


def column_events(reading: Reading, sentence: Sentence) -> list[Mark]:
    """Return the directions that a row gives by its columns; none without a head that tells."""
    columns = reading.once(_columns).get(sentence.first, {}) | _scored(reading, sentence)
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


def _scored(reading: Reading, sentence: Sentence) -> dict[int, str]:
    """Return the columns of tissues and sets whose cells are scores: a row of "NES", or with a minus."""
    row = wide_row(reading, sentence)
    if row is None:
        return {}
    words, gaps = reading.words, reading.gaps
    has_sign = any(gaps[t].endswith("-") and "." in words[t] for t in row.columns)
    if not has_sign and SCORES.isdisjoint(words[token] for token in row.columns):
        return {}
    placed = {c for c, marks in row.heads.items() if any(m.kind in PLACED for m in marks)}
    return dict.fromkeys(placed, "NES")


def _heads(reading: Reading) -> dict[int, dict[int, list[Mark]]]:
    """Return, for each row of a wide table by its first token, what the heads of its columns name."""
    found: dict[int, dict[int, list[Mark]]] = {}
    current: dict[int, list[Mark]] = {}
    for sentence in reading.sentences:
        if is_head(reading, sentence):
            column = dict(_cells(reading, sentence))
            current = {}
            for mark in sentence.marks:
                if mark.kind in SUBJECTS:
                    current.setdefault(column[mark.first], []).append(mark)
        elif not is_row(reading, sentence):
            current = {}
        elif current:
            found[sentence.first] = current
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
