"""The form of a cited answer: tags, claims and sources parsed, and the eight format checks, three of them hard, with their bonus."""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from types import MappingProxyType
from typing import NamedTuple

from evals.wording import plain

TOKEN = re.compile(r"-?\d+(?:[.,]\d+)*|[a-z][a-z0-9]*(?:-\d+)?")
_WORDS: dict[str, list[str]] = tomllib.loads(files("evals.refine").joinpath("words.toml").read_text(encoding="utf-8"))
STOP = frozenset(_WORDS["stop"])
CONNECTIVES = frozenset(_WORDS["connectives"])
"""Words that join claims and state nothing by themselves."""
DIRECTIONS = {word: way for way in ("up", "down") for word in _WORDS[way]}
OPPOSITE = {"up": "down", "down": "up"}
NEGATION = re.compile(rf"(?<![\w-])(?:{'|'.join(_WORDS['negations'])})(?!\w)|\w+n['’ʼ`´]t\b", re.IGNORECASE)
PREFIXES = tuple(_WORDS["negative_prefixes"])


@lru_cache(maxsize=4096)
def split_words(text: str) -> tuple[str, ...]:
    """Return the words and numbers of a text in order, directions in one spelling, plurals cut."""
    return tuple(_fold(word) for word in TOKEN.findall(plain(text).text))


@lru_cache(maxsize=4096)
def content(text: str) -> frozenset[str]:
    """Return the words and numbers that carry meaning."""
    return frozenset(word for word in split_words(text) if word not in STOP)


def numbers(words: frozenset[str]) -> frozenset[str]:
    """Return those of the words that are numbers or names with a digit in them."""
    return frozenset(word for word in words if any(letter.isdigit() for letter in word))


def is_opposed(one: frozenset[str], other: frozenset[str]) -> bool:
    """Return whether one text names a direction and the other only the opposite one."""
    ours, theirs = one & OPPOSITE.keys(), other & OPPOSITE.keys()
    return bool(ours and theirs) and not ours & theirs


@lru_cache(maxsize=4096)
def is_negated(text: str) -> bool:
    """Return whether a text denies something: "did not kill", "failed to kill", "isn't killed"."""
    return NEGATION.search(text) is not None


def is_prefixed(one: frozenset[str], other: frozenset[str]) -> bool:
    """Return whether a word of one text is one of the other with a negative prefix: "ineffective" and "effective"."""
    return any(
        word[len(prefix) :] in other
        for word in one - other
        for prefix in PREFIXES
        if word.startswith(prefix) and len(word) - len(prefix) > 3
    )


def holds(words: tuple[str, ...], phrase: tuple[str, ...]) -> bool:
    """Return whether a phrase stands in a text, word by word. The empty phrase stands in none."""
    n = len(phrase)
    return bool(n) and any(words[at : at + n] == phrase for at in range(len(words) - n + 1))


def _fold(word: str) -> str:
    if word in DIRECTIONS:
        return DIRECTIONS[word]
    if word[0].isdigit() or word[0] == "-":
        return word.replace(",", "") if "." not in word else word
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


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


@dataclass(frozen=True, slots=True)
class CitedClaim:
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
class ParsedAnswer:
    """An answer as the grammar reads it; without a single, balanced block there are no claims.

    The flags are the checks that need no evidence. `body` is what stands in the block, tags and all.
    """

    body: str
    claims: tuple[CitedClaim, ...]
    uncited: tuple[Passage, ...]
    has_single_answer: bool
    has_balanced_tags: bool
    has_wellformed_ids: bool
    has_nothing_outside: bool
    has_evidence_markup: bool

    @property
    def is_wellformed(self) -> bool:
        return self.has_single_answer and self.has_balanced_tags and self.has_wellformed_ids

    @property
    def is_empty(self) -> bool:
        """Whether the answer says nothing at all: no word in a claim or outside."""
        return not any(WORD.search(part.text) for part in (*self.claims, *self.uncited))


