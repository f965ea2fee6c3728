"""A store that also tells somebody of every vote, for places whose own disk does not stay."""

from collections.abc import Callable
from datetime import UTC, datetime

from evals.errors import LabError
from evals.schema import Answer, Comparison
from evals.schema.votes import VoteEvent
from lab.database import reading
from lab.store import Store
from lab.tables import AnswerRow

Write = Callable[[str], None]
"""Takes one line of JSON, without its end."""


class ToldStore(Store):
    """The store as ever; `write` gets an event for each vote that was kept or taken back."""

    def __init__(
        self, url: str, write: Write, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        super().__init__(url, now)
        self._write = write

    def add_comparison(self, comparison: Comparison) -> Comparison:
        """Keep one vote and tell of it; a double click is told once."""
        kept = super().add_comparison(comparison)
        if kept.id == comparison.id:
            left, right = (self._answer(name) for name in (kept.left_answer, kept.right_answer))
            self._tell(
                VoteEvent(
                    kind="vote",
                    at=kept.voted_at,
                    vote_id=kept.id,
                    vote=kept,
                    left=left,
                    right=right,
                )
            )
        return kept

    def void_comparison(self, comparison_id: str, rater: str) -> None:
        """Take a vote back and tell of it."""
        super().void_comparison(comparison_id, rater)
        self._tell(VoteEvent(kind="withdrawn", at=self._now(), vote_id=comparison_id))

    def _tell(self, event: VoteEvent) -> None:
        self._write(event.model_dump_json())

    def _answer(self, name: str) -> Answer:
        with reading(self._engine) as session:
            row = session.get(AnswerRow, name)
            if row is None:
                raise LabError(f"the answer {name!r} is no longer in the store.")
            return Answer.model_validate(row, from_attributes=True)
