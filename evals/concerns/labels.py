"""The labels a concern may carry, and the table by which misspelt ones are repaired.

A label is lower-cased, and whatever stands between its words becomes one underscore. Then it is a
label, or stands in the table, or is a label but for a slip of spelling (`CLOSE`), or is unknown.
"""

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from typing import TypeVar

from evals.schema.reviews import CATEGORIES, SEVERITIES, UNKNOWN, Category, Severity, Unknown

CLOSE = 0.85
"""How alike (difflib's ratio) a misspelt label must be to the one that is meant."""

CATEGORY_TABLE: Mapping[str, Category] = {
    "interpretion": "interpretation",
    "interpret": "interpretation",
    "overinterpretation": "interpretation",
    "over_interpretation": "interpretation",
    "prior_art_novellicity": "prior_art_novelty",
    "prior_art": "prior_art_novelty",
    "novelty": "prior_art_novelty",
    "writing_clary": "writing_clarity",
    "writing": "writing_clarity",
    "clarity": "writing_clarity",
    "presentation": "writing_clarity",
    "statoretical_methodology": "statistical_methodology",
    "statistics": "statistical_methodology",
    "statistical": "statistical_methodology",
    "statistical_analysis": "statistical_methodology",
    "statistical_methods": "statistical_methodology",
    "design": "design_flaw",
    "study_design": "design_flaw",
    "experimental_design": "design_flaw",
    "missing_control": "missing_experiment",
    "missing_controls": "missing_experiment",
    "additional_experiment": "missing_experiment",
    "additional_experiments": "missing_experiment",
    "figure": "figure_issue",
    "figures": "figure_issue",
    "reagent": "reagent_method_specificity",
    "reagents": "reagent_method_specificity",
    "method_specificity": "reagent_method_specificity",
    "methods_specificity": "reagent_method_specificity",
    "misc": "other",
    "miscellaneous": "other",
}
SEVERITY_TABLE: Mapping[str, Severity] = {
    "critical": "major",
    "fatal": "major",
    "high": "major",
    "serious": "major",
    "severe": "major",
    "essential": "major",
    "moderate": "minor",
    "medium": "minor",
    "low": "minor",
    "trivial": "optional",
    "suggestion": "optional",
    "suggested": "optional",
    "nice_to_have": "optional",
}

Label = TypeVar("Label", bound=str)
_APART = re.compile(r"[\W_]+")


def plain_label(written: str) -> str:
    """Return a label in lower case, its words joined by one underscore.

    plain_label(" Design-Flaw. ")  ->  "design_flaw"
    """
    return _APART.sub("_", written.lower()).strip("_")


@lru_cache(maxsize=4096)
def category_of(written: str | None) -> Category | Unknown:
    """Return the category that is meant, `UNKNOWN` if none is.

    category_of("Statistical methodolgy")  ->  "statistical_methodology"
    """
    return _meant(written, CATEGORIES, CATEGORY_TABLE)


@lru_cache(maxsize=4096)
def severity_of(written: str | None) -> Severity | Unknown:
    """Return the severity that is meant, `UNKNOWN` if none is.

    severity_of("Critical")  ->  "major"
    """
    return _meant(written, SEVERITIES, SEVERITY_TABLE)


def is_label(written: str) -> bool:
    """Return whether a text is nothing but a category or a severity."""
    return len(written) <= 40 and {category_of(written), severity_of(written)} != {UNKNOWN}


def _meant(
    written: str | None, labels: Sequence[Label], table: Mapping[str, Label]
) -> Label | Unknown:
    if not written:
        return UNKNOWN
    plain = plain_label(written[:80])
    if plain in table:
        return table[plain]
    for label in labels:
        if plain == label:
            return label
    close = get_close_matches(plain, labels, n=1, cutoff=CLOSE)
    return next((label for label in labels if [label] == close), UNKNOWN)
