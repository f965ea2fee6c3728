"""One reviewer at the checkpoints of its training, compared on development papers."""

from pydantic import Field

from evals.schema.corpora import Spread
from evals.schema.record import Record
from evals.schema.reviewreports import PairedRow
from evals.schema.reviewscores import ReviewScore


class StepScore(Record):
    """The reviewer after `step` optimizer steps. `statuses` say how many answers could be read."""

    step: int = Field(ge=0)
    is_last: bool
    score: ReviewScore
    statuses: dict[str, int]
    seconds_per_article: Spread | None


class StepsReport(Record):
    """Every step that was compared, in order, and the paired tests between all of them.

    All were measured alike on the same papers; none is called the best.
    """

    run: str
    n_articles: int = Field(ge=1)
    steps: tuple[StepScore, ...] = Field(min_length=2)
    tests: tuple[PairedRow, ...]
    notes: tuple[str, ...] = ()
