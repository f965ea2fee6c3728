"""Verifiers: from what an answer claims to a verdict, and from the verdict to scores.

    claims  ->  verdict (correct, incorrect, contradictory, no_claim)  ->  V1 V2 V3 V4  ->  reward

One judge per kind of ground truth gives the verdict; `score` turns it, the faults beside it and the
stated confidence into scores and one reward (docs/verifiers.md). A judge that breaks raises: a broken
grader must never look like a wrong answer. Free answers (kind "facts") hold many facts and no single
claim; they get no_claim, no score and no reward, and are left out of every accuracy.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from evals.confidence import VERSION as CONFIDENCE_VERSION
from evals.confidence import settle
from evals.schema import Example, FactsTruth, GroundTruth, Verdict
from evals.verifiers.abstention import judge_abstention, open_questions
from evals.verifiers.comparison import judge_comparison
from evals.verifiers.conservation import judge_conservation
from evals.verifiers.consistency import self_contradictions
from evals.verifiers.count import judge_count
from evals.verifiers.direct import judge_direct, judge_mechanism
from evals.verifiers.finding import Finding
from evals.verifiers.label import judge_label
from evals.verifiers.modes import DEFAULT_MODE, MODES, check_mode
from evals.verifiers.pathway import enrichment_faults
from evals.verifiers.presets import DEFAULT_WEIGHTS, PRESETS, VERIFIERS, check_weights
from evals.verifiers.presets import weights as chosen_weights
from evals.verifiers.reading import Reading, read
from evals.verifiers.score import (
    CONTENT,
    DEFAULT_SCORING,
    NO_FAULTS,
    Faults,
    Scoring,
    applicable,
    score,
)
from evals.verifiers.uncertainty import judge_uncertainty

__all__ = [
    "CONTENT",
    "DEFAULT_MODE",
    "DEFAULT_WEIGHTS",
    "MODES",
    "PRESETS",
    "VERIFIERS",
    "VERSION",
    "Scoring",
    "applicable",
    "check_weights",
    "instrument",
    "judge",
    "verify",
    "verify_answer",
]

VERSION = "verifiers-5"
Weights = str | Mapping[str, float] | None
"""A preset's name, a list such as "V1=.3,V4=.45", shares per verifier, or None for the usual ones."""


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
    example: Example,
    completion: str,
    weights: Weights = None,
    v4: str = DEFAULT_MODE,
) -> Verdict:
    """Return what the verifiers think of `completion` as an answer to `example`."""
    return verify_answer(example.ground_truth, example.prompt, completion, weights, v4)


def verify_answer(
    truth: GroundTruth,
    question: str,
    completion: str,
    weights: Weights = None,
    v4: str = DEFAULT_MODE,
) -> Verdict:
    """Return the verdict on an answer to a question whose truth is known.

    `weights` are a preset's name or shares per verifier, renormalised over those that apply; None =
    DEFAULT_WEIGHTS. `v4` is one of MODES. BadConfig for what neither knows.
    """
    if weights is None and v4 == DEFAULT_MODE:
        return judge(truth, question, completion)
    return judge(truth, question, completion, Scoring(chosen_weights(weights), v4))


def judge(
    truth: GroundTruth, question: str, completion: str, scoring: Scoring = DEFAULT_SCORING
) -> Verdict:
    """Return the verdict as `verify_answer` does, under weights and a mode that were checked once."""
    reading = read(completion, question)
    finding = _torn(truth, reading, question, JUDGES[truth.kind](truth, reading, question))
    confidence = settle(completion, reading.page, reading.confidences)
    faults = _faults(truth, reading, question) if finding.verdict == "correct" else NO_FAULTS
    return score(truth, finding, confidence, faults, scoring)


def instrument(v4: str = DEFAULT_MODE) -> dict[str, str]:
    """Return the versions of what judges, and the mode of V4 where it is not the usual one.

    Scores that were made with different instruments are not comparable.
    """
    versions = {"verifiers": VERSION, "confidence": CONFIDENCE_VERSION}
    return versions if v4 == DEFAULT_MODE else {**versions, "v4": check_mode(v4)}


def _faults(truth: GroundTruth, reading: Reading, question: str) -> Faults:
    """Return what is wrong beside a correct claim."""
    enrichment = enrichment_faults(truth, reading, question)
    contradictions = self_contradictions(reading, truth, question)
    return Faults(enrichment, contradictions) if enrichment or contradictions else NO_FAULTS
