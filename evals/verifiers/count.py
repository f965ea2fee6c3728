"""Judge a number of genes, exact up to format: 8,484 = 8484 = 8 484, never part of another number.

"KMP x HU changes 8,484 genes in soleus"    8484 of KMP x HU in soleus
"about 8.5k genes"                          8484 after rounding: right, at half credit
"no DEGs"                                   0
"""

import re

from evals.schema import Claim, CountTruth
from evals.verifiers.finding import Finding
from evals.verifiers.reading import Mark, Reading, Sentence
from evals.verifiers.scope import Scope
from evals.verifiers.subject import names_factors, names_tissue, subject_of

WHOLE = re.compile(r"[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+")
THOUSANDS = re.compile(r"([0-9]+(?:\.[0-9]+)?)k")
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


def judge_count(truth: CountTruth, reading: Reading, question: str) -> Finding:
    """Return the verdict on the counts stated about the subject; other subjects' are left alone."""
    subject = subject_of(truth.subject)
    right: list[tuple[Mark, bool]] = []
    wrong: list[Mark] = []
    claims: list[Claim] = []
    for sentence in reading.sentences:
        numbers = _numbers(reading, sentence)
        if not numbers:
            continue
        scope = Scope(reading, sentence, numbers)
        for group in scope.groups():
            for number in group.events:
                if scope.is_conditional(number) or scope.is_hedged_away():
                    continue
                is_ours = names_tissue(group, subject) and names_factors(scope, group, subject)
                says = f"not {number.value}" if scope.is_negated(number) else number.value
                start, end = reading.span(number.first, number.last)
                about = truth.subject if is_ours else "another subject"
                claims.append(Claim(subject=about, says=says, start=start, end=end))
                if is_ours:
                    exact, rounded = _matches(number, truth.value)
                    if scope.is_negated(number):
                        wrong += [number] * exact
                    elif exact or rounded:
                        right.append((number, exact))
                    else:
                        wrong.append(number)
    return _weigh(truth, right, wrong, tuple(claims))


def _weigh(
    truth: CountTruth, right: list[tuple[Mark, bool]], wrong: list[Mark], claims: tuple[Claim, ...]
) -> Finding:
    if right and wrong:
        return Finding(
            "contradictory", f"says {truth.value} and {wrong[0].value} of {truth.subject}", claims
        )
    if any(exact for _, exact in right):
        return Finding("correct", f"{truth.subject}: {truth.value}, as in the data", claims)
    if right:
        reason = f"{truth.subject}: {right[0][0].value} is {truth.value} after rounding"
        return Finding("correct", reason, claims, ROUNDED_CREDIT)
    if wrong:
        return Finding(
            "incorrect",
            f"{truth.subject}: {wrong[0].value} stated, {truth.value} in the data",
            claims,
        )
    return Finding("no_claim", f"no count stated of {truth.subject}", claims)


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
        if after not in OTHER_UNITS and (has_unit or mark.form != "spelled"):
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
