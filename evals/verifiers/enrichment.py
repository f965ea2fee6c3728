"""Find scores, p-values, significance and votes of missions in a sentence, before they are placed.

"NES 1.9 and 2.1"                              two scores, one run
"positive NES", "padj < 0.05", "n.s."          a sign, an adjusted p, no significance
"significant in 2 of 3 missions (1 against)"   2 votes of 3, 1 against
"significant implications"                     nothing
"""

from collections.abc import Iterator
from dataclasses import dataclass

from evals.verifiers.cues import ADJUSTED, FLIGHTS, SIGNIFICANCE
from evals.verifiers.lexicon import phrases
from evals.verifiers.number import Number, numbers
from evals.verifiers.numeral import SMALL
from evals.verifiers.reading import Mark, Reading, Sentence

LINKS = frozenset(
    word
    for (word,) in phrases(
        "of; is; was; are; were; value; values; score; scores; about; approximately; around; roughly;"
        " at; the; a; equals; between; from; to; being; adj; adjusted; and; for; in; with; mission"
    )
)
"""Words that may stand between a name and its figure, or a figure and its mission."""
STATISTICAL = frozenset(
    word
    for (word,) in phrases(
        "in; at; across; for; by; only; after; with; and; but; or; under; during; on; enrichment;"
        " enriched; difference; differences; result; results; mission; missions; there; here; overall;"
        " when; as; different; differentially; regulation; while; whereas; although"
    )
)
"""Words after "significant" that leave it a statement of statistics, unlike "implications"."""
OPPOSED = frozenset(("against", "opposed", "opposing", "opposite"))
WHOLE = frozenset(("all", "both", "every", "each"))
SIGNS = frozenset(("positive", "negative"))
SCORES = frozenset(("score", "scores"))
MIDDLE = frozenset(("enrichment", "normalized", "normalised"))
NAMES = frozenset((*SIGNIFICANCE, *ADJUSTED, *SCORES, *FLIGHTS, "nes", "p"))
VOTE_REACH = 4
"""How many words may stand between "significant" and "2 of 3"."""
REACH = 6
"""How many words may stand between a name and its figure."""


@dataclass(frozen=True, slots=True)
class Remark:
    """One statement about enrichment. `about` is nes, sign, padj, p, significance or votes.

    `missions` is empty where none is named. `says` is positive, negative, yes, no, or what is voted
    on: UP, DOWN, significant, not significant.
    """

    about: str
    missions: tuple[str, ...]
    says: str = ""
    number: Number | None = None
    count: int | None = None
    total: int | None = None
    against: int | None = None
    is_all: bool = False


@dataclass(frozen=True, slots=True)
class Event:
    """A remark before it is known where it belongs: the mark that stands for it, and its run.

    Figures in a row ("1.9 and 2.1 in MHU-2 and RR-9") are a run: `place` of `last - first`.
    """

    mark: Mark
    remark: Remark
    run: tuple[Number, ...] = ()
    place: int = 0


class Page:
    """One sentence with what the finders below look up in it."""

    def __init__(self, reading: Reading, sentence: Sentence) -> None:
        self.words = reading.words
        self.gaps = reading.gaps
        self.first, self.last = sentence.first, sentence.last
        self.mark_at = {t: m for m in sentence.marks for t in range(m.first, m.last + 1)}
        self.number_at = {
            number.first: number
            for number in numbers(reading, sentence)
            if (mark := self.mark_at.get(number.first)) is None
            or mark.kind not in ("mission", "pathway")
        }

    def word(self, token: int) -> str:
        """Return the word at a token, "" outside the sentence."""
        return self.words[token] if self.first <= token <= self.last else ""

    def figure_after(self, token: int) -> Number | None:
        """Return the number that a name before `token` introduces, None if something else comes first."""
        for ahead in range(token, min(token + REACH, self.last + 1)):
            number = self.number_at.get(ahead)
            if number is not None:
                return number if number.unit == "" else None
            mark = self.mark_at.get(ahead)
            is_place = mark is not None and mark.kind in ("mission", "tissue", "pathway")
            if not is_place and self.words[ahead] not in LINKS:
                return None
        return None


def events(reading: Reading, sentence: Sentence) -> Iterator[Event]:
    """Yield every score, p-value, significance and vote of a sentence, in order of kind."""
    words = reading.words
    tokens = [t for t in range(sentence.first, sentence.last + 1) if words[t] in NAMES]
    if not tokens:
        return
    page = Page(reading, sentence)
    votes = [event for token in tokens if words[token] in FLIGHTS for event in _votes(page, token)]
    counted = {token for event in votes for token in _clause_words(page, event)}
    yield from votes
    for token in tokens:
        word = words[token]
        if word == "nes" or (word in SCORES and page.word(token - 1) == "enrichment"):
            yield from _scores(page, token)
        elif word in ADJUSTED or word == "p":
            yield from _p_values(page, token)
        elif word in SIGNIFICANCE and token not in counted and _is_statistical(page, token):
            says = SIGNIFICANCE[word]
            if page.word(token - 1) == "non":
                says = "no"
            yield Event(_mark("significance", token, token), Remark("significance", (), says))


