"""False figures and missions in an explanation (V2). What an explanation leaves out costs nothing.

    "significant in 2 of 6 missions"     the tissue was flown on 3
    "down in RR-1 and RR-6"              RR-1 never flew it, or says something else
    "the NES of RR-6 was -1.5"           the table says -3.05
    "significant in MHU-2", "padj 0.001" its adjusted p is 0.26
    "mean correlation 0.31"              the table says 0.62

Figures of the asked gene set in the asked tissue are checked; a sentence that names another tissue, or
denies ("not in RR-1"), is left alone.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from typing import NamedTuple

from evals.facts import load_enrichment
from evals.schema import ConservationTruth, DirectTruth, GroundTruth, MechanismTruth, UncertaintyTruth
from evals.verifiers.expected import cache_by_truth, pattern
from evals.verifiers.numbers import WORDS

SIGNIFICANT = 0.05  # the padj below which a gene set counts in a mission
MISSION = re.compile(r"\b(?:RR|MHU|SLS|STS|BION)-?\s?\d+(?:[ _](?:dorsal|femoral))?\b", re.IGNORECASE)
SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+")
DENIED = re.compile(r"\b(?:not|no|unlike|except|without|never|neither|nor|did not|didn't)\b[^,;.]*$", re.IGNORECASE)
UP = pattern("rises")
DOWN = pattern("falls")
NUMBER = r"[-−–+]?\d+(?:\.\d+)?(?:[eE][-−+]?\d+)?"
NES = re.compile(rf"\b(?:NES|enrichment score)s?\b[^\d;]{{0,40}}?({NUMBER})", re.IGNORECASE)
PADJ = re.compile(
    rf"\b(?:padj|p|q|FDR|adjusted p)(?:[- ]?(?:values?|adj|adjusted))?\b(?P<words>[^\d;]{{0,20}}?)(?P<value>{NUMBER})",
    re.IGNORECASE,
)
NES_BEFORE = re.compile(rf"\b(?:NES|enrichment score)s?\b[^\d\w]{{0,6}}?({NUMBER})\s+(?:in|for|of)\s*$", re.IGNORECASE)
SCORED = re.compile(r"[ (:=]{1,4}([-−–+]\d+(?:\.\d+)?)(?!\s*(?:log|fold|%))", re.IGNORECASE)
COUNT = rf"(\d+|{'|'.join(word for word in WORDS if word != 'none')})"
COUNTED = re.compile(rf"\b{COUNT}\s+(?:of|out of)\s+(?:the\s+)?{COUNT}\s+missions\b", re.IGNORECASE)
TRIGGER = re.compile(r"missions?\b|(?:rr|mhu|sls|sts|bion)-?\s?\d|nes(?<!\wnes)\b|score|correlation\b|r(?<!\wr)\b")
"""A text without any of these, in lower case, states no figure that is checked."""
AGAINST = re.compile(r"\((\d+) against\)", re.IGNORECASE)
CORRELATION = re.compile(rf"\b(?:correlation|\br)\b[^.;\d]{{0,40}}?({NUMBER})", re.IGNORECASE)


def false_figures(truth: GroundTruth, explanation: str) -> tuple[str, ...]:
    """Return in plain words each figure or mission of an explanation that the table belies."""
    if not TRIGGER.search(explanation.lower()):
        return ()
    if isinstance(truth, ConservationTruth):
        r = truth.nes_mean_r
        stated = [found[1] for found in CORRELATION.finditer(explanation) if not _fits(found[1], r)]
        return tuple(f"the mean correlation is {r:.3f}, not {each}" for each in stated)
    table = _table(truth)
    return tuple(dict.fromkeys(_of_missions(table, explanation))) if table else ()


class SetFigures(NamedTuple):
    """What is known of a gene set in a tissue, by mission.

    `sides` is the sign of the score (None = not checked), `counted` the direction where it is significant.
    """

    tissue: str
    direction: str | None
    sides: Mapping[str, str | None]
    counted: Mapping[str, str | None]
    scores: Mapping[str, float]
    padj: Mapping[str, float | None]


@cache_by_truth
def _table(truth: GroundTruth) -> SetFigures | None:
    if isinstance(truth, UncertaintyTruth):
        sides: dict[str, str | None] = {
            **dict.fromkeys(map(_mission, truth.missions_up), "UP"),
            **dict.fromkeys(map(_mission, truth.missions_down), "DOWN"),
            **dict.fromkeys(map(_mission, truth.missions_ns)),
        }
        return SetFigures(truth.tissue, None, sides, sides, {}, {})
    if not isinstance(truth, DirectTruth | MechanismTruth) or not truth.missions:
        return None
    rows = {_mission(name): row for name, row in truth.missions.items()}
    sides = {name: "UP" if row.nes > 0 else "DOWN" for name, row in rows.items()}
    found = {name: row.padj is not None and row.padj < SIGNIFICANT for name, row in rows.items()}
    counted = {name: side if found[name] else None for name, side in sides.items()}
    scores = {name: row.nes for name, row in rows.items()}
    padj = {name: row.padj for name, row in rows.items()}
    return SetFigures(truth.tissue, truth.direction, sides, counted, scores, padj)


def _of_missions(table: SetFigures, text: str) -> Iterator[str]:
    for sentence in SENTENCE.split(text):
        tissues = {found[0].lower() for found in _tissues().finditer(sentence)}
        if tissues and table.tissue not in tissues:
            continue
        yield from _counts(table, sentence)
        named = list(MISSION.finditer(sentence))
        for found in named:
            yield from _of_mission(table, sentence, found)
        if len({_mission(found[0]) for found in named}) == 1:
            yield from _of_only(table, MISSION.sub(lambda found: "#" * len(found[0]), sentence), _mission(named[0][0]))
        if not named and table.scores and (score := NES.search(sentence)):
            low, high = min(table.scores.values()), max(table.scores.values())
            if not low - 0.05 <= _value(score[1]) <= high + 0.05:
                yield f"no mission has a score of {score[1]}"


def _of_mission(table: SetFigures, sentence: str, found: re.Match[str]) -> Iterator[str]:
    name, before, after = _mission(found[0]), sentence[: found.start()], sentence[found.end() :]
    if DENIED.search(before) and not pattern("significantly").search(before):
        return
    if name not in table.sides:
        yield f"{found[0]} did not fly {table.tissue}"
        return
    said, side = _last_direction(before), table.sides[name]
    if said is not None and side is not None and said != side:
        yield f"{found[0]} says {side.lower()}, not {said.lower()}"
    if (way := pattern("significantly").search(before)) and name in table.counted and (table.scores or side is None):
        is_counted = table.counted[name] is not None
        if is_counted == bool(way["not"]):
            yield f"{found[0]} is {'' if is_counted else 'not '}significant"
    score = SCORED.match(after) or NES_BEFORE.search(before[-30:])
    if score and name in table.scores and not _fits(score[1], table.scores[name]):
        yield f"the score in {found[0]} is {table.scores[name]:.2f}, not {score[1]}"


def _of_only(table: SetFigures, sentence: str, name: str) -> Iterator[str]:
    """Yield the false scores and p-values of a sentence about one mission, whose name is blanked in it."""
    for score in NES.finditer(sentence) if name in table.scores else ():
        if not _fits(score[1], table.scores[name]):
            yield f"the score in {name} is {table.scores[name]:.2f}, not {score[1]}"
    true = table.padj.get(name)
    if true is None:
        return
    for stated in PADJ.finditer(sentence):
        value, words = _value(stated["value"]), stated["words"].lower()
        if "<" in words or "below" in words:
            is_true = true < value
        elif ">" in words or "above" in words:
            is_true = true > value
        else:
            is_true = _fits(stated["value"], true) or abs(value - true) < 0.1 * true
        if not is_true:
            yield f"the adjusted p in {name} is {true:.3g}, not {stated['value']}"


def _counts(table: SetFigures, sentence: str) -> Iterator[str]:
    """Yield what is false in "significant in 2 of 3 missions (1 against)"."""
    ways = list(table.counted.values())
    significant = len(ways) - ways.count(None)
    for every in pattern("all_missions").finditer(sentence):
        n = WORDS.get((every["n"] or "").lower(), every["n"])
        if DENIED.search(sentence[: every.start()]) or not (n is None or str(n).replace(".0", "").isdigit()):
            continue
        if n is not None and int(n) != len(ways):
            yield f"{len(ways)} missions flew {table.tissue}, not {int(n)}"
            continue
        start = max(map(sentence.rfind, (",", ";", " but "), (0,) * 3, (every.start(),) * 3)) + 1
        clause = re.split(r"[,;]|\bbut\b", sentence[start:])[0]
        if "significan" in clause.lower():
            if None in ways or (table.direction and set(ways) != {table.direction}):
                yield f"{every[0]} is not what the table says"
        elif table.direction and _last_direction(clause) and set(table.sides.values()) != {table.direction}:
            yield f"{every[0]} is not what the table says"
    for found in COUNTED.finditer(sentence):
        n, total = (int(WORDS.get(each.lower(), each)) for each in found.groups())
        if total != len(ways):
            yield f"{len(ways)} missions flew {table.tissue}, not {total}"
            continue
        if table.direction is None:
            allowed = {ways.count("UP"), ways.count("DOWN"), significant, ways.count(None)}
        else:
            allowed = {ways.count(table.direction), significant}
            if "significant" not in sentence.lower():
                allowed.add(list(table.sides.values()).count(table.direction))
        if n not in allowed:
            yield f"{found[0]} is not what the table says"
        against = AGAINST.search(sentence)
        opposed = significant - ways.count(table.direction)
        if against and table.direction is not None and int(against[1]) != opposed:
            yield f"{opposed} missions are against, not {against[1]}"


def _last_direction(before: str) -> str | None:
    """Return the direction word that stands last before a mission, None where there is none."""
    ups, downs = ([found.start() for found in way.finditer(before)] for way in (UP, DOWN))
    if not ups and not downs:
        return None
    return "UP" if max(ups, default=-1) >= max(downs, default=-1) else "DOWN"


@lru_cache(maxsize=1024)
def _mission(name: str) -> str:
    return re.sub(r"[\s_-]+", "", name).upper()


def _value(text: str) -> float:
    return float(text.replace("−", "-").replace("–", "-"))


def _fits(stated: str, true: float) -> bool:
    """Return whether the true value rounds to the stated one at the digits given."""
    digits, _, tens = stated.lower().partition("e")
    step = 10.0 ** (int(tens.replace("−", "-") or 0) - len(digits.partition(".")[2]))
    return abs(_value(stated) - true) <= 0.5 * step * (1 + 1e-6)


@cache
def _tissues() -> re.Pattern[str]:
    known = sorted(
        {row.tissue for row in load_enrichment()} | {"heart", "soleus", "hippocampus", "spleen", "brain", "lung"}
    )
    return re.compile(rf"\b(?:{'|'.join(known)})\b", re.IGNORECASE)
