"""The evidence of a record: the texts in its tool output by id, and nothing the policy wrote.

    evidence_of('<snippet id=S1>OXPHOS is down</snippet>') -> {"S1": "OXPHOS is down"}

An id stands for one text. A block may be repeated as it is; the same id with another text is an error.
"""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

from evals.refiner.grammar import ID

OPENING = re.compile(r"<((?ai:snippet|webpage))(?=[\s/>])([^<>]*)>")
CLOSINGS = {
    name: re.compile(f"</{name}>", re.IGNORECASE | re.ASCII) for name in ("snippet", "webpage")
}
IDENTITY = re.compile(
    rf"(?<!\S)id\s*=\s*(?:\"({ID})\"|'({ID})'|({ID}))(?=\s*/?$|\s+[\w.:-]+\s*=)", re.IGNORECASE
)
"""An id as a whole attribute: `id=S 1` names S no more than `href="/?id=S"` does."""
Evidence = Mapping[str, str]
"""Texts by id, in the order of the tool output."""


class Block(NamedTuple):
    """One piece of tool output: its id and text, and its characters with the tags."""

    id: str
    text: str
    start: int
    end: int


@lru_cache(maxsize=512)
def evidence_of(tool_output: str) -> Evidence:
    """Return the texts of a tool output by id; ValueError if one has no id, no end, or two texts."""
    found: dict[str, str] = {}
    for block in blocks(tool_output):
        if found.setdefault(block.id, block.text) != block.text:
            raise ValueError(f"the id {block.id!r} stands for two different texts; ids are unique")
    return MappingProxyType(found)


def blocks(tool_output: str) -> Iterator[Block]:
    """Yield the blocks of a tool output in order; ValueError for one without a legal id or an end."""
    for opening in OPENING.finditer(tool_output):
        shown = opening[0] if len(opening[0]) <= 60 else opening[0][:57] + "..."
        identity = IDENTITY.search(opening[2])
        if identity is None:
            raise ValueError(
                f"{shown} has no legal id; write <snippet id=S1>, ids of A-Za-z0-9_.:-"
            )
        kind = opening[1].lower()
        closing = CLOSINGS[kind].search(tool_output, opening.end())
        if closing is None:
            raise ValueError(f"{shown} is never closed; end it with </{kind}>")
        name = identity[1] or identity[2] or identity[3]
        text = tool_output[opening.end() : closing.start()].strip()
        yield Block(name, text, opening.start(), closing.end())
