"""The records that travel between packages, disk, the Hub and the browser.

Nothing here imports anything of ours or reads more than its own `naming.toml`; a row that fails validation gets no further.
What crosses a file, the Hub, HTTP or the browser is one of these frozen records.
"""

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
from evals.schema.questions import (
    CANNOT_BE_TOLD,
    AbstainTruth,
    ChoiceTruth,
    Claim,
    ComparisonTruth,
    Completion,
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
    NumberTruth,
    OwnTruth,
    RubricItem,
    RubricTruth,
    SetTruth,
    StatedConfidence,
    TermTruth,
    Tolerance,
    UncertaintyTruth,
    Verdict,
)
from evals.schema.record import Choice, Direction, Grade, Record, Share
from evals.schema.reports import EvalReport, EvalRow, Metric, StageSummary
from evals.schema.runs import BaseIdentity, ChainManifest, ChainStage, MergedAdapter, MergedBase, Probe, RunRecord
from evals.schema.votes import Answer, Comparison, StagePairCounts, VoteCounts
