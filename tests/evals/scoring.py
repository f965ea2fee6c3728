"""Verdicts of every kind to score, without an answer to read: what scores depend on, and no more."""

from collections.abc import Iterable
from itertools import product

from evals.questions import DATASETS
from evals.schema import DirectTruth, Example, GroundTruth, StatedConfidence, Verdict
from evals.verifiers import CONTENT, Scoring
from evals.verifiers.finding import Finding, Label
from evals.verifiers.score import LEAST_CREDIT, NO_FAULTS, Faults, score

KINDS: dict[str, Example] = {
    example.ground_truth.kind: example for name in DATASETS for example in DATASETS[name]()
}
TRUTHS: dict[str, GroundTruth] = {
    kind: example.ground_truth for kind, example in KINDS.items() if kind in CONTENT
} | {
    "direct, no missions": DirectTruth(
        tissue="thymus", pathway="HALLMARK_ADIPOGENESIS", direction="DOWN"
    )
}
DIRECT = KINDS["direct"]
PERCENTS = tuple(share / 100 for share in range(0, 101, 5))
FAULTY = Faults(("NES false",), ("up and down",))
"""The worst that a correct answer can have beside it."""


def scored(
    truth: GroundTruth,
    label: Label,
    confidence: float | None,
    scoring: Scoring | None = None,
    *,
    credit: float = 1.0,
    faults: Faults = NO_FAULTS,
) -> Verdict:
    stated = StatedConfidence(
        value=confidence, status="missing" if confidence is None else "stated"
    )
    return score(truth, Finding(label, "", (), credit), stated, faults, scoring or Scoring())


def rewards(truth: GroundTruth, label: Label, scoring: Scoring | None = None) -> Iterable[float]:
    """Return what an answer with this verdict can earn, whatever its confidence, credit and faults."""
    for confidence, credit, faults in product(
        (None, *PERCENTS), (1.0, LEAST_CREDIT, 0.1), (NO_FAULTS, FAULTY)
    ):
        yield scored(truth, label, confidence, scoring, credit=credit, faults=faults).reward
