"""Pairs of answers to one record of which one is better, and what they show about rubric items."""

from datetime import datetime
from typing import Literal

from pydantic import Field, model_validator

from evals.schema.record import Record, Share
from evals.schema.refining import Polarity, RefinerRecord

PreferredBy = Literal["people", "rule", "unstated"]
"""Who says which answer is better: people; a rule that made a good answer worse; nobody says."""
Finding = Literal["agrees", "seldom", "contradicts", "too few pairs", "too few groups"]
UNDECIDED: tuple[Finding, ...] = ("too few pairs", "too few groups")
"""Findings that show nothing about an item."""


class AnswerPair(Record):
    """A better and a worse answer to one record, both in the output grammar.

    `about` says in a few words what makes the difference, as far as it is known.
    """

    id: str = Field(min_length=1)
    record: RefinerRecord
    better: str
    worse: str
    preferred_by: PreferredBy = "unstated"
    about: str = ""

    @model_validator(mode="after")
    def _answers_differ(self) -> "AnswerPair":
        if self.better == self.worse:
            raise ValueError("better and worse are the same answer; a pair has two")
        return self


class ItemFigures(Record):
    """A kind of rubric item, and how often it sides with the better answer of a pair.

    A kind is all items of one writer, polarity and title: what is known of a kind from some records
    holds for records that are trained on. `decided` pairs got two different verdicts; `ties` two equal
    ones, `missing` lack one. `share` is the mean, over the `groups` of records that decided, of each
    one's share of `consistent` pairs, with its 95 % Wilson interval over groups; both are None where
    nothing was decided. `is_kept` follows from `finding`: too few pairs or groups of them show nothing,
    so such items are kept.
    """

    writer: str
    polarity: Polarity
    title: str
    pairs: int = Field(ge=0)
    decided: int = Field(ge=0)
    consistent: int = Field(ge=0)
    ties: int = Field(ge=0)
    missing: int = Field(ge=0)
    groups: int = Field(ge=0)
    share: Share | None
    interval: tuple[float, float] | None
    finding: Finding
    is_kept: bool


class ItemReport(Record):
    """Rubric items held against preferences; `assay train refiner` takes it and drops what is not kept.

    `groups` are those of the pairs' records, which are never trained on with this report. `unreadable`
    counts pairs left out because one answer breaks a hard rule of the grammar, so nobody judges it.
    `traces` are checksums of these records' questions and passages, so that a copy under another id is
    known. Reports from before groups were counted have a `min_groups` of 1.
    """

    schema_version: Literal[1] = 1
    pairs_name: str
    pairs_sha256: str
    pairs: int = Field(ge=0)
    unreadable: int = Field(ge=0)
    preferred_by: dict[PreferredBy, int]
    groups: tuple[str, ...]
    traces: tuple[str, ...] = ()
    judge: str
    judge_mode: str
    min_decided: int = Field(ge=1)
    min_share: Share
    min_groups: int = Field(default=1, ge=1)
    items: tuple[ItemFigures, ...]
    versions: dict[str, str]
    created_at: datetime
    command: str

    @property
    def dropped(self) -> frozenset[tuple[str, Polarity, str]]:
        """Writer, polarity and title of the items that are not kept."""
        return frozenset(
            (each.writer, each.polarity, each.title) for each in self.items if not each.is_kept
        )
