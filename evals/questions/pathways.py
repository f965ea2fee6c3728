"""Questions on Hallmark gene sets in spaceflown mice, from what the missions of each tissue say.

A mission says UP or DOWN of a set at padj < 0.05. Consensus: two missions or more one way, and more than the
other way. Disagreement: at least one each way. Beside them there are questions that nothing else taught answers:
`lone_missions` asks for the finding of the only mission of a tissue that says anything of a set; there is neither
consensus nor dispute, about as many go up as down, so it is a question not to be sure of. What a set stands for
can be known all the same. The sentences are in wording.toml; held-out tissues stand in no training row.
"""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from evals.errors import BadConfig
from evals.facts import EnrichmentRow, load_conservation, load_enrichment, load_hallmark
from evals.io import group_by, sha256_of_text
from evals.questions.prompt import SURE, with_answer
from evals.schema import (
    ComparisonTruth,
    ConservationTruth,
    Direction,
    DirectTruth,
    Enrichment,
    Example,
    GroundTruth,
    MechanismTruth,
    UncertaintyTruth,
)
from evals.verifiers.expected import DIFFERENT, SAME, terms

COMPARED = ("liver", "gastrocnemius", "kidney", "thymus", "eye")
"""Tissues that comparisons range over; skin is left out because it is sampled at two sites."""
HELD_OUT = ("eye", "thymus")
MEANINGS_EACH = 2
"""Questions on what each gene set stands for, with different wordings."""


@dataclass(frozen=True)
class Votes:
    """What the missions of one tissue say about one gene set, missions sorted by name."""

    tissue: str
    pathway: str
    rows: tuple[EnrichmentRow, ...]

    @property
    def cluster(self) -> str:
        """Questions about the same set in the same tissue are not independent."""
        return f"{self.tissue}/{self.pathway}"

    @property
    def consensus(self) -> Direction | None:
        up, down = len(self.missions("UP")), len(self.missions("DOWN"))
        if up >= 2 and up > down:
            return "UP"
        return "DOWN" if down >= 2 and down > up else None

    def missions(self, direction: Direction | None) -> tuple[str, ...]:
        """Return the missions that say `direction`; None = those that are not significant."""
        return tuple(row.mission for row in self.rows if row.direction == direction)


@cache
def all_votes() -> tuple[Votes, ...]:
    """Return the votes on every gene set of every tissue, in table order."""
    grouped = group_by(load_enrichment(), lambda row: (row.tissue, row.pathway))
    return tuple(Votes(*key, tuple(sorted(rows, key=lambda row: row.mission))) for key, rows in grouped.items())


