"""The Ask tab; and what the page and the commands call a claim's verdict."""

from evals.refine.judge import HeuristicJudge
from lab.ui.text import say


def support_kind(support: float | None) -> str:
    """Return how far a claim is supported, as a word: full, half, none or missing."""
    if support is None:
        return "missing"
    return "full" if support >= 1.0 else "half" if support > 0.0 else "none"


def support_word(support: float | None, judge: str) -> str:
    """Return a claim's verdict in words; a judge that compares words can say that words match, not that it is supported."""
    return say(f"refine.support.{support_kind(support)}{'' if support is None else by_words(judge)}")


def by_words(judge: str) -> str:
    """Return ".words" for the judge that compares words: the end of the keys of what the page says of its verdicts."""
    return ".words" if judge == HeuristicJudge.label else ""
