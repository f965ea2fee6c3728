"""Votes as an arena's board: a rating with its interval for each model, overall and for each kind of question."""

from collections import Counter
from collections.abc import Sequence

from evals.preferences.votes import JudgedPair, names_itself, rater_of
from evals.questions import find
from evals.schema import Answer
from evals.schema.votes import Board, Boards, Reason
from evals.stats.ranking import Vote, ratings

SCORES = {"left": 1.0, "right": 0.0, "tie": 0.5, "both_bad": 0.5}
"""What the left answer gets; that both are bad says as little of who is better as a tie."""
ALL, OWN = "all", "own"
"""Every question; questions that are in no question set."""


def reason_not_blind(pair: JudgedPair) -> Reason | None:
    """Return why a vote says nothing of who is better: both are one model, one names itself, or both say the same."""
    if model_of(pair.left) == model_of(pair.right):
        return "same_model"
    if names_itself(pair.left, pair.right):
        return "names_itself"
    return "identical_texts" if pair.left.text == pair.right.text else None


def model_of(answer: Answer) -> tuple[str, str]:
    """Return what makes a model one: its stage, and the checksum of that, whatever the chain it is used in is called."""
    return answer.stage.partition("@")[0], answer.stage_sha256 or answer.chain


def boards(pairs: Sequence[JudgedPair]) -> Boards:
    """Return the board of all votes that count, then those of each kind of question by their votes."""
    reasons = [reason_not_blind(pair) for pair in pairs]
    kept = [pair for pair, reason in zip(pairs, reasons, strict=True) if reason is None]
    newest = {model_of(each): each for pair in kept for each in (pair.left, pair.right)}
    sharing = Counter(stage for stage, _ in newest)
    twice = Counter((each.stage, each.chain) for each in newest.values())
    names = {}
    for (stage, sha256), each in newest.items():
        chain = f"@{each.chain}" if sharing[stage] > 1 else ""
        names[stage, sha256] = f"{stage}{chain}" + (f" {sha256[:6]}" if twice[each.stage, each.chain] > 1 else "")
    by_kind: dict[str, list[Vote]] = {ALL: []}
    for pair in kept:
        known = find(pair.vote.question)
        left, right = (names[model_of(each)] for each in (pair.left, pair.right))
        vote = Vote(
            left, right, SCORES[pair.vote.choice], known.id if known else pair.vote.question, rater_of(pair.vote)
        )
        for kind in (ALL, known.ground_truth.kind if known else OWN):
            by_kind.setdefault(kind, []).append(vote)
    order = sorted(by_kind, key=lambda kind: (-len(by_kind[kind]), kind != ALL, kind))
    left_out = Counter(reason for reason in reasons if reason)
    return Boards(
        votes=len(pairs),
        left_out={
            reason: left_out[reason]
            for reason in ("names_itself", "identical_texts", "same_model")
            if left_out[reason] or reason != "same_model"
        },
        boards=tuple(_board(kind, by_kind[kind]) for kind in order),
    )


def _board(kind: str, votes: Sequence[Vote]) -> Board:
    return Board(
        kind=kind,
        votes=len(votes),
        questions=len({vote.question for vote in votes}),
        raters=len({vote.rater for vote in votes}),
        rows=tuple(ratings(votes)),
    )
