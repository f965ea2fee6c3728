"""A refiner's evaluation: every answer with what was made of it, and the figures that follow."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from evals.schema.record import Record, Share
from evals.schema.refining import JudgedItem, RewardConfig, ScoredAnswer
from evals.schema.reports import Metric


class RefinerRow(Record):
    """One record answered by one stage. `cluster` is kept together when rows are resampled.

    `copied` is the share of its words that stand in one passage in runs of twelve or more. `other_items`
    are those of another writer than the record's: they are judged beside it and in no reward.
    """

    stage: str
    cluster: str
    answerable: bool
    finish_reason: Literal["stop", "length", "cancelled", "given"]
    copied: Share | None
    words: int = Field(ge=0)
    scored: ScoredAnswer
    other_items: tuple[JudgedItem, ...] = ()


class RefinerSummary(Record):
    """Means of one stage, or of an answer that anybody could give, with 95 % cluster-bootstrap intervals."""

    stage: str
    is_baseline: bool
    metrics: dict[str, Metric]


class RefinerReport(Record):
    """Everything needed to trust, recompute and compare what a refiner answered.

    Always graded by all items. `judge` names who gave the verdicts: a judge that compares words says so.
    `other_items` is what the set of another writer is called, None if there was none. Version 1 had no
    such items and did not say who wrote an item.
    """

    schema_version: Literal[1, 2] = 2
    data_name: str
    data_sha256: str
    other_items: str | None = None
    other_items_sha256: str | None = None
    chain_name: str
    stage_checksums: dict[str, str]
    judge: str
    judge_mode: str
    reward: RewardConfig
    settings: dict[str, str | int | float | None]
    versions: dict[str, str]
    created_at: datetime
    command: str
    rows: tuple[RefinerRow, ...]
    summaries: tuple[RefinerSummary, ...]


class RefinerDifference(Record):
    """A metric of two stages on the same records: second minus first, over clusters.

    `p_permutation` swaps the sides of whole clusters; `p_holm` is corrected for every test
    of its family: the metrics, or the rubric by who wrote its items.
    Null where a metric is defined for neither, or an interval would be a single point.
    """

    metric: str
    n: int
    first: float | None
    second: float | None
    difference: float | None
    interval: tuple[float, float] | None
    p_permutation: Share | None
    p_holm: Share | None = None


class RefinerComparison(Record):
    """Two stages on the same records, metric by metric."""

    first: str
    second: str
    data_name: str
    judge: str
    n: int
    n_clusters: int
    differences: tuple[RefinerDifference, ...]
