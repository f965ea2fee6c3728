"""What a single mission says of a gene set on which no other mission of the tissue says anything.

One row per gene set and tissue with exactly one mission at padj < 0.05: there is no consensus and no
dispute, so no other pathway question is about it. The direction is that of this mission alone. About as
many go up as down, and nothing else that a model is taught tells which: questions to learn from when not
to be sure of a direction. Held-out tissues are left out, as in `evals.questions.pathways`.
"""

from evals.facts import EnrichmentRow
from evals.questions import wording
from evals.questions.levels import TABLE, with_confidence
from evals.questions.pathways import HELD_OUT
from evals.questions.votes import Votes, all_votes
from evals.schema import Direction, DirectTruth, Enrichment, Example


def lone_missions() -> tuple[Example, ...]:
    """Return one question per set and tissue that a single mission found to move, in table order."""
    return tuple(
        _example(vote, row, row.direction)
        for vote in all_votes()
        if vote.tissue not in HELD_OUT and len(vote.rows) - len(vote.missions(None)) == 1
        for row in vote.rows
        if row.direction is not None
    )


def _example(vote: Votes, row: EnrichmentRow, direction: Direction) -> Example:
    fact = f"genelab/nes/{vote.tissue}/{row.mission}/{vote.pathway}"
    truth = DirectTruth(
        tissue=vote.tissue,
        pathway=vote.pathway,
        direction=direction,
        missions={row.mission: Enrichment(nes=row.nes, padj=row.padj)},
    )
    text = wording.lone_mission(vote.tissue, vote.pathway, row.mission, direction)
    return Example(
        id=f"genelab/mission/{row.mission}/{vote.cluster}",
        source="genelab",
        kind="direct",
        prompt=text.prompt,
        answer=with_confidence(text.answer, TABLE),
        confidence=TABLE / 100,
        ground_truth=truth,
        facts=(fact,),
        support=(fact,),
        cluster=vote.cluster,
        tissue=vote.tissue,
        split="train",
    )
