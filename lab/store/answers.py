"""Answers, comparisons and raters in the database."""

import hashlib
import hmac
import time
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple

from sqlalchemy import ColumnElement, case, delete, func, insert, select, true, union
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session, aliased

from evals.errors import LabError
from evals.schema import Answer, Choice, Comparison, VoteCounts
from evals.schema.votes import JudgedPair, VoteEvent, count_pairs, outcome_of
from lab.store.annotations import Annotations, forget_annotations
from lab.store.database import (
    REVISION,
    AnnotationRow,
    AnswerRow,
    ComparisonRow,
    DeedRow,
    DocumentRow,
    DoneRow,
    JobRow,
    SettingRow,
    explain_errors,
    open_engine,
    reading,
    revision,
    writing,
)
from lab.store.documents import Documents, JobRows, forget_documents
from lab.ui.text import say


class Deed(NamedTuple):
    """One line of the log."""

    at: datetime
    who: str
    what: str
    about: str


Mark = tuple[int, int, int, datetime | None]
"""How many answers, votes and votes taken back there are, and when the last vote was cast."""
FELL_SECONDS = 10.0  # so much later votes of another process count in the choice of the next match
STANDS = ComparisonRow.voided_at.is_(None)


def is_current(url: str) -> bool:
    """Say whether the tables at `url` are there and up to date; if not, `lab.store.database.upgrade`."""
    engine = open_engine(url)
    try:
        with reading(engine) as session:
            return revision(session.connection()) == REVISION
    finally:
        engine.dispose()


