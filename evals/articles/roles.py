"""What a section is for, told from its name: so that names such as "2. Patients and methods" count."""

import re
from typing import Literal

Role = Literal[
    "abstract",
    "introduction",
    "methods",
    "results",
    "discussion",
    "conclusion",
    "statement",
    "supplement",
    "references",
    "other",
]
NUMBER = re.compile(r"^\s*(?:(?:\d+(?:\.\d+)*|[IVX]+)[.):]?\s+)")
RULES: tuple[tuple[Role, re.Pattern[str]], ...] = tuple(
    (role, re.compile(pattern, re.I))
    for role, pattern in (
        ("abstract", r"(?:structured |plain[- ]language |author )?(?:abstract|summary)"),
        (
            "references",
            r"(?:references?|bibliography|literature cited|works cited)(?: and notes)?",
        ),
        (
            "methods",
            r"(?:(?:online|star|experimental|statistical|supplementary|patients?|subjects?|participants?"
            r"|materials?|animals?|data|study population)[\s,&]*(?:and )?)*"
            r"(?:methods?|methodology|procedures?|experimental section|study design|statistical analys[ei]s)\b.*",
        ),
        ("results", r"(?:results?|findings)(?:\b.*)?"),
        ("introduction", r"(?:general )?(?:introduction|background|intro)(?:\b.*)?"),
        ("discussion", r"(?:general )?discussion(?:\b.*)?"),
        ("conclusion", r"(?:conclusions?|concluding remarks|outlook|limitations)(?:\b.*)?"),
        (
            "supplement",
            r"(?:supplement(?:ary|al)?|supporting|appendi(?:x|ces)|additional files?)\b.*",
        ),
        (
            "statement",
            r"(?:(?:data|code|software|materials?)\b.*\bavailability|availability of .*|ethic(?:s|al)\b.*"
            r"|funding|acknowledge?ments?|competing interests?|conflicts? of interests?|declarations?"
            r"|author contributions?|abbreviations|consent\b.*|front matter|keywords?)\b.*",
        ),
    )
)


def plain_name(name: str) -> str:
    """Return a section's name without its number and final punctuation: "2.1 Mice." -> "Mice"."""
    return NUMBER.sub("", name.strip()).strip(" .:–—-\t")


def role_of(name: str) -> Role:
    """Return what a section is for; "other" if its name does not tell.

    >>> [role_of(name) for name in ("2. Patients and methods", "RESULTS AND DISCUSSION", "Resulting cohort")]
    ['methods', 'results', 'other']
    """
    plain = plain_name(name)
    return next((role for role, pattern in RULES if pattern.fullmatch(plain)), "other")
