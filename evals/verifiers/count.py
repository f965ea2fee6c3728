"""Judge a number of genes, exact up to format: 8,484 = 8484 = 8 484, never part of another number.

"KMP x HU changes 8,484 genes in soleus"    8484 of KMP x HU in soleus
"about 8.5k genes"                          8484 rounded to the digits given: right, at half credit
"8,450 to 8,500 genes"                      a narrow range that holds it: right, at half credit
"more than 8,000 genes"                     says nothing; "more than 9,000" is wrong
"no DEGs"                                   0
"Yes."                                      the figure that the question quotes
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from evals.schema import Claim, CountTruth
from evals.verifiers.asked import quoted_figure, quotes
from evals.verifiers.finding import Finding
from evals.verifiers.genes import described
from evals.verifiers.names import same_tissue
from evals.verifiers.number import Number, rounds_to
from evals.verifiers.reading import Mark, Reading
from evals.verifiers.reply import is_voided, reply_of
from evals.verifiers.scope import Group, Scope
from evals.verifiers.subject import Subject, names_factors, names_tissue, subject_of

ROUNDED_CREDIT = 0.5
"""What a number is worth that the truth rounds to at the digits given, or a narrow range around it."""
NARROW = 0.1
"""A range states a number if it is no wider than this share of it."""
GOES_ON = frozenset(("it", "this", "there", "here", "they", "these", "that"))
"""A sentence that opens with one of these is about the tissue spoken of before."""


@dataclass(frozen=True, slots=True)
class Count:
    """A number of genes that an answer states, or denies, of the subject or of something else."""

    number: Number
    tissues: tuple[str, ...]
    is_ours: bool
    is_denied: bool


def judge_count(truth: CountTruth, reading: Reading, question: str) -> Finding:
    """Return the verdict on the counts stated about the subject; other subjects' are left alone."""
    subject = subject_of(truth.subject)
    found = list(counts_of(reading, question, subject))
    ours = [count for count in found if count.is_ours]
    finding = _weigh(truth, ours) if ours else _by_reply(truth, reading, question)
    if ours and finding.verdict == "correct" and _is_belied(truth, reading, question):
        finding = Finding("contradictory", f"{truth.subject}: yes or no against the figure given")
    claims = tuple(_claim(truth, reading, count) for count in found)
    return Finding(finding.verdict, finding.reason, finding.claims + claims, finding.credit)


def counts_of(reading: Reading, question: str, subject: Subject) -> Iterator[Count]:
    """Yield every count of genes that an answer states or denies, in order."""
    quoted = quoted_figure(question)
    earlier: tuple[str, ...] = ()
    for sentence, numbers in described(reading):
        if numbers:
            events = [Mark("number", n.says(), n.form, n.first, n.last) for n in numbers]
            scope = Scope(reading, sentence, events)
            if not scope.is_hedged_away():
                by_first = {number.first: number for number in numbers}
                yield from _of_sentence(scope, by_first, subject, earlier, quoted)
        named = tuple(dict.fromkeys(m.value for m in sentence.marks if m.kind == "tissue"))
        earlier = named or earlier


def _of_sentence(
    scope: Scope,
    numbers: dict[int, Number],
    subject: Subject,
    earlier: tuple[str, ...],
    quoted: float | None,
) -> Iterator[Count]:
    goes_on = scope.reading.words[scope.sentence.first] in GOES_ON
    for group in scope.groups():
        if not group.tissues and goes_on:
            group.tissues = earlier
        is_ours = (
            names_tissue(group, subject)
            and names_factors(scope, group, subject)
            and not _is_simple_effect(scope, group, subject)
        )
        for event in group.events:
            number = numbers[event.first]
            is_idle = scope.is_conditional(event) or scope.is_supposed(event)
            if is_idle or quotes(scope, event, number.low == quoted):
                continue
            is_denied = scope.is_negated(event) or is_voided(
                scope.reading, scope.sentence, event.first, event.last
            )
            elsewhere = _set_against(scope, event, subject)
            yield Count(number, elsewhere or group.tissues, is_ours and not elsewhere, is_denied)


