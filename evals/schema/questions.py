"""A question with its own answer and what is known to be true about it."""

from typing import Annotated, Literal

from pydantic import Field

from evals.schema.record import Direction, Record, Share


class Message(Record):
    """One turn of a conversation, in the shape chat templates and TRL take."""

    role: Literal["system", "user", "assistant"]
    content: str


class Enrichment(Record):
    """One gene set in one mission: normalised enrichment score and adjusted p (None = not given)."""

    nes: float
    padj: float | None


class DirectTruth(Record):
    """The consensus direction of a gene set in a tissue."""

    kind: Literal["direct"] = "direct"
    tissue: str
    pathway: str
    direction: Direction
    missions: dict[str, Enrichment] = Field(default_factory=dict)


class MechanismTruth(Record):
    """As direct, but the question names the direction: never counted as direction accuracy."""

    kind: Literal["mechanism"] = "mechanism"
    tissue: str
    pathway: str
    direction: Direction
    missions: dict[str, Enrichment] = Field(default_factory=dict)


class UncertaintyTruth(Record):
    """A gene set that missions disagree about; a right answer says that they disagree."""

    kind: Literal["uncertainty"] = "uncertainty"
    tissue: str
    pathway: str
    missions_up: tuple[str, ...]
    missions_down: tuple[str, ...]
    missions_ns: tuple[str, ...] = ()


class ComparisonTruth(Record):
    """One gene set over several tissues."""

    kind: Literal["comparison"] = "comparison"
    pathway: str
    tissue_directions: dict[str, Direction]
    is_consistent: bool


class ConservationTruth(Record):
    """How well missions agree in a tissue, by mean pairwise correlation of NES."""

    kind: Literal["conservation"] = "conservation"
    tissue: str
    level: Literal["highly conserved", "moderately conserved", "poorly conserved"]
    nes_mean_r: float


class CountTruth(Record):
    """A count of differentially expressed genes, exact up to format."""

    kind: Literal["count"] = "count"
    value: int = Field(ge=0)
    unit: Literal["DEG"] = "DEG"
    subject: str = Field(min_length=1, pattern=r"\S")


class LabelTruth(Record):
    """One name out of several: a class, a tissue, a pattern, yes or no.

    `accept` are other spellings of the right name, `others` the wrong names it competes with.
    """

    kind: Literal["label"] = "label"
    value: str
    subject: str | None = None
    accept: tuple[str, ...] = ()
    others: tuple[str, ...] = ()


class AbstainTruth(Record):
    """The data cannot answer; a right answer says so."""

    kind: Literal["abstain"] = "abstain"


class FactsTruth(Record):
    """Facts that a free answer should state; not scored as one claim."""

    kind: Literal["facts"] = "facts"
    facts: tuple[str, ...]


GroundTruth = Annotated[
    DirectTruth
    | MechanismTruth
    | UncertaintyTruth
    | ComparisonTruth
    | ConservationTruth
    | CountTruth
    | LabelTruth
    | AbstainTruth
    | FactsTruth,
    Field(discriminator="kind"),
]


class Example(Record):
    """One question with its own answer and what is known about it.

    `facts` are the ids of the facts that the question asks for (the unit of the train/test
    split), `support` the ids of the figures that they are derived from. `cluster` groups
    questions that are not independent (one gene set in one tissue): intervals resample clusters.
    """

    id: str
    source: Literal["kmp", "genelab"]
    kind: str
    prompt: str
    answer: str
    confidence: Share
    ground_truth: GroundTruth
    facts: tuple[str, ...]
    support: tuple[str, ...] = ()
    cluster: str
    tissue: str | None = None
    split: Literal["train", "test"]
