"""Reports of every task: rows, summaries, and what a task knows beside them."""

from datetime import datetime
from typing import ClassVar, Generic, Literal, TypeVar

from pydantic import Field

from evals.schema.questions import Example, Message, StatedConfidence, Verdict
from evals.schema.record import Grade, Record, Share
from evals.schema.refiner import RewardConfig, ScoredAnswer
from evals.schema.reviews import Concern, MadeBy


class GivenConfidence(Record):
    """A confidence that comes from elsewhere than the words of an answer, such as "recalibrated" or "likelihood"."""

    source: str
    value: Share | None


class EvalRow(Record):
    """One question answered by one stage, with the full texts, so a later verifier can re-score it.

    The confidence of the verdict is the one that is `given`, where one is.
    """

    example: Example
    stage: str
    prompt: tuple[Message, ...]
    completion: str
    finish_reason: Literal["stop", "length", "cancelled"]
    verdict: Verdict
    given: GivenConfidence | None = Field(default=None, exclude_if=lambda value: value is None)

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
    """A number with its n and 95 % interval; value None (with the reason in `note`) where undefined."""

    value: float | None
    n: int = Field(ge=0)
    low: float | None = None
    high: float | None = None
    note: str | None = None


class StageSummary(Record):
    """Metrics of one stage (or trivial baseline) on one group of questions.

    `read_by` counts the answers by how they were read: "answer" (the answer line), "text", "judge", "none" (nothing to
    read). Empty in reports of before verifiers-6, which read every answer from its text.
    """

    stage: str
    is_baseline: bool
    group: str = "all"
    metrics: dict[str, Metric]
    read_by: dict[str, int] = Field(default_factory=dict)


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
    """Everything needed to trust, recompute and compare an evaluation of any task (`evals.task`).

    `libraries` gave the answers; `versions` judge them now, `earlier_versions` did so before.
    """

    task: str
    data_name: str
    data_sha256: str
    chain_name: str
    stage_checksums: dict[str, str]
    settings: dict[str, str | int | float | None]
    versions: dict[str, str]
    created_at: datetime
    command: str
    rows: tuple[RowT, ...]
    summaries: tuple[StageSummary, ...]
    libraries: dict[str, str] = Field(default_factory=dict)
    earlier_versions: tuple[dict[str, str], ...] = ()

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
    revision: str
    threshold: float
    threshold_from: str
    assignment: Assignment
    false_match_rate: Share | None = None


class ThresholdRates(Record):
    """What the lists get at a threshold; `f1_permuted` is that of the lists on one other paper each."""

    threshold: float
    f1: float
    recall: float
    precision: float
    f1_permuted: float | None = None
    is_used: bool = False


class Coverage(Record):
    """How many articles of the reference were answered; `unknown` ids are in no reference."""

    n_articles: int
    n_answered: int
    n_with_concerns: int
    missing: tuple[str, ...]
    unknown: tuple[str, ...]
    n_figures_left_out: int
    n_blank: int


class MatchedPair(Record):
    """One match: places in the lists as the files give them, before any filtering."""

    predicted: int
    human: int
    similarity: float


class ArticleScore(Record):
    """The counts of one article and its matches.

    `by_control` has what each control matched and said; of the permuted one, means of its rounds. `groups` counts by
    category and severity of the human concern: matched, human, predicted, major and matched, major.
    """

    article_id: str
    stage: str = ""
    source: str
    n_human: int
    n_predicted: int
    n_matched: int
    n_major: int
    n_major_matched: int
    is_answered: bool
    pairs: tuple[MatchedPair, ...]
    by_control: dict[str, tuple[float, float]] = Field(default_factory=dict)
    groups: dict[str, tuple[int, int, int, int, int]] = Field(default_factory=dict)

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
    """What is known of one stage beside its rows and metrics.

    `strongest` is the control that it is tested against, `p` that of the paired permutation test; `no_control` says why
    a control could not be made. `said` holds its concerns before cleaning, by article, where the run kept them.
    """

    made_by: MadeBy | None = None
    coverage: Coverage
    strongest: str | None = None
    p: float | None = None
    is_exact: bool = False
    no_control: dict[str, str] = Field(default_factory=dict)
    thresholds: tuple[ThresholdRates, ...] = ()
    """The same lists at other thresholds, the lowest first."""
    warnings: tuple[str, ...] = ()
    said: dict[str, tuple[Concern, ...]] = Field(default_factory=dict)


class ReviewReport(Report[ArticleScore]):
    """A report on reviewers: a row for each article and stage.

    `matcher_agreement` holds the precision and recall of the matcher on hand-labelled pairs of concerns; empty for
    similarities from a file. `assay review score` keeps nothing that was said, and its `created_at` is the day of the
    answers, 1970 where no record tells.
    """

    task: str = "review"
    made_with: ClassVar[str] = "review score"
    made_alike: ClassVar[str] = "score both again with the same options on the same reference"
    matcher: Matcher
    matcher_agreement: dict[str, Metric] = Field(default_factory=dict)
    stages: dict[str, ReviewedStage]

    @property
    def instrument(self) -> dict[str, str]:
        """What matched the concerns."""
        matcher = self.matcher.model_dump(include={"encoder", "revision", "assignment"})
        return {**matcher, "threshold": f"{self.matcher.threshold:.4f}"}


class RefinerRow(Record):
    """One record answered by one stage. `cluster` is kept together when rows are resampled.

    `copied` is the share of its words that stand in one passage in runs of twelve or more.
    """

    stage: str
    cluster: str
    answerable: bool
    finish_reason: Literal["stop", "length", "cancelled", "given"]
    copied: Share | None
    words: int = Field(ge=0)
    scored: ScoredAnswer

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
    """A report on a refiner. Always graded by all items.

    `judge` names who gave the verdicts: a judge that compares words says so. Version 2 could hold a second set of
    rubric items, which is skipped when one is read.
    """

    task: str = "refine"
    schema_version: Literal[2] = 2
    judge: str
    judge_mode: str
    reward: RewardConfig

    @property
    def instrument(self) -> dict[str, str]:
        """Judge and reward; the versions are those of the libraries that answered."""
        return {
            "judge": self.judge,
            "judge mode": self.judge_mode,
            "reward": self.reward.model_dump_json(exclude_defaults=True),
        }
