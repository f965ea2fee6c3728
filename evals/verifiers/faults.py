"""False figures and missions in an explanation (V2). What an explanation leaves out costs nothing.

    "significant in 2 of 6 missions"     the tissue was flown on 3
    "down in RR-1 and RR-6"              RR-1 never flew it, or says something else
    "NES -1.5 in RR-6"                   the table says -3.05
    "mean correlation 0.31"              the table says 0.62

Figures of the asked gene set in the asked tissue are checked; a sentence that names another tissue, or
denies ("not in RR-1"), is left alone.
"""

import re
from collections.abc import Iterator
from functools import cache

from evals.facts import load_enrichment
from evals.schema import ConservationTruth, DirectTruth, GroundTruth, MechanismTruth, UncertaintyTruth
from evals.verifiers.numbers import WORDS

MISSION = re.compile(r"\b(?:RR|MHU|SLS|STS|BION)-?\s?\d+(?:[ _](?:dorsal|femoral))?\b", re.IGNORECASE)
SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+")
DENIED = re.compile(r"\b(?:not|no|unlike|except|without|never|neither|nor|did not|didn't)\b[^,;.]*$", re.IGNORECASE)
UP = re.compile(r"\b(?:up(?!-to)|upregulat\w*|up-regulat\w*|higher|increas\w*|activat\w*|raised|rises?|elevat\w*|positive)\b", re.I)
DOWN = re.compile(
    r"\b(?:down|downregulat\w*|down-regulat\w*|lower|decreas\w*|suppress\w*|reduc\w*|falls?|negative|repress\w*)\b", re.I
)
NUMBER = r"[-−–+]?\d+(?:\.\d+)?"
NES = re.compile(rf"\b(?:NES|enrichment score)s?\b\D{{0,12}}({NUMBER})", re.IGNORECASE)
SCORED = re.compile(rf"[ (:=]{{1,4}}([-−–+]\d+(?:\.\d+)?)(?!\s*(?:log|fold|%))", re.IGNORECASE)
COUNTED = re.compile(
    r"\b(\d+|" + "|".join(word for word in WORDS if word != "none") + r")\s+(?:of|out of)\s+(?:the\s+)?(\d+|"
    + "|".join(word for word in WORDS if word != "none") + r")\s+missions\b",
    re.IGNORECASE,
)
AGAINST = re.compile(r"\((\d+) against\)", re.IGNORECASE)
CORRELATION = re.compile(rf"\b(?:correlation|\br)\b[^.;\d]{{0,40}}({NUMBER})", re.IGNORECASE)


def false_figures(truth: GroundTruth, explanation: str) -> tuple[str, ...]:
    """Return in plain words each figure or mission of an explanation that the table belies."""
    if not any(char.isdigit() for char in explanation) and "mission" not in explanation:
        return ()
    if isinstance(truth, ConservationTruth):
        return tuple(_correlations(truth, explanation))
    if not isinstance(truth, DirectTruth | MechanismTruth | UncertaintyTruth):
        return ()
    return tuple(dict.fromkeys(_of_missions(truth, explanation)))


def _of_missions(truth: DirectTruth | MechanismTruth | UncertaintyTruth, text: str) -> Iterator[str]:
    sides, scores = _sides(truth)
    if not sides:
        return
    for sentence in SENTENCE.split(text):
        if _names_other_tissue(sentence, truth.tissue):
            continue
        yield from _counts(truth, sides, sentence)
        for found in MISSION.finditer(sentence):
            name = _mission(found[0])
            before, after = sentence[: found.start()], sentence[found.end() :]
            if DENIED.search(before):
                continue
            if name not in sides:
                yield f"{found[0]} did not fly {truth.tissue}"
                continue
            said, side = _said(before), sides[name]
            if said is not None and side is not None and said != side:
                yield f"{found[0]} says {side.lower()}, not {said.lower()}"
            score = SCORED.match(after) or (NES.search(before[-24:]) if not MISSION.search(before[-24:]) else None)
            if score and name in scores and not _fits(score[1], scores[name]):
                yield f"the score in {found[0]} is {scores[name]:.2f}, not {score[1]}"
        if not MISSION.search(sentence) and scores and (score := NES.search(sentence)):
            value = _value(score[1])
            if not min(scores.values()) - 0.05 <= value <= max(scores.values()) + 0.05:
                yield f"no mission has a score of {score[1]}"


