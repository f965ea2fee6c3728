r"""Read the confidence that an answer states about itself; never guess one from its tone.

    "… is downregulated.\nConfidence: 80%"        ->  0.80, stated
    "I am 95.5 % confident …"                     ->  0.955, stated
    "**Confidence:** high"                        ->  0.85, stated (table LEVELS)
    "… with padj 0.05."                           ->  None, missing
    "Confidence: 140%", or 80% here and 20% there ->  None, invalid

A confidence interval or the level of a test is statistics and states nothing about the answer; what is denied,
supposed, quoted or about something else does not either. `evals.verifiers.line` reads a last line "Confidence: N%". A chance, a likelihood or odds are no stated confidence.
"""

import re
from typing import NamedTuple

from evals.normalize import Plain, plain
from evals.schema import StatedConfidence

HEARSAY_REACH = 60
"""How many characters before a statement may say whose it is."""
ASKED = re.compile(r"[\"')\]]? ?\?")
OBJECT = re.compile(r" (?:in|for|about|of) [^\n.,;:]{1,48}")
DATA = re.compile(
    r"\b(?:data|datasets?|measurements?|samples?|annotations?|experiments?|replicates?|reads?"
    r"|sequencing)\b|\b(?:rr|mhu|str|glds|osd)-?[0-9]"
)
DENIED = re.compile(r"(?:\b(?:not|cannot|never|nobody|without)|n't)\b[^.,;:]{0,12}$")
SUPPOSED = re.compile(r"(?:^|[.;:!?,])\W*(?:if|unless|suppose|imagine|assuming|had)\b[^.;:!?]*$")
OTHERS = re.compile(
    r"(?:\b(?:their|his|her|your)|(?<!model)(?<!assistant)'s|s'"
    r"|\b(?:authors|they|researchers|scientists|reviewers|anyone) (?:are|were|is)"
    r"|\b(?:data|measurements?|samples?|reads?)\b[^.,;:]{0,30}\bof(?: a)?) $"
)
QUOTED = re.compile(
    r"(?:e\.g\.|for example|for instance|such as)[,:]? ?[\"']?$"
    r"|\b(?:prompt|instructions?|question|user|system|template|format|line|write|ends?|ending|asked"
    r"|says?|said)\b[^.\"']{0,24}[\"']$"
    r"|\b(?:prompt|instructions?|question|user|system|template) (?:said|says|asks|was|is):? ?$"
)
TESTED = re.compile(r"significan|\balpha\b|threshold|\b(?:at|using) (?:(?:a|an|the) )?$")


def is_hearsay(page: str, start: int, end: int) -> bool:
    """Say whether the statement page[start:end] is not the answer's own about itself.

    Looks at a bounded stretch on either side.
    """
    if ASKED.match(page, end) or page.startswith(" if ", end):
        return True
    object_ = OBJECT.match(page, end)
    if object_ and DATA.search(object_.group()):
        return True
    ahead = page[max(0, start - HEARSAY_REACH) : start].rpartition("\n")[2]
    if "confidence" in page[start:end] and ":" not in page[start:end] and TESTED.search(ahead):
        return True
    return any(form.search(ahead) for form in (DENIED, OTHERS, QUOTED, SUPPOSED))


class Level(NamedTuple):
    """What a word counts as, and the numbers that may stand beside it without contradicting it."""

    value: float
    lowest: float
    highest: float
    adjectives: tuple[str, ...]
    adverbs: tuple[str, ...] = ()


LEVELS = (
    Level(0.95, 0.80, 1.00, ("very high", "extremely high"), ("extremely", "absolutely")),
    Level(0.85, 0.70, 1.00, ("high",), ("very", "highly")),
    Level(
        0.70, 0.50, 0.90,
        ("fairly high", "quite high", "moderately high", "medium-high", "moderate to high", "medium to high"),
        ("fairly", "quite", "reasonably", "pretty"),
    ),
    Level(0.60, 0.35, 0.75, ("medium", "moderate"), ("moderately", "somewhat")),
    Level(
        0.45, 0.20, 0.60,
        ("fairly low", "quite low", "medium-low", "low to moderate", "low to medium"), ("slightly",),
    ),
    Level(0.30, 0.00, 0.40, ("low",)),
    Level(0.10, 0.00, 0.30, ("very low", "extremely low")),
)  # fmt: skip
"""The one table of words: "high confidence" by its adjective, "highly confident" by its adverb."""

ADJECTIVES = {form: level for level in LEVELS for word in level.adjectives for form in (word, word.replace(" ", "-"))}
"""With blanks and with hyphens: "low to moderate", "low-to-moderate"."""
ADVERBS = {word: level for level in LEVELS for word in level.adverbs}

