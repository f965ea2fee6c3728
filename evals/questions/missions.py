"""What a single mission says of a gene set on which no other mission of the tissue says anything.

One finding per gene set and tissue with exactly one mission at padj < 0.05: there is no consensus and no
dispute, so no other pathway question is about it. The direction is that of this mission alone. About as
many go up as down, and nothing else that a model is taught tells which: questions to learn from when not
to be sure of a direction. What the set stands for can be known all the same, so the other question, what
the finding means, is one to be sure of. Held-out tissues are left out, as in `evals.questions.pathways`.
"""

from collections.abc import Callable
from dataclasses import dataclass

from evals.facts import EnrichmentRow
from evals.questions import wording
from evals.questions.levels import TABLE, with_answer
from evals.questions.pathways import HELD_OUT
from evals.questions.votes import Votes, all_votes
from evals.schema import Direction, DirectTruth, Enrichment, Example, MechanismTruth


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
    return tuple(
        _direct(each) if each.vote.cluster in directions else _mechanism(each) for each in findings
    )


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
