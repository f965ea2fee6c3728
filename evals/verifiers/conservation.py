"""Judge how well missions agree in a tissue: the level, and the correlation if one is stated.

"highly conserved between missions: the mean correlation is 0.619"   level highly, r 0.619
"""

from dataclasses import dataclass

from evals.schema import Claim, ConservationTruth
from evals.verifiers.finding import Finding
from evals.verifiers.names import same_tissue
from evals.verifiers.reading import Mark, Reading, Sentence
from evals.verifiers.scope import Scope

LONGEST = 6
"""Decimals that a correlation may have."""
REACH = 8
"""How many words may stand between "correlation" and its value."""


@dataclass(frozen=True, slots=True)
class Statement:
    """One level or correlation stated; `is_right` None = a level denied that is not the true one."""

    says: str
    is_right: bool | None
    first: int
    last: int


def judge_conservation(truth: ConservationTruth, reading: Reading, question: str) -> Finding:
    """Return the verdict: correct = the level, or the correlation as far as its decimals go."""
    stated: list[Statement] = []
    for sentence in reading.sentences:
        events = [m for m in sentence.marks if m.kind == "level"] + _correlations(reading, sentence)
        if events:
            events.sort(key=lambda mark: mark.first)
            stated += _of_sentence(truth, Scope(reading, sentence, events))
    claims = []
    for one in stated:
        start, end = reading.span(one.first, one.last)
        claims.append(
            Claim(subject=f"conservation in {truth.tissue}", says=one.says, start=start, end=end)
        )
    finding = _weigh(truth, stated)
    return Finding(finding.verdict, finding.reason, tuple(claims))


def _weigh(truth: ConservationTruth, stated: list[Statement]) -> Finding:
    right = [one.says for one in stated if one.is_right]
    wrong = [one.says for one in stated if one.is_right is False]
    data = f"the data say {truth.level}, r {truth.nes_mean_r:.3f}"
    if right and wrong:
        return Finding("contradictory", f"says {right[0]} and {wrong[0]}; {data}")
    if wrong:
        return Finding("incorrect", f"says {wrong[0]}; {data}")
    if right:
        return Finding("correct", f"says {right[0]}, as in the data")
    return Finding("no_claim", f"states no level and no correlation for {truth.tissue}")


def _of_sentence(truth: ConservationTruth, scope: Scope) -> list[Statement]:
    found: list[Statement] = []
    if scope.is_hedged_away():
        return found
    for group in scope.groups():
        if group.tissues and not any(same_tissue(named, truth.tissue) for named in group.tissues):
            continue
        for event in group.events:
            if not scope.is_conditional(event):
                found.append(_judged(truth, event, scope.is_negated(event)))
    return found


def _judged(truth: ConservationTruth, event: Mark, is_negated: bool) -> Statement:
    if event.kind == "correlation":
        decimals = len(event.value.partition(".")[2])
        close = abs(float(event.value) - truth.nes_mean_r) <= 0.5 * 10**-decimals + 1e-9
        return Statement(f"r {event.value}", close != is_negated, event.first, event.last)
    is_true_level = event.value == truth.level
    if is_negated:
        is_right = False if is_true_level else None
        return Statement(f"not {event.value}", is_right, event.first, event.last)
    return Statement(event.value, is_true_level, event.first, event.last)


def _correlations(reading: Reading, sentence: Sentence) -> list[Mark]:
    """Return each stated correlation; a bound ("r > 0.5") is none."""
    found = []
    words, gaps = reading.words, reading.gaps
    for index in range(sentence.first, sentence.last):
        if words[index] not in ("r", "rho", "correlation", "correlations"):
            continue
        for token in range(index + 1, min(index + REACH, sentence.last) + 1):
            if "." in words[token] and words[token][0].isdigit():
                if not set("<>") & set(gaps[token]) and _is_number(words[token]):
                    sign = "-" if gaps[token].endswith("-") else ""
                    found.append(Mark("correlation", sign + words[token], "", token, token))
                break
    return found


def _is_number(word: str) -> bool:
    whole, _, decimals = word.partition(".")
    return whole in ("0", "1") and decimals.isdecimal() and len(decimals) <= LONGEST