ONES = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "thirteen",
    "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
]  # fmt: skip
TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
SPELLED = {word: float(n) for n, word in enumerate(ONES)}
SPELLED |= {word: 20.0 + 10 * n for n, word in enumerate(TENS)}
SPELLED |= {"hundred": 100.0, "a hundred": 100.0, "one hundred": 100.0}

WORDS = "|".join(sorted(SPELLED, key=len, reverse=True))
DIGITS = r"(?:[0-9]{1,30}(?:[.,][0-9]{1,6})?|\.[0-9]{1,6})(?![0-9]|e[-+0-9])"
FIGURE = rf"(?:{DIGITS}|(?:{'|'.join(TENS)})[- ](?:{'|'.join(ONES[1:10])})\b|(?:{WORDS})\b)"
PERCENT = r"(?:\\?%|percent\b|per cent\b|pct\b)"
FIRST = re.compile(rf"(?P<sign>[-+]?)(?P<figure>{FIGURE})(?:[ *]{{0,3}}(?P<percent>{PERCENT}))?")
CHOICE = r",? \(?(?:or|maybe|perhaps|but (?:could|may|might) be)(?: maybe| perhaps| even)? | ?(?:->|→) ?"
SECOND = re.compile(
    rf"(?P<join> ?[-~] ?| to | and |(?P<choice>{CHOICE}))"
    rf"(?P<figure>{FIGURE})(?: ?(?P<percent>{PERCENT}))?"
)
SCALE = re.compile(rf" ?\(?(?P<link>/|out of|in|of|on a scale (?:of|from) [01] ?(?:-|to)) ?(?P<figure>{FIGURE})")
MARGIN = re.compile(rf" ?(?:±|\+/-|\+-) ?{FIGURE}(?: ?{PERCENT})?")
EVEN = re.compile(r"(?:50 ?[/-] ?50|fifty[- ]fifty)(?![0-9]| ?%)")
FRACTIONS = {
    **dict.fromkeys(("half", "a half", "one half", "one-half"), 1 / 2),
    **dict.fromkeys(("a quarter", "one quarter", "one-quarter"), 1 / 4),
    **dict.fromkeys(("three quarters", "three-quarters", "three fourths"), 3 / 4),
    **dict.fromkeys(("a third", "one third", "one-third"), 1 / 3),
    **dict.fromkeys(("two thirds", "two-thirds"), 2 / 3),
}
FRACTION = re.compile(
    rf"(?:{'|'.join(FRACTIONS)})(?![\w'-]| (?:of|the|as|a|an|my|our|these|those|that|right|correct|true|way|done|percent)\b)"
)
"""A share in words: "half", but not "half the missions" or "half right"."""
OF_THINGS = re.compile(r" (?:of|missions?|genes?|degs?|sets?|tissues?|studies|samples?|mice)\b")
"""After a number: it counts or shares out things, and is no certainty."""
ALL_WORDS = "|".join(sorted(ADJECTIVES, key=len, reverse=True))
WORD = re.compile(rf"(?:{ALL_WORDS})(?![\w-])")
LAST_WORD = re.compile(rf"(?<![\w-])(?:{ALL_WORDS})$")
START = re.compile(rf"(?<![\w.,%])[-+]?(?={FIGURE})|between ")


class Degree(NamedTuple):
    """A share read from a text up to `end`; value None = written in a way that has none.

    `is_marked`: a percent sign, a scale or decimals show that it is a share and no other number.
    """

    value: float | None
    end: int
    is_marked: bool


def read_degree(text: str, at: int, top: float | None = None) -> Degree | None:
    """Return the share written as a number at a place, None if there is none.

    `top` is what counts as certainty where the text has said so before ("confidence (0-10): 8").
    """
    even = EVEN.match(text, at)
    if even:
        return Degree(0.5, even.end(), True)
    fraction = FRACTION.match(text, at)
    if fraction:
        is_of_things = OF_THINGS.match(text, fraction.end())
        return None if is_of_things else Degree(FRACTIONS[fraction.group()], fraction.end(), True)
    first = FIRST.match(text, at)
    if first is None:
        return None
    values = [_number(first["figure"])]
    has_percent, end = first["percent"] is not None, first.end()
    second = SECOND.match(text, end)
    is_choice = False
    if second and _is_whole_scale(first, second):
        return None
    if second and _belongs(first, second):
        values.append(_number(second["figure"]))
        has_percent = has_percent or second["percent"] is not None
        is_choice = second["choice"] is not None
        end = second.end()
    margin = MARGIN.match(text, end)
    end = margin.end() if margin else end
    scale = None if has_percent else _out_of(text, end)
    if scale:
        top, end = scale
    if has_percent:
        top = 100.0
    if OF_THINGS.match(text, end):
        return None
    if top is None and first["figure"] in ONES:
        return None
    bad = is_choice or first["sign"] == "-"
    is_marked = top is not None or not first["figure"].isdigit()
    return Degree(None if bad else _share(values, top), end, is_marked)


