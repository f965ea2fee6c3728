"""Reports of every task: rows, summaries, and what a task knows beside them."""

from datetime import datetime
from typing import ClassVar, Generic, Literal, TypeVar

from pydantic import Field

from evals.schema.questions import Example, Message, StatedConfidence, Verdict
from evals.schema.record import Grade, Record, Share
from evals.schema.refiner import RewardConfig, ScoredAnswer
from evals.schema.reviews import Concern, MadeBy


class GivenConfidence(Record):
    """A confidence that comes from elsewhere than the words of an answer."""

    source: str
    """where it comes from, such as recalibrated or likelihood"""
    value: Share | None
    """the confidence"""


class EvalRow(Record):
    """One question answered by one stage, with the full texts, so a later verifier can re-score it."""

    example: Example
    """the question"""
    stage: str
    """the stage or trivial baseline that answered"""
    prompt: tuple[Message, ...]
    """the messages that the model was given"""
    completion: str
    """the answer, untouched"""
    finish_reason: Literal["stop", "length", "cancelled"]
    """how the answer ended; length = cut off"""
    verdict: Verdict
    """what the verifiers say"""
    given: GivenConfidence | None = Field(default=None, exclude_if=lambda value: value is None)
    """a confidence from elsewhere, which the verdict then has"""

    def judged(self, verdict: Verdict) -> "EvalRow":
        """Return the row with another verdict, which keeps the confidence that is given."""
        if self.given is not None:
            status = "missing" if self.given.value is None else "stated"
            verdict = verdict.model_copy(update={"confidence": StatedConfidence(value=self.given.value, status=status)})
        return self.model_copy(update={"verdict": verdict})

    @property
    def id(self) -> str:
        return self.example.id

    @property
    def cluster(self) -> str:
        return self.example.cluster

    @property
    def grade(self) -> Grade:
        return self.verdict.grade


class Metric(Record):
    """A number with its n and 95 % interval."""

    value: float | None
    """the number; null where it is undefined"""
    n: int = Field(ge=0)
    """how many rows it is over"""
    low: float | None = None
    """lower end of the interval"""
    high: float | None = None
    """upper end of the interval"""
    note: str | None = None
    """why it is undefined, or what to mind"""


class StageSummary(Record):
    """Metrics of one stage (or trivial baseline) on one group of questions."""

    stage: str
    """the stage or baseline"""
    is_baseline: bool
    """whether it is a trivial baseline"""
    group: str = "all"
    """the group of rows; all = every row"""
    metrics: dict[str, Metric]
    """the metrics by name"""
    read_by: dict[str, int] = Field(default_factory=dict)
    """how many answers were read in which way; empty in reports from before verifiers-6"""


class GradedRow(Record):
    """The row of a task that has no row of its own."""

    id: str
    cluster: str
    stage: str
    prompt: tuple[Message, ...] = ()
    completion: str
    finish_reason: str = "stop"
    grade: Grade


RowT = TypeVar("RowT")


class Report(Record, Generic[RowT]):
    """Everything needed to trust, recompute and compare an evaluation of any task (`evals.task`)."""

    task: str
    """what was measured"""
    data_name: str
    """the data"""
    data_sha256: str
    """checksum of the data"""
    chain_name: str
    """the chain"""
    stage_checksums: dict[str, str]
    """checksum of each stage"""
    settings: dict[str, str | int | float | None]
    """how answers were drawn, and what else decided"""
    versions: dict[str, str]
    """what judges the answers now"""
    created_at: datetime
    """when it was made"""
    command: str
    """the command that makes it again"""
    rows: tuple[RowT, ...]
    """one per question and stage"""
    summaries: tuple[StageSummary, ...]
    """the metrics, by stage and group"""
    libraries: dict[str, str] = Field(default_factory=dict)
    """the libraries that gave the answers"""
    earlier_versions: tuple[dict[str, str], ...] = ()
    """what judged them before"""

    made_with: ClassVar[str] = "eval run"
    """The command that writes it."""
    made_alike: ClassVar[str] = "bring the older one up to date with `assay eval rescore REPORT.json`"
    """What to do about two that were measured in different ways."""

    def __hash__(self) -> int:
        """Reports are keys of caches: each stands for itself."""
        return id(self)

    @property
    def instrument(self) -> dict[str, str]:
        """What measured it: reports that differ in it are not compared."""
        return self.versions


