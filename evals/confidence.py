r"""Read the confidence that an answer states about itself; never guess one from its tone.

    "… is downregulated.\nConfidence: 80%"        ->  0.80, stated
    "I am 95.5 % confident …"                     ->  0.955, stated
    "**Confidence:** high"                        ->  0.85, stated (table LEVELS in `evals.degree`)
    "… with padj 0.05."                           ->  None, missing
    "Confidence: 140%", or 80% here and 20% there ->  None, invalid

How numbers and words are read stands in `evals.degree`. A confidence interval or the level of a test is
statistics and states nothing about the answer; what is denied, supposed, quoted or about something else
(`evals.hearsay`) does not either. A chance, a likelihood or odds are no stated confidence.
"""

import re
from collections import deque
from typing import NamedTuple

from evals.degree import ADJECTIVES, ADVERBS, LAST_WORD, WORD, Level, read_degree, read_last_degree
from evals.hearsay import DATA, comments, is_hearsay
from evals.plain import Plain, plain
from evals.schema import StatedConfidence

VERSION = "confidence-3"

STEMS = ("confiden", "certain", "sure", "probability")
"""Looked for by plain search before any pattern is tried."""
ANCHOR = re.compile(r"(?:confiden(?:ce|t)|certain(?:ty)?|sure|probability)(?![a-z])")
NOUNS = ("confidence", "certainty", "probability")
USUAL = re.compile(
    r"confidence: (?:(?P<percent>[0-9]{1,2}|100)%|(?P<share>0\.[0-9]{1,6})|(?P<word>high|medium|low))(?:\n|$)"
)
"""On a line of its own, the forms that most answers have. They are read at once, to the same result."""
BRIDGE = re.compile(
    r"(?: (?:level|score|rating|estimate|value))?"
    r"(?: ?[(\[](?P<hint>[^\n()\[\]]{0,60})[)\]](?=[ \"']{0,3}[:=|-]))?"
    r"(?P<object> (?:in|of|for|that|about|on) (?![0-9~.])(?:[^\n.;:=%|]{1,80}?(?=[\"']? ?[:=])"
    r"|[^\n.;:=%|]{1,80}(?= (?:is|was|would be) )))?"
    r"(?P<link>(?:[ \"']{0,3}(?::|=|\||→|-?>|- )|[ \"]{0,3}\n{1,2}(?: ?[-|] )?"
    r"| (?:is|was|of|at(?! least| most)|as|to be|would be|stands at|set at|estimated at)(?= )){0,3})"
    r"[ }]{0,3}"
    r"(?:(?:about|around|approximately|approx\.?|roughly|only|between|from|at least|at most|over"
    r"|above|under|below|up to|more than|less than|nearly|almost|just|somewhere) |[~≥<≤>(\[\"'$] ?){0,2}"
)
ASIDE = re.compile(
    r"(?: (?:in|of|about|that) [^\n.;:()]{1,40}?)? \((?:i\.e\. |about |~)?(?=[0-9])|: "
)
"""What leads to a number after "I am fairly confident"."""
BESIDE = re.compile(r"(?: ?[(/]| ?[,-]) ?(?:i\.e\. |about |~)?")
"""What leads from one form of a confidence to another: "high (85%)", "85%, high"."""
REACH = 48
"""How many characters before the word a value may begin."""
DEGREE_OF = re.compile(r" (?:degree|level) of$")
ADVERB = re.compile(rf"\b(?:{'|'.join(ADVERBS)})$")
STATISTICS = re.compile(
    r"[ -](?:intervals?|limits?|bounds?|bands?|regions?|sets?|ci|calls?|genes?|interactions?)\b"
)
TEST_LEVEL = re.compile(r" levels?\b")
OPENED = re.compile(r" ?[(/] ?(?:i\.e\. )?")
TABLE_WIDTH = 400
"""Characters of a table's line that are looked at."""
NUMBERING = re.compile(r"[0-9]{1,2}[.)] ")
SCALE_HINT = re.compile(r"(?:0|1) ?(?:-|to) ?(?P<top>1|5|10|100)\b|(?P<percent>%|percent)")