def _set_against(scope: Scope, event: Mark, subject: Subject) -> tuple[str, ...]:
    """Return the other tissue that a figure is of: "8,484 in soleus, against 3,369 in liver"."""
    if subject.tissue is None or not scope.is_contrasted(event):
        return ()
    clause = scope.clause(event.first)
    after = [
        mark.value
        for mark in scope.sentence.marks
        if mark.kind == "tissue" and mark.first > event.last and scope.clause(mark.first) == clause
    ]
    return () if any(same_tissue(name, subject.tissue) for name in after) else tuple(after)


def _is_simple_effect(scope: Scope, group: Group, subject: Subject) -> bool:
    """Say whether clauses speak of KMP *under* HU where the interaction of both is asked for."""
    if "interaction" not in subject.factors:
        return False
    factors = [mark for mark in group.marks if mark.kind == "factor"]
    return any(
        scope.reading.words[left.last + 1 : right.first] in (["in"], ["under"], ["during"])
        and "interaction" not in left.value + right.value
        for left, right in pairwise(factors)
    )


# ---- the verdict ----------------------------------------------------------------------------


def _weigh(truth: CountTruth, counts: list[Count]) -> Finding:
    subject = truth.subject
    credits = [(count, _credit(count.number, truth.value)) for count in counts]
    right = [(worth, count) for count, worth in credits if worth and not count.is_denied]
    wrong = [count for count, worth in credits if worth == 0.0 and not count.is_denied]
    denied = [count for count, worth in credits if worth == 1.0 and count.is_denied]
    if right and (wrong or denied):
        other = wrong[0].number.says() if wrong else f"not {truth.value}"
        return Finding("contradictory", f"{subject}: says {truth.value} and {other}")
    if right:
        worth, best = max(right, key=lambda pair: pair[0])
        if worth == 1.0:
            return Finding("correct", f"{subject}: {truth.value}, as in the data")
        reason = f"{subject}: {best.number.says()} is {truth.value} at the digits given"
        return Finding("correct", reason, credit=worth)
    if len({count.number.says() for count in wrong if count.number.form != "bound"}) > 1:
        return Finding("contradictory", f"{subject}: several counts, none of them {truth.value}")
    if wrong or denied:
        said = wrong[0].number.says() if wrong else f"not {truth.value}"
        return Finding("incorrect", f"{subject}: {said} stated, {truth.value} in the data")
    return Finding("no_claim", f"no count stated of {subject}")


def _credit(number: Number, value: int) -> float | None:
    """Return what a stated number is worth; 0 = false, None = true but too wide to state a number."""
    if number.form == "bound":
        return None if number.low <= value <= number.high else 0.0
    if number.form == "range":
        if not number.low <= value <= number.high:
            return 0.0
        return ROUNDED_CREDIT if number.high - number.low <= NARROW * value else None
    if number.low == value:
        return 1.0
    is_near = number.form == "rounded" and rounds_to(number, value)
    return ROUNDED_CREDIT if is_near else 0.0


def _by_reply(truth: CountTruth, reading: Reading, question: str) -> Finding:
    """Return the verdict on a bare yes or no to a question that quotes a figure."""
    nothing = Finding("no_claim", f"no count stated of {truth.subject}")
    quoted, reply = quoted_figure(question), reply_of(reading)
    if quoted is None or reply is None:
        return nothing
    start, end = reading.span(reply.first, reply.last)
    claim = Claim(
        subject=truth.subject,
        says=f"{quoted:.15g}",
        start=start,
        end=end,
        about="number",
        is_denied=not reply.is_yes,
    )
    if reply.is_yes == (quoted == truth.value):
        if reply.is_yes:
            return Finding("correct", f"{truth.subject}: confirms {truth.value}", (claim,))
        return Finding("no_claim", f"{truth.subject}: only says what it is not", (claim,))
    return Finding("incorrect", f"{truth.subject}: {truth.value} in the data", (claim,))


def _is_belied(truth: CountTruth, reading: Reading, question: str) -> bool:
    """Say whether a yes or no to the figure quoted goes against the right figure beside it."""
    quoted, reply = quoted_figure(question), reply_of(reading)
    return quoted is not None and reply is not None and reply.is_yes != (quoted == truth.value)


def _claim(truth: CountTruth, reading: Reading, count: Count) -> Claim:
    start, end = reading.span(count.number.first, count.number.last)
    subject = truth.subject if count.is_ours else ", ".join(count.tissues) or "another subject"
    return Claim(
        subject=subject,
        says=count.number.says(),
        start=start,
        end=end,
        about="number",
        is_denied=count.is_denied,
    )
