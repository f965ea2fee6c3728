"""Scores that stand right behind a mission with a sign, and without a word for them.

"RR-6 -2.1", "RR-6 (-2.1)", "RR-6: +2.1"       the NES of RR-6
"RR-6 2.1", "RR-6 -2.1 log2FC", "RR-6 - both"  nothing
"""

import re
from collections.abc import Iterator

from evals.verifiers.names import same_pathway, same_tissue
from evals.verifiers.number import Number, numbers
from evals.verifiers.reading import Reading, Sentence
from evals.verifiers.tokens import word_set

MAY_HOLD = re.compile(
    r"(?:rr|mhu|research)[ -]?[0-9]{1,2}[^0-9a-z]{0,5}[+-]|(?:dorsal|femoral)[^0-9a-z]{0,5}[+-]"
)
"""What a text with such a score holds."""
SIGNED = re.compile(r" ?[:=]? ?[(\[]? ?[+-]")
"""What stands between a mission and its signed score."""
OTHER_SCORES = word_set("log2fc logfc lfc log2 log fold percent")
UNNAMED = "one"
"""What a mission is called that an answer does not name ("some missions")."""


def mission_scores(reading: Reading, pathway: str, tissue: str) -> Iterator[tuple[str, Number]]:
    """Yield each mission with the signed score right behind it: "RR-6 -2.1", "RR-6 (-2.1)"."""
    if MAY_HOLD.search(reading.page.text) is None:
        return
    words, gaps = reading.words, reading.gaps
    for sentence in reading.sentences:
        if not {"+", "-"} & set("".join(gaps[sentence.first + 1 : sentence.last + 1])):
            continue
        ends = {
            m.last + 1: m.value
            for m in sentence.marks
            if m.kind == "mission" and m.value != UNNAMED
        }
        if not ends or not _is_ours(sentence, pathway, tissue):
            continue
        for number in numbers(reading, sentence):
            mission = ends.get(number.first, "")
            after = words[number.last + 1] if number.last < sentence.last else ""
            is_plain = number.form == "exact" and not number.unit and after not in OTHER_SCORES
            if mission and is_plain and SIGNED.fullmatch(gaps[number.first]):
                yield mission, number


def _is_ours(sentence: Sentence, pathway: str, tissue: str) -> bool:
    """Say whether a sentence names no gene set and no tissue but those asked about."""
    return "condition" not in sentence.kinds and all(
        same_pathway(mark.value, pathway)
        if mark.kind == "pathway"
        else mark.kind != "tissue" or same_tissue(mark.value, tissue)
        for mark in sentence.marks
    )
