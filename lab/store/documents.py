"""Graded answers in the store: as they were written, and every version of what people made of them.

Who may read and change them, and what becomes of versions: `lab.store.documents`.
"""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from pydantic import BaseModel
from sqlalchemy import ColumnElement, Engine, delete, or_, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from evals.errors import LabError
from evals.schema import Choice
from evals.schema.refiner import KeptRefinement, Mark, Worked
from evals.schema.reviewruns import DraftConcern, KeptReview, ReviewVersion
from lab.store.database import reading, writing
from lab.store.tables import RefinementRow, RefinementVersionRow, ReviewRow, ReviewVersionRow, ReviewVoteRow
from lab.ui.text import say

LISTED = 30
Row = TypeVar("Row", ReviewRow, RefinementRow)
Version = TypeVar("Version", ReviewVersionRow, RefinementVersionRow)


@dataclass(frozen=True)
class Versions(Generic[Row, Version]):
    """Where one kind of thing and its versions stand.

    `of` names the column that says what a version is of, `content` the one that holds it; `words` is what the sentences about this kind of thing are called by.
    """

    row: type[Row]
    version: type[Version]
    of: str
    content: str
    words: str

    def mine(self, session: Session, name: str, desk: str) -> Row:
        """Return a thing of this desk; LabError if there is none."""
        row = session.get(self.row, name)
        if row is None or row.session != desk:
            raise LabError(say(f"{self.words}.gone"))
        return row

    def newest(self, session: Session, desk: str) -> Sequence[Row]:
        """Return the newest things of a desk, newest first."""
        row = self.row
        query = select(row).where(row.session == desk).order_by(row.made_at.desc(), row.id)
        return session.scalars(query.limit(LISTED)).all()

    def last(self, session: Session, name: str) -> Version | None:
        """Return the last version that stands; None if nothing was changed, or all was taken back."""
        version = self.version
        query = select(version).where(self._of(name), version.voided_at.is_(None))
        return session.scalar(query.order_by(version.number.desc()).limit(1))

    def change(self, session: Session, name: str, action: str, content: Sequence[BaseModel], now: datetime) -> None:
        """Keep a thing of this session's desk after one change."""
        version = self.version
        newest = select(version.number).where(self._of(name)).order_by(version.number.desc())
        fields: dict[str, Any] = {
            self.of: name,
            self.content: [each.model_dump(mode="json") for each in content],
        }
        session.add(
            version(
                id=uuid.uuid4().hex,
                number=(session.scalar(newest.limit(1)) or 0) + 1,
                made_at=now,
                action=action,
                voided_at=None,
                **fields,
            )
        )

    def undo(self, session: Session, name: str, now: datetime) -> str:
        """Take the last standing change back and return what it was; LabError if there is none."""
        last = self.last(session, name)
        if last is None:
            raise LabError(say(f"{self.words}.nothing_to_undo"))
        last.voided_at = now
        return last.action

    def _of(self, name: str) -> ColumnElement[bool]:
        return getattr(self.version, self.of) == name