class Statement(NamedTuple):
    """One place where a confidence is stated. `value` None = stated in a way that has no value.

    `level` is what a word said; None where a number is stated.
    """

    value: float | None
    level: Level | None
    start: int
    end: int


MISSING = StatedConfidence(value=None, status="missing")


def read_confidence(text: str) -> StatedConfidence:
    """Return the confidence that `text` states, or why there is none.

    Repeating the same value is fine; different numbers, or a number outside the band of a word
    stated apart from it, contradict each other and are invalid. `quote` is the first statement.
    """
    page = plain(text)
    return settle(text, page, statements(page.text))


def settle(text: str, page: Plain, found: list[Statement]) -> StatedConfidence:
    """Return the one confidence that the statements found on the page of `text` agree on."""
    if not found:
        return MISSING
    first = found[0]
    quote = text[page.origin(first.start) : page.origin(first.end - 1) + 1].strip()
    value = first.value if len(found) == 1 else _agreed(found)
    status = "invalid" if value is None else "stated"
    return StatedConfidence(value=value, status=status, quote=quote)


def statements(page: str) -> list[Statement]:
    """Return every statement of a confidence in plain text, in order.

    Time is linear in the text: each anchor word looks at a bounded stretch around it.
    """
    found: list[Statement] = []
    hidden = deque(comments(page) if "<!--" in page else ())
    for anchor in _anchors(page):
        at = anchor.start()
        while hidden and hidden[0][1] <= at:
            hidden.popleft()
        if (found and at < found[-1].end) or (hidden and hidden[0][0] < at):
            continue
        usual = USUAL.match(page, at) if at == 0 or page[at - 1] == "\n" else None
        if usual:
            found.append(_usual(usual))
            continue
        stated = _stated_after(page, anchor) or _stated_before(page, anchor)
        if stated and not is_hearsay(page, stated.start, stated.end):
            found.append(stated)
    return found


def _usual(match: re.Match[str]) -> Statement:
    percent, share, word = match.groups()
    start = match.start()
    if percent:
        return Statement(int(percent) / 100, None, start, match.end(1) + 1)
    if share:
        return Statement(float(share), None, start, match.end(2))
    level = ADJECTIVES[word]
    return Statement(level.value, level, start, match.end(3))


def _anchors(page: str) -> list[re.Match[str]]:
    """Return the words that a statement can turn on, in order, each found by its stem."""
    found: list[re.Match[str]] = []
    for stem in STEMS:
        at = page.find(stem)
        while at >= 0:
            anchor = ANCHOR.match(page, at)
            if anchor and not (at and (page[at - 1].isalnum() or page[at - 1] == "-")):
                found.append(anchor)
            at = page.find(stem, at + 1)
    return sorted(found, key=re.Match.start) if len(found) > 1 else found


def _stated_after(page: str, anchor: re.Match[str]) -> Statement | None:
    """Read "Confidence: 80%", "confidence level is high (85%)", "| Confidence |" over its cell."""
    if anchor.group() not in NOUNS or STATISTICS.match(page, anchor.end()):
        return None
    bridge = BRIDGE.match(page, anchor.end())
    if bridge is None or not _leads_on(anchor, bridge):
        return None
    stated = _value_at(page, anchor, bridge, bridge.end())
    if stated is None and "|" in bridge["link"]:
        below = _cell_below(page, anchor.start())
        stated = None if below is None else _value_at(page, anchor, bridge, below)
    return stated


def _leads_on(anchor: re.Match[str], bridge: re.Match[str]) -> bool:
    """Say whether a value after the bridge would be the confidence in an answer."""
    named = bridge["object"] or ""
    if anchor.group() == "probability":
        is_label = bridge["link"].strip(" \"'")[:1] in (":", "=", "|")
        is_own = not named or any(word in named for word in ("correct", "right", "true"))
        return is_label and is_own
    return not DATA.search(named)


