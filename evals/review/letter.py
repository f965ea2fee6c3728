"""A review in words: a list in Markdown with what each concern quotes, or a letter to the authors."""

import unicodedata
from collections.abc import Sequence

from evals.schema.reviewruns import Place
from evals.schema.reviews import Concern

HEADINGS = {
    "major": "Major concerns",
    "minor": "Minor concerns",
    "optional": "Suggestions",
    "unknown": "Further concerns",
}
JOINERS = "\u200c\u200d"


def as_markdown(title: str, concerns: Sequence[tuple[Concern, Place | None]], by: str) -> str:
    """Return concerns as a numbered list, each with its place in the paper where it has one; `by` says who wrote it."""
    lines = [f"# Review of “{line(title)}”", ""]
    for number, (each, place) in enumerate(concerns, 1):
        lines.append(f"{number}. **{each.severity}, {each.category.replace('_', ' ')}.** {line(each.text)}")
        if place is not None:
            page = f" (page {place.page})" if place.page else ""
            lines.append(f"   > {line(place.quote)}{page}")
    return "\n".join([*lines, "", line(by), ""])


def as_letter(title: str, concerns: Sequence[Concern]) -> str:
    """Return concerns as a letter to the authors, by severity."""
    opening = "These are my concerns." if concerns else "I have no concerns."
    lines = ["Dear authors,", "", f"thank you for “{line(title)}”. {opening}", ""]
    number = 0
    for severity, heading in HEADINGS.items():
        found = [each for each in concerns if each.severity == severity]
        lines += [f"## {heading}", ""] if found else []
        for each in found:
            number += 1
            lines += [f"{number}. {line(each.text)}", ""]
    return "\n".join(lines)


def line(text: str) -> str:
    r"""Return a text on one line, without characters that nobody sees: marks of direction, controls, zero-width blanks.

    Joiners of letters and emoji stay.

    >>> line("p\u202e50.0 = a\n\x1b[2J b")
    'p50.0 = a [2J b'
    """
    words = " ".join(text.split())
    return "".join(each for each in words if each in JOINERS or unicodedata.category(each) not in ("Cc", "Cf", "Cs"))