class Store:
    """Answers and votes in one database; every method may be called from any thread.

    Raises LabError where the database cannot be opened, read or written, and where its tables
    are not those of this version (`lab.services.open_store` sees to that). `tell` gets a line of JSON, a `VoteEvent`,
    for each vote that was kept or taken back; a double click is told once.
    """

    def __init__(
        self,
        url: str,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        tell: Callable[[str], None] | None = None,
    ) -> None:
        self._now, self._tell, self._fell_at = now, tell, -FELL_SECONDS
        self._fell = Counter[tuple[str, str, Choice]]()
        self._counted: tuple[Mark, VoteCounts] | None = None
        self._engine = open_engine(url)
        try:
            with reading(self._engine) as session:
                stands_at = revision(session.connection())
                if stands_at != REVISION:
                    where = self._engine.url.render_as_string(hide_password=True)
                    raise LabError(say("store.revision", where=where, stands_at=stands_at, revision=REVISION))
                self._salt = bytes.fromhex(session.get_one(SettingRow, "rater_salt").value)
        except LabError:
            self.close()
            raise

    def documents(
        self, task: Literal["review", "review_asked", "refine", "questions", "question_set"]
    ) -> Documents[Any]:
        """Return documents and what people made of them: reviews of papers, graded answers, question sets."""
        return Documents(self._engine, self._now, task)

    @property
    def annotations(self) -> Annotations:
        """What people say of answers, in projects."""
        return Annotations(self._engine, self._now)

    @property
    def jobs(self) -> JobRows:
        """Long work, and who does it."""
        return JobRows(self._engine, self._now)

    def close(self) -> None:
        self._engine.dispose()

    # ---- answers ---------------------------------------------------------------------------

    def add_answers(self, answers: Sequence[Answer]) -> None:
        """Keep `answers`: all of them or, if anything fails, none."""
        with writing(self._engine) as session:
            verdicts = [each.verdict.model_dump(mode="json") if each.verdict else None for each in answers]
            if rows := [dict(each) | {"verdict": told} for each, told in zip(answers, verdicts, strict=True)]:
                session.execute(insert(AnswerRow), rows)

    def answers(self, session: str | None = None, limit: int = 100) -> tuple[Answer, ...]:
        """Return the newest answers, newest first; of one session if it is named."""
        query = select(AnswerRow).order_by(AnswerRow.asked_at.desc(), AnswerRow.id).limit(limit)
        if session is not None:
            query = query.where(AnswerRow.session == session)
        with reading(self._engine) as database:
            return tuple(_answer(row) for row in database.scalars(query))

    def answers_by_id(self, ids: Sequence[str], session: str) -> tuple[Answer, ...]:
        """Return the answers of these ids, in their order, as far as they are of this session."""
        query = select(AnswerRow).where(AnswerRow.id.in_(ids), AnswerRow.session == session)
        with reading(self._engine) as database:
            found = {row.id: _answer(row) for row in database.scalars(query)}
        return tuple(found[each] for each in ids if each in found)

    # ---- votes -----------------------------------------------------------------------------

    def add_comparison(self, comparison: Comparison) -> Comparison:
        """Keep one vote, or find this rater's first on the pair, and return it; LabError without its answers."""
        vote = comparison.model_copy(update={"rater": self.hash_rater(comparison.rater)})
        try:
            with writing(self._engine) as session:
                both = _answers_of(session, vote)
                told = [_answer(each) for each in both] if self._tell else []
                session.execute(insert(ComparisonRow), dict(vote))
        except IntegrityError:
            if first := self.vote_on(vote.left_answer, vote.right_answer, comparison.rater):
                return first
            raise
        self._fell[vote.left_stage, vote.right_stage, vote.choice] += 1
        if self._tell is not None:
            event = VoteEvent(kind="vote", at=vote.voted_at, vote_id=vote.id, vote=vote, left=told[0], right=told[1])
            self._tell(event.model_dump_json())
        return vote

    def explain_comparison(self, comparison_id: str, rater: str, **said: Any) -> None:
        """Keep the `strength`, `reasons` and `remark` of a standing vote; LabError if `rater` (name or hash) has none such."""
        with writing(self._engine) as session:
            row = session.get(ComparisonRow, comparison_id)
            if row is None or row.voided_at or row.rater not in self._names(rater):
                raise LabError(say("store.no_vote", vote=comparison_id))
            vote = Comparison.model_validate({**dict(_vote(row)), **said})
            row.strength, row.reasons, row.remark = vote.strength, vote.reasons, vote.remark
        if self._tell is not None:
            event = VoteEvent(kind="explained", at=self._now(), vote_id=vote.id, vote=vote)
            self._tell(event.model_dump_json())

    def vote_on(self, left: str, right: str, rater: str) -> Comparison | None:
        """Return the standing vote of a rater on a pair of answers; None if there is none."""
        same = {"left_answer": left, "right_answer": right, "rater": self.hash_rater(rater)}
        with reading(self._engine) as session:
            first = session.scalar(select(ComparisonRow).where(STANDS).filter_by(**same))
            return None if first is None else _vote(first)

    def void_comparison(self, comparison_id: str, rater: str) -> None:
        """Take a vote back: it stays, marked, and counts nowhere. LabError if `rater` (a name or its hash) has none such."""
        with writing(self._engine) as session:
            row = session.get(ComparisonRow, comparison_id)
            if row is None or row.rater not in self._names(rater):
                raise LabError(say("store.no_vote", vote=comparison_id))
            row.voided_at = row.voided_at or self._now()
        self._fell_at = -FELL_SECONDS
        if self._tell is not None:
            self._tell(VoteEvent(kind="withdrawn", at=self._now(), vote_id=comparison_id).model_dump_json())

    def comparisons(self) -> tuple[Comparison, ...]:
        """Return the standing votes, newest first."""
        newest = (ComparisonRow.voted_at.desc(), ComparisonRow.id)
        query = select(ComparisonRow).where(STANDS).order_by(*newest)
        with reading(self._engine) as session:
            return tuple(_vote(row) for row in session.scalars(query))

    def preference_pairs(
        self, newest: int | None = None, questions: Collection[str] | None = None
    ) -> tuple[JudgedPair, ...]:
        """Return standing votes with both answers in full, oldest first: so many of the newest, on these questions."""
        left, right = aliased(AnswerRow), aliased(AnswerRow)
        order = (ComparisonRow.voted_at.desc(), ComparisonRow.id.desc())
        asked = true() if questions is None else ComparisonRow.question.in_(questions)
        wanted = select(ComparisonRow.id).where(STANDS, asked).order_by(*order).limit(newest)  # before answers are read
        query = _votes_with_answers(select(ComparisonRow, left, right), left, right)
        query = query.where(ComparisonRow.id.in_(wanted.subquery().select())).order_by(*order)
        with reading(self._engine) as session:
            found = reversed(session.execute(query).all())
            return tuple(JudgedPair(_vote(vote), *map(_answer, both)) for vote, *both in found)

    def matches(self, rater: str) -> tuple[Counter[tuple[str, str, Choice]], Counter[tuple[str, str]]]:
        """Return how standing votes fell between left and right stage, and how often this rater voted on each two so."""
        sides = (ComparisonRow.left_stage, ComparisonRow.right_stage)
        own = select(*sides, func.count()).where(ComparisonRow.rater.in_(self._names(rater))).group_by(*sides)
        with reading(self._engine) as session:
            if time.monotonic() - self._fell_at > FELL_SECONDS:
                kinds, self._fell_at = (*sides, ComparisonRow.choice), time.monotonic()
                found = session.execute(select(*kinds, func.count()).where(STANDS).group_by(*kinds))
                self._fell = Counter({(left, right, choice): n for left, right, choice, n in found})
            return self._fell, Counter({(left, right): n for left, right, n in session.execute(own)})

    def mark(self) -> Mark:
        """Return what another answer or vote changes: what was made of votes holds while this is the same."""
        votes = select(func.count(), func.count(ComparisonRow.voided_at), func.max(ComparisonRow.voted_at))
        with reading(self._engine) as session:
            n, withdrawn, last = session.execute(votes.select_from(ComparisonRow)).one()
            return _number(session, AnswerRow.id), n, withdrawn, last

    def counts(self) -> VoteCounts:
        """Return how many answers and votes there are, by choice and by pair of stages."""
        mark = self.mark()
        if self._counted is None or self._counted[0] != mark:
            self._counted = mark, self._count()
        return self._counted[1]

    def _count(self) -> VoteCounts:
        left, right = aliased(AnswerRow), aliased(AnswerRow)
        kinds = (ComparisonRow.left_stage, ComparisonRow.right_stage, ComparisonRow.choice, left.text == right.text)
        query = _votes_with_answers(select(*kinds, func.count(ComparisonRow.id)), left, right).group_by(*kinds)
        rater = case((ComparisonRow.is_anonymous, ""), else_=ComparisonRow.rater)
        by_choice: dict[Choice, int] = {"left": 0, "right": 0, "tie": 0, "both_bad": 0}
        with reading(self._engine) as session:
            found = [
                outcome_of((first, second), choice, same_text=same, votes=votes)
                for first, second, choice, same, votes in session.execute(query)
            ]
            for outcome in found:
                by_choice[outcome.choice] += outcome.votes
            return VoteCounts(
                answers=_number(session, AnswerRow.id),
                votes=sum(by_choice.values()),
                withdrawn=_number(session, ComparisonRow.id, ~STANDS),
                raters=_number(session, rater.distinct(), STANDS),
                usable=sum(one.votes for one in found if one.winner),
                by_choice=by_choice,
                by_stages=count_pairs(found),
            )

    # ---- raters ----------------------------------------------------------------------------

    def belongings(self, rater: str) -> dict[str, int]:
        """Return how much there is of a rater, by kind, votes taken back too: what `forget_rater` would delete."""
        with reading(self._engine) as session:
            return _belongings(session, self._names(rater), self._sessions_of(rater))

    def forget_rater(self, rater: str) -> dict[str, int]:
        """Delete all there is of a rater, by identifier or hash, and return how much went, by kind."""
        names, asked = self._names(rater), self._sessions_of(rater)
        with writing(self._engine) as session:
            gone = _belongings(session, names, asked)
            session.execute(delete(ComparisonRow).where(ComparisonRow.rater.in_(names)))
            session.execute(delete(AnswerRow).where(_own(asked, names)))
            forget_documents(session, names)
            forget_annotations(session, names)
            session.execute(delete(JobRow).where(JobRow.who.in_(names)))
        return gone

    def _names(self, rater: str) -> tuple[str, str]:
        return rater, self.hash_rater(rater)

    def _sessions_of(self, rater: str) -> tuple[str, ...]:
        """Return the sessions in which a rater asked, one for each tab."""
        return tuple(self.hash_rater(f"{tab} {rater}") for tab in ("ask", "compare"))

    def hash_rater(self, rater: str) -> str:
        """Return the name under which this store keeps `rater`: 32 hexadecimal digits."""
        return hmac.new(self._salt, rater.encode(), hashlib.sha256).hexdigest()[:32]

    # ---- the log ---------------------------------------------------------------------------

    def log(self, who: str, what: str, about: str, at: datetime) -> None:
        """Keep who did what; nothing here is ever changed."""
        with writing(self._engine) as session:
            session.add(DeedRow(id=uuid.uuid4().hex, at=at, who=who, what=what, about=about))

    def deeds(self, newest: int) -> tuple[Deed, ...]:
        """Return what was logged, newest first."""
        query = select(DeedRow).order_by(DeedRow.at.desc(), DeedRow.id).limit(newest)
        with reading(self._engine) as session:
            return tuple(Deed(row.at, row.who, row.what, row.about) for row in session.scalars(query))

    def is_done(self, action: str) -> bool:
        """Say whether something was kept of a page's action, by its key."""
        with reading(self._engine) as session:
            return session.get(DoneRow, action) is not None

    def back_up(self, to: Path) -> None:
        """Write a whole copy of a SQLite database beside its use; LabError where `to` is there, or for a server's."""
        if self._engine.dialect.name != "sqlite":
            raise LabError(say("backup.server"))
        if to.exists():
            raise LabError(say("backup.taken", file=to))
        with explain_errors(self._engine), closing(self._engine.raw_connection()) as connection:
            connection.cursor().execute("VACUUM INTO ?", (str(to),))


