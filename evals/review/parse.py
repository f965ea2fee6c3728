"""A model's output as concerns: read whatever way it was written, with what was wrong named."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import lru_cache
from typing import TypeVar

from evals.review.lenient import (
    CATEGORY_KEYS,
    DEEPEST,
    PASSED_OVER,
    SEVERITY_KEYS,
    TEXT_KEYS,
    Cut,
    Members,
    Region,
    Value,
    regions,
)
from evals.schema.reviews import (
    CATEGORIES,
    SEVERITIES,
    UNKNOWN,
    Category,
    Concern,
    ParsedReview,
    ParseStatus,
    Severity,
    Unknown,
)

_TAG = r"(?:think|thinking|thought|thoughts|reasoning|reflection|scratchpad|analysis)"
_CLOSE = re.compile(rf"<\s*/\s*{_TAG}\s*>", re.IGNORECASE)
_OPEN = re.compile(rf"<\s*{_TAG}\s*>", re.IGNORECASE)
_CHANNEL = re.compile(r"<\|channel\|>\s*final\s*<\|message\|>", re.IGNORECASE)
_SPECIAL = re.compile(r"<\|[a-z_]{1,30}\|>|<(?:end_of_turn|eos|/s)>", re.IGNORECASE)
_QUOTED_KEY = re.compile(r'\\"\s?(?:text|concern_text|concern|category|severity)\s?\\"\s*:')
_PLAIN_KEY = re.compile(r'(?<!\\)"\s?(?:text|concern_text|concern|category|severity)\s?"\s*:')


@dataclass(frozen=True)
class Answer:
    """The answer, and the reasoning that stood before it or never ended."""

    text: str
    reasoning: str
    is_unfinished: bool


def answer_of(raw: str) -> Answer:
    """Return what a model answers, apart from what it wrote while thinking.

    answer_of("<think>[1] looks weak</think>[]")  ->  Answer("[]", "[1] looks weak", False)
    """
    text = raw.lstrip("\ufeff")
    channels = list(_CHANNEL.finditer(text))
    if channels:
        return Answer(_plain(text[channels[-1].end() :]), text[: channels[-1].start()], False)
    text, thought = _apart(text)
    closes = list(_CLOSE.finditer(text))
    if closes:  # the template opened the block, so the output only closes it
        return Answer(_plain(text[closes[-1].end() :]), text[: closes[-1].start()], False)
    opened = _OPEN.search(text)
    if opened:
        return Answer(_plain(text[: opened.start()]), text[opened.end() :], True)
    return Answer(_plain(text), thought, False)


def _apart(text: str) -> tuple[str, str]:
    """Return a text without its closed blocks of reasoning, and what stands in them."""
    kept, thought, at = [], [], 0
    while (opened := _OPEN.search(text, at)) is not None:
        closed = _CLOSE.search(text, opened.end())
        if closed is None:
            break
        kept.append(text[at : opened.start()])
        thought.append(text[opened.end() : closed.start()])
        at = closed.end()
    return "\n".join([*kept, text[at:]]), "\n".join(thought)


def _plain(text: str) -> str:
    """Return a text without marks of a chat template; JSON that was written as a string is opened."""
    text = _SPECIAL.sub("\n", text)
    if len(_QUOTED_KEY.findall(text)) > len(_PLAIN_KEY.findall(text)):
        text = re.sub(r'\\([\\"n])', lambda mark: "\n" if mark[1] == "n" else mark[1], text)
    return text.strip()


CLOSE = 0.85
"""How alike (difflib's ratio) a misspelt label must be to the one that is meant."""

CATEGORY_TABLE: Mapping[str, Category] = {
    "interpretion": "interpretation",
    "interpret": "interpretation",
    "overinterpretation": "interpretation",
    "over_interpretation": "interpretation",
    "prior_art_novellicity": "prior_art_novelty",
    "prior_art": "prior_art_novelty",
    "novelty": "prior_art_novelty",
    "writing_clary": "writing_clarity",
    "writing": "writing_clarity",
    "clarity": "writing_clarity",
    "presentation": "writing_clarity",
    "statoretical_methodology": "statistical_methodology",
    "statistics": "statistical_methodology",
    "statistical": "statistical_methodology",
    "statistical_analysis": "statistical_methodology",
    "statistical_methods": "statistical_methodology",
    "design": "design_flaw",
    "study_design": "design_flaw",
    "experimental_design": "design_flaw",
    "missing_control": "missing_experiment",
    "missing_controls": "missing_experiment",
    "additional_experiment": "missing_experiment",
    "additional_experiments": "missing_experiment",
    "figure": "figure_issue",
    "figures": "figure_issue",
    "reagent": "reagent_method_specificity",
    "reagents": "reagent_method_specificity",
    "method_specificity": "reagent_method_specificity",
    "methods_specificity": "reagent_method_specificity",
    "misc": "other",
    "miscellaneous": "other",
}
SEVERITY_TABLE: Mapping[str, Severity] = {
    "critical": "major",
    "fatal": "major",
    "high": "major",
    "serious": "major",
    "severe": "major",
    "essential": "major",
    "moderate": "minor",
    "medium": "minor",
    "low": "minor",
    "trivial": "optional",
    "suggestion": "optional",
    "suggested": "optional",
    "nice_to_have": "optional",
}

Label = TypeVar("Label", bound=str)
_APART = re.compile(r"[\W_]+")


def plain_label(written: str) -> str:
    """Return a label in lower case, its words joined by one underscore.

    plain_label(" Design-Flaw. ")  ->  "design_flaw"
    """
    return _APART.sub("_", written.lower()).strip("_")


@lru_cache(maxsize=4096)
def category_of(written: str | None) -> Category | Unknown:
    """Return the category that is meant, `UNKNOWN` if none is.

    category_of("Statistical methodolgy")  ->  "statistical_methodology"
    """
    return _meant(written, CATEGORIES, CATEGORY_TABLE)


@lru_cache(maxsize=4096)
def severity_of(written: str | None) -> Severity | Unknown:
    """Return the severity that is meant, `UNKNOWN` if none is.

    severity_of("Critical")  ->  "major"
    """
    return _meant(written, SEVERITIES, SEVERITY_TABLE)


def is_label(written: str) -> bool:
    """Return whether a text is nothing but a category or a severity."""
    return len(written) <= 40 and {category_of(written), severity_of(written)} != {UNKNOWN}


def _meant(written: str | None, labels: Sequence[Label], table: Mapping[str, Label]) -> Label | Unknown:
    if not written:
        return UNKNOWN
    plain = plain_label(written[:80])
    if plain in table:
        return table[plain]
    for label in labels:
        if plain == label:
            return label
    close = get_close_matches(plain, labels, n=1, cutoff=CLOSE)
    return next((label for label in labels if [label] == close), UNKNOWN)


MOST = 4
"""Leads that may stand one before the other: "- **Minor concern 2:** 1) ..."."""

_SEVERITY = r"major|minor|optional|critical|essential|serious|severe|fatal|moderate|trivial|suggestion"
_NOUN = r"concerns?|comments?|issues?|points?|weakness(?:es)?|problems?|criticisms?"
_COUNT = r"(?:no\.?\s*|\#\s*)?[(\[]?\d{1,3}(?:\.\d{1,2})?[)\]]?"
_MARKS = r"[*_]{0,3}"
_END = r"\s*(?:[.:)\]]|[-–—](?=\s))"
_STARTS = r"(?=[*_]{0,3}[\"“‘'(\[]?[^\W_])"
"""What follows a lead: a word, in marks or quotes if it likes."""
_LEADS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        # "Major 1.", "**Minor concern #2:**", "Concern 3 -", "(Major) 1:"
        rf"{_MARKS}[(\[]?(?:(?P<severity>{_SEVERITY})[)\]]?\s+)?(?:(?:{_NOUN})\s*)?(?<=[a-z)\]\s]){_COUNT}"
        rf"{_MARKS}{_END}{_MARKS}\s+{_STARTS}",
        # "Major:", "[Minor]", "**Major concern.**", "Suggestion -"
        rf"{_MARKS}[(\[]?(?P<severity>{_SEVERITY})(?:\s+(?:{_NOUN}))?{_MARKS}{_END}{_MARKS}\s+{_STARTS}",
        # "Concern:", "**Comment:**"
        rf"{_MARKS}(?:{_NOUN}){_MARKS}\s*:{_MARKS}\s+{_STARTS}",
        # "1.", "(2)", "**3)**", "#4:", "a)"
        rf"{_MARKS}(?:\#?\d{{1,2}}[.):]|\(\d{{1,2}}\)|\(?[a-z]\)){_MARKS}\s+(?!(?:and|or|to|vs)\b){_STARTS}(?![\d])",
        # "- ", "• "
        rf"[-*•–]\s+{_STARTS}(?![\d])",
    )
)
_BOLD = re.compile(rf"(?:\*\*|__)(?P<severity>{_SEVERITY})(?:\s+(?:{_NOUN}))?(?:\*\*|__)\s+", re.I)
"""A severity in bold without a stop, which is a lead only before a sentence of its own."""


