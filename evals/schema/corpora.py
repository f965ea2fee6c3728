"""What a corpus for training a reviewer holds, counted: sft_<split>_stats.json beside its rows."""

from typing import Literal

from evals.schema.articles import Split
from evals.schema.record import Record


class Spread(Record):
    """How values lie: fewest, mean, middle, 90th percentile (nearest rank) and most; zeros for none."""

    low: float
    mean: float
    median: float
    p90: float
    high: float


class BinAudit(Record):
    """Papers of one group, how many of them lost text to the budget, and what share of their tokens."""

    papers: int
    cut: int
    share_lost: float


class TruncationAudit(Record):
    """What the budget did to papers, by source and by their length in tokens before anything was cut."""

    overall: BinAudit
    by_source: dict[str, BinAudit]
    by_length: dict[str, BinAudit]


class BudgetRecord(Record):
    """The room of a row in tokens of the model's own tokenizer, and how it is shared out."""

    tokenizer: str
    context: int
    reply_reserve: int
    overlap: int
    max_parts: int
    instructions: int


class CorpusStatistics(Record):
    """One split of a corpus: what went in, what was left out and why, what came out.

    `concerns_before` and `concerns_after` count kept papers alone, `concerns_dropped` says why they
    differ. `articles_dropped` has papers by reason. `input_tokens` is what a model reads of a row
    before its reply.
    """

    schema_version: Literal[1] = 1
    corpus: str
    split: Split
    source: str
    prompt_version: str
    prompt_sha256: str
    budget: BudgetRecord
    articles_read: int
    articles_kept: int
    articles_dropped: dict[str, int]
    families: int
    synthetic: int
    concerns_before: int
    concerns_after: int
    concerns_dropped: dict[str, int]
    concerns_per_article: Spread
    sources: dict[str, int]
    rows: int
    rows_without_concerns: int
    parts: dict[str, int]
    input_tokens: Spread
    reply_tokens: Spread
    paper_tokens: Spread
    truncation: TruncationAudit
    file: str
    file_sha256: str