def _answer(row: AnswerRow) -> Answer:
    return Answer.model_validate(row, from_attributes=True)


def _vote(row: ComparisonRow) -> Comparison:
    return Comparison.model_validate(row, from_attributes=True)


def _votes_with_answers(query: Any, left: Any, right: Any) -> Any:
    """Return a query over the standing votes with the two answers of each."""
    query = query.join(left, left.id == ComparisonRow.left_answer)
    return query.join(right, right.id == ComparisonRow.right_answer).where(STANDS)


def _number(session: Session, column: Any, *which: ColumnElement[bool]) -> int:
    return session.execute(select(func.count(column)).where(*which)).scalar_one()


def _own(sessions: Collection[str], names: Collection[str]) -> ColumnElement[bool]:
    """Return which answers these sessions asked for that nobody else voted on."""
    sides = (ComparisonRow.left_answer, ComparisonRow.right_answer)
    judged = union(*(select(side).where(ComparisonRow.rater.not_in(names)) for side in sides))
    return AnswerRow.session.in_(sessions) & AnswerRow.id.not_in(judged)


def _belongings(session: Session, names: Collection[str], asked: Collection[str]) -> dict[str, int]:
    mine = DocumentRow.session.in_(names)
    return {
        "votes": _number(session, ComparisonRow.id, ComparisonRow.rater.in_(names)),
        "reviews": _number(session, DocumentRow.id, mine, DocumentRow.task == "review"),
        "graded_answers": _number(session, DocumentRow.id, mine, DocumentRow.task == "refine"),
        "annotations": _number(session, AnnotationRow.item.distinct(), AnnotationRow.rater.in_(names)),
        "answers": _number(session, AnswerRow.id, _own(asked, names)),
        "question_drafts": _number(session, DocumentRow.id, mine, DocumentRow.task == "questions"),
    }


def _answers_of(session: Session, vote: Comparison) -> list[AnswerRow]:
    """Return the two answers that a vote is about; LabError for one that is not there, ValueError for another one."""
    stages = {vote.left_answer: vote.left_stage, vote.right_answer: vote.right_stage}
    found = {row.id: row for row in session.scalars(select(AnswerRow).where(AnswerRow.id.in_(stages)))}
    for name, stage in stages.items():
        if name not in found:
            raise LabError(say("store.no_answer", answer=name))
        if (found[name].stage, found[name].question) != (stage, vote.question):
            told = f"names stage {stage!r} and question {vote.question[:60]!r}; answer {name!r} has others"
            raise ValueError(f"vote {vote.id!r} {told}")
    return [found[vote.left_answer], found[vote.right_answer]]
