"""Read what a statement implies for a yes/no question that holds one thing against another.

question "Does the liver pass the mark of 5,000 DEGs?"
    "It has 7,000 DEGs", "it passes the mark"     yes
    "It stays below that mark"                     no
question "Is KMP x HU a longer list than HU?"
    "HU is the longer list"                        no
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache

from evals.verifiers.asked import asks_back, question_reading
from evals.verifiers.genes import described
from evals.verifiers.grammar import degree_words
from evals.verifiers.lexicon import phrases
from evals.verifiers.number import Number
from evals.verifiers.reading import Mark, Reading, Sentence
from evals.verifiers.reply import Reply
from evals.verifiers.scope import Group, Scope
from evals.verifiers.subject import Subject, factors_in, names_factors, names_tissue

PASSING = {
    "MORE": "pass; passes; passed; exceed; exceeds; exceeded; surpass; surpasses; reach; reaches;"
    " reached; outnumbers; outnumber",
    "LESS": "misses; short",
}
"""Words that say on which side of a mark something stands, besides the words of degree."""
SIDES = {"above": "MORE", "over": "MORE", "beyond": "MORE", "below": "LESS", "under": "LESS"}
"""These do so only before a figure or the mark itself: "under HU" says nothing."""
MARKS = frozenset(("mark", "threshold", "limit", "number", "figure", "line", "value", "it"))


@dataclass(frozen=True, slots=True)
class Contest:
    """What a yes/no question holds against what: the end it asks for, a figure, and both sides."""

    end: str
    figure: float | None
    first: frozenset[str]
    second: frozenset[str]


@lru_cache(maxsize=256)
def contest_of(question: str) -> Contest | None:
    """Return what a question holds against what; None if it is no yes/no question of that kind."""
    reading = question_reading(question)
    if not asks_back(question) or not reading.sentences:
        return None
    sentence = reading.sentences[-1]
    figures = [number for _, found in described(reading) for number in found]
    said = reading.words[sentence.first : sentence.last + 1]
    ends = {mark.value for mark in _ends(reading, sentence)}
    if len(ends) != 1 or len(figures) > 1 or "or" in said or not (figures or "than" in said):
        return None
    than = sentence.first + said.index("than") if "than" in said else sentence.last + 1
    left = factors_in(reading, [mark for mark in sentence.marks if mark.last < than])
    right = factors_in(reading, [mark for mark in sentence.marks if mark.first > than])
    return Contest(ends.pop(), _figure(figures), left, right)


def implied(
    reading: Reading, question: str, subject: Subject, with_figures: bool
) -> Iterator[Reply]:
    """Yield the yes or no that each statement about the subject implies.

    A figure by itself may be any: it counts only `with_figures`, to belie a yes or no.
    """
    contest = contest_of(question)
    if contest is None:
        return
    for sentence, numbers in described(reading):
        figures = [n for n in numbers if n.form in ("exact", "rounded")]
        figures = figures if with_figures and contest.figure else []
        events = [Mark("figure", n.says(), n.form, n.first, n.last) for n in figures]
        events += _ends(reading, sentence)
        if events:
            scope = Scope(reading, sentence, sorted(events, key=lambda mark: mark.first))
            if not scope.is_hedged_away():
                by_first = {number.first: number for number in figures}
                yield from _of_sentence(scope, contest, subject, by_first)


def _of_sentence(
    scope: Scope, contest: Contest, subject: Subject, numbers: dict[int, Number]
) -> Iterator[Reply]:
    for group in scope.groups():
        if not names_tissue(group, subject):
            continue
        is_ours = names_factors(scope, group, subject)
        for event in group.events:
            if scope.is_conditional(event) or scope.is_supposed(event):
                continue
            if event.kind == "end":
                is_turned = _is_second(scope, group, event, contest) != scope.is_negated(event)
                yield Reply((event.value == contest.end) != is_turned, event.first, event.last)
            elif is_ours and not scope.is_negated(event) and contest.figure is not None:
                value = numbers[event.first].low
                if value != contest.figure:
                    is_more = value > contest.figure
                    yield Reply(is_more == (contest.end == "MORE"), event.first, event.last)


def _is_second(scope: Scope, group: Group, event: Mark, contest: Contest) -> bool:
    """Say whether a word of degree is said of the other side: "HU is the longer list"."""
    before = factors_in(scope.reading, [mark for mark in group.marks if mark.last < event.first])
    return bool(before) and before == contest.second != contest.first


def _figure(figures: list[Number]) -> float | None:
    if not figures:
        return None
    return figures[0].low if abs(figures[0].low) < float("inf") else figures[0].high


def _ends(reading: Reading, sentence: Sentence) -> list[Mark]:
    """Return the words that say which side of a mark something stands on."""
    words, found = reading.words, []
    for token in range(sentence.first, sentence.last + 1):
        end = _degrees().get(words[token])
        if words[token] in SIDES:
            ahead = words[token + 1 : min(token + 3, sentence.last + 1)]
            is_side = any(word[0].isdigit() or word in MARKS for word in ahead)
            end = SIDES[words[token]] if is_side else None
        if end:
            found.append(Mark("end", end, "", token, token))
    return found


@cache
def _degrees() -> dict[str, str]:
    passing = {word: end for end, listed in PASSING.items() for (word,) in phrases(listed)}
    return {**degree_words(), **passing}
