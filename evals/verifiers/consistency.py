"""Find where an answer contradicts itself, in what was asked and in what it says beside it.

    "Up in liver. … Liver goes down."                        two directions for one subject
    "The same in all tissues: up in liver, down in kidney."  agreement against the tissues listed
    "HU alone gives 165 DEGs in heart. … 33 DEGs."           two numbers for one quantity
    "Type A, because it is active without stress."           a class against its own reasoning
    "Yes, missions agree: they disagree."                    a reply against the sentence that follows

Truth plays no part but to tell what was asked: a false answer may be consistent.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from evals.schema import (
    ComparisonTruth,
    ConservationTruth,
    CountTruth,
    DirectTruth,
    GroundTruth,
    MechanismTruth,
    UncertaintyTruth,
)
from evals.verifiers.agreement import Agreement, agreements
from evals.verifiers.asked import asks_back, quoted_figure
from evals.verifiers.count import counts_of
from evals.verifiers.cues import AGREES, MOVES, SCORES
from evals.verifiers.direction import statements
from evals.verifiers.enrichment import Remark
from evals.verifiers.names import readable
from evals.verifiers.number import Number, agrees
from evals.verifiers.reading import Mark, Reading
from evals.verifiers.reasoning import unreasoned
from evals.verifiers.remark import remarks
from evals.verifiers.reply import reply_of
from evals.verifiers.statement import Statement
from evals.verifiers.subject import subject_of
from evals.verifiers.tally import impossible_numbers
from evals.verifiers.uncertainty import yes_or_no

SPACEFLIGHT = (DirectTruth, MechanismTruth, UncertaintyTruth, ComparisonTruth, ConservationTruth)
"""Kinds in which a gene set has one direction per tissue: nothing but flight was varied."""
WHOLE = frozenset(("all", "both", "every", "each", "throughout", "across"))


def self_contradictions(reading: Reading, truth: GroundTruth, question: str) -> tuple[str, ...]:
    """Return in plain words every place where an answer contradicts itself; () where there is none."""
    kinds = {kind for one in reading.sentences if one.cues & (MOVES | AGREES) for kind in one.kinds}
    found: list[str] = []
    if isinstance(truth, SPACEFLIGHT):
        stated = statements(reading) if "direction" in kinds else []
        told = agreements(reading) if kinds & {"agreement", "level"} else []
        found += _directions(stated, truth)
        found += _agreements(reading, told, truth)
        found += _lists(reading, told, stated, truth)
        found += _votes(reading, truth)
        found += _reply(reading, told, question)
    else:
        found += unreasoned(reading)
        found += impossible_numbers(reading)
        found += _figure(reading, truth, question)
    return tuple(dict.fromkeys(found))


# ---- directions -----------------------------------------------------------------------------


def _directions(stated: Sequence[Statement], truth: GroundTruth) -> Iterator[str]:
    """Yield each gene set, tissue and mission of which two directions are asserted."""
    says: dict[tuple[str, str, str], set[str]] = {}
    denies: dict[tuple[str, str, str], set[str]] = {}
    for one in stated:
        held = denies if one.is_negated else says
        for tissue in one.tissues or (_tissue(truth),):
            for mission in one.missions or ("",):
                if mission != "one":
                    key = (one.pathway or _pathway(truth), tissue, mission)
                    held.setdefault(key, set()).add(one.says)
    for key, directions in says.items():
        if len(directions) > 1:
            yield f"{_named(*key)}: both {' and '.join(sorted(directions))}"
        elif denied := directions & denies.get(key, set()):
            yield f"{_named(*key)}: {denied.pop()} asserted and denied"


def _named(pathway: str, tissue: str, mission: str) -> str:
    place = " in ".join(part for part in (readable(pathway) if pathway else "", tissue) if part)
    return f"{place} ({mission})" if mission else place or "what is asked"


def _pathway(truth: GroundTruth) -> str:
    if isinstance(truth, DirectTruth | MechanismTruth | UncertaintyTruth | ComparisonTruth):
        return truth.pathway
    return ""


def _tissue(truth: GroundTruth) -> str:
    if isinstance(truth, DirectTruth | MechanismTruth | UncertaintyTruth | ConservationTruth):
        return truth.tissue
    return ""


# ---- agreement ------------------------------------------------------------------------------


def _axis(agreement: Agreement, truth: GroundTruth) -> str:
    """Return what an agreement compares; unsaid, it is what the question compares."""
    return agreement.axis or ("tissues" if isinstance(truth, ComparisonTruth) else "missions")


def _agreements(reading: Reading, told: Sequence[Agreement], truth: GroundTruth) -> Iterator[str]:
    """Yield each axis along which things are said to agree and to differ."""
    held: dict[tuple[str, tuple[str, ...], tuple[str, ...]], set[str]] = {}
    for one in told:
        if not _is_partial(reading, one):
            pathways = one.pathways or (_pathway(truth),)
            tissues = () if _axis(one, truth) == "tissues" else one.tissues or (_tissue(truth),)
            held.setdefault((_axis(one, truth), pathways, tissues), set()).add(one.says)
    for (axis, _, _), says in held.items():
        if len(says) > 1:
            yield f"{axis} are said to agree and to differ"


def _is_partial(reading: Reading, agreement: Agreement) -> bool:
    """Say whether an agreement is of some only: "two of three agree", "all but RR-6 agree"."""
    for sentence in reading.sentences:
        if sentence.first <= agreement.first <= sentence.last:
            place = bisect_right(sentence.starts, agreement.first)
            first = sentence.starts[place - 1]
            until = [*sentence.starts, sentence.last + 1][place]
            return any(_is_part(reading, m) for m in sentence.marks if first <= m.first < until)
    return False


def _is_part(reading: Reading, mark: Mark) -> bool:
    if mark.kind == "majority":
        return reading.words[mark.first] not in WHOLE
    return mark.kind == "mission"


def _lists(
    reading: Reading, told: Sequence[Agreement], stated: Sequence[Statement], truth: GroundTruth
) -> Iterator[str]:
    """Yield where "the same" or "differs" is belied by the tissues or missions that are listed."""
    asserted = [s for s in stated if not s.is_negated and s.says in ("UP", "DOWN")]
    ours = [s for s in asserted if (s.pathway or _pathway(truth)) == _pathway(truth)]
    sides = {"tissues": _by_tissue(ours), "missions": _by_mission(ours, _tissue(truth))}
    everything = {"tissues": _tissues_of(truth), "missions": _missions_of(truth)}
    general = {s.says for s in ours if not s.missions and not s.tissues}
    for one in told:
        axis = _axis(one, truth)
        listed = sides.get(axis, {})
        ways = set().union(*listed.values()) if listed else set()
        if axis == "missions" and listed and one.says == "SAME" and len(ways | general) > 1:
            listed, ways = {**listed, "": general}, ways | general
        if one.pathways and _pathway(truth) not in one.pathways:
            continue
        if one.says == "SAME" and len(listed) > 1 and len(ways) > 1:
            if not _is_partial(reading, one) or axis == "tissues":
                yield f"{axis} are said to agree, but those listed differ"
        elif one.says == "DIFFER" and len(ways) == 1:
            asked = everything.get(axis, frozenset())
            if len(asked) > 1 and asked <= set(listed):
                yield f"{axis} are said to differ, but those listed all go the same way"


def _by_tissue(stated: Sequence[Statement]) -> dict[str, set[str]]:
    sides: dict[str, set[str]] = {}
    for one in stated:
        if not one.missions:
            for tissue in one.tissues:
                sides.setdefault(tissue, set()).add(one.says)
    return sides


def _by_mission(stated: Sequence[Statement], tissue: str) -> dict[str, set[str]]:
    sides: dict[str, set[str]] = {}
    for one in stated:
        if not one.tissues or tissue in one.tissues:
            for mission in one.missions:
                sides.setdefault(mission, set()).add(one.says)
    return sides


def _tissues_of(truth: GroundTruth) -> frozenset[str]:
    return frozenset(truth.tissue_directions) if isinstance(truth, ComparisonTruth) else frozenset()


def _missions_of(truth: GroundTruth) -> frozenset[str]:
    if isinstance(truth, UncertaintyTruth):
        return frozenset((*truth.missions_up, *truth.missions_down))
    if isinstance(truth, DirectTruth | MechanismTruth):
        return frozenset(truth.missions)
    return frozenset()


# ---- yes and no -----------------------------------------------------------------------------


def _reply(reading: Reading, told: Sequence[Agreement], question: str) -> Iterator[str]:
    """Yield a yes or no on whether things agree that the rest of the answer belies."""
    if not told or not asks_back(question):
        return
    replied = yes_or_no(reading, question)
    says = {one.says for one in told if not _is_partial(reading, one)}
    if replied and says and replied.isdisjoint(says):
        yield "a yes or no against what follows it"


def _figure(reading: Reading, truth: GroundTruth, question: str) -> Iterator[str]:
    """Yield a yes or no to a quoted figure that the figure given belies."""
    quoted, reply = quoted_figure(question), reply_of(reading)
    if quoted is None or reply is None or not isinstance(truth, CountTruth):
        return
    counts = counts_of(reading, question, subject_of(truth.subject))
    given = {c.number.low for c in counts if c.is_ours and not c.is_denied}
    if given and (quoted in given) != reply.is_yes:
        yield f"{'yes' if reply.is_yes else 'no'} to {quoted:.0f}, then {min(given):.0f}"


# ---- votes ----------------------------------------------------------------------------------


def _votes(reading: Reading, truth: GroundTruth) -> Iterator[str]:
    """Yield counts of missions that cannot be: "3 of 3 (1 against)"."""
    if not isinstance(truth, DirectTruth | MechanismTruth | UncertaintyTruth):
        return
    if not reading.cues & SCORES:
        return
    tallies: dict[str, set[int]] = {}
    scores: dict[str, Number] = {}
    for remark in remarks(reading, truth.pathway, truth.tissue):
        if remark.about == "nes" and remark.number is not None and len(remark.missions) == 1:
            earlier = scores.setdefault(remark.missions[0], remark.number)
            if not (agrees(earlier, remark.number.low) or agrees(remark.number, earlier.low)):
                yield f"two scores for {remark.missions[0]}"
        if remark.about == "votes" and remark.says:
            tallies.setdefault(remark.says, set()).add(_tally(remark, truth))
        if remark.about != "votes" or remark.total is None:
            continue
        count = remark.total if remark.is_all else remark.count or 0
        if count + (remark.against or 0) > remark.total:
            against = f" and {remark.against} against" if remark.against else ""
            yield f"{count}{against} of {remark.total} missions"
    for says, counts in tallies.items():
        if len(counts) > 1:
            yield f"{says} in {' and in '.join(map(str, sorted(counts)))} missions"


def _tally(remark: Remark, truth: DirectTruth | MechanismTruth | UncertaintyTruth) -> int:
    """Return how many missions a vote counts; all of them where it says so."""
    if not remark.is_all:
        return remark.count or 0
    return remark.total or len(_missions_of(truth))