def succession(agreeing: int, total: int) -> int:
    """Return Laplace's rule of succession, (agreeing + 1) / (total + 2), as percent in steps of 5.

    After `agreeing` of `total` missions said so, this is the probability that the next one does, starting from even
    odds (Laplace, Essai philosophique sur les probabilites, 1814). Halves round up: 2 of 6 -> 3/8 = 37.5 % -> 40.
    """
    numerator, denominator = 20 * (agreeing + 1), total + 2
    return 5 * ((2 * numerator + denominator) // (2 * denominator))


# ---- data sets ---------------------------------------------------------------------------------


def pathway_training(held_out: Sequence[str] = HELD_OUT) -> tuple[Example, ...]:
    """Return the questions that name no held-out tissue, in table order.

    BadConfig when `held_out` names a tissue that the table does not have.
    """
    excluded = _check_tissues(held_out)
    return tuple(
        row for row in _bank() if not excluded & {row.tissue, *getattr(row.ground_truth, "tissue_directions", ())}
    )


def pathway_heldout(held_out: Sequence[str] = HELD_OUT) -> tuple[Example, ...]:
    """Return the questions about held-out tissues, in table order; comparisons, of several tissues, are not among them."""
    excluded = _check_tissues(held_out)
    return tuple(row.model_copy(update={"split": "test"}) for row in _bank() if row.tissue in excluded)


def pathway_halves(examples: Iterable[Example]) -> tuple[tuple[Example, ...], tuple[Example, ...]]:
    """Return the examples in two halves, no cluster in both: one for SFT, one for GRPO.

    Clusters are dealt in turn within groups of equal kinds and direction, so both halves get
    their share of each. The same examples always give the same halves.
    """
    clusters = group_by(examples, lambda each: each.cluster)

    def stratum(name: str) -> tuple[str, str, str]:
        truths = [row.ground_truth for row in clusters[name]]
        directions = {truth.direction for truth in truths if isinstance(truth, DirectTruth)}
        kinds = {row.kind for row in clusters[name]}
        return ",".join(sorted(kinds)), ",".join(sorted(directions)), sha256_of_text(name)

    dealt = sorted(clusters, key=stratum)
    first, second = (tuple(row for name in half for row in clusters[name]) for half in (dealt[::2], dealt[1::2]))
    return first, second


def set_meanings() -> tuple[Example, ...]:
    """Return two questions on what each Hallmark set stands for, in table order."""
    return tuple(_meaning(name, place) for name in load_hallmark() for place in range(MEANINGS_EACH))


def lone_missions() -> tuple[Example, ...]:
    """Return one question per set and tissue that a single mission found to move, in table order."""
    return tuple(_lone_mission(vote, row, "mission") for vote, row in _findings())


def lone_missions_parted() -> tuple[Example, ...]:
    """Return one question per such finding, in table order: which way for one half, else what it means.

    A question about what a finding means gives its direction away, so no finding is asked both ways. The
    halves are dealt in turn within each direction, by a checksum of tissue and set.
    """
    dealt = sorted(_findings(), key=lambda found: (found[1].direction or "", sha256_of_text(found[0].cluster)))
    directions = {vote.cluster for vote, _ in dealt[::2]}
    return tuple(
        _lone_mission(vote, row, "mission" if vote.cluster in directions else "mission-mechanism")
        for vote, row in _findings()
    )


# ---- from votes to questions -------------------------------------------------------------------


@cache
def _bank() -> tuple[Example, ...]:
    """Return every pathway question: by tissue, then comparisons, then conservation."""
    rows: list[Example] = []
    for tissue in dict.fromkeys(vote.tissue for vote in all_votes()):
        here = [vote for vote in all_votes() if vote.tissue == tissue]
        for vote in here:
            if vote.consensus:
                rows += (_consensus(vote, vote.consensus, asked) for asked in ("direct", "mechanism"))
        rows += [_disagreement(vote) for vote in here if vote.missions("UP") and vote.missions("DOWN")]
    agreed: dict[str, dict[str, Votes]] = {}
    for vote in all_votes():
        if vote.consensus and vote.tissue in COMPARED:
            agreed.setdefault(vote.pathway, {})[vote.tissue] = vote
    rows += [_comparison(pathway, agreed[pathway]) for pathway in sorted(agreed) if len(agreed[pathway]) >= 2]
    return (*rows, *map(_conservation, load_conservation()))


def _consensus(vote: Votes, direction: Direction, asked: str) -> Example:
    agreeing, opposing = (len(vote.missions(way)) for way in (direction, "DOWN" if direction == "UP" else "UP"))
    support = f"significant in {agreeing} of {len(vote.rows)} missions" + (f" ({opposing} against)" if opposing else "")
    level, fact = succession(agreeing, len(vote.rows)), f"direction/{vote.cluster}"
    return _direction_question(
        vote, vote.rows, direction, asked, level, fact, f"{asked}/{vote.cluster}", support=support
    )


def _direction_question(
    vote: Votes,
    rows: Sequence[EnrichmentRow],
    direction: Direction,
    asked: str,
    level: int,
    fact: str,
    id: str,
    **words: str,
) -> Example:
    """Return a question after the direction of a set in a tissue, or after what it means, as these rows show it."""
    truth_of, row = MechanismTruth if asked.endswith("mechanism") else DirectTruth, load_hallmark()[vote.pathway]
    scores = {each.mission: Enrichment(nes=each.nes, padj=each.padj) for each in rows}
    truth = truth_of(tissue=vote.tissue, pathway=vote.pathway, direction=direction, missions=scores)
    words |= {"tissue": vote.tissue, "name": row.name, "about": row.about, **_sentences()["words"][direction]}
    said = row.about if truth.kind == "mechanism" else direction.lower()
    support = [f"nes/{vote.tissue}/{each.mission}/{vote.pathway}" for each in rows]
    text = _choose_wordings(asked, vote.cluster, **words)
    return _example(truth, text, said, level, fact, support, vote.cluster, vote.tissue, id=id)


def _disagreement(vote: Votes) -> Example:
    """Its level counts pairs of missions that oppose each other, each one a case of disagreement."""
    up, down = vote.missions("UP"), vote.missions("DOWN")
    truth = UncertaintyTruth(
        tissue=vote.tissue, pathway=vote.pathway, missions_up=up, missions_down=down, missions_ns=vote.missions(None)
    )
    ways = {
        "up": comma_list([mission_name(each) for each in up]),
        "down": comma_list([mission_name(each) for each in down]),
    }
    text = _choose_wordings(
        "uncertainty", vote.cluster, tissue=vote.tissue, name=load_hallmark()[vote.pathway].name, **ways
    )
    level = succession(len(up) * len(down), len(up) * len(down))
    support = [f"nes/{vote.tissue}/{row.mission}/{vote.pathway}" for row in vote.rows]
    fact = f"agreement/{vote.cluster}"
    return _example(truth, text, "missions disagree", level, fact, support, vote.cluster, vote.tissue)


def _comparison(pathway: str, by_tissue: Mapping[str, Votes]) -> Example:
    """Its level pools the missions of all tissues it names."""
    votes = [by_tissue[tissue] for tissue in COMPARED if tissue in by_tissue]
    directions = {vote.tissue: vote.consensus for vote in votes if vote.consensus}
    is_consistent = len(set(directions.values())) == 1
    truth = ComparisonTruth(pathway=pathway, tissue_directions=directions, is_consistent=is_consistent)
    up, down = ([tissue for tissue in directions if directions[tissue] == way] for way in ("UP", "DOWN"))
    words = {
        "name": load_hallmark()[pathway].name,
        "tissues": comma_list(list(directions)),
        "way": "up" if up else "down",
    }
    if not is_consistent:
        words |= {"up": comma_list(up), "down": comma_list(down)}
    text = _choose_wordings("comparison", pathway, "same" if is_consistent else "different", **words)
    agreeing = sum(len(vote.missions(directions[vote.tissue])) for vote in votes)
    level = succession(agreeing, sum(len(vote.rows) for vote in votes))
    support = [f"direction/{tissue}/{pathway}" for tissue in directions]
    said = SAME if is_consistent else DIFFERENT
    return _example(truth, text, said, level, f"comparison/{pathway}", support, f"multi/{pathway}", "multi")


def _conservation(tissue: str) -> Example:
    """Its level counts the mission pairs whose own correlation falls in the stated range."""
    row = load_conservation()[tissue]
    truth = ConservationTruth(tissue=tissue, level=row.level, nes_mean_r=row.mean_r)
    text = _choose_wordings("conservation", tissue, tissue=tissue, level=row.level, r=row.mean_r)
    level = succession(sum(pair.level == row.level for pair in row.pairs), len(row.pairs))
    support = [f"r/{tissue}/{pair.first}/{pair.second}" for pair in row.pairs]
    name = f"conservation/{tissue}"
    return _example(truth, text, row.level, level, name, support, name, tissue, id=name)


def _meaning(pathway: str, place: int) -> Example:
    row, name = load_hallmark()[pathway], f"meaning/{pathway}"
    forms, turn = _sentences()["meaning"], int(sha256_of_text(name)[:8], 16) + place
    words = {"name": row.name, "about": row.about}
    text = [each[turn % len(each)].format(**words) for each in (forms["prompts"], forms["answers"])]
    made = _example(terms(pathway), text, row.about, SURE, name, (), name, None, id=f"{name}/{place + 1}")
    return made.model_copy(update={"kind": "definition"})


@cache
def _findings() -> tuple[tuple[Votes, EnrichmentRow], ...]:
    """Return the one significant score that a gene set has in a tissue, of each set that has one."""
    return tuple(
        (vote, row)
        for vote in all_votes()
        if vote.tissue not in HELD_OUT and len(vote.rows) - len(vote.missions(None)) == 1
        for row in vote.rows
        if row.direction is not None
    )


def _lone_mission(vote: Votes, row: EnrichmentRow, asked: str) -> Example:
    fact, id = f"nes/{vote.tissue}/{row.mission}/{vote.pathway}", f"{asked}/{row.mission}/{vote.cluster}"
    mission = mission_name(row.mission)
    return _direction_question(vote, [row], row.direction or "UP", asked, SURE, fact, id, mission=mission)


def _example(
    truth: GroundTruth,
    text: Sequence[str],
    said: str,
    level: int,
    fact: str,
    support: Iterable[str],
    cluster: str,
    tissue: str | None,
    *,
    id: str | None = None,
) -> Example:
    """Return a question from its prompt, explanation and answer; ids of facts are given without "genelab/"."""
    prompt, explanation = text
    return Example(
        id=f"genelab/{id or f'{truth.kind}/{cluster}'}",
        source="genelab",
        kind=truth.kind,
        prompt=prompt,
        answer=with_answer(explanation, said, level),
        confidence=level / 100,
        ground_truth=truth,
        facts=(f"genelab/{fact}",),
        support=tuple(f"genelab/{each}" for each in support),
        cluster=cluster,
        tissue=tissue,
        split="train",
    )


def _check_tissues(held_out: Sequence[str]) -> set[str]:
    known = tuple(dict.fromkeys(row.tissue for row in load_enrichment()))
    unknown = [tissue for tissue in held_out if tissue not in known]
    if unknown:
        raise BadConfig(
            f"cannot hold out {', '.join(map(repr, unknown))}: the enrichment table has no such"
            f" tissue; known are {', '.join(known)}. Name one of them, in lower case."
        )
    return set(held_out)


# ---- sentences ---------------------------------------------------------------------------------


@cache
def _sentences() -> dict[str, dict[str, Any]]:
    return tomllib.loads(Path(__file__).with_name("wording.toml").read_text(encoding="utf-8"))


def _choose_wordings(asked: str, subject: str, answers: str = "answers", /, **words: object) -> list[str]:
    """Return prompt and explanation in the wordings that belong to a question, always the same ones."""
    forms, key = _sentences()[asked], f"{asked}/{subject}"
    chosen = ((forms["prompts"], key), (forms[answers], f"{key}/answer"))
    return [each[int(sha256_of_text(name)[:8], 16) % len(each)].format(**words) for each, name in chosen]


def comma_list(words: Sequence[str]) -> str:
    """Return ["a", "b", "c"] as "a, b and c"."""
    return " and ".join(part for part in (", ".join(words[:-1]), words[-1]) if part)


def mission_name(mission: str) -> str:
    """Return a mission as people write it: "MHU-2_dorsal" -> "MHU-2 dorsal"."""
    return mission.replace("_", " ")
