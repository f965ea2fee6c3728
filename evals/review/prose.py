"""A review in prose as concerns: its titles, lists, tables and blocks of fields, as people and models write them."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest

from evals.review.clean import (
    CATEGORY_KEYS,
    END,
    LABELS,
    NOTHING,
    NOUNS,
    PASSED_OVER,
    PATTERNS,
    SEVERITY_KEYS,
    SEVERITY_WORDS,
    TEXT_KEYS,
    Candidate,
    is_label,
    n_words,
    plain_label,
)

TITLES = {grade: frozenset(words) for grade, words in LABELS["titles"]["severity"].items()}
TITLE_NOUNS, TITLE_FAULTS, TITLE_OTHERS = (frozenset(LABELS["titles"][each]) for each in ("nouns", "faults", "others"))
_NUMBER = r"(?:\d{1,3}(?:\.\d{1,2}){0,2}(?-i:[a-z])?|[a-z]|[ivx]{2,5})"
_PLACE = r"(?:(?:p(?:ages?|p)?|l(?:ines?|l)?|fig(?:ures?|s)?|tables?)\.?\s?\d{1,5}(?-i:[a-z]?)(?:\s?[-–,]\s?\d{1,5})*[,;]?\s?){1,3}[:–-]\s"
"""Where in a paper a comment belongs, as "P3 L12:", "Page 4, line 20:" or "Fig. 3:"."""
BULLET = re.compile(
    r"^(?P<indent>\s*)(?:\#{1,6}\s+)?[*_]{0,3}(?:"
    rf"(?={_PLACE})|"
    rf"(?:[-*•–+‣▪◦]|(?:(?:{NOUNS})\s+|(?-i:[A-Z])(?=\d))?\#?[(\[]?(?!(?-i:[A-Z]\.\s+[a-z]))(?P<number>{_NUMBER})"
    r"(?:[.:)\]/]{1,2}|\s*[-–—](?=\s))[*_]{0,3})\s+"
    r"|(?-i:[A-Z])?(?P<bare>\d{1,2}(?:\.\d{1,2}){1,2}|\d{1,2}(?-i:[a-z]))\s+(?=(?-i:[A-Z])|[\"“‘*])"
    rf"|(?=[(\[]?(?:{SEVERITY_WORDS})[)\]]?\s+(?:(?:{NOUNS})\s*)?(?:no\.?\s*)?\#?\d{{1,2}}[*_]{{0,3}}{END})"
    r"|(?:[・●]|\d{1,3}[.)](?=[\u3040-\u9fff])|[（(]?\d{1,3}[、．）]|[①-⑳])\s*)(?P<rest>\S.*)$",
    re.IGNORECASE,
)
_HEADING = re.compile(
    r"^\s{0,3}(?:(?P<hashes>#{1,6})\s+(?P<marked>.+?)|(?P<bold>(?:\*\*[^*]+\*\*|__[^_]+__):?)|(?P<plain>[^.]{3,60}[:：]))\s*$"
)
_TITLED = re.compile(r"^(?P<title>[^:：]{3,60}?)[*_]{0,3}(?:[:：][*_]{0,3}|\s[-–—](?=\s))\s*(?P<rest>\S.*)$")
_FIELD = re.compile(r"^\W{0,6}(?P<key>[A-Za-z_ ]{2,20}?)(?:\s+#?\d+)?\W{0,4}:[*_\s]{0,4}(?P<value>.*?)[*_\s]{0,4}$")
_LEAD = re.compile(
    r"^(?:\*\*|__|\[|\()?(?P<label>[^:*\]()\[]{3,45}?)\s*(?:\*\*|__)?\s*(?:\((?P<inner>[^)]{3,30})\)|\[(?P<square>[^\]]{3,30})\])?\s*(?:\*\*|__|\]|\))?\s*[:.\-–—]\s*(?:\*\*|__)?\s*(?P<text>\S.*)$",
    re.DOTALL,
)
_TRAIL = re.compile(r"\s*[\[(](?P<labels>[^\[\]()]{3,80})[\])]\s*\.?$")
_RULE = re.compile(r"^\s*\|?\s*:?-{2,}")
_UNDERLINE = re.compile(r"^\s*(?:-{3,}|={3,}|_{3,}|\*{3,})\s*$")
_INLINE = re.compile(
    rf"(?:^|(?<=[.:;?!])\s+(?:and\s+)?)[(\[]?(?P<number>{_NUMBER})[.)\]]{{1,2}}\s+(?=[\"“‘*]?\w)", re.IGNORECASE
)
_TAG = re.compile(r"</?(?:b|i|u|p|em|strong|h[1-6]|ul|ol|li|br|div|span)\b[^<>]*>", re.IGNORECASE)
_ALONE = re.compile(r"^(\s*[(\[]?\d{1,3}[.)\]/]{1,2})\s*\n(?=.*\w)", re.MULTILINE)
"""A number on a line of its own."""
_FORM = re.compile(
    r"\A.*^\d\. Review Comments to the Author\b|^\d\. PLOS authors have the option.*\Z", re.MULTILINE | re.DOTALL
)
"""What stands around the comments in the form of PLOS."""
_LIST_TAG = re.compile(r"<li\b[^<>]*>\s*", re.IGNORECASE)
_QUOTED = re.compile(r'^"([^"]*)"$')
_BRACKETED = re.compile(r"(?<=\w)\s*\([^()]*\)")
_ABBREVIATED = re.compile(
    r"\b(?:figs?|eqs?|refs?|nos?|tabs?|ll?|pp?|vol|sec|suppl?|al|e\.g|i\.e|vs|cf)\.$", re.IGNORECASE
)
_CHOICE = re.compile(r"\b(?:or|either|whether)[\s,;:]*$", re.IGNORECASE)
STOPS = (".", "!", "?", "。")
FEWEST_WORDS = 3
FULL = 8
"""Words after which a new paragraph is not the rest of a bullet; half as many if they end in a stop."""
TITLE_WORDS = 10
"""Words that the title of a part of a review may have where no mark shows that it is one."""
PART_RANKS = {"bold": 7, "named": 8, "plain": 9}
"""How far below `#` (1) to `######` (6) other titles stand: what is lower keeps the severity of the part it is in."""


@dataclass(frozen=True)
class _Title:
    """A title in a review: its rank, whether it names a kind of comments ("Minor points"), and what follows on its line."""

    text: str
    rank: int
    grade: str | None = None
    is_named: bool = False
    rest: str = ""


@dataclass(frozen=True)
class _Part:
    """A part of a review under one title: its labels, and whether its paragraphs are concerns, as under "Minor points".

    Parts below one named title have its `number`.
    """

    labels: Candidate = NOTHING
    rank: int = 0
    is_kept: bool = True
    has_paragraphs: bool = False
    number: int = 0
    lines: list[str] = field(default_factory=list)


@dataclass
class _Point:
    """A bullet or number of a list. `kind` tells 1 from a), i) and 1.1, `above` is the point that it is a part of."""

    labels: Candidate
    lines: list[str]
    kind: str = "bullet"
    number: str = ""
    indent: int = 0
    above: "_Point | None" = None
    is_title: bool = False

    def follows(self, other: "_Point") -> bool:
        """Return whether this is the next number of the same list."""
        before, after = other.number[:-1], other.number[-1:]
        if self.kind != other.kind or self.kind == "bullet":
            return False
        if self.number.isdigit():
            return int(self.number) == int(other.number) + 1
        return self.kind == "roman" or (self.number[:-1] == before and ord(self.number[-1]) == ord(after) + 1)


def prose_items(text: str) -> list[Candidate]:
    r"""Return the concerns of a list, a table or titled paragraphs in prose, in order.

    prose_items("1. **Design flaw (major):** No control arm.\n2. Too few mice.")
    ->  [Candidate("No control arm.", "design_flaw", "major"), Candidate("Too few mice.")]

    A title such as "Minor points" gives severity to what stands under it, marked or not. Numbered points within a point
    (1.1, 1a, a), (i)) are concerns of their own; a dash below a whole sentence explains it.
    """
    if rows := list(_table(text)) or _blocks(text):
        return rows
    text = _ALONE.sub(r"\1 ", _FORM.sub("", _TAG.sub("", _LIST_TAG.sub("- ", text))))
    parts = [part for part in _parts(text.splitlines()) if part.is_kept]
    read = [(part, *_points(part)) for part in parts]
    listed = {part.number for part, points, _ in read if points}  # paragraphs beside a list only lead to it
    found: list[Candidate] = []
    for part, points, paragraphs in read:
        said = [] if points or not part.has_paragraphs or part.number in listed else paragraphs
        said = points or [_Point(part.labels, lines) for lines in said]
        found += [item for point in said if not point.is_title for item in _inline(_item(point), point.number)]
    return [item for item in found if n_words(item.text) >= FEWEST_WORDS]


def _parts(lines: Sequence[str]) -> list[_Part]:
    """Return a review cut at its titles."""
    parts = [_Part()]
    named = parts[0]  # the part whose title names a kind of comments
    for at, line in enumerate(lines):
        title = _title(lines, at)
        if title is None or (title.rank == PART_RANKS["plain"] and parts[-1].lines and _field_of(line)):
            parts[-1].lines.append(line)
            continue
        words = set(_words(title.text))
        within = named if not title.is_named and title.rank > named.rank else _Part(number=len(parts))
        labels = replace(within.labels, category=None).with_labels(title.text)
        labels = replace(labels, severity=title.grade or labels.severity)
        part = _Part(
            labels,
            title.rank,
            is_kept=words.isdisjoint(PASSED_OVER) or not words.isdisjoint(TITLE_NOUNS),
            has_paragraphs=within.has_paragraphs
            or (title.is_named and (labels.severity is not None or not words.isdisjoint(TITLE_FAULTS))),
            number=within.number,
            lines=[title.rest] if title.rest else [],
        )
        if title.is_named or within is not named:
            named = part
        parts.append(part)
    return parts


def _words(title: str) -> list[str]:
    """Return the words of a title without its number."""
    words = plain_label(title).split("_")
    return words[1:] if len(words) > 1 and re.fullmatch(rf"{_NUMBER}|[ivx]+", words[0], re.IGNORECASE) else words


def _grade(words: Iterable[str]) -> str | None:
    """Return the severity that the words of a title name, None for none or several."""
    grades = {grade for grade, known in TITLES.items() if not known.isdisjoint(words)}
    return grades.pop() if len(grades) == 1 else None


def _bare_heading(title: str, rank: int, rest: str = "") -> _Title | None:
    """Return a title that says nothing but which comments stand under it: "Specific comments (for the authors)"."""
    kinds = TITLE_NOUNS.union(PASSED_OVER, *TITLES.values())
    for words in map(_words, (_BRACKETED.sub("", title), title)):
        is_known = all(word in kinds or word in TITLE_OTHERS or word.isdigit() for word in words)
        if is_known and not kinds.isdisjoint(words):
            return _Title(title, min(rank, PART_RANKS["named"]), _grade(words), is_named=True, rest=rest)
    return None


def _title(lines: Sequence[str], at: int) -> _Title | None:
    """Return the title that a line is, None for any other line.

    One without a mark names its comments ("Major points"), or begins so and stands by itself.
    """
    line = lines[at]
    before, after = (lines[at - 1].strip() if at else ""), (lines[at + 1] if at + 1 < len(lines) else "")
    bullet, marked, titled = BULLET.match(line), _HEADING.match(line), _TITLED.match(line)
    text, rank = line, PART_RANKS["named"]
    if marked:
        kind = "bold" if marked["bold"] else "plain"
        text, rank = marked[marked.lastgroup or 0], len(marked["hashes"] or "") or PART_RANKS[kind]
    if bullet:
        text = bullet["rest"]
    is_apart = not before or before.endswith((*STOPS, ":")) or _UNDERLINE.match(before) is not None
    if (marked or bullet or is_apart) and (named := _bare_heading(text, rank)):
        return named
    if titled and is_apart and not marked and not bullet:
        return _bare_heading(titled["title"], rank, titled["rest"])
    if bullet:
        is_section = line.lstrip().startswith("#") and PATTERNS["is a heading"].fullmatch(text.strip("*_: "))
        return _Title(text, rank) if is_section else None
    words = _words(text)
    first, *others = [word for word in words[:4] if word not in TITLE_OTHERS] or [""]
    is_led = bool(_grade([first])) and not TITLE_NOUNS.isdisjoint(others[:1])
    is_led = is_led or (words[0] in PASSED_OVER and len(words) <= FULL // 2)
    is_short = len(words) <= TITLE_WORDS and not text.rstrip("*_ ").endswith(STOPS)
    is_alone = not before and (not after.strip() or BULLET.match(after) is not None)
    if is_led and (marked or (is_short and is_alone)):
        return _Title(text, min(rank, PART_RANKS["named"]), _grade([first]), is_named=True)
    return (
        _Title(text, rank, None if TITLE_NOUNS.isdisjoint(words) else _grade(words))
        if marked or (is_short and _UNDERLINE.match(after))
        else None
    )


def _points(part: _Part) -> tuple[list[_Point], list[list[str]]]:
    """Return the points of a part, and the paragraphs behind them: all of it where there is no list."""
    points: list[_Point] = []
    paragraphs: list[list[str]] = []  # those since the last point
    is_apart = True
    for line in part.lines:
        start = BULLET.match(line)
        is_field = start and points and (_field_of(start["rest"]) or ("",))[0] in (*CATEGORY_KEYS, *SEVERITY_KEYS)
        if not line.strip() or _UNDERLINE.match(line):
            is_apart = True
            continue
        if start is not None and not is_field:
            point = _place_point(start, points, part.labels)
            if paragraphs and points and (point.above is points[-1] or any(map(point.follows, _open(points[-1])))):
                points[-1].lines += [each for paragraph in paragraphs for each in paragraph]
            paragraphs = []
            above = point.above
            if above and point.kind == "bullet" and point.indent > above.indent and not _is_heading(above.lines):
                above.lines.append(start["rest"])  # explains what stands above
            else:
                points.append(point)
        elif points and not paragraphs and (not is_apart or line[0].isspace() or not _is_full(points[-1].lines)):
            points[-1].lines.append(start["rest"] if start else line.strip())
        elif is_apart or not paragraphs:
            paragraphs.append([line.strip()])
        else:
            paragraphs[-1].append(line.strip())
        is_apart = False
    for point in points:
        if point.above is None:
            continue
        point.labels = point.above.labels
        if _is_heading(point.above.lines):
            point.above.is_title = True
            subject = point.above.lines[0].strip("*_:： ")
            point.labels = point.labels.with_labels(subject)
            if n_words(" ".join(point.lines)) <= FEWEST_WORDS and not is_label(subject):
                point.lines.insert(0, f"{subject}:")
    if len(paragraphs) == 1 and sum(line.endswith(STOPS) for line in paragraphs[0][:-1]) * 2 >= len(paragraphs[0]) > 1:
        paragraphs = [[line] for line in paragraphs[0]]  # a line for each
    return points, paragraphs


def _open(point: _Point) -> list[_Point]:
    """Return a point and those that it is part of, innermost first."""
    return [point, *(_open(point.above) if point.above else ())]


def _place_point(start: re.Match[str], points: Sequence[_Point], labels: Candidate) -> _Point:
    """Return the point that a line begins, below the point that it is a part of."""
    number, indent = (start["number"] or start["bare"] or "").lower(), len(start["indent"].expandtabs(4))
    point = _Point(labels, [start["rest"]], kind_of(number), number, indent)
    if not points:
        return point
    within = _open(points[-1])
    if number in ("i", "v", "x") and not any(map(point.follows, within)):
        point.kind = "roman"
    alike = [each for each in within if each.kind == point.kind and indent <= each.indent + 1]
    beside = min(alike, key=lambda each: abs(each.indent - indent), default=None)
    point.above = beside.above if beside else points[-1]
    if beside is None and not number and indent <= points[-1].indent and not _is_heading(points[-1].lines):
        point.above = None  # a dash beside the number above it
    return point


def kind_of(number: str) -> str:
    """Return what list a number is of: bullet (no number), number, letter, roman, or how many parts it has (1.1, 1a)."""
    if not number:
        return "bullet"
    if number.isdigit():
        return "number"
    if number[0].isdigit():
        return f"{len(re.findall('[0-9]+|[a-z]', number))} parts"
    return "letter" if len(number) == 1 else "roman"


def _is_heading(lines: Sequence[str]) -> bool:
    """Return whether a point only names what the points below it are about."""
    text = " ".join(lines).rstrip("*_ ")
    is_led = text.endswith((":", "：")) and not re.search(r"[.!?。]\s", text)
    return is_led or (len(lines) == 1 and n_words(text) < FULL and not text.endswith(STOPS))


def _is_full(lines: Sequence[str]) -> bool:
    """Return whether a point already says something, so that a paragraph after it is no part of it."""
    return sum(map(n_words, lines)) >= (FULL // 2 if lines[-1].rstrip("*_").endswith(STOPS) else FULL)


def _inline(item: Candidate, number: str = "") -> list[Candidate]:
    """Return the points that are numbered within one paragraph, "The methods: a) ... b) ...", each by itself.

    `number` is the one before the paragraph. A choice ("either a) ... or b) ...") is one concern.
    """
    text, run = f"{number}) {item.text}" if number else item.text, list[re.Match[str]]()
    for mark in _INLINE.finditer(text):
        here, last = (
            _Point(item, [], kind_of(each), each)
            for each in (mark["number"].lower(), run[-1]["number"].lower() if run else "")
        )
        is_first = not run and (here.number in ("1", "a", "i") or not mark.start())
        if (is_first or (run and here.follows(last))) and not _ABBREVIATED.search(
            text, max(0, mark.start() - 20), mark.start()
        ):
            run.append(mark)
    pieces = [
        text[mark.end() : after.start() if after else None].strip(" ;,") for mark, after in zip_longest(run, run[1:])
    ]
    before = text[: run[0].start()].strip() if run else ""
    if (
        len(run) < 2
        or _CHOICE.search(before)
        or any(n_words(each) < FEWEST_WORDS or _CHOICE.search(each) for each in pieces)
    ):
        return _inline(item) if number else [item]
    said = [] if not before or _is_heading([before]) else [before]
    return [each for piece in (*said, *pieces) for each in _inline(replace(item, text=piece))]


def _blocks(text: str) -> list[Candidate]:
    """Return the concerns of blocks of `Concern: …`, `Category: …` and `Severity: …` lines, in any order."""
    found: list[dict[str, str]] = [{}]
    for line in text.splitlines():
        name, value = _field_of(line) or ("", "")
        kind = next((keys[0] for keys in (TEXT_KEYS, CATEGORY_KEYS, SEVERITY_KEYS) if name in keys), "")
        if kind and value and line.strip()[0] not in '"“':
            found += [{}] if kind in found[-1] else []
            found[-1][kind] = value
        elif _RULE.match(line) or _HEADING.match(line):
            found.append({})
        elif line.strip() and (BULLET.match(line) or line.strip()[0] in '{["“'):
            return []
        elif line.strip() and "text" in found[-1]:
            found[-1]["text"] += f" {line.strip()}"
    known = [each for each in found if each]
    if not any(len(each) > 1 for each in known) or not all("text" in each for each in known):
        return []
    return [Candidate(each["text"], each.get("category"), each.get("severity")) for each in known]


def _field_of(line: str) -> tuple[str, str] | None:
    """Return the name and value of a line such as `**Severity:** major`, None for any other."""
    match = _FIELD.match(line)
    key = "" if match is None else plain_label(match["key"])
    return (key, match["value"]) if match and key in (*TEXT_KEYS, *CATEGORY_KEYS, *SEVERITY_KEYS) else None


def _item(point: _Point) -> Candidate:
    """Return the concern of a point without its labels."""
    labels, kept = point.labels, list[str]()
    for line in point.lines:
        name, value = _field_of(line) or ("", "")
        if name in (*CATEGORY_KEYS, *SEVERITY_KEYS):
            labels = replace(labels, **{"category" if name in CATEGORY_KEYS else "severity": value})
        else:
            kept.append(value if name else line)
    text = " ".join(filter(None, kept))
    for pattern in (_LEAD, _TRAIL):
        if found := pattern.search(text):
            *words, rest = found.groups("") if pattern is _LEAD else (found["labels"], text[: found.start()])
            parts = [part.split(":")[-1] for word in words for part in re.split(r"[,/;|]", word) if part.strip()]
            if parts and all(is_label(part) or is_label(part.replace("concern", "")) for part in parts):
                labels, text = labels.with_labels(*parts), rest
    return replace(labels, text=_QUOTED.sub(r"\1", text.replace("**", "").strip()))


def _table(text: str) -> Iterator[Candidate]:
    """Yield the rows of a table of Markdown whose head names a text."""
    lines = [line.strip().strip("|") for line in text.splitlines() if line.count("|") >= 2]
    rows = [[cell.strip() for cell in line.split("|")] for line in lines]
    for index, row in enumerate(rows[:-1]):
        head = [plain_label(cell) for cell in row]
        name = next((key for key in TEXT_KEYS if key in head), None)
        if name is None or not _RULE.match(rows[index + 1][0]):
            continue
        for cells in (dict(zip(head, row, strict=False)) for row in rows[index + 2 :]):
            category = next((cells[key] for key in CATEGORY_KEYS if key in cells), None)
            severity = next((cells[key] for key in SEVERITY_KEYS if key in cells), None)
            if cells.get(name):
                yield Candidate(cells[name], category, severity)
        return
