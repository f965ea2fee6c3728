"""From a verdict to scores and one reward. Nothing but the verdict, its faults and the confidence counts.

Which verifiers apply depends on the ground truth alone, never on the answer, so that renormalising the
weights cannot be gamed.

    V1 what was asked     the credit of the answer: 1, or 0.5 for a count that is right after rounding
    V2 figures            the credit, or 0 if the explanation states a false figure or mission
    V3 consistency        the credit, or 0 if the explanation plainly contradicts the answer
    V4 confidence         `modes`: by default 1 - (c - y)^2, also for an incorrect answer (y = 0)

V2 and V3 only take away: an explanation can cost, and earns nothing by itself. The reward is the mean
weighted over what applies. `presets` derives the weights.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from evals.schema import ConservationTruth, GroundTruth, StatedConfidence, UncertaintyTruth, Verdict
from evals.verifiers.expected import Expected, Finding
from evals.verifiers.presets import (
    DEFAULT_MODE,
    DEFAULT_WEIGHTS,
    MODES,
    VERIFIERS,
    check_mode,
    check_weights,
)

WITH_FIGURES = ("V1", "V2", "V3", "V4")
WITHOUT_FIGURES = ("V1", "V3", "V4")
"""What applies where the truth holds no figures that an explanation could get wrong."""
JUDGED = ("V1", "V4")
"""What applies to a rubric, once a judge has graded its items: V1 is the share of their weight that is met."""
SCORED = frozenset(
    [
        "direct",
        "mechanism",
        "uncertainty",
        "comparison",
        "conservation",
        "count",
        "label",
        "abstain",
        "choice",
        "number",
        "set",
        "term",
    ]
)
"""Kinds of truth that are scored; `rubric` and `facts` are for a judge."""


@dataclass(frozen=True, slots=True)
class Scoring:
    """How scores become a reward: weights by verifier, and the mode of V4. BadConfig if unknown."""

    weights: Mapping[str, float] = field(default_factory=lambda: DEFAULT_WEIGHTS)
    v4: str = DEFAULT_MODE

    def __post_init__(self) -> None:
        check_weights(self.weights)
        check_mode(self.v4)


@dataclass(frozen=True, slots=True)
class Faults:
    """What is wrong beside a correct answer, in plain words: figures (V2), contradictions (V3)."""

    figures: tuple[str, ...] = ()
    contradictions: tuple[str, ...] = ()


DEFAULT_SCORING = Scoring()
NO_FAULTS = Faults()


def applicable(truth: GroundTruth) -> tuple[str, ...]:
    """Return the verifiers that apply to a question; none for a kind that is not scored."""
    if truth.kind not in SCORED:
        return ()
    has_figures = isinstance(truth, UncertaintyTruth | ConservationTruth) or bool(
        getattr(truth, "missions", None)
    )
    return WITH_FIGURES if has_figures else WITHOUT_FIGURES


def score(
    truth: GroundTruth,
    expected: Expected,
    finding: Finding,
    confidence: StatedConfidence,
    read_by: str | None,
    faults: Faults = NO_FAULTS,
    scoring: Scoring = DEFAULT_SCORING,
) -> Verdict:
    """Return the verdict with its scores and reward; a kind that is not scored has neither."""
    applies = applicable(truth) or (JUDGED if read_by == "judge" else ())
    verdict, credit = finding.verdict, finding.credit
    right = credit if verdict == "correct" else 0.0
    scores: dict[str, float | None] = dict.fromkeys(VERIFIERS)
    total = earned = 0.0
    for name in applies:
        if name == "V1":
            value = credit
        elif name == "V2":
            value = 0.0 if faults.figures else right
        elif name == "V3":
            value = 0.0 if faults.contradictions else right
        else:
            value = _confidence_score(truth.kind, verdict, confidence, scoring.v4)
        weight = scoring.weights.get(name, 0.0)
        scores[name] = value
        total += weight
        earned += weight * value
    reason = finding.reason
    if faults is not NO_FAULTS:
        reason = "; ".join((reason, *faults.figures, *faults.contradictions))
    # Built of checked parts, so not validated again: a verdict is made for every answer of a training batch.
    return Verdict.model_construct(
        verdict=verdict,
        reason=reason,
        claims=finding.claims,
        confidence=confidence,
        scores=scores,
        reward=(min(1.0, earned / total) if total else 0.0) if applies else None,
        answer=finding.answer,
        read_by=read_by,
    )


def _confidence_score(kind: str, verdict: str, confidence: StatedConfidence, mode: str) -> float:
    if confidence.value is None or verdict not in ("correct", "incorrect"):
        return 0.0
    return MODES[mode](kind, confidence.value, 1.0 if verdict == "correct" else 0.0)
