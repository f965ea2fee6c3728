"""The records that travel between packages, disk, the Hub and the browser.

Nothing here does I/O or imports anything of ours; a row that fails validation gets no further.
What crosses a file, the Hub, HTTP or the browser is one of these frozen records.
"""

from evals.schema.answers import Claim, Completion, StatedConfidence, Verdict
from evals.schema.articles import (
    Article,
    Conversation,
    Figure,
    PageStart,
    PlantedFlaw,
    Reference,
    ReviewExample,
    Section,
    Split,
    TextOrigin,
    Turn,
)
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
    "Article",
    "BaseIdentity",
    "ChainManifest",
    "ChainStage",
    "Choice",
    "Claim",
    "Comparison",
    "ComparisonTruth",
    "Completion",
    "ConservationTruth",
    "Conversation",
    "CountTruth",
    "DirectTruth",
    "Direction",
    "Enrichment",
    "EvalReport",
    "EvalRow",
    "Example",
    "FactsTruth",
    "Figure",
    "GroundTruth",
    "LabelTruth",
    "MechanismTruth",
    "Message",
    "Metric",
    "PageStart",
    "PlantedFlaw",
    "Probe",
    "Record",
    "Reference",
    "ReviewExample",
    "RunRecord",
    "Section",
    "Share",
    "Split",
    "StagePairCounts",
    "StageSummary",
    "StatedConfidence",
    "TextOrigin",
    "Turn",
    "UncertaintyTruth",
    "Verdict",
    "VoteCounts",
]
