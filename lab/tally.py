"""Counting votes in the database, and what there is of one rater, without loading a single answer."""

from collections.abc import Collection, Iterable
from dataclasses import astuple, dataclass

from sqlalchemy import ColumnElement, Select, func, or_, select
from sqlalchemy.orm import InstrumentedAttribute, Session, aliased

from evals.schema import Choice, VoteCounts
from lab.outcomes import Outcome, count_pairs, outcome_of
from lab.tables import AnswerRow, ComparisonRow, RefinementRow, ReviewRow, ReviewVoteRow


@dataclass(frozen=True)
class Belongings:
    """How much of one rater the database holds, by kind; votes that were taken back count too."""

    votes: int
    review_votes: int
    reviews: int
    graded_answers: int

    @property
    def total(self) -> int:
        """All kinds together; 0 = nothing is known of such a rater."""
        return sum(astuple(self))


def tally(session: Session) -> VoteCounts:
    """Return how many answers and votes there are, by choice and by pair of stages."""
    outcomes = tuple(_outcomes(session))
    by_choice: dict[Choice, int] = {"left": 0, "right": 0, "tie": 0, "both_bad": 0}
    for outcome in outcomes:
        by_choice[outcome.choice] += outcome.votes
    stands = ComparisonRow.voided_at.is_(None)
    return VoteCounts(
        answers=_number(session, select(func.count(AnswerRow.id))),
        votes=sum(by_choice.values()),
        withdrawn=_number(session, select(func.count(ComparisonRow.id)).where(~stands)),
        raters=_number(session, select(func.count(ComparisonRow.rater.distinct())).where(stands)),
        usable=sum(one.votes for one in outcomes if one.winner and not one.same_text),
        by_choice=by_choice,
        by_stages=count_pairs(outcomes),
    )


def belongings_of(session: Session, names: Collection[str]) -> Belongings:
    """Return what there is of the rater who goes by these names: all that forgetting them deletes."""
    theirs = select(ReviewRow.id).where(ReviewRow.session.in_(names))
    about = (ReviewVoteRow.left_review.in_(theirs), ReviewVoteRow.right_review.in_(theirs))

    def rows(column: InstrumentedAttribute[str], *which: ColumnElement[bool]) -> int:
        return _number(session, select(func.count(column)).where(or_(*which)))

    return Belongings(
        votes=rows(ComparisonRow.id, ComparisonRow.rater.in_(names)),
        review_votes=rows(ReviewVoteRow.id, ReviewVoteRow.rater.in_(names), *about),
        reviews=rows(ReviewRow.id, ReviewRow.session.in_(names)),
        graded_answers=rows(RefinementRow.id, RefinementRow.session.in_(names)),
    )


def _number(session: Session, query: Select[int]) -> int:
    return session.execute(query).scalar_one()


def _outcomes(session: Session) -> Iterable[Outcome]:
    left, right = aliased(AnswerRow), aliased(AnswerRow)
    kinds = (
        ComparisonRow.left_stage,
        ComparisonRow.right_stage,
        ComparisonRow.choice,
        left.text == right.text,
    )
    query = (
        select(*kinds, func.count(ComparisonRow.id))
        .join(left, left.id == ComparisonRow.left_answer)
        .join(right, right.id == ComparisonRow.right_answer)
        .where(ComparisonRow.voided_at.is_(None))
        .group_by(*kinds)
    )
    for left_stage, right_stage, choice, same_text, votes in session.execute(query):
        yield outcome_of((left_stage, right_stage), choice, same_text=same_text, votes=votes)