class EvalReport(Report[EvalRow]):
    """A report on questions."""

    task: str = "questions"
    """what was measured"""


Assignment = Literal["optimal", "greedy"]


class Rates(Record):
    """Precision, recall and F1 of pooled counts; 0 where nothing was said or nothing was to be found.

    `recall_major` is over human concerns of severity major, None for a control.
    """

    precision: float
    recall: float
    f1: float
    recall_major: float | None = None
    n_human: int
    n_predicted: float
    n_matched: float


class Matcher(Record):
    """What decided that two concerns say the same; scores of different matchers are not comparable."""

    encoder: str
    """the text encoder"""
    revision: str
    """its version"""
    threshold: float
    """similarity from which two concerns say the same"""
    threshold_from: str
    """where the threshold comes from"""
    assignment: Assignment
    """how pairs are chosen"""
    false_match_rate: Share | None = None
    """share of concerns on other papers that match at this threshold"""


class ThresholdRates(Record):
    """What the lists get at a threshold."""

    threshold: float
    """the threshold"""
    f1: float
    """F1 at it"""
    recall: float
    """recall at it"""
    precision: float
    """precision at it"""
    f1_permuted: float | None = None
    """F1 of the lists held against one other paper each"""
    is_used: bool = False
    """whether it is the threshold of the report"""


class Coverage(Record):
    """How many articles of the reference were answered."""

    n_articles: int
    """articles of the reference"""
    n_answered: int
    """those with a row of predictions"""
    n_with_concerns: int
    """those with at least one predicted concern"""
    missing: tuple[str, ...]
    """articles without an answer"""
    unknown: tuple[str, ...]
    """answered articles that are in no reference"""
    n_figures_left_out: int
    """human concerns left out because they need a figure"""
    n_blank: int
    """predicted concerns without text, left out"""


class MatchedPair(Record):
    """One match: places in the lists as the files give them, before any filtering."""

    predicted: int
    """place of the concern in the predicted list, from 0"""
    human: int
    """place of the concern in the human list, from 0"""
    similarity: float
    """how alike they are"""


class ArticleScore(Record):
    """The counts of one article and its matches."""

    article_id: str
    """the paper"""
    stage: str = ""
    """who said it"""
    source: str
    """the collection it comes from"""
    n_human: int
    """human concerns"""
    n_predicted: int
    """predicted concerns"""
    n_matched: int
    """matches"""
    n_major: int
    """human concerns of severity major"""
    n_major_matched: int
    """those of them that are matched"""
    is_answered: bool
    """whether there is an answer"""
    pairs: tuple[MatchedPair, ...]
    """the matches"""
    by_control: dict[str, tuple[float, float]] = Field(default_factory=dict)
    """what each control matched and said; of the permuted one, means of its rounds"""
    groups: dict[str, tuple[int, int, int, int, int]] = Field(default_factory=dict)
    """by category and severity of the human concern: matched, human, predicted, major and matched, major"""

    def of_group(self, name: str) -> "ArticleScore":
        """Return the article as one category or severity alone sees it."""
        matched, human, predicted, major_matched, major = self.groups[name]
        counted = {"n_matched": matched, "n_human": human, "n_predicted": predicted}
        counted |= {"n_major_matched": major_matched, "n_major": major}
        return self.model_copy(update={**counted, "by_control": {}})

    @property
    def id(self) -> str:
        return self.article_id

    @property
    def cluster(self) -> str:
        return self.article_id

    @property
    def f1(self) -> float:
        """F1 of this article, 0 where neither side has a concern."""
        both = self.n_human + self.n_predicted
        return 2 * self.n_matched / both if both else 0.0

    @property
    def grade(self) -> Grade:
        counted = ("n_matched", "n_human", "n_predicted", "n_major_matched", "n_major")
        parts = {
            "precision": self.n_matched / self.n_predicted if self.n_predicted else 0.0,
            "recall": self.n_matched / self.n_human if self.n_human else 0.0,
            "f1": self.f1,
        }
        counts = {name: getattr(self, name) for name in counted}
        return Grade.model_construct(reward=self.f1, parts=parts, counts=counts, detail=self)


