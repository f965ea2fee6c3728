"""Tell which numbers of a sentence count genes.

"8,484 DEGs", "8,484 KMP x HU genes", "The count is 8,484"     counts
"8,484 mice", "2-fold", "95 %", "padj 0.05", "in 2021"         none
"20,000 genes were measured", "of the 8,484 DEGs, 12 …"        12 is a count, the whole is none
"""

import math
from collections.abc import Sequence
from functools import cache
from itertools import pairwise

from evals.verifiers.grammar import be_words, preposition_words
from evals.verifiers.lexicon import phrases
from evals.verifiers.number import Number, numbers
from evals.verifiers.numeral import SPELLED
from evals.verifiers.reading import Mark, Reading, Sentence


def _words(listed: str) -> frozenset[str]:
    return frozenset(word for (word,) in phrases(listed))


GENES = _words("deg; degs; gene; genes; transcript; transcripts; dges; dge")
NOT_GENES = _words(
    "set; sets; expression; name; names; ontology; product; products; id; ids; panel; panels; family;"
    " families; symbol; symbols"
)
"""After "gene" these make it something else: "8 gene sets"."""
BACKGROUND = _words(
    "tested; measured; detected; analysed; analyzed; assayed; profiled; quantified; annotated;"
    " examined; sequenced; known; considered; unchanged; unaffected; unaltered; filtered; removed;"
    " excluded; discarded; chip; array; platform; fewer; less; lost"
)
"""A number of genes "tested" or "unchanged" is not what was found to change."""
OTHER_UNITS = _words(
    "percent; per; fold; mice; mouse; rat; rats; animals; samples; groups; group; tissues; tissue;"
    " missions; mission; days; day; weeks; week; months; hours; hour; minutes; years; year; times; x;"
    " pathways; sets; set; factors; factor; conditions; condition; studies; study; comparisons; contrasts;"
    " km; m; cm; mm; um; nm; kg; g; mg; ug; ml; l; s; sec; ms; h; hr; hz; kb; bp; mb; gb; usd; eur;"
    " gy; cgy; mgy; sv; msv; kcal; rpm; c; people; men; women; cells; proteins; kinds; kind; classes;"
    " class; stressors; stressor; million; thousand; hundred; dozen; digits; points; copies; reads"
)
NAMED = _words("padj; p; fdr; n; nes; r; alpha; q; z; t; f; year; factor; seed; id; code; zip")
"""A figure right after one of these is not a count of genes."""
SCALED = _words(
    "first; last; twice; half; double; thrice; maximum; minimum; minus; many; loss; drop; lose; lost;"
    " quarter; third; other; next; all"
)
"""Right before a figure (or "of") these make it another: "twice 3,955", "a loss of 3,955"."""
UNMOVED = _words(
    "changed; altered; affected; significant; regulated; different; responding; respond"
)
"""With "not" before one of these, genes are counted that do not respond."""
NOT = frozenset(("not",))
NO = _words("not; non; aren't; weren't; isn't; wasn't")
DIFFERENTIAL = _words("deg; degs; dge; dges; differentially")
"""With a negation before one of these, genes are counted that do not respond either."""
IN_YEAR = _words("in; since; year; by; until; from; during; of; before; after; al; around")
VERBS = _words(
    "matches; equals; stands; comes; shows; reaches; remains; seems; means; belongs; is; was; has;"
    " hits; changes; entries; loci; differences; plus; versus; vs; across; thus; as; this; its; yes;"
    " always; perhaps; besides; respectively; altogether; total; more; fewer; less; and; or; but;"
    " that; which; while; of; out; there; here; overall; only; have; had; respond; change; changed; show"
)
"""Words after a figure that leave its unit unsaid."""
MODIFIERS = frozenset(
    ("direction", "factor", "tissue", "changed", "method", "unchanged", "neutral", "agreement")
)
SMALL = 12
"""Spelled numbers up to this are counts only with their unit: "one" and "two" are everywhere."""
REACH = 6
"""How many words may stand between a number and "genes"."""
YEARS = range(1900, 2101)


def gene_counts(reading: Reading, sentence: Sentence) -> list[Number]:
    """Return the numbers of a sentence that count genes, or may do so with their unit left out."""
    found = numbers(reading, sentence)
    if not found:
        return []
    at = {t: m for m in sentence.marks for t in range(m.first, m.last + 1)}
    figures = [n for n in found if _kind(at, n.first) not in ("mission", "pathway", "majority")]
    parts = _parts(reading, sentence, figures)
    return [n for n in figures if n not in parts and _is_count(reading, sentence, n, at)]


