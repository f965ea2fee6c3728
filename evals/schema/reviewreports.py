"""Reports on reviewers: what went wrong, gates, groups with intervals, paired tests, published results."""

from typing import Literal

from pydantic import Field

from evals.schema.provenance import MadeBy
from evals.schema.record import Record, Share
from evals.schema.reviewscores import Coverage, Matcher, Rates, ReviewScore

Mode = Literal["ok", "partial", "cut", "loop", "failed", "empty", "missing"]
"""How an answer ended: read whole, read in part, cut off, going in circles, unreadable, none, not there."""
Span = tuple[float, float]
RecallBin = Literal["all", "half or more", "below half", "none", "no human concerns"]


class Gate(Record):
    """A rate and what it has to reach; `is_sure`: the lower end of its interval reaches it too."""

    metric: Literal["f1", "recall"]
    value: float
    needed: float
    passes: bool
    is_sure: bool


class Gates(Record):
    """The published gates: documents ask for one of the two, the published code for both."""

    f1: Gate
    recall: Gate
    as_documented: bool
    as_coded: bool


class GroupRow(Rates):
    """The rates of a source, category or severity; None where an interval or a control cannot be had."""

    name: str
    interval_recall: Span | None = None
    interval_precision: Span | None = None
    interval_f1: Span | None = None
    f1_permuted: float | None = None
    n_answered: int | None = None
    n_none: int | None = None
    n_all: int | None = None


class WorstArticle(Record):
    """An article in which nothing was found, and how its answer ended."""

    article_id: str
    source: str
    mode: Mode | None
    n_human: int
    n_predicted: int


class ErrorAnalysis(Record):
    """What went wrong, by answer and by article; `modes` is empty where no answers were given."""

    modes: dict[Mode, int]
    not_ok: dict[str, Mode]
    recall: dict[RecallBin, int]
    worst: tuple[WorstArticle, ...]


class SystemReport(Record):
    """One system: its score, gates, groups, errors, and what in its figures cannot be."""

    score: ReviewScore
    gates: Gates
    sources: tuple[GroupRow, ...]
    categories: tuple[GroupRow, ...]
    severities: tuple[GroupRow, ...]
    errors: ErrorAnalysis
    faults: tuple[str, ...]


class PairedRow(Record):
    """Second minus first on the same articles; p by permutation, and corrected for all tests here."""

    first: str
    second: str
    metric: str
    difference: float
    interval: Span | None
    p: Share
    p_holm: Share
    is_exact: bool
    n_informative: int
    n_articles: int


class SharedErrors(Record):
    """Articles in which no system found anything, and human concerns that one system alone found."""

    none_found: tuple[str, ...]
    n_found_by_one: dict[str, int]
    n_found_by_all: int
    n_found_by_none: int


class PublishedResult(Record):
    """A result as someone published it: nothing of it was recomputed here, and it has no controls.

    What a file does not say is None. `faults` are statements that cannot all be true.
    """

    system: str
    file: str
    sha256: str
    form: Literal["result record", "training summary", "sources", "leaderboard"]
    benchmark: str = ""
    split: str = ""
    date: str = ""
    matcher: str = ""
    threshold: float | None = None
    precision: float
    recall: float
    f1: float
    recall_major: float | None = None
    soft_precision: float | None = None
    soft_recall: float | None = None
    n_articles: int | None = None
    n_human: int | None = None
    n_predicted: int | None = None
    n_matched: int | None = None
    interval_recall: Span | None = None
    interval_precision: Span | None = None
    n_none: int | None = None
    n_all: int | None = None
    groups: dict[str, "PublishedGroup"] = Field(default_factory=dict)
    faults: tuple[str, ...] = ()


class PublishedGroup(Record):
    """A source or category of a published result."""

    precision: float | None = None
    recall: float
    f1: float | None = None
    n_articles: int | None = None
    n_human: int | None = None
    n_predicted: int | None = None
    n_matched: int | None = None


class BoardRow(Record):
    """A system on a leaderboard; `rank` is None where systems cannot be told apart by a test."""

    rank: int | None
    system: str
    f1_above_permuted: float | None
    interval_above: Span | None
    intervals: dict[str, Span | None]
    micro: Rates
    controls: dict[str, float]
    coverage: Coverage
    made_by: MadeBy | None = None


class Board(Record):
    """Scores made with one instrument on one reference, best first, and which were tested in pairs."""

    matcher: Matcher
    reference_sha256: str
    n_human: int
    order: str
    rows: tuple[BoardRow, ...]
    tests: tuple[PairedRow, ...]


class ReviewReport(Record):
    """Everything `assay review report` found."""

    against: str
    systems: tuple[SystemReport, ...]
    tests: tuple[PairedRow, ...]
    shared: SharedErrors | None
    published: tuple[PublishedResult, ...] = ()
