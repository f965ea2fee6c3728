"""What models write before a concern: bullets, numbers and severities that are no part of what it says."""

import re

from evals.concerns.labels import severity_of
from evals.schema.reviews import UNKNOWN

MOST = 4
"""Leads that may stand one before the other: "- **Minor concern 2:** 1) ..."."""

_SEVERITY = (
    r"major|minor|optional|critical|essential|serious|severe|fatal|moderate|trivial|suggestion"
)
_NOUN = r"concerns?|comments?|issues?|points?|weakness(?:es)?|problems?|criticisms?"
_COUNT = r"(?:no\.?\s*|\#\s*)?[(\[]?\d{1,3}(?:\.\d{1,2})?[)\]]?"
_MARKS = r"[*_]{0,3}"
_END = r"\s*(?:[.:)\]]|[-–—](?=\s))"
_STARTS = r"(?=[*_]{0,3}[\"“‘'(\[]?[^\W_])"
"""What follows a lead: a word, in marks or quotes if it likes."""
_LEADS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        # "Major 1.", "**Minor concern #2:**", "Concern 3 -", "(Major) 1:"
        rf"{_MARKS}[(\[]?(?:(?P<severity>{_SEVERITY})[)\]]?\s+)?(?:(?:{_NOUN})\s*)?(?<=[a-z)\]\s]){_COUNT}"
        rf"{_MARKS}{_END}{_MARKS}\s+{_STARTS}",
        # "Major:", "[Minor]", "**Major concern.**", "Suggestion -"
        rf"{_MARKS}[(\[]?(?P<severity>{_SEVERITY})(?:\s+(?:{_NOUN}))?{_MARKS}{_END}{_MARKS}\s+{_STARTS}",
        # "Concern:", "**Comment:**"
        rf"{_MARKS}(?:{_NOUN}){_MARKS}\s*:{_MARKS}\s+{_STARTS}",
        # "1.", "(2)", "**3)**", "#4:", "a)"
        rf"{_MARKS}(?:\#?\d{{1,2}}[.):]|\(\d{{1,2}}\)|\(?[a-z]\)){_MARKS}\s+(?!(?:and|or|to|vs)\b){_STARTS}(?![\d])",
        # "- ", "• "
        rf"[-*•–]\s+{_STARTS}(?![\d])",
    )
)
_BOLD = re.compile(rf"(?:\*\*|__)(?P<severity>{_SEVERITY})(?:\s+(?:{_NOUN}))?(?:\*\*|__)\s+", re.I)
"""A severity in bold without a stop, which is a lead only before a sentence of its own."""


def without_lead(text: str) -> tuple[str, str | None]:
    """Return a concern without what only counts or grades it, and the severity that stood there.

    without_lead("**Minor concern 2:** The legend is missing.")  ->  ("The legend is missing.", "minor")
    without_lead("Major depressive disorder was not diagnosed.")  ->  (the same text, None)

    A text that is nothing but a lead stays as it is.
    """
    severity: str | None = None
    rest = text.strip()
    for _ in range(MOST):
        found = _lead(rest)
        if found is None:
            break
        named = found.groupdict().get("severity")
        if severity is None and named and severity_of(named) != UNKNOWN:
            severity = severity_of(named)
        is_open = sum(found[0].count(mark) for mark in ("**", "__")) % 2 == 1
        rest = rest[found.end() :]
        if is_open:  # what the mark opened goes on behind the lead
            rest = f"**{rest}" if "**" in found[0] else f"__{rest}"
    return rest, severity


def _lead(text: str) -> re.Match[str] | None:
    bold = _BOLD.match(text)
    if bold is not None and text[bold.end() : bold.end() + 1].isupper():
        return bold
    return next((found for each in _LEADS if (found := each.match(text))), None)
