"""The records that travel between packages, disk, the Hub and the browser.

Nothing here does I/O or imports anything of ours; a row that fails validation gets no further.
What crosses a file, the Hub, HTTP or the browser is one of these frozen records.
"""

from evals.schema.answers import Claim, Completion, StatedConfidence, Verdict
from evals.schema.chains import BaseIdentity, ChainManifest, ChainStage, Probe
from evals.schema.opinions import Answer, Comparison, StagePairCounts, VoteCounts
from evals.schema.questions import (
    AbstainTruth,
    ComparisonTruth,
    ConservationTruth,
    CountTruth,
    DirectTruth,
    Enrichment,
    Example,
    FactsTruth,
    GroundTruth,
    LabelTruth,
    MechanismTruth,
    Message,
    UncertaintyTruth,
)
from evals.schema.record import Choice, Direction, Record, Share
from evals.schema.reports import EvalReport, EvalRow, Metric, StageSummary
from evals.schema.runs import RunRecord

__all__ = [
    "AbstainTruth",
    "Answer",
    "BaseIdentity",
    "ChainManifest",
    "ChainStage",
    "Choice",
    "Claim",
    "Comparison",
    "ComparisonTruth",
    "Completion",
    "ConservationTruth",
    "CountTruth",
    "DirectTruth",
    "Direction",
    "Enrichment",
    "EvalReport",
    "EvalRow",
    "Example",
    "FactsTruth",
    "GroundTruth",
    "LabelTruth",
    "MechanismTruth",
    "Message",
    "Metric",
    "Probe",
    "Record",
    "RunRecord",
    "Share",
    "StagePairCounts",
    "StageSummary",
    "StatedConfidence",
    "UncertaintyTruth",
    "Verdict",
    "VoteCounts",
]