class ReviewedStage(Record):
    """What is known of one stage beside its rows and metrics."""

    made_by: MadeBy | None = None
    """who answered"""
    coverage: Coverage
    """how much was answered"""
    strongest: str | None = None
    """the control that it is tested against"""
    p: float | None = None
    """p of the paired permutation test"""
    is_exact: bool = False
    """whether all permutations were counted"""
    no_control: dict[str, str] = Field(default_factory=dict)
    """why a control could not be made"""
    thresholds: tuple[ThresholdRates, ...] = ()
    """the same lists at other thresholds, the lowest first"""
    warnings: tuple[str, ...] = ()
    """what to mind"""
    said: dict[str, tuple[Concern, ...]] = Field(default_factory=dict)
    """its concerns before cleaning, by article, where the run kept them"""


class ReviewReport(Report[ArticleScore]):
    """A report on reviewers: a row for each article and stage.

    `assay review score` keeps nothing that was said, and its `created_at` is the day of the answers, 1970 where no record
    tells.
    """

    task: str = "review"
    """what was measured"""
    made_with: ClassVar[str] = "review score"
    made_alike: ClassVar[str] = "score both again with the same options on the same reference"
    matcher: Matcher
    """what decided that two concerns say the same"""
    matcher_agreement: dict[str, Metric] = Field(default_factory=dict)
    """precision and recall of the matcher on hand-labelled pairs; empty for similarities from a file"""
    stages: dict[str, ReviewedStage]
    """what is known of each stage"""

    @property
    def instrument(self) -> dict[str, str]:
        """What matched the concerns."""
        matcher = self.matcher.model_dump(include={"encoder", "revision", "assignment"})
        return {**matcher, "threshold": f"{self.matcher.threshold:.4f}"}


class RefinerRow(Record):
    """One record answered by one stage."""

    stage: str
    """the stage or baseline"""
    cluster: str
    """what is kept together when rows are resampled"""
    answerable: bool
    """whether the evidence holds the answer"""
    finish_reason: Literal["stop", "length", "cancelled", "given"]
    """how the answer ended; given = it was not written by a model"""
    copied: Share | None
    """share of the answer's words that stand in one passage in runs of twelve or more"""
    words: int = Field(ge=0)
    """words of the answer"""
    scored: ScoredAnswer
    """the answer, graded"""

    @property
    def id(self) -> str:
        return self.scored.record_id

    @property
    def completion(self) -> str:
        return self.scored.completion

    @property
    def grade(self) -> Grade:
        return self.scored.grade


class RefinerReport(Report[RefinerRow]):
    """A report on a refiner. Always graded by all items."""

    task: str = "refine"
    """what was measured"""
    schema_version: Literal[2] = 2
    """version of the format; 2 could hold a second set of rubric items, which is skipped"""
    judge: str
    """who gave the verdicts; a judge that compares words says so"""
    judge_mode: str
    """how the judge was asked"""
    reward: RewardConfig
    """how verdicts became a reward"""

    @property
    def instrument(self) -> dict[str, str]:
        """Judge and reward; the versions are those of the libraries that answered."""
        return {
            "judge": self.judge,
            "judge mode": self.judge_mode,
            "reward": self.reward.model_dump_json(exclude_defaults=True),
        }
