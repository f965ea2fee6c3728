"""The words of a sentence that state a direction, a change, or a score with a sign.

"increased suppression"             DOWN
"NES = -1.9"                        DOWN
"up or down", "stress-induced"      nothing
"""

import re
from itertools import pairwise

from evals.verifiers.reading import Mark, Reading, Sentence

SCORE = re.compile(r"[0-9]{1,2}(?:\.[0-9]{1,6})?")
OPPOSITE = {"UP": "DOWN", "DOWN": "UP"}
NOT_BARE_BEFORE = frozenset(("to", "of", "until", "for", "from", "stream"))
NOT_BARE_AFTER = frozenset(
    ("set", "made", "make", "follow", "break", "speed", "scale", "pick", "take", "end")
)
CONTROLS = frozenset(("control", "controls", "ground", "baseline", "normal", "expected"))
NES_LINKS = frozenset(
    (
        "of",
        "is",
        "was",
        "value",
        "values",
        "about",
        "approximately",
        "around",
        "at",
        "score",
        "scores",
        "between",
        "from",
        "the",
        "equals",
        "are",
        "were",
    )
)


def direction_events(reading: Reading, sentence: Sentence) -> list[Mark]:
    """Return the words of a sentence that state a direction or a change, in order."""
    marks = [
        m for m in sentence.marks if m.kind == "direction" and not _is_idle(reading, sentence, m)
    ]
    events = _combined(reading, marks)
    events += _signed_scores(reading, sentence)
    if any(event.form != "weak" for event in events):
        events = [event for event in events if event.form != "weak"]
    if any(mark.kind == "not" for mark in sentence.marks):
        events += _changes(reading, sentence, events)
    events += [
        Mark("direction", "UNCHANGED", "changed", m.first, m.last)
        for m in sentence.marks
        if m.kind == "unchanged"
    ]
    events.sort(key=lambda mark: mark.first)
    return _without_alternatives(reading, events)


def _is_idle(reading: Reading, sentence: Sentence, mark: Mark) -> bool:
    """Say whether a direction word is part of another expression ("stress-induced", "up to")."""
    words, gaps = reading.words, reading.gaps
    before = words[mark.first - 1] if mark.first > sentence.first else ""
    after = words[mark.last + 1] if mark.last < sentence.last else ""
    if mark.form == "participle" and gaps[mark.first].endswith("-") and before:
        return True
    if words[mark.first] in ("up", "down") and mark.form == "bare":
        return after in NOT_BARE_BEFORE or before in NOT_BARE_AFTER
    if words[mark.first] in ("higher", "lower", "more", "less"):
        ahead = words[mark.last + 1 : sentence.last + 1]
        return "than" in ahead[:6] and not CONTROLS & set(ahead)
    return False


def _combined(reading: Reading, marks: list[Mark]) -> list[Mark]:
    """Join a direction with the noun it modifies: "increased suppression" is DOWN."""
    joined: list[Mark] = []
    for mark in marks:
        last = joined[-1] if joined else None
        if last and mark.form == "noun" and last.form in ("participle", "verb", "noun", "bare"):
            between = reading.words[last.last + 1 : mark.first]
            if all(word in ("of", "in", "the", "a", "its") for word in between):
                value = mark.value if last.value == "UP" else OPPOSITE[mark.value]
                joined[-1] = Mark("direction", value, "noun", last.first, mark.last)
                continue
        joined.append(mark)
    return joined


def _signed_scores(reading: Reading, sentence: Sentence) -> list[Mark]:
    """Return an event for each enrichment score with a sign ("NES = -1.9", "NES > 0")."""
    found: list[Mark] = []
    words, gaps = reading.words, reading.gaps
    for index in range(sentence.first, sentence.last):
        if words[index] not in ("nes", "score", "scores") or gaps[index].endswith("|"):
            continue
        if words[index] != "nes" and words[index - 1] != "enrichment":
            continue
        token = index + 1
        while token < sentence.last and words[token] in NES_LINKS:
            token += 1
        sign = _sign(gaps[token], words[token])
        if sign:
            found.append(Mark("direction", sign, "nes", index, token))
    return found


def _sign(gap: str, word: str) -> str | None:
    if SCORE.fullmatch(word) is None:
        return None
    value = float(word)
    value = -value if gap.endswith("-") else value
    if ">" in gap:
        return "UP" if value >= 0 else None
    if "<" in gap:
        return "DOWN" if value <= 0 else None
    return "UP" if value > 0 else "DOWN" if value < 0 else None


def _changes(reading: Reading, sentence: Sentence, events: list[Mark]) -> list[Mark]:
    """Return "change", "effect" and the like as events, where no direction word follows them."""
    return [
        Mark("direction", "CHANGED", "changed", mark.first, mark.last)
        for mark in sentence.marks
        if mark.kind == "changed" and not any(event.first > mark.first for event in events)
    ]


def _without_alternatives(reading: Reading, events: list[Mark]) -> list[Mark]:
    """Drop "up or down": both directions offered are none stated."""
    dropped: set[int] = set()
    for place, (left, right) in enumerate(pairwise(events)):
        if left.value == right.value:
            continue
        between = reading.words[left.last + 1 : right.first]
        gap = reading.gaps[right.first]
        if any(word in ("or", "versus", "vs") for word in between[:3]) or (
            not between and "/" in gap
        ):
            dropped |= {place, place + 1}
    return [event for place, event in enumerate(events) if place not in dropped]
