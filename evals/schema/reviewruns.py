"""What a reviewer answered about papers, as `assay review infer` writes it: rows, and how they came about."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from evals.schema.corpora import Spread
from evals.schema.record import Record
from evals.schema.reviews import Concern, ParseStatus


class PartReply(Record):
    """What was answered about one part of a paper.

    `finish_reason` is the engine's own word: stop, length, or what a server says; "error" if there was
    no answer, and `error` says why. Tokens are None where a server does not count them.
    """

    part: int = Field(ge=1)
    status: ParseStatus
    finish_reason: str
    n_concerns: int = Field(ge=0)
    tokens_read: int | None = None
    tokens_written: int | None = None
    error: str = ""


class ReviewedRow(Record):
    """The concerns that a reviewer has about one paper, and what they were read from.

    `raw_output` joins the answers to the parts by newlines, untouched. `finish_reason` is stop if every
    part's is, else the first that is not. `asked_sha256` is over what was asked, so another text of the
    paper is told from this one. `tokens_lost` counts what no part of the paper could hold. `seconds` is
    the paper's share of its batch, by tokens.
    """

    article_id: str
    source: str = ""
    status: ParseStatus
    concerns: tuple[Concern, ...]
    problems: tuple[str, ...] = ()
    finish_reason: str
    parts: tuple[PartReply, ...]
    tokens_lost: int = Field(default=0, ge=0)
    seconds: float = Field(ge=0.0)
    asked_sha256: str
    raw_output: str

    @property
    def is_good(self) -> bool:
        """Whether the row can stand: every part was answered and something could be read."""
        return self.status != "failed" and not any(part.error for part in self.parts)


class EngineRecord(Record):
    """Who answered. `checksums` are of the base and of the adapters at work, where they are here.

    Of a server, `host` is where it was reached and `served` the models that it said had answered.
    """

    kind: Literal["chain", "server"]
    name: str
    host: str = ""
    served: tuple[str, ...] = ()
    stage: str = ""
    dtype: str = ""
    tokenizer: str
    constraint: str
    prompt_sha256: str
    checksums: dict[str, str] = Field(default_factory=dict)
    substitutions: tuple[str, ...] = ()


class ReviewRun(Record):
    """How rows came about, beside them as <name>.run.json. `seconds_per_article` is over rows of this run."""

    schema_version: Literal[1] = 1
    prompt_version: str
    engine: EngineRecord
    settings: dict[str, float | int | str]
    fingerprint: str
    started_at: datetime
    ended_at: datetime | None = None
    status: Literal["running", "stopped", "finished"] = "running"
    articles: int = 0
    reviewed_before: int = 0
    by_status: dict[str, int] = Field(default_factory=dict)
    finish_reasons: dict[str, int] = Field(default_factory=dict)
    concerns: int = 0
    seconds: float = 0.0
    seconds_per_article: Spread | None = None
