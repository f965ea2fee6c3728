"""A paper as a model reads it: whole where it fits, else in parts that overlap, shortened only beyond them.

Title and abstract head every part. Sections stand in the paper's own order under their own names, also
where names repeat; captions of figures are not given, because no picture is.
"""

import hashlib
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import groupby
from typing import Protocol

from evals.errors import BadConfig, ChainMismatch
from evals.papers.outline import role_of
from evals.schema import Article, Message
from evals.schema.reviews import MODEL_CATEGORIES, SEVERITIES

MOST = 25
"""Concerns of one reply at most: a model that repeats itself still comes to an end."""
SHORTEST, FORM_LONGEST = 10, 700
"""Characters of a concern. Human ones have 10 to 2,000; longer ones than this ramble."""


def _object(**properties: object) -> dict[str, object]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


CONCERN_SCHEMA = _object(
    text={"type": "string", "minLength": SHORTEST, "maxLength": FORM_LONGEST},
    category={"type": "string", "enum": list(MODEL_CATEGORIES)},
    severity={"type": "string", "enum": list(SEVERITIES)},
)
"""One concern: exactly three keys, in the order that replies are taught in."""
ARRAY_SCHEMA = {"type": "array", "items": CONCERN_SCHEMA, "maxItems": MOST}
"""A reply as it is asked for: one array of concerns, which may be empty."""
OBJECT_SCHEMA = _object(concerns=ARRAY_SCHEMA)
"""The same in an object, for servers that take no other schema at the top."""


PROMPT_VERSION = "review-1"
"""Goes up with every change of prompt.txt; tests hold the pair of version and checksum."""
PAPER = "Review the paper below. Answer with the JSON array alone.\n\n"
PART = (
    "Review part {part} of {parts} of the paper below; the other parts are reviewed apart. Answer with the JSON"
    " array alone.\n\n"
)


@cache
def review_system_prompt() -> str:
    """Return the instructions, without a newline at the end."""
    return resources.files("evals.review").joinpath("prompt.txt").read_text(encoding="utf-8").strip()


def prompt_sha256(prompt: str | None = None) -> str:
    """Return the checksum of a system prompt, of ours if none is given."""
    return hashlib.sha256((review_system_prompt() if prompt is None else prompt).encode()).hexdigest()


def request(text: str, part: int = 1, parts: int = 1) -> str:
    """Return the user's turn: what is asked, then the paper or its part."""
    asked = PAPER if parts == 1 else PART.format(part=part, parts=parts)
    return asked + text


def review_conversation(request: str) -> tuple[Message, Message]:
    """Return the turns that a model answers: the instructions, and a request."""
    return Message(role="system", content=review_system_prompt()), Message(role="user", content=request)


def check_prompt(stored: str, adapter: str) -> None:
    """Raise ChainMismatch if an adapter was trained with other instructions than it would be asked with."""
    if stored == review_system_prompt():
        return
    raise ChainMismatch(
        f"{adapter} was trained with other review instructions (checksum {prompt_sha256(stored)[:12]}) than"
        f" {PROMPT_VERSION} of this version of Assay ({prompt_sha256()[:12]}). Use the version that it was"
        " trained with, or train it again."
    )


LEAST_PAPER = 256
"""Tokens below which a part of a paper is too little to review."""


class TokenCounter(Protocol):
    """A model's tokenizer as far as it is needed here."""

    name: str

    def ends(self, text: str) -> Sequence[int]:
        """Return where each token of a text ends, in characters from its start."""

    def chat(self, messages: Sequence[Mapping[str, str]]) -> int:
        """Return the tokens of a conversation (role and content) as the model's template writes it."""


