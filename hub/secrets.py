"""What must not leave the machine: keys, tokens, local paths, addresses of people.

Patterns are those of keys that their makers mark with a prefix; guessing by entropy would drown in
data. A finding names file and line and what kind of thing stands there, never the thing itself.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from evals.schema.publishing import Finding

SECRETS = {
    "a Hugging Face token": r"\bhf_[A-Za-z0-9]{20,}",
    "an OpenAI key": r"\bsk-(?:proj-|svcacct-)?[A-Za-z0-9_-]{20,}",
    "an Anthropic key": r"\bsk-ant-[A-Za-z0-9_-]{20,}",
    "a GitHub token": r"\b(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,})",
    "a GitLab token": r"\bglpat-[A-Za-z0-9_-]{20,}",
    "an AWS key": r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
    "a Google key": r"\bAIza[0-9A-Za-z_-]{35}",
    "a Slack token": r"\bxox[abprs]-[A-Za-z0-9-]{10,}",
    "a Stripe key": r"\b[rs]k_live_[A-Za-z0-9]{20,}",
    "a Weights & Biases key": r"(?i)\bWANDB_API_KEY\s*[=:]\s*['\"]?[0-9a-f]{40}",
    "a private key": r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY(?: BLOCK)?-----",
    "a JSON web token": r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",
    "a password in an address": r"\b[a-z][a-z0-9+.-]*://[^\s/:@\"']+:(?!password@)[^\s/@\"']+@",
    "a password": r"(?i)\b(?:password|passwd|api_?key|secret_?key|access_?token)\b['\"]?\s*[=:]\s*"
    r"['\"]?(?!\$|<|None\b|null\b|true\b|false\b|os\.|[\w.]+\()[^\s'\",;<>{}()]{8,}",
}
LOCAL_PATH = r"(?<![\w:/.~-])(?:/(?:home|Users|root|mnt|scratch|work|workspace|data|tmp|private|var/folders)/(?!me(?![\w.-])|mine\b|assay\.db)[\w.-]+|[A-Z]:\\{1,2}Users\\{1,2}\w+|~/[\w.-]+/)"
"""A path of a person's or a machine's own; what texts give as an example (/home/me, /data/mine) and the
file on a Space's volume are none."""
E_MAIL = r"(?<![\w.+-])[A-Za-z0-9][\w.+-]*@(?!example\.|users\.noreply)[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}\b"
PHONE = r"(?<![\w.+-])\+\d{1,3}[ -]\(?\d{1,4}\)?(?:[ -]\d{2,4}){2,4}(?![\w-])"
MOST = 20
"""Findings of one file that are listed."""


@dataclass(frozen=True)
class Pattern:
    """One kind of thing to look for."""

    name: str
    regex: re.Pattern[str]
    remedy: str
    is_error: bool = True


PATTERNS = (
    *(
        Pattern(name, re.compile(text), "remove it, and withdraw it where it was issued")
        for name, text in SECRETS.items()
    ),
    Pattern(
        "a path of this machine", re.compile(LOCAL_PATH), "write a name or a relative path instead"
    ),
    Pattern("an e-mail address", re.compile(E_MAIL), "remove it, or ask the person first"),
)
PERSONAL = (
    Pattern("an e-mail address", re.compile(E_MAIL), "remove it, or ask the person first", False),
    Pattern("a telephone number", re.compile(PHONE), "remove it, or ask the person first", False),
)
"""In the rows of a data set people may be named on purpose: these are warnings there."""


def scan(path: str, text: str, patterns: Iterable[Pattern] = PATTERNS) -> list[Finding]:
    """Return what must not be published in a text, by line; values are never repeated."""
    found: list[Finding] = []
    for pattern in patterns:
        for line in _lines(text, pattern.regex):
            finding = Finding(
                check="secrets" if pattern.is_error else "personal data",
                path=path,
                line=line,
                problem=f"{pattern.name} stands there",
                remedy=pattern.remedy,
                is_error=pattern.is_error,
            )
            found.append(finding)
    return sorted(found, key=lambda each: each.line or 0)[:MOST]


def _lines(text: str, regex: re.Pattern[str]) -> Iterator[int]:
    """Yield the number of each line that a pattern is found in, once."""
    line, at, last = 1, 0, 0
    for match in regex.finditer(text):
        line += text.count("\n", at, match.start())
        at = match.start()
        if line != last:
            yield line
        last = line
