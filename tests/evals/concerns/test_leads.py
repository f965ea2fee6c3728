"""What counts or grades a concern is no part of it; what it is about is."""

import json

import pytest

from evals.review.parse import parse, without_lead

TEXT = "The sample is too small."
LEADS = [
    ("Major 1. ", "major"),
    ("Minor concern 2: ", "minor"),
    ("1) ", None),
    ("**Major** ", "major"),
    ("**Major:** ", "major"),
    ("**Major**: ", "major"),
    ("**Major 1.** ", "major"),
    ("**Major 1**. ", "major"),
    ("1. **Major concern:** ", "major"),
    ("- **Minor concern 2:** 1) ", "minor"),
    ("1. Major 2: ", "major"),
    ("(Major) 1: ", "major"),
    ("[Minor] ", "minor"),
    ("MAJOR - ", "major"),
    ("Major. ", "major"),
    ("Major concern 1.2: ", "major"),
    ("Minor issue No. 4: ", "minor"),
    ("Major concern #1 — ", "major"),
    ("Suggestion: ", "optional"),
    ("Critical: ", "major"),
    ("Concern 3: ", None),
    ("Comment #4 - ", None),
    ("Concern: ", None),
    ("(2) ", None),
    ("#3: ", None),
    ("a) ", None),
    ("- ", None),
    ("• ", None),
    ("1.\n", None),
]
KEPT = [
    "Major depressive disorder was not diagnosed.",
    "**Major** depressive disorder was not diagnosed.",
    "Major histocompatibility complexes were not typed.",
    "Major-axis regression needs both errors.",
    "Minor 5′ UTR variants are left out.",
    "Minor allele frequencies: none is given.",
    "Serious adverse events: how many were there?",
    "Critical values are not given.",
    "Optional stopping: was it ruled out?",
    "Point 1 of the protocol is unclear.",
    "Point mutations: which were made?",
    "Issues with the model remain.",
    "Figure 2: labels are missing.",
    "1.5 mg was given to some.",
    "1:100 dilutions are not described.",
    "1. and 2. cannot both hold.",
    "2 of 6 mice died.",
    "2020. Annual figures are missing.",
    "[1] reports the opposite.",
    "-5 °C is no usual storage.",
    "- 5 °C is no usual storage.",
    "A control arm is missing.",
    "Major 1.",
    "1.",
    "Major.",
    "",
]


@pytest.mark.parametrize(("lead", "severity"), LEADS)
def test_a_number_or_severity_before_a_concern_is_taken_off_and_the_severity_kept(lead: str, severity: str | None):
    assert without_lead(lead + TEXT) == (TEXT, severity)


@pytest.mark.parametrize("text", KEPT)
def test_words_and_numbers_that_a_concern_is_about_stay(text: str):
    assert without_lead(text) == (text, None)


def test_a_title_in_bold_behind_a_number_stays_in_bold():
    assert without_lead("**1. Small sample.** It is.") == ("**Small sample.** It is.", None)


def test_a_review_is_read_without_numbers_and_its_own_labels_go_before_those_in_the_text():
    rows = [
        {"text": f"Major 1. {TEXT}", "category": "design_flaw", "severity": "minor"},
        {"text": f"Minor 2. {TEXT}", "category": "design_flaw"},
        {"text": "Major depressive disorder was not diagnosed.", "category": "other"},
    ]
    found = parse("a", json.dumps(rows)).concerns
    assert [(each.text, each.severity) for each in found] == [
        (TEXT, "minor"),
        (TEXT, "minor"),
        ("Major depressive disorder was not diagnosed.", "unknown"),
    ]
