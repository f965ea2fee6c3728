"""The form of a cited answer: tags, claims and sources parsed, and the eight format checks, three of them hard, with their bonus."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

ID = r"[A-Za-z0-9_.:-]+"
TAG = re.compile(r"<(/?)(answer|snippet)(?=[\s/>])([^<>]*)>", re.IGNORECASE)
LIST = rf"({ID}(?:\s*,\s*{ID})*)"
IDS = re.compile(rf"\s+id\s*=\s*(?:\"\s*{LIST}\s*\"|'\s*{LIST}\s*'|{LIST})\s*", re.IGNORECASE)
EVIDENCE_MARKUP = re.compile(
    r"</?(?:tool[_-]?(?:output|call|calls|response|result)s?|webpages?|snippets)(?=[\s/>=])[^<>]*>", re.IGNORECASE
)
WORD = re.compile(r"[^\W_]+")
SENTENCE_END = re.compile(
    r"(?<=[.!?])(?<!e\.g\.)(?<!i\.e\.)(?<!\bvs\.)(?<!\bal\.)(?<!\bca\.)(?<!\bcf\.)(?<!\b[Ff]ig\.)\s+|\n+"
)
CONNECTIVES = frozenset(
    [
        "a",
        "also",
        "although",
        "an",
        "and",
        "as",
        "because",
        "but",
        "however",
        "in",
        "furthermore",
        "moreover",
        "nor",
        "or",
        "so",
        "the",
        "then",
        "therefore",
        "thus",
        "to",
        "whereas",
        "while",
        "with",
        "yet",
    ]
)
"""Words that join claims and state nothing by themselves."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A span of an answer: its text, the ids it cites (empty if the list is broken), its characters."""

    text: str
    ids: tuple[str, ...]
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Passage:
    """A sentence outside all claims, and its characters in the whole answer."""

    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Reading:
    """An answer as the grammar reads it; without a single, balanced block there are no claims.

    The flags are the checks that need no evidence. `body` is what stands in the block, tags and all.
    """

    body: str
    claims: tuple[Claim, ...]
    uncited: tuple[Passage, ...]
    has_single_answer: bool
    has_balanced_tags: bool
    has_wellformed_ids: bool
    has_nothing_outside: bool
    has_evidence_markup: bool

    @property
    def is_wellformed(self) -> bool:
        """Whether every hard check passes."""
        return self.has_single_answer and self.has_balanced_tags and self.has_wellformed_ids

    @property
    def is_empty(self) -> bool:
        """Whether the answer says nothing at all: no word in a claim or outside."""
        return not any(WORD.search(part.text) for part in (*self.claims, *self.uncited))


@dataclass(frozen=True, slots=True)
class _Span:
    """A claim between its tags: where it starts with them, its text, where it ends with them."""

    outer: tuple[int, int]
    inner: tuple[int, int]
    ids: tuple[str, ...]


def parse(completion: str, reasoning_tags: Sequence[str] = ()) -> Reading:
    """Return an answer as the grammar reads it; a leading block in one of `reasoning_tags` is skipped."""
    start = _after_reasoning(completion, reasoning_tags)
    tags = list(TAG.finditer(completion, start))
    block = _block([tag for tag in tags if tag[2].lower() == "answer"])
    if block is None:
        return _without_block(completion[start:], [tag for tag in tags if tag[2].lower() != "answer"])
    inside = [tag for tag in tags if tag.start() >= block[1] and tag.end() <= block[2]]
    spans = _spans(inside)
    body = completion[block[1] : block[2]]
    outside = completion[start : block[0]].strip() or completion[block[3] :].strip()
    return Reading(
        body=body,
        claims=tuple(_claim(completion, span) for span in spans or ()),
        uncited=tuple(_uncited(completion, block[1], block[2], spans)) if spans is not None else (),
        has_single_answer=True,
        has_balanced_tags=spans is not None,
        has_wellformed_ids=all(_ids(tag[3]) for tag in inside if not tag[1]),
        has_nothing_outside=not outside,
        has_evidence_markup=EVIDENCE_MARKUP.search(body) is not None,
    )


def _without_block(text: str, tags: list[re.Match[str]]) -> Reading:
    return Reading(
        body=text,
        claims=(),
        uncited=(),
        has_single_answer=False,
        has_balanced_tags=_spans(tags) is not None,
        has_wellformed_ids=all(_ids(tag[3]) for tag in tags if not tag[1]),
        has_nothing_outside=False,
        has_evidence_markup=EVIDENCE_MARKUP.search(text) is not None,
    )


def _after_reasoning(completion: str, names: Sequence[str]) -> int:
    """Return where the text starts once a leading reasoning block is left out."""
    start = len(completion) - len(completion.lstrip())
    for name in names:
        opening, closing = f"<{name}>", f"</{name}>"
        if completion.startswith(opening, start):
            end = completion.find(closing, start)
            if end >= 0:
                return end + len(closing)
    return 0