def _value_at(page: str, anchor: re.Match[str], bridge: re.Match[str], at: int) -> Statement | None:
    """Return the number or word that stands at a place, with the other form of it beside it."""
    has_link = bridge["link"] != ""
    word = WORD.match(page, at)
    if word and (has_link or page[word.end() : word.end() + 1] in ("", ".", ",", ";", "\n", ")")):
        return _word_then_number(page, anchor.start(), word)
    if "\n" in bridge["link"] and NUMBERING.match(page, at):
        return None
    ahead = page[max(0, anchor.start() - REACH) : max(0, anchor.start() - 1)]
    degree = read_degree(page, at, _top(bridge["hint"] or (ahead if "scale" in ahead else None)))
    if degree is None or not (has_link or degree.is_marked):
        return None
    value = degree.value
    before = None if has_link else LAST_WORD.search(ahead)
    beside = OPENED.match(page, degree.end)
    after = WORD.match(page, beside.end()) if beside else None
    for level in (ADJECTIVES[found.group()] for found in (before, after) if found):
        value = _within(value, level)
    again = read_degree(page, beside.end()) if beside and "(" in beside.group() else None
    if again and again.is_marked and again.value != value:
        value = None
    return Statement(value, None, anchor.start(), degree.end)


def _word_then_number(page: str, start: int, word: re.Match[str]) -> Statement:
    level = ADJECTIVES[word.group()]
    beside = BESIDE.match(page, word.end())
    degree = read_degree(page, beside.end()) if beside else None
    if degree is None or not degree.is_marked:
        return Statement(level.value, level, start, word.end())
    return Statement(_within(degree.value, level), None, start, degree.end)


def _stated_before(page: str, anchor: re.Match[str]) -> Statement | None:
    """Read "80% confident", "with high confidence", "I am highly confident (85%)"."""
    start, end = anchor.span()
    if STATISTICS.match(page, end):
        return None
    begin = max(0, start - REACH)
    ahead = DEGREE_OF.sub("", page[begin : start - 1]) if page.endswith(" ", 0, start) else ""
    given = read_last_degree(ahead)
    if given and given[1].is_marked:
        is_test = TEST_LEVEL.match(page, end) and not ahead.endswith("my ", 0, given[0])
        return None if is_test else Statement(given[1].value, None, begin + given[0], end)
    table, form = (ADJECTIVES, LAST_WORD) if anchor.group() in NOUNS else (ADVERBS, ADVERB)
    said = form.search(ahead)
    level = table[said.group()] if said else None
    first = begin + said.start() if said else start
    aside = ASIDE.match(page, end) if anchor.group() not in NOUNS else None
    degree = read_degree(page, aside.end()) if aside else None
    if degree and degree.is_marked:
        value = _within(degree.value, level) if level else degree.value
        return Statement(value, None, first, degree.end)
    return Statement(level.value, level, first, end) if level else None


def _top(hint: str | None) -> float | None:
    """Return what counts as certainty under a label such as "(0-10)" or "(%)"."""
    scale = SCALE_HINT.search(hint) if hint else None
    if scale is None:
        return None
    return 100.0 if scale["percent"] else float(scale["top"])


def _cell_below(page: str, at: int) -> int | None:
    """Return where the cell of the first row below a table's heading begins."""
    head = page.rfind("\n", max(0, at - TABLE_WIDTH), at) + 1
    rule = page.find("\n", at, at + TABLE_WIDTH)
    row = page.find("\n", rule + 1, rule + TABLE_WIDTH) if rule >= 0 else -1
    if row < 0 or page[rule + 1 : row].strip("|-: "):
        return None
    cell = row
    for _ in range(page.count("|", head, at)):
        cell = page.find("|", cell + 1, row + TABLE_WIDTH)
        if cell < 0:
            return None
    return cell + 1 + (page.startswith(" ", cell + 1))


def _within(value: float | None, level: Level) -> float | None:
    """Return the value; None if it contradicts the word beside it."""
    return None if value is None or not level.lowest <= value <= level.highest else value


def _agreed(found: list[Statement]) -> float | None:
    if any(stated.value is None for stated in found):
        return None
    numbers = {round(s.value, 9) for s in found if s.level is None and s.value is not None}
    levels = {stated.level for stated in found if stated.level is not None}
    if len(numbers) > 1 or (not numbers and len(levels) > 1):
        return None
    if not numbers:
        return levels.pop().value
    value: float | None = numbers.pop()
    for level in levels:
        value = _within(value, level)
    return value