def _is_count(reading: Reading, sentence: Sentence, number: Number, at: dict[int, Mark]) -> bool:
    words = reading.words
    ends = [end for end in (number.low, number.high) if abs(end) < math.inf]
    is_integer = all(end == int(end) for end in ends)
    if number.unit not in ("", "genes") or not is_integer or _is_arithmetic(reading, number):
        return False
    before = words[number.first - 1] if number.first > sentence.first else ""
    if _is_scaled(words, sentence, number) or _is_unmoved(words, sentence, number):
        return False
    unit = number.unit or _unit(reading, sentence, number, at)
    if unit:
        return unit == "genes"
    if before in NAMED:
        return before == "n" and (number.first - 1, number.last) == (sentence.first, sentence.last)
    if number.low in YEARS and words[number.first].isdecimal() and before in IN_YEAR:
        return False
    if number.first == sentence.first and number.last == sentence.last:
        return words[number.first] != "no" and not _is_numbering(reading, sentence)
    return words[number.first] not in SPELLED or number.high > SMALL


def _unit(reading: Reading, sentence: Sentence, number: Number, at: dict[int, Mark]) -> str:
    """Return "genes", "other", or "" if no unit is said."""
    words, gaps = reading.words, reading.gaps
    last = min(number.last + REACH, sentence.last)
    for token in range(number.last + 1, last + 1):
        if gaps[token] not in (" ", "-", " (") or (
            gaps[token] == " (" and words[token] not in GENES
        ):
            return ""
        word = words[token]
        if word in GENES:
            return _gene_unit(words[token + 1 : sentence.last + 1])
        if _kind(at, token) in MODIFIERS or word.endswith("ly"):
            continue
        if word in OTHER_UNITS:
            return "other"
        if (
            word[0].isdigit()
            or word in _silent()
            or _kind(at, token) in ("break", "not", "contrast", "condition")
        ):
            return ""
        if word.endswith("s") and len(word) > 3 and not word.endswith("ss"):
            return "other"
    return ""


def _is_scaled(words: list[str], sentence: Sentence, number: Number) -> bool:
    before = words[max(sentence.first, number.first - 2) : number.first]
    if before == ["than", "the"]:
        return True
    while before and before[-1] in ("of", "as", "the"):
        before.pop()
    return bool(before) and before[-1] in SCALED


def _is_unmoved(words: list[str], sentence: Sentence, number: Number) -> bool:
    ahead = words[number.last + 1 : min(number.last + REACH, sentence.last) + 1]
    return any(
        (left in NOT and right in UNMOVED) or (left in NO and right in DIFFERENTIAL)
        for left, right in pairwise(ahead)
    )


def _gene_unit(after: Sequence[str]) -> str:
    is_other = bool(after) and after[0] in NOT_GENES
    return "other" if is_other or BACKGROUND & set(after[:4]) else "genes"


def _kind(at: dict[int, Mark], token: int) -> str:
    mark = at.get(token)
    return mark.kind if mark else ""


@cache
def _silent() -> frozenset[str]:
    return VERBS | be_words() | preposition_words()


def _is_arithmetic(reading: Reading, number: Number) -> bool:
    """Say whether a number is a term of a sum or bears a currency: "4,110 + 1,273", "$3955"."""
    before, after = reading.gaps[number.first].strip(), reading.gaps[number.last + 1].strip()
    is_term = before.endswith(("+", "$", "€", "£", "#", "^")) or after.startswith(
        ("+", "€", "$", "*", "±")
    )
    return is_term or after == "=" or after.startswith(("- ", "/"))


def _is_numbering(reading: Reading, sentence: Sentence) -> bool:
    """Say whether a lone number is the head of a list item: "1. In soleus …"."""
    before, after = reading.gaps[sentence.first], reading.gaps[sentence.last + 1]
    opens = not before.strip(" ") or "\n" in before
    return (
        opens
        and len(reading.words[sentence.first]) < 3
        and after in (". ", ") ")
        and sentence.last + 1 < len(reading.words)
    )


def _parts(reading: Reading, sentence: Sentence, figures: Sequence[Number]) -> list[Number]:
    """Return the figures that are no count of their own in "12 of the 8,484 DEGs".

    "8,484 of 20,000 genes" and "334 of the 910 DEGs are upregulated" count the part; elsewhere "the"
    tells that the whole is what was counted.
    """
    has_way = any(mark.kind == "direction" for mark in sentence.marks)
    found: list[Number] = []
    for part, whole in pairwise(figures):
        between = reading.words[part.last + 1 : whole.first]
        if not between or between[0] not in ("of", "out") or len(between) > 3:
            continue
        is_definite = between[-1] in ("the", "these", "those", "all")
        found.append(part if is_definite and not has_way else whole)
    return found


def described(reading: Reading) -> list[tuple[Sentence, list[Number]]]:
    """Return each sentence of an answer with the numbers in it that count genes, if any."""
    return reading.once(_described)


def _described(reading: Reading) -> list[tuple[Sentence, list[Number]]]:
    return [(sentence, gene_counts(reading, sentence)) for sentence in reading.sentences]