SHELF_KEPT = Versions(ReviewRow, ReviewVersionRow, "review_id", "concerns", "review")


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
            return _review(SHELF_KEPT.mine(session, review_id, desk))

    def reviews(self, desk: str) -> tuple[KeptReview, ...]:
        """Return the newest reviews of a desk, newest first."""
        with reading(self._engine) as session:
            return tuple(_review(row) for row in SHELF_KEPT.newest(session, desk))

    def concerns(self, review_id: str, desk: str) -> tuple[DraftConcern, ...]:
        """Return the concerns as they stand now."""
        with reading(self._engine) as session:
            row = SHELF_KEPT.mine(session, review_id, desk)
            last = SHELF_KEPT.last(session, review_id)
            return _review(row).concerns if last is None else _concerns(last.concerns)

    def versions(self, review_id: str, desk: str) -> tuple[ReviewVersion, ...]:
        """Return every change, oldest first, those taken back too."""
        query = select(ReviewVersionRow).where(ReviewVersionRow.review_id == review_id)
        with reading(self._engine) as session:
            SHELF_KEPT.mine(session, review_id, desk)
            rows = session.scalars(query.order_by(ReviewVersionRow.number))
            return tuple(ReviewVersion.model_validate(row, from_attributes=True) for row in rows)

    def change(self, review_id: str, desk: str, action: str, concerns: Sequence[DraftConcern]) -> None:
        """Keep the concerns after one change."""
        with writing(self._engine) as session:
            SHELF_KEPT.mine(session, review_id, desk)
            SHELF_KEPT.change(session, review_id, action, concerns, self._now())

    def undo(self, review_id: str, desk: str) -> str:
        """Take the last standing change back and return what it was; LabError if there is none."""
        with writing(self._engine) as session:
            SHELF_KEPT.mine(session, review_id, desk)
            return SHELF_KEPT.undo(session, review_id, self._now())

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
                    SHELF_KEPT.mine(session, review_id, desk)
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


KEPT = Versions(RefinementRow, RefinementVersionRow, "refinement_id", "marks", "refine")


class Workbench:
    """Refinements in one database; every method may be called from any thread."""

    def __init__(self, engine: Engine, now: Callable[[], datetime]) -> None:
        self._engine, self._now = engine, now

    def add(self, kept: KeptRefinement) -> None:
        """Keep answers as they were graded."""
        row = RefinementRow(
            id=kept.id,
            made_at=kept.made_at,
            session=kept.session,
            document=kept.model_dump(mode="json"),
        )
        with writing(self._engine) as session:
            session.add(row)

    def worked(self, name: str, desk: str) -> Worked:
        """Return a refinement of this desk as it stands; LabError if there is none."""
        with reading(self._engine) as session:
            return _worked(session, KEPT.mine(session, name, desk))

    def newest(self, desk: str) -> tuple[KeptRefinement, ...]:
        """Return the newest refinements of a desk, newest first."""
        with reading(self._engine) as session:
            return tuple(_kept(row) for row in KEPT.newest(session, desk))

    def everything(self, desk: str | None = None) -> tuple[Worked, ...]:
        """Return all refinements as they stand, oldest first; of one desk if it is named."""
        query = select(RefinementRow).order_by(RefinementRow.made_at, RefinementRow.id)
        if desk is not None:
            query = query.where(RefinementRow.session == desk)
        with reading(self._engine) as session:
            return tuple(_worked(session, row) for row in session.scalars(query))

    def change(self, name: str, desk: str, action: str, marks: Sequence[Mark]) -> None:
        """Keep the marks after one change."""
        with writing(self._engine) as session:
            KEPT.mine(session, name, desk)
            KEPT.change(session, name, action, marks, self._now())

    def undo(self, name: str, desk: str) -> str:
        """Take the last standing change back and return what it was; LabError if there is none."""
        with writing(self._engine) as session:
            KEPT.mine(session, name, desk)
            return KEPT.undo(session, name, self._now())


def forget_refinements(session: Session, desks: Sequence[str]) -> None:
    """Delete every refinement of these desks with its versions."""
    mine = select(RefinementRow.id).where(RefinementRow.session.in_(desks))
    session.execute(delete(RefinementVersionRow).where(RefinementVersionRow.refinement_id.in_(mine)))
    session.execute(delete(RefinementRow).where(RefinementRow.session.in_(desks)))


def _worked(session: Session, row: RefinementRow) -> Worked:
    last = KEPT.last(session, row.id)
    marks = last.marks if last is not None else []
    return Worked(kept=_kept(row), marks=tuple(Mark.model_validate(mark) for mark in marks))


def _kept(row: RefinementRow) -> KeptRefinement:
    return KeptRefinement.model_validate(row.document)
