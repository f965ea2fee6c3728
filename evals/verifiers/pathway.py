"""Check what an answer says of enrichment, mission by mission, against the table it stems from.

    NES         "NES -2.1 in RR-6" must be RR-6's score at the digits given; with no mission named it
                must lie within the range of the missions' scores, rounded outwards
    significance  "significant in RR-6", "padj = 0.01", "not significant": padj < 0.05 in the table
    votes       "significant in 2 of 3 missions (1 against)": both figures, and the one against

A signed score right behind a mission is its NES too ("RR-6 -2.1"). Only statements about the asked
gene set in the asked tissue count. A direction or score in a mission that never flew this tissue is
false; what the table does not hold of those that did is never a fault. The verdict does not hang on
any of this: a quantitative side statement that is false costs the pathway score (V2) alone.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evals.schema import DirectTruth, GroundTruth, MechanismTruth, UncertaintyTruth
from evals.verifiers.cues import SCORES
from evals.verifiers.direct import is_about
from evals.verifiers.direction import statements
from evals.verifiers.enrichment import Remark
from evals.verifiers.mission import mission_scores
from evals.verifiers.names import readable, same_tissue
from evals.verifiers.number import Number, agrees
from evals.verifiers.reading import Reading
from evals.verifiers.remark import remarks

UNNAMED = "one"
"""What a mission is called that an answer does not name ("some missions")."""
SIGNIFICANT = 0.05
"""The padj below which a gene set is significant in a mission."""


@dataclass(frozen=True, slots=True)
class Table:
    """What is known of one gene set in one tissue, by mission; None = not known.

    `direction` is the consensus, None where missions disagree.
    """

    name: str
    direction: str | None
    nes: dict[str, float | None]
    padj: dict[str, float | None]
    sides: dict[str, str | None]
    is_significant: dict[str, bool | None]


def enrichment_faults(truth: GroundTruth, reading: Reading, question: str) -> tuple[str, ...]:
    """Return in plain words every enrichment statement that is false; () where there is none."""
    table = _table(truth)
    if table is None or not isinstance(truth, DirectTruth | MechanismTruth | UncertaintyTruth):
        return ()
    found: list[str] = []
    if reading.cues & SCORES:
        for remark in remarks(reading, truth.pathway, truth.tissue):
            found += _of_remark(table, remark)
    for mission, number in mission_scores(reading, truth.pathway, truth.tissue):
        found += _of_remark(table, Remark("nes", (mission,), "", number))
    found += _of_directions(table, reading, truth.pathway, truth.tissue)
    return tuple(dict.fromkeys(found))


def _table(truth: GroundTruth) -> Table | None:
    """Return what the truth holds by mission, None if nothing."""
    if isinstance(truth, DirectTruth | MechanismTruth):
        if not truth.missions:
            return None
        nes = {mission: row.nes for mission, row in truth.missions.items()}
        padj = {mission: row.padj for mission, row in truth.missions.items()}
        return Table(
            f"{readable(truth.pathway)} in {truth.tissue}",
            truth.direction,
            dict(nes),
            padj,
            {mission: "UP" if score > 0 else "DOWN" for mission, score in nes.items()},
            {mission: None if p is None else p < SIGNIFICANT for mission, p in padj.items()},
        )
    if isinstance(truth, UncertaintyTruth):
        sides = {
            **dict.fromkeys(truth.missions_up, "UP"),
            **dict.fromkeys(truth.missions_down, "DOWN"),
            **dict.fromkeys(truth.missions_ns, None),
        }
        unknown = dict.fromkeys(sides)
        name = f"{readable(truth.pathway)} in {truth.tissue}"
        known = {mission: side is not None for mission, side in sides.items()}
        return Table(name, None, dict(unknown), dict(unknown), dict(sides), dict(known))
    return None


# ---- one statement --------------------------------------------------------------------------


def _of_remark(table: Table, remark: Remark) -> Iterator[str]:
    missions = [m for m in remark.missions if m in table.sides]
    if remark.missions and not missions:
        if remark.about == "nes":
            yield from _unflown(table, remark.missions)
        return
    where = f" in {', '.join(missions)}" if missions else ""
    if remark.about == "nes" and remark.number is not None:
        if not _nes_holds(table, missions, remark.number):
            yield f"{table.name}: NES {remark.number.says()} stated{where}, not so in the data"
    elif remark.about == "sign":
        if not _sign_holds(table, missions, remark.says):
            yield f"{table.name}: a {remark.says} NES stated{where}, not so in the data"
    elif remark.about in ("padj", "p") and remark.number is not None:
        if not _p_holds(table, missions, remark.about, remark.number):
            yield f"{table.name}: {remark.about} {remark.number.says()} stated{where}, not so"
    elif remark.about == "significance":
        if not _significance_holds(table, missions, remark.says == "yes"):
            said = "significant" if remark.says == "yes" else "not significant"
            yield f"{table.name}: {said} stated{where}, not so in the data"
    elif remark.about == "votes":
        yield from _of_votes(table, remark)


def _nes_holds(table: Table, missions: Sequence[str], number: Number) -> bool:
    """Say whether a score is that of every mission named, or within the range of all."""
    if missions:
        scores = [table.nes[mission] for mission in missions]
        if number.form == "bound" or number.low == number.high:
            return all(
                score is None and _side_holds(table.sides[mission], number) is not False
                if score is None
                else agrees(number, score)
                for mission, score in zip(missions, scores, strict=True)
            )
        return all(score is None or agrees(number, score) for score in scores)
    known = [score for score in table.nes.values() if score is not None]
    if not known:
        return True
    if number.form == "bound":
        return any(number.low <= score <= number.high for score in known)
    low = math.floor(min(known) / number.step + 1e-9) * number.step
    high = math.ceil(max(known) / number.step - 1e-9) * number.step
    return low - 1e-9 <= number.low and number.high <= high + 1e-9


def _side_holds(side: str | None, number: Number) -> bool | None:
    """Say whether the sign of a score fits the side a mission is on; None if there is no telling."""
    if side is None or number.low == 0.0:
        return None
    if number.form == "bound":
        return number.high > 0 if side == "UP" else number.low < 0
    return (number.low > 0) == (side == "UP")


def _sign_holds(table: Table, missions: Sequence[str], says: str) -> bool:
    side = "UP" if says == "positive" else "DOWN"
    if missions:
        return all(table.sides[mission] in (side, None) for mission in missions)
    return table.direction in (side, None)


def _p_holds(table: Table, missions: Sequence[str], about: str, number: Number) -> bool:
    """Say whether an adjusted p is right at the digits given; a plain p only on its side of 0.05."""
    values = [table.padj[mission] for mission in missions or _behind(table)]
    known = [value for value in values if value is not None]
    if not known:
        return _p_side_holds(table, missions, number)
    if about == "p":
        return _p_side_holds(table, missions, number)
    right = [_p_agrees(number, value) for value in known]
    return all(right) if missions else any(right) or _within(number, known)


def _p_agrees(number: Number, value: float) -> bool:
    if number.form == "bound":
        return value < number.high if number.high < math.inf else value >= number.low
    return agrees(number, value)


def _within(number: Number, known: Sequence[float]) -> bool:
    return number.form != "bound" and min(known) <= number.low <= max(known)


def _p_side_holds(table: Table, missions: Sequence[str], number: Number) -> bool:
    if number.high <= SIGNIFICANT:
        return _significance_holds(table, missions, is_said=True)
    if number.low >= SIGNIFICANT:
        return _significance_holds(table, missions, is_said=False)
    return True


def _behind(table: Table) -> list[str]:
    """Return the missions behind the consensus; all where there is none."""
    return [m for m, side in table.sides.items() if table.direction in (side, None)]


def _significance_holds(table: Table, missions: Sequence[str], is_said: bool) -> bool:
    """Say whether significance is right: in every mission named, else in one behind the consensus.

    Where no mission is named, "not significant" is said of the whole, so all of them must be so.
    """
    named = missions or _behind(table)
    known = [state for mission in named if (state := table.is_significant[mission]) is not None]
    if not known:
        return True
    if is_said:
        return all(known) if missions else any(known)
    return not any(known)


def _unflown(table: Table, missions: Sequence[str]) -> Iterator[str]:
    """Yield the missions that did not fly this tissue; a site of one that did will do."""
    for mission in missions:
        flown = any(
            one == mission or one.startswith(f"{mission}_") or mission.startswith(f"{one}_")
            for one in table.sides
        )
        if not flown and mission != UNNAMED:
            yield f"{table.name}: {mission} is no mission of these data"


# ---- counts of missions ---------------------------------------------------------------------


def _of_votes(table: Table, remark: Remark) -> Iterator[str]:
    total = len(table.sides)
    if remark.total is not None and remark.total != total:
        yield f"{table.name}: {remark.total} missions stated, {total} in the data"
        return
    count = total if remark.is_all else remark.count
    if count is not None and count > total:
        yield f"{table.name}: {count} missions stated, {total} in the data"
    elif remark.says and count is not None and count not in _counts(table, remark.says):
        yield f"{table.name}: {remark.says} in {count} of {total} missions, not so in the data"
    if remark.against is not None and remark.against not in _against(table):
        yield f"{table.name}: {remark.against} missions against, not so in the data"


def _counts(table: Table, says: str) -> set[int]:
    """Return the counts of missions that may be meant: by sign, by significance, or by both."""
    significant = {m for m, state in table.is_significant.items() if state is not False}
    if says == "significant":
        behind = significant & set(_behind(table))
        return {len(significant), len(behind)}
    if says == "not significant":
        return {sum(state is not True for state in table.is_significant.values())}
    side = {m for m, held in table.sides.items() if held in (says, None)}
    sure = {m for m, held in table.sides.items() if held == says}
    return {len(side), len(sure), len(sure & significant), len(side & significant)}


def _against(table: Table) -> set[int]:
    opposed = {m for m, side in table.sides.items() if side not in (table.direction, None)}
    significant = {m for m in opposed if table.is_significant[m] is not False}
    return {len(opposed), len(significant)} if table.direction else set(range(len(table.sides)))


# ---- directions of single missions ----------------------------------------------------------


def _of_directions(table: Table, reading: Reading, pathway: str, tissue: str) -> Iterator[str]:
    for stated in statements(reading):
        if not stated.missions or not is_about(stated, pathway, tissue):
            continue
        if not stated.is_negated and all(same_tissue(one, tissue) for one in stated.tissues):
            yield from _unflown(table, stated.missions)
        for mission in stated.missions:
            side = table.sides.get(mission)
            if stated.says == "UNCHANGED":
                is_false = table.is_significant.get(mission) is True and not stated.is_negated
            elif stated.is_negated:
                is_false = side == stated.says and table.is_significant.get(mission) is True
            else:
                is_false = side is not None and side != stated.says
            if is_false:
                said = f"not {stated.says}" if stated.is_negated else stated.says
                yield f"{table.name}: {said} stated for {mission}, {side or 'flat'} in the data"