def _counts(
    truth: DirectTruth | MechanismTruth | UncertaintyTruth, sides: dict[str, str | None], sentence: str
) -> Iterator[str]:
    """Yield what is false in "significant in 2 of 3 missions (1 against)"."""
    significant = dict(sides)
    if not isinstance(truth, UncertaintyTruth):
        rows = truth.missions.items()
        significant = {_mission(m): sides[_mission(m)] if row.padj is not None and row.padj < 0.05 else None for m, row in rows}
    for found in COUNTED.finditer(sentence):
        n, total = _count(found[1]), _count(found[2])
        if total != len(sides):
            yield f"{len(sides)} missions flew {truth.tissue}, not {total}"
            continue
        ways = list(significant.values())
        allowed = {ways.count("UP"), ways.count("DOWN"), len(ways) - ways.count(None), ways.count(None)}
        if not isinstance(truth, UncertaintyTruth):
            allowed = {ways.count(truth.direction), len(ways) - ways.count(None)}
            if "significant" not in sentence.lower():
                allowed.add(list(sides.values()).count(truth.direction))
        if n not in allowed:
            yield f"{found[0]} is not what the table says"
        against = AGAINST.search(sentence)
        if against and not isinstance(truth, UncertaintyTruth):
            opposed = len(ways) - ways.count(None) - ways.count(truth.direction)
            if int(against[1]) != opposed:
                yield f"{opposed} missions are against, not {against[1]}"


def _correlations(truth: ConservationTruth, text: str) -> Iterator[str]:
    for found in CORRELATION.finditer(text):
        if not _fits(found[1], truth.nes_mean_r):
            yield f"the mean correlation is {truth.nes_mean_r:.3f}, not {found[1]}"


def _sides(
    truth: DirectTruth | MechanismTruth | UncertaintyTruth,
) -> tuple[dict[str, str | None], dict[str, float]]:
    """Return each mission's direction (None = not significant, so not checked) and its score where known."""
    if isinstance(truth, UncertaintyTruth):
        up = dict.fromkeys(map(_mission, truth.missions_up), "UP")
        down = dict.fromkeys(map(_mission, truth.missions_down), "DOWN")
        return {**up, **down, **dict.fromkeys(map(_mission, truth.missions_ns))}, {}
    scores = {name: row.nes for name, row in truth.missions.items()}
    return (
        {_mission(name): "UP" if nes > 0 else "DOWN" for name, nes in scores.items()},
        {_mission(name): nes for name, nes in scores.items()},
    )


def _said(before: str) -> str | None:
    """Return the direction word that stands last before a mission, None where there is none."""
    ups, downs = [m.start() for m in UP.finditer(before)], [m.start() for m in DOWN.finditer(before)]
    last = max([*ups, *downs], default=None)
    return None if last is None else "UP" if last in ups else "DOWN"


def _mission(name: str) -> str:
    return re.sub(r"[\s_-]+", "", name).upper()


def _value(text: str) -> float:
    return float(text.replace("−", "-").replace("–", "-"))


def _fits(stated: str, true: float) -> bool:
    """Return whether the true value rounds to the stated one at the digits given."""
    decimals = len(stated.partition(".")[2])
    return abs(_value(stated) - true) <= 0.5 * 10.0**-decimals + 1e-9


def _count(text: str) -> int:
    return int(text) if text.isdigit() else int(WORDS[text.lower()])


def _names_other_tissue(sentence: str, tissue: str) -> bool:
    named = {found[0].lower() for found in _tissues().finditer(sentence)}
    return bool(named - {tissue}) and tissue not in named


@cache
def _tissues() -> re.Pattern[str]:
    known = sorted({row.tissue for row in load_enrichment()} | {"heart", "soleus", "hippocampus", "spleen", "brain", "lung"})
    return re.compile(rf"\b(?:{'|'.join(known)})\b", re.IGNORECASE)
