"""From a verdict to scores and one reward. Nothing but the verdict and the stated confidence counts.

Content verifiers: V1 for a direction, mechanism, agreement of missions, count, name or abstention;
V2 for conservation; V3 for a comparison. One of them applies to a row: 1 for a correct claim (less if
it is right only in part or after rounding), else 0.

V4 is a proper score of the stated confidence c for the claim that was made, 1 - (c - y)^2 with y = 1
for a correct claim and 0 for an incorrect one (Brier 1950). Telling one's true probability maximises
it. No claim, two claims that contradict each other, or no confidence: 0.

The reward is their mean weighted by DEFAULT_WEIGHTS, renormalised over those that apply. Content
weighs more than V4, so that a correct claim at any confidence beats every wrong, torn or missing one.
"""

from collections.abc import Mapping
from types import MappingProxyType

from evals.errors import BadConfig
from evals.schema import StatedConfidence, Verdict
from evals.verifiers.finding import Finding

VERIFIERS = ("V1", "V2", "V3", "V4")
CONTENT = MappingProxyType(
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
"""Which verifier judges the content of which kind. A kind that is not here is not scored."""

DEFAULT_WEIGHTS: Mapping[str, float] = MappingProxyType(
    {"V1": 0.6, "V2": 0.6, "V3": 0.6, "V4": 0.4}
)
"""One content verifier applies per row, so these are 60 % content and 40 % confidence."""


def score(
    kind: str, finding: Finding, confidence: StatedConfidence, weights: Mapping[str, float]
) -> Verdict:
    """Return the verdict with its scores and reward; a kind that is not scored has no score and 0."""
    scores: dict[str, float | None] = dict.fromkeys(VERIFIERS)
    if kind in CONTENT:
        scores[CONTENT[kind]] = finding.credit if finding.verdict == "correct" else 0.0
        scores["V4"] = _calibration(finding, confidence)
    return Verdict(
        verdict=finding.verdict,
        reason=finding.reason,
        claims=finding.claims,
        confidence=confidence,
        scores=scores,
        reward=_reward(scores, weights),
    )


def check_weights(weights: Mapping[str, float]) -> Mapping[str, float]:
    """Return the weights; BadConfig for an unknown verifier, a negative weight or nothing but zeros."""
    unknown = sorted(set(weights) - set(VERIFIERS))
    if unknown:
        raise BadConfig(f"no verifier is called {', '.join(unknown)}; weigh {', '.join(VERIFIERS)}")
    bad = {name: weight for name, weight in weights.items() if not 0 <= weight < float("inf")}
    if bad:
        raise BadConfig(
            f"weights must be 0 or more, found {bad}; give each verifier a share such as 0.6"
        )
    if not any(weights.values()):
        raise BadConfig(
            "every weight is 0, so nothing would be scored; give at least one verifier a weight"
        )
    return weights


def _calibration(finding: Finding, confidence: StatedConfidence) -> float:
    if confidence.value is None or finding.verdict not in ("correct", "incorrect"):
        return 0.0
    truth = 1.0 if finding.verdict == "correct" else 0.0
    return 1.0 - (confidence.value - truth) ** 2


def _reward(scores: Mapping[str, float | None], weights: Mapping[str, float]) -> float:
    active = [
        (weights.get(name, 0.0), value) for name, value in scores.items() if value is not None
    ]
    total = sum(weight for weight, _ in active)
    return sum(weight * value for weight, value in active) / total if total else 0.0
