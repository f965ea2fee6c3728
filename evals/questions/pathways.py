"""Questions about which way Hallmark gene sets move in spaceflown mouse tissues.

Rules, per gene set and tissue, over the missions of that tissue:

    a mission counts   UP or DOWN when padj < 0.05, by the sign of NES; otherwise not significant
    consensus          at least two missions one way and more than the other way; missions that are
                       not significant do not count against it
    disagreement       at least one mission UP and at least one DOWN (both can hold at once)

    direct        every consensus: which way?
    mechanism     every consensus, the direction given away: what does it mean?
    uncertainty   every disagreement: do missions agree?
    comparison    every set with a consensus in two or more of COMPARED tissues
    conservation  every tissue: how well do its missions agree over all sets?

Holding out a tissue takes its rows, and every comparison that names it, out of training.
"""

from collections.abc import Iterable, Sequence
from functools import cache

from evals.errors import BadConfig
from evals.facts import Conservation, load_conservation, load_enrichment
from evals.questions import wording
from evals.questions.levels import succession, with_answer
from evals.questions.votes import Votes, all_votes
from evals.schema import (
    ComparisonTruth,
    ConservationTruth,
    DirectTruth,
    Enrichment,
    Example,
    MechanismTruth,
    UncertaintyTruth,
)

COMPARED = ("liver", "gastrocnemius", "kidney", "thymus", "eye")
"""Tissues that comparisons range over; skin is left out because it is sampled at two sites."""
HELD_OUT = ("eye", "thymus")


def pathway_training(held_out: Sequence[str] = HELD_OUT) -> tuple[Example, ...]:
    """Return the questions that name no held-out tissue, in table order.

    BadConfig when `held_out` names a tissue that the table does not have.
    """
    excluded = _checked(held_out)
    return tuple(row for row in _bank() if not excluded & _tissues(row))


def pathway_heldout(held_out: Sequence[str] = HELD_OUT) -> tuple[Example, ...]:
    """Return the questions about held-out tissues, in table order; none when nothing is held out.

    Comparisons belong to several tissues and are never among them.
    """
    excluded = _checked(held_out)
    return tuple(
        row.model_copy(update={"split": "test"}) for row in _bank() if row.tissue in excluded
    )


def pathway_halves(
    examples: Iterable[Example],
) -> tuple[tuple[Example, ...], tuple[Example, ...]]:
    """Return the examples in two halves, no cluster in both: one for SFT, one for GRPO.

    Clusters are dealt in turn within groups of equal kinds and direction, so both halves get
    their share of each. The same examples always give the same halves.
    """
    clusters: dict[str, list[Example]] = {}
    for example in examples:
        clusters.setdefault(example.cluster, []).append(example)

    def stratum(name: str) -> tuple[str, str, str]:
        rows = clusters[name]
        kinds = ",".join(sorted({row.kind for row in rows}))
        truths = [row.ground_truth for row in rows]
        directions = sorted({t.direction for t in truths if isinstance(t, DirectTruth)})
        return kinds, ",".join(directions), wording.digest(name)

    first: list[Example] = []
    second: list[Example] = []
    for place, name in enumerate(sorted(clusters, key=stratum)):
        (first if place % 2 == 0 else second).extend(clusters[name])
    return tuple(first), tuple(second)


def pathway_tissues() -> tuple[str, ...]:
    """Return the tissues of the enrichment table, in table order."""
    return tuple(dict.fromkeys(row.tissue for row in load_enrichment()))


@cache
def _bank() -> tuple[Example, ...]:
    """Return every pathway question: by tissue, then comparisons, then conservation."""
    votes = all_votes()
    rows: list[Example] = []
    for tissue in pathway_tissues():
        here = [vote for vote in votes if vote.tissue == tissue]
        agreed = [vote for vote in here if vote.consensus]
        rows += [question for vote in agreed for question in (_direct(vote), _mechanism(vote))]
        rows += [_uncertainty(vote) for vote in here if vote.is_disputed]
    rows += _comparisons(votes)
    rows += [_conservation(row) for row in load_conservation().values()]
    return tuple(rows)


def _direct(vote: Votes) -> Example:
    agreement = vote.agreement()
    truth = DirectTruth(
        tissue=vote.tissue,
        pathway=vote.pathway,
        direction=agreement.direction,
        missions=_scores(vote),
    )
    text = wording.direct(vote.tissue, vote.pathway, agreement)
    return _example(vote, truth, text, succession(agreement.agreeing, agreement.total))


def _mechanism(vote: Votes) -> Example:
    agreement = vote.agreement()
    truth = MechanismTruth(
        tissue=vote.tissue,
        pathway=vote.pathway,
        direction=agreement.direction,
        missions=_scores(vote),
    )
    text = wording.mechanism(vote.tissue, vote.pathway, agreement)
    return _example(vote, truth, text, succession(agreement.agreeing, agreement.total))


