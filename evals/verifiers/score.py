"""From a verdict to scores and one reward. Nothing but the verdict, its faults and the confidence counts.

Which verifiers apply depends on the ground truth alone, never on the answer (table APPLICABLE), so
that renormalising the weights cannot be gamed. A verifier is 0 unless the verdict is correct; then

    V1 what was asked      the credit of the claim: 1, or less if right in part or after rounding
    V2 enrichment          the credit, or 0 if a side statement on sign, NES or significance is false
    V3 consistency         the credit, or 0 if the answer contradicts itself in a side statement
    V4 confidence          `modes`: by default 1 - (c - y)^2, also for an incorrect claim (y = 0)

Where V2 or V3 is all that judges the content (CONTENT), a fault halves it instead: what was asked was
still answered. The reward is the mean weighted over what applies. `presets` derives the weights.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from evals.schema import GroundTruth, StatedConfidence, Verdict
from evals.verifiers.finding import Finding
from evals.verifiers.modes import DEFAULT_MODE, MODES, check_mode
from evals.verifiers.presets import DEFAULT_WEIGHTS, VERIFIERS, check_weights

CONTENT: Mapping[str, str] = MappingProxyType(
    {
        "direct": "V1",
        "mechanism": "V1",
        "uncertainty": "V1",
        "count": "V1",
        "label": "V1",
        "abstain": "V1",
        "conservation": "V2",
        "comparison": "V3",
    }
)
"""Which verifier judges what was asked, by kind. A kind that is not here is not scored."""

APPLICABLE: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "direct": ("V1", "V2", "V3", "V4"),
        "mechanism": ("V1", "V2", "V3", "V4"),
        "uncertainty": ("V1", "V2", "V3", "V4"),
        "count": ("V1", "V3", "V4"),
        "label": ("V1", "V3", "V4"),
        "abstain": ("V1", "V3", "V4"),
        "conservation": ("V2", "V3", "V4"),
        "comparison": ("V3", "V4"),
    }
)
WITHOUT_MISSIONS = ("V1", "V3", "V4")
"""What applies to a direction whose truth has no enrichment scores to compare statements with."""

LEAST_CREDIT = 0.5
"""A correct claim is worth at least so much of its content verifier, however partial or faulty."""


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
    """What is wrong beside a correct claim, in plain words: by V2, and by V3."""

    enrichment: tuple[str, ...] = ()
    contradictions: tuple[str, ...] = ()


DEFAULT_SCORING = Scoring()
NO_FAULTS = Faults()


def applicable(truth: GroundTruth) -> tuple[str, ...]:
    """Return the verifiers that apply to a question; none for a kind that is not scored."""
    if (truth.kind == "direct" or truth.kind == "mechanism") and not truth.missions:
        return WITHOUT_MISSIONS
    return APPLICABLE.get(truth.kind, ())


def score(
    truth: GroundTruth,
    finding: Finding,
    confidence: StatedConfidence,
    faults: Faults = NO_FAULTS,
    scoring: Scoring = DEFAULT_SCORING,
) -> Verdict:
    """Return the verdict with its scores and reward; a kind that is not scored has no score and 0."""
    scores: dict[str, float | None] = dict.fromkeys(VERIFIERS)
    weights, total, earned = scoring.weights, 0.0, 0.0
    kind, credit = truth.kind, _credit(finding)
    for name in applicable(truth):
        value = credit
        if name == "V4":
            value = _confidence_score(kind, finding, confidence, scoring.v4)
        elif credit and faults is not NO_FAULTS and _is_faulty(name, faults):
            value = LEAST_CREDIT if CONTENT[kind] == name else 0.0
        weight = weights.get(name, 0.0)
        scores[name] = value
        total += weight
        earned += weight * value
    return Verdict(
        verdict=finding.verdict,
        reason=_reason(finding, faults),
        claims=finding.claims,
        confidence=confidence,
        scores=scores,
        reward=min(1.0, earned / total) if total else 0.0,
    )


def _credit(finding: Finding) -> float:
    """Return what a claim without faults is worth."""
    return max(LEAST_CREDIT, finding.credit) if finding.verdict == "correct" else 0.0


def _is_faulty(name: str, faults: Faults) -> bool:
    return bool((name == "V2" and faults.enrichment) or (name == "V3" and faults.contradictions))


def _confidence_score(
    kind: str, finding: Finding, confidence: StatedConfidence, mode: str
) -> float:
    if confidence.value is None or finding.verdict not in ("correct", "incorrect"):
        return 0.0
    return MODES[mode](kind, confidence.value, 1.0 if finding.verdict == "correct" else 0.0)


def _reason(finding: Finding, faults: Faults) -> str:
    if faults is NO_FAULTS:
        return finding.reason
    return "; ".join((finding.reason, *faults.enrichment, *faults.contradictions))