def parse_answer(completion: str, reasoning_tags: Sequence[str] = ()) -> ParsedAnswer:
    """Return an answer as the grammar reads it; a leading block in one of `reasoning_tags` is skipped."""
    start = len(completion) - len(completion.lstrip())
    for name in reasoning_tags:
        if completion.startswith(f"<{name}>", start) and (end := completion.find(f"</{name}>", start)) >= 0:
            start = end + len(f"</{name}>")
            break
    tags = list(TAG.finditer(completion, start))
    block = [tag for tag in tags if tag[2].lower() == "answer"]
    is_single = len(block) == 2 and not block[0][1] and bool(block[1][1]) and not (block[0][3] + block[1][3]).strip()
    first, last, outside = start, len(completion), completion
    if is_single:
        first, last = block[0].end(), block[1].start()
        outside = completion[start : block[0].start()] + completion[block[1].end() :]
    inside = [tag for tag in tags if tag.start() >= first and tag.end() <= last and tag[2].lower() != "answer"]
    spans = _spans(completion, inside)
    body = completion[first:last]
    has_block = is_single and spans is not None
    return ParsedAnswer(
        body=body,
        claims=tuple(claim for claim, _, _ in spans or ()) if has_block else (),
        uncited=tuple(_uncited_sentences(completion, first, last, spans or ())) if has_block else (),
        has_single_answer=is_single,
        has_balanced_tags=spans is not None,
        has_wellformed_ids=all(_ids(tag[3]) for tag in inside if not tag[1]),
        has_nothing_outside=is_single and not outside.strip(),
        has_evidence_markup=EVIDENCE_MARKUP.search(body) is not None,
    )


def _spans(text: str, tags: list[re.Match[str]]) -> list[tuple[CitedClaim, int, int]] | None:
    """Return the claims between their tags, with where the tags begin and end; None if these are not balanced or nest."""
    if len(tags) % 2 or any(bool(tag[1]) != bool(place % 2) for place, tag in enumerate(tags)):
        return None
    found = []
    for opening, closing in zip(tags[::2], tags[1::2], strict=True):
        start, end = _strip_span(text, opening.end(), closing.start())
        found.append((CitedClaim(text[start:end], _ids(opening[3]), start, end), opening.start(), closing.end()))
    return found


def _ids(attributes: str) -> tuple[str, ...]:
    """Return the ids of an opening tag, each once; empty if there is no list of legal ids."""
    match = IDS.fullmatch(attributes)
    written = match[1] or match[2] or match[3] if match else ""
    return tuple(dict.fromkeys(part.strip() for part in written.split(","))) if match else ()


def _uncited_sentences(
    text: str, start: int, end: int, spans: Sequence[tuple[CitedClaim, int, int]]
) -> Iterator[Passage]:
    """Yield the sentences between the claims that hold more than joining words."""
    at = start
    for _, opens, closes in (*spans, (None, end, end)):
        gaps = [gap.span() for gap in SENTENCE_END.finditer(text, at, opens)]
        for first, last in zip((at, *(gap[1] for gap in gaps)), (*(gap[0] for gap in gaps), opens), strict=True):
            left, right = _strip_span(text, first, last)
            if not CONNECTIVES.issuperset(word.lower() for word in WORD.findall(text, left, right)):
                yield Passage(text[left:right], left, right)
        at = closes


def _strip_span(text: str, start: int, end: int) -> tuple[int, int]:
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


class EvidenceBlock(NamedTuple):
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


def blocks(tool_output: str) -> Iterator[EvidenceBlock]:
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
        yield EvidenceBlock(name, text, opening.start(), closing.end())


HARD = ("single_answer", "balanced_tags", "ids_wellformed")
SOFT = ("nothing_outside", "ids_known", "claims_nonempty", "has_claim", "no_evidence_markup")


def format_checks(reading: ParsedAnswer, evidence: Evidence, answerable: bool) -> dict[str, bool]:
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
