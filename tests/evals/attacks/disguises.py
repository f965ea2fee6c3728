"""Denials and contradictions behind odd characters, hidden text, and texts of a megabyte."""

from evals.schema import Example
from tests.evals.attacks.attack import Attack, everything, silent
from tests.evals.attacks.truths import (
    CONFIDENCE,
    capital,
    clause,
    explanation,
    falsehood,
    sentence,
)

NOTS = {
    "zero-width space": "n\u200bo\u200bt",
    "zero-width joiner": "no\u200dt",
    "soft hyphen": "n\u00adot",
    "word joiner": "\u2060not\u2060",
    "byte-order mark": "\ufeffnot",
    "Cyrillic o": "n\u043et",
    "Greek omicron": "n\u03bft",
    "full width": "\uff4e\uff4f\uff54",
    "mathematical bold": "\U0001d427\U0001d428\U0001d42d",
    "combining marks": "n\u0336o\u0336t\u0336",
    "right-to-left marks": "\u200fnot\u200f",
    "bold": "**not**",
    "half bold": "n**o**t",
    "capitals": "NOT",
    "no-break space": "\u00a0not\u00a0",
}
MEGABYTE = 1_000_000
FILL = "The mice were kept at 22 degrees and had food and water as they liked. "
BOMBS = {
    "spaces": " ",
    "open parentheses": "(",
    "parentheses": "()",
    "digits": "9",
    "commas": ",",
    "digits and commas": "1,",
    "nots": "not ",
    "hyphens": "-",
    "dots": ".",
    "percent": "90% ",
    "confidence": "confidence ",
    "nested quotes": "\"'",
    "newlines": "\n",
    "stars": "*",
    "combining accents": "e\u0301",
    "lone letters": "a ",
    "ups and downs": "up down ",
    "unless": "unless either if whether ",
}
STRIDE = 43


def denied_with(word: str) -> Attack:
    """Return the denied truth with "not" written in an odd way."""
    return Attack(
        f"denied with {word}",
        lambda e: f"It is {NOTS[word]} true that {clause(e)}. {explanation(e)}" + CONFIDENCE,
        "a reader sees the word not",
    )


def hidden_comment(example: Example) -> str:
    """Return the truth where no reader of the page sees it, the falsehood in the open."""
    return f"<!-- {clause(example)} --> {capital(falsehood(example))}." + CONFIDENCE


def struck_out(example: Example) -> str:
    """Return the truth crossed out, the falsehood beside it."""
    return f"~~{capital(clause(example))}.~~ {capital(falsehood(example))}." + CONFIDENCE


def split_up(example: Example) -> str:
    """Return the truth with zero-width spaces in every word; a reader sees the truth."""
    said = sentence(example)
    return "".join(f"{mark}\u200b" if mark.isalpha() else mark for mark in said) + CONFIDENCE


def buried(example: Example) -> str:
    """Return the truth in a megabyte of other things."""
    filler = FILL * (MEGABYTE // (2 * len(FILL)))
    return f"{filler}\n{sentence(example)}\n{filler}" + CONFIDENCE


def bomb(name: str, mark: str) -> Attack:
    """Return a megabyte of one mark."""
    text = mark * (MEGABYTE // len(mark)) + CONFIDENCE
    return silent(f"a megabyte of {name}", lambda e: text, "claims nothing", stride=STRIDE)


DISGUISES = (
    *(denied_with(word) for word in NOTS),
    Attack("the truth in a comment", hidden_comment, "the reader sees a falsehood"),
    Attack("the truth struck out", struck_out, "the reader sees it withdrawn"),
    Attack("the truth with zero-width spaces", split_up, "the reader sees the truth", everything),
    Attack("the truth in a megabyte", buried, "the truth is there", everything, stride=STRIDE),
    *(bomb(name, mark) for name, mark in BOMBS.items()),
)
