"""From a verdict to scores and one reward. Nothing but the verdict, its faults and the confidence counts.

Which verifiers apply depends on the truth alone, never on the answer, so that renormalising the weights cannot
be gamed (docs/verifiers.md has the table of scores). V2 and V3 only take away: an explanation can cost, and earns
nothing by itself. The reward is the mean weighted over what applies.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from evals.schema import ConservationTruth, GroundTruth, StatedConfidence, UncertaintyTruth, Verdict
from evals.verifiers.expected import Finding
from evals.verifiers.presets import DEFAULT_MODE, DEFAULT_WEIGHTS, MODES, VERIFIERS, check_mode, check_weights

WITH_FIGURES = ("V1", "V2", "V3", "V4")
WITHOUT_FIGURES = ("V1", "V3", "V4")
"""What applies where the truth holds no figures that an explanation could get wrong."""
JUDGED = ("V1", "V4")
"""What applies to a rubric, once a judge has graded its items: V1 is the share of their weight that is met."""
SCORED = frozenset(("direct", "mechanism", "uncertainty", "comparison", "conservation", "count", "label", "abstain"))
SCORED |= {"choice", "number", "set", "term"}
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
    has_figures = isinstance(truth, UncertaintyTruth | ConservationTruth) or bool(getattr(truth, "missions", None))
    return WITH_FIGURES if has_figures else WITHOUT_FIGURES


def score(
    truth: GroundTruth,
    finding: Finding,
    confidence: StatedConfidence,
    read_by: str | None,
    faults: Faults = NO_FAULTS,
    scoring: Scoring = DEFAULT_SCORING,
) -> Verdict:
    """Return the verdict with its scores and reward; a kind that is not scored has neither."""
    applies = applicable(truth) or (JUDGED if read_by == "judge" else ())
    verdict, right = finding.verdict, finding.credit if finding.verdict == "correct" else 0.0
    values = {
        "V1": finding.credit,
        "V2": 0.0 if faults.figures else right,
        "V3": 0.0 if faults.contradictions else right,
        "V4": 0.0,
    }
    if confidence.value is not None and verdict in ("correct", "incorrect"):
        values["V4"] = MODES[scoring.v4](truth.kind, confidence.value, float(verdict == "correct"))
    scores: dict[str, float | None] = dict.fromkeys(VERIFIERS)
    total = earned = 0.0
    for name in applies:
        weight = scoring.weights.get(name, 0.0)
        scores[name] = values[name]
        total += weight
        earned += weight * values[name]
    reason = finding.reason
    if faults is not NO_FAULTS:
        reason = "; ".join((reason, *faults.figures, *faults.contradictions))
    # Of checked parts, so not validated: a text may hold half a surrogate, and a batch has many answers.
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
