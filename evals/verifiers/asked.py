"""What the question says: its text as a reading, the figure it quotes, whether yes or no answers it.

question "A summary gives 4,848 DEGs. Does that match?"
    "The summary says 4,848, but it is 8,484."   4,848 is a quote
    "The quoted 4,848 is right."                 4,848 is stated
"""

import re
from functools import lru_cache

from evals.verifiers.genes import described
from evals.verifiers.lexicon import phrases
from evals.verifiers.reading import Mark, Reading, read
from evals.verifiers.scope import Scope

QUOTING = frozenset(
    word
    for (word,) in phrases(
        "summary; draft; quote; quotes; quoted; someone; claimed; claims; claim; note; student; colleague;"
        " question; mentioned; mentions; suggested; suggests; given; said; says; listed; asserted; stated;"
        " reported; read; report; instead; figure; person; slide; text; wrote"
    )
)
CONFIRMING = frozenset(
    (
        "right",
        "correct",
        "correctly",
        "matches",
        "match",
        "true",
        "accurate",
        "confirmed",
        "confirm",
        "agree",
        "agrees",
    )
)
ASKS_BACK = re.compile(
    r"(?:\b(?:is|are|was|does|do|did|has|have|can|could|isn't|doesn't)\b[^?]*|\b(?:right|correct|true|ok)\s*)\?\s*$"
    r"|\bplease (?:check|verify|confirm)",
    re.IGNORECASE,
)
"""How a question ends that can be answered by yes or no."""


OPENING = re.compile(r"(^|[.?!]\s+)(?=\w)")
"""Where a sentence of the question begins. A word put there keeps it from being read as a question."""
LONGEST = 300
"""How many characters at the end of a question tell how it is asked."""


@lru_cache(maxsize=256)
def question_reading(question: str) -> Reading:
    """Return a question read as if it were stated, for the names and figures in it."""
    return read(OPENING.sub(r"\1asked ", question).replace("?", "."))


@lru_cache(maxsize=256)
def asks_back(question: str) -> bool:
    """Say whether a question can be answered by yes or no."""
    return ASKS_BACK.search(question[-LONGEST:]) is not None


@lru_cache(maxsize=256)
def quoted_figure(question: str) -> float | None:
    """Return the one count of genes that a yes/no question quotes, None if there is none or several."""
    if not asks_back(question):
        return None
    figures = [n for _, found in described(question_reading(question)) for n in found]
    exact = {n.low for n in figures if n.form == "exact"}
    return exact.pop() if len(exact) == 1 and len(figures) == 1 else None


def quotes(scope: Scope, event: Mark, is_same: bool) -> bool:
    """Say whether a figure, the same as in the question, is only taken over from it."""
    if not is_same or scope.is_negated(event):
        return False
    start, clause = scope.clause_start(event.first), scope.clause(event.first)
    end = scope.starts[clause + 1] if clause + 1 < len(scope.starts) else scope.sentence.last + 1
    said = set(scope.reading.words[start:end])
    return bool(said & QUOTING) and not said & CONFIRMING
