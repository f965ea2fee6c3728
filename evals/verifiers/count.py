"""Judge a number of genes, exact up to format: 8,484 = 8484 = 8 484, never part of another number.

"KMP x HU changes 8,484 genes in soleus"    8484 of KMP x HU in soleus
"about 8.5k genes"                          8484 after rounding: right, at half credit
"no DEGs"                                   0
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from evals.schema import Claim, CountTruth
from evals.verifiers.finding import Finding
from evals.verifiers.reading import Mark, Reading, Sentence
from evals.verifiers.scope import Scope
from evals.verifiers.subject import Subject, names_factors, names_tissue, subject_of

WHOLE = re.compile(r"[0-9]{1,3}(?:,[0-9]{3}){1,3}|[0-9]{1,12}")
THOUSANDS = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,3})?)k")
SPELLED = {
    word: n
    for n, word in enumerate(
        ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
    )
} | {"no": 0, "none": 0}
GENES = frozenset(("deg", "degs", "gene", "genes", "transcript", "transcripts", "differentially"))
OTHER_UNITS = frozenset(
    (
        "percent",
        "fold",
        "mice",
        "mouse",
        "animals",
        "samples",
        "groups",
        "group",
        "tissues",
        "tissue",
        "missions",
        "mission",
        "days",
        "day",
        "weeks",
        "hours",
        "mg",
        "gy",
        "times",
        "years",
        "x",
        "pathways",
        "sets",
        "factors",
        "conditions",
        "studies",
        "comparisons",
        "contrasts",
    )
)
NOT_COUNTS = frozenset(
    (
        "padj",
        "p",
        "fdr",
        "n",
        "nes",
        "r",
        "alpha",
        "type",
        "class",
        "day",
        "week",
        "version",
        "v",
        "table",
        "figure",
        "rank",
        "ranked",
        "top",
        "chapter",
        "step",
        "factor",
        "than",
        "below",
        "above",
        "over",
        "under",
        "exceeds",
        "least",
    )
)
ROUNDED = frozenset(
    ("about", "approximately", "roughly", "around", "nearly", "almost", "some", "circa", "ca")
)
ROUNDED_CREDIT = 0.5
SIGNIFICANT_DIGITS = 2
"""A rounded number must be right to at least so many digits."""
REACH = 6
"""How many words may stand between a number and "genes"."""


@dataclass(frozen=True, slots=True)
class Count:
    """A number of genes that an answer states, or denies, of the subject or of something else."""

    mark: Mark
    is_ours: bool
    is_denied: bool


def judge_count(truth: CountTruth, reading: Reading, question: str) -> Finding:
    """Return the verdict on the counts stated about the subject; other subjects' are left alone."""
    subject = subject_of(truth.subject)
    counts: list[Count] = []
    for sentence in reading.sentences:
        numbers = _numbers(reading, sentence)
        if numbers:
            counts += _counts(Scope(reading, sentence, numbers), subject)
    finding = _weigh(truth, [count for count in counts if count.is_ours])
    claims = tuple(_claim(truth, reading, count) for count in counts)
    return Finding(finding.verdict, finding.reason, claims, finding.credit)


def _weigh(truth: CountTruth, counts: list[Count]) -> Finding:
    subject = truth.subject
    matches = [(count, *_matches(count.mark, truth.value)) for count in counts]
    exact = [count for count, same, _ in matches if same and not count.is_denied]
    rounded = [count for count, _, near in matches if near and not count.is_denied]
    wrong = [count for count, same, near in matches if not (same or near) and not count.is_denied]
    denied = [count for count, same, _ in matches if same and count.is_denied]
    if (exact or rounded) and (wrong or denied):
        other = wrong[0].mark.value if wrong else f"not {truth.value}"
        return Finding("contradictory", f"{subject}: says {truth.value} and {other}")
    if exact:
        return Finding("correct", f"{subject}: {truth.value}, as in the data")
    if rounded:
        reason = f"{subject}: {rounded[0].mark.value} is {truth.value} after rounding"
        return Finding("correct", reason, credit=ROUNDED_CREDIT)
    if len({count.mark.value for count in wrong}) > 1:
        return Finding("contradictory", f"{subject}: several counts, none of them {truth.value}")
    if wrong or denied:
        said = wrong[0].mark.value if wrong else f"not {truth.value}"
        return Finding("incorrect", f"{subject}: {said} stated, {truth.value} in the data")
    return Finding("no_claim", f"no count stated of {subject}")