def _mark(about: str, first: int, last: int) -> Mark:
    return Mark("enrichment", about, "", first, last)


def _scores(page: Page, token: int) -> Iterator[Event]:
    """Yield the sign and the figures of "positive NES", "NES of 1.9 in MHU-2 and 2.1 in RR-9"."""
    for place in (token - 1, token - 2, token + 1, token + 2, token + 3):
        if place > token + 1 and page.word(place - 1) not in LINKS:
            break
        if page.word(place) in SIGNS and not (
            place == token - 2 and page.word(token - 1) not in MIDDLE
        ):
            first, last = sorted((place, token))
            yield Event(_mark("sign", first, last), Remark("sign", (), page.word(place)))
            break
    if page.gaps[token].endswith("|"):
        return
    run: list[Number] = []
    number = page.figure_after(token + 1)
    while number is not None:
        run.append(number)
        number = page.figure_after(number.last + 1)
    for place, figure in enumerate(run):
        remark = Remark("nes", (), "", figure)
        yield Event(_mark("nes", figure.first, figure.last), remark, tuple(run), place)


def _p_values(page: Page, token: int) -> Iterator[Event]:
    beside = {page.word(token - 1), page.word(token + 1), page.word(token - 2)}
    is_adjusted = page.word(token) in ADJUSTED or beside & {"adj", "adjusted", "corrected"}
    number = page.figure_after(token + 1)
    if number is not None and number.high >= 0:
        about = "padj" if is_adjusted else "p"
        yield Event(_mark(about, number.first, number.last), Remark(about, (), "", number))


def _is_statistical(page: Page, token: int) -> bool:
    """Say whether "significant" is a finding of statistics: unlike "significant implications"."""
    if page.word(token) in ("ns", "significance", "nonsignificant"):
        return True
    after, mark = page.word(token + 1), page.mark_at.get(token + 1)
    if page.gaps[token + 1] != " " or not after:
        return True
    is_change = mark is not None and mark.kind in ("direction", "changed", "mission", "majority")
    return is_change or after in STATISTICAL


# ---- votes of missions ----------------------------------------------------------------------


def _votes(page: Page, token: int) -> Iterator[Event]:
    """Yield "significant in 2 of 3 missions (1 against)" and "up in all missions"."""
    first, count, total, is_all = _share(page, token)
    if first is None:
        return
    is_plain = count is not None and total is None and page.word(first - 1) != "in"
    says = "" if is_plain and count else _voted_on(page, first)
    if not says and total is None and count is None:
        return
    against = None
    for place in range(token + 1, min(token + 4, page.last + 1)):
        number = page.number_at.get(place)
        if number is not None and page.word(number.last + 1) in OPPOSED:
            against = int(number.low)
    remark = Remark("votes", (), says, None, count, total, against, is_all)
    yield Event(_mark("votes", first, token), remark)


def _share(page: Page, token: int) -> tuple[int | None, int | None, int | None, bool]:
    """Return where "2 of 3", "all 3" or "none of the" begins before "missions", and its figures."""
    place = token - 1
    total = _whole(page.word(place))
    place -= total is not None
    place -= page.word(place) in ("the", "these")
    if page.word(place) in WHOLE:
        return place, None, total, True
    if page.word(place) == "no" and total is None:
        return place, 0, None, False
    if page.word(place) != "of":
        count = 1 if page.word(token - 1) == "single" else total
        return (token - 1 - (total is None) if count is not None else None), count, None, False
    place -= 1
    place -= page.word(place) == "out"
    word = page.word(place)
    if word in WHOLE or (word == "one" and page.word(place - 1) == "every"):
        return place, None, total, True
    count = 0 if word in ("none", "neither") else _whole(word)
    return (place if count is not None else None), count, total, False


def _whole(word: str) -> int | None:
    if word.isdecimal() and len(word) <= 2:
        return int(word)
    return SMALL.get(word)


def _voted_on(page: Page, first: int) -> str:
    """Return what the missions are counted for, from the words before: the nearest one decides."""
    for token in range(first - 1, max(page.first, first - VOTE_REACH) - 1, -1):
        word, mark = page.words[token], page.mark_at.get(token)
        if word in SIGNIFICANCE:
            is_denied = SIGNIFICANCE[word] == "no" or {
                page.word(token - 1),
                page.word(token - 2),
            } & {
                "not",
                "non",
                "without",
            }
            return "not significant" if is_denied else "significant"
        if mark is not None and mark.kind == "direction" and mark.form != "weak":
            return mark.value
        if mark is not None and mark.kind in ("tissue", "mission", "majority", "agreement"):
            return ""
    return ""


def _clause_words(page: Page, event: Event) -> range:
    """Return the tokens whose significance a vote has used up."""
    if event.remark.says not in ("significant", "not significant"):
        return range(0)
    return range(max(page.first, event.mark.first - VOTE_REACH), event.mark.last + 1)
