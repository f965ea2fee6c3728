"""The records that travel between packages, disk, the Hub and the browser.

Nothing here does I/O or imports anything of ours. A row that fails validation never gets past
this file. What crosses a file, the Hub, HTTP or the browser is one of these frozen records; a
setting is a frozen dataclass elsewhere.
"""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Direction = Literal["UP", "DOWN"]
Choice = Literal["left", "right", "tie", "both_bad"]
Share = Annotated[float, Field(ge=0.0, le=1.0)]


class Record(BaseModel):
    """Base for every record: immutable, and unknown fields are an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


# ---- questions -----------------------------------------------------------------------------


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
    missions: dict[str, Enrichment] = {}


class MechanismTruth(Record):
    """As direct, but the question names the direction: never counted as direction accuracy."""

    kind: Literal["mechanism"] = "mechanism"
    tissue: str
    pathway: str
    direction: Direction
    missions: dict[str, Enrichment] = {}


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
    value: int
    unit: Literal["DEG"] = "DEG"
    subject: str


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


# ---- answers and what was thought of them ---------------------------------------------------


class Completion(Record):
    """One stage's answer. `text` is what the model wrote, untouched."""

    stage: str
    text: str
    n_tokens: int = Field(ge=0)
    finish_reason: Literal["stop", "length", "cancelled"]


class StatedConfidence(Record):
    """The confidence that an answer states about itself, never one that was guessed from its tone."""

    value: Share | None
    status: Literal["stated", "missing", "invalid"]
    quote: str | None = None


class Claim(Record):
    """Something an answer asserts, with the place (character offsets) where it asserts it."""

    subject: str
    says: str
    start: int = Field(ge=0)
    end: int = Field(ge=0)


class Verdict(Record):
    """What the verifiers thought of one completion. Correctness stands apart from reward.

    `scores` holds each verifier's score in 0..1, None where it does not apply.
    """

    verdict: Literal["correct", "incorrect", "contradictory", "no_claim"]
    reason: str
    claims: tuple[Claim, ...] = ()
    confidence: StatedConfidence
    scores: dict[str, Share | None]
    reward: Share


# ---- evaluation -----------------------------------------------------------------------------


class EvalRow(Record):
    """One question answered by one stage, with the full texts, so a later verifier can re-score it."""

    example: Example
    stage: str
    prompt: tuple[Message, ...]
    completion: str
    finish_reason: Literal["stop", "length", "cancelled"]
    verdict: Verdict


class Metric(Record):
    """A number with its n and 95 % interval; value None (with the reason in `note`) where undefined."""

    value: float | None
    n: int = Field(ge=0)
    low: float | None = None
    high: float | None = None
    note: str | None = None


class StageSummary(Record):
    """Metrics of one stage (or trivial baseline) on one group of questions."""

    stage: str
    is_baseline: bool
    group: str
    metrics: dict[str, Metric]


class EvalReport(Record):
    """Everything needed to trust, recompute and compare an evaluation."""

    data_name: str
    data_sha256: str
    chain_name: str
    stage_checksums: dict[str, str]
    settings: dict[str, str | int | float | None]
    versions: dict[str, str]
    created_at: datetime
    command: str
    rows: tuple[EvalRow, ...]
    summaries: tuple[StageSummary, ...]


# ---- the adapter chain and the run folder ----------------------------------------------------


class Probe(Record):
    """Top log-probabilities after one fixed prompt: a fingerprint of base + adapters up to a stage.

    `token_ids` and `logprobs` have equal length (top k of the next token, fp32, natural log).
    """

    prompt: str
    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]


class BaseIdentity(Record):
    """The base model that a chain stands on.

    `source` is what `training.base` resolves: "embedded", a Hub id or a local folder's name;
    `weights_sha256` is over the file it came from, `template_sha256` over the chat template.
    """

    source: str
    hub_id: str | None
    revision: str | None
    weights_sha256: str
    tokenizer_sha256: str
    template_sha256: str
    vocab_size: int
    licence: str | None = None


class ChainStage(Record):
    """One adapter of a chain. `path` is relative to the folder of chain.json.

    `mode` says how it builds on the stages before it: "stack" = a new adapter trained on top of
    base plus all earlier adapters, which stay active and unmerged.
    """

    name: str
    kind: Literal["sft", "dpo", "grpo"]
    mode: Literal["stack", "continue", "merge_then_new"]
    path: str
    sha256: str
    config_sha256: str
    probe: Probe


class ChainManifest(Record):
    """chain.json: the lineage of an adapter, from the root base to the last stage, in order."""

    schema_version: Literal[1] = 1
    name: str
    system_prompt: str
    base: BaseIdentity
    base_probe: Probe
    stages: tuple[ChainStage, ...]


class RunRecord(Record):
    """run.json: what a training run was asked to do and what it did."""

    schema_version: Literal[1] = 1
    name: str
    stage: Literal["sft", "dpo", "grpo"]
    command: str
    config: dict[str, object]
    seed: int
    data: dict[str, str | int]
    versions: dict[str, str]
    code_revision: str | None
    host: dict[str, str | int | float]
    started_at: datetime
    ended_at: datetime | None = None
    status: Literal["running", "finished", "failed", "stopped"] = "running"
    result: dict[str, float | int | str] = {}
    substitutions: tuple[str, ...] = ()


# ---- what people say ------------------------------------------------------------------------


class Answer(Record):
    """A stored answer: everything needed to ask for it again."""

    id: str
    asked_at: datetime
    session: str
    question: str
    example_id: str | None
    stage: str
    text: str
    finish_reason: Literal["stop", "length", "cancelled"]
    chain: str
    stage_sha256: str
    system_prompt: str
    seed: int
    max_new_tokens: int
    temperature: float
    dtype: str
    verdict: Verdict | None = None


class Comparison(Record):
    """One blind vote between two stored answers to the same question."""

    id: str
    voted_at: datetime
    rater: str
    question: str
    example_id: str | None
    left_answer: str
    right_answer: str
    left_stage: str
    right_stage: str
    choice: Choice


class StagePairCounts(Record):
    """How votes between two stages fell; `first` sorts before `second`."""

    first: str
    second: str
    first_chosen: int = Field(ge=0)
    second_chosen: int = Field(ge=0)
    ties: int = Field(ge=0)
    both_bad: int = Field(ge=0)


class VoteCounts(Record):
    """What the store holds. `votes` stand, `withdrawn` were taken back and count nowhere else.

    `usable` are votes for one side between different texts: those that make a preference pair.
    """

    answers: int = Field(ge=0)
    votes: int = Field(ge=0)
    withdrawn: int = Field(ge=0)
    raters: int = Field(ge=0)
    usable: int = Field(ge=0)
    by_choice: dict[Choice, int]
    by_stages: tuple[StagePairCounts, ...]
