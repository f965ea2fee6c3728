"""Reviews in the store: as they came from a model, every version of them, and blind votes between two.

Who may read and change them, and what becomes of versions: `lab.versions`.
"""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Engine, delete, or_, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from evals.schema import Choice
from evals.schema.drafts import DraftConcern, KeptReview, ReviewVersion
from lab.database import reading, writing
from lab.tables import ReviewRow, ReviewVersionRow, ReviewVoteRow
from lab.versions import Versions

KEPT = Versions(ReviewRow, ReviewVersionRow, "review_id", "concerns", "review")


@dataclass(frozen=True)
class ReviewVote:
    """A standing blind vote with both reviews as they came from the models."""

    id: str
    voted_at: datetime
    rater: str
    left: KeptReview
    right: KeptReview
    choice: Choice


class Shelf:
    """Reviews in one database; every method may be called from any thread."""

    def __init__(self, engine: Engine, now: Callable[[], datetime]) -> None:
        self._engine, self._now = engine, now

    def add(self, review: KeptReview) -> None:
        """Keep a review."""
        row = ReviewRow(
            id=review.id,
            made_at=review.made_at,
            session=review.session,
            document=review.model_dump(mode="json"),
        )
        with writing(self._engine) as session:
            session.add(row)

    def review(self, review_id: str, desk: str) -> KeptReview:
        """Return a review of this desk; LabError if there is none."""
        with reading(self._engine) as session:
            return _review(KEPT.mine(session, review_id, desk))

    def reviews(self, desk: str) -> tuple[KeptReview, ...]:
        """Return the newest reviews of a desk, newest first."""
        with reading(self._engine) as session:
            return tuple(_review(row) for row in KEPT.newest(session, desk))

    def concerns(self, review_id: str, desk: str) -> tuple[DraftConcern, ...]:
        """Return the concerns as they stand now."""
        with reading(self._engine) as session:
            row = KEPT.mine(session, review_id, desk)
            last = KEPT.last(session, review_id)
            return _review(row).concerns if last is None else _concerns(last.concerns)

    def versions(self, review_id: str, desk: str) -> tuple[ReviewVersion, ...]:
        """Return every change, oldest first, those taken back too."""
        query = select(ReviewVersionRow).where(ReviewVersionRow.review_id == review_id)
        with reading(self._engine) as session:
            KEPT.mine(session, review_id, desk)
            rows = session.scalars(query.order_by(ReviewVersionRow.number))
            return tuple(ReviewVersion.model_validate(row, from_attributes=True) for row in rows)

    def change(
        self, review_id: str, desk: str, action: str, concerns: Sequence[DraftConcern]
    ) -> None:
        """Keep the concerns after one change."""
        with writing(self._engine) as session:
            KEPT.mine(session, review_id, desk)
            KEPT.change(session, review_id, action, concerns, self._now())

    def undo(self, review_id: str, desk: str) -> str:
        """Take the last standing change back and return what it was; LabError if there is none."""
        with writing(self._engine) as session:
            KEPT.mine(session, review_id, desk)
            return KEPT.undo(session, review_id, self._now())

    # ---- blind votes -----------------------------------------------------------------------

    def vote(self, desk: str, left: str, right: str, choice: Choice) -> str:
        """Keep a vote between two reviews of this desk and return its id; a second one is the first."""
        row = ReviewVoteRow(
            id=uuid.uuid4().hex,
            voted_at=self._now(),
            rater=desk,
            left_review=left,
            right_review=right,
            choice=choice,
            voided_at=None,
        )
        try:
            with writing(self._engine) as session:
                for review_id in (left, right):
                    KEPT.mine(session, review_id, desk)
                session.add(row)
                return row.id
        except IntegrityError:
            query = select(ReviewVoteRow.id).where(
                ReviewVoteRow.left_review == left,
                ReviewVoteRow.right_review == right,
                ReviewVoteRow.rater == desk,
                ReviewVoteRow.voided_at.is_(None),
            )
            with reading(self._engine) as session:
                return session.scalars(query).one()

    def votes(self, desk: str | None = None) -> tuple[ReviewVote, ...]:
        """Return the standing votes, oldest first; of one desk if it is named."""
        query = select(ReviewVoteRow).where(ReviewVoteRow.voided_at.is_(None))
        if desk is not None:
            query = query.where(ReviewVoteRow.rater == desk)
        with reading(self._engine) as session:
            return tuple(
                ReviewVote(
                    id=row.id,
                    voted_at=row.voted_at,
                    rater=row.rater,
                    left=_review(session.get_one(ReviewRow, row.left_review)),
                    right=_review(session.get_one(ReviewRow, row.right_review)),
                    choice=row.choice,
                )
                for row in session.scalars(query.order_by(ReviewVoteRow.voted_at))
            )


def forget_reviews(session: Session, desks: Sequence[str]) -> None:
    """Delete every review of these desks with its versions and votes."""
    mine = select(ReviewRow.id).where(ReviewRow.session.in_(desks))
    votes = or_(
        ReviewVoteRow.rater.in_(desks),
        ReviewVoteRow.left_review.in_(mine),
        ReviewVoteRow.right_review.in_(mine),
    )
    session.execute(delete(ReviewVoteRow).where(votes))
    session.execute(delete(ReviewVersionRow).where(ReviewVersionRow.review_id.in_(mine)))
    session.execute(delete(ReviewRow).where(ReviewRow.session.in_(desks)))


def _review(row: ReviewRow) -> KeptReview:
    return KeptReview.model_validate(row.document)


def _concerns(document: object) -> tuple[DraftConcern, ...]:
    assert isinstance(document, list)
    return tuple(DraftConcern.model_validate(each) for each in document)
