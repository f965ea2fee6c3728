"""What a single mission says of a gene set on which no other mission of the tissue says anything.

One finding per gene set and tissue with exactly one mission at padj < 0.05: there is no consensus and no
dispute, so no other pathway question is about it. The direction is that of this mission alone. About as
many go up as down, and nothing else that a model is taught tells which: questions to learn from when not
to be sure of a direction. What the set stands for can be known all the same, so the other question, what
the finding means, is one to be sure of. Held-out tissues are left out, as in `evals.questions.pathways`.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from evals.errors import BadConfig
from evals.facts import Conservation, EnrichmentRow, PathwayName, load_conservation, load_enrichment, load_hallmark
from evals.questions import wording
from evals.questions.votes import Votes, all_votes
from evals.schema import (
    ComparisonTruth,
    ConservationTruth,
    Direction,
    DirectTruth,
    Enrichment,
    Example,
    MechanismTruth,
    UncertaintyTruth,
)
from evals.verifiers.expected import terms

TABLE: Final = 95
DEFINED: Final = 95
DERIVED: Final = 90
LIMIT: Final = 90
SECONDARY: Final = 85
DOUBTED_CLASS: Final = 80
SUGGESTED: Final = 75
DOUBTED: Final = 70
READ_INTO: Final = 65
NOT_SIGNIFICANT: Final = 60

LEVELS: Final[dict[str, int]] = {
    "TABLE": TABLE,
    "DEFINED": DEFINED,
    "DERIVED": DERIVED,
    "LIMIT": LIMIT,
    "SECONDARY": SECONDARY,
    "DOUBTED_CLASS": DOUBTED_CLASS,
    "SUGGESTED": SUGGESTED,
    "DOUBTED": DOUBTED,
    "READ_INTO": READ_INTO,
    "NOT_SIGNIFICANT": NOT_SIGNIFICANT,
}


def succession(agreeing: int, total: int) -> int:
    """Return Laplace's rule of succession, (agreeing + 1) / (total + 2), as percent in steps of 5.

    After `agreeing` of `total` missions said so, this is the probability that the next one does,
    starting from even odds (Laplace, Essai philosophique sur les probabilites, 1814). Halves
    round up: 2 of 6 -> 3/8 = 37.5 % -> 40.
    """
    if not 0 <= agreeing <= total:
        raise ValueError(f"{agreeing} of {total} is no count of agreeing missions")
    numerator, denominator = 20 * (agreeing + 1), total + 2
    return 5 * ((2 * numerator + denominator) // (2 * denominator))


def with_answer(explanation: str, answer: str, level: int) -> str:
    """Return an answer in its one documented form: explanation, answer line, confidence line."""
    return with_confidence("\n".join(part for part in (explanation, f"Answer: {answer}") if part), level)


def with_confidence(text: str, level: int) -> str:
    """Return an answer in its one documented form: the text, then a last line "Confidence: N%"."""
    return f"{text}\nConfidence: {level}%"


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
    return tuple(row.model_copy(update={"split": "test"}) for row in _bank() if row.tissue in excluded)


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
        rows += [question for vote in agreed for question in (_pathways_direct(vote), _pathways_mechanism(vote))]
        rows += [_uncertainty(vote) for vote in here if vote.is_disputed]
    rows += _comparisons(votes)
    rows += [_conservation(row) for row in load_conservation().values()]
    return tuple(rows)


def _pathways_direct(vote: Votes) -> Example:
    agreement = vote.agreement()
    truth = DirectTruth(
        tissue=vote.tissue,
        pathway=vote.pathway,
        direction=agreement.direction,
        missions=_scores(vote),
    )
    text = wording.direct(vote.tissue, vote.pathway, agreement)
    return _pathways_example(vote, truth, text, succession(agreement.agreeing, agreement.total))


def _pathways_mechanism(vote: Votes) -> Example:
    agreement = vote.agreement()
    truth = MechanismTruth(
        tissue=vote.tissue,
        pathway=vote.pathway,
        direction=agreement.direction,
        missions=_scores(vote),
    )
    text = wording.mechanism(vote.tissue, vote.pathway, agreement)
    return _pathways_example(vote, truth, text, succession(agreement.agreeing, agreement.total))


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
    return _pathways_example(vote, truth, wording.uncertainty(truth), succession(opposed, opposed))


def _pathways_example(
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
    return [_comparison(pathway, agreed[pathway]) for pathway in sorted(agreed) if len(agreed[pathway]) >= 2]


def _comparison(pathway: str, by_tissue: dict[str, Votes]) -> Example:
    """Its level pools the missions of all tissues it names."""
    agreements = {tissue: by_tissue[tissue].agreement() for tissue in COMPARED if tissue in by_tissue}
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


PROMPTS = (
    "What does the Hallmark gene set {name} stand for?",
    "Which process do the genes of the {name} set take part in?",
    "Say in a few words what the {name} gene set is about.",
    "What is measured when the {name} gene set is scored?",
)
ANSWERS = (
    "The {name} gene set stands for {about}.",
    "The genes of the {name} set stand for {about}.",
)
WORDINGS = 2
"""So many questions on each set, with different wordings."""


def set_meanings() -> tuple[Example, ...]:
    """Return two questions on each Hallmark set, in table order."""
    return tuple(_meanings_example(row, place) for row in load_hallmark().values() for place in range(WORDINGS))


def _meanings_example(row: PathwayName, place: int) -> Example:
    first = int(wording.digest(f"meaning/{row.pathway}")[:8], 16)
    words = {"name": row.name, "about": row.about}
    answer = ANSWERS[(first + place) % len(ANSWERS)].format(**words)
    return Example(
        id=f"genelab/meaning/{row.pathway}/{place + 1}",
        source="genelab",
        kind="definition",
        prompt=PROMPTS[(first + place) % len(PROMPTS)].format(**words),
        answer=with_answer(answer, row.about, DEFINED),
        confidence=DEFINED / 100,
        ground_truth=terms(row.pathway),
        facts=(f"genelab/meaning/{row.pathway}",),
        cluster=f"meaning/{row.pathway}",
        split="train",
    )


@dataclass(frozen=True)
class Finding:
    """The one significant score that a gene set has in a tissue."""

    vote: Votes
    row: EnrichmentRow
    direction: Direction


def lone_missions() -> tuple[Example, ...]:
    """Return one question per set and tissue that a single mission found to move, in table order."""
    return tuple(_direct(finding) for finding in _findings())


def lone_missions_parted() -> tuple[Example, ...]:
    """Return one question per such finding, in table order: which way for one half, else what it means.

    A question about what a finding means gives its direction away, so no finding is asked both ways. The
    halves are dealt in turn within each direction, by a checksum of tissue and set.
    """
    findings = _findings()
    dealt = sorted(findings, key=lambda each: (each.direction, wording.digest(each.vote.cluster)))
    directions = {each.vote.cluster for each in dealt[::2]}
    return tuple(_direct(each) if each.vote.cluster in directions else _mechanism(each) for each in findings)


def _findings() -> tuple[Finding, ...]:
    return tuple(
        Finding(vote, row, row.direction)
        for vote in all_votes()
        if vote.tissue not in HELD_OUT and len(vote.rows) - len(vote.missions(None)) == 1
        for row in vote.rows
        if row.direction is not None
    )


def _direct(finding: Finding) -> Example:
    return _example(finding, DirectTruth, wording.lone_mission, "mission")


def _mechanism(finding: Finding) -> Example:
    return _example(finding, MechanismTruth, wording.lone_mission_mechanism, "mission-mechanism")


def _example(
    finding: Finding,
    truth_of: type[DirectTruth] | type[MechanismTruth],
    worded: Callable[[str, str, str, Direction], wording.Text],
    asked: str,
) -> Example:
    vote, row = finding.vote, finding.row
    truth = truth_of(
        tissue=vote.tissue,
        pathway=vote.pathway,
        direction=finding.direction,
        missions={row.mission: Enrichment(nes=row.nes, padj=row.padj)},
    )
    text = worded(vote.tissue, vote.pathway, row.mission, finding.direction)
    fact = f"genelab/nes/{vote.tissue}/{row.mission}/{vote.pathway}"
    return Example(
        id=f"genelab/{asked}/{row.mission}/{vote.cluster}",
        source="genelab",
        kind=truth.kind,
        prompt=text.prompt,
        answer=with_answer(text.answer, wording.stated(truth), TABLE),
        confidence=TABLE / 100,
        ground_truth=truth,
        facts=(fact,),
        support=(fact,),
        cluster=vote.cluster,
        tissue=vote.tissue,
        split="train",
    )