def without_lead(text: str) -> tuple[str, str | None]:
    """Return a concern without what only counts or grades it, and the severity that stood there.

    without_lead("**Minor concern 2:** The legend is missing.")  ->  ("The legend is missing.", "minor")
    without_lead("Major depressive disorder was not diagnosed.")  ->  (the same text, None)

    A text that is nothing but a lead stays as it is.
    """
    severity: str | None = None
    rest = text.strip()
    for _ in range(MOST):
        found = _lead(rest)
        if found is None:
            break
        named = found.groupdict().get("severity")
        if severity is None and named and severity_of(named) != UNKNOWN:
            severity = severity_of(named)
        is_open = sum(found[0].count(mark) for mark in ("**", "__")) % 2 == 1
        rest = rest[found.end() :]
        if is_open:  # what the mark opened goes on behind the lead
            rest = f"**{rest}" if "**" in found[0] else f"__{rest}"
    return rest, severity


def _lead(text: str) -> re.Match[str] | None:
    bold = _BOLD.match(text)
    if bold is not None and text[bold.end() : bold.end() + 1].isupper():
        return bold
    return next((found for each in _LEADS if (found := each.match(text))), None)


WORDS_OF_A_CUT = 5
"""A text that the output ended in is kept from so many words on."""

_WORD = re.compile(r"[^\W\d_]")
_NUMBERED = re.compile(r"(?:concern|issue|point|comment|weakness|item)?[ _]?#?\d+", re.IGNORECASE)
_NOTHING = frozenset(("none", "null", "nan"))