def read_last_degree(text: str) -> tuple[int, Degree] | None:
    """Return the share that a short text ends with, and where it begins; None if there is none."""
    for start in START.finditer(text):
        at = start.end() if text[start.start()] == "b" else start.start()
        degree = read_degree(text, at)
        if degree is not None and degree.end == len(text):
            return at, degree
    return None


def _number(figure: str) -> float:
    if figure in SPELLED:
        return SPELLED[figure]
    if figure[0].isalpha():
        tens, ones = re.split("[- ]", figure)
        return SPELLED[tens] + SPELLED[ones]
    whole, _, decimals = figure.partition(",")
    if len(decimals) == 3 and whole.strip("0"):
        return float(whole + decimals)
    return float(figure.replace(",", "."))


def _belongs(first: re.Match[str], second: re.Match[str]) -> bool:
    """Say whether a second number is the other end of the first, not the start of something else."""
    if second["percent"] or first["percent"]:
        return second["percent"] is not None
    low, high = sorted((_number(first["figure"]), _number(second["figure"])))
    return high <= 1 or (low > 10 and second["join"].strip() in ("-", "~", "to"))


def _out_of(text: str, at: int) -> tuple[float, int] | None:
    """Return the scale "/10", "out of ten" and where it ends."""
    scale = SCALE.match(text, at)
    top = _number(scale["figure"]) if scale else 0.0
    return (top, scale.end()) if scale and top >= 2 else None


def _is_whole_scale(first: re.Match[str], second: re.Match[str]) -> bool:
    """Say whether "0-100%" or "0 to 1" names the scale instead of a value on it."""
    is_range = second["join"].strip() in ("-", "to")
    ends = (first["figure"], second["figure"])
    return is_range and ends[0] in ("0", "1") and ends[1] in ("1", "10", "100") and ends != ("1", "1")


def _share(values: list[float], top: float | None) -> float | None:
    largest = max(values)
    if top is None:
        top = 1.0 if largest <= 1 else 100.0 if largest > 10 else None
    return None if top is None or largest > top else sum(values) / len(values) / top


VERSION = "confidence-4"

ANCHOR = re.compile(r"(?:confiden(?:ce|t)|certain(?:ty)?|sure|probability)(?![a-z])")
NOUNS = ("confidence", "certainty", "probability")
COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
"""Readers of rendered text do not see it."""
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
ASIDE = re.compile(r"(?: (?:in|of|about|that) [^\n.;:()]{1,40}?)? \((?:i\.e\. |about |~)?(?=[0-9])|: ")
"""What leads to a number after "I am fairly confident"."""
BESIDE = re.compile(r"(?: ?[(/]| ?[,-]) ?(?:i\.e\. |about |~)?")
"""What leads from one form of a confidence to another: "high (85%)", "85%, high"."""
REACH = 48
"""How many characters before the word a value may begin."""
DEGREE_OF = re.compile(r" (?:degree|level) of$")
ADVERB = re.compile(rf"\b(?:{'|'.join(ADVERBS)})$")
STATISTICS = re.compile(r"[ -](?:intervals?|limits?|bounds?|bands?|regions?|sets?|ci|calls?|genes?|interactions?)\b")
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
    if not any(stem in page for stem in ("confiden", "certain", "sure", "probability")):
        return []
    if "<!--" in page:
        page = COMMENT.sub(lambda comment: " " * len(comment.group()), page)
    found: list[Statement] = []
    for anchor in ANCHOR.finditer(page):
        before = page[anchor.start() - 1 : anchor.start()]
        if before.isalnum() or before in ("-", "_") or (found and anchor.start() < found[-1].end):
            continue
        stated = _stated_after(page, anchor) or _stated_before(page, anchor)
        if stated and not is_hearsay(page, stated.start, stated.end):
            found.append(stated)
    return found


def _stated_after(page: str, anchor: re.Match[str]) -> Statement | None:
    """Read "Confidence: 80%", "confidence level is high (85%)", "| Confidence |" over its cell."""
    if anchor.group() not in NOUNS:
        return None
    bridge = BRIDGE.match(page, anchor.end())
    if bridge is None or (anchor.group() == "probability" and not _is_own(bridge)):
        return None
    stated = _value_at(page, anchor, bridge, bridge.end())
    if stated is None and "|" in bridge["link"]:
        below = _cell_below(page, anchor.start())
        stated = None if below is None else _value_at(page, anchor, bridge, below)
    return stated


def _is_own(bridge: re.Match[str]) -> bool:
    """Say whether a value after "probability" and the bridge would be the confidence in the answer."""
    named = bridge["object"] or "correct"
    is_label = bridge["link"].strip(" \"'")[:1] in (":", "=", "|")
    return is_label and any(word in named for word in ("correct", "right", "true"))


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
        return Statement(given[1].value, None, begin + given[0], end)
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
    if row < 0:
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