def _claim(truth: CountTruth, reading: Reading, count: Count) -> Claim:
    start, end = reading.span(count.mark.first, count.mark.last)
    says = f"not {count.mark.value}" if count.is_denied else count.mark.value
    about = truth.subject if count.is_ours else "another subject"
    return Claim(subject=about, says=says, start=start, end=end)


def _counts(scope: Scope, subject: Subject) -> Iterator[Count]:
    if scope.is_hedged_away():
        return
    for group in scope.groups():
        is_ours = names_tissue(group, subject) and names_factors(scope, group, subject)
        for number in group.events:
            if not scope.is_conditional(number):
                yield Count(number, is_ours, scope.is_negated(number))


def _matches(number: Mark, value: int) -> tuple[bool, bool]:
    """Say whether a number is the value exactly, and whether it is a rounding of it."""
    stated = int(number.value)
    digits = len(str(stated).rstrip("0"))
    if number.form != "rounded" or stated == value:
        return stated == value, False
    unit = 10 ** (len(str(stated)) - max(digits, SIGNIFICANT_DIGITS))
    return False, digits >= 1 and abs(stated - value) <= unit / 2


def _numbers(reading: Reading, sentence: Sentence) -> list[Mark]:
    """Return the numbers of a sentence that can be counts of genes."""
    found: list[Mark] = []
    words = reading.words
    inside = {
        t
        for m in sentence.marks
        if m.kind in ("mission", "pathway", "majority")
        for t in range(m.first, m.last + 1)
    }
    token = sentence.first
    while token <= sentence.last:
        mark = None if token in inside else _number_at(reading, sentence, token)
        if mark is None:
            token += 1
            continue
        after = words[mark.last + 1] if mark.last < sentence.last else ""
        has_unit = bool(
            GENES & set(words[mark.last + 1 : min(mark.last + REACH, sentence.last) + 1])
        )
        is_alone = sentence.first == sentence.last and words[mark.first] != "no"
        if after not in OTHER_UNITS and (has_unit or is_alone or mark.form != "spelled"):
            found.append(mark)
        token = mark.last + 1
    return found


def _number_at(reading: Reading, sentence: Sentence, token: int) -> Mark | None:
    """Return the count written at a token (and the next ones, for "8 484"), None if it is none."""
    word, gap, gaps = reading.words[token], reading.gaps[token], reading.gaps
    before = reading.words[token - 1] if token > sentence.first else ""
    if word in SPELLED:
        return Mark("number", str(SPELLED[word]), "spelled", token, token)
    if set("<>±+") & set(gap) or "%" in gaps[token + 1][:2] or before in NOT_COUNTS:
        return None
    if gap.endswith("-") and before and not gap.startswith(" "):
        return None
    last, digits = token, word
    if word.isdecimal() and len(word) <= 3:
        while (
            last < sentence.last
            and gaps[last + 1] == " "
            and re.fullmatch(r"[0-9]{3}", reading.words[last + 1])
        ):
            last += 1
            digits += reading.words[last]
    thousands = THOUSANDS.fullmatch(word)
    if thousands:
        return Mark("number", str(round(float(thousands[1]) * 1000)), "rounded", token, last)
    if WHOLE.fullmatch(digits) is None:
        return None
    value = str(int(digits.replace(",", "")))
    form = "rounded" if before in ROUNDED or "~" in gap else "exact"
    return Mark("number", value, form, token, last)