@dataclass(frozen=True)
class Item:
    """A concern as written; `lost` says why one that stands there cannot be used."""

    text: str
    category: str | None = None
    severity: str | None = None
    is_cut: bool = False
    lost: str | None = None
    depth: int = field(default=0, compare=False, repr=False)


def items(value: Value) -> list[Item]:
    """Return the concerns in a value, in order, with those that cannot be used.

    items([Members([("text", "No control."), ("severity", "major")])])
    ->  [Item("No control.", None, "major")]
    """
    return list(_walk(value, Item("")))


def _walk(value: Value, around: Item) -> Iterator[Item]:
    if around.depth > DEEPEST:
        return
    around = replace(around, depth=around.depth + 1)
    if isinstance(value, Members):
        yield from _members(value, around)
    elif isinstance(value, list):
        yield from _list(value, around)


def _list(values: list[Value], around: Item) -> Iterator[Item]:
    """Yield what a list holds; a string that is only a label belongs to the text before it."""
    held: Item | None = None
    for value in values:
        if isinstance(value, str) and held is not None and is_label(value):
            held = _labelled(held, value)
            continue
        if held is not None:
            yield held
            held = None
        if isinstance(value, str):
            held = None if is_label(value) and len(values) > 1 else _items_item(value, around)
        else:
            yield from _walk(value, around)
    if held is not None:
        yield held


def _members(members: Members, around: Item) -> Iterator[Item]:
    """Yield what an object holds; one that names its text twice is two whose braces are lost."""
    for part in _parted(members):
        yield from _concern(part, around)


