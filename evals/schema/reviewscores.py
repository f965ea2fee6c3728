"""A score of concerns against human ones: every figure, what it was measured with, and its controls."""

from typing import Literal

from pydantic import Field

from evals.schema.provenance import MadeBy
from evals.schema.record import Record, Share

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
    """Means over articles or categories; `n` is how many have human or predicted concerns.

    Recall is the mean over those with human concerns, precision and F1 over all `n`.
    """

    precision: float
    recall: float
    f1: float
    recall_major: float
    n: int


class Macro(MeanRates):
    """Means over articles, and beside them over the categories that occur among human concerns."""

    categories: MeanRates


class SoftRates(Record):
    """As the hard rates, pooled, but a match counts by its similarity; `macro` is the mean over articles."""

    precision: float
    recall: float
    f1: float
    macro: "SoftMeans"


class SoftMeans(Record):
    """Soft rates averaged over articles, as `Macro` averages the hard ones."""

    precision: float
    recall: float
    f1: float


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
    """What a list gets that knows nothing of the paper; `note` says how it was made."""

    note: str


class Controls(Record):
    """The controls beside a score; None where one cannot be made, with the reason in `notes`."""

    permuted: Control | None = None
    count_bound: Control
    generic: Control | None = None
    bm25: Control | None = None
    notes: dict[str, str] = Field(default_factory=dict)


class Headline(Record):
    """The score above what the same lists get on other papers of the source, and the published form."""

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

    @property
    def instrument(self) -> tuple[str, str, float, str, str]:
        """What must be equal for two scores to stand in one table."""
        return (
            self.encoder,
            self.revision,
            round(self.threshold, 4),
            self.assignment,
            self.figures,
        )


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


class CurvePoint(Record):
    """The score at one threshold or list length, and what permuted articles get there."""

    at: float
    precision: float
    recall: float
    f1: float
    f1_permuted: float | None
    n_predicted: int


class Curves(Record):
    """Precision and recall over thresholds, and over the first concerns of each article."""

    thresholds: tuple[CurvePoint, ...]
    lengths: tuple[CurvePoint, ...]


class MatchedPair(Record):
    """One match: places in the lists as the files give them, before any filtering."""

    predicted: int
    human: int
    similarity: float


class ArticleScore(Record):
    """The counts of one article and its matches."""

    article_id: str
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
    curves: Curves | None
    matcher: Matcher
    coverage: Coverage
    best_similarities_passing: Share | None
    warnings: tuple[str, ...]
    reference_sha256: str
    seed: int
    draws: int
    articles: tuple[ArticleScore, ...] | None = None
    made_by: MadeBy | None = None
    """Who gave the answers, where a record stood beside them."""
