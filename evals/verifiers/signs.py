"""Directions that stand beside a tissue as a sign or a signed score, without a word for them.

"liver +, kidney -", "liver (-)", "liver: +"       liver UP, kidney DOWN; liver DOWN; liver UP
"minus in liver", "liver minus, kidney plus"       liver DOWN; liver DOWN, kidney UP
"liver -1.2, kidney 1.5"                           liver DOWN, kidney UP
"liver - up", "liver plus kidney", "- liver"       nothing: a dash, "and", a bullet
"""

import re

from evals.verifiers.reading import Mark, Reading, Sentence
from evals.verifiers.tokens import word_set

AFTER = re.compile(r"([ :=(\[]*)([+-])\2{0,2}([ )\]]*)([,;.)\]/\n].*)?", re.DOTALL)
"""A sign behind a tissue, up to what ends its clause."""
BEFORE = re.compile(r"(?:.*[,;:(] *([+-])|.*(\+))\)? ?")
"""A sign before "in liver": a minus only behind punctuation, where it is no dash."""
SIGNED = re.compile(r"[ :=(\[,~]*[ :=(\[]([+-]) ?")
UNSIGNED = re.compile(r"[ :=(\[,~]*[ :=(\[]")
SCORE = re.compile(r"[0-9](?:\.[0-9]{1,6})?")
WAYS = {"+": "UP", "-": "DOWN", "plus": "UP", "minus": "DOWN"}
SPOKEN = word_set("plus minus")
AT = word_set("in for")
JOINTS = word_set("and but while whereas with yet")
LEADS = word_set("and a is are but shows has gets")
SHORT = 3
"""So few words with a sign are a line of a list."""
ALONE = frozenset(":=([")
"""With one of these before it, a sign stands for a direction though no other tissue has one."""


def signed_places(reading: Reading, sentence: Sentence) -> list[Mark]:
    """Return the direction that each tissue of a sentence has by a sign beside it, in order.

    Each stands where its tissue does, of which alone it is said.
    """
    places = [mark for mark in sentence.marks if mark.kind == "tissue"]
    between = "".join(reading.gaps[sentence.first : sentence.last + 2])
    found: list[Mark] = []
    if "+" in between or "-" in between:
        found += _signs(reading, sentence, places) + _scores(reading, sentence, places)
    if not SPOKEN.isdisjoint(reading.words[sentence.first : sentence.last + 1]):
        found += _spoken(reading, sentence, places)
    return sorted(found, key=lambda event: event.first)


def _event(way: str, place: Mark) -> Mark:
    return Mark("direction", WAYS[way], "sign", place.last, place.last)


def _signs(reading: Reading, sentence: Sentence, places: list[Mark]) -> list[Mark]:
    """Return the signs right behind tissues, and before "in" and a tissue."""
    words, gaps = reading.words, reading.gaps
    found: list[Mark] = []
    is_sure = False
    for place in places:
        gap = gaps[place.last + 1]
        match = AFTER.fullmatch(gap) if "-" in gap or "+" in gap else None
        if match is not None and (match[4] or match[3].strip() or _is_over(reading, place)):
            found.append(_event(match[2], place))
            is_sure = is_sure or len(sentence) <= SHORT or not ALONE.isdisjoint(match[1])
            continue
        lead = place.first - 1 - (words[place.first - 1] == "the")
        if lead >= sentence.first and words[lead] in AT:
            match = BEFORE.fullmatch(gaps[lead])
            if match is not None:
                found.append(_event(match[1] or match[2], place))
    return found if is_sure or len(found) > 1 else []


def _is_over(reading: Reading, place: Mark) -> bool:
    """Say whether nothing, or a joint, follows the sign behind a tissue, so that it is no dash."""
    after = place.last + 1
    return after == len(reading.words) or reading.words[after] in JOINTS


def _scores(reading: Reading, sentence: Sentence, places: list[Mark]) -> list[Mark]:
    """Return the scores right behind tissues; those without a sign count beside one with a minus."""
    words, gaps = reading.words, reading.gaps
    found: list[Mark] = []
    bare: list[Mark] = []
    for place in places:
        token = place.last + 1
        if token > sentence.last or SCORE.fullmatch(words[token]) is None:
            continue
        if float(words[token]) == 0.0:
            continue
        if match := SIGNED.fullmatch(gaps[token]):
            found.append(_event(match[1], place))
        elif UNSIGNED.fullmatch(gaps[token]):
            bare.append(_event("+", place))
    return found + bare if any(mark.value == "DOWN" for mark in found) else found


def _spoken(reading: Reading, sentence: Sentence, places: list[Mark]) -> list[Mark]:
    """Return "minus" and "plus" said of tissues; "liver plus kidney" adds them up."""
    words, gaps = reading.words, reading.gaps
    first, last = sentence.first, sentence.last
    ending = {place.last: place for place in places}
    beginning = {place.first: place for place in places}
    found: list[Mark] = []
    for token in range(first, last + 1):
        if words[token] not in SPOKEN:
            continue
        after = token + 1 + (words[token + 1 : token + 2] == ["sign"])
        before = token - 1 - (words[token - 1] in LEADS and token - 2 in ending)
        is_led = token == first or gaps[token] != " " or words[token - 1] in LEADS
        ahead = after + 1 + (words[after + 1 : after + 2] == ["the"])
        if is_led and after < last and words[after] in AT and ahead in beginning:
            found.append(_event(words[token], beginning[ahead]))
        elif before in ending and (after > last or gaps[after] != " " or words[after] in JOINTS):
            found.append(_event(words[token], ending[before]))
    return found
