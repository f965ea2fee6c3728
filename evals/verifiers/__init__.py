"""Verifiers: from what an answer claims to a verdict, and from the verdict to scores.

    claims (direction, count, …)  ->  verdict (correct, incorrect, contradictory, no_claim)  ->  scores

One judge per kind of ground truth. A judge that breaks raises: a broken grader must never look like a
wrong answer. Free answers (kind "facts") hold many facts and no single claim; they get no_claim, no
score and no reward, and are left out of every accuracy.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from evals.confidence import settle
from evals.schema import Example, FactsTruth, GroundTruth, Verdict
from evals.verifiers.abstention import judge_abstention, open_questions
from evals.verifiers.comparison import judge_comparison
from evals.verifiers.conservation import judge_conservation
from evals.verifiers.count import judge_count
from evals.verifiers.direct import judge_direct, judge_mechanism
from evals.verifiers.finding import Finding
from evals.verifiers.label import judge_label
from evals.verifiers.reading import Reading, read
from evals.verifiers.score import CONTENT, DEFAULT_WEIGHTS, VERIFIERS, check_weights, score
from evals.verifiers.uncertainty import judge_uncertainty

__all__ = [
    "CONTENT",
    "DEFAULT_WEIGHTS",
    "VERIFIERS",
    "VERSION",
    "check_weights",
    "verify",
    "verify_answer",
]

VERSION = "verifiers-2"


def _judge_facts(truth: FactsTruth, reading: Reading, question: str) -> Finding:
    return Finding("no_claim", "a free answer is not scored as one claim")


def _torn(truth: GroundTruth, reading: Reading, question: str, finding: Finding) -> Finding:
    """Return the finding; contradictory where the answer also says that it cannot be answered.

    Where missions disagree, "so the direction cannot be told" is what follows, not a contradiction.
    """
    if truth.kind == "abstain" or finding.verdict not in ("correct", "incorrect"):
        return finding
    denials = open_questions(reading, question, may_conclude=truth.kind == "uncertainty")
    if not denials:
        return finding
    reason = f"answers ({finding.reason}), and says that the data cannot answer"
    return Finding("contradictory", reason, finding.claims + denials)


# Each judge takes its own ground truth; the table keys them by the kind that the truth carries.
JUDGES: Mapping[str, Callable[[Any, Reading, str], Finding]] = MappingProxyType(
    {
        "direct": judge_direct,
        "mechanism": judge_mechanism,
        "uncertainty": judge_uncertainty,
        "comparison": judge_comparison,
        "conservation": judge_conservation,
        "count": judge_count,
        "label": judge_label,
        "abstain": judge_abstention,
        "facts": _judge_facts,
    }
)


def verify(
    example: Example, completion: str, weights: Mapping[str, float] | None = None
) -> Verdict:
    """Return what the verifiers think of `completion` as an answer to `example`."""
    return verify_answer(example.ground_truth, example.prompt, completion, weights)


def verify_answer(
    truth: GroundTruth, question: str, completion: str, weights: Mapping[str, float] | None = None
) -> Verdict:
    """Return the verdict on an answer to a question whose truth is known.

    `weights` are per verifier and renormalised over those that apply; None = DEFAULT_WEIGHTS.
    BadConfig for weights that name no verifier.
    """
    checked = DEFAULT_WEIGHTS if weights is None else check_weights(weights)
    reading = read(completion, question)
    finding = _torn(truth, reading, question, JUDGES[truth.kind](truth, reading, question))
    confidence = settle(completion, reading.page, reading.confidences)
    return score(truth.kind, finding, confidence, checked)
