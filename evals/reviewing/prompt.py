"""The instructions a reviewer model is trained with and asked with: one text, known by its checksum.

An adapter was trained on one wording. Asked with another it answers worse and nothing tells, so the
wording is stored with the adapter (the system prompt of its chain) and checked before it is asked.
"""

import hashlib
from functools import cache
from importlib import resources

from evals.errors import ChainMismatch

PROMPT_VERSION = "review-1"
"""Goes up with every change of prompt.txt; tests hold the pair of version and checksum."""
PAPER = "Review the paper below. Answer with the JSON array alone.\n\n"
PART = (
    "Review part {part} of {parts} of the paper below; the other parts are reviewed apart. Answer with the JSON"
    " array alone.\n\n"
)


@cache
def system_prompt() -> str:
    """Return the instructions, without a newline at the end."""
    return (
        resources.files("evals.reviewing")
        .joinpath("prompt.txt")
        .read_text(encoding="utf-8")
        .strip()
    )


def prompt_sha256(prompt: str | None = None) -> str:
    """Return the checksum of a system prompt, of ours if none is given."""
    return hashlib.sha256((system_prompt() if prompt is None else prompt).encode()).hexdigest()


def request(text: str, part: int = 1, parts: int = 1) -> str:
    """Return the user's turn: what is asked, then the paper or its part."""
    asked = PAPER if parts == 1 else PART.format(part=part, parts=parts)
    return asked + text


def check_prompt(stored: str, adapter: str) -> None:
    """Raise ChainMismatch if an adapter was trained with other instructions than it would be asked with."""
    if stored == system_prompt():
        return
    raise ChainMismatch(
        f"{adapter} was trained with other review instructions (checksum {prompt_sha256(stored)[:12]}) than"
        f" {PROMPT_VERSION} of this version of Assay ({prompt_sha256()[:12]}). Use the version that it was"
        " trained with, or train it again."
    )
