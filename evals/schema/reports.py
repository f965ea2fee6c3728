"""Reports of every task, with the scores of reviewers, their errors and results that others published."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, time
from typing import ClassVar, Generic, Literal, TypeVar

from pydantic import Field

from evals.schema.questions import Example, Message, Verdict
from evals.schema.record import Grade, Record, Share
from evals.schema.refiner import RewardConfig, ScoredAnswer
from evals.schema.reviews import Concern, MadeBy


class EvalRow(Record):
    """One question answered by one stage, with the full texts, so a later verifier can re-score it."""

    example: Example
    stage: str
    prompt: tuple[Message, ...]
    completion: str
    finish_reason: Literal["stop", "length", "cancelled"]
    verdict: Verdict

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


Row = TypeVar("Row")


class Report(Record, Generic[Row]):
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
    rows: tuple[Row, ...]
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
FigurePolicy = Literal["both", "flag", "keep"]
"""Which human concerns are left out: flag *and* category say figure (either is enough), flag, none."""


class Rates(Record):
    """Precision, recall and F1 of pooled counts; 0 where nothing was said or nothing was to be found.

    `recall_major` is over human concerns of severity major.
    """

    precision: float
    recall: float
    f1: float
    recall_major: float
    n_human: int
    n_predicted: float
    n_matched: float
    n_articles: int


class MeanRates(Record):
    """Means over the `n` articles or categories with any concerns; recall over those with human ones."""

    precision: float
    recall: float
    f1: float
    recall_major: float
    n: int


class Macro(MeanRates):
    """Means over articles, and beside them over the categories that occur among human concerns."""

    categories: MeanRates


class SoftMeans(Record):
    """Soft rates averaged over articles, as `Macro` averages the hard ones."""

    precision: float
    recall: float
    f1: float


class SoftRates(SoftMeans):
    """As the hard rates, pooled, but a match counts by its similarity; `macro` is the mean over articles."""

    macro: SoftMeans


class LabelAccuracy(Record):
    """How often a matched concern has the human's label, among the `n` pairs where it has any."""

    accuracy: float | None
    n: int
    n_unlabelled: int


class Labels(Record):
    """Label accuracy on matched pairs."""

    category: LabelAccuracy
    severity: LabelAccuracy


class Control(Rates):
    """What a list gets that objects to nothing in the paper; `note` says how it was made."""

    note: str


class Controls(Record):
    """The controls beside a score; None where one cannot be made, with the reason in `notes`."""

    permuted: Control | None = None
    count_bound: Control
    generic: Control | None = None
    generic_titled: Control | None = None
    bm25: Control | None = None
    echo: Control | None = None
    echo_objected: Control | None = None
    notes: dict[str, str] = Field(default_factory=dict)


class Headline(Record):
    """F1 above the strongest control, and, as before 23 November 2026, above permuted papers (`interval`).

    `strongest` names that control, `p` is of the paired permutation test against it.
    """

    f1_above_strongest: float | None = None
    interval_above_strongest: tuple[float, float] | None = None
    strongest: str | None = None
    f1_strongest: float | None = None
    p: float | None = None
    is_exact: bool = False
    f1_above_permuted: float | None
    interval: tuple[float, float] | None
    f1: float
    f1_permuted: float | None


class Matcher(Record):
    """What decided that two concerns say the same; scores of different matchers are not comparable."""

    encoder: str
    revision: str
    threshold: float
    threshold_from: str
    assignment: Assignment
    figures: FigurePolicy
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
    share: Share
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

    `groups` counts by category and severity of the human concern: matched, human, predicted, major and matched, major.
    """

    article_id: str
    stage: str = ""
    source: str
    n_human: int
    n_predicted: int
    n_matched: int
    n_major: int
    n_major_matched: int
    soft: float
    precision: float
    recall: float
    f1: float
    is_answered: bool
    pairs: tuple[MatchedPair, ...]
    n_matched_permuted: float | None = None
    """What the list gets on other papers of the source, mean of the rounds of the permuted control."""
    by_control: dict[str, tuple[float, float]] = Field(default_factory=dict)
    """What each control matched and said."""
    groups: dict[str, tuple[int, int, int, int, int]] = Field(default_factory=dict)

    def of_group(self, name: str) -> "ArticleScore":
        """Return the article as one category or severity alone sees it."""
        matched, human, predicted, major_matched, major = self.groups[name]
        counted = {"n_matched": matched, "n_human": human, "n_predicted": predicted}
        counted |= {"n_major_matched": major_matched, "n_major": major}
        return self.model_copy(update={**counted, "n_matched_permuted": None, "by_control": {}})

    @property
    def id(self) -> str:
        return self.article_id

    @property
    def cluster(self) -> str:
        return self.article_id

    @property
    def grade(self) -> Grade:
        counted = ("n_matched", "n_human", "n_predicted", "n_major_matched", "n_major", "soft")
        return Grade.model_construct(
            reward=self.f1,
            parts={"precision": self.precision, "recall": self.recall, "f1": self.f1},
            counts={name: getattr(self, name) for name in counted},
            detail=self,
        )


class GroupSpans(Record):
    """95 % intervals of a group's rates over draws of articles, None where draws show no spread."""

    recall: tuple[float, float] | None
    precision: tuple[float, float] | None
    f1: tuple[float, float] | None


