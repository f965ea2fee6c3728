"""Labels of concerns as models write them, and what stands before a concern without being part of it."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from evals.schema.reviews import CATEGORIES, SEVERITIES, UNKNOWN, Category, Severity, Unknown

LABELS: dict[str, dict[str, Any]] = tomllib.loads(Path(__file__).with_name("labels.toml").read_text(encoding="utf-8"))
TEXT_KEYS, CATEGORY_KEYS, SEVERITY_KEYS, DETAIL_KEYS, PASSED_OVER = (
    tuple(LABELS["keys"][name]) for name in ("text", "category", "severity", "detail", "passed_over")
)

PATTERNS = {name: re.compile(pattern, re.IGNORECASE) for name, pattern in LABELS["patterns"].items()}
_IDEOGRAPH = re.compile("[\u3040-\u30ff\u3400-\u9fff]")


CLOSE = 0.85
"""How alike (difflib's ratio) a misspelt label must be to the one that is meant."""

_APART = re.compile(r"[\W_]+")


def n_words(text: str) -> int:
    """Return how many words a text has; two signs of Chinese or Japanese count as one."""
    return len(text.split()) + len(_IDEOGRAPH.findall(text)) // 2


def plain_label(written: str) -> str:
    """Return a label in lower case, its words joined by one underscore: " Design-Flaw. " gives "design_flaw"."""
    return _APART.sub("_", written.lower()).strip("_")


@lru_cache(maxsize=4096)
def category_of(written: str | None) -> Category | Unknown:
    """Return the category that is meant, `UNKNOWN` if none is.

    category_of("Statistical methodolgy")  ->  "statistical_methodology"
    """
    return cast(Category | Unknown, _meant(written, CATEGORIES, LABELS["category"]))


@lru_cache(maxsize=4096)
def severity_of(written: str | None) -> Severity | Unknown:
    """Return the severity that is meant, `UNKNOWN` if none is: "Critical" gives "major"."""
    return cast(Severity | Unknown, _meant(written, SEVERITIES, LABELS["severity"]))


def is_label(written: str) -> bool:
    """Return whether a text is nothing but a category or a severity."""
    return len(written) <= 40 and {category_of(written), severity_of(written)} != {UNKNOWN}


def _meant(written: str | None, labels: Sequence[str], variants: Mapping[str, list[str]]) -> str:
    plain = plain_label((written or "")[:80])
    exact = [label for label in labels if plain == label or plain in variants.get(label, ())]
    return next(iter(exact or get_close_matches(plain, labels, n=1, cutoff=CLOSE)), UNKNOWN)


MOST = 4
"""Leads that may stand one before the other: "- **Minor concern 2:** 1) ..."."""

SEVERITY_WORDS = r"major|minor|optional|critical|essential|serious|severe|fatal|moderate|trivial|suggestion"
NOUNS = r"concerns?|comments?|issues?|points?|weakness(?:es)?|problems?|criticisms?"
_COUNT = r"(?:no\.?\s*|\#\s*)?[(\[]?\d{1,3}(?:\.\d{1,2})?[)\]]?"
_MARKS = r"[*_]{0,3}"
END = r"\s*(?:[.:)\]]|[-–—](?=\s))"
_STARTS = r"(?=[*_]{0,3}[\"“‘'(\[]?[^\W_])"
"""What follows a lead: a word, in marks or quotes if it likes."""
_LEADS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        # "**Major** " before a sentence of its own
        rf"(?:\*\*|__)(?P<severity>{SEVERITY_WORDS})(?:\s+(?:{NOUNS}))?(?:\*\*|__)\s+(?=(?-i:[A-Z]))",
        # "Major 1.", "**Minor concern #2:**", "Concern 3 -", "(Major) 1:"
        rf"{_MARKS}[(\[]?(?:(?P<severity>{SEVERITY_WORDS})[)\]]?\s+)?(?:(?:{NOUNS})\s*)?(?<=[a-z)\]\s]){_COUNT}"
        rf"{_MARKS}{END}{_MARKS}\s+{_STARTS}",
        # "Major:", "[Minor]", "**Major concern.**", "Suggestion -"
        rf"{_MARKS}[(\[]?(?P<severity>{SEVERITY_WORDS})(?:\s+(?:{NOUNS}))?{_MARKS}{END}{_MARKS}\s+{_STARTS}",
        # "Concern:", "**Comment:**"
        rf"{_MARKS}(?:{NOUNS}){_MARKS}\s*:{_MARKS}\s+{_STARTS}",
        # "1.", "(2)", "**3)**", "#4:", "a)"
        rf"{_MARKS}(?:\#?\d{{1,2}}[.):]|\(\d{{1,2}}\)|\(?[a-z]\)){_MARKS}\s+(?!(?:and|or|to|vs)\b){_STARTS}(?![\d])",
        # "- ", "• "
        rf"[-*•–]\s+{_STARTS}(?![\d])",
    )
)


def without_lead(text: str) -> tuple[str, str | None]:
    """Return a concern without what only counts or grades it, and the severity that stood there.

    without_lead("**Minor concern 2:** The legend is missing.")  ->  ("The legend is missing.", "minor")
    without_lead("Major depressive disorder was not diagnosed.")  ->  (the same text, None)

    A text that is nothing but a lead stays as it is.
    """
    severity: str | None = None
    rest = text.strip()
    for _ in range(MOST):
        found = next((match for each in _LEADS if (match := each.match(rest))), None)
        if found is None:
            break
        named = found.groupdict().get("severity")
        severity = severity or (severity_of(named) if named else None)
        rest = rest[found.end() :]
        if found[0].count("**") % 2:  # what the mark opened goes on behind the lead
            rest = f"**{rest}"
    return rest, severity


WORDS_OF_A_CUT = 5
"""A text that the output ended in is kept from so many words on."""

_WORD = re.compile(r"[^\W\d_]")
_ESCAPE_BEGUN = re.compile(r"\\(?:u[0-9a-f]{0,3})?$")


class CutText(str):
    """A string that the output ended in."""


@dataclass(frozen=True)
class Candidate:
    """A concern as written; `lost` says why one that stands there cannot be used."""

    text: str
    category: str | None = None
    severity: str | None = None
    is_cut: bool = False
    lost: str | None = None

    def said(self, text: str) -> "Candidate":
        """Return the concern of this text under these labels."""
        is_cut = isinstance(text, CutText)
        item = replace(self, text=(_ESCAPE_BEGUN.sub("", text) if is_cut else text).strip(), is_cut=is_cut)
        if not _WORD.search(item.text) or item.text.lower() in ("none", "null", "nan"):
            return replace(item, lost="has no text")
        is_stub = item.is_cut and n_words(item.text) < WORDS_OF_A_CUT
        return replace(item, lost="is cut off after a few words") if is_stub else item

    def labelled(self, *words: str) -> "Candidate":
        """Return the item with those of the words that are a category or a severity."""
        item = self
        for word in words:
            if category_of(word) != UNKNOWN:
                item = replace(item, category=word)
            elif severity_of(word) != UNKNOWN:
                item = replace(item, severity=word)
        return item


NOTHING = Candidate("")
