"""The words of a sentence that state a direction, a change, or a score with a sign.

"increased suppression"             DOWN
"NES = -1.9"                        DOWN
"up or down", "stress-induced"      nothing
"""

import re
from itertools import pairwise

from evals.verifiers.grammar import neutral_words
from evals.verifiers.reading import Mark, Reading, Sentence
from evals.verifiers.signs import signed_places
from evals.verifiers.table import column_events, is_head, is_row
from evals.verifiers.tokens import word_set

SCORE = re.compile(r"[0-9]{1,2}(?:\.[0-9]{1,6})?")
OPPOSITE = {"UP": "DOWN", "DOWN": "UP"}
NOT_BARE_BEFORE = word_set("to of until for from stream genes")
NOT_BARE_AFTER = word_set("set made make follow break speed scale pick take end")
CONTROLS = word_set("control controls ground baseline normal expected")
COMPARATIVES = word_set("higher lower more less")
NES_LINKS = word_set(
    "of is was value values about approximately around at score scores between from the equals are were"
)
JOINED = word_set("of in the a its")
"""What may stand between a direction and the noun that it modifies."""
NEAR = 8
"""So many words after "higher" a comparison may begin that it belongs to."""
MODALS = word_set("can may to will could does did do not would must might should")
"""After one of these "increase" is a verb."""
SWITCHES = word_set("turns turn turned switches switch switched shuts shut")
PARTICLES = {"on": "UP", "off": "DOWN"}
ADVERBS = word_set("up down")
MOVES = word_set(
    "gone turn turns turned switch switches switched shut shuts come comes came coming trending trend heads heading headed points"
    " pointing pointed pushed pushes pushing driven drives drive swings swung brought shifts shifting shifted nudged dialled dialed"
    " regulated moving leans leaning tilts tilted skews skewed scored scores votes voted voting it's that's direction directions"
    " answer thymus liver sharply mostly say says clearly way thymic consensus ticks ticked edges edged way going drifts steps"
)
"""Verbs and nouns after which "up" and "down" are directions."""
SOURCES = (
    "suffer",
    "result",
    "com",
    "stem",
    "aris",
    "evident",
    "apparent",
    "seen",
    "clear",
    "follow",
    "shift",
    "chang",
    "switch",
    "far",
)
"""What comes "from a reduction" of X says that there is one."""
RESISTANT = word_set(
    "immune resistant refractory insensitive exempt opposed contrary averse impervious close next similar"
)
IDLE_PAIRS = frozenset(
    (
        ("less", "than"),
        ("way", "than"),
        ("everything", "but"),
        ("everything", "except"),
        ("anything", "except"),
    )
)
OR = word_set("or versus vs")
KINDS = frozenset(("direction", "unchanged"))


def direction_events(reading: Reading, sentence: Sentence) -> list[Mark]:
    """Return the words of a sentence that state a direction or a change, in order."""
    events: list[Mark] = []
    if is_row(reading, sentence):
        if is_head(reading, sentence):
            return []
        events += column_events(reading, sentence)
    kinds = sentence.kinds
    if not kinds.isdisjoint(KINDS):
        events += _stated(reading, sentence)
    if "score" in kinds:
        told = {event.last for event in events if event.form == "nes"}
        scores = _signed_scores(reading, sentence)
        events += [event for event in scores if event.last not in told]
    if "pathway" in kinds:
        events += _switched(reading, sentence)
    if "tissue" in kinds and not events and (signs := signed_places(reading, sentence)):
        return signs
    if len(events) > 1 and any(event.form == "weak" for event in events):
        events = [event for event in events if event.form != "weak"]
    if "not" in kinds and "changed" in kinds:
        events += _changes(reading, sentence, events)
    if len(events) > 1:
        events.sort(key=_place)
        return _without_alternatives(reading, events)
    return events


def _place(mark: Mark) -> int:
    return mark.first


def _stated(reading: Reading, sentence: Sentence) -> list[Mark]:
    marks: list[Mark] = []
    unchanged: list[Mark] = []
    for mark in sentence.marks:
        if mark.kind == "direction":
            if not _is_idle(reading, sentence, mark):
                marks.append(_as_verb(reading, sentence, mark) if mark.form == "noun" else mark)
        elif mark.kind == "unchanged":
            unchanged.append(Mark("direction", "UNCHANGED", "changed", mark.first, mark.last))
    return (_combined(reading, marks) if marks else marks) + unchanged


def _is_idle(reading: Reading, sentence: Sentence, mark: Mark) -> bool:
    """Say whether a direction word is part of another expression ("stress-induced", "up to")."""
    words, first = reading.words, mark.first
    if mark.form == "participle" and first > sentence.first and reading.gaps[first][-1:] == "-":
        return True
    if words[first - 1 : first] == ["as"] == words[mark.last + 1 : mark.last + 2]:
        return True
    is_open = first > sentence.first + 1 and "averts" not in sentence.kinds
    if is_open and _is_kept_away(words, first, sentence.first):
        return True
    if mark.form == "bare":
        if words[first] in ADVERBS and _is_particle(reading, sentence, first):
            return True
        after = words[mark.last + 1] if mark.last < sentence.last else ""
        before = words[first - 1] if first > sentence.first else ""
        return after in NOT_BARE_BEFORE or before in NOT_BARE_AFTER
    if words[first] in COMPARATIVES:
        ahead = words[mark.last + 1 : sentence.last + 1]
        if not CONTROLS.isdisjoint(ahead):
            return False
        return "than" in ahead[:6] or _is_of_organs(sentence, mark)
    return False


