"""Several votes of one judge on the same question: which verdict stands, and how far they lay apart.

A vote is asked with another seed, and under other names, so the items stand in another order. Two votes
are taken of everything; only what they do not agree on is put to vote again.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from training.judge.questions import CANARY, Question, Verdict

FIRST = 2
"""Votes that are taken of everything, where several are wanted."""


@dataclass
class Ballot:
    """The votes on each question of an answer, by its key, and how often each was put to vote."""

    votes: dict[str, list[Verdict]] = field(default_factory=dict)
    asked: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def add(self, questions: Sequence[Question], verdicts: Mapping[str, Verdict], problem: str) -> None:
        """Count one vote on some questions; what has no verdict did not vote."""
        for question in questions:
            self.asked[question.key] += 1
            if question.key in verdicts:
                self.votes.setdefault(question.key, []).append(verdicts[question.key])
        if problem:
            self.problems.append(problem)

    def of(self, key: str) -> list[Verdict]:
        """Return the votes on a question."""
        return self.votes.get(key, [])

    @property
    def has_several(self) -> bool:
        """Whether anything was put to vote more than once."""
        return any(times > 1 for key, times in self.asked.items() if key != CANARY)

    def standing(self) -> dict[str, Verdict]:
        """Return the verdicts that stand, by key."""
        found = {key: majority(votes, self.asked[key]) for key, votes in self.votes.items()}
        return {key: verdict for key, verdict in found.items() if verdict is not None}


def majority(votes: Sequence[Verdict], asked: int) -> Verdict | None:
    """Return the verdict that stands; None if no more than half of the votes asked for came.

    It is the number most votes have; where several share that, or each has its own, the median. The
    words are those of the vote nearest to it.

    >>> majority([Verdict(2.0, "down"), Verdict(0.0, ""), Verdict(2.0, "is down")], 3)
    Verdict(score=2.0, quote='down')
    """
    if 2 * len(votes) <= asked:
        return None
    (score, most), *others = Counter(vote.score for vote in votes).most_common(2)
    if others and others[0][1] == most:
        score = float(median(vote.score for vote in votes))
    nearest = min(votes, key=lambda vote: abs(vote.score - score))
    return Verdict(score, nearest.quote)


def apart(votes: Sequence[Verdict], top: float) -> float:
    """Return how far votes lie apart, as a share 0..1 of the scale; 0 for fewer than two."""
    scores = [vote.score for vote in votes]
    return (max(scores) - min(scores)) / top if scores else 0.0


def is_open(votes: Sequence[Verdict]) -> bool:
    """Return whether the first votes leave a question open: they differ, or one is missing."""
    return len(votes) < FIRST or len({vote.score for vote in votes}) > 1
