"""Judge how well missions agree in a tissue: the level, and the correlation if one is stated.

"highly conserved between missions: the mean correlation is 0.619"   level highly, r 0.619
"highly and poorly conserved", "r = 0.6 or 0.3"                      two levels, two values
"the sequences are highly conserved across species"                  nothing
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from evals.schema import Claim, ConservationTruth
from evals.verifiers.finding import Finding
from evals.verifiers.grammar import be_words
from evals.verifiers.lexicon import LEVEL_NOUNS, LEVELS, phrases
from evals.verifiers.names import same_tissue
from evals.verifiers.number import Number, agrees, numbers
from evals.verifiers.reading import Mark, Reading, Sentence
from evals.verifiers.reply import is_voided
from evals.verifiers.scope import Scope

NAMED = frozenset(("r", "rho", "correlation", "correlations", "pearson", "spearman"))
"""Words that introduce a correlation."""
REACH = 8
"""How many words may stand between "correlation" and its value."""
NARROW = 0.2
"""A range states a correlation if it is no wider than this."""
FOREIGN = frozenset(
    word
    for (word,) in phrases(
        "sequence; sequences; species; evolution; evolutionary; evolutionarily; mammals; vertebrates;"
        " orthologs; orthologues; homologs; protein; proteins; amino; residues; domain; domains; motif;"
        " motifs; genome; genomes; genomic; man; rat; rats; zebrafish; promoter; promoters"
    )
)
"""What else may be conserved: a clause with one of these is not about missions."""
DEFINING = frozenset(
    ("means", "threshold", "thresholds", "definition", "defined", "cutoff", "would")
)
"""A sentence with one of these says what the words mean, not how this tissue is."""
ADVERBS = {
    word: level
    for level, (adverbs, _) in LEVELS.items()
    for word in adverbs
    if " " not in word and word not in ("not", "very", "well", "little")
}

ADJECTIVES = {word: level for level, (_, adjectives) in LEVELS.items() for word in adjectives}
NOUNS = frozenset(LEVEL_NOUNS)


@dataclass(frozen=True, slots=True)
class Statement:
    """One level or correlation stated; `is_right` None = it settles nothing.

    So does a level denied that is not the true one, and a bound or wide range that holds the value.
    """

    about: str
    says: str
    is_denied: bool
    is_right: bool | None
    first: int
    last: int


def judge_conservation(truth: ConservationTruth, reading: Reading, question: str) -> Finding:
    """Return the verdict: correct = the level, or the correlation as far as its decimals go."""
    stated: list[Statement] = []
    for sentence in reading.sentences:
        if not DEFINING.isdisjoint(reading.words[sentence.first : sentence.last + 1]):
            continue
        figures = {number.first: number for number in _correlations(reading, sentence)}
        events = [Mark("r", n.says(), n.form, n.first, n.last) for n in figures.values()]
        events += _levels(reading, sentence)
        if events:
            events.sort(key=lambda mark: mark.first)
            stated += _of_sentence(truth, Scope(reading, sentence, events), figures)
    finding = _weigh(truth, stated)
    return Finding(finding.verdict, finding.reason, tuple(_claims(truth, reading, stated)))


def _claims(
    truth: ConservationTruth, reading: Reading, stated: Sequence[Statement]
) -> Iterator[Claim]:
    for one in stated:
        start, end = reading.span(one.first, one.last)
        yield Claim(
            subject=f"conservation in {truth.tissue}",
            says=one.says,
            start=start,
            end=end,
            about="level" if one.about == "level" else "number",
            is_denied=one.is_denied,
        )


def _weigh(truth: ConservationTruth, stated: Sequence[Statement]) -> Finding:
    right = [one.says for one in stated if one.is_right]
    wrong = [one for one in stated if one.is_right is False]
    data = f"the data say {truth.level}, r {truth.nes_mean_r:.3f}"
    levels = {one.says for one in wrong if one.about == "level" and not one.is_denied}
    if (right and wrong) or len(levels) > 1:
        said = right[0] if right else min(levels)
        return Finding("contradictory", f"says {said} and {wrong[-1].says}; {data}")
    if wrong:
        said = f"not {wrong[0].says}" if wrong[0].is_denied else wrong[0].says
        return Finding("incorrect", f"says {said}; {data}")
    if right:
        return Finding("correct", f"says {right[0]}, as in the data")
    return Finding("no_claim", f"states no level and no correlation for {truth.tissue}")


def _of_sentence(
    truth: ConservationTruth, scope: Scope, figures: dict[int, Number]
) -> Iterator[Statement]:
    if scope.is_hedged_away():
        return
    for group in scope.groups():
        if group.tissues and not any(same_tissue(named, truth.tissue) for named in group.tissues):
            continue
        for event in group.events:
            if scope.is_conditional(event) or scope.is_supposed(event):
                continue
            is_denied = scope.is_negated(event) or is_voided(
                scope.reading, scope.sentence, event.first, event.last
            )
            if event.kind == "r":
                yield _value(truth, figures[event.first], is_denied)
            else:
                yield _level(truth, event, is_denied)


def _level(truth: ConservationTruth, event: Mark, is_denied: bool) -> Statement:
    is_true = event.value == truth.level
    is_right = (False if is_true else None) if is_denied else is_true
    return Statement("level", event.value, is_denied, is_right, event.first, event.last)


def _value(truth: ConservationTruth, number: Number, is_denied: bool) -> Statement:
    holds = agrees(number, truth.nes_mean_r)
    is_wide = number.form in ("range", "bound") and not number.high - number.low <= NARROW
    says_little = (is_denied and not holds) or (is_wide and holds != is_denied)
    is_right = None if says_little else holds != is_denied
    says = f"r {number.says()}"
    return Statement("r", says, is_denied, is_right, number.first, number.last)


# ---- what is stated -------------------------------------------------------------------------


def _levels(reading: Reading, sentence: Sentence) -> Iterator[Mark]:
    """Yield each level, with those that a list puts before it ("highly and poorly conserved")."""
    words = reading.words[sentence.first : sentence.last + 1]
    if not FOREIGN.isdisjoint(words):
        return
    if not NOUNS.isdisjoint(words):
        yield from _predicated(reading, sentence)
    if "level" not in sentence.kinds:
        return
    for mark in sentence.marks:
        if mark.kind != "level":
            continue
        yield mark
        token = mark.first - 1
        while token >= sentence.first:
            word = reading.words[token]
            if word in ADVERBS and (ADVERBS[word] != mark.value):
                yield Mark("level", ADVERBS[word], "", token, token)
            elif word not in ("and", "or") and word not in ADVERBS:
                break
            token -= 1
    yield from _elliptical(reading, sentence)


def _predicated(reading: Reading, sentence: Sentence) -> Iterator[Mark]:
    """Yield the level of "conservation is low", "agreement was very high"."""
    words = reading.words
    at = {mark.first for mark in sentence.marks if mark.kind == "level"}
    for token in range(sentence.first, sentence.last - 1):
        if words[token] not in NOUNS or words[token + 1] not in be_words():
            continue
        for last in (token + 3, token + 2):
            level = ADJECTIVES.get(" ".join(words[token + 2 : last + 1]))
            if last <= sentence.last and level is not None and token + 2 not in at:
                yield Mark("level", level, "", token + 2, last)
                break


def _elliptical(reading: Reading, sentence: Sentence) -> Iterator[Mark]:
    """Yield the level of "highly conserved in liver, poorly in thymus"."""
    words = reading.words
    for token in range(sentence.first + 1, sentence.last):
        if words[token] in ADVERBS and words[token + 1] == "in":
            yield Mark("level", ADVERBS[words[token]], "", token, token)


def _correlations(reading: Reading, sentence: Sentence) -> Iterator[Number]:
    """Yield each correlation that is stated, and what "or" offers beside it."""
    words = reading.words
    names = [t for t in range(sentence.first, sentence.last) if words[t] in NAMED]
    if not names:
        return
    figures = [n for n in numbers(reading, sentence) if not n.unit and _is_share(n)]
    taken: set[int] = set()
    for name in names:
        after = [n for n in figures if name < n.first <= name + REACH and n.first not in taken]
        if after and not any(words[t] in NAMED for t in range(name + 1, after[0].first)):
            taken.add(after[0].first)
            yield after[0]
            for left, right in pairwise(after):
                if words[left.last + 1 : right.first] not in (["or"], ["or", "maybe"]):
                    break
                yield right


def _is_share(number: Number) -> bool:
    ends = [end for end in (number.low, number.high) if abs(end) != float("inf")]
    return number.step < 1 and all(-1.0 <= end <= 1.0 for end in ends)
