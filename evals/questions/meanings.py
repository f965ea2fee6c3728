"""What each of the 50 Hallmark gene sets stands for: training rows, the same for every tissue.

Questions that give a direction away ask what it means, and nobody can say so who has never been told
what the set is about. These rows tell it for all sets; they name no tissue and no direction, so they
give nothing away about a tissue that is held out.
"""

from evals.facts import PathwayName, load_hallmark
from evals.questions import wording
from evals.questions.levels import DEFINED, with_answer
from evals.schema import Example
from evals.verifiers.expected import terms

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
    return tuple(
        _example(row, place) for row in load_hallmark().values() for place in range(WORDINGS)
    )


def _example(row: PathwayName, place: int) -> Example:
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