def _parted(members: Members) -> Iterator[Members]:
    current = Members()
    for key, value in members.pairs:
        if key.lower().strip() in TEXT_KEYS[:2] and any(key == name for name, _ in current.pairs):
            yield current
            current = Members()
        current.pairs.append((key, value))
    yield current


def _concern(members: Members, around: Item) -> Iterator[Item]:
    category = _first(members, CATEGORY_KEYS) or around.category
    severity = _first(members, SEVERITY_KEYS) or around.severity
    labelled = replace(around, category=category, severity=severity)
    keys = [key.lower().strip() for key, _ in members.pairs]
    name = next((key for key in TEXT_KEYS if key in keys and _is_text(members, key)), None)
    if name is not None:
        yield from (_items_item(text, labelled) for text in _texts(members, name))
        yield from _nested(members, around)
        return
    has_labels = bool(set(keys) & {*CATEGORY_KEYS, *SEVERITY_KEYS})
    longest = _longest(members) if has_labels else None
    if longest is not None:
        yield _items_item(longest, labelled)
        return
    nested = _nested(members, labelled if has_labels else around)
    names = TEXT_KEYS if has_labels else TEXT_KEYS[:2]
    yield from nested or [replace(labelled, lost="has no text") for _ in set(keys) & set(names)][:1]


def _nested(members: Members, around: Item) -> list[Item]:
    """Return what stands in the lists and objects of an object; a key that is a label labels them."""
    found: list[Item] = []
    for key, value in members.pairs:
        if plain_label(key) in PASSED_OVER:
            continue
        inside = _labelled(around, key) if is_label(key) else around
        if isinstance(value, str):
            if is_label(key) or _NUMBERED.fullmatch(key.strip()):
                found.append(_items_item(value, inside))
        else:
            found += _walk(value, inside)
    return found


def _items_item(text: str, labels: Item) -> Item:
    is_cut = isinstance(text, Cut)
    text = text.strip()
    item = replace(labels, text=text, is_cut=is_cut)
    if not _WORD.search(text) or text.lower() in _NOTHING:
        return replace(item, lost="has no text")
    if is_cut and len(text.split()) < WORDS_OF_A_CUT:
        return replace(item, lost="is cut off after a few words")
    return item


def _labelled(item: Item, label: str) -> Item:
    if category_of(label) != UNKNOWN:
        return replace(item, category=label)
    return replace(item, severity=label) if severity_of(label) != UNKNOWN else item


def _texts(members: Members, name: str) -> list[str]:
    return [v for k, v in members.pairs if k.lower().strip() == name and isinstance(v, str)]


def _is_text(members: Members, name: str) -> bool:
    return bool(_texts(members, name))


def _first(members: Members, keys: tuple[str, ...]) -> str | None:
    """Return the first label under one of these keys."""
    for key, value in members.pairs:
        if key.lower().strip() in keys and isinstance(value, str):
            return value
    return None


def _longest(members: Members) -> str | None:
    """Return the longest text of an object that labels one but calls it by no name of ours."""
    labels = {*CATEGORY_KEYS, *SEVERITY_KEYS}
    texts = [v for k, v in members.pairs if k.lower().strip() not in labels and isinstance(v, str)]
    texts = [text for text in texts if len(text.split()) > 1]
    return max(texts, key=len, default=None)


_BULLET = re.compile(
    r"^(?P<indent>\s{0,8})(?:\*\*)?(?:[-*•–+]|\(?\d{1,3}[.):]|\(?[a-z][.)]|(?:concern|comment|point|issue)\s+\d{1,3}\s*[.:)])"
    r"\s+(?P<rest>\S.*)$",
    re.IGNORECASE,
)
_HEADING = re.compile(r"^\s{0,3}(?:#{1,6}\s+(?P<marked>.+?)|(?P<bold>\*\*[^*]+\*\*:?)|(?P<plain>[^.]{3,60}:))\s*$")
_FIELD = re.compile(r"^\W{0,6}(?P<key>[A-Za-z_ ]{2,20}?)\W{0,4}:\W{0,4}(?P<value>.*?)\W{0,3}$")
_LEAD = re.compile(
    r"^(?:\*\*|__|\[|\()?(?P<label>[^:*\]()\[]{3,45}?)\s*(?:\((?P<inner>[^)]{3,20})\)|\[(?P<square>[^\]]{3,20})\])?\s*(?:\*\*|__|\]|\))?\s*[:.\-–—]\s*(?:\*\*|__)?\s*(?P<text>\S.*)$",
    re.DOTALL,
)
_TRAIL = re.compile(r"\s*[\[(](?P<labels>[^\[\]()]{3,80})[\])]\s*\.?$")
_RULE = re.compile(r"^\s*\|?\s*:?-{2,}")
FEWEST_WORDS = 3
FULL = 8
"""Words after which a new paragraph is not the rest of a bullet; half as many if they end in a stop."""


