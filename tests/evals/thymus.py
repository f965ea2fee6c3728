"""The question that most tables of answers are about: adipogenesis in mouse thymus goes DOWN."""

from collections.abc import Mapping

from evals.schema import DirectTruth, Verdict
from evals.verifiers import verify_answer

QUESTION = (
    "In mouse thymus after spaceflight, is the adipogenesis gene set upregulated or downregulated?"
)
TRUTH = DirectTruth(tissue="thymus", pathway="HALLMARK_ADIPOGENESIS", direction="DOWN")


def judged(answer: str) -> Verdict:
    """Return the verdict on an answer to QUESTION."""
    return verify_answer(TRUTH, QUESTION, answer)


def cases(table: Mapping[str, tuple[str, ...]]) -> list[tuple[str, str]]:
    """Return (answer, verdict) for every answer of a table that is keyed by verdict."""
    return [(answer, verdict) for verdict, answers in table.items() for answer in answers]