@dataclass(frozen=True)
class Budget:
    """Room of one row in tokens. `reply_reserve` is kept free for the reply of a model.

    A paper that does not fit is read in up to `max_parts` parts, each beginning with the last
    `overlap` tokens of the one before; only what does not fit in them all is shortened.
    """

    context: int = 16_384
    reply_reserve: int = 2_048
    overlap: int = 200
    max_parts: int = 4

    def __post_init__(self) -> None:
        for name, low in (("context", 1), ("reply_reserve", 1), ("overlap", 0), ("max_parts", 1)):
            if getattr(self, name) < low:
                raise BadConfig(f"{name} is {getattr(self, name)}; it takes a whole number from {low} up.")
        if self.overlap > self.context // 4:
            raise BadConfig(f"overlap is {self.overlap} tokens of a context of {self.context}; use a quarter at most.")

    def paper(self, counter: TokenCounter, reply: int = 0) -> int:
        """Return the tokens that a paper or a part of it may have; BadConfig if hardly any are left.

        `reply` is the length of a known reply: one that is longer than the reserve takes its room from
        the paper, because a reply is never cut.
        """
        fixed = instructions(counter)
        room = self.context - fixed - max(self.reply_reserve, reply)
        if room < LEAST_PAPER:
            raise BadConfig(
                f"a context of {self.context} tokens less {fixed} for the instructions and"
                f" {max(self.reply_reserve, reply)} for the reply leaves {room} for the paper; it needs"
                f" {LEAST_PAPER}. Use a larger context or a smaller reply reserve."
            )
        return room


def instructions(counter: TokenCounter) -> int:
    """Return the tokens of everything but paper and reply: system prompt, request, template, end."""
    turns = [each.model_dump() for each in review_conversation(request("", 9, 9))]
    return counter.chat([*turns, {"role": "assistant", "content": ""}])


COMMON = re.compile(
    r"<\|[A-Za-z0-9_ -]{1,40}\|>|<｜[^<>]{1,40}｜>|\[/?INST\]|<</?SYS>>"
    r"|</?(?:start_of_turn|end_of_turn|bos|eos|s)>"
)
"""Marks of the usual templates, for servers whose tokenizer is not here."""


def without_marks(article: Article, marks: Sequence[str] = ()) -> tuple[Article, int]:
    """Return the paper with every mark taken apart by a blank, and how many there were."""
    pattern = re.compile("|".join([*map(re.escape, sorted(marks, key=len, reverse=True)), COMMON.pattern]))
    count = 0

    def apart(text: str) -> str:
        nonlocal count
        text, found = pattern.subn(lambda mark: f"{mark[0][0]} {mark[0][1:]}", text)
        count += found
        return text

    sections = tuple(
        each.model_copy(update={"name": apart(each.name), "text": apart(each.text)}) for each in article.sections
    )
    changed = {"title": apart(article.title), "abstract": apart(article.abstract), "sections": sections}
    return (article.model_copy(update=changed) if count else article), count


RANKS: dict[str, int] = {
    "methods": 0,
    "results": 1,
    "statement": 2,
    "introduction": 3,
    "discussion": 3,
    "conclusion": 3,
    "abstract": 3,
    "other": 4,
    "supplement": 5,
    "references": 6,
}
"""In this order sections are kept whole; statements (ethics, data) are short and often what is missing."""
FLOOR = 128
"""Tokens that every section is given if there is room, so that none vanishes."""


