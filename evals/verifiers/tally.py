"""Find numbers of genes in an answer that cannot all be true, whatever the data say.

"HU gives 165 DEGs in heart. … HU gives 33 DEGs in heart."    two numbers for one quantity
"Heart has more DEGs than liver: 165 against 4,110."          more, and yet fewer
"910 DEGs: 334 upregulated and 500 downregulated."            parts that do not add up
"3,955 of the 200 DEGs"                                       a part larger than the whole
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from evals.verifiers.genes import described
from evals.verifiers.grammar import degree_words
from evals.verifiers.number import Number, rounds_to
from evals.verifiers.reading import Mark, Reading, Sentence
from evals.verifiers.scope import Scope
from evals.verifiers.subject import TREATMENTS, factors_in

VERSUS = (["against"], ["versus"], ["vs"], ["compared", "with"], ["compared", "to"])
FEWEST = 2
"""Figures below this cannot contradict each other."""


def impossible_numbers(reading: Reading) -> Iterator[str]:
    """Yield each pair of gene counts that cannot both hold."""
    if sum(word[0].isdigit() for word in reading.words) < FEWEST:
        return
    seen: dict[tuple[str, frozenset[str]], Number] = {}
    for sentence, numbers in described(reading):
        if numbers:
            yield from _reversed(reading, sentence, numbers)
            yield from _sums(reading, sentence, numbers)
            yield from _twice(reading, sentence, numbers, seen)


def _reversed(reading: Reading, sentence: Sentence, numbers: Sequence[Number]) -> Iterator[str]:
    """Yield "more …: 165 against 4,110"."""
    degrees = degree_words()
    for left, right in pairwise(numbers):
        if reading.words[left.last + 1 : right.first] not in VERSUS and not _follows(
            reading, left, right
        ):
            continue
        before = reading.words[sentence.first : left.first]
        ends = {degrees[word] for word in before if word in degrees}
        if "not" in before or len(ends) != 1 or "exact" != left.form != right.form:
            continue
        if left.low != right.low and (left.low > right.low) != (ends == {"MORE"}):
            said = "more" if ends == {"MORE"} else "fewer"
            yield f"{said}, but {left.says()} against {right.says()}"


def _follows(reading: Reading, left: Number, right: Number) -> bool:
    """Say whether only the unit stands between: "165 DEGs against 4,110"."""
    between = reading.words[left.last + 1 : right.first]
    return between[:1] in (["degs"], ["genes"], ["deg"]) and between[1:] in VERSUS


def _sums(reading: Reading, sentence: Sentence, numbers: Sequence[Number]) -> Iterator[str]:
    """Yield a total that its upregulated and downregulated parts do not add up to."""
    if len(numbers) != 3 or any(number.form != "exact" for number in numbers):
        return
    words = reading.words
    sides = {}
    for number in numbers[1:]:
        ahead = words[number.last + 1 : min(number.last + 5, sentence.last + 1)]
        for word in ahead:
            if word.startswith(("up", "down")):
                sides["up" if word.startswith("up") else "down"] = number.low
                break
    total = numbers[0].low
    if len(sides) == 2 and sum(sides.values()) != total:
        yield f"{sides['up']:.0f} up and {sides['down']:.0f} down are not {total:.0f}"


def _twice(
    reading: Reading,
    sentence: Sentence,
    numbers: Sequence[Number],
    seen: dict[tuple[str, frozenset[str]], Number],
) -> Iterator[str]:
    """Yield two numbers for one tissue and contrast, where a clause names both and one number."""
    events = [Mark("number", n.says(), n.form, n.first, n.last) for n in numbers]
    scope = Scope(reading, sentence, events)
    by_first = {number.first: number for number in numbers}
    for group in scope.groups():
        factors = factors_in(reading, group.marks)
        event, number = group.events[0], by_first[group.events[0].first]
        is_clear = len(group.events) == 1 and len(group.tissues) == 1 and factors & TREATMENTS
        if not is_clear or number.form not in ("exact", "rounded") or scope.is_negated(event):
            continue
        if scope.is_conditional(event) or scope.is_supposed(event):
            continue
        key = (group.tissues[0], factors)
        earlier = seen.setdefault(key, number)
        if not _same(earlier, number):
            what = " ".join(sorted(factors))
            yield f"{what} in {key[0]}: both {earlier.says()} and {number.says()}"


def _same(left: Number, right: Number) -> bool:
    if left.low == right.low:
        return True
    return (left.form == "rounded" and rounds_to(left, right.low)) or (
        right.form == "rounded" and rounds_to(right, left.low)
    )