@dataclass
class _Entry:
    """One bullet with the lines that go on with it."""

    labels: Item
    lines: list[str] = field(default_factory=list)

    @property
    def is_full(self) -> bool:
        """Whether a paragraph after it is no part of it: it already says something."""
        n_words = sum(len(line.split()) for line in self.lines)
        is_sentence = self.lines[-1].rstrip("*_").endswith((".", "!", "?"))
        return n_words >= (FULL // 2 if is_sentence else FULL)


def prose_items(text: str) -> list[Item]:
    r"""Return the concerns of a list or a table in prose, in order.

    prose_items("1. **Design flaw (major):** No control arm.\n2. Too few mice.")
    ->  [Item("No control arm.", "design_flaw", "major"), Item("Too few mice.")]
    """
    return list(_table(text)) or [item for e in _entries(text) if (item := _item(e)) is not None]


def _entries(text: str) -> Iterator[_Entry]:
    """Yield the bullets under the labels of the headings above them."""
    under, entry, outer = Item(""), None, 0
    is_kept, is_apart = True, False
    for line in text.splitlines():
        bullet = _BULLET.match(line)
        if bullet is not None and (entry is None or len(bullet["indent"]) <= outer):
            if entry is not None:
                yield entry
            outer, is_apart = len(bullet["indent"]), False
            entry = _Entry(under, [bullet["rest"]]) if is_kept else None
            continue
        heading = _HEADING.match(line)
        if heading is not None and not (entry is not None and _field_of(line)):
            if entry is not None:
                yield entry
            entry, outer = None, 99
            title = heading["marked"] or heading["bold"] or heading["plain"]
            is_kept = plain_label(title).split("_")[0] not in PASSED_OVER
            under = _from_words(title)
            continue
        if not line.strip():
            is_apart = True
        elif entry is not None and is_apart and entry.is_full and not line[0].isspace():
            yield entry
            entry = None
        elif entry is not None:
            entry.lines.append(line.strip() if bullet is None else bullet["rest"])
            is_apart = False
    if entry is not None:
        yield entry


def _field_of(line: str) -> tuple[str, str] | None:
    """Return the name and value of a line such as `**Severity:** major`, None for any other."""
    match = _FIELD.match(line)
    if match is None:
        return None
    key = plain_label(match["key"])
    return (key, match["value"]) if key in (*TEXT_KEYS, *CATEGORY_KEYS, *SEVERITY_KEYS) else None


def _item(entry: _Entry) -> Item | None:
    """Return the concern of a bullet, None for one that holds no sentence."""
    labels, kept = entry.labels, []
    for line in entry.lines:
        named = _field_of(line)
        if named is None:
            kept.append(line)
        elif named[0] in CATEGORY_KEYS:
            labels = replace(labels, category=named[1])
        elif named[0] in SEVERITY_KEYS:
            labels = replace(labels, severity=named[1])
        else:
            kept.append(named[1] + line[len(line.rstrip(".!?")) :] if named[1] else "")
    labels, text = _unlabelled(" ".join(part for part in kept if part), labels)
    text = text.replace("**", "").strip().strip('"').strip()
    if len(text.split()) < FEWEST_WORDS:
        return None
    return replace(labels, text=text)


def _unlabelled(text: str, labels: Item) -> tuple[Item, str]:
    """Return a text without the label before it and those in brackets after it."""
    lead = _LEAD.match(text)
    if lead is not None:
        words = [lead["label"], lead["inner"] or "", lead["square"] or ""]
        parts = [part for word in words for part in re.split(r"[,/;|]", word) if part.strip()]
        if parts and all(is_label(part) or is_label(part.replace("concern", "")) for part in parts):
            for part in parts:
                labels = _with(labels, part)
            text = lead["text"]
    trail = _TRAIL.search(text)
    if trail is not None:
        parts = [p.split(":")[-1] for p in re.split(r"[,/;|]", trail["labels"]) if p.strip()]
        if all(is_label(part) for part in parts):
            for part in parts:
                labels = _with(labels, part)
            text = text[: trail.start()]
    return labels, text


def _with(labels: Item, word: str) -> Item:
    if category_of(word) != UNKNOWN:
        return replace(labels, category=word)
    return replace(labels, severity=word) if severity_of(word) != UNKNOWN else labels


def _from_words(title: str) -> Item:
    """Return the labels that a heading gives: "## Major concerns" says major."""
    labels = _with(Item(""), title)
    for word in re.findall(r"[A-Za-z]+", title):
        if severity_of(word) != UNKNOWN:
            labels = replace(labels, severity=word)
    return labels


def _table(text: str) -> Iterator[Item]:
    """Yield the rows of a table of Markdown whose head names a text."""
    lines = [line for line in text.splitlines() if line.count("|") >= 2]
    for index, line in enumerate(lines[:-1]):
        head = [plain_label(cell) for cell in _cells(line)]
        name = next((key for key in TEXT_KEYS if key in head), None)
        if name is None or not _RULE.match(lines[index + 1]):
            continue
        for row in map(_cells, lines[index + 2 :]):
            cells = dict(zip(head, row, strict=False))
            if cells.get(name, "").strip():
                category = next((cells[key] for key in CATEGORY_KEYS if key in cells), None)
                severity = next((cells[key] for key in SEVERITY_KEYS if key in cells), None)
                yield Item(cells[name], category, severity)
        return


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


SHOWN = 40
"""Characters of an unknown label that a problem shows."""

_SEPARATORS = re.compile(r"[\s,;\]\[`]*(?:json)?[\s,;\]\[`]*")
_FINAL = re.compile(r"\b(?:final|revised|corrected|updated|improved|actual)\b", re.IGNORECASE)
_DRAFT = re.compile(r"\b(?:draft|example|format|first pass|template|schema)\b", re.IGNORECASE)
_NONE = re.compile(
    r"\W*(?:none|null|\{\s*\}|n/a|(?:there are |i have |i found )?no (?:major |further |specific )?"
    r"(?:concerns?|issues?|comments?)(?: (?:found|identified|to report|to raise|were found|at all))?)\W*",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class _Found:
    """Items of one list, the prose that announces it, and how it was read."""

    items: list[Item]
    before: str
    is_valid: bool
    is_cut: bool


def parse(name: str, raw: str | None) -> ParsedReview:
    """Return the concerns in a model's output; nothing in it raises.

    parse("a", '[{"text": "No control.", "category": "design", "severity": "major"}]').concerns
    ->  (Concern(text="No control.", category="design_flaw", severity="major"),)

    A number or a severity before a concern is no part of its text ("Major 1. No control."); the severity
    counts where none is given otherwise.
    """
    if raw is None or not raw.strip():
        return _failed(name, "there is no output")
    answer = answer_of(raw)
    problems: list[str] = []
    found = _read(answer.text, problems)
    if answer.is_unfinished:
        problems.append("the reasoning never ends")
    if not _usable(found.items) and not _says_none(answer.text):
        inside = _read(answer.reasoning, [])
        if _usable(inside.items):
            problems.append("the concerns stand in the reasoning; there is no answer after it")
            return _review(name, inside, problems, is_whole=False)
    if not found.items:
        if _says_none(answer.text):
            return ParsedReview(id=name, status="empty", concerns=(), problems=tuple(problems))
        return _failed(name, *problems, "no concern can be read")
    return _review(name, found, problems, is_whole=not answer.is_unfinished)


def _review(name: str, found: _Found, problems: list[str], *, is_whole: bool) -> ParsedReview:
    concerns: list[Concern] = []
    is_whole = is_whole and not found.is_cut
    if found.is_cut:
        problems.append("the output ends before its list does")
    for place, item in enumerate(found.items, start=1):
        if item.lost is not None:
            problems.append(f"concern {place} {item.lost}")
            is_whole = False
            continue
        if item.is_cut:
            problems.append(f"concern {place} is cut off")
        text, graded = without_lead(item.text)
        category, severity = category_of(item.category), severity_of(item.severity)
        if severity == UNKNOWN:
            severity = severity_of(graded)
        problems += _unknown(place, "category", item.category, category)
        problems += _unknown(place, "severity", item.severity, severity)
        concerns.append(Concern(text=text, category=category, severity=severity))
    if not concerns:
        return _failed(name, *problems, "no concern can be read")
    status: ParseStatus = "ok" if is_whole else "partial"
    return ParsedReview(id=name, status=status, concerns=tuple(concerns), problems=tuple(problems))


def _unknown(place: int, field: str, written: str | None, label: str) -> list[str]:
    if label != UNKNOWN or written is None or written.strip().lower() == UNKNOWN:
        return []
    return [f"concern {place}: unknown {field} {written[:SHOWN]!r}"]


def _failed(name: str, *problems: str) -> ParsedReview:
    return ParsedReview(id=name, status="failed", concerns=(), problems=problems)


def _read(text: str, problems: list[str]) -> _Found:
    """Return the items of an answer: of its JSON, or of its prose where that holds none."""
    lists = _lists(text)
    chosen = _chosen(lists)
    if any(_usable(found.items) for found in chosen):
        if not all(found.is_valid for found in chosen):
            problems.append("this is not valid JSON; it was read as far as it can be")
        if len(chosen) > 1:
            problems.append(f"there are {len(chosen)} lists; they were joined")
        joined = _without_twins([item for found in chosen for item in found.items], len(chosen))
        return _Found(joined, "", True, chosen[-1].is_cut)
    written = prose_items(text)
    if written:
        problems.append("this is a list in prose, not JSON")
        return _Found(written, "", False, False)
    return _Found([item for found in lists for item in found.items], "", False, False)


def _lists(text: str) -> list[_Found]:
    """Return the values of a text that hold items; values with only commas between are one list."""
    found: list[_Found] = []
    end = 0
    last_end = -1
    for region in regions(text):
        inside = items(region.value)
        if inside:
            before = text[end : region.start]
            if found and last_end == end and _SEPARATORS.fullmatch(before):
                found[-1] = _joined(found[-1], inside, region)
            else:
                found.append(_Found(inside, before, region.is_valid, region.is_cut))
            last_end = region.end
        end = region.end
    return found


def _joined(first: _Found, inside: list[Item], region: Region) -> _Found:
    return _Found(first.items + inside, first.before, first.is_valid and region.is_valid, region.is_cut)


def _chosen(lists: Sequence[_Found]) -> list[_Found]:
    """Return the lists that answer: the last that calls itself final, else all that are no drafts."""
    usable = [found for found in lists if _usable(found.items)]
    for found in reversed(usable[1:]):
        if _FINAL.search(found.before[-200:]):
            return [found]
    asked = [found for found in usable if not _DRAFT.search(found.before[-80:])]
    return asked or usable


def _without_twins(found: list[Item], n_lists: int) -> list[Item]:
    """Return items without those that a later list says again word for word."""
    if n_lists < 2:
        return found
    return list({item.text.casefold(): item for item in reversed(found)}.values())[::-1]


def _usable(found: Sequence[Item]) -> bool:
    return any(item.lost is None for item in found)


def _says_none(text: str) -> bool:
    """Return whether an answer says that there are no concerns."""
    bare = re.sub(r"^```\w*|```$", "", text.strip()).strip()
    if _NONE.fullmatch(bare):
        return True
    read = regions(bare)
    return any(_is_empty(region.value) for region in read) and not any(items(region.value) for region in read)


def _is_empty(value: object) -> bool:
    """Return whether a value is an empty list, or an object whose only list is empty."""
    if isinstance(value, list):
        return not value
    pairs = getattr(value, "pairs", ())
    return any(isinstance(inside, list) and not inside for _, inside in pairs)