def _block(tags: list[re.Match[str]]) -> tuple[int, int, int, int] | None:
    """Return the places around the opening and the closing answer tag; None unless there is one of each."""
    if len(tags) != 2 or tags[0][1] or not tags[1][1] or tags[0][3].strip() or tags[1][3].strip():
        return None
    return tags[0].start(), tags[0].end(), tags[1].start(), tags[1].end()


def _spans(tags: list[re.Match[str]]) -> list[_Span] | None:
    """Return the claims between their tags, in order; None if tags are not balanced or nest."""
    spans: list[_Span] = []
    opening: re.Match[str] | None = None
    for tag in tags:
        if bool(tag[1]) == (opening is None):
            return None
        if opening is None:
            opening = tag
        else:
            outer, inner = (opening.start(), tag.end()), (opening.end(), tag.start())
            spans.append(_Span(outer, inner, _ids(opening[3])))
            opening = None
    return spans if opening is None else None


def _ids(attributes: str) -> tuple[str, ...]:
    """Return the ids of an opening tag, each once; empty if there is no list of legal ids."""
    match = IDS.fullmatch(attributes)
    if match is None:
        return ()
    written = match[1] or match[2] or match[3]
    return tuple(dict.fromkeys(part.strip() for part in written.split(",")))


def _claim(completion: str, span: _Span) -> Claim:
    start, end = _stripped(completion, *span.inner)
    return Claim(completion[start:end], span.ids, start, end)


def _uncited(text: str, start: int, end: int, spans: list[_Span] | None) -> Iterator[Passage]:
    """Yield the sentences between the claims that hold more than joining words."""
    at = start
    for outer in (*(span.outer for span in spans or ()), (end, end)):
        yield from _sentences(text, at, outer[0])
        at = outer[1]


def _sentences(text: str, start: int, end: int) -> Iterator[Passage]:
    at = start
    for gap in SENTENCE_END.finditer(text, start, end):
        yield from _passage(text, at, gap.start())
        at = gap.end()
    yield from _passage(text, at, end)


def _passage(text: str, start: int, end: int) -> Iterator[Passage]:
    start, end = _stripped(text, start, end)
    words = WORD.findall(text, start, end)
    if words and not all(word.lower() in CONNECTIVES for word in words):
        yield Passage(text[start:end], start, end)


def _stripped(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the places of a part of a text without the blanks around it."""
    part = text[start:end]
    left = len(part) - len(part.lstrip())
    return start + left, max(start + left, start + len(part.rstrip()))


OPENING = re.compile(r"<((?ai:snippet|webpage))(?=[\s/>])([^<>]*)>")
CLOSINGS = {name: re.compile(f"</{name}>", re.IGNORECASE | re.ASCII) for name in ("snippet", "webpage")}
IDENTITY = re.compile(rf"(?<!\S)id\s*=\s*(?:\"({ID})\"|'({ID})'|({ID}))(?=\s*/?$|\s+[\w.:-]+\s*=)", re.IGNORECASE)
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
            raise ValueError(f"{shown} has no legal id; write <snippet id=S1>, ids of A-Za-z0-9_.:-")
        kind = opening[1].lower()
        closing = CLOSINGS[kind].search(tool_output, opening.end())
        if closing is None:
            raise ValueError(f"{shown} is never closed; end it with </{kind}>")
        name = identity[1] or identity[2] or identity[3]
        text = tool_output[opening.end() : closing.start()].strip()
        yield Block(name, text, opening.start(), closing.end())


HARD = ("single_answer", "balanced_tags", "ids_wellformed")
SOFT = ("nothing_outside", "ids_known", "claims_nonempty", "has_claim", "no_evidence_markup")


def format_checks(reading: Reading, evidence: Evidence, answerable: bool) -> dict[str, bool]:
    """Return by name whether each check passes. Soft checks of a text without a block fail."""
    claims, has_block = reading.claims, reading.has_single_answer and reading.has_balanced_tags
    return {
        "single_answer": reading.has_single_answer,
        "balanced_tags": reading.has_balanced_tags,
        "ids_wellformed": reading.has_wellformed_ids,
        "nothing_outside": reading.has_nothing_outside,
        "ids_known": has_block and all(name in evidence for c in claims for name in c.ids),
        "claims_nonempty": has_block and all(WORD.search(claim.text) for claim in claims),
        "has_claim": has_block and (bool(claims) or not answerable),
        "no_evidence_markup": not reading.has_evidence_markup,
    }


def format_bonus(checks: dict[str, bool]) -> float:
    """Return the share of soft checks that pass; 0 if a hard one fails."""
    if not all(checks[name] for name in HARD):
        return 0.0
    return sum(checks[name] for name in SOFT) / len(SOFT)