def _is_kept_away(words: list[str], first: int, start: int) -> bool:
    """Say whether a direction is what something is kept from: "exempt from suppression"."""
    before = first - 1
    while before > start and words[before] in ("being", "the", "a", "its", "further"):
        before -= 1
    if before == start:
        return False
    if words[before] == "from":
        return not words[before - 1].startswith(SOURCES)
    return (words[before - 1], words[before]) in IDLE_PAIRS or (
        words[before] == "to" and words[before - 1] in RESISTANT
    )


def _is_particle(reading: Reading, sentence: Sentence, first: int) -> bool:
    """Say whether "up" or "down" belongs to a verb that tells no direction: "opened up"."""
    before = first - 1
    if before < sentence.first or reading.gaps[first] != " ":
        return False
    word = reading.words[before]
    if word == "and" and before > sentence.first and reading.words[before - 1] in ADVERBS:
        return _is_particle(reading, sentence, before - 1)
    if word in neutral_words() or word in MOVES or word.endswith("ly") or not word[0].isalpha():
        return False
    return all(not mark.first <= before <= mark.last for mark in sentence.marks)


def _is_of_organs(sentence: Sentence, mark: Mark) -> bool:
    """Say whether what follows sets one organ against another: "higher … compared to brain"."""
    if "contrast" not in sentence.kinds or "tissue" not in sentence.kinds:
        return False
    tissues = [m.first for m in sentence.marks if m.kind == "tissue"]
    return any(
        mark.last < other.first <= mark.last + NEAR
        and _compares(other)
        and any(other.last < token <= other.last + 4 for token in tissues)
        for other in sentence.marks
    )


def _compares(mark: Mark) -> bool:
    """Say whether a mark compares one thing with another."""
    return mark.kind == "contrast" and mark.value == "comparison"


def _as_verb(reading: Reading, sentence: Sentence, mark: Mark) -> Mark:
    """Return "increase" as a verb where a modal stands before it ("can increase X")."""
    is_verb = (
        mark.first > sentence.first
        and mark.first == mark.last
        and reading.words[mark.first - 1] in MODALS
    )
    return mark._replace(form="verb") if is_verb else mark


def _combined(reading: Reading, marks: list[Mark]) -> list[Mark]:
    """Join a direction with the noun it modifies: "increased suppression" is DOWN."""
    joined: list[Mark] = []
    for mark in marks:
        last = joined[-1] if joined else None
        if (
            last
            and mark.form == "noun"
            and last.form in ("participle", "verb", "noun", "bare", "lift")
        ):
            between = reading.words[last.last + 1 : mark.first]
            if JOINED.issuperset(between):
                value = mark.value if last.value == "UP" else OPPOSITE[mark.value]
                joined[-1] = Mark("direction", value, "noun", last.first, mark.last)
                continue
        joined.append(mark)
    return [mark for mark in joined if mark.form != "lift"]


def _signed_scores(reading: Reading, sentence: Sentence) -> list[Mark]:
    """Return an event for each enrichment score with a sign ("NES = -1.9", "-1.9 (NES)")."""
    found: list[Mark] = []
    words, gaps = reading.words, reading.gaps
    for mark in sentence.marks:
        if mark.kind != "score" or gaps[mark.first].endswith("|"):
            continue
        token = mark.last + 1
        while token < sentence.last and words[token] in NES_LINKS:
            token += 1
        sign = _sign(gaps[token], words[token]) if token <= sentence.last else None
        before = mark.first - 1
        if sign:
            found.append(Mark("direction", sign, "nes", mark.first, token))
        elif before >= sentence.first and gaps[before][-1:] in ("-", "+"):
            sign = _sign(gaps[before], words[before])
            if sign:
                found.append(Mark("direction", sign, "nes", before, mark.last))
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


def _switched(reading: Reading, sentence: Sentence) -> list[Mark]:
    """Return "turns X on" and "switches X off" as directions of X."""
    words = reading.words
    found: list[Mark] = []
    for mark in sentence.marks:
        after = mark.last + 1
        if mark.kind != "pathway" or after > sentence.last or words[after] not in PARTICLES:
            continue
        if not SWITCHES.isdisjoint(words[max(sentence.first, mark.first - 3) : mark.first]):
            found.append(Mark("direction", PARTICLES[words[after]], "bare", after, after))
    return found


def _changes(reading: Reading, sentence: Sentence, events: list[Mark]) -> list[Mark]:
    """Return "change", "effect" and the like as events, where no direction word follows them.

    "significant" is one only at the end or before another such word, not in "significant implications".
    """
    furthest = max((event.first for event in events), default=-1)
    found: list[Mark] = []
    for mark in sentence.marks:
        if mark.kind != "changed" or furthest > mark.first:
            continue
        if mark.value == "significant" and not _is_alone(reading, sentence, mark):
            continue
        found.append(Mark("direction", "CHANGED", "changed", mark.first, mark.last))
    return found


def _is_alone(reading: Reading, sentence: Sentence, mark: Mark) -> bool:
    if mark.last == sentence.last or reading.gaps[mark.last + 1] != " ":
        return True
    return any(other.first == mark.last + 1 for other in sentence.marks)


def _without_alternatives(reading: Reading, events: list[Mark]) -> list[Mark]:
    """Drop "up or down", "up- and downregulated": both directions offered are none stated."""
    dropped: set[int] = set()
    for place, (left, right) in enumerate(pairwise(events)):
        if left.value == right.value:
            continue
        between = reading.words[left.last + 1 : right.first]
        gap = reading.gaps[right.first]
        is_prefix = reading.gaps[left.last + 1].startswith("- ") and between == ["and"]
        is_slash = not between and "/" in gap
        if is_prefix or is_slash or not OR.isdisjoint(between[:3]):
            dropped |= {place, place + 1}
    if not dropped:
        return events
    return [event for place, event in enumerate(events) if place not in dropped]
