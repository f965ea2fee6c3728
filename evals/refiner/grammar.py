"""The output grammar: one answer block, in it free text and claims that cite evidence by id.

    parse("<answer>Flight matters. <snippet id=S1,S2>OXPHOS falls</snippet></answer>")
    -> claims [("OXPHOS falls", ids ("S1", "S2"))], uncited ["Flight matters."]

Attributes may be quoted, blanks around commas are allowed, an id that is repeated in one list counts
once, spans do not nest. Every tag is read in one pass from left to right, so time grows with length
alone. Knows nothing of the evidence.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

ID = r"[A-Za-z0-9_.:-]+"
TAG = re.compile(r"<(/?)(answer|snippet)(?=[\s/>])([^<>]*)>", re.IGNORECASE)
LIST = rf"({ID}(?:\s*,\s*{ID})*)"
IDS = re.compile(rf"\s+id\s*=\s*(?:\"\s*{LIST}\s*\"|'\s*{LIST}\s*'|{LIST})\s*", re.IGNORECASE)
EVIDENCE_MARKUP = re.compile(
    r"</?(?:tool[_-]?(?:output|call|calls|response|result)s?|webpages?|snippets)(?=[\s/>=])[^<>]*>",
    re.IGNORECASE,
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
        return _without_block(
            completion[start:], [tag for tag in tags if tag[2].lower() != "answer"]
        )
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