class ReviewScore(Record):
    """Everything `assay review score` found."""

    system: str
    headline: Headline
    micro: Rates
    macro: Macro
    soft: SoftRates
    per_source: dict[str, Rates]
    per_category: dict[str, Rates]
    per_severity: dict[str, Rates]
    intervals: dict[str, tuple[float, float] | None]
    group_intervals: dict[str, dict[str, GroupSpans]] = Field(default_factory=dict)
    """By "source", "category" and "severity", then by group."""
    labels: Labels
    controls: Controls | None
    thresholds: tuple[ThresholdRates, ...] = ()
    """The same lists at other thresholds, the lowest first."""
    restatements: Metric | None = None
    """The share of concerns said again in other words, by hand, that the matcher sees; None for ready similarities."""
    matcher: Matcher
    coverage: Coverage
    best_similarities_passing: Share | None
    warnings: tuple[str, ...]
    reference_sha256: str
    seed: int
    draws: int
    articles: tuple[ArticleScore, ...] | None = None
    """Only where `assay review score --per-article` prints them."""
    made_by: MadeBy | None = None
    """Who gave the answers, where a record stood beside them."""


class ReviewedStage(Record):
    """What a stage said of each article, by id and before cleaning, and its score."""

    said: dict[str, tuple[Concern, ...]]
    score: ReviewScore


class ReviewReport(Report[ArticleScore]):
    """A report on one reviewer: a row for each article and stage, the whole score of the last stage, and what was said.

    `assay review score` keeps no `stages`. `created_at` is the day of the answers, 1970 where no record tells.
    """

    task: str = "review"
    made_with: ClassVar[str] = "review score"
    made_alike: ClassVar[str] = "score both again with the same options on the same reference"
    score: ReviewScore
    stages: dict[str, ReviewedStage] = Field(default_factory=dict)

    def by_stage(self) -> "tuple[ReviewReport, ...]":
        """Return a report on each stage by itself, named after chain and stage; that of one score as it is."""
        found = []
        for stage, each in self.stages.items():
            rows = tuple(row for row in self.rows if row.stage == stage)
            name = stage if stage == self.chain_name else f"{self.chain_name}, {stage}"
            score = each.score.model_copy(update={"system": name, "articles": rows})
            found.append(ReviewReport.of(score, [one for one in self.summaries if one.stage == stage]))
        return tuple(found) or (self,)

    @classmethod
    def of(cls, score: ReviewScore, summaries: Sequence[StageSummary]) -> "ReviewReport":
        """Return the report of a score with its articles and its metrics by group."""
        made, name = score.made_by, score.system
        controls = {
            kind: Metric(value=each.f1, n=each.n_articles)
            for kind, each in score.controls or ()
            if isinstance(each, Control)
        }
        return cls(
            data_name=f"{score.micro.n_human:,} human concerns",
            data_sha256=score.reference_sha256,
            chain_name=name,
            stage_checksums=made.checksums if made else {},
            settings=dict(made.settings) if made else {},
            versions={},
            created_at=datetime.combine(made.date if made else date(1970, 1, 1), time(tzinfo=UTC)),
            command="assay review score",
            rows=tuple(each.model_copy(update={"stage": name}) for each in score.articles or ()),
            summaries=tuple(
                each.model_copy(
                    update={"stage": name, "metrics": each.metrics | (controls if each.group == "all" else {})}
                )
                for each in summaries
            ),
            score=score.model_copy(update={"articles": None}),
        )

    @property
    def instrument(self) -> dict[str, str]:
        """What matched the concerns."""
        matcher = self.score.matcher.model_dump(include={"encoder", "revision", "assignment", "figures"})
        return {**matcher, "threshold": f"{self.score.matcher.threshold:.4f}"}


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
