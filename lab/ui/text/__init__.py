"""What visitors read: pages in `lab/ui/text/*.md`, short lines in `lab/ui/text/*.json`."""

import json
from functools import cache
from pathlib import Path

TEXT = Path(__file__).parent
DOCS = TEXT / "docs"
"""The documents, as the lab shows them; a Space has none."""


@cache
def page(name: str) -> str:
    return (TEXT / f"{name}.md").read_text(encoding="utf-8").strip()


def say(key: str, **values: object) -> str:
    """Return the line called `key` with its {places} filled in. Raises KeyError if there is none.

    >>> say("line.place", position=2)
    'You are number 2 in the queue.'
    """
    return lines()[key].format(**values)


@cache
def lines() -> dict[str, str]:
    files = sorted(TEXT.glob("*.json"))
    return {k: v for file in files for k, v in json.loads(file.read_text(encoding="utf-8")).items()}


def plural(n: int, noun: str) -> str:
    """Return "1 vote", "2 votes"."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"