def _uncertainty(vote: Votes) -> Example:
    """Its level counts pairs of missions that oppose each other, each one a case of disagreement."""
    truth = UncertaintyTruth(
        tissue=vote.tissue,
        pathway=vote.pathway,
        missions_up=vote.missions("UP"),
        missions_down=vote.missions("DOWN"),
        missions_ns=vote.missions(None),
    )
    opposed = len(truth.missions_up) * len(truth.missions_down)
    return _example(vote, truth, wording.uncertainty(truth), succession(opposed, opposed))


def _example(
    vote: Votes,
    truth: DirectTruth | MechanismTruth | UncertaintyTruth,
    text: wording.Text,
    level: int,
) -> Example:
    fact = {"uncertainty": "agreement"}.get(truth.kind, "direction")
    return Example(
        id=f"genelab/{truth.kind}/{vote.cluster}",
        source="genelab",
        kind=truth.kind,
        prompt=text.prompt,
        answer=with_answer(text.answer, wording.stated(truth), level),
        confidence=level / 100,
        ground_truth=truth,
        facts=(f"genelab/{fact}/{vote.cluster}",),
        support=tuple(f"genelab/nes/{vote.tissue}/{r.mission}/{vote.pathway}" for r in vote.rows),
        cluster=vote.cluster,
        tissue=vote.tissue,
        split="train",
    )


def _comparisons(votes: Iterable[Votes]) -> list[Example]:
    agreed: dict[str, dict[str, Votes]] = {}
    for vote in votes:
        if vote.consensus and vote.tissue in COMPARED:
            agreed.setdefault(vote.pathway, {})[vote.tissue] = vote
    return [
        _comparison(pathway, agreed[pathway])
        for pathway in sorted(agreed)
        if len(agreed[pathway]) >= 2
    ]


def _comparison(pathway: str, by_tissue: dict[str, Votes]) -> Example:
    """Its level pools the missions of all tissues it names."""
    agreements = {
        tissue: by_tissue[tissue].agreement() for tissue in COMPARED if tissue in by_tissue
    }
    directions = {tissue: agreement.direction for tissue, agreement in agreements.items()}
    truth = ComparisonTruth(
        pathway=pathway,
        tissue_directions=directions,
        is_consistent=len(set(directions.values())) == 1,
    )
    text = wording.comparison(truth)
    level = succession(
        sum(agreement.agreeing for agreement in agreements.values()),
        sum(agreement.total for agreement in agreements.values()),
    )
    return Example(
        id=f"genelab/comparison/multi/{pathway}",
        source="genelab",
        kind="comparison",
        prompt=text.prompt,
        answer=with_answer(text.answer, wording.stated(truth), level),
        confidence=level / 100,
        ground_truth=truth,
        facts=(f"genelab/comparison/{pathway}",),
        support=tuple(f"genelab/direction/{tissue}/{pathway}" for tissue in directions),
        cluster=f"multi/{pathway}",
        tissue="multi",
        split="train",
    )


def _conservation(row: Conservation) -> Example:
    """Its level counts the mission pairs whose own correlation falls in the stated range."""
    truth = ConservationTruth(tissue=row.tissue, level=row.level, nes_mean_r=row.mean_r)
    text = wording.conservation(truth)
    level = succession(sum(pair.level == row.level for pair in row.pairs), len(row.pairs))
    return Example(
        id=f"genelab/conservation/{row.tissue}",
        source="genelab",
        kind="conservation",
        prompt=text.prompt,
        answer=with_answer(text.answer, wording.stated(truth), level),
        confidence=level / 100,
        ground_truth=truth,
        facts=(f"genelab/conservation/{row.tissue}",),
        support=tuple(f"genelab/r/{row.tissue}/{pair.first}/{pair.second}" for pair in row.pairs),
        cluster=f"conservation/{row.tissue}",
        tissue=row.tissue,
        split="train",
    )


def _scores(vote: Votes) -> dict[str, Enrichment]:
    return {row.mission: Enrichment(nes=row.nes, padj=row.padj) for row in vote.rows}


def _tissues(example: Example) -> set[str]:
    """Return every tissue that a question is about."""
    truth = example.ground_truth
    if isinstance(truth, ComparisonTruth):
        return set(truth.tissue_directions)
    return {example.tissue} if example.tissue else set()


def _checked(held_out: Sequence[str]) -> set[str]:
    known = pathway_tissues()
    unknown = [tissue for tissue in held_out if tissue not in known]
    if unknown:
        raise BadConfig(
            f"cannot hold out {', '.join(map(repr, unknown))}: the enrichment table has no such"
            f" tissue; known are {', '.join(known)}. Name one of them, in lower case."
        )
    return set(held_out)