def allot(sizes: Sequence[int], ranks: Sequence[int], room: int) -> list[int]:
    """Return how much of `room` each section is given: all of it or as much as there is need for.

    Every section gets a floor; then the sections of each rank, lowest first, are filled: whole if they
    fit, else evenly, with what short ones do not need going to the others of the rank.

    >>> allot([5, 900, 900], [0, 0, 1], 1000)
    [5, 867, 128]
    """
    if sum(sizes) <= room:
        return list(sizes)
    floor = min(FLOOR, max(1, room // (2 * len(sizes)))) if sizes else 0
    given = divide_room([min(size, floor) for size in sizes], room)
    for rank in sorted(set(ranks)):
        left = room - sum(given)
        members = [at for at, each in enumerate(ranks) if each == rank]
        more = divide_room([sizes[at] - given[at] for at in members], left)
        for at, extra in zip(members, more, strict=True):
            given[at] += extra
    return given


def divide_room(wants: Sequence[int], room: int) -> list[int]:
    """Return `room` shared evenly among wants, none given more than it wants; the sum is exact.

    >>> level([1, 10, 10], 12)
    [1, 5, 6]
    """
    given = [0] * len(wants)
    left = min(room, sum(wants))
    order = sorted(range(len(wants)), key=lambda at: wants[at])
    for place, at in enumerate(order):
        share = left // (len(order) - place)
        given[at] = min(wants[at], share)
        left -= given[at]
    return given


CUT = "[… shortened]"
"""Stands where the rest of a section was left out."""
GOES_ON = "(continued)"
SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z(\"“])|\n+")
HEADING = 12
"""Tokens set aside for a section's heading and what parts it from the one before."""
LONGEST = 120
"""Tokens of a piece of a sentence; a text without a full stop is divided between words."""
LEAST = 32
SLACK = 0.97
"""A try that turns out too long, because tokens join across pieces, is made again with so much room."""


@dataclass(frozen=True)
class PaperPart:
    """The text of a part (from 1) of a paper, its tokens, and the tokens of the paper that no part has."""

    text: str
    part: int
    parts: int
    tokens: int
    lost: int
    whole: int
    """Tokens of the whole paper, before anything was left out."""


@dataclass(frozen=True)
class PaperSentence:
    """A sentence of a section with its tokens; `section` counts from 0."""

    section: int
    text: str
    tokens: int
    is_paragraph_start: bool


def pieces_of(article: Article, room: int, counter: TokenCounter, overlap: int, max_parts: int) -> list[PaperPart]:
    """Return a paper in parts of at most `room` tokens each, as few as it takes and at most `max_parts`."""
    head = head_of(article)
    tries = room
    while True:
        pieces = _try_parts(article, head, tries, counter, overlap, max_parts)
        if all(piece.tokens <= room for piece in pieces):
            return pieces
        tries = int(tries * SLACK)
        if tries < LEAST:
            raise BadConfig(f"{article.id} cannot be put into parts of {room} tokens; use a larger context.")


def head_of(article: Article) -> str:
    """Return title and abstract as every part begins."""
    parts = [f"# {article.title.strip()}"] if article.title.strip() else []
    parts += [f"## Abstract\n{article.abstract.strip()}"] if article.abstract.strip() else []
    return "\n\n".join(parts)


def sections_of(article: Article) -> list[tuple[str, str]]:
    """Return names and texts of the sections that have text, in order."""
    return [(each.name.strip() or "Main text", each.text.strip()) for each in article.sections if each.text.strip()]


def _try_parts(
    article: Article, head: str, room: int, counter: TokenCounter, overlap: int, max_parts: int
) -> list[PaperPart]:
    names = [name for name, _ in sections_of(article)]
    sections = [list(_units(at, text, counter)) for at, (_, text) in enumerate(sections_of(article))]
    sizes = [sum(unit.tokens for unit in section) + HEADING for section in sections]
    head_tokens = len(counter.ends(head))
    head, head_kept = _first_tokens(head, room // 2, counter) if head_tokens > room // 2 else (head, head_tokens)
    each = room - head_kept - HEADING
    fits = sum(sizes) <= each
    total = each if fits or max_parts == 1 else max_parts * each - (max_parts - 1) * (overlap + HEADING)
    given = allot(sizes, [RANKS[role_of(name)] for name in names], total)
    units = [
        unit for at, section in enumerate(sections) for unit in _fit_section(section, sizes[at], given[at], counter)
    ]
    packed = _pack(units, each, 0 if fits else overlap)[:max_parts]
    bodies = [_part_text(part, names, units) for part in packed] or [""]
    whole = head_tokens + sum(sizes)
    placed = {place for part in packed for place in part}
    left_over = sum(unit.tokens for at, unit in enumerate(units) if at not in placed)
    lost = head_tokens - head_kept + sum(sizes) - sum(given) + left_over
    texts = ["\n\n".join(filter(None, (head, body))) for body in bodies]
    return [
        PaperPart(text, part, len(texts), len(counter.ends(text)), lost, whole)
        for part, text in enumerate(texts, start=1)
    ]


def _units(section: int, text: str, counter: TokenCounter) -> Iterator[PaperSentence]:
    """Give the sentences of a section, long ones in pieces of whole words; its tokens are counted once."""
    ends = counter.ends(text)
    at, is_start = 0, True
    for found in [*SENTENCE_END.finditer(text), None]:
        stop, after = found.span() if found else (len(text), len(text))
        while at < stop:
            first = bisect_right(ends, at)
            last = first + LONGEST - 1
            until = stop if last >= len(ends) or ends[last] >= stop else ends[last]
            until = until if until == stop else max(text.rfind(" ", at, until), at) or until
            until = until if until > at else ends[last]
            yield PaperSentence(section, text[at:until].strip(), max(1, bisect_right(ends, until) - first), is_start)
            at, is_start = until, False
        is_start = "\n" in text[stop:after]
        at = after


def _fit_section(section: list[PaperSentence], size: int, given: int, counter: TokenCounter) -> Iterator[PaperSentence]:
    """Give the sentences of a section that fit in what it was given, with a mark where the rest is left out."""
    if given >= size:
        yield from section
        return
    mark = PaperSentence(section[0].section, CUT, len(counter.ends(CUT)) + 1, False)
    left = given - HEADING - mark.tokens
    for unit in section:
        if unit.tokens > left:
            text, tokens = _first_tokens(unit.text, left, counter)
            if text:
                yield PaperSentence(unit.section, text, tokens, unit.is_paragraph_start)
            break
        left -= unit.tokens
        yield unit
    yield mark


def _first_tokens(text: str, tokens: int, counter: TokenCounter) -> tuple[str, int]:
    """Return the words at the start of a text that have at most so many tokens, and how many they have."""
    ends = counter.ends(text)
    if tokens <= 0:
        return "", 0
    if len(ends) <= tokens:
        return text, len(ends)
    start = text[: ends[tokens - 1]]
    words = start.rpartition(" ")[0] or start
    return words, sum(end <= len(words) for end in ends)


def _pack(units: Sequence[PaperSentence], room: int, overlap: int) -> list[list[int]]:
    """Return places of units by part: parts are filled in turn, each begins with the end of the one before."""
    parts: list[list[int]] = [[]]
    used, section = 0, -1
    for at, unit in enumerate(units):
        cost = unit.tokens + (HEADING if unit.section != section else 0)
        if parts[-1] and used + cost > room:
            again = _tail(units, parts[-1], min(overlap, max(0, room - unit.tokens - 2 * HEADING)))
            parts.append(again)
            headings = len({units[place].section for place in again} | {unit.section})
            used = sum(units[place].tokens for place in again) + headings * HEADING
            cost = unit.tokens
        parts[-1].append(at)
        used += cost
        section = unit.section
    return parts


def _tail(units: Sequence[PaperSentence], part: Sequence[int], overlap: int) -> list[int]:
    """Return the last places of a part that have at most `overlap` tokens together, headings counted."""
    tail: list[int] = []
    left = overlap
    for place in reversed(part):
        is_new = not tail or units[tail[0]].section != units[place].section
        left -= units[place].tokens + (HEADING if is_new else 0)
        if left < 0:
            break
        tail.insert(0, place)
    return tail


def _part_text(part: Sequence[int], names: Sequence[str], units: Sequence[PaperSentence]) -> str:
    """Return a part's sections under their names; one that began in an earlier part says so."""
    blocks = []
    for section, places in groupby(part, key=lambda place: units[place].section):
        found = list(places)
        first = next(at for at, unit in enumerate(units) if unit.section == section)
        heading = f"## {names[section]}" + (f" {GOES_ON}" if found[0] != first else "")
        text = ""
        for place in found:
            unit = units[place]
            text += ("\n" if unit.is_paragraph_start else " ") + unit.text if text else unit.text
        blocks.append(f"{heading}\n{text}")
    return "\n\n".join(blocks)
